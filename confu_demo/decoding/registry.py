"""Which decoding methods there are, what each needs, and how it is built.

A new method is one file in this package and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from confu_demo.decoding.autoregressive import AutoregressiveDecoder
from confu_demo.decoding.base import BoundModel, Decoder
from confu_demo.decoding.confspec import ConfspecDecoder, LookaheadDecoder
from confu_demo.decoding.confu import ConfuDecoder
from confu_demo.decoding.eagle3 import Eagle3Decoder
from confu_demo.decoding.prompt_lookup import PromptLookupDecoder
from confu_demo.decoding.row_speculation import HeadSpeculation, LookupSpeculation
from confu_demo.decoding.specreason import SpecreasonDecoder
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.trace import ModelInfo

Part = Literal["target", "draft", "eagle3", "confu"]
"""What a suite of models may hold; also the names of its folders."""
PARTS: tuple[Part, ...] = ("target", "draft", "eagle3", "confu")


class Models(Protocol):
    """Where builders find their models; each property may load its model when it is first read."""

    @property
    def target(self) -> BoundModel: ...

    @property
    def draft(self) -> BoundModel: ...

    @property
    def eagle3(self) -> tuple[EagleHead, ModelInfo]: ...

    @property
    def judge_temperatures(self) -> tuple[float, float]:
        """Of the draft's judge and of the target's."""
        ...

    @property
    def confu(self) -> tuple[ConfuHead, ModelInfo]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """``lossless``: greedy output equals the target's own. ``needs``: the parts of a suite."""

    lossless: bool
    needs: tuple[Part, ...]
    build: Callable[[Models], Decoder]


METHODS: Mapping[str, Method] = {
    "autoregressive": Method(
        lossless=True, needs=("target",), build=lambda m: AutoregressiveDecoder(m.target)
    ),
    "prompt_lookup": Method(
        lossless=True, needs=("target",), build=lambda m: PromptLookupDecoder(m.target)
    ),
    "eagle3": Method(
        lossless=True,
        needs=("target", "eagle3"),
        build=lambda m: Eagle3Decoder(m.target, *m.eagle3),
    ),
    "confu": Method(
        lossless=True,
        needs=("target", "confu"),
        build=lambda m: ConfuDecoder(m.target, *m.confu),
    ),
    "specreason": Method(
        lossless=False,
        needs=("target", "draft"),
        build=lambda m: SpecreasonDecoder(m.target, m.draft),
    ),
    "lookahead": Method(
        lossless=False,
        needs=("target", "draft"),
        build=lambda m: LookaheadDecoder(m.target, m.draft, temperatures=m.judge_temperatures),
    ),
    "confspec": Method(
        lossless=False,
        needs=("target", "draft"),
        build=lambda m: ConfspecDecoder(m.target, m.draft, temperatures=m.judge_temperatures),
    ),
    "confspec+prompt_lookup": Method(
        lossless=False,
        needs=("target", "draft"),
        build=lambda m: ConfspecDecoder(
            m.target, m.draft, speculation=LookupSpeculation(), temperatures=m.judge_temperatures
        ),
    ),
    "confspec+eagle3": Method(
        lossless=False,
        needs=("target", "draft", "eagle3"),
        build=lambda m: ConfspecDecoder(
            m.target,
            m.draft,
            speculation=HeadSpeculation(m.target, *m.eagle3),
            temperatures=m.judge_temperatures,
        ),
    ),
    "confspec+confu": Method(
        lossless=False,
        needs=("target", "draft", "confu"),
        build=lambda m: ConfspecDecoder(
            m.target,
            m.draft,
            speculation=HeadSpeculation(m.target, *m.confu),
            temperatures=m.judge_temperatures,
        ),
    ),
}
"""By name, in the order in which lanes are shown."""


def check_methods(names: tuple[str, ...]) -> None:
    """Raises ``ValueError`` with one sentence for no methods, an unknown one, or one twice."""
    if not names:
        raise ValueError(f"no methods are named: choose from {', '.join(METHODS)}")
    for name in names:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}: choose from {', '.join(METHODS)}")
    if len(set(names)) != len(names):
        raise ValueError(f"a method is named twice in {','.join(names)}")
