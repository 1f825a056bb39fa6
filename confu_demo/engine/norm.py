"""RMSNorm as a division by a length: x / hypot(|x|, sqrt(D eps)) = RMSNorm(x) / sqrt(D).

Three operations instead of the six that PyTorch's own norm takes on the CPU. The factor sqrt(D)
and the norm's weight are multiplied into whatever comes next.
"""

from __future__ import annotations

from torch import Tensor
from torch.linalg import vector_norm


def length_floor(size: int, eps: float, like: Tensor) -> Tensor:
    """sqrt(D eps), a scalar on the device and in the dtype of ``like``."""
    return like.new_tensor((size * eps) ** 0.5)


def floored_length(hidden: Tensor, floor: Tensor) -> Tensor:
    """[.., D] -> [.., 1], hypot(|x|, floor)."""
    return vector_norm(hidden, 2, -1, True).hypot_(floor)
