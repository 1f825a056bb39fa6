"""The probe measures, prefers the plainer setting, and is asked once."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch

from confu_demo.engine import probe
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.probe import ProbeRow, candidate_threads, probe_settings
from confu_demo.engine.weights import num_parameters_of
from tests.engine.kit import hf_config

CONFIG = ModelConfig.from_hf(hf_config("llama"))
F32, BF16 = torch.float32, torch.bfloat16


@pytest.fixture(autouse=True)
def _forget():
    probe_settings.cache_clear()
    yield
    probe_settings.cache_clear()


def pretend(monkeypatch, times):
    """Replaces the stopwatch by a table: (dtype, threads) -> ms, or (.., several rows) -> ms."""
    asked = []

    def rows_ms(model, threads, num_rows):
        asked.append((model.dtype, threads))
        key = (model.dtype, threads) if num_rows == 1 else (model.dtype, threads, num_rows)
        return times[key]

    monkeypatch.setattr(probe, "_rows_ms", rows_ms)
    return asked


def test_every_dtype_is_measured_and_threads_in_the_faster_one():
    before = torch.get_num_threads()
    result = probe_settings(CONFIG, (F32, BF16), (1, 2))
    assert torch.get_num_threads() == before
    assert [(row.dtype, row.threads) for row in result.table[:2]] == [(F32, 1), (BF16, 1)]
    assert [row.threads for row in result.table] == [1, 1, 2]
    assert all(row.ms > 0 for row in result.table)


@pytest.mark.parametrize(
    ("bf16_ms", "two_threads_ms", "want"),
    [
        (10.0, 9.5, (F32, 1)),  # nobody wins clearly
        (9.5, 5.0, (F32, 2)),
        (4.0, 3.9, (BF16, 1)),
        (4.0, 2.0, (BF16, 2)),
        (90.0, 80.0, (F32, 1)),
    ],
)
def test_a_challenger_must_win_clearly(monkeypatch, bf16_ms, two_threads_ms, want):
    times = {(F32, 1): 10.0, (BF16, 1): bf16_ms}
    pretend(monkeypatch, {**times, (F32, 2): two_threads_ms, (BF16, 2): two_threads_ms})
    result = probe_settings(CONFIG, (F32, BF16), (1, 2))
    assert (result.dtype, result.threads) == want
    assert result.table[0] == ProbeRow(F32, 1, 10.0)


def test_several_rows_count_beside_a_single_one_where_weights_are_large(monkeypatch):
    times = {(F32, 1): 10.0, (F32, 1, 8): 30.0, (F32, 2): 10.5, (F32, 2, 8): 15.0}
    pretend(monkeypatch, times)
    assert probe_settings(CONFIG, (F32,), (1, 2)).threads == 1, "a single row alone: no gain"
    probe_settings.cache_clear()
    monkeypatch.setattr(probe, "pays", lambda count: True)
    result = probe_settings(CONFIG, (F32,), (1, 2))
    assert result.threads == 2
    assert [row.cost for row in result.table] == [40.0, 25.5]
    assert result.single_threads == 1, "plain decoding must not pay for what drafts gain"


def test_single_rows_take_the_threads_that_make_them_faster(monkeypatch):
    pretend(monkeypatch, {(F32, 1): 10.0, (F32, 2): 6.0})
    assert probe_settings(CONFIG, (F32,), (1, 2)).single_threads == 2
    assert probe_settings(CONFIG, (F32,), (3,)).single_threads == 3, "a fixed count holds"


def test_an_answer_is_remembered_and_a_fixed_setting_is_not_measured(monkeypatch):
    asked = pretend(monkeypatch, {(F32, 1): 1.0, (BF16, 1): 2.0})
    assert probe_settings(CONFIG, (F32, BF16), (1,)) is probe_settings(CONFIG, (F32, BF16), (1,))
    assert len(asked) == 2
    fixed = probe_settings(CONFIG, (BF16,), (3,))
    assert (fixed.dtype, fixed.threads, fixed.table) == (BF16, 3, ())
    assert len(asked) == 2


def test_a_large_shape_is_measured_in_part():
    large = replace(
        CONFIG, hidden_size=1024, intermediate_size=4096, num_layers=24, vocab_size=150_000
    )
    part, factor = probe._affordable(large)
    assert num_parameters_of(part) < 40_000_000
    assert part.hidden_size == large.hidden_size
    assert factor == num_parameters_of(large) / num_parameters_of(part)
    assert probe._affordable(CONFIG) == (CONFIG, 1.0)


@pytest.mark.parametrize(
    ("cores", "limit", "want"),
    [
        (1, "", (1,)),
        (2, "", (1, 2)),
        (6, "", (1, 2, 4, 6)),
        (8, "", (1, 2, 4, 8)),
        (8, "3", (1, 2, 3)),
        (2, "8", (1, 2)),
        (2, "x", (1, 2)),
    ],
)
def test_thread_candidates_are_powers_of_two_up_to_the_cores(monkeypatch, cores, limit, want):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert candidate_threads() == want
