"""The machine's own verdict on two reasoning steps of a word problem."""

from __future__ import annotations

from confu_demo.data.steps import parse_answer, parse_step


def same_meaning(first: str, second: str) -> bool:
    """Equal words, equal answers or equal meanings."""
    if " ".join(first.split()).lower() == " ".join(second.split()).lower():
        return True
    answers = parse_answer(first.strip()), parse_answer(second.strip())
    if answers[0] is not None or answers[1] is not None:
        return answers[0] == answers[1]
    ours, theirs = parse_step(first), parse_step(second)
    return ours is not None and theirs is not None and ours.means_the_same(theirs)
