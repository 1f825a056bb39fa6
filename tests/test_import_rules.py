"""Who may import whom (the table of the architecture), read from every module's source.

Imports inside functions and under ``TYPE_CHECKING`` count too. A module that the table does not
name (the command line, the race, the suites) may import everything but the page.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "confu_demo"

EVENTS = {
    *("trace", "trace_io", "trace_json", "recording", "metrics", "step_metrics"),
    *(
        "router_metrics",
        "foresight_metrics",
        "bench_statistics",
        "calibration_statistics",
        "provenance",
    ),
}
VALIDATION = {"trace_validation", "cycle_validation", "step_validation", "findings"}
PURE = {"config", *EVENTS, *VALIDATION}
TENSORS = {"torch", "transformers", "numpy", "safetensors", "tokenizers"}


@dataclass(frozen=True)
class Rule:
    """``ours``: parts of this package, ``theirs``: packages outside the standard library."""

    ours: frozenset[str] | None
    theirs: frozenset[str] | None


def rule(ours: set[str], theirs: set[str]) -> Rule:
    return Rule(frozenset(ours), frozenset(theirs))


RULES = {
    **{part: rule(PURE, set()) for part in PURE},
    "engine": rule({"engine", "config"}, TENSORS),
    "heads": rule({"heads", "engine", "config"}, TENSORS | {"huggingface_hub"}),
    "decoding": rule({"decoding", "engine", "heads", "trace", "config"}, TENSORS),
    "export": rule({"ui", "data", *PURE}, set()),
    "ui": rule({"ui", "config", *EVENTS} - {"provenance"}, {"gradio", "plotly"}),
}
REST = Rule(ours=None, theirs=None)
"""Everything but the page and what only the page needs."""
QUIET = {"engine", "heads", "decoding"}
"""They neither print nor read a command line."""
DYNAMIC = {"importlib.import_module", "import_module", "__import__"}


@dataclass(frozen=True)
class Import:
    """``part`` is the first name below our package, or the outside package's own name."""

    line: int
    part: str
    ours: bool


def part_of(path: Path) -> str:
    """``engine`` for confu_demo/engine/cache.py, ``trace`` for confu_demo/trace.py."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imports_of(tree: ast.AST, package: str) -> Iterator[Import]:
    """Every import in a module of ``package`` (dotted), the standard library's included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = _from_names(node, package)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in DYNAMIC:
            names = [str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            ours = first == "confu_demo"
            yield Import(node.lineno, rest.partition(".")[0] if ours else first, ours)


def _from_names(node: ast.ImportFrom, package: str) -> list[str]:
    module = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        module = ".".join([*above, *([module] if module else [])])
    if module == "confu_demo":  # from confu_demo import trace
        return [f"{module}.{alias.name}" for alias in node.names]
    return [module]


def allows(part: str, entry: Import) -> bool:
    rule = RULES.get(part, REST)
    if entry.ours:
        everything = entry.part != "ui" if rule.ours is None else entry.part in rule.ours
        return everything or entry.part in ("", "__version__")
    if entry.part in sys.stdlib_module_names:
        return entry.part != "argparse" or part not in QUIET
    return entry.part != "gradio" if rule.theirs is None else entry.part in rule.theirs


def broken_rules(source: str, part: str, package: str) -> list[str]:
    """One sentence for everything in a module's source that the table does not allow."""
    tree = ast.parse(source)
    found = [
        f"line {entry.line}: {part} imports {entry.part}"
        for entry in imports_of(tree, package)
        if not allows(part, entry)
    ]
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return found + [
        f"line {call.lineno}: {part} prints"
        for call in calls
        if part in QUIET and isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def dotted_package(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(PACKAGE)) for path in MODULES])
def test_a_module_imports_only_what_the_table_allows(path: Path):
    source = path.read_text(encoding="utf-8")
    assert broken_rules(source, part_of(path), dotted_package(path)) == []


def test_the_modules_of_the_table_exist():
    assert {part_of(path) for path in MODULES} >= PURE


def test_only_the_application_joins_the_page_and_the_engine():
    """Nothing in the package imports the page, except the page, and the export of its viewer,
    which knows no engine."""
    for path in MODULES:
        if part_of(path) not in ("ui", "export"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            parts = {entry.part for entry in imports_of(tree, dotted_package(path)) if entry.ours}
            assert "ui" not in parts, path.name


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("trace", "import torch"),
        ("metrics", "from confu_demo.engine import cache"),
        ("metrics", "from confu_demo import engine"),
        ("config", "from .heads import eagle"),
        ("engine", "from confu_demo.trace import Event"),
        ("engine", "from confu_demo.heads.eagle import EagleHead"),
        ("engine", "print('loading')"),
        ("decoding", "import gradio as gr"),
        ("decoding", "def f():\n    import argparse"),
        ("decoding", "from argparse import ArgumentParser"),
        ("decoding", "from confu_demo.training import lm"),
        ("training", "from confu_demo.ui import layout"),
        ("race", "import gradio"),
        ("bench", "from confu_demo import ui"),
        ("ui", "import torch"),
        ("ui", "if TYPE_CHECKING:\n    from torch import Tensor"),
        ("ui", "import importlib\nimportlib.import_module('transformers')"),
        ("ui", "from confu_demo.decoding.base import Decoder"),
        ("ui", "from confu_demo.race import race"),
    ],
)
def test_a_forbidden_import_is_found(part: str, source: str):
    assert broken_rules(source, part, "confu_demo") != []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("trace", "import json\nfrom dataclasses import dataclass"),
        ("ui", "import gradio as gr\nfrom confu_demo.trace_io import read_recording"),
        ("decoding", "import torch\nfrom confu_demo.trace import Event"),
        ("race", "from confu_demo.decoding.base import Decoder\nimport torch"),
        ("heads", "from confu_demo import __version__"),
    ],
)
def test_an_allowed_import_is_let_through(part: str, source: str):
    assert broken_rules(source, part, "confu_demo") == []


def test_relative_imports_are_resolved():
    tree = ast.parse("from ..engine import cache\nfrom . import views\nfrom .. import race")
    parts = [entry.part for entry in imports_of(tree, "confu_demo.ui")]
    assert parts == ["engine", "ui", "race"]


BLOCKED = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED_NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
package = importlib.import_module(PACKAGE_NAME)
names = [entry.name for entry in pkgutil.walk_packages(package.__path__, PACKAGE_NAME + ".")]
for name in names:
    importlib.import_module(name)
loaded = [name for name in BLOCKED_NAMES if name in sys.modules]
print(len(names), loaded)
"""


def run_without(names: set[str], package: str) -> subprocess.CompletedProcess[str]:
    code = f"BLOCKED_NAMES = {sorted(names)!r}\nPACKAGE_NAME = {package!r}\n{BLOCKED}"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_the_page_can_be_imported_where_torch_is_not_installed():
    heavy = {"torch", "transformers", "safetensors", "tokenizers", "accelerate"}
    done = run_without(heavy, "confu_demo.ui")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("[]\n")


def test_the_blocking_of_that_test_really_blocks():
    done = run_without({"torch"}, "confu_demo.engine")
    assert done.returncode != 0
    assert "No module named 'torch'" in done.stderr


@pytest.mark.parametrize("part", sorted(PURE))
def test_a_pure_module_needs_the_standard_library_only(part: str):
    """-I -S: no site-packages at all."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import confu_demo.{part}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
