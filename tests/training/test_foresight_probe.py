"""The foresight probe: its labels, that it finds a future that is there, and none that is not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.heads.checkpoint import save_head
from confu_demo.training import foresight_probe
from confu_demo.training.confu import ConfuSettings
from confu_demo.training.foresight_probe import (
    BOTH,
    CON,
    ORDINARY,
    SOURCES,
    UNTRAINED,
    PlaceReader,
    Places,
    ProbeSettings,
    difference_interval,
    future_labels,
    probe_table,
    run_probe,
    score_probes,
    train_probes,
)
from confu_demo.training.head_batches import read_target
from confu_demo.training.head_job import HeadJob, Material
from confu_demo.training.head_trainer import HeadSettings
from tests.training.head_kit import (
    VOCAB_SIZE,
    batch_of,
    random_batch,
    random_confu,
    random_eagle,
    tiny_target,
)

SETTINGS = ProbeSettings(
    num_tokens=6000, offsets=3, num_classes=9, anchors=12, batch_tokens=400, rate=0.02
)


def test_labels_are_the_tokens_ahead_and_end_with_the_document() -> None:
    batch = batch_of([[4, 5, 6, 7], [8, 9, 10, 11, 12, 13]], [1, 1])
    class_of = torch.arange(VOCAB_SIZE)
    class_of[11] = -1  # no class
    labels = future_labels(batch, torch.tensor([[0, 2], [1, 3]]), 3, class_of)
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

    def read(self, batch: object, generator: torch.Generator) -> Places:
        num = batch.token_ids.size(0) * 12  # type: ignore[attr-defined]
        labels = torch.randint(9, (3, num), generator=generator)
        noise = torch.randn(num, 24, generator=generator)
        features = {ORDINARY: noise, CON: self._codes[labels[1]] + 0.1 * noise}
        return Places(features, labels, torch.arange(num) // 12)


def test_a_probe_finds_a_future_that_is_there_and_none_that_is_not() -> None:
    documents = random_batch([(20, 3)] * 30).documents
    vocabulary = torch.randn(9, 16, generator=torch.Generator().manual_seed(2))
    reader = FakeReader()
    probes = train_probes(reader, documents, vocabulary, SETTINGS, lambda line: None)
    hits = score_probes(reader, probes, documents, vocabulary, SETTINGS)
    table, figures = probe_table(hits)
    told = [row["accuracy"] for row in figures[CON]]
    noise = [row["accuracy"] for row in figures[ORDINARY]]
    assert told[1] > 0.9
    assert all(share < 0.3 for share in (told[0], told[2], *noise))
    assert figures[CON][1]["more_than_ordinary"][0] > 0.6
    assert figures[ORDINARY][1]["more_than_ordinary"] == (0.0, 0.0)
    assert table.splitlines()[0] == "| state | 1 ahead | 2 ahead | 3 ahead |"


def test_an_interval_draws_documents_in_pairs() -> None:
    own, base = [(9, 10), (1, 10)], [(8, 10), (0, 10)]
    assert difference_interval(own, base) == pytest.approx((0.1, 0.1))
    low, high = difference_interval([(9, 10), (1, 10)], [(5, 10), (5, 10)])
    assert (low, high) == pytest.approx((-0.4, 0.4))


def test_places_carry_the_features_of_their_own_rows() -> None:
    target, head = tiny_target(), random_confu()
    class_of = torch.arange(VOCAB_SIZE)
    confu = SimpleNamespace(anchors=ConfuSettings(training=TRAINING).anchors)
    reader = PlaceReader(target, head, head, class_of, SETTINGS, confu)  # type: ignore[arg-type]
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
    assert places.labels[0].tolist() == [*batch.token_ids[0, 3:11].tolist(), batch.token_ids[1, 7]]


TRAINING = HeadSettings(total_tokens=100, eval_documents=2)


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
    settings = ProbeSettings(num_tokens=300, offsets=2, num_classes=9, anchors=4, batch_tokens=70)
    table = run_probe(job, tmp_path / "confu", settings, TRAINING, lambda line: None)
    assert all(f"| {name} |" in table for name in SOURCES)
    assert (tmp_path / "work" / "table.md").read_text(encoding="utf-8") == table + "\n"
    figures = json.loads((tmp_path / "work" / "probe.json").read_text(encoding="utf-8"))
    assert list(figures) == list(SOURCES)
    assert all(len(rows) == 2 for rows in figures.values())


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
