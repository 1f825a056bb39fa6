"""The judge's packed prompts, its numbers, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from confu_demo.data.documents import VERDICT_WORDS, judge_prompt
from confu_demo.decoding.judge import JudgeFormat, ModelJudge, Opinion, pack_prompts
from tests.decoding.step_models import TOKENIZER, random_model, toy_tokenizer

PAIRS = [
    ("1 + 2 = 3.", "So 3 it is."),
    ("1 + 2 = 3.", "2 + 1 = 3."),
    ("", "Answer: 5"),
    ("a much longer step than the others\nwith two lines", "x"),
]


def asked_alone(model, pair) -> Opinion:
    """The same question in a forward of its own, straight from the definition."""
    prompt = [
        TOKENIZER.bos_token_id,
        *TOKENIZER.encode(judge_prompt(*pair), add_special_tokens=False),
    ]
    logits = model.forward(model.new_cache(300), token_ids=torch.tensor(prompt)).logits[-1]
    probs = logits.softmax(-1)
    same, different = (
        float(probs[TOKENIZER.encode(word, add_special_tokens=False)[0]]) for word in VERDICT_WORDS
    )
    return Opinion(
        verdict="same" if same > different else "different",
        confidence=max(same, different) / (same + different),
        mass=same + different,
    )


def test_the_default_format_is_the_document_that_the_bundled_models_are_trained_on():
    for draft, target in PAIRS:
        assert JudgeFormat().prompt((draft, target)) == judge_prompt(draft, target)
    assert (JudgeFormat().same, JudgeFormat().different) == VERDICT_WORDS


def test_prompts_are_packed_as_branches_behind_their_common_beginning():
    packed = pack_prompts([[5, 6, 7], [5, 8], [5, 6, 9]])
    assert packed.token_ids.tolist() == [5, 6, 7, 8, 6, 9]
    assert packed.positions.tolist() == [0, 1, 2, 1, 1, 2]
    assert packed.last_rows.tolist() == [2, 3, 5]
    assert packed.mask.int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 1, 1],
    ]


def test_equal_and_nested_prompts_keep_a_row_of_their_own():
    packed = pack_prompts([[5, 6], [5, 6], [5, 6, 7]])
    assert packed.token_ids.tolist() == [5, 6, 6, 6, 7]
    assert packed.last_rows.tolist() == [1, 2, 4]
    assert pack_prompts([[5], [5]]).mask.int().tolist() == [[1, 0], [0, 1]]


def test_the_packed_judge_equals_every_question_asked_alone():
    model = random_model(4)
    judgement = ModelJudge(model, TOKENIZER).compare(PAIRS)
    verdicts = set()
    for pair, opinion in zip(PAIRS, judgement.opinions, strict=True):
        alone = asked_alone(model, pair)
        assert opinion.verdict == alone.verdict
        assert opinion.confidence == pytest.approx(alone.confidence, rel=1e-5)
        assert opinion.mass == pytest.approx(alone.mass, rel=1e-4)
        verdicts.add((opinion.verdict, round(opinion.confidence, 4)))
    assert len(verdicts) > 1  # the answers depend on the pairs
    lengths = [1 + len(TOKENIZER.encode(judge_prompt(*pair))) for pair in PAIRS]
    shared = len("Compare:\nA: ") + 1
    assert judgement.num_tokens == sum(lengths) - (len(PAIRS) - 1) * shared


def test_no_pairs_cost_nothing():
    judgement = ModelJudge(random_model(), TOKENIZER).compare([])
    assert (judgement.opinions, judgement.num_tokens) == ((), 0)


def test_a_pair_beyond_the_context_gets_an_opinion_without_mass_and_spoils_no_other():
    model = random_model(4, max_positions=40)
    unread, read = ModelJudge(model, TOKENIZER).compare([("a" * 50, "b"), ("a", "b")]).opinions
    assert unread == Opinion(verdict="different", confidence=0.5, mass=0.0)
    assert read.mass == pytest.approx(asked_alone(model, ("a", "b")).mass, rel=1e-4)


def test_a_verdict_word_of_several_tokens_is_refused():
    with pytest.raises(ValueError, match="' different' must be one token"):
        ModelJudge(random_model(), toy_tokenizer(("\n\n", " same")))
    with pytest.raises(ValueError, match="' maybe' must be one token"):
        ModelJudge(random_model(), TOKENIZER, JudgeFormat(same=" maybe"))
