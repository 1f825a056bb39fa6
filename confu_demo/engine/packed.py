"""Matrices packed for products with a few rows on the CPU.

A product of 2 to 32 rows with a matrix that does not fit the caches is bound by how the matrix is
read. Our usual call rearranges the matrix every time; oneDNN can do that once, when a model is
loaded. SmolLM2-135M on two AVX2 cores, float32, two threads, whole forwards of 1 / 2 / 4 / 8 / 16 /
32 rows in ms: usual call 39 / 84 / 122 / 138 / 167 / 209, packed 39 / 49 / 55 / 65 / 90 / 120
(``python -m confu_demo.bench.several_rows FOLDER``). A single row stays with the usual call, so
the plain loop loses nothing; the price is a second copy of the matrices, which is why large
models do without.

The two operators are the ones that PyTorch's own compiler emits for linear layers on the CPU.
Where they are missing, nothing is packed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

MIN_PACKED_PARAMETERS = 10_000_000
"""Below, the weights stay in the processor's caches and the usual call is faster (bundled target,
16 rows, same command: 5.3 ms against 6.0 ms)."""
MAX_PACKED_PARAMETERS = 500_000_000
"""Above, a second copy of the weights (2 GB in float32) costs more than it is worth."""
_EXPECTED_ROWS = 8


class PackedMatrix:
    """``weight`` [out, in], rearranged. Called with rows [S, in] it gives a new [S, out]."""

    __slots__ = ("_bias", "_packed")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        # A copy of our own: the operator may keep the memory that it is given.
        own = weight.detach().contiguous().clone()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(own, _EXPECTED_ROWS)
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._packed, self._bias, "none", [], ""
        )
        return out


def pays(num_parameters: int) -> bool:
    """Whether a model or head of that size gains by packed matrices."""
    return MIN_PACKED_PARAMETERS <= num_parameters <= MAX_PACKED_PARAMETERS


def packed(weight: Tensor, bias: Tensor | None = None) -> PackedMatrix | None:
    """The packed matrix, or None where packing is not possible (device, dtype, build)."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not _works():
        return None
    return PackedMatrix(weight, bias)


@cache
def _works() -> bool:
    """Whether this build of PyTorch has the operators and they compute what they should."""
    if not torch.backends.mkldnn.is_available():
        return False
    rows, weight = torch.arange(12.0).view(3, 4), torch.arange(20.0).view(5, 4) / 7
    try:
        made: Any = PackedMatrix(weight, torch.ones(5))(rows)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return bool(torch.allclose(made, rows @ weight.t() + 1, rtol=1e-5))
