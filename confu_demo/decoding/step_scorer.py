"""SpecReason's scorer: how useful is a draft step, 0 to 9, seen without a step to compare it with.

SpecReason (arXiv 2504.07891) asks an instruct model in words and reads the digit. The bundled
target was never taught to answer such a question, so its own likelihood of the step stands in
[O]: it costs nothing beside the forward that the step's keys and values need anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from confu_demo.trace import MAX_SCORE


class StepScorer(Protocol):
    """Anything that scores a step; tests script it."""

    def score(self, logits: Tensor, token_ids: Sequence[int]) -> int:
        """0 to 9. ``logits`` [n, V]: what the target expected at each of the step's n tokens."""
        ...


class LikelihoodScorer:
    """Ten times the geometric mean of the step's token probabilities, rounded down: 7 and more
    where the target gives its tokens 0.7 or more in the mean. At temperature 1, whatever the run
    samples with."""

    def score(self, logits: Tensor, token_ids: Sequence[int]) -> int:
        ids = torch.tensor(token_ids, device=logits.device)
        own = logits.float().log_softmax(-1).gather(1, ids[:, None])
        return min(MAX_SCORE, int(10.0 * float(own.mean().exp())))
