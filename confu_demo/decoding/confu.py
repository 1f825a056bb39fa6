"""ConFu: EAGLE-3 whose drafter also reads what the target is about to say.

arXiv 2603.08899. In every verify forward each tree node is followed by a contemplate token [con]
that only sees its own path and the soft prompts [P]; the output of the [con] after the last
accepted node becomes the future prediction f, one extra key/value column of the drafter during
the next draft [P]. Tree rows never see [con] or soft prompts, so the target's rows, and with them
the output, are EAGLE-3's and plain decoding's: lossless [P].

[O], our choices where the paper's text is silent: the prompt's [con] is a forward of its own after
the prompt, because its router reads the last prompt token's features; all [con] of one verify
forward share the embedding routed from the last token accepted before it; ``contemplate_budget``,
``future``, ``soft_prompts`` and ``mixtures`` are controls. What f foresees is computed for display
from [con]'s hidden state while the run's clock stands still.
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
    off_clock,
    on_clock,
)
from confu_demo.decoding.contemplation import ConfuParts, Contemplator
from confu_demo.decoding.cycle_costs import cycle_costs
from confu_demo.decoding.drafting import Drafter, FutureInput
from confu_demo.decoding.growth import Growth
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.decoding.run import Run, require_room
from confu_demo.decoding.tree_plan import FUTURE_WORTH, CycleCosts
from confu_demo.decoding.verification import kept_rows, verify
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.heads.confu import ConfuHead
from confu_demo.trace import Event, ModelInfo


class ConfuDecoder:
    """A target and its ConFu head."""

    method = "confu"
    lossless = True

    def __init__(
        self,
        target: BoundModel,
        head: ConfuHead,
        head_info: ModelInfo | None = None,
        costs: CycleCosts | None = None,
    ) -> None:
        """``costs`` as in :class:`~confu_demo.decoding.eagle3.Eagle3Decoder`."""
        self.target = target
        self._costs = costs
        self.head_info = head_info or head_model_info(head, self.method)
        self._head = PackedHead(head.eagle, target.model)
        worth = head.config.future_worth
        self._future_worth = FUTURE_WORTH if worth is None else worth
        self._parts = ConfuParts(head, target.model, self._head.target_ids)

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        """Raises ``ValueError`` at once if prompt and new tokens do not fit the context."""
        require_room(request, config, self.target)
        return on_clock(clock, self._run(request, config, clock, stop, self._growth(config)))

    def _growth(self, config: DecodeConfig) -> Growth:
        budget, may_look = config.confu.contemplate_budget, self.target.model.device.type == "cpu"
        return make_growth(
            config, budget, self._cycle_costs, may_look=may_look, future_worth=self._future_worth
        )

    def _cycle_costs(self) -> CycleCosts:
        if self._costs is None:
            parts, like = self._parts, self._head.like

            def future() -> FutureInput:
                nothing = like.new_zeros(1, self._head.config.hidden_size)
                features = like.new_zeros(1, self._head.config.feature_size)
                outlook = parts.outlook(nothing, 0)
                return FutureInput(self._head.fuse(features), nothing, 0, outlook)

            bias = parts.future_bias
            self._costs = cycle_costs(self.target, self._head, self.head_info, bias, future)
        return self._costs

    def _new_drafter(
        self, capacity: int, tree: TreeConfig, growth: Growth, has_future: bool
    ) -> Drafter:
        bias = self._parts.future_bias if has_future else None
        return Drafter(self._head, capacity, tree, bias, growth)

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
        model, sampling, layers = self.target.model, config.sampling, self._parts.layers
        noise = PositionNoise(sampling.seed, model.config.vocab_size)
        capacity = run.num_prompt + config.max_new_tokens
        cache = model.new_cache(capacity + 2 * config.tree.num_nodes)
        contemplator = Contemplator(self._parts, config.confu, sampling.seed)
        drafter = self._new_drafter(capacity, config.tree, growth, contemplator.is_on)
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
                contemplator.read_prompt(cache, features)
                tokens = [int(new_ids)]
            yield run.prefilled()
            run.cut(tokens)
            yield run.commit(tokens, ("target",))
            while run.reason is None:
                if stop():
                    run.reason = "cancelled"
                    break
                with run.draft:
                    fused = drafter.fuse(features)
                    future = contemplator.future_input(drafter, fused[-1:], cache.length)
                    tree = drafter.propose(new_ids, fused, run.num_left - 1, future)
                with run.verify:
                    start = cache.length
                    num_con = growth.num_con(tree)
                    out = contemplator.verify_forward(cache, tree, features[-1:], num_con)
                    unread = contemplator.unread_nodes
                    host, answer = verify(tree, out.logits, sampling, noise, start, unread)
                    if unread is not None:
                        contemplator.know(host.contemplated)
                    tokens = answer.committed(host)
                    num_kept = run.cut(tokens)
                    rows = kept_rows(answer, num_kept, model.device)
                    cache.keep(start, rows)  # drops rejected nodes and every [con]
                    new_ids = torch.tensor(tokens, device=model.device)
                    features = features_of(out)[rows]
                    contemplator.follow(out, host.parents, (0, *answer.accepted), start)
                run.count_verify(tree.num_nodes + contemplator.num_con)
                run.draft_forwards = drafter.num_forwards
                with off_clock(clock):
                    contemplation = contemplator.describe(self.target.tokenizer)
                plan = growth.learn(host, answer.accepted)
                yield from run.end_cycle(
                    host, answer, num_kept, contemplator.con_nodes, contemplation, plan
                )
            yield run.finished()
        finally:
            del cache, drafter, contemplator
