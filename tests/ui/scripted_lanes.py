"""Small deterministic events of every kind, without an engine: what the page's tests look at.

The times are made up, which is why this lives in the tests and never on the page. The traces
keep every promise of :mod:`confu_demo.trace_validation` (a test says so).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from confu_demo.trace import (
    SCHEMA_VERSION,
    Author,
    Contemplation,
    DraftProposed,
    DraftTree,
    DraftVerified,
    Event,
    ForeseenToken,
    ModelInfo,
    Origin,
    PrefillFinished,
    Provenance,
    RunFinished,
    RunStarted,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
)
from confu_demo.ui.runner import METHODS, ProblemCard

PROBLEM = ProblemCard(
    text=(
        "Mia buys 4 lamps for 12 dollars each. She buys 6 cups for 3 dollars each. "
        "She pays with 100 dollars. How much money does Mia get back?"
    ),
    answer="34",
    family="shopping",
    steps=4,
)
STEPS = (
    "The lamps cost 4 * 12 = 48 dollars.",
    "For the cups, Mia pays 6 * 3 = 18 dollars.",
    "Together that is 48 + 18 = 66 dollars.",
    "Mia gets back 100 - 66 = 34 dollars.",
    "Answer: 34",
)
WRONG = "16"
"""A draft step with this in it is escalated and rejected."""
OTHER_WORDS = (
    "4 lamps at 12 dollars make 48 dollars.",
    "6 * 3 = 16, so the cups cost 16 dollars.",
    "48 + 18 = 66 dollars in total.",
    STEPS[3],
    "Answer: 34",
)
PREFILL_MS = 5.0
NUM_EXPERTS = 8
DEPTHS = {"confu": 5, "eagle3": 4, "prompt_lookup": 2}
LOSERS = (" the", " so", "7", " cost", " dollars", "5")
_PIECES = re.compile(r" ?[A-Za-z]+|\d|\n\n|\n| ?[^\w\s]|\s|.", re.DOTALL)


def pieces(text: str) -> list[str]:
    """The text as small tokens: words with their space, single digits, signs, breaks."""
    return _PIECES.findall(text)


def token_ids(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(sum(ord(char) * 31**i for i, char in enumerate(text)) % 997 for text in texts)


def started(method: str, prompt: str) -> RunStarted:
    return RunStarted(
        t_ms=0.0,
        schema_version=SCHEMA_VERSION,
        method=method,
        config=(("max_new_tokens", "320"), ("sampling.temperature", "0.0")),
        models=(
            ModelInfo(
                role="target", name="scripted-target", sha256="ab" * 32, num_parameters=7_100_000
            ),
        ),
        prompt_token_ids=token_ids(pieces(prompt)),
        prompt_text=prompt,
        seed=0,
        provenance=Provenance(
            commit="0123abc",
            device="a script, no device",
            dtype="float32",
            threads=1,
            versions=(("python", "3.11"), ("torch", "none")),
            command="pytest",
            created="2026-01-02T03:04:05Z",
        ),
    )


def read(prompt: str) -> PrefillFinished:
    return PrefillFinished(t_ms=PREFILL_MS, num_tokens=len(pieces(prompt)), ms=PREFILL_MS)


def finished(
    t_ms: float, num_tokens: int, *, forwards: int, verified: int, spent: tuple[float, float]
) -> RunFinished:
    draft_ms, verify_ms = spent
    return RunFinished(
        t_ms=t_ms,
        reason="eos",
        message="",
        num_tokens=num_tokens,
        target_forwards=forwards,
        target_tokens=verified,
        draft_forwards=forwards,
        prefill_ms=PREFILL_MS,
        draft_ms=draft_ms,
        verify_ms=verify_ms,
        other_ms=t_ms - PREFILL_MS - draft_ms - verify_ms,
    )


def committed(
    t_ms: float,
    texts: Sequence[str],
    origins: Sequence[Origin],
    *,
    cycle: int | None = None,
    step: int | None = None,
) -> TokensCommitted:
    return TokensCommitted(
        t_ms=t_ms,
        token_ids=token_ids(texts),
        origins=tuple(origins),
        texts=tuple(texts),
        cycle=cycle,
        step=step,
    )


def autoregressive(prompt: str, solution: str) -> Iterator[Event]:
    yield started("autoregressive", prompt)
    yield read(prompt)
    t_ms, words = PREFILL_MS, pieces(solution)
    for word in words:
        t_ms += 5.0
        yield committed(t_ms, [word], ["target"])
    count = len(words)
    yield finished(t_ms, count, forwards=count, verified=count, spent=(0.0, t_ms - PREFILL_MS))


class TokenLane:
    """eagle3, confu or prompt_lookup: cycles of a tree, its verification and the commit."""

    def __init__(self, method: str, prompt: str, solution: str, seed: int) -> None:
        self.method, self.prompt, self.words = method, prompt, pieces(solution)
        self.rng = random.Random(seed)
        self.t_ms, self.place, self.cycle, self.verified = PREFILL_MS, 0, 0, 0
        self.spent = [0.0, 0.0]
        self.last_node: int | None = None

    def events(self) -> Iterator[Event]:
        yield started(self.method, self.prompt)
        yield read(self.prompt)
        while self.place < len(self.words):
            yield from self._cycle()
        yield finished(
            self.t_ms,
            len(self.words),
            forwards=self.cycle,
            verified=self.verified,
            spent=(self.spent[0], self.spent[1]),
        )

    def _cycle(self) -> Iterator[Event]:
        depth = min(DEPTHS[self.method], len(self.words) - self.place - 1)
        right = self.rng.randint(0 if self.method == "prompt_lookup" else 1, max(depth, 1))
        right = min(right, depth)
        tree, path = self._tree(right, depth)
        size = len(tree.texts)
        contemplates = size if self.method == "confu" else 0
        self._spend(0, 3.0)
        yield DraftProposed(
            t_ms=self.t_ms, cycle=self.cycle, tree=tree, ms=3.0, contemplation=self._thought()
        )
        self._spend(1, 6.5 if contemplates else 5.5)
        own = self.words[self.place + right]
        origin: Literal["recovered", "bonus"] = "bonus" if right == depth else "recovered"
        yield DraftVerified(
            t_ms=self.t_ms,
            cycle=self.cycle,
            accepted=path,
            target_probs=tuple(self._target_prob(i, path) for i in range(size)),
            token_id=token_ids([own])[0],
            token_text=own,
            token_origin=origin,
            num_target_tokens=size + contemplates,
            num_contemplate_tokens=contemplates,
            ms=6.5 if contemplates else 5.5,
            contemplated_nodes=tuple(range(contemplates)),
        )
        self.t_ms += 0.25
        texts = [*self.words[self.place : self.place + right], own]
        yield committed(self.t_ms, texts, [*(["draft"] * right), origin], cycle=self.cycle)  # type: ignore[list-item]
        self.verified += size + contemplates
        self.last_node = path[-1] if path else 0
        self.place += right + 1
        self.cycle += 1

    def _spend(self, part: int, ms: float) -> None:
        self.t_ms += ms
        self.spent[part] += ms

    def _target_prob(self, node: int, path: Sequence[int]) -> float:
        if node == 0:
            return 1.0
        return self.rng.uniform(0.8, 1.0) if node in path else self.rng.uniform(0.0, 0.15)

    def _tree(self, right: int, depth: int) -> tuple[DraftTree, tuple[int, ...]]:
        """A chain, right for ``right`` tokens, with losing siblings; and its accepted nodes."""
        chain = self.words[self.place : self.place + right] + [" wrong"] * (depth - right)
        texts = [self.words[self.place - 1] if self.place else "\n"]
        parents, log_probs, tips = [-1], [0.0], [0]
        for depth_here, word in enumerate(chain):
            true = self.words[self.place + depth_here]  # no loser may be right by accident
            losers = [text for text in self.rng.sample(LOSERS, 2) if text not in (true, word)]
            if self.method == "prompt_lookup" or self.rng.random() < 0.4:
                losers = []
            for text, low, high in [*((loser, 0.02, 0.2) for loser in losers), (word, 0.45, 0.75)]:
                texts.append(text)
                parents.append(tips[-1])
                log_probs.append(math.log(self.rng.uniform(low, high)))
            tips.append(len(texts) - 1)
        tree = DraftTree(
            token_ids=token_ids(texts),
            parents=tuple(parents),
            log_probs=tuple(log_probs),
            texts=tuple(texts),
        )
        return tree, tuple(tips[1 : right + 1])

    def _thought(self) -> Contemplation | None:
        if self.method != "confu":
            return None
        ahead = [*self.words[self.place + 2 : self.place + 5], " lamps"]
        return Contemplation(
            con_router=self._mixture(self.cycle // 3),
            future_router=self._mixture(self.cycle // 2 + 3),
            source="prefill" if self.last_node is None else "node",
            source_node=self.last_node,
            foreseen=tuple(
                ForeseenToken(token_id=token_ids([text])[0], text=text, prob=0.4 / (i + 1))
                for i, text in enumerate(ahead)
            ),
        )

    def _mixture(self, favourite: int) -> tuple[float, ...]:
        weights = [0.0] * NUM_EXPERTS
        share = self.rng.uniform(0.5, 0.9)
        weights[favourite % NUM_EXPERTS] = share
        weights[(favourite + self.rng.randint(1, NUM_EXPERTS - 1)) % NUM_EXPERTS] = 1.0 - share
        return tuple(weights)


class StepLane:
    """confspec: rounds of k draft steps; one with :data:`WRONG` is escalated and rejected."""

    def __init__(
        self, prompt: str, steps: Sequence[str], others: Sequence[str], k: int = 2
    ) -> None:
        ends = ["\n\n"] * (len(steps) - 1) + [""]
        self.prompt, self.k = prompt, k
        self.own = [pieces(text + end) for text, end in zip(steps, ends, strict=True)]
        self.drafts = [pieces(text + end) for text, end in zip(others, ends, strict=True)]
        self.t_ms, self.place, self.tokens = PREFILL_MS, 0, 0
        self.spent = [0.0, 0.0]

    def events(self) -> Iterator[Event]:
        yield started("confspec", self.prompt)
        yield read(self.prompt)
        while self.place < len(self.own):
            yield from self._round()
        yield finished(
            self.t_ms,
            self.tokens,
            forwards=40,
            verified=self.tokens + 60,
            spent=(self.spent[0], self.spent[1]),
        )

    def _round(self) -> Iterator[Event]:
        ahead = range(self.place, min(self.place + self.k, len(self.own)))
        for i in ahead:
            yield self._written(i, "draft", self.drafts[i], 12.0)
        for i in range(self.place, min(self.place + self.k + 1, len(self.own))):
            yield self._written(i, "target", self.own[i], 14.0)
        wrong = [i for i in ahead if WRONG in "".join(self.drafts[i])]
        for i in ahead:
            yield self._gated(i, i in wrong)
        for i in wrong:
            self._spend(1, 9.0)
            yield StepJudged(
                t_ms=self.t_ms, step=i, verdict="different", confidence=0.97, audit=False, ms=9.0
            )
        stop = wrong[0] if wrong else ahead.stop
        for i in range(self.place, stop):
            yield from self._kept(i, "draft", bonus=False)
        if stop < len(self.own):
            yield from self._kept(stop, "target", bonus=not wrong)
        self.place = stop + 1

    def _spend(self, part: int, ms: float) -> None:
        self.t_ms += ms
        self.spent[part] += ms

    def _written(self, step: int, author: Author, words: Sequence[str], ms: float) -> StepDrafted:
        self._spend(author == "target", ms)
        return StepDrafted(
            t_ms=self.t_ms,
            step=step,
            author=author,
            text="".join(words).strip(),
            token_ids=token_ids(words),
            complete=True,
            ms=ms,
        )

    def _gated(self, step: int, wrong: bool) -> StepGated:
        exact = self.own[step] == self.drafts[step]
        ms = 0.0 if exact else 3.0
        self._spend(0, ms)
        return StepGated(
            t_ms=self.t_ms,
            step=step,
            verdict="different" if wrong else "same",
            confidence=1.0 if exact else 0.71 if wrong else 0.93 + 0.02 * (step % 3),
            verdict_mass=None if exact else 0.98,
            threshold=0.9,
            decision="escalate" if wrong else "accept",
            exact_match=exact,
            ms=ms,
        )

    def _kept(self, step: int, kept: Author, *, bonus: bool) -> Iterator[Event]:
        texts = {"draft": self.drafts[step], "target": self.own[step]}
        other = "".join(texts["draft" if kept == "target" else "target"]).strip()
        yield StepResolved(
            t_ms=self.t_ms,
            step=step,
            kept=kept,
            text="".join(texts[kept]).strip(),
            other_text=None if bonus else other,
            bonus=bonus,
        )
        words = texts[kept]
        self.tokens += len(words)
        yield committed(self.t_ms, words, [kept] * len(words), step=step)


def scripted_lanes(
    prompt: str = PROBLEM.text,
    steps: Sequence[str] = STEPS,
    others: Sequence[str] = OTHER_WORDS,
    methods: Sequence[str] = METHODS,
) -> dict[str, tuple[Event, ...]]:
    """All events of every lane; the lossless lanes end with the same text."""
    solution = "\n\n".join(steps)
    makers: dict[str, Callable[[], Iterator[Event]]] = {
        "autoregressive": lambda: autoregressive(prompt, solution),
        "prompt_lookup": TokenLane("prompt_lookup", prompt, solution, 1).events,
        "eagle3": TokenLane("eagle3", prompt, solution, 2).events,
        "confu": TokenLane("confu", prompt, solution, 3).events,
        "confspec": StepLane(prompt, steps, others).events,
    }
    return {method: tuple(makers[method]()) for method in methods}
