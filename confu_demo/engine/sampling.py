"""From logits to tokens: temperature, top-k, top-p, and noise that belongs to positions.

Sampling is the Gumbel-max trick: argmax(log probs + noise) has exactly the law ``probs``. The
noise of a position depends on the seed and the position alone, so a speculative decoder that asks
for the token at position n gets the token that plain decoding would have drawn there, and
losslessness above temperature 0 can be tested token for token (our choice; see confu.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from confu_demo.config import SamplingConfig

_MASK_64 = (1 << 64) - 1
_MAX_KEPT_POSITIONS = 64  # a draft tree asks for a few positions again and again


def probs(logits: Tensor, config: SamplingConfig) -> Tensor:
    """[.., V] -> float32 [.., V] that sum to 1: temperature, then top-k, then top-p.

    Temperature 0 is one-hot on the argmax. Ties go to the lowest token id everywhere. top-p
    keeps the smallest set of most probable tokens that reaches ``top_p``, at least one.
    """
    logits = logits.float()
    if config.temperature == 0.0:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    distribution = _scaled(logits, config.temperature).softmax(-1)
    uses_top_k = 0 < config.top_k < logits.shape[-1]
    if not uses_top_k and config.top_p >= 1.0:
        return distribution
    ranked, order = distribution.sort(dim=-1, descending=True, stable=True)
    if uses_top_k:
        ranked[..., config.top_k :] = 0.0
    if config.top_p < 1.0:
        ranked /= ranked.sum(-1, keepdim=True)
        before = ranked.cumsum(-1) - ranked  # mass of the tokens in front of each one
        beyond = before >= config.top_p
        beyond[..., 0] = False
        ranked.masked_fill_(beyond, 0.0)
    kept = torch.zeros_like(distribution).scatter_(-1, order, ranked)
    return kept / kept.sum(-1, keepdim=True)


class PositionNoise:
    """Gumbel noise of a vocabulary, one vector a position, in any order and on any device."""

    def __init__(self, seed: int, vocab_size: int) -> None:
        self.seed = seed
        self.vocab_size = vocab_size
        self._generator = torch.Generator()  # on the CPU, so that devices agree
        self._kept: dict[int, Tensor] = {}

    def gumbel(self, position: int) -> Tensor:
        """Float32[V] on the CPU, a function of (seed, position) alone. Not to be changed."""
        noise = self._kept.get(position)
        if noise is None:
            if len(self._kept) >= _MAX_KEPT_POSITIONS:
                self._kept.pop(next(iter(self._kept)))
            noise = self._kept[position] = self._draw(position)
        return noise

    def _draw(self, position: int) -> Tensor:
        self._generator.manual_seed(_mix(self.seed, position))
        # Doubles: with 24 bits the largest noises, which decide, would be coarse.
        uniform = torch.rand(self.vocab_size, generator=self._generator, dtype=torch.float64)
        exponential = uniform.clamp_min_(1e-300).log_().neg_()  # never 0: uniform is below 1
        return exponential.log_().neg_().float()


def sample(
    logits: Tensor, config: SamplingConfig, noise: PositionNoise, positions: Sequence[int]
) -> Tensor:
    """Tokens for logits [V] or [M, V] -> Long[M] on the logits' device.

    ``positions[m]`` is the absolute index of the token that row m emits. Greedy at temperature
    0, where neither noise nor positions are read. Raises ValueError if rows and positions differ.
    """
    rows = logits.unsqueeze(0) if logits.dim() == 1 else logits
    if config.temperature == 0.0:
        return rows.argmax(-1)
    if rows.shape[0] != len(positions):
        raise ValueError(f"{rows.shape[0]} rows of logits for {len(positions)} positions")
    gumbel = torch.stack([noise.gumbel(position) for position in positions]).to(rows.device)
    if config.top_k == 0 and config.top_p >= 1.0:
        # A constant per row does not move the argmax, so the softmax can be left out.
        return (_scaled(rows.float(), config.temperature) + gumbel).argmax(-1)
    # log 0 is -inf: a token without probability is never drawn.
    return (probs(rows, config).log() + gumbel).argmax(-1)


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """Logits over the temperature, less their maximum: a tiny temperature cannot overflow."""
    return (logits - logits.amax(-1, keepdim=True)) / temperature


def _mix(seed: int, position: int) -> int:
    """SplitMix64's finaliser: neighbouring seeds and positions give unrelated generators."""
    state = (seed * 0x9E3779B97F4A7C15 + position * 0xD1B54A32D192ED03 + 1) & _MASK_64
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return (state ^ (state >> 31)) >> 1  # manual_seed takes 63 bits
