"""Which path the target accepts, and the exact law of what it emits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from confu_demo.config import SamplingConfig
from confu_demo.decoding import confu, eagle3, verification
from confu_demo.decoding.base import Decoder
from confu_demo.decoding.confu import ConfuDecoder
from confu_demo.decoding.draft_tree import chain, make_tree
from confu_demo.decoding.eagle3 import Eagle3Decoder
from confu_demo.decoding.verification import HostTree, kept_rows, to_host, verify, walk
from confu_demo.engine.sampling import PositionNoise, probs
from tests.decoding.kit import (
    PROMPT,
    KnowingEagle,
    bind,
    confu_head,
    eagle_head,
    output,
    run,
    settings,
    tiny_model,
)

PARENTS = (-1, 0, 0, 1, 1, 3)
TOKENS = (9, 4, 5, 6, 7, 8)


@pytest.mark.parametrize(
    ("choices", "accepted", "final"),
    [
        ({0: 1}, (), 1),
        ({0: 4, 1: 2}, (1,), 2),
        ({0: 5, 2: 6}, (2,), 6),  # 6 is in the tree, but below another node
        ({0: 4, 1: 6, 3: 8, 5: 8}, (1, 3, 5), 8),
        ({0: 4, 1: 7, 4: 0}, (1, 4), 0),
    ],
)
def test_the_walk_follows_the_target(
    choices: dict[int, int], accepted: tuple[int, ...], final: int
) -> None:
    assert walk(PARENTS, TOKENS, lambda node, depth: choices[node]) == (accepted, final)


def logits_that_choose(choices: Sequence[int], vocab_size: int = 10) -> Tensor:
    logits = torch.zeros(len(choices), vocab_size)
    logits[range(len(choices)), list(choices)] = 3.0
    return logits


@pytest.mark.parametrize(
    ("choices", "accepted", "origin"),
    [
        ((4, 6, 0, 0, 0, 0), (1, 3), "recovered"),
        ((4, 6, 0, 8, 0, 2), (1, 3, 5), "bonus"),
        ((5, 0, 3, 0, 0, 0), (2,), "bonus"),
        ((1, 0, 0, 0, 0, 0), (), "recovered"),
    ],
)
def test_greedy_verification_takes_the_argmax_path(
    choices: tuple[int, ...], accepted: tuple[int, ...], origin: str
) -> None:
    scores = torch.zeros(len(TOKENS))
    tree = make_tree(torch.tensor(TOKENS), torch.tensor(PARENTS), scores, scores, max_depth=3)
    logits = logits_that_choose(choices)
    host, answer = verify(tree, logits, SamplingConfig(), PositionNoise(0, 10), 5)
    assert answer.accepted == accepted
    assert answer.token_id == choices[accepted[-1] if accepted else 0]
    assert answer.origin == origin
    assert answer.committed(host) == [*(TOKENS[node] for node in accepted), answer.token_id]
    softmax = logits.softmax(-1)
    expected = [1.0] + [softmax[PARENTS[node], TOKENS[node]].item() for node in range(1, 6)]
    assert answer.target_probs == pytest.approx(expected)


def test_kept_rows_stop_where_the_committed_tokens_stop() -> None:
    tree = chain([1, 2, 3, 4], torch.device("cpu"))
    logits = logits_that_choose((2, 3, 4, 5))
    _, answer = verify(tree, logits, SamplingConfig(), PositionNoise(0, 10), 0)
    kept = [kept_rows(answer, num, torch.device("cpu")).tolist() for num in (1, 2, 3, 4)]
    assert kept == [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]


def test_lists_on_the_host_are_the_tensors() -> None:
    ids, floats = torch.tensor([3, 151_935]), torch.tensor([0.5, -2.0])
    assert to_host(ids, floats) == [[3, 151_935], [0.5, -2.0]]


def test_a_host_tree_is_plain_python() -> None:
    tree = chain([1, 2], torch.device("cpu"))
    host, _ = verify(tree, torch.zeros(2, 5), SamplingConfig(), PositionNoise(0, 5), 0)
    assert host == HostTree((1, 2), (-1, 0), (0.0, 0.0))


class Oracle:
    """Stands in for ``sample``: takes the tokens it was told and multiplies their probability."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens, self.prob, self.count = tokens, 1.0, 0

    def __call__(
        self, logits: Tensor, config: SamplingConfig, noise: PositionNoise, positions: Sequence[int]
    ) -> Tensor:
        assert list(positions) == [len(PROMPT) + self.count]
        token = self.tokens[self.count] if self.count < len(self.tokens) else 0
        if self.count < len(self.tokens):
            self.prob *= probs(logits.reshape(-1), config)[token].item()
        self.count += 1
        return torch.tensor([token])


@pytest.mark.parametrize("method", ["eagle3", "knowing eagle3", "confu"])
def test_sampled_output_has_exactly_the_targets_law(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every output of three tokens over a vocabulary of five, with its exact probability."""
    model = tiny_model(vocab_size=5, dtype=torch.float64)
    target = bind(model)
    config = settings(3, temperature=0.8, num_nodes=7, depth=2, top_k=2)
    decoder: Decoder = Eagle3Decoder(target, eagle_head(model, draft_vocab_size=4))
    if method == "confu":
        decoder = ConfuDecoder(target, confu_head(model))
    total = 0.0
    accepted = 0
    for tokens in product(range(5), repeat=3):
        if method == "knowing eagle3":
            knowing = KnowingEagle(target, eagle_head(model, draft_vocab_size=4))
            decoder = knowing.know((*PROMPT, *tokens), lambda cycle: 2)
        oracle = Oracle(tokens)
        for module in (eagle3, confu, verification):
            monkeypatch.setattr(module, "sample", oracle)
        events = run(decoder, config)
        assert output(events) == list(tokens)
        accepted += sum(getattr(event, "accepted", ()) != () for event in events)
        cache = model.new_cache(len(PROMPT) + 3)
        ids = torch.tensor([*PROMPT, *tokens])
        rows = probs(model.forward(cache, token_ids=ids).logits, config.sampling)
        places = range(len(PROMPT) - 1, len(PROMPT) + 2)
        expected = torch.stack([rows[i, t] for i, t in zip(places, tokens, strict=True)]).prod()
        assert oracle.prob == pytest.approx(expected.item(), rel=1e-5)
        total += oracle.prob
    assert total == pytest.approx(1.0, abs=1e-5)
    assert accepted > 0
