"""Tiny random models that write steps, a byte tokenizer, scripted judges, plain references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from confu_demo.config import ConfspecConfig, DecodeConfig, SamplingConfig
from confu_demo.decoding.base import BoundModel, DecodeRequest, LaneClock
from confu_demo.decoding.confspec import ConfspecDecoder
from confu_demo.decoding.judge import Judgement, Opinion, StepPair
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.engine.target import LeanModel
from confu_demo.engine.text import Detokenizer
from confu_demo.engine.weights import weight_shapes
from confu_demo.trace import (
    Event,
    ModelInfo,
    RunFinished,
    StepResolved,
    TokensCommitted,
    Verdict,
)
from confu_demo.trace_validation import validate

BOS, EOS = "<bos>", "<eos>"
WORDS = ("\n\n", ".\n\n", " same", " different")
"""Texts that are one token of the toy tokenizer, beside the 256 bytes."""


def toy_tokenizer(words: Sequence[str] = WORDS) -> PreTrainedTokenizerFast:
    """Byte-level BPE whose merges build exactly ``words`` (each may build on earlier ones)."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocab = {BOS: 0, EOS: 1}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[letter] = len(vocab)
    merges: list[tuple[str, str]] = []
    for word in words:
        pieces = list(byte_level.pre_tokenize_str(word)[0][0])
        if word == ".\n\n":  # from the token of the blank line
            pieces = [pieces[0], pieces[1] + pieces[2]]
        left = pieces[0]
        for right in pieces[1:]:
            if left + right not in vocab:
                vocab[left + right] = len(vocab)
                merges.append((left, right))
            left += right
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = byte_level
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        clean_up_tokenization_spaces=False,
    )


TOKENIZER = toy_tokenizer()
BLANK = TOKENIZER.encode("\n\n", add_special_tokens=False)[0]
EOS_ID = TOKENIZER.eos_token_id
PROMPT = TOKENIZER.encode("ab: cd\n\n", add_special_tokens=False)


def model_config(num_layers: int = 2, max_positions: int = 512) -> ModelConfig:
    return ModelConfig(
        family="qwen3",
        vocab_size=len(TOKENIZER),
        hidden_size=16,
        intermediate_size=24,
        num_layers=num_layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=4,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        rope_scaling=None,
        max_positions=max_positions,
        tie_embeddings=False,
        attention_bias=False,
        qk_norm=True,
    )


def weights_of(config: ModelConfig, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        * (0.4 if len(shape) > 1 else 0.1)
        + (1.0 if len(shape) == 1 else 0.0)
        for name, shape in weight_shapes(config).items()
    }


def random_model(
    seed: int = 0,
    *,
    blank: float = 5.0,
    eos: float = 0.5,
    difference: float = 0.0,
    scales: Mapping[int, float] | None = None,
    max_positions: int = 512,
) -> LeanModel:
    """A float64 model. ``blank`` and ``eos`` scale the output rows of the blank line and of the
    end of sequence: above 1 they come often, at 0 (beside strong others) hardly ever; ``scales``
    does so for other tokens.
    ``difference`` perturbs the weights, so that a draft model sometimes agrees with its target."""
    config = model_config(max_positions=max_positions)
    weights = weights_of(config, seed)
    if difference:
        noise = weights_of(config, seed + 1000)
        weights = {name: weights[name] + difference * noise[name] for name in weights}
    for token, scale in {BLANK: blank, EOS_ID: eos, **(scales or {})}.items():
        weights["lm_head.weight"][token] *= scale
    return LeanModel(config, weights, dtype=torch.float64)


def bind(model: LeanModel, role: str = "target") -> BoundModel:
    info = ModelInfo(role=role, name="tiny", sha256="0" * 64, num_parameters=1)
    return BoundModel(
        model=model,
        tokenizer=TOKENIZER,
        detokenizer=Detokenizer(TOKENIZER),
        eos_ids=frozenset({EOS_ID}),
        info=info,
    )


@dataclass
class ScriptedJudge:
    """Answers by a rule and keeps the pairs it was asked about, call by call."""

    rule: Callable[[StepPair], Opinion]
    calls: list[list[StepPair]] = field(default_factory=list)

    def compare(self, pairs: Sequence[StepPair]) -> Judgement:
        self.calls.append(list(pairs))
        return Judgement(opinions=tuple(map(self.rule, pairs)), num_tokens=len(pairs))


def always(verdict: Verdict, confidence: float = 0.99, mass: float = 1.0) -> ScriptedJudge:
    opinion = Opinion(verdict=verdict, confidence=confidence, mass=mass)
    return ScriptedJudge(lambda pair: opinion)


def by_length(pair: StepPair) -> Opinion:
    """An arbitrary but fixed taste, which uses every path of the gate."""
    score = (3 * len(pair[0]) + 5 * len(pair[1])) % 10
    return Opinion(
        verdict="same" if score % 3 else "different",
        confidence=0.5 + score / 20,
        mass=0.2 if score == 8 else 0.9,
    )


def settings(
    max_new_tokens: int = 60, *, temperature: float = 0.0, seed: int = 0, **confspec: object
) -> DecodeConfig:
    return DecodeConfig(
        max_new_tokens=max_new_tokens,
        sampling=SamplingConfig(temperature=temperature, seed=seed),
        confspec=ConfspecConfig(**{"max_step_tokens": 12, **confspec}),  # type: ignore[arg-type]
    )


def decoder_of(target: LeanModel, draft: LeanModel, **judges) -> ConfspecDecoder:
    return ConfspecDecoder(bind(target), bind(draft, "draft_model"), **judges)


def run_confspec(
    decoder: ConfspecDecoder, config: DecodeConfig, prompt: Sequence[int] = PROMPT
) -> list[Event]:
    """All events of a run; every run of every test keeps the promises of its events."""
    request = DecodeRequest(token_ids=tuple(prompt), text="")
    events = list(decoder.decode(request, config, LaneClock(), lambda: False))
    assert validate(events) == ()
    return events


def output_of(events: Sequence[Event]) -> list[int]:
    return [t for e in events if isinstance(e, TokensCommitted) for t in e.token_ids]


def end_of(events: Sequence[Event]) -> RunFinished:
    end = events[-1]
    assert isinstance(end, RunFinished)
    return end


def text_of(ids: Sequence[int]) -> str:
    return TOKENIZER.decode(ids, skip_special_tokens=True).strip()


def authors_of(events: Sequence[Event]) -> list[str]:
    return [event.kept for event in events if isinstance(event, StepResolved)]


def of(kind: type, events: Sequence[Event]) -> list:
    return [event for event in events if isinstance(event, kind)]


class PlainWriter:
    """Decodes by feeding one token after another to a fresh cache: the slow reference."""

    def __init__(self, model: LeanModel, sampling: SamplingConfig, noise_seed: int) -> None:
        self.model, self.sampling = model, sampling
        self.noise = PositionNoise(noise_seed, model.config.vocab_size)

    def tokens(self, prefix: Sequence[int], limit: int) -> Iterator[int]:
        """Up to ``limit`` tokens; an end of sequence is the last."""
        cache = self.model.new_cache(len(prefix) + limit)
        new = list(prefix)
        for position in range(len(prefix), len(prefix) + limit):
            logits = self.model.forward(cache, token_ids=torch.tensor(new)).logits[-1]
            new = sample(logits, self.sampling, self.noise, [position]).tolist()
            yield new[0]
            if new == [EOS_ID]:
                return

    def step(self, prefix: Sequence[int], limit: int) -> tuple[list[int], bool]:
        """One step and whether it is complete; boundaries are found in the decoded text."""
        ids: list[int] = []
        for token in self.tokens(prefix, limit):
            ids.append(token)
            if token == EOS_ID or "\n\n" in TOKENIZER.decode(ids):
                return ids, True
        return ids, False
