"""A user's text in a model's own chat template, as token ids.

The template is rendered once around a stand-in. Its markers are read as special tokens; what the
user wrote is not, so that a marker that is written out stays text. Text between two markers is
tokenised together with the user's, as the tokenizer itself would do it: the ids are those of
``apply_chat_template`` for every text without markers.
"""

from __future__ import annotations

from typing import Any

from confu_demo.engine.errors import UnsupportedModel

_STAND_IN = "\u241f"  # a sign for separators that no template uses


class ChatFormat:
    """``before`` and ``after`` are the fixed ids around a text (not counting what merges with it).

    Raises UnsupportedModel for a template that does not show a user's text as it is.
    """

    def __init__(self, tokenizer: Any) -> None:
        message = [{"role": "user", "content": _STAND_IN}]
        whole = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        if whole.count(_STAND_IN) != 1:
            raise UnsupportedModel(
                "this model's chat template does not show the user's text exactly once; "
                "use a model with an ordinary template"
            )
        left, right = whole.split(_STAND_IN)
        markers = _markers(tokenizer)
        cut = max((left.rfind(m) + len(m) for m in markers if m in left), default=0)
        begin = min((right.find(m) for m in markers if m in right), default=len(right))
        self._tokenizer = tokenizer
        self._head, self._tail = left[cut:], right[:begin]
        self._fixed = self._ids(left[:cut]), self._ids(right[begin:])
        self.before = [*self._fixed[0], *self._ids(self._head)]
        self.after = [*self._ids(self._tail), *self._fixed[1]]

    def prompt(self, text: str) -> list[int]:
        """The whole prompt, up to where the model's answer begins."""
        middle = self._tokenizer(
            self._head + text + self._tail, add_special_tokens=False, split_special_tokens=True
        )
        before, after = self._fixed
        return [*before, *middle["input_ids"], *after]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def chat_format(tokenizer: Any) -> ChatFormat | None:
    """None for a model without a chat template."""
    return ChatFormat(tokenizer) if tokenizer.chat_template else None


def _markers(tokenizer: Any) -> list[str]:
    """Every token that is never made of text, special or not."""
    added = tokenizer.added_tokens_decoder.values()
    return [str(token.content) for token in added if token.content]
