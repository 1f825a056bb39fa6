"""Muon for matrices: momentum whose singular values are all pushed to one.

``torch.optim.Muon`` orthogonalises in bfloat16, which is an order of magnitude slower than
float32 on CPUs without bfloat16 units, and one matrix at a time; this one works in the
parameters' own dtype unless told otherwise, and on all matrices of one shape at once. Update scale
0.2 * sqrt(larger dimension) (Liu et al. 2025), Newton-Schulz coefficients of Jordan et al. 2024.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """[n, rows, columns] -> the same with singular values close to one (0.7 to 1.2)."""
    wide = matrices if matrices.size(1) <= matrices.size(2) else matrices.transpose(1, 2)
    x = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = _A * x + torch.bmm(torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x)
    return x if matrices.size(1) <= matrices.size(2) else x.transpose(1, 2)


class Muon(torch.optim.Optimizer):
    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        dtype: torch.dtype | None = None,
    ) -> None:
        """``dtype``: in which the matrices are orthogonalised; None: their own."""
        self._dtype = dtype
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, parameters in shapes.items():
                self._update(parameters, shape, group)

    def _update(self, parameters: list[Tensor], shape: torch.Size, group: dict[str, Any]) -> None:
        momentum, rate = group["momentum"], group["lr"]
        directions = []
        for parameter in parameters:
            state, grad = self.state[parameter], parameter.grad
            assert grad is not None
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(parameter)
            state["momentum"].lerp_(grad, 1 - momentum)
            directions.append(grad.lerp(state["momentum"], momentum))
        stacked = torch.stack(directions)
        updates = orthogonalise(stacked.to(self._dtype or stacked.dtype)).to(stacked.dtype)
        scale = 0.2 * math.sqrt(max(shape))
        for parameter, update in zip(parameters, updates, strict=True):
            parameter.mul_(1 - rate * group["weight_decay"]).add_(update, alpha=-rate * scale)
