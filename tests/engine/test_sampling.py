"""Sampling: the exact law, the edges of top-k and top-p, and noise that belongs to positions."""

from __future__ import annotations

import pytest
import torch

from confu_demo.config import SamplingConfig
from confu_demo.engine.sampling import PositionNoise, probs, sample

LOGITS = torch.tensor([1.0, 3.0, 2.0, 3.0, -1.0])  # tokens 1 and 3 tie


def config(temperature=1.0, **settings):
    return SamplingConfig(temperature=temperature, **settings)


def test_temperature_divides_the_logits():
    want = torch.softmax(LOGITS.double() / 0.7, -1)
    torch.testing.assert_close(probs(LOGITS, config(0.7)).double(), want, rtol=1e-5, atol=0.0)


def test_temperature_zero_is_one_hot_with_ties_to_the_lowest_id():
    assert probs(LOGITS, config(0.0)).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    rows = torch.stack((LOGITS, torch.zeros(5)))
    assert probs(rows, config(0.0)).argmax(-1).tolist() == [1, 0]
    assert sample(rows, config(0.0), PositionNoise(0, 5), (7, 8)).tolist() == [1, 0]


def test_a_tiny_temperature_neither_overflows_nor_leaves_the_best_tokens():
    got = probs(LOGITS * 1000, config(1e-30))
    torch.testing.assert_close(got, torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0]))


@pytest.mark.parametrize(
    ("top_k", "kept"),
    [(1, {1}), (2, {1, 3}), (3, {1, 2, 3}), (5, {0, 1, 2, 3, 4}), (9, {0, 1, 2, 3, 4})],
)
def test_top_k_keeps_exactly_k_with_ties_to_the_lowest_id(top_k, kept):
    got = probs(LOGITS, config(top_k=top_k))
    assert set(got.nonzero().flatten().tolist()) == kept
    full = torch.softmax(LOGITS, -1)
    want = torch.where(got > 0, full, 0.0)
    torch.testing.assert_close(got, want / want.sum())


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (1e-6, {3}),  # at least one
        (0.5, {3}),  # 0.5 alone reaches 0.5
        (0.51, {1, 3}),
        (0.75, {1, 3}),  # 0.5 + 0.25 reaches it exactly
        (0.76, {0, 1, 3}),  # tokens 0 and 2 tie: the lower id
        (0.99, {0, 1, 2, 3}),
        (1.0, {0, 1, 2, 3}),
    ],
)
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p, kept):
    logits = torch.tensor([0.125, 0.25, 0.125, 0.5]).log()
    got = probs(logits, config(top_p=top_p))
    assert set(got.nonzero().flatten().tolist()) == kept
    assert got.sum().item() == pytest.approx(1.0, abs=1e-6)
    # Tokens that stay keep their proportions.
    want = torch.tensor([0.125, 0.25, 0.125, 0.5])[got > 0]
    torch.testing.assert_close(got[got > 0], want / want.sum())


def test_top_p_counts_what_top_k_has_left():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    # After top_k = 2 the probabilities are 4/7 and 3/7, so 0.5 is reached by the first.
    assert probs(logits, config(top_k=2, top_p=0.5)).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_rows_are_independent_and_low_precision_is_widened():
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    settings = config(0.9, top_k=4, top_p=0.8)
    batch = probs(rows, settings)
    assert batch.dtype == torch.float32
    for row, want in zip(rows, batch, strict=True):
        torch.testing.assert_close(probs(row, settings), want)


def test_noise_depends_on_seed_and_position_alone():
    forwards, backwards = PositionNoise(5, 11), PositionNoise(5, 11)
    there = [forwards.gumbel(position).clone() for position in range(100)]
    back = [backwards.gumbel(position).clone() for position in reversed(range(100))]
    assert all(torch.equal(a, b) for a, b in zip(there, reversed(back), strict=True))
    assert torch.equal(forwards.gumbel(0), there[0])  # long forgotten, drawn again
    assert there[0].dtype == torch.float32
    everything = torch.stack([*there, *(PositionNoise(6, 11).gumbel(i) for i in range(100))])
    assert len(everything.unique(dim=0)) == 200
    assert everything.isfinite().all()


def test_noise_is_gumbel_and_unrelated_between_neighbours():
    noise = torch.stack([PositionNoise(1, 4000).gumbel(position) for position in range(10)])
    # Kolmogorov-Smirnov distance to exp(-exp(-x)); 1.95 / sqrt(n) is the 0.1 % bound.
    ordered = noise.double().flatten().sort().values
    law = torch.exp(-torch.exp(-ordered))
    steps = torch.arange(1, len(law) + 1) / len(law)
    assert (law - steps).abs().max() < 1.95 / len(law) ** 0.5
    correlation = torch.corrcoef(noise)
    assert (correlation - torch.eye(10)).abs().max() < 5 / 4000**0.5


@pytest.mark.parametrize(
    "settings",
    [config(0.8), config(1.3, top_k=3), config(1.0, top_p=0.8), config(0.7, top_k=4, top_p=0.9)],
)
def test_samples_follow_the_law(settings):
    count = 6_000
    tokens = sample(LOGITS.expand(count, 5), settings, PositionNoise(3, 5), range(count))
    seen = torch.bincount(tokens, minlength=5).double()
    law = probs(LOGITS, settings).double()
    assert seen[law == 0].sum() == 0
    expected = law[law > 0] * count
    chi_square = ((seen[law > 0] - expected) ** 2 / expected).sum()
    assert chi_square < 25  # 4 degrees of freedom: exceeded once in 20,000


def test_a_row_gets_the_token_of_its_position_in_any_company():
    rows = torch.randn(8, 5, generator=torch.Generator().manual_seed(2))
    settings, positions = config(0.9), [40, 41, 41, 7, 40, 1000, 3, 2]
    together = sample(rows, settings, PositionNoise(9, 5), positions)
    noise = PositionNoise(9, 5)
    for index in (5, 0, 7, 2, 1, 3, 6, 4):
        alone = sample(rows[index], settings, noise, [positions[index]])
        assert alone.shape == (1,)
        assert alone.item() == together[index].item()


def test_rows_without_positions_are_refused():
    with pytest.raises(ValueError, match="2 rows of logits for 1 positions"):
        sample(torch.zeros(2, 5), config(), PositionNoise(0, 5), [3])
