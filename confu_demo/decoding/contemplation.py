"""Contemplate tokens at work: who gets one, what it sees, and whose f serves the next draft.

Owns ConFu's packed parts (:class:`ConfuParts`, once a decoder) and the future predictions of one
run (:class:`Contemplator`). Knows nothing of acceptance, of the drafter's cache and of events'
times. [P] marks the paper (arXiv 2603.08899), [O] our choice; see :mod:`confu_demo.decoding.confu`.

Shape letters: N tree nodes, M contemplate tokens, D_t target hidden, E experts.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from confu_demo.config import ConfuConfig
from confu_demo.decoding.base import features_of
from confu_demo.decoding.draft_tree import TokenTree, best
from confu_demo.decoding.drafting import Drafter, FutureInput
from confu_demo.decoding.masks import verify_mask
from confu_demo.engine.cache import KVCache, SideKeyValues
from confu_demo.engine.target import ForwardOutput, LeanModel
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.expert_mixture import ExpertMixture
from confu_demo.trace import Contemplation, ForeseenToken

NUM_FORESEEN = 3


def contemplated_nodes(tree: TokenTree, budget: int) -> Tensor:
    """Which nodes get a contemplate token, Long[M] increasing.

    A negative budget is every node [P]. Otherwise the root, whose f serves wherever nothing else
    does, and the nodes most likely to be the last accepted one [O]: only the [con] of that node
    is ever used, so a likely node with a likely child needs none. Equal chances in node order.
    """
    if budget < 0 or budget >= tree.num_nodes:
        return torch.arange(tree.num_nodes, device=tree.parents.device)
    chances = tree.last_accepted.clone()
    chances[:1] = 2.0  # above any chance
    return best(chances, budget).sort().values


def serving_node(node: int, parents: Sequence[int], contemplated: Sequence[int]) -> int:
    """The nearest node at or above ``node`` that has a contemplate token [O]: its f serves."""
    while node not in contemplated:
        node = parents[node]
    return node


class ConfuParts:
    """ConFu's own weights in the target's device and dtype; soft prompts run through the target
    once, here, and are shared by all runs [O]."""

    def __init__(self, head: ConfuHead, model: LeanModel, target_ids: Tensor) -> None:
        """``target_ids`` Long[V_d]: the draft vocabulary."""

        def bound(mixture: ExpertMixture) -> ExpertMixture:
            own = copy.deepcopy(mixture).requires_grad_(False)
            return own.to(device=model.device, dtype=model.dtype)

        self.model = model
        self.layers = head.config.eagle.feature_layers
        self.con_mixture = bound(head.con_mixture)
        self.future_mixture = bound(head.future_mixture)
        self.future_bias = float(head.future_bias.detach())
        soft = head.soft_prompt.embeddings.detach()
        weights = head.foresight_weights
        self.foresight_weights: list[float] = [] if weights is None else weights.detach().tolist()
        maps = [turn.weight.detach().T for turn in head.foresight_maps]  # type: ignore[operator]
        width = head.config.eagle.target_hidden_size
        # [n, D_t, D_t], the residual's one added.
        self._turns = torch.stack(maps) + torch.eye(width) if maps else torch.empty(0)
        self._turns = self._turns.to(device=model.device, dtype=model.dtype)
        # A copy of these columns, because the whole output head would cost six times as much.
        self._words = model.lm_head_columns(target_ids) if self.foresight_weights else None
        self.side: SideKeyValues | None = model.side_key_values(soft) if len(soft) else None

    def outlook(self, hidden: Tensor, distance: int) -> tuple[Tensor, ...]:
        """What a [con]'s last state [1, D_t] adds to the draft's logits at depth 1, 2, ...:
        float32 [1, V_d] each. ``distance``: how many tokens the draft's root is after the place
        where this [con] stood."""
        weights = self.foresight_weights[distance:]
        if self._words is None or not weights:
            return ()
        logits = (self.foreseen_states(hidden)[distance:] @ self._words).float()
        return tuple(logits[n, None] * weight for n, weight in enumerate(weights))

    def foreseen_states(self, hidden: Tensor) -> Tensor:
        """A [con]'s last state [1, D_t] -> [n, D_t] as in ``ConfuHead.foreseen_states``."""
        normed = self.model.final_norm(hidden)
        return torch.matmul(normed, self._turns)[:, 0] if len(self._turns) else normed


@dataclass(frozen=True, slots=True)
class Future:
    """One contemplate token's output. ``features`` [1, 3*D_t] become f; ``hidden`` [1, D_t] is
    its un-normalised last hidden state; ``router`` [1, E] the weights of the [con] mixture that
    made the token; ``position`` where it stood; source as in ``trace.Contemplation``."""

    features: Tensor
    hidden: Tensor
    router: Tensor
    position: int
    source: Literal["prefill", "node"]
    source_node: int | None


class Contemplator:
    """The newest future prediction of one run, and the one that the next draft uses."""

    def __init__(self, parts: ConfuParts, config: ConfuConfig, seed: int) -> None:
        self._parts, self._config = parts, config
        self._futures: list[Future] = []
        self._random = random.Random(seed)  # for the shuffled control
        self._used: Future | None = None
        self._logit_weights: tuple[float, ...] = ()
        self._future_router: Tensor | None = None
        self._con_router = torch.empty(0)
        self._con_nodes: Sequence[int] | None = ()  # None: the host has not read them yet
        self._con_places = torch.empty(0, dtype=torch.long)

    @property
    def is_on(self) -> bool:
        """False with a budget of 0: then ConFu is EAGLE-3."""
        return self._config.contemplate_budget != 0

    def read_prompt(self, cache: KVCache, last_features: Tensor) -> None:
        """One [con] after the prompt, in a forward of its own: its router reads the features
        [1, 3*D_t] of the last prompt token, which only that token's forward gives [O]."""
        if not self.is_on:
            return
        position = cache.length
        embedding = self._con_embedding(last_features)
        out = self._parts.model.forward(
            cache,
            embeddings=embedding,
            feature_layers=self._parts.layers,
            logits_rows=slice(0, 0),
            **self._soft_prompts(0, 1),
        )
        cache.rollback(position)
        self._add(Future(features_of(out), out.hidden, self._con_router, position, "prefill", None))

    def future_input(self, drafter: Drafter, fused_last: Tensor, root: int) -> FutureInput | None:
        """What the drafter hears of the future in the next draft, whose root will stand at
        position ``root``; ``fused_last`` [1, D]. None: off."""
        if not self.is_on:
            return None
        newest = self._futures[-1]
        self._used = self._choose()
        outlook: tuple[Tensor, ...] = ()
        if self._used is None:
            features = torch.zeros_like(newest.features)
        else:
            features, distance = self._used.features, root - newest.position
            outlook = self._parts.outlook(self._used.hidden, distance)
            self._logit_weights = tuple(self._parts.foresight_weights[distance:])
        uniform = not self._config.mixtures
        embedding, self._future_router = self._parts.future_mixture(fused_last, uniform=uniform)
        return FutureInput(drafter.fuse(features), embedding, newest.position, outlook)

    def verify_forward(
        self, cache: KVCache, tree: TokenTree, last_features: Tensor, budget: int | None = None
    ) -> ForwardOutput:
        """One target forward over N tree rows and M [con] rows, which share one embedding,
        routed from the features [1, 3*D_t] of the token before the root [O]. Logits of the N.
        ``budget``: as in :func:`contemplated_nodes`, and not 0; None: the settings' own."""
        start, num_nodes = cache.length, tree.num_nodes
        model, layers = self._parts.model, self._parts.layers
        if not self.is_on:
            return model.forward(
                cache,
                token_ids=tree.token_ids,
                positions=start + tree.depths,
                mask=verify_mask(tree.ancestors, start),
                feature_layers=layers,
            )
        if budget is None:
            budget = self._config.contemplate_budget
        con_nodes = contemplated_nodes(tree, budget)
        num_con = con_nodes.shape[0]
        self._con_places = con_nodes
        self._con_nodes = range(num_nodes) if num_con == num_nodes else None
        con = self._con_embedding(last_features).expand(num_con, -1)
        depths = torch.cat((tree.depths, tree.depths[con_nodes] + 1))
        return model.forward(
            cache,
            embeddings=torch.cat((model.embed(tree.token_ids), con)),
            positions=start + depths,
            mask=verify_mask(tree.ancestors, start, con_nodes),
            feature_layers=layers,
            logits_rows=slice(0, num_nodes),
            **self._soft_prompts(num_nodes, num_con),
        )

    @property
    def unread_nodes(self) -> Tensor | None:
        """:attr:`con_nodes` as Long[M] while the host does not know them, so that they can travel
        with another copy of the cycle (then :meth:`know` them); else None."""
        return self._con_places if self._con_nodes is None else None

    def know(self, con_nodes: Sequence[int]) -> None:
        """Takes what :attr:`unread_nodes` held."""
        self._con_nodes = con_nodes

    @property
    def con_nodes(self) -> Sequence[int]:
        """The nodes that had a contemplate token in the last verify forward, increasing. Costs a
        copy to the host while they are unread."""
        if self._con_nodes is None:
            self._con_nodes = self._con_places.tolist()
        return self._con_nodes

    @property
    def num_con(self) -> int:
        """Contemplate tokens in the last verify forward."""
        return self._con_places.shape[0]

    def follow(
        self, out: ForwardOutput, parents: Sequence[int], path: Sequence[int], start: int
    ) -> None:
        """The next f: [con]'s output after the last node of ``path`` (root first), or after its
        nearest ancestor that has one. ``start``: the root's position."""
        if not self.is_on:
            return
        node = serving_node(path[-1], parents, self.con_nodes)
        row = len(parents) + self.con_nodes.index(node)
        position = start + path.index(node) + 1
        # Copies: views would keep the whole forward's features alive.
        features, hidden = features_of(out)[row, None].clone(), out.hidden[row, None].clone()
        self._add(Future(features, hidden, self._con_router, position, "node", node))

    def describe(self, tokenizer: Any) -> Contemplation:
        """The record of the last draft. What f foresees [O] is the target's final norm and
        output head on [con]'s hidden state: for display only, so call it off the clock."""
        weights = () if self._future_router is None else tuple(self._future_router[0].tolist())
        used = self._used
        if used is None:
            return Contemplation(
                con_router=(), future_router=weights, source="off", source_node=None, foreseen=()
            )
        return Contemplation(
            con_router=tuple(used.router[0].tolist()),
            future_router=weights,
            source=used.source,
            source_node=used.source_node,
            foreseen=_foreseen(
                self._parts.foreseen_states(used.hidden), self._parts.model, tokenizer
            ),
            logit_weights=self._logit_weights,
        )

    def _add(self, future: Future) -> None:
        """Makes it the newest; only the shuffled control needs the older ones."""
        if self._config.future != "shuffled":
            self._futures.clear()
        self._futures.append(future)

    def _choose(self) -> Future | None:
        """Which f the draft gets; None for a zero f."""
        if self._config.future == "on":
            return self._futures[-1]
        if self._config.future == "shuffled" and len(self._futures) > 1:
            return self._futures[self._random.randrange(len(self._futures) - 1)]
        return None

    def _con_embedding(self, last_features: Tensor) -> Tensor:
        embedding, self._con_router = self._parts.con_mixture(
            last_features, uniform=not self._config.mixtures
        )
        return embedding

    def _soft_prompts(self, num_nodes: int, num_con: int) -> dict[str, Any]:
        """The forward's arguments that show the soft prompts to [con] rows alone."""
        if not self._config.soft_prompts or self._parts.side is None:
            return {}
        rows = torch.arange(num_nodes + num_con, device=self._parts.model.device) >= num_nodes
        return {"side": self._parts.side, "side_rows": rows}


def _foreseen(states: Tensor, model: LeanModel, tokenizer: Any) -> tuple[ForeseenToken, ...]:
    probs = model.lm_head(states[0]).softmax(dim=-1)
    top = probs.topk(min(NUM_FORESEEN, probs.shape[0]))
    return tuple(
        ForeseenToken(token_id=token, text=tokenizer.decode([token]), prob=prob)
        for token, prob in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    )
