from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from confu_demo.__main__ import main
from confu_demo.bench.processes import Processes
from tests.tiny_suite import suite_folder

ROOT = Path(__file__).resolve().parents[2]


def arguments(path: Path, *more: str) -> list[str]:
    return [
        "bench", "--suite", str(suite_folder()), "--problems", "3", "--max-new-tokens", "6",
        "--device", "cpu", "--dtype", "float32", "--threads", "1", "--json", str(path),
        "--generate-problems", "1", "--check-problems", "1", *more,
    ]  # fmt: skip


def test_a_benchmark_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bench.json"
    assert main(arguments(path)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "transformers generate" in printed.out
    assert "time in a race / time alone (1 problems)" in printed.out
    assert "confspec: step acceptance" in printed.out
    check_output(json.loads(path.read_text(encoding="utf-8")), processes=1)


def check_output(output: dict[str, Any], processes: int) -> None:
    parts = ["settings", "provenance", "generate_baseline", "race_check", "methods", "acceptance"]
    assert list(output) == parts
    assert output["acceptance"]["baseline"] == "eagle3"
    assert [row["name"] for row in output["acceptance"]["rows"]] == ["eagle3", "confu"]
    settings = output["settings"]
    assert (settings["problems"], settings["split"], settings["start"]) == (3, "heldout", 0)
    assert (settings["max_new_tokens"], settings["processes"]) == ("6", processes)
    assert output["provenance"]["dtype"] == "float32"
    assert "torch" in output["provenance"]["versions"]
    assert list(output["methods"]) == ["autoregressive", "eagle3", "confu", "confspec"]
    for values in output["methods"].values():
        assert (values["problems"], values["failures"]) == (3, 0)
        assert values["num_tokens_mean"] == 6
        assert {"speedup", "speedup_quartiles", "accuracy", "accuracy_interval"} <= set(values)
    assert output["methods"]["eagle3"]["identical_share"] == 1.0
    assert output["methods"]["autoregressive"]["acceptance_length"] is None
    assert "step_acceptance" in output["methods"]["confspec"]


def test_comparisons_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "bench.json"
    more = ("--generate-problems", "0", "--check-problems", "0", "--methods", "prompt_lookup")
    assert main(arguments(path, *more)) == 0
    output = json.loads(path.read_text(encoding="utf-8"))
    assert output["generate_baseline"] is None
    assert output["race_check"] is None
    assert output["methods"]["prompt_lookup"]["speedup"] is None
    assert "generate" not in capsys.readouterr().out


def test_an_unwritable_file_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments(tmp_path / "missing" / "bench.json")) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_without_a_launcher_there_is_one_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    processes = Processes("auto")
    assert (processes.count, processes.index, processes.is_first) == (1, 0, True)
    assert processes.device == "auto"
    assert processes.share([1, 2, 3]) == [1, 2, 3]
    assert processes.gather([1]) == [1]
    processes.close()


@pytest.mark.slow
def test_two_processes_of_accelerate_measure_each_problem_once(tmp_path: Path):
    path = tmp_path / "bench.json"
    # With --cpu accelerate starts one process and leaves the others to mpirun.
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu",
              "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no",
              "--dynamo_backend", "no", "--module", "confu_demo"]  # fmt: skip
    done = subprocess.run(
        [*launch, *arguments(path)], cwd=ROOT, env=dict(os.environ), capture_output=True,
        text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nautoregressive ") == 1
    check_output(json.loads(path.read_text(encoding="utf-8")), processes=2)
