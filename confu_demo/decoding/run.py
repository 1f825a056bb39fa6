"""The bookkeeping of one run that all token decoders share: output, counts, times, events.

Owns the rule of what is committed: a cycle's tokens are cut at the first end-of-text token and at
the length limit *before* anything is counted or cached. Owns the stopwatches; whatever is not
prefill, draft or verification is "other", building events included. Knows no cache, no tree
algorithm and no method.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from confu_demo.config import DecodeConfig, flatten
from confu_demo.decoding.base import BoundModel, Clock, DecodeRequest
from confu_demo.decoding.verification import HostTree, Verification
from confu_demo.trace import (
    SCHEMA_VERSION,
    Contemplation,
    DraftPlan,
    DraftProposed,
    DraftTree,
    DraftVerified,
    Event,
    FinishReason,
    MeasuredCosts,
    ModelInfo,
    Origin,
    PrefillFinished,
    RunFinished,
    RunStarted,
    TokensCommitted,
)


class Stopwatch:
    """Adds up the milliseconds spent inside ``with`` blocks on a run's clock."""

    __slots__ = ("_clock", "_since", "ended_ms", "last_ms", "total_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = 0.0
        self.ended_ms = self.last_ms = self.total_ms = 0.0

    def __enter__(self) -> None:
        self._since = self._clock.now()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended_ms = self._clock.now()
        self.last_ms = self.ended_ms - self._since
        self.total_ms += self.last_ms


def require_room(request: DecodeRequest, config: DecodeConfig, target: BoundModel) -> None:
    """Raises ``ValueError`` unless prompt and new tokens fit the target's context.

    No draft position lies beyond the last allowed token (drafts are never deeper than what may
    still be committed), so this one rule serves every method.
    """
    num_prompt, limit = len(request.token_ids), target.model.config.max_positions
    if num_prompt == 0:
        raise ValueError("the prompt is empty; it needs at least one token")
    if num_prompt + config.max_new_tokens > limit:
        raise ValueError(
            f"the prompt ({num_prompt} tokens) and {config.max_new_tokens} new tokens do not fit "
            f"the context of {limit} tokens; shorten the prompt or allow fewer new tokens"
        )


class Run:
    """State of one run. ``ids`` is the prompt and everything committed; ``reason`` is None until
    the run is over."""

    def __init__(
        self,
        method: str,
        models: tuple[ModelInfo, ...],
        target: BoundModel,
        request: DecodeRequest,
        config: DecodeConfig,
        clock: Clock,
    ) -> None:
        self.method, self.models, self.target = method, models, target
        self.request, self.config, self.clock = request, config, clock
        self.ids = list(request.token_ids)
        self.num_prompt = len(self.ids)
        self.cycle = 0
        self.reason: FinishReason | None = None
        self.target_forwards = self.target_tokens = self.draft_forwards = 0
        self.prefill, self.draft, self.verify = (Stopwatch(clock) for _ in range(3))
        self._texts_after = target.detokenizer.texts_after

    @property
    def num_new(self) -> int:
        return len(self.ids) - self.num_prompt

    @property
    def num_left(self) -> int:
        """How many tokens may still be committed."""
        return self.config.max_new_tokens - self.num_new

    def started(self, costs: MeasuredCosts | None = None) -> RunStarted:
        return RunStarted(
            t_ms=self.clock.now(),
            schema_version=SCHEMA_VERSION,
            method=self.method,
            config=flatten(self.config),
            models=self.models,
            prompt_token_ids=self.request.token_ids,
            prompt_text=self.request.text,
            seed=self.config.sampling.seed,
            costs=costs,
        )

    def prefilled(self) -> PrefillFinished:
        return PrefillFinished(
            t_ms=self.prefill.ended_ms, num_tokens=self.num_prompt, ms=self.prefill.total_ms
        )

    def cut(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens may be committed; sets ``reason`` when the run ends with
        them. An end-of-text token that is also the last allowed one ends the run as ``eos``."""
        for index, token in enumerate(token_ids[: self.num_left]):
            if token in self.target.eos_ids:
                self.reason = "eos"
                return index + 1
        if len(token_ids) >= self.num_left:
            self.reason = "length"
            return self.num_left
        return len(token_ids)

    def commit(
        self,
        token_ids: Sequence[int],
        origins: Sequence[Origin],
        cycle: int | None = None,
        texts: tuple[str, ...] | None = None,
    ) -> TokensCommitted:
        """Grows the output by tokens that :meth:`cut` allowed; ``texts``: theirs, if known."""
        if texts is None:
            texts = self._texts_after(self.ids, token_ids)
        self.ids.extend(token_ids)
        return TokensCommitted(
            t_ms=self.clock.now(),
            token_ids=tuple(token_ids),
            origins=tuple(origins),
            texts=texts,
            cycle=cycle,
        )

    def count_verify(self, num_tokens: int) -> None:
        """One target forward over ``num_tokens`` tokens (prefill is not counted)."""
        self.target_forwards += 1
        self.target_tokens += num_tokens

    def end_cycle(
        self,
        tree: HostTree,
        answer: Verification,
        num_kept: int,
        contemplated_nodes: Sequence[int] = (),
        contemplation: Contemplation | None = None,
        plan: DraftPlan | None = None,
    ) -> tuple[Event, ...]:
        """The events of the cycle that was just timed; commits its first ``num_kept`` tokens."""
        tokens = answer.committed(tree)
        texts = self._texts_after(self.ids, tokens)
        draft: Origin = "draft"
        origins = [draft] * len(answer.accepted) + [answer.origin]
        proposed = DraftProposed(
            t_ms=self.draft.ended_ms,
            cycle=self.cycle,
            tree=DraftTree(
                token_ids=tree.token_ids,
                parents=tree.parents,
                log_probs=tree.log_probs,
                texts=self._tree_texts(tree, dict(zip(answer.accepted, texts, strict=False))),
            ),
            ms=self.draft.last_ms,
            contemplation=contemplation,
            plan=plan,
        )
        verified = DraftVerified(
            t_ms=self.verify.ended_ms,
            cycle=self.cycle,
            accepted=answer.accepted,
            target_probs=answer.target_probs,
            token_id=answer.token_id,
            token_text=texts[-1],
            token_origin=answer.origin,
            num_target_tokens=len(tree.token_ids) + len(contemplated_nodes),
            num_contemplate_tokens=len(contemplated_nodes),
            ms=self.verify.last_ms,
            contemplated_nodes=tuple(contemplated_nodes),
        )
        kept = slice(num_kept)
        committed = self.commit(tokens[kept], origins[kept], self.cycle, texts[kept])
        self.cycle += 1
        return proposed, verified, committed

    def finished(self) -> RunFinished:
        total = self.clock.now()
        timed = self.prefill.total_ms + self.draft.total_ms + self.verify.total_ms
        return RunFinished(
            t_ms=total,
            reason=self.reason or "cancelled",
            message="",
            num_tokens=self.num_new,
            target_forwards=self.target_forwards,
            target_tokens=self.target_tokens,
            draft_forwards=self.draft_forwards,
            prefill_ms=self.prefill.total_ms,
            draft_ms=self.draft.total_ms,
            verify_ms=self.verify.total_ms,
            other_ms=total - timed,
        )

    def _tree_texts(self, tree: HostTree, known: dict[int, str]) -> tuple[str, ...]:
        """Text that every node adds after its parent's path; ``known`` nodes have theirs."""
        paths: list[list[int]] = [self.ids]
        texts = [self._texts_after(self.ids[:-1], self.ids[-1:])[0]]
        for node in range(1, len(tree.token_ids)):
            path, token = paths[tree.parents[node]], tree.token_ids[node]
            text = known.get(node)
            texts.append(self._texts_after(path, (token,))[0] if text is None else text)
            paths.append([*path, token])
        return tuple(texts)
