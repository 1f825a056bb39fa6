"""What the decoders of reasoning steps share: two models, one tokenizer, rounds until the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from confu_demo.config import DecodeConfig
from confu_demo.decoding.base import BoundModel, Clock, DecodeRequest, Stop, on_clock
from confu_demo.decoding.run import Run, require_room
from confu_demo.decoding.steps import StepBoundary
from confu_demo.trace import Event, ModelInfo


class Rounds(Protocol):
    """The rounds of one run; owns its caches."""

    def prefill(self) -> None: ...

    def round(self) -> Iterator[Event]:
        """Commits at least one token."""
        ...


class StepDecoder:
    """A method whose draft model writes reasoning steps for a target; subclasses make the rounds.

    Not lossless: the output keeps steps that the target did not write. Raises ``ValueError`` when
    the tokenizers differ.
    """

    lossless = False

    def __init__(
        self,
        method: str,
        target: BoundModel,
        draft: BoundModel,
        more_models: tuple[ModelInfo, ...] = (),
    ) -> None:
        if target.tokenizer.get_vocab() != draft.tokenizer.get_vocab():
            raise ValueError("the target and the draft model must have the same tokenizer")
        self.method, self.target, self.draft = method, target, draft
        self.boundary = StepBoundary(
            target.tokenizer, target.eos_ids, target.model.config.vocab_size
        )
        self._models = (target.info, draft.info, *more_models)

    def rounds(self, run: Run) -> Rounds:
        raise NotImplementedError

    def prepare(self, config: DecodeConfig) -> None:
        """What has to be known before a run and must not be on its clock."""

    def own(self, config: DecodeConfig) -> DecodeConfig:
        """The settings as the method means them."""
        return config

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        """Raises ``ValueError`` at once when prompt and budget do not fit a model's context."""
        for model in (self.target, self.draft):
            require_room(request, config, model)
        self.prepare(config)
        return on_clock(clock, self._events(request, self.own(config), clock, stop))

    def _events(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        run = Run(self.method, self._models, self.target, request, config, clock)
        rounds = self.rounds(run)
        try:
            yield run.started()
            with run.prefill:
                rounds.prefill()
            yield run.prefilled()
            while run.reason is None:
                if stop():
                    run.reason = "cancelled"
                    break
                yield from rounds.round()
            yield run.finished()
        finally:
            del rounds  # both caches
