"""What happens when a visitor presses something. Knows the runner and the desk, not the engine.

A race takes two events: ``begin`` checks the entries at once and hands out the first batch;
``race`` waits its turn in the engine's queue and then yields batches. The engine is the generator
itself: no threads, and closing it frees its caches.

Values for the page's scripts go out as JSON in one string. Gradio sends a stream of values as
differences of lists and objects, and its client applies the difference of two unlike lists
wrongly (seen in 6.31: items are lost and texts mixed); a string is replaced as a whole.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from confu_demo.trace import Event
from confu_demo.ui.assets import as_script_data
from confu_demo.ui.race_form import FIELDS, Refusal, read_form
from confu_demo.ui.race_log import MAX_SECONDS, Batch, RaceDesk, RaceRun
from confu_demo.ui.runner import ProblemCard
from confu_demo.ui.suites import FetchMoment, SuiteEntry, find_entry

YIELDS_PER_SECOND = 15.0
FETCH_YIELDS_PER_SECOND = 4.0
Card = dict[str, Any]
_SILENCE = "{}"

_log = logging.getLogger(__name__)


def notice(key: str, kind: str = "info", /, **args: object) -> str:
    """A message for the notice area, with the microsecond at which it was said."""
    return as_script_data({"key": key, "args": args, "kind": kind, "n": _microseconds()})


def sentence(text: str) -> str:
    """A sentence from a check, shown as it is."""
    return as_script_data({"text": text, "kind": "error", "n": _microseconds()})


def _microseconds() -> int:
    """Orders messages on the page, and makes a repeated one a new value; exact in JavaScript."""
    return time.time_ns() // 1000


def card_state(card: ProblemCard) -> Card:
    return {"text": card.text, "answer": card.answer, "family": card.family}


class Handlers:
    """The page's callbacks, bound to the suites' runners and one desk. ``suite`` is the name of a
    suite; any other value means the first one."""

    def __init__(
        self,
        suites: Sequence[SuiteEntry],
        desk: RaceDesk,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._suites, self._desk, self._now = tuple(suites), desk, now

    def begin(
        self, card: Card | None, *entries: Any, session: str, suite: str | None = None
    ) -> tuple[Any, Any, Any]:
        """(notice, run id, viewer): the new race, or a reason and everything else as it was, so
        that an earlier race goes on and can still be stopped."""
        entry = find_entry(self._suites, suite)
        if entry.must_fetch:
            return notice("notice.weights_missing", "error"), gr.skip(), gr.skip()
        allowed = tuple(name for name, available, _ in entry.runner.methods() if available)
        try:
            request = replace(
                read_form(dict(zip(FIELDS, entries, strict=True)), card=card, allowed=allowed),
                suite=entry.name,
            )
            entry.runner.check(request)
        except Refusal as refusal:
            return notice(refusal.key, "error", **refusal.args_of_key), gr.skip(), gr.skip()
        except ValueError as error:
            return sentence(str(error)), gr.skip(), gr.skip()
        run = self._desk.open(request, session)
        return notice("notice.running"), run.id, as_script_data(run.first)

    def race(self, run_id: str | None) -> Iterator[tuple[Any, Any]]:
        """(viewer, notice) at most :data:`YIELDS_PER_SECOND` times a second, then a last time."""
        run = self._desk.find(run_id)
        if run is None or not run.claim():  # the entries were refused: nothing new to race
            yield gr.skip(), gr.skip()
            return
        failure: str | None = None
        try:
            with closing(self._batches(run)) as batches:
                for batch in batches:
                    yield as_script_data(batch), gr.skip()
        except ValueError as error:  # one sentence for people
            failure = sentence(str(error))
        except Exception:
            _log.exception("the race failed")
            failure = notice("notice.failed", "error")
        yield as_script_data(run.seal(done=True)), failure or self._ending(run)

    def _batches(self, run: RaceRun) -> Generator[Batch, None, None]:
        """Runs the race and closes it whatever happens, also when this generator is closed."""
        runner = find_entry(self._suites, run.request.suite).runner
        events: Iterator[tuple[str, Event]] = runner.race(run.request, run.should_stop)
        due = self._now() + 1.0 / YIELDS_PER_SECOND
        try:
            for lane, event in events:
                run.add(lane, event)
                if self._now() >= due:
                    yield run.seal()
                    due = self._now() + 1.0 / YIELDS_PER_SECOND
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()

    @staticmethod
    def _ending(run: RaceRun) -> str:
        if run.timed_out:
            return notice("notice.time_up", "error", seconds=int(MAX_SECONDS))
        return notice("notice.stopped_now" if run.should_stop() else "notice.done")

    def stop(self, run_id: str | None) -> str:
        run = self._desk.find(run_id)
        if run is None or run.done:
            return notice("notice.nothing_to_stop")
        run.stop()
        return notice("notice.stopped")

    def first_card(self, suite: str | None) -> Card | None:
        gallery = find_entry(self._suites, suite).gallery
        return card_state(gallery[0]) if gallery else None

    def choose(self, place: int | None, suite: str | None = None) -> tuple[Any, Any]:
        """(text, card) of a gallery problem."""
        gallery = find_entry(self._suites, suite).gallery
        if not isinstance(place, int) or not 0 <= place < len(gallery):
            return gr.skip(), gr.skip()
        card = gallery[place]
        return card.text, card_state(card)

    def new_numbers(self, card: Card | None, suite: str | None = None) -> tuple[Any, Any, Any]:
        """(text, card, notice): a problem of the same family that nobody has seen before, or
        another free-text prompt of the same category."""
        runner = find_entry(self._suites, suite).runner
        family = card["family"] if card else None
        try:
            for _ in range(8):  # a category may have few prompts: not the same one again
                fresh = runner.new_problem(secrets.randbelow(2**31), family)
                if card is None or fresh.text != card["text"]:
                    break
        except ValueError as error:
            return gr.skip(), gr.skip(), sentence(str(error))
        return fresh.text, card_state(fresh), gr.skip()

    def fetch(self, suite: str | None) -> Iterator[tuple[Any, Any, Any]]:
        """(message, button, notice) while a suite's weights are fetched; an earlier notice, that
        they are missing, goes. The engine stays free."""
        fetcher = find_entry(self._suites, suite).fetcher
        if fetcher is None:
            yield gr.skip(), gr.skip(), gr.skip()
            return
        due, stage = 0.0, ""
        try:
            with closing(_closable(fetcher.fetch())) as moments:
                for moment in moments:
                    if moment.stage == stage and self._now() < due:
                        continue
                    stage, due = moment.stage, self._now() + 1.0 / FETCH_YIELDS_PER_SECOND
                    said = notice(
                        f"fetch.{stage}", "info", percent=moment.percent, detail=moment.detail
                    )
                    yield said, gr.update(interactive=False), _SILENCE
        except ValueError as error:
            failed = notice("notice.fetch_failed", "error", reason=str(error))
            yield failed, gr.update(interactive=True), gr.skip()
            return
        hidden = gr.update(visible=False, interactive=True)
        yield notice("notice.fetched"), hidden, gr.skip()

    def fetch_button(self, suite: str | None) -> Any:
        """Whether the button is wanted, as a page is opened: somebody else may have fetched."""
        return gr.update(visible=find_entry(self._suites, suite).must_fetch)


def _closable(moments: Iterator[FetchMoment]) -> Generator[FetchMoment, None, None]:
    yield from moments
