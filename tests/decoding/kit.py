"""Tiny random models and heads for decoder tests, and drafters that cheat.

A random head accepts almost nothing, so :class:`KnowingDrafter` is told the target's output and
drafts trees that hold a chosen number of right tokens among wrong ones: long accepted paths, full
acceptance and an end of text in mid-path then really happen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from confu_demo.config import DecodeConfig, SamplingConfig, TreeConfig
from confu_demo.decoding.autoregressive import AutoregressiveDecoder
from confu_demo.decoding.base import BoundModel, Decoder, DecodeRequest, LaneClock
from confu_demo.decoding.confu import ConfuDecoder
from confu_demo.decoding.draft_tree import TokenTree, make_tree
from confu_demo.decoding.drafting import Drafter, FutureInput
from confu_demo.decoding.eagle3 import Eagle3Decoder
from confu_demo.decoding.growth import Growth
from confu_demo.engine.model_config import Family, ModelConfig
from confu_demo.engine.target import LeanModel
from confu_demo.engine.text import Detokenizer
from confu_demo.engine.weights import random_weights
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleConfig, EagleHead
from confu_demo.trace import Event, ModelInfo, RunFinished, TokensCommitted
from confu_demo.trace_validation import validate

PROMPT = (1, 3, 2, 4, 0, 3)
MAX_POSITIONS = 96


def tiny_model(
    family: Family = "llama",
    *,
    vocab_size: int = 23,
    seed: int = 0,
    num_layers: int = 3,
    dtype: torch.dtype = torch.float32,
) -> LeanModel:
    """``num_layers`` x 32 with 4 query and 2 key/value heads."""
    config = ModelConfig(
        family=family,
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=48,
        num_layers=num_layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        rope_scaling=None,
        max_positions=MAX_POSITIONS,
        tie_embeddings=False,
        attention_bias=family == "qwen2",
        qk_norm=family == "qwen3",
    )
    return LeanModel(config, random_weights(config, seed=seed), dtype=dtype)


def byte_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """Token i is one byte: letters first, so that small vocabularies print; later ones may be
    fragments of characters."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), key=lambda c: (not c.islower(), c))
    vocab = {character: index for index, character in enumerate(alphabet[:vocab_size])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def bind(model: LeanModel, eos_ids: Sequence[int] = ()) -> BoundModel:
    tokenizer = byte_tokenizer(model.config.vocab_size)
    return BoundModel(
        model=model,
        tokenizer=tokenizer,
        detokenizer=Detokenizer(tokenizer),
        eos_ids=frozenset(eos_ids),
        info=ModelInfo(role="target", name="tiny", sha256="", num_parameters=1),
    )


def eagle_config(model: LeanModel, draft_vocab_size: int | None = None) -> EagleConfig:
    size, vocab = model.config.hidden_size, model.config.vocab_size
    return EagleConfig(
        hidden_size=size,
        intermediate_size=40,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=MAX_POSITIONS,
        target_hidden_size=size,
        target_vocab_size=vocab,
        draft_vocab_size=draft_vocab_size or max(2, vocab - 3),
        feature_layers=tuple(range(model.config.num_layers))[-3:],
        target_sha256="",
    )


def eagle_head(model: LeanModel, seed: int = 0, draft_vocab_size: int | None = None) -> EagleHead:
    """A random head; its draft vocabulary leaves out a few tokens of the target's."""
    head = EagleHead(eagle_config(model, draft_vocab_size))
    _fill(head, seed)
    return head


def confu_head(model: LeanModel, seed: int = 0) -> ConfuHead:
    """A random ConFu head whose future column carries real weight."""
    head = ConfuHead(
        ConfuHeadConfig(
            eagle=eagle_config(model),
            num_soft_prompts=3,
            num_experts=4,
            experts_per_token=2,
            foresight_depths=2,
        )
    )
    _fill(head.eagle, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if not name.startswith("eagle."):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
        head.future_bias.zero_()
    return head


def _fill(head: EagleHead, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.dim() == 2:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise * parameter.shape[1] ** -0.5)
    config = head.config
    order = torch.randperm(config.target_vocab_size, generator=generator)
    head.set_draft_vocabulary(order[: config.draft_vocab_size].sort().values)


def settings(
    max_new_tokens: int = 20,
    *,
    num_nodes: int = 8,
    depth: int = 3,
    top_k: int = 3,
    temperature: float = 0.0,
    seed: int = 0,
) -> DecodeConfig:
    return DecodeConfig(
        max_new_tokens=max_new_tokens,
        tree=TreeConfig(num_nodes=num_nodes, depth=depth, top_k=top_k),
        sampling=SamplingConfig(temperature=temperature, seed=seed),
    )


def run(
    decoder: Decoder,
    config: DecodeConfig,
    prompt: Sequence[int] = PROMPT,
    stop: Callable[[], bool] = lambda: False,
) -> list[Event]:
    """All events of a run, which must keep every promise of the trace."""
    request = DecodeRequest(token_ids=tuple(prompt), text="")
    events = list(decoder.decode(request, config, LaneClock(), stop))
    assert validate(events) == ()
    return events


def output(events: Sequence[Event]) -> list[int]:
    committed = (event.token_ids for event in events if isinstance(event, TokensCommitted))
    return [token for token_ids in committed for token in token_ids]


def finish(events: Sequence[Event]) -> RunFinished:
    last = events[-1]
    assert isinstance(last, RunFinished)
    return last


def plain(target: BoundModel, config: DecodeConfig, prompt: Sequence[int] = PROMPT) -> list[int]:
    return output(run(AutoregressiveDecoder(target), config, prompt))


class KnowingDrafter(Drafter):
    """Knows the whole text. Each tree is a chain of ``num_right(cycle)`` right tokens that ends
    in a wrong one, with a wrong sibling at every depth; the real drafter runs underneath."""

    def tell(self, text: Sequence[int], vocab_size: int, num_right: Callable[[int], int]) -> None:
        self._text, self._vocab_size, self._num_right = list(text), vocab_size, num_right
        self._cycle = 0

    def propose(
        self, token_ids: Tensor, fused: Tensor, max_depth: int, future: FutureInput | None = None
    ) -> TokenTree:
        real = super().propose(token_ids, fused, max_depth, future)
        if max_depth < 1:
            return real
        root = self.num_rows  # row n-1 was added, so x_n is the root
        assert self._text[root] == int(token_ids[-1])
        wanted = min(self._num_right(self._cycle), max_depth, len(self._text) - root - 1)
        self._cycle += 1
        ids, parents, end = [self._text[root]], [-1], 0
        for right in self._text[root + 1 : root + 1 + wanted]:
            ids += [(right + 1) % self._vocab_size, right]
            parents += [end, end]
            end = len(ids) - 1
        if wanted < max_depth and root + 1 + wanted < len(self._text):
            ids.append((self._text[root + 1 + wanted] + 1) % self._vocab_size)
            parents.append(end)
        count = torch.arange(len(ids), dtype=torch.float32)
        return make_tree(
            torch.tensor(ids), torch.tensor(parents), -count, -count, max_depth=len(ids) - 1
        )


class KnowingEagle(Eagle3Decoder):
    """EAGLE-3 with a drafter that knows the text; ``num_right`` tokens a cycle are right."""

    def know(self, text: Sequence[int], num_right: Callable[[int], int]) -> KnowingEagle:
        self._text, self._num_right = text, num_right
        return self

    def _new_drafter(self, capacity: int, tree: TreeConfig, growth: Growth) -> Drafter:
        drafter = KnowingDrafter(self._head, capacity, tree, growth=growth)
        drafter.tell(self._text, self.target.model.config.vocab_size, self._num_right)
        return drafter


class KnowingConfu(ConfuDecoder):
    """ConFu with a drafter that knows the text."""

    def know(self, text: Sequence[int], num_right: Callable[[int], int]) -> KnowingConfu:
        self._text, self._num_right = text, num_right
        return self

    def _new_drafter(
        self, capacity: int, tree: TreeConfig, growth: Growth, has_future: bool
    ) -> Drafter:
        bias = self._parts.future_bias if has_future else None
        drafter = KnowingDrafter(self._head, capacity, tree, bias, growth)
        drafter.tell(self._text, self.target.model.config.vocab_size, self._num_right)
        return drafter


def varied(seed: int, most: int = 4) -> Callable[[int], int]:
    """A number of right tokens that changes from cycle to cycle: each of 0 to ``most`` in turn,
    in an order and from a start that the seed decides."""
    order = random.Random(seed).sample(range(most + 1), most + 1)
    return lambda cycle: order[cycle % (most + 1)]
