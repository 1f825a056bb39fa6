from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from confu_demo.config import DecodeConfig
from confu_demo.data.documents import prompt_text
from confu_demo.decoding.registry import METHODS, check_methods
from confu_demo.engine.errors import CorruptModel, MissingModel, UnsupportedModel
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.suite_parts import eos_ids
from confu_demo.suites import (
    BUNDLED,
    DEFAULT_METHODS,
    ROOT,
    default_methods,
    find_suite,
    parts_of,
    why_not,
    without_root,
)
from tests.tiny_suite import MAX_POSITIONS, copy_of_suite, loaded, suite_folder

CONFIG = DecodeConfig(max_new_tokens=8)


def load(folder: Path) -> LoadedSuite:
    return LoadedSuite(find_suite(str(folder)), device="cpu", dtype="float32", threads=1)


def test_the_bundled_suite_is_found_by_name():
    assert find_suite("bundled") is BUNDLED


def test_a_folder_with_a_target_is_a_suite():
    suite = find_suite(str(suite_folder()))
    assert suite.folder == suite_folder()
    assert not suite.shipped
    assert [status.is_there for status in parts_of(suite)] == [True] * 4


def test_an_unknown_suite_is_refused_with_the_choices(tmp_path: Path):
    with pytest.raises(ValueError, match="unknown suite 'gpt': choose bundled, smollm2-135m or a"):
        find_suite("gpt")
    with pytest.raises(ValueError, match="is no suite"):
        find_suite(str(tmp_path))


def test_a_missing_part_is_named_with_the_lanes_that_need_it_and_how_to_get_it(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "draft")
    suite = find_suite(str(folder))
    (missing,) = [status for status in parts_of(suite) if not status.is_there]
    lanes = tuple(name for name, method in METHODS.items() if "draft" in method.needs)
    assert {"specreason", "lookahead", "confspec", "confspec+confu"} <= set(lanes)
    assert (missing.part, missing.lanes) == ("draft", lanes)
    assert "smaller model" in missing.how_to_get
    assert why_not(suite, "confspec").startswith("confspec needs draft, which is missing in")
    assert why_not(suite, "confu") == ""


def test_a_missing_part_of_a_shipped_suite_is_shown_by_its_place_in_the_repository():
    lost = replace(BUNDLED, folder=ROOT / "assets" / "models" / "lost")
    reason = why_not(lost, "autoregressive")
    assert "which is missing in assets/models/lost: " in reason
    assert str(ROOT) not in reason
    assert without_root("/elsewhere/target is missing") == "/elsewhere/target is missing"


def test_a_folder_of_config_without_weights_is_missing(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    for file in (folder / "eagle3").glob("*.safetensors"):
        file.unlink()
    assert "eagle3 needs eagle3" in why_not(find_suite(str(folder)), "eagle3")


def test_a_race_without_methods_takes_what_a_folder_can_run_and_all_four_of_a_shipped_suite(
    tmp_path: Path,
):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "confu")
    suite = find_suite(str(folder))
    assert default_methods(suite) == ("autoregressive", "eagle3", "confspec")
    assert default_methods(replace(suite, shipped=True)) == DEFAULT_METHODS


def test_how_to_get_a_shipped_part_names_its_training_command():
    statuses = {status.part: status for status in parts_of(BUNDLED)}
    assert "python -m confu_demo train confu" in statuses["confu"].how_to_get


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "no methods are named"),
        (("medusa",), "unknown method 'medusa': choose from autoregressive, "),
        (("confu", "confu"), "named twice"),
    ],
)
def test_wrong_method_names_are_refused(names: tuple[str, ...], message: str):
    with pytest.raises(ValueError, match=message):
        check_methods(names)


def test_lossless_flags_agree_with_the_decoders():
    for name, method in METHODS.items():
        decoder = loaded().decoder(name)
        assert (decoder.method, decoder.lossless) == (name, method.lossless)


def test_only_what_a_method_needs_is_loaded(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    suite = load(folder)
    (folder / "draft" / "model.safetensors").write_bytes(b"broken")
    suite.decoder("autoregressive")
    suite.decoder("eagle3")
    with pytest.raises(CorruptModel):
        suite.decoder("confspec")


def test_models_carry_names_hashes_and_sizes():
    suite = loaded()
    infos = [suite.target.info, suite.draft.info, suite.eagle3[1], suite.confu[1]]
    assert [info.role for info in infos] == ["target", "draft_model", "head", "head"]
    assert [info.name.split("/")[1] for info in infos] == ["target", "draft", "eagle3", "confu"]
    assert len({info.sha256 for info in infos}) == 4
    assert all(len(info.sha256) == 64 and info.num_parameters > 0 for info in infos)


def test_a_head_of_another_target_is_refused(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    other = folder / "target" / "model.safetensors"
    other.write_bytes((folder / "draft" / "model.safetensors").read_bytes())
    shutil.copy(folder / "draft" / "config.json", folder / "target" / "config.json")
    with pytest.raises(UnsupportedModel, match="for another target"):
        load(folder).decoder("eagle3")


def test_heads_in_each_others_folders_are_refused(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    (folder / "eagle3").rename(folder / "kept")
    (folder / "confu").rename(folder / "eagle3")
    (folder / "kept").rename(folder / "confu")
    suite = load(folder)
    with pytest.raises(CorruptModel, match="holds a ConFu head"):
        suite.decoder("eagle3")
    with pytest.raises(CorruptModel, match="holds an EAGLE-3 head"):
        suite.decoder("confu")


def test_a_method_whose_model_is_missing_says_so(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "confu")
    with pytest.raises(MissingModel, match="confu needs confu, which is missing"):
        load(folder).decoder("confu")


def test_a_problem_becomes_the_prompt_that_the_models_were_trained_on():
    suite = loaded()
    request = suite.request("How many?")
    tokenizer = suite.target.tokenizer
    assert request.text == prompt_text("How many?")
    assert request.token_ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(request.token_ids[1:]) == request.text


def test_other_text_is_continued_as_it_stands():
    suite = loaded()
    request = suite.request("Once upon", is_problem=False)
    assert request.text == "Once upon"
    assert suite.target.tokenizer.decode(request.token_ids[1:]) == "Once upon"


def test_models_with_another_tokenizer_get_the_bare_text(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    path = folder / "target" / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "bos_token": "<|pad|>"}), encoding="utf-8")
    suite = load(folder)
    assert not suite.asks_questions
    request = suite.request("How many?")
    assert request.text == "How many?"
    assert suite.target.tokenizer.decode(request.token_ids) == "How many?"


def test_special_tokens_that_are_written_out_stay_text():
    suite = loaded()
    request = suite.request("Tom <|eos|> has", is_problem=False)
    assert not suite.target.eos_ids & set(request.token_ids)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_prompt_is_refused(text: str):
    with pytest.raises(ValueError, match="the prompt is empty"):
        loaded().request(text)


def test_text_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="not valid Unicode"):
        loaded().request("broken \udcff byte")


def test_the_number_of_new_tokens_fits_the_context():
    suite = loaded()
    request = suite.request("has " * 60, is_problem=False)
    room = MAX_POSITIONS - len(request.token_ids)
    assert room > 0
    methods = ["autoregressive"]
    long = replace(CONFIG, max_new_tokens=1000)
    fitted = suite.fit(long, request, methods, may_shorten=True)
    assert fitted.max_new_tokens == room
    assert suite.fit(CONFIG, request, methods, may_shorten=False) == CONFIG
    with pytest.raises(ValueError, match="do not fit the context of 192 tokens"):
        suite.fit(long, request, methods, may_shorten=False)


def test_a_prompt_longer_than_the_context_is_refused_even_where_shortening_is_allowed():
    suite = loaded()
    request = suite.request("word " * 400, is_problem=False)
    with pytest.raises(ValueError, match="do not fit the context"):
        suite.fit(CONFIG, request, ["autoregressive"], may_shorten=True)


def test_the_draft_models_context_counts_where_it_takes_part(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    path = folder / "draft" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "max_position_embeddings": 64}), encoding="utf-8")
    suite = load(folder)
    request = suite.request("Tom has 3 apples.")
    long = replace(CONFIG, max_new_tokens=1000)
    plain = suite.fit(long, request, ["autoregressive"], may_shorten=True)
    both = suite.fit(long, request, ["autoregressive", "confspec"], may_shorten=True)
    assert plain.max_new_tokens == MAX_POSITIONS - len(request.token_ids)
    assert both.max_new_tokens == 64 - len(request.token_ids)


def test_every_end_token_of_the_files_counts(tmp_path: Path):
    class Tokenizer:
        eos_token_id = 2

    (tmp_path / "config.json").write_text('{"eos_token_id": 5}', encoding="utf-8")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 5]}', encoding="utf-8")
    assert eos_ids(tmp_path, Tokenizer()) == {2, 5, 7}


def test_warming_up_runs_each_method_once():
    suite = load(suite_folder())
    suite.warm_up(["autoregressive", "confu"], CONFIG)
    ran: list[str] = []
    original = suite.lanes
    suite.lanes = lambda methods, request: ran.extend(methods) or original(methods, request)  # type: ignore[method-assign,func-returns-value]
    suite.warm_up(["autoregressive", "eagle3"], CONFIG)
    suite.warm_up(["autoregressive", "eagle3"], CONFIG)
    assert ran == ["eagle3"]


def test_the_process_keeps_the_targets_thread_count():
    import torch

    suite = loaded()
    assert suite.threads == 1
    assert suite.threads_text == "1 thread"
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        suite.use_threads()
        assert torch.get_num_threads() == 1
        suite.model.threads = suite.model.single_threads = 2
        assert suite.threads_text == "2 threads"
        suite.model.single_threads = 1
        assert suite.threads_text == "2 threads (1 for a single row)"
    finally:
        torch.set_num_threads(before)
