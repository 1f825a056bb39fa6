"""Reasoning steps as token ids: where a step ends, and how many tokens it may have.

Our choice: a step ends with a blank line, with the end-of-sequence token, or, cut and incomplete,
with its token limit. A blank line may be one token, part of one (``.\\n\\n``), or made by two
tokens in a row; token ids are never re-encoded, so a step is exactly what its author wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_HAS_BLANK_LINE = 1
_STARTS_WITH_NEWLINE = 2
_ENDS_WITH_NEWLINE = 4


class StepBoundary:
    """Tells, token by token, where a step ends. Built once for a tokenizer and a vocabulary.

    ``tokenizer`` is a transformers fast tokenizer, ``eos_ids`` its ends of sequence and
    ``vocab_size`` the number of ids that the model can emit (padding included).
    """

    def __init__(self, tokenizer: Any, eos_ids: frozenset[int], vocab_size: int) -> None:
        self.eos_ids = eos_ids
        texts = tokenizer.backend_tokenizer.decode_batch(
            [[token] for token in range(vocab_size)], skip_special_tokens=True
        )
        self._newlines = bytes(map(_newline_flags, texts))

    def ends(self, previous: int | None, token: int) -> bool:
        """Whether ``token`` ends a step whose token before it is ``previous`` (None: no other)."""
        newlines = self._newlines[token]
        if newlines & _HAS_BLANK_LINE or token in self.eos_ids:
            return True
        if previous is None or not newlines & _STARTS_WITH_NEWLINE:
            return False
        return bool(self._newlines[previous] & _ENDS_WITH_NEWLINE)


def _newline_flags(text: str) -> int:
    return (
        (_HAS_BLANK_LINE if "\n\n" in text else 0)
        | (_STARTS_WITH_NEWLINE if text.startswith("\n") else 0)
        | (_ENDS_WITH_NEWLINE if text.endswith("\n") else 0)
    )


class GrowingStep:
    """One step while it is written. ``limit`` (at least 1) is the most tokens it may have.

    ``complete`` turns True at a blank line or an end of sequence; a step that reaches its limit
    ends without it.
    """

    __slots__ = ("_boundary", "complete", "limit", "token_ids")

    def __init__(self, boundary: StepBoundary, limit: int) -> None:
        self._boundary = boundary
        self.limit = limit
        self.token_ids: list[int] = []
        self.complete = False

    def append(self, token: int) -> bool:
        """Adds a token; True when the step has ended with it."""
        previous = self.token_ids[-1] if self.token_ids else None
        self.token_ids.append(token)
        self.complete = self._boundary.ends(previous, token)
        return self.complete or len(self.token_ids) >= self.limit

    @property
    def ends_output(self) -> bool:
        """Whether the step closes the whole answer (its last token is an end of sequence)."""
        return bool(self.token_ids) and self.token_ids[-1] in self._boundary.eos_ids

    @property
    def can_be_continued(self) -> bool:
        """Whether another step can follow: it is complete and does not end the output."""
        return self.complete and not self.ends_output


def row_limits(drafts: Sequence[GrowingStep], *, cap: int, remaining: int) -> list[int]:
    """Token limits of the target's rows; the list's length is how many rows there are.

    Row i continues draft steps 0..i-1, so it has ``remaining`` minus their tokens left, and at
    most the step cap. There is no row without room, nor behind a draft step that is unfinished
    (it is never accepted) or ends the output.
    """
    limits = [min(cap, remaining)]
    for draft in drafts:
        remaining -= len(draft.token_ids)
        if remaining < 1 or not draft.can_be_continued:
            break
        limits.append(min(cap, remaining))
    return limits
