"""The training of EAGLE-3 heads: what it learns, what it leaves alone, and that it resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from confu_demo.training.drafter_unroll import UnrollResult, unroll
from confu_demo.training.eagle3 import EagleObjective, EagleSettings, head_config, initial_head
from confu_demo.training.head_batches import HeadBatch, HeadBatchSource, read_target, root_rows
from confu_demo.training.head_evaluation import accepted_lengths, score, walk
from confu_demo.training.head_trainer import HeadSettings, HeadTrainer, make_optimisers
from tests.training.head_kit import (
    CPU,
    LAYERS,
    VOCAB_SIZE,
    document,
    eagle_config,
    random_batch,
    random_eagle,
    tiny_config,
    tiny_target,
)

SETTINGS = HeadSettings(
    total_tokens=600, unroll_steps=3, batch_tokens=60, warmup_steps=2, evaluations=2,
    eval_documents=2, save_every_s=0.0,
)  # fmt: skip
DOCUMENTS = [document(14 + seed, 3, seed) for seed in range(6)]


def objective(seed: int = 0) -> EagleObjective:
    target = tiny_target(dtype=torch.float32)
    torch.manual_seed(seed)
    counts = torch.arange(VOCAB_SIZE)
    head = initial_head(target, eagle_config(), counts)
    return EagleObjective(target, head, [document(12, 4, 50), document(15, 3, 51)], SETTINGS)


def test_a_head_learns_one_batch() -> None:
    learner = objective()
    batch = random_batch([(20, 3), (18, 4)])
    optimisers = make_optimisers(learner, replace(SETTINGS, muon_rate=0.02, adam_rate=0.01))
    losses, matches = [], []
    for _ in range(40):
        result = learner.unrolled(batch, SETTINGS.unroll_steps)
        losses.append(float(result.loss.detach()))
        matches.append(float(result.matches.sum() / result.has_label.sum()))
        result.loss.backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    # The loss cannot fall below the target's own entropy, so acceptance is the measure.
    assert losses[-1] < losses[0] - 0.05
    assert matches[0] < 0.5
    assert matches[-1] > 0.65


def test_the_target_gets_no_gradient_and_every_part_of_the_head_does() -> None:
    learner = objective()
    before = {name: value.clone() for name, value in learner.target.state_dict().items()}
    learner.unrolled(random_batch([(20, 3)]), SETTINGS.unroll_steps).loss.backward()
    assert all(parameter.grad is None for parameter in learner.target.parameters())
    for name, parameter in learner.head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    after = learner.target.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_matrices_of_the_drafter_go_to_muon_and_all_else_to_adamw() -> None:
    learner = objective()
    muon, adam = make_optimisers(learner, SETTINGS)
    names = {id(parameter): name for name, parameter in learner.head.named_parameters()}
    by_muon = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    by_adam = {names[id(p)] for group in adam.param_groups for p in group["params"]}
    projections = {f"midlayer.self_attn.{p}_proj.weight" for p in "qkvo"}
    mlp = {f"midlayer.mlp.{p}_proj.weight" for p in ("gate", "up", "down")}
    assert by_muon == {"fc.weight", *projections, *mlp}
    assert by_adam == set(names.values()) - by_muon
    assert {"lm_head.weight", "norm.weight"} <= by_adam


@torch.no_grad()
def test_a_step_never_reads_tokens_beyond_the_one_it_embeds() -> None:
    """Row t of step i reads x_0..x_{t+1+i}: changing later tokens changes neither its output nor
    its label."""
    head, target = random_eagle(), tiny_target()
    batch = random_batch([(16, 2)])
    changed = replace(batch, token_ids=batch.token_ids.clone())
    changed.token_ids[0, 10:] = (changed.token_ids[0, 10:] + 7) % VOCAB_SIZE
    rows, _ = root_rows(batch)
    outputs, labels = [], []
    for one in (batch, changed):
        answers = read_target(target, one, LAYERS, head.t2d)
        outputs.append(unroll(head, answers.embeddings, head.fuse(answers.features), rows, 4))
        labels.append(answers.probs)
    for step in range(4):
        same = rows[0] + 1 + step <= 9
        place = (rows[0] + 1 + step).clamp(max=15)
        torch.testing.assert_close(outputs[0][step][0, same], outputs[1][step][0, same])
        torch.testing.assert_close(labels[0][0, place[same]], labels[1][0, place[same]])
        differences = (outputs[0][step] - outputs[1][step])[0, ~same].abs().amax(-1)
        assert (differences > 1e-6).all()


class Interrupted(Exception):
    pass


class InterruptedObjective(EagleObjective):
    steps_left = 4

    def loss(self, batch: HeadBatch, generator: torch.Generator, num_steps: int) -> UnrollResult:
        if self.steps_left == 0:
            raise Interrupted
        self.steps_left -= 1
        return super().loss(batch, generator, num_steps)


def trainer(learner: EagleObjective, folder: Path) -> HeadTrainer:
    source = HeadBatchSource(DOCUMENTS, SETTINGS.batch_tokens, SETTINGS.seed)
    return HeadTrainer(learner, source, SETTINGS, folder, CPU, lambda line: None)


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole, broken = objective(), objective()
    unbroken = trainer(whole, tmp_path / "whole")
    unbroken.run()
    fragile = InterruptedObjective(broken.target, broken.head, DOCUMENTS[:2], SETTINGS)
    with pytest.raises(Interrupted):
        trainer(fragile, tmp_path / "broken").run()
    later = objective(seed=9)
    resumed = trainer(later, tmp_path / "broken")
    resumed.run()
    assert resumed.step == unbroken.step > 8
    for name, value in whole.head.state_dict().items():
        torch.testing.assert_close(later.head.state_dict()[name], value)
    lines = (tmp_path / "broken" / "history.jsonl").read_text().splitlines()
    assert len(lines) == len(resumed.history) == 3  # before, on the way, at the end
    again = trainer(objective(seed=5), tmp_path / "broken")
    again.run()
    assert again.step == resumed.step


def test_a_budget_of_seconds_ends_the_training(tmp_path: Path) -> None:
    learner = objective()
    settings = replace(SETTINGS, total_tokens=None, max_seconds=0.05)
    run = HeadTrainer(
        learner, HeadBatchSource(DOCUMENTS, 60, 0), settings, tmp_path, CPU, lambda line: None
    )
    run.run()
    assert run.step >= 1
    assert run.share_spent() == 1.0
    with pytest.raises(ValueError, match="budget"):
        HeadSettings()


def test_the_initial_head_knows_what_the_target_knows() -> None:
    target = tiny_target(dtype=torch.float32)
    counts = torch.arange(VOCAB_SIZE)
    head = initial_head(target, eagle_config(5), counts)
    assert head.t2d.nonzero().flatten().tolist() == [18, 19, 20, 21, 22]
    assert torch.equal(head.lm_head.weight, target.lm_head.weight[18:])
    assert torch.equal(head.norm.weight, target.model.norm.weight)


def test_a_head_takes_its_shape_and_rotary_base_from_its_target() -> None:
    target = replace(tiny_config(), rope_theta=777.0)
    settings = EagleSettings(training=SETTINGS, draft_vocab_size=None)
    config = head_config(target, settings, "abc")
    assert config.rope_theta == 777.0
    assert config.draft_vocab_size == VOCAB_SIZE
    assert config.feature_layers == (1, 2, 3)
    assert (config.num_heads, config.num_kv_heads, config.target_sha256) == (4, 2, "abc")
    small = head_config(target, EagleSettings(training=SETTINGS, draft_vocab_size=9), "")
    assert small.draft_vocab_size == 9


def test_accepted_length_is_the_run_of_leading_matches_and_a_walk_skips_what_it_accepts() -> None:
    matches = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]], dtype=torch.bool)
    assert accepted_lengths(matches).tolist() == [2, 0, 3, 1]
    assert walk([2, 0, 0, 1, 0, 3]) == [3, 2, 4]
    assert walk([]) == []


def test_scores_are_shares_of_the_tokens_that_exist() -> None:
    def result(matches: list[list[int]], labels: list[list[int]], loss: float) -> UnrollResult:
        booleans = (torch.tensor([rows], dtype=torch.bool) for rows in (matches, labels))
        return UnrollResult(torch.tensor(loss), [], *booleans)

    first = result([[1, 1], [1, 0], [0, 0]], [[1, 1], [1, 0], [0, 0]], 2.0)
    second = result([[0, 1]], [[1, 1]], 5.0)
    total = score([first, second])
    assert total.positions == 3
    assert total.acceptance == pytest.approx([2 / 3, 1.0])
    assert total.mean_length == pytest.approx(1 + (2 + 1 + 0) / 3)
    assert total.walked_length == pytest.approx((3 + 1) / 2)
    assert total.cycles == 2
    assert total.loss == pytest.approx(3.0)
    with pytest.raises(ValueError, match="nothing to predict"):
        score([result([[0, 0]], [[0, 0]], 1.0)])


def test_short_unrolls_come_first_and_the_whole_length_last() -> None:
    settings = replace(SETTINGS, unroll_steps=5, shorter_unrolls=((0.2, 1), (0.6, 3)))
    assert [settings.steps_at(share) for share in (0.0, 0.19, 0.2, 0.59, 0.6, 1.0)] == [
        1, 1, 3, 3, 5, 5,
    ]  # fmt: skip


def test_training_takes_the_loss_over_the_candidates_that_the_settings_name() -> None:
    batch = random_batch([(24, 3), (22, 4)])
    learner = objective()
    whole = float(learner.loss(batch, torch.Generator(), 2).loss.detach())
    learner.settings = replace(learner.settings, num_candidates=3)
    few = float(learner.loss(batch, torch.Generator(), 2).loss.detach())
    assert few < whole
    assert few == float(learner.unrolled(batch, 2, 3).loss.detach())


def test_a_loss_without_candidates_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 1 candidate or more, not 0"):
        replace(SETTINGS, num_candidates=0)


def test_rows_are_dropped_while_training_and_never_while_scoring() -> None:
    batch = random_batch([(24, 3), (22, 4)])
    learner = objective()
    whole = float(learner.loss(batch, torch.Generator(), 2).loss.detach())
    learner = EagleObjective(
        learner.target, learner.head, [], replace(learner.settings, row_dropout=0.5)
    )
    learner.head.train()
    torch.manual_seed(0)
    dropped = [float(learner.loss(batch, torch.Generator(), 2).loss.detach()) for _ in range(2)]
    assert dropped[0] != dropped[1]
    learner.head.eval()
    assert float(learner.loss(batch, torch.Generator(), 2).loss.detach()) == whole


def test_a_dropout_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 0 or more and below 1"):
        replace(SETTINGS, row_dropout=1.0)


def test_training_in_bfloat16_rounds_the_products_and_neither_labels_nor_weights() -> None:
    batch = random_batch([(24, 3), (22, 4)])
    learner = objective()
    exact = learner.loss(batch, torch.Generator(), 2)
    labels = learner.target.embed(batch.token_ids).dtype
    with torch.autocast("cpu", torch.bfloat16):
        rough = learner.loss(batch, torch.Generator(), 2)
        answers = read_target(learner.target, batch, LAYERS, learner.head.t2d)
    assert answers.probs.dtype == answers.features.dtype == labels == torch.float32
    difference = abs(float(rough.loss.detach()) - float(exact.loss.detach()))
    assert 0.0 < difference < 0.05
    rough.loss.backward()
    moved = learner.head.fc.weight
    before = moved.detach().clone()
    for optimiser in make_optimisers(learner, replace(SETTINGS, dtype="bfloat16")):
        optimiser.step()
    assert moved.dtype == torch.float32
    assert not torch.equal(moved, before)
