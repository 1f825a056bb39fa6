"""ConFu's mixtures: experts are embedding vectors, a router picks a few and blends them [P].

A linear router, softmax, top-K, weighted sum; no auxiliary loss [P]. The weights are renormalised
over the chosen experts (our choice: the sum stays a convex combination).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ExpertMixture(nn.Module):
    """E expert vectors of width D behind a router that reads ``in_size`` numbers."""

    def __init__(
        self, in_size: int, out_size: int, *, num_experts: int = 8, top_k: int = 2
    ) -> None:
        super().__init__()
        if not 1 <= top_k <= num_experts:
            raise ValueError(f"top_k must be 1 to {num_experts} experts, not {top_k}")
        self.top_k = top_k
        self.experts = nn.Parameter(torch.randn(num_experts, out_size) * 0.02)
        self.router = nn.Linear(in_size, num_experts)

    def forward(self, x: Tensor, *, uniform: bool = False) -> tuple[Tensor, Tensor]:
        """x [.., in] -> (embedding [.., D], weights [.., E] that sum to 1, 0 where not chosen).

        ``uniform`` switches the mixture off: every expert weighs 1/E, whatever x is.
        """
        num_experts = self.experts.shape[0]
        if uniform:
            weights = self.experts.new_full((*x.shape[:-1], num_experts), 1.0 / num_experts)
        else:
            chosen, ids = torch.softmax(self.router(x), dim=-1).topk(self.top_k, dim=-1)
            chosen = chosen / chosen.sum(-1, keepdim=True)
            none = chosen.new_zeros((*x.shape[:-1], num_experts))
            weights = none.scatter(-1, ids, chosen)
        return weights @ self.experts, weights
