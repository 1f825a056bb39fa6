"""The training of ConFu heads: anchors never look ahead, f off is EAGLE-3, the target is frozen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.training.anchors import (
    Anchors,
    AnchorSettings,
    con_mask,
    draw_anchors,
    every_row,
    pack_rows,
    routed_from,
    serving_anchor,
)
from confu_demo.training.confu import (
    ConfuObjective,
    ConfuSettings,
    initial_confu,
    take_contemplation,
    train_confu,
)
from confu_demo.training.confu_pass import (
    Contemplation,
    changed_future,
    contemplate,
    future_columns,
)
from confu_demo.training.drafter_unroll import gather_rows, unroll
from confu_demo.training.eagle3 import EagleObjective
from confu_demo.training.head_batches import root_rows
from confu_demo.training.head_job import HeadJob
from confu_demo.training.head_trainer import HeadSettings, make_optimisers
from confu_demo.training.language_model import LanguageModel, causal_mask
from tests.training.head_kit import (
    VOCAB_SIZE,
    document,
    lean_twin,
    random_batch,
    random_confu,
    random_eagle,
    tiny_target,
)

TRAINING = HeadSettings(
    total_tokens=100, unroll_steps=3, muon_rate=0.02, adam_rate=0.01, eval_documents=2
)
SETTINGS = ConfuSettings(
    training=TRAINING,
    anchors=AnchorSettings(num_anchors=4, max_reach=3, max_lag=3),
    num_soft_prompts=3,
    num_experts=4,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def objective(dtype: torch.dtype = torch.float64) -> ConfuObjective:
    held_out = [document(12, 4, 50), document(15, 3, 51)]
    return ConfuObjective(tiny_target(dtype=dtype), random_confu(dtype=dtype), held_out, SETTINGS)


def anchors_at(places: list[list[int]], reach: list[list[int]]) -> Anchors:
    at = torch.tensor(places)
    return Anchors(at, torch.ones_like(at, dtype=torch.bool), at, torch.tensor(reach))


def test_a_row_is_served_by_the_nearest_anchor_before_it_that_reaches_it() -> None:
    anchors = anchors_at([[3, 5, 9]], [[6, 1, 0]])
    rows = torch.arange(2, 12)[None]
    #                                              2  3  4  5  6  7  8  9 10  11
    assert serving_anchor(anchors, rows).tolist() == [[-1, 0, 0, 1, 1, 0, 0, 2, -1, -1]]
    anchors.valid[0, 0] = False
    assert serving_anchor(anchors, rows).tolist() == [[-1, -1, -1, 1, 1, -1, -1, 2, -1, -1]]


def test_anchors_are_distinct_root_rows_and_serve_only_forward() -> None:
    batch = random_batch([(30, 5), (9, 4), (4, 3)])
    rows, valid = root_rows(batch)
    settings = AnchorSettings(num_anchors=6, max_reach=4, max_lag=3)
    for seed in range(30):
        anchors = draw_anchors(rows, valid, settings, generator(seed))
        assert anchors.valid.sum(1).tolist() == [6, 4, 0]
        for index, (length, num_prompt) in enumerate([(30, 5), (9, 4)]):
            places = anchors.places[index][anchors.valid[index]].tolist()
            assert places == sorted(set(places))
            assert places[0] >= num_prompt - 1
            assert places[-1] <= length - 3
        assert anchors.reach.min() >= 0
        assert anchors.reach.max() <= 4
        serving = serving_anchor(anchors, rows)
        served = serving >= 0
        offset = rows - anchors.places.gather(1, serving.clamp(min=0))
        assert (offset[served] >= 0).all()
        assert (offset <= anchors.reach.gather(1, serving.clamp(min=0)))[served].all()


def test_the_prompts_own_con_is_routed_from_itself_and_others_from_before() -> None:
    places = torch.tensor([[4, 5, 6, 20]]).expand(200, -1)
    first = torch.full((200, 1), 4)
    routed = routed_from(places, first, 3, generator())
    assert (routed[:, 0] == 4).all()
    assert (routed[:, 1] == 4).all()
    assert set(routed[:, 2].tolist()) == {4, 5}
    assert set(routed[:, 3].tolist()) == {17, 18, 19}


def test_every_row_is_its_own_anchor_in_evaluation() -> None:
    rows, valid = root_rows(random_batch([(12, 5), (8, 4)]))
    anchors = every_row(rows, valid, 3, generator())
    serving = serving_anchor(anchors, rows)
    expected = torch.arange(rows.size(1)).expand_as(rows)
    assert torch.equal(serving[valid], expected[valid])


def test_con_rows_see_soft_prompts_their_past_and_themselves() -> None:
    batch = random_batch([(3, 1)])
    mask = con_mask(batch, anchors_at([[0, 2]], [[0, 0]]), num_soft=1)
    assert mask.int().tolist() == [[[1, 1, 0, 0, 1, 0], [1, 1, 1, 1, 0, 1]]]


def test_later_con_tokens_of_an_anchor_see_the_earlier_ones_of_that_anchor_alone() -> None:
    batch = random_batch([(3, 1)])
    mask = con_mask(batch, anchors_at([[0, 2]], [[0, 0]]), num_soft=1, num_each=2)
    assert mask.int().tolist() == [
        [
            [1, 1, 0, 0, 1, 0, 0, 0],
            [1, 1, 0, 0, 1, 1, 0, 0],
            [1, 1, 1, 1, 0, 0, 1, 0],
            [1, 1, 1, 1, 0, 0, 1, 1],
        ]
    ]


@torch.no_grad()
def test_the_second_con_token_follows_the_first_as_in_a_fresh_forward() -> None:
    target, head = tiny_target(), random_confu()
    model = lean_twin(target)
    batch = random_batch([(12, 3)])
    learner = ConfuObjective(target, head, [], replace(SETTINGS, num_contemplate_tokens=2))
    answers = learner.read(batch)
    anchors = anchors_at([[2, 6]], [[0, 0]])
    alone = contemplate(target, head, batch, answers, anchors).features
    width = alone.size(-1)
    ours = learner.contemplated(batch, answers, anchors).features
    assert ours.shape == (1, 2, 2 * width)
    torch.testing.assert_close(ours[..., :width], alone)
    side = model.side_key_values(head.soft_prompt.embeddings)
    for index, anchor in enumerate((2, 6)):
        routed = answers.features[0, anchors.routed_from[0, index]][None]
        con = head.con_mixture(routed)[0].expand(2, -1)
        theirs = model.forward(
            model.new_cache(20),
            embeddings=torch.cat((model.embed(batch.token_ids[0, : anchor + 1]), con)),
            side=side,
            side_rows=torch.arange(anchor + 3) > anchor,
            feature_layers=head.config.eagle.feature_layers,
        ).features
        assert theirs is not None
        torch.testing.assert_close(ours[0, index, width:], theirs[-1], atol=2e-5, rtol=0.0)


def test_two_future_tokens_have_a_column_each_at_their_own_positions() -> None:
    learner = objective()
    learner.settings = replace(learner.settings, num_contemplate_tokens=2)
    batch = random_batch([(18, 3)])
    answers = learner.read(batch)
    rows, valid = root_rows(batch)
    anchors = every_row(rows, valid, 3, generator())
    con_features = learner.contemplated(batch, answers, anchors).features
    starts = gather_rows(learner.head.eagle.fuse(answers.features), rows)
    serving = serving_anchor(anchors, rows)
    both = future_columns(learner.head, con_features, anchors, starts, serving, valid, 2)
    first, second = con_features.chunk(2, dim=-1)
    later = replace(anchors, places=anchors.places + 1)
    for column, features, at in ((both[0], first, anchors), (both[1], second, later)):
        (alone,) = future_columns(learner.head, features, at, starts, serving, valid)
        torch.testing.assert_close(column.keys, alone.keys)
        torch.testing.assert_close(column.values, alone.values)
    loss = learner.loss(batch, generator(), 2).loss
    loss.backward()
    grad = learner.head.soft_prompt.embeddings.grad
    assert grad is not None
    assert grad.abs().sum() > 0


def test_a_head_that_decoding_could_not_use_is_not_trained(tmp_path: Path) -> None:
    job = HeadJob(target=tmp_path, outputs=tmp_path, work=tmp_path, out=tmp_path)
    for settings in (
        replace(SETTINGS, num_contemplate_tokens=2),
        replace(SETTINGS, future_source="last"),
    ):
        with pytest.raises(ValueError, match="train others as ablations"):
            train_confu(job, tmp_path, settings)
    with pytest.raises(ValueError, match="1 contemplate token or more"):
        replace(SETTINGS, num_contemplate_tokens=0)


def test_packing_keeps_valid_rows_in_order() -> None:
    rows = torch.tensor([[4, 5, 6, 7], [2, 3, 4, 0]])
    valid = torch.tensor([[False, True, False, True], [True, False, False, False]])
    packed, kept = pack_rows(rows, valid)
    assert packed.tolist() == [[5, 7], [2, 0]]
    assert kept.tolist() == [[True, True], [True, False]]


@torch.no_grad()
def test_con_features_equal_a_fresh_forward_of_the_engine() -> None:
    """Prefix and [con] in one sequence, with the soft prompts beside them."""
    target, head = tiny_target(), random_confu()
    model = lean_twin(target)
    batch = random_batch([(12, 3), (9, 2)])
    learner = ConfuObjective(target, head, [], SETTINGS)
    answers = learner.read(batch)
    anchors = Anchors(
        places=torch.tensor([[2, 6, 9], [1, 4, 6]]),
        valid=torch.ones(2, 3, dtype=torch.bool),
        routed_from=torch.tensor([[2, 3, 7], [1, 1, 5]]),
        reach=torch.zeros(2, 3, dtype=torch.long),
    )
    ours = contemplate(target, head, batch, answers, anchors).features
    side = model.side_key_values(head.soft_prompt.embeddings)
    for index in range(2):
        for place in range(3):
            anchor = int(anchors.places[index, place])
            source = int(anchors.routed_from[index, place])
            con, _ = head.con_mixture(answers.features[index, source : source + 1])
            prefix = model.embed(batch.token_ids[index, : anchor + 1])
            theirs = model.forward(
                model.new_cache(20),
                embeddings=torch.cat((prefix, con)),
                side=side,
                side_rows=torch.arange(anchor + 2) == anchor + 1,
                feature_layers=head.config.eagle.feature_layers,
            ).features
            assert theirs is not None
            torch.testing.assert_close(ours[index, place], theirs[-1], atol=2e-5, rtol=0.0)


@torch.no_grad()
def test_anchors_and_replication_never_look_ahead() -> None:
    """Other tokens after x_9: every f of an anchor up to 9, and every output of a row and step
    that reads no token after x_9, stay what they were."""
    learner = objective()
    batch = random_batch([(18, 3)])
    changed = replace(batch, token_ids=batch.token_ids.clone())
    changed.token_ids[0, 10:] = (changed.token_ids[0, 10:] + 5) % VOCAB_SIZE
    rows, valid = root_rows(batch)
    settings = AnchorSettings(num_anchors=7, max_reach=5, max_lag=3)
    anchors = draw_anchors(rows, valid, settings, generator(4))
    serving = serving_anchor(anchors, rows)
    assert ((rows - anchors.places.gather(1, serving.clamp(min=0)))[serving >= 0] > 0).any()
    futures, outputs = [], []
    for one in (batch, changed):
        answers = learner.read(one)
        con_features = contemplate(learner.target, learner.head, one, answers, anchors).features
        fused = learner.head.eagle.fuse(answers.features)
        starts = gather_rows(fused, rows)
        column = future_columns(learner.head, con_features, anchors, starts, serving, valid)
        futures.append(con_features)
        outputs.append(unroll(learner.head.eagle, answers.embeddings, fused, rows, 3, column))
    early = anchors.places[0] <= 9
    assert early.any()
    assert (~early).any()
    torch.testing.assert_close(futures[0][0, early], futures[1][0, early])
    assert ((futures[0] - futures[1])[0, ~early].abs().amax(-1) > 1e-4).all()
    for step in range(3):
        same = rows[0] + 1 + step <= 9
        torch.testing.assert_close(outputs[0][step][0, same], outputs[1][step][0, same])
        assert (outputs[0][step] - outputs[1][step])[0, ~same].abs().max() > 1e-4


@torch.no_grad()
def test_with_f_switched_off_the_loss_is_eagle3s() -> None:
    learner = objective()
    batch = random_batch([(18, 3), (12, 4)])
    baseline = EagleObjective(learner.target, learner.head.eagle, [], TRAINING).unrolled(
        batch, TRAINING.unroll_steps
    )
    answers = learner.read(batch)
    rows, valid = root_rows(batch)
    anchors = draw_anchors(rows, valid, SETTINGS.anchors, generator())
    con = contemplate(learner.target, learner.head, batch, answers, anchors)
    arguments = (batch, answers, anchors, con, rows, valid)
    hidden = learner.unrolled(*arguments, None)
    assert torch.equal(hidden.loss, baseline.loss)
    assert torch.equal(hidden.matches, baseline.matches)
    dropped = learner.unrolled(*arguments, torch.zeros_like(valid))
    torch.testing.assert_close(dropped.loss, baseline.loss, atol=1e-12, rtol=0.0)
    seen = learner.unrolled(*arguments, valid)
    assert abs(float(seen.loss - baseline.loss)) > 1e-5
    assert learner.head.foresight_weights is not None
    learner.head.foresight_weights.zero_()
    assert abs(float(seen.loss - learner.unrolled(*arguments, valid).loss)) > 1e-5
    learner.head.future_bias.fill_(-60.0)
    off = learner.unrolled(*arguments, valid)
    torch.testing.assert_close(off.loss, baseline.loss, atol=1e-12, rtol=0.0)


def test_only_the_rows_that_an_anchor_serves_count() -> None:
    learner = objective()
    few = replace(SETTINGS, anchors=AnchorSettings(num_anchors=2, max_reach=0, max_lag=2))
    learner.settings = few
    result = learner.loss(random_batch([(20, 3), (16, 3)]), generator(), TRAINING.unroll_steps)
    assert int(result.has_label[..., 0].sum()) == 4


def test_the_frozen_target_gets_no_gradient_and_every_part_of_confu_does() -> None:
    learner = objective()
    learner.settings = replace(SETTINGS, future_dropout=0.0)
    before = {name: value.clone() for name, value in learner.target.state_dict().items()}
    learner.loss(
        random_batch([(20, 3), (16, 3)]), generator(), TRAINING.unroll_steps
    ).loss.backward()
    assert all(parameter.grad is None for parameter in learner.target.parameters())
    for name, parameter in learner.head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    after = learner.target.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_confus_own_parts_alone_learn_one_batch() -> None:
    """With the drafter frozen, only the future token can lower the loss."""
    learner = objective(torch.float32)
    learner.head.eagle.requires_grad_(False)
    batch = random_batch([(20, 3), (18, 4)])
    learner.settings = replace(SETTINGS, future_dropout=0.0)
    own = [p for p in learner.head.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(own, lr=0.02)
    losses = []
    for _ in range(25):
        result = learner.loss(batch, generator(1), TRAINING.unroll_steps)
        losses.append(float(result.loss.detach()))
        result.loss.backward()
        adam.step()
        adam.zero_grad()
    assert losses[-1] < losses[0] - 0.02


def test_a_whole_confu_head_learns_one_batch() -> None:
    target = tiny_target(dtype=torch.float32)
    head = initial_confu(target, random_eagle(dtype=torch.float32), SETTINGS, generator())
    learner = ConfuObjective(target, head, [], SETTINGS)
    optimisers = make_optimisers(learner, TRAINING)
    assert optimisers[1].param_groups[1]["params"][0] is head.future_bias
    batch = random_batch([(20, 3), (18, 4)])
    losses = []
    for step in range(30):
        result = learner.loss(batch, generator(step), TRAINING.unroll_steps)
        losses.append(float(result.loss.detach()))
        result.loss.backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    assert sum(losses[-5:]) < sum(losses[:5]) - 0.5


@torch.no_grad()
def test_a_fresh_confu_head_drafts_like_the_eagle3_head_it_starts_from() -> None:
    target, eagle = tiny_target(), random_eagle()
    settings = replace(SETTINGS, initial_future_bias=-30.0)
    head = initial_confu(target, eagle, settings, generator()).double()
    learner = ConfuObjective(target, head, [document(20, 3)], settings)
    scores = learner.scores_of([[document(20, 3)]])
    baseline = EagleObjective(target, eagle, [document(20, 3)], TRAINING).evaluate()["eagle3"]
    assert set(scores) == {f"confu, f {mode}" for mode in ("on", "zeroed", "shuffled", "hidden")}
    for scored in scores.values():
        assert scored["acceptance"] == baseline["acceptance"]
        assert scored["loss"] == pytest.approx(baseline["loss"], abs=1e-6)


def by_hand(target: LanguageModel, normed: Tensor, probs: Tensor, t2d: Tensor) -> float:
    logits = target.lm_head(normed)[t2d]
    return float(-(probs * logits.log_softmax(-1)).sum())


@pytest.mark.parametrize("has_maps", [True, False])
@torch.no_grad()
def test_a_con_foresees_what_comes_after_the_next_token_through_the_targets_own_head(
    has_maps: bool,
) -> None:
    """Two tokens an anchor: with maps from one [con], without them from two."""
    learner = objective()
    maps = list(learner.head.foresight_maps)[:2]
    learner.head.foresight_maps = nn.ModuleList(maps if has_maps else [])
    if not has_maps:
        learner.settings = replace(learner.settings, num_contemplate_tokens=2)
    batch = random_batch([(12, 3)])
    answers = learner.read(batch)
    anchors = anchors_at([[2, 8, 9]], [[0, 0, 0]])
    con = learner.contemplated(batch, answers, anchors)
    seen = learner.foreseen(batch, answers, anchors, con)
    whole = learner.target(
        learner.target.embed(batch.token_ids), torch.arange(12)[None], causal_mask(12)
    )
    logits, t2d = learner.target.lm_head_logits(whole.hidden[0]), learner.head.eagle.t2d
    expected, total, num_nearest = 0.0, 0.0, 0
    # The first after x_a is held against what the target says after x_{a+1}, the second after
    # x_{a+2}, at half the weight; x_12 does not exist.
    for number, said_after in enumerate((3, 4, 9, 10, 10, 11)):
        if said_after < 11 and t2d[logits[said_after].argmax()]:
            probs = logits[said_after, t2d].softmax(-1)
            place, nth = divmod(number, 2)
            state = learner.target.model.norm(con.hidden[0, place if has_maps else number])
            state = state + maps[nth](state) if has_maps else state
            weight = (1.0, 0.5)[nth]
            expected += weight * by_hand(learner.target, state, probs, t2d)
            total, num_nearest = total + weight, num_nearest + (nth == 0)
    assert seen.places == num_nearest > 0
    assert total > num_nearest
    assert float(seen.loss) == pytest.approx(expected / total)


def test_what_con_foresees_is_learnt_alone_first_and_then_with_the_drafter() -> None:
    target = tiny_target(dtype=torch.float32)
    settings = replace(
        SETTINGS, foresight_weight=1.0, foresight_share=0.5, contemplate_rate=0.03,
        future_dropout=0.0,
    )  # fmt: skip
    head = initial_confu(target, random_eagle(dtype=torch.float32), settings, generator())
    learner = ConfuObjective(target, head, [], settings)
    assert [learner.steps_at(share) for share in (0.0, 0.49, 0.5, 0.9)] == [0, 0, 3, 3]
    batch = random_batch([(20, 3), (18, 4)])
    drafter = {name: value.clone() for name, value in head.eagle.named_parameters()}
    optimisers = make_optimisers(learner, TRAINING)
    losses = []
    for step in range(40):
        result = learner.loss(batch, generator(step), 0)
        assert result.matches.shape[-1] == 0
        losses.append(float(result.loss.detach()))
        result.loss.backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    assert sum(losses[-5:]) < sum(losses[:5]) - 0.15
    for name, value in head.eagle.named_parameters():
        assert torch.equal(value, drafter[name])
    both = learner.loss(batch, generator(), 2).loss
    learner.settings = replace(settings, foresight_weight=0.0, foresight_share=0.0)
    alone = learner.loss(batch, generator(), 2).loss
    assert float((both - alone).detach()) == pytest.approx(losses[-1], rel=0.5)
    with pytest.raises(ValueError, match="needs a foresight weight"):
        replace(SETTINGS, foresight_share=0.5)


def test_con_is_taken_from_another_head_and_the_drafter_is_not() -> None:
    source = random_confu(3, torch.float32)
    settings = replace(
        SETTINGS, num_soft_prompts=3, num_experts=4, foresight_depths=3, foresight_weight=1.0,
        foresight_share=1.0,
    )  # fmt: skip
    target, eagle = tiny_target(dtype=torch.float32), random_eagle(4, torch.float32)
    head = initial_confu(target, eagle, settings, generator())
    take_contemplation(head, source, Path("there"))
    for name, value in head.state_dict().items():
        origin = eagle.state_dict()[name[6:]] if name.startswith("eagle.") else None
        assert torch.equal(value, source.state_dict()[name] if origin is None else origin)
    assert ConfuObjective(target, head, [], settings).steps_at(0.999) == 0
    smaller = initial_confu(target, eagle, replace(settings, num_experts=2), generator())
    with pytest.raises(UnsupportedModel, match="has other sizes than the settings ask for"):
        take_contemplation(smaller, source, Path("there"))
    with pytest.raises(UnsupportedModel, match="there holds no ConFu head"):
        take_contemplation(head, eagle, Path("there"))
    with pytest.raises(ValueError, match="a share of 0 to 1"):
        replace(settings, foresight_share=1.1)


@torch.no_grad()
def test_a_pass_over_con_in_bfloat16_thinks_nearly_the_same() -> None:
    precise = objective(torch.float32)
    rough = ConfuObjective(
        precise.target, precise.head, [], replace(SETTINGS, contemplate_dtype="bfloat16")
    )
    batch = random_batch([(18, 3)])
    answers, anchors = precise.read(batch), anchors_at([[3, 9]], [[0, 0]])
    ours = rough.contemplated(batch, answers, anchors)
    theirs = precise.contemplated(batch, answers, anchors)
    assert ours.features.dtype == torch.float32
    difference = (ours.features - theirs.features).norm() / theirs.features.norm()
    assert 0.0 < float(difference) < 0.03


@torch.no_grad()
def test_evaluation_tells_its_four_futures_apart() -> None:
    everything = objective().evaluate()
    assert 0.0 <= everything["foreseen"] <= 1.0
    scores = {name: scored for name, scored in everything.items() if name != "foreseen"}
    losses = {name: scored["loss"] for name, scored in scores.items()}
    assert len({round(loss, 9) for loss in losses.values()}) == 4
    assert len({scored["positions"] for scored in scores.values()}) == 1
    assert objective().evaluate() == everything


def test_shuffling_moves_the_f_of_valid_anchors_and_zeroing_removes_them() -> None:
    features = torch.arange(12.0).view(2, 3, 2)
    con = Contemplation(features, features * 10)  # two numbers a [con], to tell them apart
    valid = torch.tensor([[True, True, False], [True, True, True]])
    changed = changed_future(con, valid, "shuffled", generator(1))
    shuffled = changed.features
    assert torch.equal(shuffled[0, 2], features[0, 2])
    moved = {tuple(row) for row in shuffled[valid].tolist()}
    assert moved == {tuple(row) for row in features[valid].tolist()}
    assert not torch.equal(shuffled, features)
    assert torch.equal(changed.hidden, shuffled * 10), "both of one [con] go together"
    nothing = changed_future(con, valid, "zeroed", generator())
    assert nothing.features.abs().sum() == nothing.hidden.abs().sum() == 0
    assert changed_future(con, valid, "on", generator()) is con


def test_what_only_the_target_reads_can_have_a_rate_of_its_own() -> None:
    learner = objective()
    learner.settings = replace(learner.settings, contemplate_rate=0.25)
    _, adam = make_optimisers(learner, TRAINING)
    rates = {
        id(parameter): group["lr"] for group in adam.param_groups for parameter in group["params"]
    }
    head = learner.head
    assert rates[id(head.soft_prompt.embeddings)] == 0.25
    assert rates[id(head.con_mixture.experts)] == 0.25
    assert rates[id(head.con_mixture.router.weight)] == TRAINING.adam_rate
    assert rates[id(head.future_mixture.experts)] == TRAINING.adam_rate
    assert rates[id(head.future_bias)] == learner.settings.future_bias_rate
