"""Soft prompts: learned input embeddings that only contemplate tokens can see [P].

The vectors run once through the frozen target (``LeanModel.side_key_values``); their keys and
values then stand beside every cache, shared by all requests [O].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SoftPrompt(nn.Module):
    """``embeddings`` [s, D_t], in the target's input embedding space."""

    def __init__(self, num_vectors: int, size: int) -> None:
        super().__init__()
        self.embeddings = nn.Parameter(torch.randn(num_vectors, size) * 0.02)

    def initialise_from(self, token_embeddings: Tensor) -> None:
        """Starts from rows of the target's embedding table [s, D_t] instead of noise."""
        with torch.no_grad():
            self.embeddings.copy_(token_embeddings)
