from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from confu_demo.suite_weights.errors import FetchError
from confu_demo.suite_weights.gguf_model import GgufModel
from confu_demo.suite_weights.gguf_tokenizer import make_tokenizer
from tests.suite_weights.kit import tokens, write_gguf


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("tokenizer") / "tiny.gguf"
    write_gguf(path)
    return make_tokenizer(GgufModel(path))


def test_the_vocabulary_is_the_files(tokenizer: Any):
    assert len(tokenizer) == len(tokens())
    assert tokenizer.convert_tokens_to_ids(tokens()) == list(range(len(tokens())))


def test_merges_make_words(tokenizer: Any):
    assert tokenizer.tokenize("hello hello") == ["hello", "Ġhello"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("12345", ["1", "2", "3", "4", "5"]),
        ("a\n\n1.", ["a", "ĊĊ", "1", "."]),
        ("a  7", ["a", "ĠĠ", "7"]),
        ("a\n\nb", ["a", "Ċ", "Ċ", "b"]),
    ],
)
def test_a_digit_stands_alone_and_what_is_before_it_stays_together(
    tokenizer: Any, text: str, pieces: list[str]
):
    """As the model's own tokenizer does it: in front of a letter the last space is set apart."""
    assert tokenizer.tokenize(text) == pieces


@pytest.mark.parametrize("text", ["hello 12\n\n3", "안녕 😀 wörld\t1", "  x"])
def test_text_survives_the_way_through_ids(tokenizer: Any, text: str):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_nothing_is_put_before_or_after_a_text(tokenizer: Any):
    assert tokenizer("hello")["input_ids"] == [tokens().index("hello")]


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path):
    path = tmp_path / "tiny.gguf"
    write_gguf(path, pre="qwen2")
    with pytest.raises(FetchError, match="a tokenizer of an unknown kind"):
        make_tokenizer(GgufModel(path))
