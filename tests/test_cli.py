from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from confu_demo.__main__ import COMMANDS, main
from confu_demo.cli import race_command
from confu_demo.cli.tables import format_table
from confu_demo.config import DecodeConfig
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.metrics import summary
from confu_demo.trace_io import Recording, read_recording, write_recording
from tests.tiny_suite import copy_of_suite, suite_folder
from tests.traces import step_run, token_run

ROOT = Path(__file__).resolve().parent.parent
LANE_KEYS = [
    "text", "num_tokens", "ms", "tokens_per_s", "speedup", "acceptance_length",
    "target_forwards", "target_tokens", "draft_ms", "verify_ms", "other_ms",
    "identical_to_target", "answer_correct", "finish_reason",
]  # fmt: skip
MACHINE = ("--device", "cpu", "--dtype", "float32", "--threads", "1")


def race_arguments(*more: str, prompt: tuple[str, str] = ("--problem", "heldout:3")) -> list[str]:
    return [
        "race", *prompt, "--suite", str(suite_folder()), "--max-new-tokens", "10", *MACHINE, *more
    ]  # fmt: skip


def write_runs(path: Path) -> None:
    lanes = {"confu": tuple(token_run()), "confspec": tuple(step_run())}
    write_recording(path, Recording(title="two", created="2026-01-02T03:04:05Z", lanes=lanes))


def test_a_race_prints_a_table_and_writes_the_promised_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "race.json"
    assert main(race_arguments("--json", str(path))) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for method in ("autoregressive", "eagle3", "confu", "confspec"):
        assert f"\n{method} " in printed.out
    result = json.loads(path.read_text(encoding="utf-8"))
    assert list(result) == ["suite", "device", "dtype", "threads", "versions", "lanes"]
    assert (result["dtype"], result["threads"]) == ("float32", 1)
    assert result["device"].startswith("cpu")
    assert {"python", "torch", "transformers"} <= set(result["versions"])
    assert list(result["lanes"]) == ["autoregressive", "eagle3", "confu", "confspec"]
    for lane in result["lanes"].values():
        assert list(lane) == LANE_KEYS


def test_the_numbers_of_a_race_agree_with_each_other(tmp_path: Path):
    path = tmp_path / "race.json"
    assert main(race_arguments("--json", str(path))) == 0
    lanes: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["lanes"]
    plain = lanes["autoregressive"]
    for lane in lanes.values():
        parts = (lane["draft_ms"] or 0.0) + lane["verify_ms"] + lane["other_ms"]
        assert parts == pytest.approx(lane["ms"], abs=1.0)
        assert lane["tokens_per_s"] == pytest.approx(1000 * lane["num_tokens"] / lane["ms"])
        ratio = lane["tokens_per_s"] / plain["tokens_per_s"]
        assert lane["speedup"] == pytest.approx(ratio)
        assert lane["num_tokens"] == 10
        assert lane["finish_reason"] == "length"
        assert lane["answer_correct"] is False
    for method in ("eagle3", "confu"):
        assert lanes[method]["text"] == plain["text"]
        assert lanes[method]["identical_to_target"] is True
        assert lanes[method]["acceptance_length"] >= 1
    assert plain["speedup"] == 1
    for key in ("acceptance_length", "draft_ms", "identical_to_target"):
        assert plain[key] is None
    assert lanes["confspec"]["acceptance_length"] is None
    assert isinstance(lanes["confspec"]["identical_to_target"], bool)


def test_numbers_without_a_meaning_are_null(tmp_path: Path):
    path = tmp_path / "race.json"
    prompt = ("--prompt", "Once upon a time")
    assert main(race_arguments("--methods", "eagle3", "--json", str(path), prompt=prompt)) == 0
    lane = json.loads(path.read_text(encoding="utf-8"))["lanes"]["eagle3"]
    assert [key for key in LANE_KEYS if lane[key] is None] == [
        "speedup", "identical_to_target", "answer_correct"
    ]  # fmt: skip


def test_a_run_cut_by_the_limit_is_not_called_a_wrong_answer(capsys):
    assert main(race_arguments("--methods", "eagle3")) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("eagle3 ")]
    assert "cut at the limit" in row
    assert "wrong" not in row


def test_lanes_run_in_the_order_that_was_asked_for(tmp_path: Path):
    path = tmp_path / "race.json"
    arguments = race_arguments("--methods", "confu, autoregressive", "--json", str(path))
    assert main(arguments) == 0
    assert list(json.loads(path.read_text(encoding="utf-8"))["lanes"]) == [
        "confu", "autoregressive"
    ]  # fmt: skip


def test_a_trace_of_a_race_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    trace, numbers = tmp_path / "race.jsonl.gz", tmp_path / "race.json"
    assert main(race_arguments("--trace", str(trace), "--json", str(numbers))) == 0
    recording = read_recording(trace)
    lanes = json.loads(numbers.read_text(encoding="utf-8"))["lanes"]
    assert list(recording.lanes) == list(lanes)
    for method, events in recording.lanes.items():
        assert summary(events).text == lanes[method]["text"]
        assert summary(events).decode_ms == pytest.approx(lanes[method]["ms"])
    capsys.readouterr()
    assert main(["replay", str(trace)]) == 0
    printed = capsys.readouterr().out
    assert "recording of 'heldout:3'" in printed
    assert printed.count("ends: length") == 4


def test_sampling_with_a_seed_is_lossless_and_repeats(tmp_path: Path):
    texts = []
    for run in range(2):
        path = tmp_path / f"{run}.json"
        arguments = race_arguments(
            "--temperature", "1", "--top-p", "0.9", "--seed", "4", "--methods",
            "autoregressive,eagle3,confu,prompt_lookup", "--json", str(path),
        )  # fmt: skip
        assert main(arguments) == 0
        lanes = json.loads(path.read_text(encoding="utf-8"))["lanes"].values()
        texts.append({lane["text"] for lane in lanes})
    assert texts[0] == texts[1]
    assert len(texts[0]) == 1


def test_every_setting_reaches_the_decoders(tmp_path: Path):
    trace = tmp_path / "race.jsonl"
    arguments = race_arguments(
        "--top-k", "7", "--tree-nodes", "5", "--tree-depth", "2", "--tree-top-k", "3",
        "--gamma", "0.8", "--draft-steps", "2", "--contemplate-budget", "1",
        "--future", "zeroed", "--audit", "--methods", "confu", "--trace", str(trace),
    )  # fmt: skip
    assert main(arguments) == 0
    settings = dict(read_recording(trace).lanes["confu"][0].config)  # type: ignore[union-attr]
    assert settings == {
        **{name: settings[name] for name in settings},
        "max_new_tokens": "10",
        "sampling.top_k": "7",
        "tree.mode": "fixed",
        "tree.num_nodes": "5",
        "tree.depth": "2",
        "tree.top_k": "3",
        "confspec.threshold": "0.8",
        "confspec.draft_steps": "2",
        "confspec.audit": "True",
        "confu.contemplate_budget": "1",
        "confu.future": "zeroed",
    }


def test_without_a_limit_the_context_is_the_limit(tmp_path: Path):
    path = tmp_path / "race.json"
    arguments = ["race", "--prompt", "Tom has 3 apples.", "--suite", str(suite_folder()),
                 "--methods", "autoregressive", "--json", str(path), *MACHINE]  # fmt: skip
    assert main(arguments) == 0
    tokens = json.loads(path.read_text(encoding="utf-8"))["lanes"]["autoregressive"]["num_tokens"]
    assert 100 < tokens < DecodeConfig().max_new_tokens


WRONG_RACES = {
    "no prompt": ["race"],
    "two prompts": ["race", "--problem", "heldout:1", "--prompt", "x"],
    "unknown option": ["race", "--problem", "heldout:1", "--fast"],
    "number that is none": race_arguments("--seed", "many"),
    "unknown suite": ["race", "--problem", "heldout:1", "--suite", "gpt"],
    "unknown split": race_arguments(prompt=("--problem", "exam:1")),
    "unknown problem": race_arguments(prompt=("--problem", "heldout:1000")),
    "problem without a name": race_arguments(prompt=("--problem", "7")),
    "unknown method": race_arguments("--methods", "autoregressive,medusa"),
    "method twice": race_arguments("--methods", "eagle3,eagle3"),
    "no method": race_arguments("--methods", ","),
    "empty prompt": race_arguments(prompt=("--prompt", " \n")),
    "prompt longer than the context": race_arguments(prompt=("--prompt", "word " * 500)),
    "more tokens than the context": race_arguments("--max-new-tokens", "500"),
    "temperature": race_arguments("--temperature", "-1"),
    "top p": race_arguments("--top-p", "0"),
    "tree": race_arguments("--tree-nodes", "0"),
    "gamma": race_arguments("--gamma", "nan"),
    "future": race_arguments("--future", "past"),
    "folder that is not there": race_arguments("--json", "/nowhere/race.json"),
    "folder instead of a file": race_arguments("--json", str(ROOT)),
    "folder that takes no files": race_arguments("--json", "/proc/race.json"),
    "name that is no trace": race_arguments("--trace", "race.txt"),
    "no command": [],
    "unknown command": ["win"],
    "replay of nothing": ["replay", "nothing.jsonl.gz"],
    "replay of no trace": ["replay", str(ROOT / "pyproject.toml")],
    "suite of nothing": ["suites", "--suite", "gpt"],
    "too many problems": ["bench", "--problems", "100000"],
    "no problems": ["bench", "--problems", "0"],
    "bench of an unknown split": ["bench", "--split", "exam"],
    "bench of an unknown method": ["bench", "--methods", "medusa"],
    "bench of an unknown suite": ["bench", "--suite", "gpt"],
    "bench without repeats": ["bench", "--repeats", "0"],
}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    try:
        status = main(arguments)
    except SystemExit as stopped:
        status = stopped.code  # type: ignore[assignment]
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert "error: " in printed.err
    return printed.err


@pytest.mark.parametrize("arguments", WRONG_RACES.values(), ids=WRONG_RACES)
def test_wrong_arguments_are_one_line_and_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
):
    refused(arguments, capsys)


@pytest.mark.parametrize("part", ["target", "draft", "eagle3", "confu"])
def test_a_missing_model_is_one_line_with_what_to_do(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / part)
    path = tmp_path / "race.json"
    methods = ("--methods", "autoregressive,eagle3,confu,confspec")
    line = refused(race_arguments(*methods, "--suite", str(folder), "--json", str(path)), capsys)
    assert part in line
    assert "put a" in line
    assert not path.exists()


@pytest.mark.parametrize("part", ["target", "draft", "eagle3", "confu"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_corrupt_checkpoint_is_one_line(
    part: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = copy_of_suite(tmp_path)
    path = folder / part / name
    path.write_bytes(path.read_bytes()[:40])
    json_path = tmp_path / "race.json"
    refused(race_arguments("--suite", str(folder), "--json", str(json_path)), capsys)
    assert not json_path.exists()


def test_a_corrupt_tokenizer_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = copy_of_suite(tmp_path)
    (folder / "target" / "tokenizer.json").write_text("{", encoding="utf-8")
    refused(race_arguments("--suite", str(folder)), capsys)


def test_a_refused_race_leaves_an_older_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "race.json"
    path.write_text("older", encoding="utf-8")
    refused(race_arguments("--json", str(path), prompt=("--prompt", "")), capsys)
    assert path.read_text(encoding="utf-8") == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_lane_is_told_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The lane fails in the race itself, after a warm-up that went well."""
    original = LoadedSuite.lanes

    def broken(suite: Any, methods: Any, request: Any) -> Any:
        lanes = original(suite, methods, request)
        for lane in lanes:
            if lane.name == "eagle3":
                monkeypatch.setattr(lane.decoder, "decode", _fails)
        return lanes

    path = tmp_path / "race.json"
    monkeypatch.setattr(LoadedSuite, "warm_up", lambda *args: None)
    monkeypatch.setattr(LoadedSuite, "lanes", broken)
    arguments = race_arguments("--methods", "autoregressive,eagle3", "--json", str(path))
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.err == "confu_demo race: error: eagle3 failed: RuntimeError: out of memory\n"
    lanes = json.loads(path.read_text(encoding="utf-8"))["lanes"]
    assert lanes["eagle3"]["finish_reason"] == "error"
    assert lanes["autoregressive"]["num_tokens"] == 10


def _fails(*args: Any) -> Any:
    raise RuntimeError("out of memory")


def test_a_broken_trace_is_never_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "race.jsonl.gz"
    monkeypatch.setattr(race_command, "validate", lambda events: ("the run starts twice",))
    status = main(race_arguments("--methods", "autoregressive", "--trace", str(path)))
    assert status == 2
    assert "the run starts twice" in capsys.readouterr().err
    assert not path.exists()


def test_replay_tells_every_event_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "runs.jsonl.gz"
    write_runs(path)
    assert main(["replay", str(path)]) == 0
    printed = capsys.readouterr().out
    for words in ("drafts a tree of", "accepts ", "keeps the draft's", "escalate", "ends: eos"):
        assert words in printed
    assert main(["replay", str(path), "--table-only"]) == 0
    assert "drafts a tree of" not in capsys.readouterr().out


def test_replay_refuses_a_trace_that_is_cut_or_lies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "runs.jsonl.gz"
    write_runs(path)
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    assert "ends early" in refused(["replay", str(path)], capsys)
    lying = Recording(title="x", created="", lanes={"confu": tuple(token_run())[:-1]})
    write_recording(path, lying)
    assert "breaks a promise" in refused(["replay", str(path)], capsys)


def test_replay_paces_by_its_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "runs.jsonl.gz"
    write_runs(path)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    assert main(["replay", str(path), "--speed", "2"]) == 0
    longest = max(events[-1].t_ms for events in read_recording(path).lanes.values())
    assert sum(waits) == pytest.approx(longest / 1000 / 2)
    assert main(["replay", str(path), "--speed", "0"]) == 2


def test_suites_says_what_is_here_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "draft")
    assert main(["suites", "--suite", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert (
        "draft   MISSING   for specreason, lookahead, confspec, confspec+prompt_lookup, " in printed
    )
    assert "lanes that can run: autoregressive, prompt_lookup, eagle3, confu\n" in printed
    assert main(["suites"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("bundled: ")
    assert "--suite FOLDER" in printed


def test_a_table_aligns_names_left_and_numbers_right():
    table = format_table(("lane", "ms"), [("eagle3", "7.0"), ("x", "123.0")])
    assert table == "lane       ms\neagle3    7.0\nx       123.0"


def test_help_names_every_command_without_importing_torch():
    code = "import sys; from confu_demo.__main__ import main\ntry: main(['--help'])\n"
    code += "except SystemExit: print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.endswith("False\n")
    assert set(COMMANDS) <= set(done.stdout.split())


def test_interrupting_a_race_exits_with_130_and_writes_nothing(tmp_path: Path):
    path = tmp_path / "race.json"
    arguments = race_arguments("--json", str(path), "--max-new-tokens", "100")
    code = (
        "import signal, sys, time; from confu_demo import race\n"
        # A shell lets its background jobs ignore the signal; a user's race does not.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "take_turns = race._take_turns\n"
        "def slow(runs):\n"
        "    for pair in take_turns(runs):\n"
        "        print('event', flush=True); time.sleep(0.2); yield pair\n"
        "race._take_turns = slow\n"
        "from confu_demo.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, env=dict(os.environ), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "event\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors == "confu_demo race: interrupted\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_bundled_race_is_lossless_where_it_promises_it(tmp_path: Path):
    """Issue: greedy eagle3 and confu equal autoregressive in float32 on ten held-out problems."""
    for index in range(10):
        path = tmp_path / f"{index}.json"
        arguments = ["race", "--problem", f"heldout:{index}", "--dtype", "float32",
                     "--methods", "autoregressive,prompt_lookup,eagle3,confu",
                     "--json", str(path)]  # fmt: skip
        assert main(arguments) == 0
        lanes = json.loads(path.read_text(encoding="utf-8"))["lanes"]
        plain = lanes.pop("autoregressive")
        assert plain["finish_reason"] == "eos"
        for method, lane in lanes.items():
            assert lane["text"] == plain["text"], f"{method} on heldout:{index}"


def test_a_replayed_race_about_a_known_problem_says_whether_the_answers_were_right(capsys):
    shelf = Path(__file__).resolve().parent.parent / "assets" / "recordings"
    assert main(["replay", str(shelf / "1_walk_in_8_steps.jsonl.gz"), "--table-only"]) == 0
    rows = capsys.readouterr().out.splitlines()
    confspec = next(row for row in rows if row.startswith("confspec"))
    assert "right" in confspec.split()
