"""EAGLE-3 and ConFu inside ConfSpec's rows: the same text, and drafts as in a single lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from confu_demo.config import ConfuConfig, DecodeConfig, TreeConfig
from confu_demo.decoding import row_heads
from confu_demo.decoding.base import features_of
from confu_demo.decoding.drafting import Drafter, FutureInput
from confu_demo.decoding.row_drafter import RowDrafter
from confu_demo.decoding.row_heads import MAX_DRAFTS, RowHead
from confu_demo.decoding.row_speculation import HeadSpeculation
from confu_demo.engine.target import LeanModel
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.trace import ModelInfo, StepDrafted
from tests.decoding.kit import confu_head, eagle_head
from tests.decoding.step_models import (
    PROMPT,
    ScriptedJudge,
    always,
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

INFO = ModelInfo(role="head", name="tiny", sha256="", num_parameters=1)
HEADS: dict[str, Callable[[LeanModel, int], EagleHead | ConfuHead]] = {
    "eagle3": eagle_head,
    "confu": confu_head,
}


@pytest.fixture(autouse=True)
def _long_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_heads, "MIN_CHANCE", 0.0)  # a random head believes in nothing


class Watched(RowHead):
    """Holds every proposal against a single lane's drafter over a fresh pass of the target."""

    def watch(self, target: LeanModel, checks: list[int]) -> Watched:
        self._target, self._checks = target, checks
        return self

    def begin(self, prefixes, compared):  # type: ignore[no-untyped-def]
        super().begin(prefixes, compared)
        self._texts = [list(prefix) for prefix in prefixes]

    def extend(self, row, token_ids, fed):  # type: ignore[no-untyped-def]
        super().extend(row, token_ids, fed)
        self._texts[row].extend(token_ids)

    def propose(self, rooms: Mapping[int, int]) -> dict[int, list[int]]:
        found = super().propose(rooms)
        assert set(found) == set(rooms)
        for row, chain in found.items():
            assert len(chain) == min(rooms[row], MAX_DRAFTS)
            if chain:
                assert chain == self._alone(row, len(chain))
        return found

    def _alone(self, row: int, num: int) -> list[int]:
        head, text = self._head, torch.tensor(self._texts[row])
        layers = head.config.feature_layers
        features = features_of(
            self._target.forward(
                self._target.new_cache(len(text) + 1), token_ids=text[:-1], feature_layers=layers
            )
        )
        bias = None if self._parts is None else self._parts.future_bias
        tree = TreeConfig(num_nodes=num + 1, depth=num, top_k=1)
        drafter = Drafter(head, len(text) + 1, tree, bias)
        drafter.absorb(text[1:-1], features[:-1])
        future = self._future(row, text, features)
        drawn = drafter.propose(text[-1:], head.fuse(features[-1:]), num, future)
        self._checks.append(0 if future is None else len(text) - 1 - future.position)
        return drawn.token_ids[1:].tolist()

    def _future(self, row: int, text: Tensor, features: Tensor) -> FutureInput | None:
        """The served [con], found again in a pass of its own: routed from an earlier token."""
        served, parts = self._rows[row].served, self._parts
        if parts is None or served is None:
            return None
        place = served.position - 1  # the token that it stands behind
        root = len(text) - 1
        for routed in range(place, -1, -1):
            cache = self._target.new_cache(place + 2)
            self._target.forward(cache, token_ids=text[: place + 1])
            con, _ = parts.con_mixture(features[routed, None])
            out = self._target.forward(
                cache, embeddings=con, feature_layers=parts.layers,
                side=parts.side, side_rows=torch.tensor([True]),
            )  # fmt: skip
            if torch.allclose(features_of(out), served.features, rtol=1e-9, atol=1e-9):
                embedding, _ = parts.future_mixture(self._head.fuse(features[-1:]))
                outlook = parts.outlook(out.hidden, root - served.position)
                feature = self._head.fuse(features_of(out))
                return FutureInput(feature, embedding, served.position, outlook)
        raise AssertionError("no token routes to this [con]")


class WatchedSpeculation(HeadSpeculation):
    def __init__(self, target: LeanModel, head: EagleHead | ConfuHead, checks: list[int]) -> None:
        super().__init__(bind(target), head, INFO)
        self._target, self._checks = target, checks

    def new_drafter(self, config: DecodeConfig, num_rows: int, capacity: int) -> RowDrafter:
        budget = max(config.confu.contemplate_budget, -1)
        own = Watched(self._head, self._parts, num_rows=num_rows, capacity=capacity, budget=budget)
        return own.watch(self._target, self._checks)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("k", "budget"), [(0, -1), (2, -1), (3, 1)])
def test_the_text_is_confspecs_own_and_every_chain_is_what_a_single_lane_would_draft(
    name: str, temperature: float, k: int, budget: int
) -> None:
    checks: list[int] = []
    for seed in range(2):
        target, draft = (random_model(seed, blank=2.0, difference=d) for d in (0.0, 0.15))
        judge = ScriptedJudge(by_length)
        judges = {"draft_judge": judge, "target_judge": judge}
        config = replace(
            settings(50, temperature=temperature, seed=seed, draft_steps=k, threshold=0.75),
            confu=ConfuConfig(contemplate_budget=budget),
        )
        plain = run_confspec(decoder_of(target, draft, **judges), config)
        speculation = WatchedSpeculation(target, HEADS[name](target, seed), checks)
        decoder = decoder_of(target, draft, **judges, speculation=speculation)
        assert decoder.method == f"confspec+{name}"
        events = run_confspec(decoder, config)
        assert output_of(events) == output_of(plain)
        drafted = [sorted((e.step, e.author, e.token_ids) for e in of(StepDrafted, run))
                   for run in (events, plain)]  # fmt: skip
        assert drafted[0] == drafted[1]
        assert end_of(events).draft_forwards > end_of(plain).draft_forwards
    assert len(checks) > 20


def test_the_nearest_con_serves_and_its_distance_is_what_the_logits_hear() -> None:
    """A round's first forward has one [con] a row, so tokens that are the draft step's own leave
    it behind; later forwards have one behind every token."""
    checks: list[int] = []
    for seed in range(3):
        target = random_model(seed, blank=1.5)
        near = random_model(seed, blank=1.5, difference=0.02)
        speculation = WatchedSpeculation(target, confu_head(target, seed), checks)
        config = settings(60, draft_steps=2, max_step_tokens=20)
        judge = always("different")
        run_confspec(decoder_of(target, near, draft_judge=judge, speculation=speculation), config)
    assert {0, 1, 2} <= set(checks)
    assert max(checks) > 4, "beyond what the logits hear"


def test_a_budget_of_nothing_is_eagle3_and_one_token_of_prompt_is_enough() -> None:
    target, draft = random_model(2, blank=2.0), random_model(3, blank=2.0)
    confu = confu_head(target)
    config = replace(settings(40), confu=ConfuConfig(contemplate_budget=0))
    off = HeadSpeculation(bind(target), confu, INFO)
    base = HeadSpeculation(bind(target), confu.eagle, INFO)
    runs = [
        run_confspec(decoder_of(target, draft, speculation=each), config) for each in (off, base)
    ]
    assert end_of(runs[0]).target_tokens == end_of(runs[1]).target_tokens
    assert end_of(runs[0]).target_forwards == end_of(runs[1]).target_forwards
    on = HeadSpeculation(bind(target), confu, INFO)
    contemplating = run_confspec(
        decoder_of(target, draft, speculation=on), replace(config, confu=ConfuConfig())
    )
    assert end_of(contemplating).target_tokens > end_of(runs[0]).target_tokens
    for speculation in (on, base):
        events = run_confspec(
            decoder_of(target, draft, speculation=speculation), settings(20), PROMPT[:1]
        )
        plain = run_confspec(decoder_of(target, draft), settings(20), PROMPT[:1])
        assert output_of(events) == output_of(plain)


def saved_by_draft_steps(target: LeanModel, draft: LeanModel) -> int:
    """Forwards that a drafter which never drafts saves: the draft model's steps are free."""
    forwards = [
        end_of(run_confspec(decoder_of(target, draft, speculation=each), settings(30)))
        for each in (None, Mute())
    ]
    return (forwards[0].target_forwards or 0) - (forwards[1].target_forwards or 0)


class Mute:
    name = "mute"
    models: tuple[ModelInfo, ...] = ()

    def new_drafter(self, config: DecodeConfig, num_rows: int, capacity: int) -> RowDrafter:
        return RowDrafter()


def test_an_unlikely_chain_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_heads, "MIN_CHANCE", 1.1)
    target, draft = random_model(2, blank=2.0), random_model(3, blank=2.0)
    speculation = HeadSpeculation(bind(target), eagle_head(target), INFO)
    events = run_confspec(decoder_of(target, draft, speculation=speculation), settings(30))
    plain = run_confspec(decoder_of(target, draft), settings(30))
    assert output_of(events) == output_of(plain)
    wanted = end_of(plain).target_forwards
    assert wanted - end_of(events).target_forwards == saved_by_draft_steps(target, draft)
