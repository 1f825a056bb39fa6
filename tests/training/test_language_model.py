"""The trainable twin, and the pieces that train it."""

from __future__ import annotations

import json

import pytest
import torch

from confu_demo.data.vocabulary import make_tokenizer
from confu_demo.engine.loading import load_model
from confu_demo.engine.model_config import ModelConfig
from confu_demo.training.batching import CURRICULUM, BatchSource, Phase
from confu_demo.training.corpus import Corpus, DocumentEncoder, load_shard, make_shard, save_shard
from confu_demo.training.generation import generate_batch
from confu_demo.training.language_model import LanguageModel, causal_mask
from confu_demo.training.lm import LmSettings, LmTrainer, Objective
from confu_demo.training.lm_setup import grow_layers
from confu_demo.training.model_files import load_language_model, save_language_model
from confu_demo.training.muon import orthogonalise

TINY = LmSettings(
    hidden_size=32,
    num_heads=2,
    intermediate_size=48,
    num_layers=2,
    total_tokens=4000,
    batch_tokens=500,
    eval_every_tokens=10**9,
    eval_problems=1,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"), num_problems=2000)


def tiny_model(tokenizer=None, **changes) -> LanguageModel:
    torch.manual_seed(0)
    config = TINY.model_config(len(tokenizer) if tokenizer else 40)
    values = {name: getattr(config, name) for name in config.__dataclass_fields__}
    return LanguageModel(ModelConfig(**{**values, **changes}))


def logits_of(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    length = ids.size(1)
    output = model(model.embed(ids), torch.arange(length)[None], causal_mask(length))
    return model.lm_head_logits(output.hidden)


def test_the_twin_computes_what_the_engine_computes_on_the_same_files(tokenizer, tmp_path):
    model = tiny_model(tokenizer)
    save_language_model(model, tokenizer, tmp_path, "# card\n")
    again = load_language_model(tmp_path)
    ids = torch.randint(0, len(tokenizer), (1, 17))
    expected = logits_of(again, ids)[0]
    engine = load_model(tmp_path, device="cpu", dtype="float32", threads=1)
    actual = engine.forward(engine.new_cache(32), token_ids=ids[0]).logits
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits_of(model, ids)[0], expected)


def test_a_forward_after_cached_tokens_equals_one_forward_over_all():
    model = tiny_model(num_kv_heads=1).double()
    ids = torch.randint(0, 40, (2, 9))
    whole = model(model.embed(ids), torch.arange(9)[None], causal_mask(9), feature_layers=(0, 1))
    first = model(model.embed(ids[:, :5]), torch.arange(5)[None], causal_mask(5))
    mask = causal_mask(9)[:, 5:]
    second = model(
        model.embed(ids[:, 5:]), torch.arange(5, 9)[None], mask, first.keys_values, (0, 1)
    )
    torch.testing.assert_close(second.hidden, whole.hidden[:, 5:], rtol=0, atol=1e-12)
    torch.testing.assert_close(second.features, whole.features[:, 5:], rtol=0, atol=1e-12)


def test_one_mask_for_each_document_is_applied_to_that_document():
    model = tiny_model().double()
    ids = torch.randint(0, 40, (2, 6))
    masks = causal_mask(6).repeat(2, 1, 1)
    masks[1, 3:, 0] = False
    both = model(model.embed(ids), torch.arange(6)[None], masks).hidden
    for row in (0, 1):
        alone = model(model.embed(ids[row : row + 1]), torch.arange(6)[None], masks[row : row + 1])
        torch.testing.assert_close(both[row], alone.hidden[0], rtol=0, atol=1e-12)


def test_batched_generation_equals_generation_one_by_one():
    model = tiny_model().double()
    prompts = [[1, 5, 9], [1, 7], [1, 3, 3, 8, 2, 11]]
    together = generate_batch(model, prompts, max_new_tokens=12, eos_id=4, extra_stop_ids=(6,))
    for prompt, output in zip(prompts, together, strict=True):
        alone = generate_batch(model, [prompt], max_new_tokens=12, eos_id=4, extra_stop_ids=(6,))
        assert alone[0] == output
        assert len(output) == 12 or output[-1] in (4, 6)
        assert not {4, 6} & set(output[:-1])


def test_growing_a_model_changes_its_depth_and_not_what_it_computes():
    model = tiny_model().double()
    grown = grow_layers(model.float(), 5).double()
    ids = torch.randint(0, 40, (1, 8))
    assert grown.config.num_layers == 5
    torch.testing.assert_close(logits_of(grown, ids), logits_of(model.double(), ids))
    with pytest.raises(ValueError, match="cannot be grown"):
        grow_layers(grown, 3)


def test_orthogonalised_matrices_have_singular_values_near_one():
    for shape in ((3, 16, 40), (2, 40, 16)):
        for dtype in (torch.float32, torch.bfloat16):
            rough = orthogonalise(torch.randn(shape).to(dtype))
            assert rough.dtype == dtype
            values = torch.linalg.svdvals(rough.float())
            assert values.min() > 0.4
            assert values.max() < 1.4


def test_shards_survive_the_disk_and_are_a_function_of_their_name(tokenizer, tmp_path):
    encoder = DocumentEncoder(tokenizer)
    documents = make_shard(encoder, "judge", 3)
    save_shard(documents, tmp_path / "judge-00003.npz")
    for made, read in zip(documents, load_shard(tmp_path / "judge-00003.npz"), strict=True):
        assert made.token_ids.tolist() == read.token_ids.tolist()
        assert made.weights.tolist() == read.weights.tolist()
    again = make_shard(encoder, "judge", 3)
    assert all((a.token_ids == b.token_ids).all() for a, b in zip(documents, again, strict=True))


def test_digits_weigh_three_in_a_solution_and_the_verdict_fifteen_in_a_judgement(tokenizer):
    encoder = DocumentEncoder(tokenizer)
    (solution,) = encoder.solutions(
        [("Question: 12 pens.\n\n", "So Ann's pens must be 12 + 5 = 17.")]
    )
    pieces = tokenizer.convert_ids_to_tokens(solution.token_ids.tolist())
    start = pieces.index("So")
    assert solution.weights[:start].tolist() == pytest.approx([0.1] * start)
    for piece, weight in zip(pieces[start:], solution.weights[start:].tolist(), strict=True):
        word = piece.lstrip("Ġ")
        assert weight == (3.0 if word.isdecimal() else 2.0 if word in ("Ann", "pens") else 1.0)
    same, different = encoder.judgements([("1 + 2", "2 + 1", True), ("1 + 2", "3", False)])
    assert same.weights[-1] == different.weights[-1] == 15.0
    assert different.weights[:-1].sum() == 0
    assert same.weights[:-1].sum() > 0


def test_a_pair_in_the_same_words_has_a_verdict_at_every_token(tokenizer):
    encoder = DocumentEncoder(tokenizer)
    changed, equal, other = encoder.judgements(
        [("12 + 5 = 17", "12 + 8 = 17", False), ("9", "9", True), ("1 + 2 = 3", "3", False)]
    )
    assert changed.verdicts is not None
    pieces = tokenizer.convert_ids_to_tokens(changed.token_ids.tolist())
    shown = [(p, v) for p, v in zip(pieces, changed.verdicts.tolist(), strict=True) if v >= 0]
    assert shown == [
        ("Ġ1", 0), ("2", 0), ("Ġ+", 0), ("Ġ8", 1), ("Ġ=", 1), ("Ġ1", 1), ("7", 1)
    ]  # fmt: skip
    assert equal.verdicts is not None
    assert equal.verdicts.max() == 0
    assert other.verdicts is None


def test_the_curriculum_starts_short_and_ends_with_full_problems(tokenizer):
    source = BatchSource(Corpus(DocumentEncoder(tokenizer)), 2, 1000, 10_000)
    source.next(0)
    assert set(source.positions) == {"short", "easy-judge", "drill"}
    assert CURRICULUM[-1].until > 1
    late = BatchSource(Corpus(DocumentEncoder(tokenizer)), 2, 1000, 10_000)
    batch = late.next(9_000)
    assert {"full", "judge"} <= set(late.positions)
    assert batch.token_ids.shape == batch.weights.shape
    assert batch.token_ids.numel() <= 1000
    assert (batch.weights[:, 0] == 0).all()


def test_one_batch_can_be_learned_by_heart(tokenizer):
    encoder = DocumentEncoder(tokenizer)
    source = BatchSource(
        Corpus(encoder), 2, 400, 1000, curriculum=(Phase(1.01, {"short": 1.0}),), pool_documents=4
    )
    batch = source.next(0)
    objective = Objective.of(encoder, torch.device("cpu"))
    model = tiny_model(tokenizer)
    optimiser = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    for _ in range(40):
        loss, _ = objective(model, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow
def test_an_interrupted_training_goes_on_where_it_stood(tokenizer, tmp_path):
    from dataclasses import replace

    def trainer(settings):
        return LmTrainer(
            settings, tokenizer, tmp_path, None, torch.device("cpu"), lambda line: said.append(line)
        )

    said: list[str] = []
    first = trainer(replace(TINY, total_tokens=1500))
    first.run()
    second = trainer(replace(TINY, grow_at=((0.5, 3),)))
    model = second.run()
    assert any(line.startswith("resuming at") for line in said)
    assert second.tokens >= 4000 > first.tokens
    assert second.step > first.step
    assert model.config.num_layers == 3
    rows = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [row["tokens"] for row in rows] == [first.tokens, second.tokens]
