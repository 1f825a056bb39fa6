"""Contemplate tokens: invisible to the tree, blind to siblings, and the right one's f is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from confu_demo.config import ConfuConfig
from confu_demo.decoding.contemplation import (
    ConfuParts,
    Contemplator,
    contemplated_nodes,
    serving_node,
)
from confu_demo.decoding.draft_tree import TokenTree, make_tree
from confu_demo.decoding.masks import verify_mask
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.engine.model_config import Family
from confu_demo.engine.target import ForwardOutput
from confu_demo.trace import Contemplation, DraftProposed, DraftVerified, Event
from tests.decoding.kit import (
    PROMPT,
    KnowingConfu,
    bind,
    confu_head,
    plain,
    run,
    settings,
    tiny_model,
    varied,
)

PARENTS = (-1, 0, 0, 1, 1, 2, 4)
DEPTHS = (0, 1, 1, 2, 2, 2, 3)
IDS = (5, 1, 2, 3, 4, 6, 7)
SCORES = (0.0, -0.1, -0.9, -0.8, -0.2, -1.5, -0.3)


def tree_of(ids: Sequence[int] = IDS) -> TokenTree:
    scores = torch.tensor(SCORES)
    return make_tree(torch.tensor(ids), torch.tensor(PARENTS), scores, scores, max_depth=3)


class Scene:
    """A float64 target that has read the prompt, and its contemplator."""

    def __init__(self, family: Family = "llama", config: ConfuConfig | None = None) -> None:
        self.model = tiny_model(family, dtype=torch.float64)
        self.head = confu_head(self.model)
        self.parts = ConfuParts(
            self.head, self.model, PackedHead(self.head.eagle, self.model).target_ids
        )
        self.contemplator = Contemplator(self.parts, config or ConfuConfig(), seed=0)
        self.cache, self.features = self.read(PROMPT)

    def read(self, ids: Sequence[int]) -> tuple[Any, Tensor]:
        cache = self.model.new_cache(80)
        out = self.model.forward(
            cache, token_ids=torch.tensor(ids), feature_layers=self.parts.layers
        )
        assert out.features is not None
        return cache, out.features[-1:]

    def verify(self, tree: TokenTree) -> ForwardOutput:
        with torch.inference_mode():
            return self.contemplator.verify_forward(self.cache, tree, self.features)

    def con_after(self, ids: Sequence[int], router_features: Tensor, soft: bool = True) -> Tensor:
        """Features [1, 3 D] of one [con] after ``ids``, token after token, without any tree."""
        cache, _ = self.read(ids)
        embedding, _ = self.parts.con_mixture(router_features)
        with torch.inference_mode():
            out = self.model.forward(
                cache,
                embeddings=embedding,
                feature_layers=self.parts.layers,
                side=self.parts.side if soft else None,
                side_rows=torch.tensor([True]) if soft else None,
            )
        assert out.features is not None
        return out.features


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("budget", [-1, 1, 3])
def test_tree_rows_do_not_notice_contemplate_tokens_or_soft_prompts(
    budget: int, family: Family
) -> None:
    scene, tree = Scene(family, ConfuConfig(contemplate_budget=budget)), tree_of()
    with_con = scene.verify(tree)
    cache, _ = scene.read(PROMPT)
    without = scene.model.forward(
        cache,
        token_ids=tree.token_ids,
        positions=len(PROMPT) + tree.depths,
        mask=verify_mask(tree.ancestors, len(PROMPT)),
        feature_layers=scene.parts.layers,
    )
    assert with_con.logits.dtype == torch.float64
    assert with_con.logits.shape == without.logits.shape
    assert (with_con.logits - without.logits).abs().max() < 1e-10
    assert with_con.features is not None
    assert without.features is not None
    assert (with_con.features[:7] - without.features).abs().max() < 1e-10
    assert scene.contemplator.num_con == (7 if budget < 0 else budget)


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("node", range(7))
def test_a_contemplate_token_reads_its_own_path_and_nothing_else(node: int, soft: bool) -> None:
    scene = Scene(config=ConfuConfig(soft_prompts=soft))
    out = scene.verify(tree_of())
    assert out.features is not None
    path, above = [IDS[node]], PARENTS[node]
    while above >= 0:
        path.insert(0, IDS[above])
        above = PARENTS[above]
    expected = scene.con_after((*PROMPT, *path), scene.features, soft)
    torch.testing.assert_close(out.features[7 + node][None], expected, atol=1e-9, rtol=1e-9)


def test_a_contemplate_token_does_not_see_siblings() -> None:
    before = Scene().verify(tree_of())
    changed = list(IDS)
    changed[2], changed[5] = 9, 8  # the other branch
    after = Scene().verify(tree_of(changed))
    assert before.features is not None
    assert after.features is not None
    difference = (before.features - after.features).abs().amax(dim=1)
    moved = [row for row in range(14) if difference[row] > 1e-6]
    assert moved == [2, 5, 7 + 2, 7 + 5]
    assert difference[[0, 1, 3, 4, 6, 7, 8, 10, 11, 13]].max() < 1e-12


def test_soft_prompts_change_what_contemplate_tokens_say() -> None:
    with_prompts = Scene().verify(tree_of()).features
    without = Scene(config=ConfuConfig(soft_prompts=False)).verify(tree_of()).features
    assert with_prompts is not None
    assert without is not None
    assert (with_prompts - without)[7:].abs().amax(dim=1).min() > 1e-3


#: Chances of the nodes of PARENTS to be accepted; to be the last accepted one they are
#: 0.1, 0.15, 0.06, 0.3, 0.03, 0.24, 0.12.
CHANCES = (1.0, 0.6, 0.3, 0.3, 0.15, 0.24, 0.12)


def likely_tree() -> TokenTree:
    scores = torch.tensor(CHANCES).log()
    return make_tree(torch.tensor(IDS), torch.tensor(PARENTS), scores, scores, max_depth=3)


def test_a_node_is_the_last_accepted_if_it_is_accepted_and_no_child_of_it() -> None:
    shares = likely_tree().last_accepted
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.15, 0.06, 0.3, 0.03, 0.24, 0.12]))
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("budget", "nodes"),
    [
        (-1, [0, 1, 2, 3, 4, 5, 6]),
        (1, [0]),
        (2, [0, 3]),
        (3, [0, 3, 5]),  # by chance of acceptance they would be 0, 1 and 2
        (5, [0, 1, 3, 5, 6]),
        (99, range(7)),
    ],
)
def test_a_budget_goes_to_the_root_and_to_the_nodes_most_likely_to_be_the_last_accepted(
    budget: int, nodes: Sequence[int]
) -> None:
    assert contemplated_nodes(likely_tree(), budget).tolist() == list(nodes)


@pytest.mark.parametrize(("node", "serving"), [(0, 0), (1, 1), (2, 0), (3, 1), (5, 0), (6, 4)])
def test_a_node_without_a_contemplate_token_is_served_by_its_nearest_ancestor(
    node: int, serving: int
) -> None:
    assert serving_node(node, PARENTS, [0, 1, 4]) == serving


def contemplations(events: Sequence[Event]) -> list[Contemplation]:
    found = [event.contemplation for event in events if isinstance(event, DraftProposed)]
    assert all(entry is not None for entry in found)
    return [entry for entry in found if entry is not None]


def contemplate(config: ConfuConfig, seed: int = 0) -> list[Event]:
    """A greedy run of 24 tokens whose drafter knows up to four tokens ahead."""
    target = bind(tiny_model(seed=seed))
    whole = replace(settings(24, num_nodes=16), confu=config)
    text = (*PROMPT, *plain(target, whole))
    return run(KnowingConfu(target, confu_head(target.model)).know(text, varied(seed)), whole)


@pytest.mark.parametrize("budget", [-1, 1, 3])
def test_the_next_f_is_what_the_target_contemplates_after_the_last_accepted_token(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against [con] forwards without trees: right token, right position, router one cycle late."""
    followed: list[tuple[int, int, Tensor]] = []
    follow = Contemplator.follow

    def recording(self: Contemplator, out: Any, parents: Any, path: Any, start: int) -> None:
        follow(self, out, parents, path, start)
        newest = self._futures[-1]
        followed.append((start, newest.position, newest.features))
        assert newest.source_node in path
        if budget < 0:
            assert newest.source_node == path[-1]

    monkeypatch.setattr(Contemplator, "follow", recording)
    scene = Scene()
    target = bind(scene.model)
    config = replace(settings(24, num_nodes=16), confu=ConfuConfig(contemplate_budget=budget))
    text = (*PROMPT, *plain(target, config))
    run(KnowingConfu(target, scene.head).know(text, varied(2)), config)
    assert len(followed) > 5
    for start, position, features in followed:
        _, router_features = scene.read(text[:start])  # the token before the root
        expected = scene.con_after(text[:position], router_features)
        torch.testing.assert_close(features, expected, atol=1e-9, rtol=1e-9)
    if budget == 1:
        assert all(position == start + 1 for start, position, _ in followed)
    else:
        assert any(position > start + 1 for start, position, _ in followed)


def test_the_prompts_contemplate_token_follows_the_last_prompt_token() -> None:
    scene = Scene()
    with torch.inference_mode():
        scene.contemplator.read_prompt(scene.cache, scene.features)
    future = scene.contemplator._futures[-1]
    expected = scene.con_after(PROMPT, scene.features)
    torch.testing.assert_close(future.features, expected, atol=1e-9, rtol=1e-9)
    assert future.position == len(PROMPT)
    assert scene.cache.length == len(PROMPT)


def test_events_tell_where_f_came_from_and_which_experts_made_it() -> None:
    events = contemplate(ConfuConfig())
    entries = contemplations(events)
    assert (entries[0].source, entries[0].source_node) == ("prefill", None)
    verified = [event for event in events if isinstance(event, DraftVerified)]
    for entry, before in zip(entries[1:], verified[:-1], strict=True):
        assert (entry.source, entry.source_node) == ("node", [0, *before.accepted][-1])
    for entry in entries:
        for weights in (entry.con_router, entry.future_router):
            assert sum(weights) == pytest.approx(1.0, abs=1e-6)
            assert sum(weight > 0 for weight in weights) == 2
        probs = [token.prob for token in entry.foreseen]
        assert len(probs) == 3
        assert probs == sorted(probs, reverse=True)
    assert len({entry.con_router for entry in entries}) > 2
    assert len({entry.foreseen for entry in entries}) > 2


def test_the_controls_are_visible_in_the_events() -> None:
    zeroed = contemplations(contemplate(ConfuConfig(future="zeroed")))
    assert {(entry.source, entry.foreseen, entry.con_router) for entry in zeroed} == {
        ("off", (), ())
    }
    assert all(sum(entry.future_router) == pytest.approx(1.0) for entry in zeroed)
    even = contemplations(contemplate(ConfuConfig(mixtures=False)))
    assert all(entry.con_router == entry.future_router == (0.25,) * 4 for entry in even)
    none = contemplations(contemplate(ConfuConfig(contemplate_budget=0)))
    assert {(entry.source, entry.future_router) for entry in none} == {("off", ())}


def test_the_logits_hear_a_con_by_how_far_the_root_is_from_it() -> None:
    weights = confu_head(tiny_model()).foresight_weights
    assert weights is not None
    first, second = weights.tolist()
    everywhere = contemplations(contemplate(ConfuConfig()))
    assert {entry.logit_weights for entry in everywhere} == {(first, second)}
    events = contemplate(ConfuConfig(contemplate_budget=1))
    verified = [event for event in events if isinstance(event, DraftVerified)]
    expected = [(first, second)]  # after the prompt's own [con]
    for event in verified[:-1]:  # only the root had one: so many tokens ago
        expected.append((first, second)[len(event.accepted) :])
    assert [entry.logit_weights for entry in contemplations(events)] == expected
    assert len(set(expected)) == 3
    off = contemplations(contemplate(ConfuConfig(future="zeroed")))
    assert {entry.logit_weights for entry in off} == {()}


def test_what_a_con_foresees_is_the_targets_own_reading_times_the_weights() -> None:
    scene = Scene()
    with torch.inference_mode():
        scene.contemplator.read_prompt(scene.cache, scene.features)
        hidden = scene.contemplator._futures[-1].hidden
        ids = PackedHead(scene.head.eagle, scene.model).target_ids
        normed = scene.model.final_norm(hidden)
        turned = [normed + turn.to(normed)(normed) for turn in scene.head.foresight_maps]
        readings = [scene.model.lm_head(state)[:, ids].float() for state in turned]
        for distance in (0, 1, 2, 5):
            outlook = scene.parts.outlook(hidden, distance)
            weights = scene.parts.foresight_weights[distance:]
            assert len(outlook) == len(weights)
            for added, reading, weight in zip(outlook, readings[distance:], weights, strict=True):
                torch.testing.assert_close(added, reading * weight)


def test_the_shuffled_control_uses_the_f_of_an_earlier_cycle() -> None:
    on = contemplations(contemplate(ConfuConfig()))
    shuffled = contemplations(contemplate(ConfuConfig(future="shuffled")))
    assert shuffled[0].source == "off"  # nothing is earlier
    earlier = [entry.foreseen for entry in on]
    assert shuffled[1].foreseen == earlier[0]
    for cycle, entry in enumerate(shuffled[1:], start=1):
        assert entry.foreseen in earlier[:cycle]
    again = contemplations(contemplate(ConfuConfig(future="shuffled")))
    assert again == shuffled
