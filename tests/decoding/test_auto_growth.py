"""Trees that the machine chooses: lossless, within limits, and as its costs say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from confu_demo.config import ALL_NODES, AUTO_BUDGET, ConfuConfig, DecodeConfig, TreeConfig
from confu_demo.decoding.auto_growth import AutoGrowth, make_growth
from confu_demo.decoding.base import BoundModel, Decoder
from confu_demo.decoding.confu import ConfuDecoder
from confu_demo.decoding.eagle3 import Eagle3Decoder
from confu_demo.decoding.growth import FixedGrowth, Growth
from confu_demo.decoding.tree_plan import CycleCosts
from confu_demo.engine.forward_cost import CostCurve
from confu_demo.trace import DraftPlan, DraftProposed, DraftVerified, Event, RunStarted
from tests.decoding.kit import (
    PROMPT,
    KnowingConfu,
    KnowingEagle,
    bind,
    confu_head,
    eagle_head,
    output,
    plain,
    run,
    settings,
    tiny_model,
    varied,
)

BUDGETS = (AUTO_BUDGET, ALL_NODES, 0, 1, 3)
LIMITS = TreeConfig(mode="auto", num_nodes=24, depth=5, top_k=4)


def costs(row_ms: float = 0.1, level_ms: float = 0.3, first_ms: float = 2.0) -> CycleCosts:
    return CycleCosts(
        verify=CostCurve(((1, first_ms), (2, first_ms + row_ms))),
        draft_ms=0.5,
        level=CostCurve(((1, level_ms), (8, 1.5 * level_ms))),
    )


FREE = costs(row_ms=0.0, level_ms=0.0)
DEAR_ROWS = costs(row_ms=1000.0)
DEAR_LEVELS = costs(level_ms=1000.0)


def auto(
    max_new_tokens: int = 20,
    *,
    budget: int = AUTO_BUDGET,
    temperature: float = 0.0,
    seed: int = 0,
    limits: TreeConfig = LIMITS,
) -> DecodeConfig:
    config = settings(max_new_tokens, temperature=temperature, seed=seed)
    return replace(config, tree=limits, confu=ConfuConfig(contemplate_budget=budget))


def build(method: str, target: BoundModel, of: CycleCosts, seed: int = 0) -> Decoder:
    if method == "eagle3":
        return Eagle3Decoder(target, eagle_head(target.model, seed), costs=of)
    return ConfuDecoder(target, confu_head(target.model, seed), costs=of)


class PlannedEagle(Eagle3Decoder):
    """Decides between cycles, as where a look at the scores is dear."""

    def _growth(self, config: DecodeConfig) -> Growth:
        return make_growth(config, 0, self._cycle_costs, may_look=False)


class PlannedConfu(ConfuDecoder):
    def _growth(self, config: DecodeConfig) -> Growth:
        budget = config.confu.contemplate_budget
        return make_growth(config, budget, self._cycle_costs, may_look=False)


def trees(events: Sequence[Event]) -> list[DraftProposed]:
    return [event for event in events if isinstance(event, DraftProposed)]


def verified(events: Sequence[Event]) -> list[DraftVerified]:
    return [event for event in events if isinstance(event, DraftVerified)]


@pytest.mark.parametrize("of", [costs(), FREE, DEAR_ROWS, DEAR_LEVELS])
@pytest.mark.parametrize("method", ["eagle3", "confu"])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_decoding_with_trees_of_the_machine_equals_plain_decoding(
    seed: int, method: str, of: CycleCosts
) -> None:
    target = bind(tiny_model("qwen3" if seed % 2 else "llama", seed=seed, vocab_size=7 + 8 * seed))
    expected = plain(target, settings(24))
    for max_new_tokens in (1, 2, 24):
        events = run(build(method, target, of, seed), auto(max_new_tokens))
        assert output(events) == expected[:max_new_tokens]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_long_accepted_paths_and_every_budget_are_lossless(budget: int, temperature: float) -> None:
    for seed in range(2):
        target = bind(tiny_model(seed=seed))
        config = auto(40, budget=budget, temperature=temperature, seed=seed)
        expected = plain(target, config)
        confu = KnowingConfu(target, confu_head(target.model, seed), costs=costs())
        events = run(confu.know((*PROMPT, *expected), varied(seed)), config)
        assert output(events) == expected
        eagle = KnowingEagle(target, eagle_head(target.model, seed), costs=costs())
        events = run(eagle.know((*PROMPT, *expected), varied(seed)), config)
        assert output(events) == expected
        assert max(len(event.accepted) for event in verified(events)) > 2


@pytest.mark.parametrize("method", ["eagle3", "confu"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_shape_planned_between_cycles_is_lossless_and_costs_no_look(
    temperature: float, method: str
) -> None:
    target = bind(tiny_model(seed=1))
    config = auto(40, temperature=temperature, seed=1)
    expected = plain(target, config)
    decoder: Decoder = PlannedEagle(target, eagle_head(target.model), costs=costs())
    if method == "confu":
        decoder = PlannedConfu(target, confu_head(target.model), costs=costs())
    events = run(decoder, config)
    assert output(events) == expected
    sizes = [len(event.tree.parents) for event in trees(events)]
    assert max(sizes) > 2
    assert len(set(sizes[2:4])) == 1  # the same plan for neighbours


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("of", [costs(), FREE, DEAR_ROWS])
def test_every_row_is_counted_and_no_budget_is_exceeded(of: CycleCosts, budget: int) -> None:
    target = bind(tiny_model())
    events = run(build("confu", target, of), auto(budget=budget))
    for tree, answer in zip(trees(events), verified(events), strict=True):
        nodes = len(tree.tree.parents)
        assert nodes <= LIMITS.num_nodes
        con = answer.num_contemplate_tokens
        assert answer.num_target_tokens == nodes + con
        if budget == AUTO_BUDGET:
            assert 1 <= con <= nodes
        else:
            assert con == (nodes if budget == ALL_NODES else min(budget, nodes))


def test_free_rows_and_levels_fill_the_limits() -> None:
    target = bind(tiny_model(vocab_size=23))
    events = run(build("confu", target, FREE), auto(30))
    for tree, answer in list(zip(trees(events), verified(events), strict=True))[:3]:
        assert len(tree.tree.parents) == LIMITS.num_nodes
        assert answer.num_contemplate_tokens == LIMITS.num_nodes
        assert tree.plan is not None
        assert tree.plan.levels == LIMITS.depth


def test_rows_that_never_pay_leave_the_root_alone() -> None:
    events = run(build("confu", bind(tiny_model()), DEAR_ROWS), auto())
    assert {len(event.tree.parents) for event in trees(events)} == {1}
    assert {event.num_contemplate_tokens for event in verified(events)} == {1}


def test_levels_that_never_pay_leave_the_roots_children() -> None:
    events = run(build("eagle3", bind(tiny_model()), DEAR_LEVELS), auto())
    for event in trees(events):
        assert set(event.tree.parents) <= {-1, 0}
        assert event.plan is None or event.plan.levels == 0


def test_dearer_rows_make_smaller_trees() -> None:
    target = bind(tiny_model(vocab_size=23))
    sizes = []
    for row_ms in (0.01, 0.1, 0.5, 5.0):
        events = run(build("eagle3", target, costs(row_ms)), auto(40))
        found = [len(event.tree.parents) for event in trees(events)]
        sizes.append(sum(found) / len(found))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]


def test_a_future_worth_nothing_gets_the_roots_con_and_a_precious_one_gets_more() -> None:
    target = bind(tiny_model())
    number = {}
    for worth in (0.0, 0.5):
        head = confu_head(target.model)
        head.config = replace(head.config, future_worth=worth)
        decoder = ConfuDecoder(target, head, costs=costs(row_ms=0.02))
        events = run(decoder, auto(40, budget=AUTO_BUDGET))
        number[worth] = sum(event.num_contemplate_tokens for event in verified(events))
        cycles = len(verified(events))
        assert number[worth] >= cycles
    assert number[0.0] == cycles
    assert number[0.5] > cycles


def test_the_same_costs_and_seed_give_the_same_trees() -> None:
    target = bind(tiny_model(seed=4))
    runs = [run(build("confu", target, costs()), auto(30, temperature=0.8)) for _ in range(2)]
    assert [event.tree for event in trees(runs[0])] == [event.tree for event in trees(runs[1])]
    assert [event.plan for event in trees(runs[0])] == [event.plan for event in trees(runs[1])]


def test_a_run_says_what_its_trees_rest_on() -> None:
    target = bind(tiny_model(seed=2))
    of = costs()
    events = run(build("confu", target, of), auto())
    assert isinstance(events[0], RunStarted)
    assert events[0].costs == of.record()
    for tree, answer in zip(trees(events), verified(events), strict=True):
        assert tree.plan is not None
        assert tree.plan.tokens_per_ms > 0
        assert 1.0 <= tree.plan.expected_tokens <= len(tree.tree.parents)
        least = of.draft_ms + tree.plan.levels * of.level.ms(1)
        most = of.draft_ms + tree.plan.levels * of.level.ms(LIMITS.top_k)
        drafting = tree.plan.expected_ms - of.verify.ms(answer.num_target_tokens)
        assert least - 1e-9 <= drafting <= most + 1e-9


def test_a_fixed_tree_rests_on_nothing_and_is_never_measured() -> None:
    def never() -> CycleCosts:
        raise AssertionError("nothing is to be measured")

    growth = make_growth(settings(), 3, never, may_look=True)
    assert isinstance(growth, FixedGrowth)
    assert growth.costs is None
    target = bind(tiny_model())
    events = run(Eagle3Decoder(target, eagle_head(target.model)), settings())
    assert isinstance(events[0], RunStarted)
    assert events[0].costs is None
    assert all(event.plan is None for event in trees(events))


def test_a_run_whose_drafts_fail_grows_smaller_trees() -> None:
    """What is learned within the run counts: the same scores, other outcomes."""
    from confu_demo.decoding.verification import HostTree

    sizes = []
    for accepted in ((), (1, 2, 3)):
        growth = AutoGrowth(LIMITS, 0, costs(row_ms=0.3), may_look=False)
        chain = HostTree((0, 1, 2, 3), (-1, 0, 1, 2), (0.0, -0.1, -0.1, -0.1))
        for _ in range(16):
            plan = growth.learn(chain, accepted)
            assert isinstance(plan, DraftPlan)
        sizes.append(growth.num_nodes(None))  # type: ignore[arg-type]
    assert sizes[0] < sizes[1]
