"""Which models belong together: the bundled suite, or a folder of the user's own.

A suite is a folder with up to four subfolders: ``target`` and ``draft`` are ordinary Hugging Face
model folders, ``eagle3`` and ``confu`` are heads for that target. Owns what is there, what is
missing for which lane, and how to get it. Loads nothing (see :mod:`confu_demo.loaded_suite`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from confu_demo.decoding.registry import METHODS, PARTS, Part

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """``shipped`` suites come with the repository; their parts are all meant to be there."""

    name: str
    folder: Path
    about: str
    shipped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """One part of a suite. ``lanes`` are the methods that need it, ``how_to_get`` one sentence."""

    part: Part
    folder: Path
    is_there: bool
    lanes: tuple[str, ...]
    how_to_get: str


BUNDLED = Suite(
    name="bundled",
    folder=ROOT / "assets" / "models" / "bundled",
    about="small models trained by this project on step-by-step word problems",
    shipped=True,
)
SUITES = {BUNDLED.name: BUNDLED}
DEFAULT_METHODS = ("autoregressive", "eagle3", "confu", "confspec")

_OWN_PARTS: dict[Part, str] = {
    "target": "put a Llama, Qwen2 or Qwen3 model there, as Hugging Face saves it "
    "(config.json, safetensors, tokenizer)",
    "draft": "put a smaller model with the target's tokenizer there, as Hugging Face saves it",
    "eagle3": "put an EAGLE-3 head for this target there (config.json, safetensors)",
    "confu": "put a ConFu head for this target there (config.json, safetensors)",
}


def find_suite(name: str) -> Suite:
    """The suite called ``name``, or the folder of that path.

    Raises ``ValueError`` for a name that is neither a suite nor a folder with any part in it.
    """
    if name in SUITES:
        return SUITES[name]
    folder = Path(name)
    if not folder.is_dir():
        raise ValueError(
            f"unknown suite {name!r}: choose {', '.join(SUITES)} or a folder with the "
            f"subfolders {', '.join(PARTS)}"
        )
    if not any((folder / part).is_dir() for part in PARTS):
        raise ValueError(f"{folder} is no suite: it has none of {', '.join(PARTS)} in it")
    return Suite(name=folder.name, folder=folder, about="a folder of your own", shipped=False)


def parts_of(suite: Suite) -> tuple[PartStatus, ...]:
    """What is there and what is missing; the files themselves are checked when they are loaded."""
    return tuple(
        PartStatus(
            part=part,
            folder=suite.folder / part,
            is_there=_is_there(suite.folder / part),
            lanes=tuple(name for name, method in METHODS.items() if part in method.needs),
            how_to_get=_how_to_get(suite, part),
        )
        for part in PARTS
    )


def why_not(suite: Suite, method: str) -> str:
    """Why a lane cannot run with what is there: one sentence, or "" if it can."""
    for status in parts_of(suite):
        if status.part in METHODS[method].needs and not status.is_there:
            return (
                f"{method} needs {status.part}, which is missing in {without_root(suite.folder)}: "
                f"{status.how_to_get}"
            )
    return ""


def without_root(text: object) -> str:
    """A path, or a message with paths, as people know them: relative to the repository."""
    return str(text).replace(f"{ROOT}{os.sep}", "")


def default_methods(suite: Suite) -> tuple[str, ...]:
    """The lanes of a race that names none: all four of a shipped suite (a missing part is then
    an error), and whatever a folder of one's own can run."""
    if suite.shipped:
        return DEFAULT_METHODS
    possible = tuple(method for method in DEFAULT_METHODS if not why_not(suite, method))
    return possible or ("autoregressive",)


def _is_there(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _how_to_get(suite: Suite, part: Part) -> str:
    if not suite.shipped:
        return _OWN_PARTS[part]
    return (
        "it comes with the repository, so get its files again, or train it with "
        f"'python -m confu_demo train {part}'"
    )
