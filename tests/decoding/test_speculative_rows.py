"""Token-level speculation inside ConfSpec's target rows: the same run, in fewer forwards."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch

from confu_demo.config import DecodeConfig, LookupConfig
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.row_drafter import RowDrafter
from confu_demo.decoding.row_lookup import RowLookup
from confu_demo.decoding.row_speculation import LookupSpeculation
from confu_demo.decoding.run import Run
from confu_demo.decoding.speculative_rows import SpeculativeRows
from confu_demo.decoding.step_rounds import StepRounds
from confu_demo.decoding.steps import GrowingStep, StepBoundary
from confu_demo.trace import Event, ModelInfo, StepDrafted, StepGated
from tests.decoding.step_models import (
    EOS_ID,
    PROMPT,
    TOKENIZER,
    ScriptedJudge,
    bind,
    by_length,
    decoder_of,
    end_of,
    of,
    output_of,
    random_model,
    run_confspec,
    settings,
)


class Silent(RowDrafter):
    """Never drafts: what is left is the draft for nothing."""

    def begin(self, prefixes: Sequence[Sequence[int]], compared: Sequence[Sequence[int]]) -> None:
        self.texts = [list(prefix) for prefix in prefixes]

    def extend(self, row: int, token_ids: Sequence[int], fed: Sequence[int]) -> None:
        assert len(fed) == len(token_ids)
        self.texts[row].extend(token_ids)


class Guessing(Silent):
    """Drafts of any length; some are what an oracle knows, some are nonsense."""

    max_drafts = 5

    def __init__(self, oracle: dict[tuple[int, ...], int], seed: int) -> None:
        self.oracle, self.random = oracle, random.Random(seed)

    def propose(self, rooms: Mapping[int, int]) -> dict[int, list[int]]:
        assert all(0 <= room <= self.max_drafts for room in rooms.values())
        return {row: self._guess(row, room) for row, room in rooms.items()}

    def _guess(self, row: int, num_tokens: int) -> list[int]:
        text, drafts = list(self.texts[row]), []
        for _ in range(self.random.randint(0, num_tokens)):
            token = self.oracle.get(tuple(text), 7)
            token = token if self.random.random() < 0.8 else self.random.randrange(60, 90)
            drafts.append(token)
            text.append(token)
        return drafts


class Given:
    """A speculation that has its drafter already."""

    name = "given"
    models: tuple[ModelInfo, ...] = ()

    def __init__(self, drafter: RowDrafter) -> None:
        self._drafter = drafter

    def new_drafter(self, config: DecodeConfig, num_rows: int, capacity: int) -> RowDrafter:
        return self._drafter


def play(drafter: RowDrafter | None, seed: int, config: DecodeConfig) -> tuple[Run, list[Event]]:
    """A whole run; after every round both caches are those of a fresh prefill."""
    target, draft = bind(random_model(seed)), bind(random_model(seed, difference=0.2))
    run = Run(
        "confspec", (), target, DecodeRequest(token_ids=tuple(PROMPT), text=""), config, LaneClock()
    )
    judge = ScriptedJudge(by_length)
    boundary = StepBoundary(TOKENIZER, target.eos_ids, len(TOKENIZER))
    given = None if drafter is None else Given(drafter)
    rounds = StepRounds(run, draft.model, boundary, judge, judge, given)
    rounds.prefill()
    events: list[Event] = []
    while run.reason is None:
        events.extend(rounds.round())
        if run.reason is None:
            assert rounds.cache.length == len(run.ids) - 1
        fresh = target.model.new_cache(rounds.cache.length)
        target.model.forward(fresh, token_ids=torch.tensor(run.ids[: rounds.cache.length]))
        for kind in ("k", "v"):
            ours = getattr(rounds.cache, kind)[:, :, : rounds.cache.length]
            torch.testing.assert_close(ours, getattr(fresh, kind), rtol=1e-9, atol=1e-9)
    return run, events


def story(events: Sequence[Event]) -> list[str]:
    """What was written and decided, without times; rows of a round may end in another order."""
    told = []
    for event in events:
        if isinstance(event, StepDrafted):
            told.append(repr((event.author, event.step, event.token_ids, event.complete)))
        elif isinstance(event, StepGated):
            told.append(repr((event.step, event.verdict, event.decision, event.exact_match)))
    return sorted(told)


def oracle_of(output: Sequence[int]) -> dict[tuple[int, ...], int]:
    """After which text the target went on with which token, along what was committed."""
    text = [*PROMPT, *output]
    return {tuple(text[:n]): text[n] for n in range(len(PROMPT), len(text))}


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_drafted_the_run_is_the_same(seed: int, temperature: float, k: int) -> None:
    config = settings(90, temperature=temperature, seed=seed, draft_steps=k, threshold=0.75)
    run, plain = play(None, seed, config)
    guesses = Guessing(oracle_of(output_of(plain)), seed)
    for drafter in (Silent(), RowLookup(config.lookup), guesses, Guessing({}, seed)):
        other, events = play(drafter, seed, config)
        assert other.ids == run.ids
        assert other.reason == run.reason
        assert story(events) == story(plain)
        assert other.target_forwards <= run.target_forwards
    assert len(run.ids) > len(PROMPT)


def test_right_drafts_save_forwards_and_the_draft_models_steps_do_without_any() -> None:
    config = settings(90, draft_steps=0)
    run, plain = play(None, 4, config)
    fast, _ = play(Guessing(oracle_of(output_of(plain)), 0), 4, config)
    assert fast.target_forwards < 0.9 * run.target_forwards
    # A draft model that says the same as the target: of every round only the bonus step is written.
    twin = decoder_of(random_model(2), random_model(2), speculation=LookupSpeculation())
    one = LookupConfig(num_draft_tokens=1)
    events = run_confspec(twin, replace(settings(60, draft_steps=3), lookup=one))
    assert any(gate.exact_match for gate in of(StepGated, events))
    plain_twin = run_confspec(decoder_of(random_model(2), random_model(2)), settings(60))
    assert output_of(events) == output_of(plain_twin)
    assert 2 * end_of(events).target_forwards < end_of(plain_twin).target_forwards


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_decoder_says_the_same_as_confspec_under_a_name_of_its_own(temperature: float) -> None:
    target, draft = random_model(1, blank=3.0), random_model(1, blank=3.0, difference=0.05)
    judge = ScriptedJudge(by_length)
    judges = {"draft_judge": judge, "target_judge": judge}
    config = settings(100, temperature=temperature, draft_steps=2, threshold=0.75)
    plain = decoder_of(target, draft, **judges)
    fast = decoder_of(target, draft, **judges, speculation=LookupSpeculation())
    assert (plain.method, fast.method) == ("confspec", "confspec+prompt_lookup")
    events, others = run_confspec(plain, config), run_confspec(fast, config)
    assert output_of(others) == output_of(events)
    assert not fast.lossless
    saved = end_of(events).target_forwards - end_of(others).target_forwards
    assert saved > 0 if temperature == 0.0 else saved >= 0


@pytest.mark.parametrize("budget", range(1, 16))
def test_every_budget_is_met_exactly(budget: int) -> None:
    config = settings(budget, draft_steps=2, max_step_tokens=6)
    run, plain = play(None, 5, config)
    other, events = play(Guessing(oracle_of(output_of(plain)), budget), 5, config)
    assert other.ids == run.ids
    assert len(output_of(events)) == len(output_of(plain)) <= budget


def test_a_row_never_reads_what_another_row_or_a_rejected_draft_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each fed token attends to the root's prefix, to its row's accepted tokens and to its own
    chain: as many slots as its position says."""
    model = random_model()
    forward, calls = model.forward, []

    def recording(cache, **arguments):  # type: ignore[no-untyped-def]
        calls.append((cache.length, arguments))
        return forward(cache, **arguments)

    monkeypatch.setattr(model, "forward", recording)
    cache = model.new_cache(300)
    model.forward(cache, token_ids=torch.tensor(PROMPT[:-1]))
    boundary = StepBoundary(TOKENIZER, frozenset({EOS_ID}), len(TOKENIZER))
    rows = SpeculativeRows(
        model,
        cache,
        known=PROMPT,
        drafts=[[70, 71, 72, 73], [74, 75]],
        rows=[GrowingStep(boundary, 9) for _ in range(3)],
        sampler=lambda logits, positions: logits.argmax(-1),
        drafter=Guessing({}, 3),
    )
    assert sorted(rows.write()) == [0, 1, 2]
    spoken = [call for call in calls if call[1].get("mask") is not None]
    assert spoken
    for length, arguments in spoken:
        mask, positions = arguments["mask"], arguments["positions"]
        assert mask.shape == (len(positions), length + len(positions))
        assert torch.equal(mask.sum(1), positions + 1)


def test_rows_and_draft_steps_must_fit() -> None:
    model = random_model()
    boundary = StepBoundary(TOKENIZER, frozenset({EOS_ID}), len(TOKENIZER))
    with pytest.raises(ValueError, match="as many draft steps or one fewer"):
        SpeculativeRows(
            model, model.new_cache(50), known=PROMPT, drafts=[],
            rows=[GrowingStep(boundary, 3)] * 3,
            sampler=lambda logits, positions: logits.argmax(-1), drafter=Silent(),
        )  # fmt: skip
