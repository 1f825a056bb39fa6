"""The target's answer to a draft tree: which path stands, and which token ends the cycle.

Acceptance [E]: at every node, starting from the root, take the target's own token x (argmax, or
a sample with the noise of that position); if x is a child of the node, go there, else x is the
emitted token and the cycle ends. Every emitted token is a token of the target itself, so the
output has exactly the target's law, and with noise seeded per position it is the plain sampled
output, token for token.

Pure functions; knows no cache and no event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from confu_demo.config import SamplingConfig
from confu_demo.decoding.draft_tree import TokenTree
from confu_demo.engine.sampling import PositionNoise, sample


@dataclass(frozen=True, slots=True)
class HostTree:
    """A draft tree as Python lists. ``contemplated``: the nodes that :func:`verify` was given."""

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    log_probs: tuple[float, ...]
    contemplated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """``accepted``: node indices from the root's child downwards; ``token_id``: the target's own
    token after the last of them; ``target_probs[i]``: the target's own probability
    (temperature 1) of node i given its parent's path, 1.0 for the root."""

    accepted: tuple[int, ...]
    token_id: int
    origin: Literal["recovered", "bonus"]
    target_probs: tuple[float, ...]

    def committed(self, tree: HostTree) -> list[int]:
        """Accepted tokens and the token that ends the cycle, not yet cut."""
        return [*(tree.token_ids[node] for node in self.accepted), self.token_id]


def verify(
    tree: TokenTree,
    logits: Tensor,
    sampling: SamplingConfig,
    noise: PositionNoise,
    root_position: int,
    contemplated: Tensor | None = None,
) -> tuple[HostTree, Verification]:
    """Verifies ``tree`` with the target's ``logits`` [N, V] of its nodes.

    ``root_position`` is the absolute index of the root token; ``contemplated`` Long[M], nodes
    with a contemplate token, only comes along to the host. Copies to the host once when
    greedy; sampling adds one copy a committed token, because which node is sampled next depends
    on the last sample (our choice: no noise is ever drawn for a node off the path).
    """
    greedy = sampling.temperature == 0.0
    argmax = logits.argmax(dim=-1) if greedy else tree.parents
    probs = node_probs(tree, logits)
    along = () if contemplated is None else (contemplated,)
    ids, parents, log_probs, choices, target_probs, *nodes = to_host(
        tree.token_ids, tree.parents, tree.log_probs, argmax, probs, *along
    )
    con_nodes = _integers(nodes[0]) if nodes else ()
    host = HostTree(_integers(ids), _integers(parents), tuple(log_probs), con_nodes)

    def choose(node: int, depth: int) -> int:
        if greedy:
            return int(choices[node])
        return int(sample(logits[node], sampling, noise, [root_position + depth + 1]))

    accepted, token_id = walk(host.parents, host.token_ids, choose)
    last = accepted[-1] if accepted else 0
    origin: Literal["recovered", "bonus"] = "recovered" if last in host.parents else "bonus"
    return host, Verification(accepted, token_id, origin, (1.0, *target_probs[1:]))


def kept_rows(answer: Verification, num_kept: int, device: torch.device) -> Tensor:
    """Tree rows whose keys and values stay, Long: the root and the accepted nodes among the
    first ``num_kept`` committed tokens. The target's own token has no row yet."""
    return torch.tensor([0, *answer.accepted[:num_kept]], device=device)


def walk(
    parents: Sequence[int], token_ids: Sequence[int], choose: Callable[[int, int], int]
) -> tuple[tuple[int, ...], int]:
    """Follows the target from the root: (accepted nodes, token that is no child).

    ``choose(node, depth)`` is the target's own token after that node.
    """
    pairs = zip(parents, token_ids, strict=True)
    children = {pair: node for node, pair in enumerate(pairs)}
    accepted: list[int] = []
    node: int | None = 0
    while node is not None:
        last = node
        token = choose(last, len(accepted))
        node = children.get((last, token))
        if node is not None:
            accepted.append(node)
    return tuple(accepted), token


def node_probs(tree: TokenTree, logits: Tensor) -> Tensor:
    """float[N]: softmax probability of every node's token in its parent's row (root: any)."""
    places = tree.parents.clamp(min=0) * logits.shape[1] + tree.token_ids
    return logits.log_softmax(dim=-1).flatten().index_select(0, places).exp_()


def to_host(*tensors: Tensor) -> list[list[float]]:
    """One-dimensional tensors as lists, with one copy from an accelerator.

    Everything travels as float32 there, which holds token ids below 2^24 exactly.
    """
    if tensors[0].device.type == "cpu":
        return [tensor.tolist() for tensor in tensors]
    packed = torch.cat([tensor.float() for tensor in tensors]).tolist()
    lists, start = [], 0
    for tensor in tensors:
        lists.append(packed[start : start + tensor.shape[0]])
        start += tensor.shape[0]
    return lists


def _integers(values: Sequence[float]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
