"""What packed matrices are worth: ``python -m confu_demo.bench.several_rows FOLDER``.

A model with packed matrices and the same without, forwards over 1 to 64 rows after 200 cached
tokens, taken in turn; the median of several, the first dropped. For whoever doubts
:mod:`confu_demo.engine.packed`, or has another machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from confu_demo.cli.tables import format_table
from confu_demo.engine.loading import read_config, read_weights
from confu_demo.engine.target import LeanModel
from confu_demo.provenance import collect

ROWS = (1, 2, 4, 8, 16, 32, 64)
_PAST = 200
_REPEATS = 9


def measure(
    folder: Path, threads: int, rows: tuple[int, ...] = ROWS, repeats: int = _REPEATS
) -> dict[int, tuple[float, float]]:
    """Milliseconds (usual, packed) for every number of rows. Raises the loaders' errors."""
    config, weights = read_config(folder), read_weights(folder)
    models = [LeanModel(config, weights, pack=pack) for pack in (False, True)]
    for model in models:
        model.threads = threads
    return {num: _in_turn([_forward(model, num) for model in models], repeats) for num in rows}


def _forward(model: LeanModel, num_rows: int) -> Callable[[], float]:
    cache = model.new_cache(_PAST + num_rows)
    token_ids = torch.arange(num_rows) % model.config.vocab_size

    def timed() -> float:
        cache.length = _PAST  # zeros are as good as a prefix
        start = time.perf_counter()
        model.forward(cache, token_ids=token_ids)
        return 1e3 * (time.perf_counter() - start)

    return timed


def _in_turn(forwards: list[Callable[[], float]], repeats: int) -> tuple[float, float]:
    times = [[forward() for forward in forwards] for _ in range(repeats + 1)][1:]
    usual, packed = zip(*times, strict=True)
    return statistics.median(usual), statistics.median(packed)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m confu_demo.bench.several_rows")
    parser.add_argument("folder", type=Path, help="a target as Hugging Face saves it")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args(arguments)
    found = measure(args.folder, args.threads)
    provenance = collect("cpu", "float32", args.threads, sys.argv)
    print(f"{provenance.device}, float32, {args.threads} threads, commit {provenance.commit}, ms\n")
    table = [(str(num), f"{usual:.1f}", f"{packed:.1f}") for num, (usual, packed) in found.items()]
    print(format_table(("rows", "usual", "packed"), table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
