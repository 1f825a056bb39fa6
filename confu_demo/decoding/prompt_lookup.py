"""Prompt lookup: the draft is copied from the text itself, no draft model and no training.

The continuation of the most recent earlier occurrence of the longest matching n-gram is drafted
as a chain and verified like any tree (Saxena 2023; "most recent" is our choice). Lossless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from confu_demo.config import DecodeConfig
from confu_demo.decoding.base import BoundModel, Clock, DecodeRequest, Stop, on_clock
from confu_demo.decoding.draft_tree import chain
from confu_demo.decoding.masks import verify_mask
from confu_demo.decoding.run import Run, require_room
from confu_demo.decoding.verification import verify
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.trace import Event


class NgramIndex:
    """Where every n-gram of a growing text was last continued. Adding a token is O(max_ngram)."""

    def __init__(self, max_ngram: int) -> None:
        self._max_ngram = max_ngram
        self._ids: list[int] = []
        self._continued_at: dict[tuple[int, ...], int] = {}
        self._known: dict[tuple[int, ...], int] = {}

    def fork(self) -> NgramIndex:
        """An index that goes on with a text of its own. Cheap: it looks up in this one what it
        has not seen itself, so this one must not grow before the fork is forgotten."""
        fork = NgramIndex(self._max_ngram)
        fork._ids = list(self._ids)
        fork._known = self._continued_at
        return fork

    def __len__(self) -> int:
        return len(self._ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        for token in token_ids:
            place = len(self._ids)
            for size in range(1, min(self._max_ngram, place) + 1):
                self._continued_at[tuple(self._ids[place - size :])] = place
            self._ids.append(token)

    def continuation(self, num_tokens: int) -> list[int]:
        """The ``num_tokens`` tokens that followed the longest suffix seen before, [] if none was.

        A continuation that runs into the end of the text goes on with itself, as if the text
        were periodic from there (our choice; as an overlapping copy of LZ77).
        """
        for size in range(min(self._max_ngram, len(self._ids)), 0, -1):
            ngram = tuple(self._ids[-size:])
            place = self._continued_at.get(ngram) or self._known.get(ngram)
            if place is not None:
                period = len(self._ids) - place
                return [self._ids[place + i % period] for i in range(num_tokens)]
        return []


class PromptLookupDecoder:
    """The target, verifying chains that were copied from the text so far."""

    method = "prompt_lookup"
    lossless = True

    def __init__(self, target: BoundModel) -> None:
        self.target = target

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        """Raises ``ValueError`` at once if prompt and new tokens do not fit the context."""
        require_room(request, config, self.target)
        return on_clock(clock, self._run(request, config, clock, stop))

    def _run(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        run = Run(self.method, (self.target.info,), self.target, request, config, clock)
        model, sampling = self.target.model, config.sampling
        num_drafts = config.lookup.num_draft_tokens
        noise = PositionNoise(sampling.seed, model.config.vocab_size)
        cache = model.new_cache(run.num_prompt + config.max_new_tokens + num_drafts)
        index = NgramIndex(config.lookup.max_ngram)
        try:
            yield run.started()
            with run.prefill:
                prompt = torch.tensor(request.token_ids, device=model.device)
                last = slice(run.num_prompt - 1, run.num_prompt)
                logits = model.forward(cache, token_ids=prompt, logits_rows=last).logits
                tokens = [int(sample(logits, sampling, noise, [run.num_prompt]))]
                index.extend(request.token_ids)
            yield run.prefilled()
            run.cut(tokens)
            yield run.commit(tokens, ("target",))
            while run.reason is None:
                if stop():
                    run.reason = "cancelled"
                    break
                with run.draft:
                    index.extend(tokens)
                    drafted = index.continuation(min(num_drafts, run.num_left - 1))
                    tree = chain([tokens[-1], *drafted], model.device)
                with run.verify:
                    start = cache.length
                    mask = verify_mask(tree.ancestors, start) if drafted else None
                    logits = model.forward(cache, token_ids=tree.token_ids, mask=mask).logits
                    host, answer = verify(tree, logits, sampling, noise, start)
                    tokens = answer.committed(host)
                    num_kept = run.cut(tokens)
                    num_accepted = min(num_kept, len(answer.accepted))
                    cache.rollback(start + 1 + num_accepted)  # a chain's path is its beginning
                run.count_verify(tree.num_nodes)
                yield from run.end_cycle(host, answer, num_kept)
            yield run.finished()
        finally:
            del cache
