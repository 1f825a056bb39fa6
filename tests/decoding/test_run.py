"""The bookkeeping that all token decoders share."""

from __future__ import annotations

import pytest

from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.run import Run, Stopwatch
from confu_demo.trace import DraftProposed, DraftVerified, TokensCommitted
from tests.decoding.kit import (
    PROMPT,
    KnowingEagle,
    bind,
    eagle_head,
    output,
    plain,
    run,
    settings,
    tiny_model,
    varied,
)


def new_run(max_new_tokens: int, eos_ids: tuple[int, ...] = ()) -> Run:
    target = bind(tiny_model(), eos_ids)
    request = DecodeRequest(token_ids=PROMPT, text="")
    return Run("test", (), target, request, settings(max_new_tokens), LaneClock())


@pytest.mark.parametrize(
    ("tokens", "kept", "reason"),
    [
        ([5, 6, 7], 3, None),
        ([5, 9, 7], 2, "eos"),
        ([9], 1, "eos"),
        ([5, 6, 7, 8], 4, "length"),
        ([5, 6, 7, 8, 9], 4, "length"),  # the end of text lies beyond the limit
        ([5, 6, 7, 9], 4, "eos"),
        ([5, 9, 9, 5, 5, 5], 2, "eos"),
    ],
)
def test_tokens_are_cut_at_the_first_end_of_text_and_at_the_limit(
    tokens: list[int], kept: int, reason: str | None
) -> None:
    run = new_run(4, eos_ids=(9,))
    assert run.cut(tokens) == kept
    assert run.reason == reason


def test_the_limit_counts_what_was_committed_before() -> None:
    run = new_run(4)
    run.commit([5, 6, 7], ["target"] * 3)
    assert run.num_left == 1
    assert run.cut([5, 6]) == 1
    assert run.reason == "length"


def test_a_stopwatch_adds_up_its_blocks() -> None:
    ticks = iter([10.0, 12.0, 20.0, 25.0])

    class Clock(LaneClock):
        def now(self) -> float:
            return next(ticks)

    watch = Stopwatch(Clock())
    with watch:
        pass
    with watch:
        pass
    assert (watch.total_ms, watch.last_ms, watch.ended_ms) == (7.0, 5.0, 25.0)


def test_the_texts_of_events_are_those_of_their_tokens_in_context() -> None:
    """Bytes of a tiny vocabulary form characters across tokens: fragments add nothing."""
    target = bind(tiny_model(vocab_size=256, seed=3))
    config = settings(40, num_nodes=16, temperature=1.5)
    expected = plain(target, config)
    decoder = KnowingEagle(target, eagle_head(target.model)).know((*PROMPT, *expected), varied(1))
    events = run(decoder, config)
    detokenizer, ids = target.detokenizer, list(PROMPT)
    for event in events:
        if isinstance(event, DraftProposed):
            tree, paths = event.tree, [ids[:-1]]
            for token, parent, text in zip(tree.token_ids, tree.parents, tree.texts, strict=True):
                path = paths[parent + 1] if parent >= 0 else ids[:-1]
                assert text == detokenizer.texts_after(path, [token])[0]
                paths.append([*path, token])
        elif isinstance(event, DraftVerified):
            path = [*ids, *(tree.token_ids[node] for node in event.accepted)]
            assert event.token_text == detokenizer.texts_after(path, [event.token_id])[0]
        elif isinstance(event, TokensCommitted):
            assert event.texts == detokenizer.texts_after(ids, event.token_ids)
            ids.extend(event.token_ids)
    assert output(events) == expected == ids[len(PROMPT) :]
    assert any("" in event.texts for event in events if isinstance(event, TokensCommitted))
