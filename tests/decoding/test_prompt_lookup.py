"""What prompt lookup drafts, without any model."""

from __future__ import annotations

from confu_demo.decoding.prompt_lookup import NgramIndex


def continuation(text: list[int], num_tokens: int = 3, max_ngram: int = 3) -> list[int]:
    index = NgramIndex(max_ngram)
    index.extend(text)
    return index.continuation(num_tokens)


def test_the_longest_match_wins() -> None:
    assert continuation([1, 2, 3, 7, 7, 7, 9, 3, 8, 8, 8, 1, 2, 3]) == [7, 7, 7]


def test_the_most_recent_of_equal_matches_wins() -> None:
    assert continuation([4, 5, 1, 1, 1, 4, 5, 2, 2, 2, 4, 5]) == [2, 2, 2]


def test_no_match_drafts_nothing() -> None:
    assert continuation([1, 2, 3, 4]) == []
    assert continuation([]) == []


def test_a_continuation_at_the_end_of_the_text_repeats_itself() -> None:
    assert continuation([6, 6], num_tokens=4) == [6, 6, 6, 6]
    assert continuation([1, 2, 1, 2], num_tokens=5) == [1, 2, 1, 2, 1]


def test_nothing_is_drafted_when_nothing_may_be() -> None:
    assert continuation([6, 6], num_tokens=0) == []


def test_growing_token_by_token_equals_growing_at_once() -> None:
    text = [1, 2, 1, 3, 1, 2, 2, 1, 3]
    index = NgramIndex(4)
    for token in text:
        index.extend([token])
    assert index.continuation(6) == continuation(text, 6, 4)
