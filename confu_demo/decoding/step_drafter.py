"""The draft model as a writer of steps, with a cache that is kept and cropped, never refilled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from confu_demo.decoding.branches import Sampler
from confu_demo.decoding.steps import GrowingStep
from confu_demo.engine.target import LeanModel


class StepDrafter:
    """Writes one step after another over its own cache; one forward per token."""

    def __init__(self, model: LeanModel, capacity: int, sampler: Sampler) -> None:
        self._model = model
        self._sampler = sampler
        self.cache = model.new_cache(capacity)
        self._cached: list[int] = []  # the tokens whose keys and values are in the cache

    def prefill(self, token_ids: Sequence[int]) -> None:
        """Computes a prompt, whose continuation is not asked for yet."""
        if token_ids:
            self._cached.extend(token_ids)
            self._model.forward(
                self.cache,
                token_ids=torch.tensor(token_ids, device=self._model.device),
                logits_rows=slice(0, 0),
            )

    def write(self, prefix: Sequence[int], step: GrowingStep) -> None:
        """Fills ``step``, which continues ``prefix`` (longer than what the cache holds of it)."""
        ids = list(prefix[len(self._cached) :])
        tokens = torch.tensor(ids, device=self._model.device)
        position = len(prefix)
        ended = False
        while not ended:
            self._cached.extend(ids)
            output = self._model.forward(
                self.cache, token_ids=tokens, logits_rows=slice(len(ids) - 1, None)
            )
            tokens = self._sampler(output.logits, [position])  # stays on the device
            ids = tokens.tolist()
            ended = step.append(ids[0])
            position += 1

    def crop(self, token_ids: Sequence[int], start: int) -> None:
        """Drops what is not a prefix of ``token_ids``; the first ``start`` tokens are known to
        agree. At least the last token stays out, so that there is something to continue from."""
        longest = min(len(self._cached), len(token_ids) - 1)
        length = min(start, longest)
        while length < longest and self._cached[length] == token_ids[length]:
            length += 1
        del self._cached[length:]
        self.cache.rollback(length)
