"""Plain decoding: one target forward a token. The output that defines correct, and the baseline
that every speedup is measured against, so nothing here may be slower than it has to be.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from confu_demo.config import DecodeConfig
from confu_demo.decoding.base import BoundModel, Clock, DecodeRequest, Stop, on_clock
from confu_demo.decoding.run import Run, require_room
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.trace import Event, Origin

_ORIGINS: tuple[Origin, ...] = ("target",)


class AutoregressiveDecoder:
    """The target alone, token by token."""

    method = "autoregressive"
    lossless = True

    def __init__(self, target: BoundModel) -> None:
        self.target = target

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        """Raises ``ValueError`` at once if prompt and new tokens do not fit the context."""
        require_room(request, config, self.target)
        return on_clock(clock, self._run(request, config, clock, stop))

    def _run(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        run = Run(self.method, (self.target.info,), self.target, request, config, clock)
        model, sampling = self.target.model, config.sampling
        noise = PositionNoise(sampling.seed, model.config.vocab_size)
        cache = model.new_cache(run.num_prompt + config.max_new_tokens)
        try:
            yield run.started()
            with run.prefill:
                prompt = torch.tensor(request.token_ids, device=model.device)
                last = slice(run.num_prompt - 1, run.num_prompt)
                logits = model.forward(cache, token_ids=prompt, logits_rows=last).logits
                token_ids = sample(logits, sampling, noise, [run.num_prompt])
                token = int(token_ids)
            yield run.prefilled()
            run.cut((token,))
            yield run.commit((token,), _ORIGINS)
            while run.reason is None:
                if stop():
                    run.reason = "cancelled"
                    break
                with run.verify:
                    logits = model.forward(cache, token_ids=token_ids).logits
                    token_ids = sample(logits, sampling, noise, [len(run.ids)])
                    token = int(token_ids)
                run.count_verify(1)
                run.cut((token,))
                yield run.commit((token,), _ORIGINS)
            yield run.finished()
        finally:
            del cache
