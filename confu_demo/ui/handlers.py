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
from typing import Any

import gradio as gr

from confu_demo.trace import Event
from confu_demo.ui.assets import as_script_data
from confu_demo.ui.race_form import FIELDS, Refusal, read_form
from confu_demo.ui.race_log import MAX_SECONDS, Batch, RaceDesk, RaceRun
from confu_demo.ui.runner import ProblemCard, RaceRunner

YIELDS_PER_SECOND = 15.0
Card = dict[str, str]

_log = logging.getLogger(__name__)


def notice(key: str, kind: str = "info", **args: object) -> str:
    """A message for the notice area. The number makes a repeated message a new value."""
    return as_script_data({"key": key, "args": args, "kind": kind, "n": secrets.randbelow(2**32)})


def sentence(text: str) -> str:
    """A sentence from a check, shown as it is."""
    return as_script_data({"text": text, "kind": "error", "n": secrets.randbelow(2**32)})


def card_state(card: ProblemCard) -> Card:
    return {"text": card.text, "answer": card.answer, "family": card.family}


class Handlers:
    """The page's callbacks, bound to one runner and one desk."""

    def __init__(
        self,
        runner: RaceRunner,
        gallery: Sequence[ProblemCard],
        desk: RaceDesk,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runner, self._gallery, self._desk, self._now = runner, tuple(gallery), desk, now
        self._allowed = tuple(name for name, available, _ in runner.methods() if available)

    def begin(self, card: Card | None, *entries: Any, session: str) -> tuple[Any, Any, Any]:
        """(notice, run id, viewer): the new race, or a reason and everything else as it was, so
        that an earlier race goes on and can still be stopped."""
        try:
            request = read_form(
                dict(zip(FIELDS, entries, strict=True)), card=card, allowed=self._allowed
            )
            self._runner.check(request)
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
        events: Iterator[tuple[str, Event]] = self._runner.race(run.request, run.should_stop)
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

    def choose(self, place: int | None) -> tuple[Any, Any]:
        """(text, card) of a gallery problem."""
        if not isinstance(place, int) or not 0 <= place < len(self._gallery):
            return gr.skip(), gr.skip()
        card = self._gallery[place]
        return card.text, card_state(card)

    def new_numbers(self, card: Card | None) -> tuple[Any, Any, Any]:
        """(text, card, notice): a problem of the same family that nobody has seen before."""
        family = card["family"] if card else None
        try:
            fresh = self._runner.new_problem(secrets.randbelow(2**31), family)
        except ValueError as error:
            return gr.skip(), gr.skip(), sentence(str(error))
        return fresh.text, card_state(fresh), gr.skip()
