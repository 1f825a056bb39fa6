"""From token ids to the text that each one adds.

A byte-level token may end inside a character (Korean, emoji): the fragment adds nothing, and the
token that completes the character adds all of it. What a token adds is the difference of two
decodings over a few tokens, so a long output costs no more per token than a short one.

The rule. A sequence is *settled* where its text does not end in the replacement character: no
bytes are waiting there, so decoding may start afresh from the last settled tokens. A token adds
what its text has gained, trailing replacement characters excepted. The texts joined are the
decoding of the whole up to a trailing fragment, which only :meth:`Detokenizer.decode` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

_REPLACEMENT = "\ufffd"
_MAX_TOKENS_OF_A_CHARACTER = 4  # UTF-8 has at most four bytes a character


class Detokenizer:
    """``tokenizer`` is a fast tokenizer of transformers or a ``tokenizers.Tokenizer``.

    Special tokens (end of text, chat markers) have no text unless ``skip_special_tokens`` is off.
    """

    def __init__(self, tokenizer: Any, *, skip_special_tokens: bool = True) -> None:
        # The backend decodes about ten times faster than its wrapper.
        self._backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self._silent: frozenset[int] = frozenset()
        if skip_special_tokens:
            added = self._backend.get_added_tokens_decoder()
            self._silent = frozenset(index for index, token in added.items() if token.special)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the whole sequence; a trailing fragment becomes a replacement character."""
        return self._decode([index for index in ids if index not in self._silent])

    def texts_after(self, prefix_ids: Sequence[int], new_ids: Sequence[int]) -> tuple[str, ...]:
        """What each token of ``new_ids`` adds, in order, where ``prefix_ids`` stand before."""
        context, waiting = self._split_settled(prefix_ids)
        num_shown = self._num_stable(context + waiting, at_least=len(self._decode(context)))
        texts: list[str] = []
        for index in new_ids:
            if index in self._silent:
                texts.append("")
                continue
            waiting.append(index)
            text = self._decode(context + waiting)
            texts.append(text.rstrip(_REPLACEMENT)[num_shown:])
            num_shown += len(texts[-1])
            if not text.endswith(_REPLACEMENT):
                context, waiting = self._split_settled(context + waiting)
                num_shown = len(self._decode(context))
        return tuple(texts)

    def _split_settled(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """(the fewest tokens that end at the last settled point, the audible tokens after it).

        The fewest, because a decoder with byte fallback reads a run of byte tokens as a whole:
        a context that began inside a character would spoil the characters after it.
        """
        waiting: list[int] = []
        audible = _AudibleTail(ids, self._silent)
        while True:
            for width in range(1, _MAX_TOKENS_OF_A_CHARACTER + 1):
                context = audible.last(width)
                if not self._decode(context).endswith(_REPLACEMENT):
                    return context, waiting
            waiting.insert(0, audible.pop())

    def _num_stable(self, ids: list[int], at_least: int) -> int:
        return max(at_least, len(self._decode(ids).rstrip(_REPLACEMENT)))

    def _decode(self, ids: list[int]) -> str:
        text: str = self._backend.decode(ids, skip_special_tokens=False)
        return text


class _AudibleTail:
    """The end of a sequence without its special tokens, read backwards as far as asked."""

    def __init__(self, ids: Sequence[int], silent: frozenset[int]) -> None:
        self._backwards = (index for index in reversed(ids) if index not in silent)
        self._read: list[int] = []  # newest first

    def last(self, width: int) -> list[int]:
        """The last ``width`` tokens in order, or as many as there are."""
        self._read.extend(islice(self._backwards, max(0, width - len(self._read))))
        return self._read[:width][::-1]

    def pop(self) -> int:
        """Takes the last token away, which has been read."""
        return self._read.pop(0)
