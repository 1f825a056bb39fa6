"""EAGLE-3: a one-layer head on target features drafts a tree, the target verifies it at once.

The cycle is EAGLE-3's [E] (arXiv 2503.01840, public code): draft below the last committed token,
verify every node in one target forward, keep the accepted path, rebuild the drafter's rows of
accepted tokens from the target's features. Lossless at every temperature.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from confu_demo.config import DecodeConfig, TreeConfig
from confu_demo.decoding.auto_growth import make_growth
from confu_demo.decoding.base import (
    BoundModel,
    Clock,
    DecodeRequest,
    Stop,
    features_of,
    head_model_info,
    on_clock,
)
from confu_demo.decoding.cycle_costs import cycle_costs
from confu_demo.decoding.drafting import Drafter
from confu_demo.decoding.growth import Growth
from confu_demo.decoding.masks import verify_mask
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.decoding.run import Run, require_room
from confu_demo.decoding.tree_plan import CycleCosts
from confu_demo.decoding.verification import kept_rows, verify
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.heads.eagle import EagleHead
from confu_demo.trace import Event, ModelInfo


class Eagle3Decoder:
    """A target and its EAGLE-3 head."""

    method = "eagle3"
    lossless = True

    def __init__(
        self,
        target: BoundModel,
        head: EagleHead,
        head_info: ModelInfo | None = None,
        costs: CycleCosts | None = None,
    ) -> None:
        """``costs``: what a cycle costs; None: measured where a run leaves the tree to the
        machine, before its clock runs."""
        self.target = target
        self._costs = costs
        self.head_info = head_info or head_model_info(head, self.method)
        self._layers = head.config.feature_layers
        self._head = PackedHead(head, target.model)

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        """Raises ``ValueError`` at once if prompt and new tokens do not fit the context."""
        require_room(request, config, self.target)
        return on_clock(clock, self._run(request, config, clock, stop, self._growth(config)))

    def _growth(self, config: DecodeConfig) -> Growth:
        may_look = self.target.model.device.type == "cpu"
        return make_growth(config, 0, self._cycle_costs, may_look=may_look)

    def _cycle_costs(self) -> CycleCosts:
        if self._costs is None:
            self._costs = cycle_costs(self.target, self._head, self.head_info)
        return self._costs

    def _new_drafter(self, capacity: int, tree: TreeConfig, growth: Growth) -> Drafter:
        return Drafter(self._head, capacity, tree, growth=growth)

    def _run(
        self,
        request: DecodeRequest,
        config: DecodeConfig,
        clock: Clock,
        stop: Stop,
        growth: Growth,
    ) -> Iterator[Event]:
        models = (self.target.info, self.head_info)
        run = Run(self.method, models, self.target, request, config, clock)
        model, sampling, layers = self.target.model, config.sampling, self._layers
        noise = PositionNoise(sampling.seed, model.config.vocab_size)
        capacity = run.num_prompt + config.max_new_tokens
        cache = model.new_cache(capacity + config.tree.num_nodes)
        drafter = self._new_drafter(capacity, config.tree, growth)
        try:
            yield run.started(growth.costs)
            with run.prefill:
                prompt = torch.tensor(request.token_ids, device=model.device)
                last = slice(run.num_prompt - 1, run.num_prompt)
                out = model.forward(
                    cache, token_ids=prompt, feature_layers=layers, logits_rows=last
                )
                new_ids = sample(out.logits, sampling, noise, [run.num_prompt])
                drafter.absorb(prompt[1:], features_of(out)[:-1])
                features = features_of(out)[-1:]  # of the tokens before each of new_ids
                tokens = [int(new_ids)]
            yield run.prefilled()
            run.cut(tokens)
            yield run.commit(tokens, ("target",))
            while run.reason is None:
                if stop():
                    run.reason = "cancelled"
                    break
                with run.draft:
                    tree = drafter.propose(new_ids, drafter.fuse(features), run.num_left - 1)
                with run.verify:
                    start = cache.length
                    out = model.forward(
                        cache,
                        token_ids=tree.token_ids,
                        positions=start + tree.depths,
                        mask=verify_mask(tree.ancestors, start),
                        feature_layers=layers,
                    )
                    host, answer = verify(tree, out.logits, sampling, noise, start)
                    tokens = answer.committed(host)
                    num_kept = run.cut(tokens)
                    rows = kept_rows(answer, num_kept, model.device)
                    cache.keep(start, rows)
                    new_ids = torch.tensor(tokens, device=model.device)
                    features = features_of(out)[rows]
                run.count_verify(tree.num_nodes)
                run.draft_forwards = drafter.num_forwards
                plan = growth.learn(host, answer.accepted)
                yield from run.end_cycle(host, answer, num_kept, plan=plan)
            yield run.finished()
        finally:
            del cache, drafter
