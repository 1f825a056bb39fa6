"""The foresight probe: its labels, that it finds a future that is there, and none that is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.heads.checkpoint import save_head
from confu_demo.training import foresight_probe
from confu_demo.training.anchors import AnchorSettings
from confu_demo.training.foresight_probe import (
    ProbeSettings,
    run_probe,
    score_probes,
    start_probes,
    train_probes,
)
from confu_demo.training.head_batches import HeadBatch, HeadBatchSource, read_target
from confu_demo.training.head_job import HeadJob, Material
from confu_demo.training.head_trainer import HeadSettings
from confu_demo.training.probe_places import (
    BOTH,
    CON,
    ORDINARY,
    SOURCES,
    UNTRAINED,
    OutputHead,
    PlaceReader,
    Places,
    future_labels,
)
from confu_demo.training.probe_scores import ProbeScores, difference_interval, probe_table
from tests.training.head_kit import batch_of, random_batch, random_confu, random_eagle, tiny_target

SETTINGS = ProbeSettings(num_tokens=6000, offsets=3, anchors=12, batch_tokens=400, rate=0.02)
ANCHORS = AnchorSettings(num_anchors=SETTINGS.anchors, max_lag=SETTINGS.max_lag)
TRAINING = HeadSettings(total_tokens=100, eval_documents=2)


def test_labels_are_the_tokens_ahead_and_end_with_the_document() -> None:
    batch = batch_of([[4, 5, 6, 7], [8, 9, 10, 11, 12, 13]], [1, 1])
    draft_ids = torch.where(batch.token_ids == 11, -1, batch.token_ids)  # 11 has no draft id
    labels = future_labels(draft_ids, batch.lengths, torch.tensor([[0, 2], [1, 3]]), 3)
    assert labels.tolist() == [
        [[5, 7], [10, 12]],
        [[6, -1], [-1, 13]],
        [[7, -1], [12, -1]],
    ]


class FakeReader(PlaceReader):
    """Features made by hand: one source tells the token two ahead, the other is noise."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self._codes = torch.randn(9, 24, generator=generator)

    def read(self, batch: HeadBatch, generator: torch.Generator) -> Places:
        num = batch.token_ids.size(0) * 12
        labels = torch.randint(9, (3, num), generator=generator)
        noise = torch.randn(num, 24, generator=generator)
        # Far from standardised, as the residual stream is.
        features = {ORDINARY: noise, CON: 300.0 + 50.0 * (self._codes[labels[1]] + 0.1 * noise)}
        return Places(features, labels, torch.arange(num) // 12)


def test_a_probe_finds_a_future_that_is_there_and_none_that_is_not() -> None:
    documents = random_batch([(20, 3)] * 30).documents
    words = torch.randn(9, 16, generator=torch.Generator().manual_seed(2))
    head, reader = OutputHead(nn.RMSNorm(16), words), FakeReader()
    head.requires_grad_(False)
    probes = train_probes(reader, documents, head, SETTINGS, lambda line: None)
    scores = score_probes(reader, probes, documents, head, SETTINGS)
    table, figures = probe_table(scores, ORDINARY)
    told = [row["accuracy"] for row in figures[CON]]
    noise = [row["accuracy"] for row in figures[ORDINARY]]
    assert told[1] > 0.9
    assert all(share < 0.3 for share in (told[0], told[2], *noise))
    assert figures[CON][1]["accuracy_difference"][0] > 0.6
    assert figures[CON][1]["log_loss"] < 0.5 < np.log(9) < figures[ORDINARY][1]["log_loss"]
    assert figures[CON][1]["log_loss_difference"][1] < -1.0
    assert figures[ORDINARY][1]["accuracy_difference"] == [0.0, 0.0]
    assert all(row["places"] == 30 * 12 for row in figures[CON])
    assert len(table.splitlines()) == 2 * (2 + 2 + 1) + 1
    assert table.splitlines()[0] == "| top-1 accuracy | 1 ahead | 2 ahead | 3 ahead |"
    assert table.splitlines()[6] == "| log-loss, nats | 1 ahead | 2 ahead | 3 ahead |"


def test_probes_standardise_every_dimension_over_many_training_places() -> None:
    documents, reader = random_batch([(20, 3)] * 30).documents, FakeReader()
    head = OutputHead(nn.RMSNorm(16), torch.randn(9, 16))
    source = HeadBatchSource(documents, SETTINGS.batch_tokens, 0)
    probes = start_probes(reader, source, head, SETTINGS)
    assert source.drawn > 1
    fresh = reader.read(random_batch([(20, 3)] * 200), torch.Generator().manual_seed(9))
    found = probes[CON].standardised(fresh.features[CON])
    assert (found.mean(0).abs() < 0.2).all()
    assert (found.std(0) - 1.0).abs().max() < 0.2


def test_answers_without_places_are_refused() -> None:
    documents = random_batch([(4, 3), (4, 3)]).documents
    target, confu = tiny_target(), random_confu()
    reader = PlaceReader(target, confu, confu, SETTINGS.offsets, ANCHORS)
    head = OutputHead(target.model.norm, target.lm_head.weight[confu.eagle.t2d])
    with pytest.raises(ValueError, match="too short to probe"):
        start_probes(reader, HeadBatchSource(documents, 400, 0), head, SETTINGS)


def test_the_output_head_gives_the_targets_logits_of_the_draft_vocabulary() -> None:
    target, t2d = tiny_target(), random_eagle().t2d
    states = torch.randn(5, 32, dtype=torch.float64)
    head = OutputHead(target.model.norm, target.lm_head.weight[t2d])
    torch.testing.assert_close(head(states), target.lm_head_logits(states)[:, t2d])


def interval(own: list[tuple[int, int]], base: list[tuple[int, int]]) -> tuple[float, float]:
    (a, n), (b, m) = (np.array(side, dtype=float).T for side in (own, base))
    return difference_interval(a, n, b, m)


def test_an_interval_draws_documents_in_pairs() -> None:
    assert interval([(9, 10), (1, 10)], [(8, 10), (0, 10)]) == pytest.approx((0.1, 0.1))
    assert interval([(9, 10), (1, 10)], [(5, 10), (5, 10)]) == pytest.approx((-0.4, 0.4))


def test_a_mean_weighs_places_and_an_offset_without_places_is_zero() -> None:
    scores = ProbeScores(
        hits=np.array([[3.0, 0.0], [0.0, 0.0]]),
        losses=np.array([[1.0, 5.0], [0.0, 0.0]]),
        places=np.array([[3.0, 1.0], [0.0, 0.0]]),
    )
    rows = probe_table({ORDINARY: scores}, ORDINARY)[1][ORDINARY]
    assert [(row["accuracy"], row["log_loss"], row["places"]) for row in rows] == [
        (0.75, 1.5, 4),
        (0.0, 0.0, 0),
    ]


def test_places_carry_the_features_of_their_own_rows() -> None:
    target, head = tiny_target(), random_confu()
    reader = PlaceReader(target, head, head, SETTINGS.offsets, ANCHORS)
    batch = random_batch([(12, 3), (9, 7)])
    places = reader.read(batch, torch.Generator().manual_seed(0))
    assert set(places.features) == set(SOURCES)
    assert torch.equal(places.features[CON], places.features[UNTRAINED])
    answers = read_target(target, batch, head.eagle.config.feature_layers, head.eagle.t2d)
    # Every root row is a place: 12 - 2 - 2 of one document, 9 - 2 - 6 of the other.
    assert places.documents.tolist() == [0] * 8 + [1]
    rows: list[Tensor] = [answers.features[0, place] for place in range(2, 10)]
    assert torch.equal(places.features[ORDINARY], torch.stack([*rows, answers.features[1, 6]]))
    assert places.features[BOTH].size(1) == 2 * places.features[CON].size(1)
    ahead = torch.cat((batch.token_ids[0, 3:11], batch.token_ids[1, 7:8]))
    assert torch.equal(places.labels[0], head.eagle.target_to_draft(ahead))
    assert (places.labels[0] == -1).any(), "some of these tokens are outside"


def job_and_material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeadJob:
    documents = random_batch([(20, 3), (18, 4), (24, 5)]).documents
    material = Material(
        tiny_target(dtype=torch.float32), "", documents, documents[:1], documents[1:]
    )
    monkeypatch.setattr(foresight_probe, "load_material", lambda *_: material)
    nowhere = tmp_path / "none"
    return HeadJob(target=nowhere, outputs=nowhere, work=tmp_path / "work", out=nowhere)


def test_a_probe_of_a_shipped_head_writes_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_and_material(tmp_path, monkeypatch)
    save_head(tmp_path / "confu", random_confu())
    settings = ProbeSettings(num_tokens=300, offsets=2, anchors=4, batch_tokens=70)
    table = run_probe(job, tmp_path / "confu", settings, TRAINING, lambda line: None)
    assert all(f"| {name} |" in table for name in SOURCES)
    assert (tmp_path / "work" / "table.md").read_text(encoding="utf-8") == table + "\n"
    figures = json.loads((tmp_path / "work" / "probe.json").read_text(encoding="utf-8"))
    assert list(figures["sources"]) == list(SOURCES)
    assert all(len(rows) == 2 for rows in figures["sources"].values())
    assert figures["settings"]["num_tokens"] == 300
    assert (figures["documents"], figures["heldout_documents"]) == (3, 2)


def test_an_eagle3_head_has_no_contemplate_tokens_to_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_and_material(tmp_path, monkeypatch)
    save_head(tmp_path / "confu", random_eagle())
    with pytest.raises(UnsupportedModel, match="no ConFu head to probe"):
        run_probe(job, tmp_path / "confu", SETTINGS, TRAINING, lambda line: None)


def test_a_probe_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        ProbeSettings(offsets=0)
