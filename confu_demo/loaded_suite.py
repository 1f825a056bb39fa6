"""A suite in memory: its models, its decoders, its prompts, one device for all of them.

Every part is loaded when it is first needed. Device and thread count are chosen once, for the
target (its forwards are most of every lane's time), and hold for all models of the suite, so that
a measured number has one thread count (our choice). The dtype is each model's own choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch

from confu_demo.config import DecodeConfig
from confu_demo.data.documents import prompt_text
from confu_demo.data.vocabulary import BOS
from confu_demo.decoding.base import BoundModel, Decoder, DecodeRequest, LaneClock
from confu_demo.decoding.registry import METHODS, Part
from confu_demo.engine.chat import ChatFormat, chat_format
from confu_demo.engine.errors import CorruptModel, MissingModel
from confu_demo.engine.loading import load_model, synchronise
from confu_demo.engine.target import LeanModel
from confu_demo.heads.checkpoint import TargetInfo
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.judge_temperatures import read_temperatures
from confu_demo.race import Lane, race
from confu_demo.suite_parts import bind, load_bound_head
from confu_demo.suites import Suite, why_not
from confu_demo.trace import ModelInfo, RunFinished

_WARM_UP_TEXT = "Tom has 12 apples. He buys 3. He gives away 5. How many apples does Tom have?"
_WARM_UP_TOKENS = 24


class LoadedSuite:
    """Satisfies :class:`confu_demo.decoding.registry.Models`.

    Loading raises the errors of :mod:`confu_demo.engine.errors`, each one sentence. Runs share no
    state, but two threads must not load at the same time.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.suite = suite
        self._device, self._dtype, self._threads = device, dtype, threads
        self._decoders: dict[str, Decoder] = {}
        self._warm: set[str] = set()

    @property
    def model(self) -> LeanModel:
        return self.target.model

    @property
    def device(self) -> str:
        """The name of the device, as provenance states it: ``cpu`` or the accelerator's own."""
        device = self.model.device
        if device.type == "cuda":
            return f"{device} ({torch.cuda.get_device_name(device)})"
        return str(device)

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def threads(self) -> int:
        """The CPU threads of every lane, chosen when the target was loaded."""
        return self.model.threads or torch.get_num_threads()

    @property
    def single_threads(self) -> int:
        """The CPU threads of forwards over one row, which is all that plain decoding does."""
        return self.model.single_threads or self.threads

    @property
    def threads_text(self) -> str:
        """``2 threads``, or ``2 threads (1 for a single row)`` where the probe chose so."""
        single = self.single_threads
        text = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return text if single == self.threads else f"{text} ({single} for a single row)"

    def use_threads(self) -> None:
        """Sets the count in the calling thread: OpenMP keeps one for every thread. Nearly free."""
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)

    @cached_property
    def target(self) -> BoundModel:
        return self._bind("target", self._device, self._threads)

    @cached_property
    def draft(self) -> BoundModel:
        return self._bind("draft", str(self.model.device), self.threads)

    @cached_property
    def eagle3(self) -> tuple[EagleHead, ModelInfo]:
        head, info = self._head("eagle3")
        if not isinstance(head, EagleHead):
            raise CorruptModel(
                f"{self.suite.folder_of('eagle3')} holds a ConFu head, not an EAGLE-3 head"
            )
        return head, info

    @cached_property
    def confu(self) -> tuple[ConfuHead, ModelInfo]:
        head, info = self._head("confu")
        if not isinstance(head, ConfuHead):
            raise CorruptModel(
                f"{self.suite.folder_of('confu')} holds an EAGLE-3 head, not a ConFu head"
            )
        return head, info

    @cached_property
    def judge_temperatures(self) -> tuple[float, float]:
        return read_temperatures(self.suite.folder)

    def decoder(self, method: str) -> Decoder:
        """Built once. Raises :class:`MissingModel` with what is missing and how to get it."""
        reason = why_not(self.suite, method)
        if reason:
            raise MissingModel(reason)
        if method not in self._decoders:
            self._decoders[method] = METHODS[method].build(self)
        return self._decoders[method]

    @property
    def asks_questions(self) -> bool:
        """Whether prompts are put into the question format of our own training: true of models
        with our tokenizer. Any other model continues the text as it stands, or answers it in its
        own chat format."""
        return bool(self.target.tokenizer.bos_token == BOS)

    @cached_property
    def chat(self) -> ChatFormat | None:
        """The target's chat template; None for a model that only continues text."""
        return chat_format(self.target.tokenizer)

    def request(self, text: str, *, is_problem: bool = True) -> DecodeRequest:
        """The prompt as the target reads it. Raises as :func:`check_text`.

        ``is_problem`` asks for the format that the target answers in: the question format of our
        training, or the model's chat template, of which only the user's text is shown. Special
        tokens that are written out in the text stay text.
        """
        check_text(text)
        tokenizer = self.target.tokenizer
        if self.asks_questions:
            shown = prompt_text(text) if is_problem else text
            token_ids = tokenizer(shown, add_special_tokens=False, split_special_tokens=True)
            return DecodeRequest(
                token_ids=(tokenizer.bos_token_id, *token_ids["input_ids"]), text=shown
            )
        if is_problem and self.chat is not None:
            return DecodeRequest(token_ids=tuple(self.chat.prompt(text)), text=text)
        token_ids = tokenizer(text, split_special_tokens=True)["input_ids"]
        return DecodeRequest(token_ids=tuple(token_ids), text=text)

    def fit(
        self,
        config: DecodeConfig,
        request: DecodeRequest,
        methods: Sequence[str],
        *,
        may_shorten: bool,
    ) -> DecodeConfig:
        """``config`` with a number of new tokens that the contexts of all lanes have room for.

        Raises ``ValueError`` if there is no room, or less than asked and not ``may_shorten``.
        """
        uses_draft = any("draft" in METHODS[method].needs for method in methods)
        models = [self.target, self.draft] if uses_draft else [self.target]
        limit = min(model.model.config.max_positions for model in models)
        num_prompt = len(request.token_ids)
        room = limit - num_prompt
        wanted = config.max_new_tokens
        if room < 1 or (room < wanted and not may_shorten):
            raise ValueError(
                f"the prompt ({num_prompt} tokens) and {wanted} new tokens do not fit the context "
                f"of {limit} tokens: shorten the prompt or ask for fewer new tokens"
            )
        return replace(config, max_new_tokens=min(room, wanted))

    def lanes(self, methods: Sequence[str], request: DecodeRequest) -> list[Lane]:
        return [Lane(name=m, decoder=self.decoder(m), request=request) for m in methods]

    def new_clock(self) -> LaneClock:
        return LaneClock(synchronise(self.model.device))

    def warm_up(self, methods: Sequence[str], config: DecodeConfig) -> None:
        """Runs every method once on a short problem, so that first-call costs are not measured.

        Raises ``ValueError`` with the reason if a method cannot run at all.
        """
        cold = [method for method in methods if method not in self._warm]
        if not cold:
            return
        request = self.request(_WARM_UP_TEXT)
        short = replace(config, max_new_tokens=min(_WARM_UP_TOKENS, config.max_new_tokens))
        short = self.fit(short, request, cold, may_shorten=True)
        for method, event in race(self.lanes(cold, request), short, new_clock=self.new_clock):
            if isinstance(event, RunFinished):
                if event.reason == "error":
                    raise ValueError(f"{method} cannot run: {event.message}")
                self._warm.add(method)

    def _bind(self, part: Part, device: str, threads: int | None) -> BoundModel:
        model = load_model(
            self.suite.folder_of(part), device=device, dtype=self._dtype, threads=threads
        )
        return bind(model, self.suite, part)

    def _head(self, part: Part) -> tuple[EagleHead | ConfuHead, ModelInfo]:
        target = TargetInfo.of(self.model.config, self.target.info.sha256)
        return load_bound_head(self.suite, part, target)


def check_text(text: str) -> None:
    """Raises ``ValueError`` for a prompt that no model could read."""
    if not text.strip():
        raise ValueError("the prompt is empty: write a question or a text to continue")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("the prompt is not valid Unicode text")
