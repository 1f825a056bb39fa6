"""Where the validators write what they find."""

from __future__ import annotations


class Findings:
    """Broken promises as sentences, each with the place that ``validate`` is looking at."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.place = ""

    def expect(self, kept: bool, sentence: str) -> None:
        """Notes ``sentence``, which says what is wrong, unless the promise is kept."""
        if not kept:
            self.sentences.append(f"{self.place}{sentence}")
