"""A race without an engine: small deterministic events of every kind, and a runner that plays them.

The times are made up, which is why this lives in the tests and never on the page.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence

from confu_demo.trace import (
    SCHEMA_VERSION,
    Contemplation,
    DraftProposed,
    DraftTree,
    DraftVerified,
    Event,
    ForeseenToken,
    ModelInfo,
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
from confu_demo.ui.runner import METHODS, ProblemCard, RaceRequest

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
    "Mia gets back 100 - 66 = 34 dollars.\n\nAnswer: 34",
)
OTHER_WORDS = (
    "4 lamps at 12 dollars make 48 dollars.",
    "6 * 3 = 16, so the cups cost 16 dollars.",
    "48 + 18 = 66 dollars in total.",
    "The change is 100 - 66 = 34.\n\nAnswer: 34",
)
_PIECES = re.compile(r" ?[A-Za-z]+|\d|\n\n|\n| ?[^\w\s]|\s|.", re.DOTALL)


def pieces(text: str) -> list[str]:
    """The text as small tokens: words with their space, single digits, signs, breaks."""
    return _PIECES.findall(text)


def token_id(piece: str) -> int:
    return sum(ord(c) * 31**i for i, c in enumerate(piece)) % 997


def started(method: str, prompt: str) -> RunStarted:
    return RunStarted(
        t_ms=0.0,
        schema_version=SCHEMA_VERSION,
        method=method,
        config=(("max_new_tokens", "320"), ("sampling.temperature", "0.0")),
        models=(
            ModelInfo(role="target", name="scripted-target", sha256="ab" * 32, num_parameters=7_100_000),
        ),
        prompt_token_ids=tuple(token_id(p) for p in pieces(prompt)),
        prompt_text=prompt,
        seed=0,
        provenance=Provenance(
            commit="0123abc",
            device="scripted, no device",
            dtype="float32",
            threads=1,
            versions=(("python", "3.11"), ("torch", "none")),
            command="pytest",
            created="2026-01-02T03:04:05Z",
        ),
    )


def finished(t: float, tokens: int, target: int, draft: int) -> RunFinished:
    return RunFinished(
        t_ms=t,
        reason="eos",
        message="",
        num_tokens=tokens,
        target_forwards=target,
        target_tokens=target,
        draft_forwards=draft,
        prefill_ms=5.0,
        draft_ms=0.0,
        verify_ms=t - 5.0,
        other_ms=0.0,
    )


def autoregressive(prompt: str, solution: str) -> Iterator[Event]:
    yield started("autoregressive", prompt)
    yield PrefillFinished(t_ms=5.0, num_tokens=40, ms=5.0)
    t, words = 5.0, pieces(solution)
    for piece in words:
        t += 5.0
        yield TokensCommitted(
            t_ms=t, token_ids=(token_id(piece),), origins=("target",), texts=(piece,)
        )
    yield finished(t, len(words), len(words), 0)


def _tree(rng: random.Random, path: list[str], root: str, wide: bool) -> DraftTree:
    """A chain of the true tokens with losing siblings at some depths."""
    texts, parents, probs, tip = [root], [-1], [0.0], 0
    for piece in path:
        if wide and rng.random() < 0.6:
            for other in rng.sample([" the", " so", "7", " cost", " dollars", "5"], 2):
                texts.append(other)
                parents.append(tip)
                probs.append(math.log(rng.uniform(0.02, 0.3)))
        texts.append(piece)
        parents.append(tip)
        probs.append(math.log(rng.uniform(0.45, 0.98)))
        tip = len(texts) - 1
    return DraftTree(
        token_ids=tuple(token_id(p) for p in texts),
        parents=tuple(parents),
        log_probs=tuple(probs),
        texts=tuple(texts),
    )


def _mixture(rng: random.Random, favourite: int) -> tuple[float, ...]:
    weights = [0.0] * 8
    for expert in (favourite % 8, (favourite + rng.randint(1, 7)) % 8):
        weights[expert] += rng.uniform(0.2, 1.0)
    total = sum(weights)
    return tuple(w / total for w in weights)


def token_level(method: str, prompt: str, solution: str, seed: int) -> Iterator[Event]:
    """eagle3, confu or prompt_lookup: cycles of a tree, its verification and the commit."""
    rng, words = random.Random(seed), pieces(solution)
    best = {"confu": 5, "eagle3": 4, "prompt_lookup": 2}[method]
    yield started(method, prompt)
    yield PrefillFinished(t_ms=6.0, num_tokens=40, ms=6.0)
    t, place, cycle, source = 6.0, 0, 0, None
    while place < len(words):
        depth = min(best, len(words) - place - 1)
        right = rng.randint(0 if method == "prompt_lookup" else 1, max(depth, 1)) if depth else 0
        right = min(right, depth)
        drafted = words[place : place + right] + [" wrong"] * (depth - right)
        root = words[place - 1] if place else "\n"
        tree = _tree(rng, drafted, root, method != "prompt_lookup")
        size = len(tree.texts)
        path = [i for i in _chain(tree)][1 : right + 1]
        contemplation = None
        if method == "confu":
            contemplation = Contemplation(
                con_router=_mixture(rng, cycle // 3),
                future_router=_mixture(rng, cycle // 2 + 3),
                source="prefill" if cycle == 0 else "node",
                source_node=source,
                foreseen=tuple(
                    ForeseenToken(token_id=token_id(p), text=p, prob=0.5 / (i + 1))
                    for i, p in enumerate(words[place + 2 : place + 5] + [" lamps"])
                ),
            )
        t += 1.6 if method == "prompt_lookup" else 4.0
        yield DraftProposed(t_ms=t, cycle=cycle, tree=tree, ms=3.0, contemplation=contemplation)
        t += 7.0 if method == "confu" else 6.0
        own = words[place + right]
        whole = right == depth
        yield DraftVerified(
            t_ms=t,
            cycle=cycle,
            accepted=tuple(path),
            target_probs=tuple(
                1.0 if i == 0 else (rng.uniform(0.8, 1.0) if i in path else rng.uniform(0.0, 0.15))
                for i in range(size)
            ),
            token_id=token_id(own),
            token_text=own,
            token_origin="bonus" if whole else "recovered",
            num_target_tokens=size * (2 if method == "confu" else 1),
            num_contemplate_tokens=size if method == "confu" else 0,
            ms=5.5,
        )
        texts = words[place : place + right] + [own]
        t += 0.3
        yield TokensCommitted(
            t_ms=t,
            token_ids=tuple(token_id(p) for p in texts),
            origins=("draft",) * right + ("bonus" if whole else "recovered",),  # type: ignore[arg-type]
            texts=tuple(texts),
            cycle=cycle,
        )
        source = path[-1] if path else 0
        place += right + 1
        cycle += 1
    yield finished(t, len(words), cycle, cycle * 4)


def _chain(tree: DraftTree) -> list[int]:
    """Indices of the path to the last node: the chain that :func:`_tree` grew."""
    path, node = [], len(tree.parents) - 1
    while node >= 0:
        path.append(node)
        node = tree.parents[node]
    return path[::-1]


def confspec(prompt: str, steps: Sequence[str], others: Sequence[str], k: int = 2) -> Iterator[Event]:
    """Draft steps in other words; the second has a wrong product and is escalated and rejected."""
    yield started("confspec", prompt)
    yield PrefillFinished(t_ms=6.0, num_tokens=40, ms=6.0)
    t, place, tokens = 6.0, 0, 0
    while place < len(steps):
        ahead = list(range(place, min(place + k, len(steps))))
        for i in ahead:
            t += 12.0
            yield _step(t, i, "draft", others[i])
        for i in range(place, min(place + k + 1, len(steps))):
            t += 18.0
            yield _step(t, i, "target", steps[i])
        advance = 0
        for i in ahead:
            wrong = "16" in others[i]
            t += 3.0
            yield StepGated(
                t_ms=t, step=i, verdict="different" if wrong else "same",
                confidence=0.71 if wrong else 0.93 + 0.02 * (i % 3), verdict_mass=0.98,
                threshold=0.9, decision="escalate" if wrong else "accept", exact_match=False, ms=3.0,
            )  # fmt: skip
            if wrong:
                t += 9.0
                yield StepJudged(
                    t_ms=t, step=i, verdict="different", confidence=0.97, audit=False, ms=9.0
                )
            kept = "target" if wrong else "draft"
            text, other = (steps[i], others[i]) if wrong else (others[i], steps[i])
            yield StepResolved(t_ms=t, step=i, kept=kept, text=text, other_text=other, bonus=False)  # type: ignore[arg-type]
            committed = pieces(text + ("" if i == len(steps) - 1 else "\n\n"))
            yield _commit_step(t, i, committed, kept)
            tokens, advance = tokens + len(committed), advance + 1
            if wrong:
                break
        place += advance
        if advance == len(ahead) == k and place < len(steps) and not wrong:
            yield StepResolved(
                t_ms=t, step=place, kept="target", text=steps[place], other_text=None, bonus=True
            )
            committed = pieces(steps[place] + ("" if place == len(steps) - 1 else "\n\n"))
            yield _commit_step(t, place, committed, "target")
            tokens, place = tokens + len(committed), place + 1
    yield finished(t, tokens, 40, 60)


def _step(t: float, step: int, author: str, text: str) -> StepDrafted:
    return StepDrafted(
        t_ms=t, step=step, author=author, text=text,  # type: ignore[arg-type]
        token_ids=tuple(token_id(p) for p in pieces(text)), complete=True, ms=10.0,
    )  # fmt: skip


def _commit_step(t: float, step: int, texts: list[str], origin: str) -> TokensCommitted:
    return TokensCommitted(
        t_ms=t,
        token_ids=tuple(token_id(p) for p in texts),
        origins=(origin,) * len(texts),  # type: ignore[arg-type]
        texts=tuple(texts),
        step=step,
    )


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
        "prompt_lookup": lambda: token_level("prompt_lookup", prompt, solution, 1),
        "eagle3": lambda: token_level("eagle3", prompt, solution, 2),
        "confu": lambda: token_level("confu", prompt, solution, 3),
        "confspec": lambda: confspec(prompt, steps, others),
    }
    return {method: tuple(makers[method]()) for method in methods}


class ScriptedRunner:
    """A :class:`RaceRunner` that plays scripted lanes, the lane furthest behind first."""

    def __init__(
        self,
        steps: Sequence[str] = STEPS,
        others: Sequence[str] = OTHER_WORDS,
        seconds_per_event: float = 0.0,
    ) -> None:
        self._steps, self._others = steps, others
        self._pause = seconds_per_event
        self.closed = 0
        self.events_after_stop = 0

    def methods(self) -> Sequence[tuple[str, bool, str]]:
        return tuple((m, m != "prompt_lookup", "switched off in this script" if m == "prompt_lookup" else "") for m in METHODS)

    def check(self, request: RaceRequest) -> None:
        if "too long" in request.text:
            raise ValueError("the prompt has 900 tokens; this target reads at most 512")

    def race(self, request: RaceRequest, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        lanes = scripted_lanes(request.text, self._steps, self._others, request.methods)
        rest = {lane: list(events) for lane, events in lanes.items()}
        done: dict[str, float] = {lane: 0.0 for lane in rest}
        try:
            while rest:
                if stop():
                    for lane in rest:
                        yield lane, _cancelled(done[lane])
                    return
                lane = min(rest, key=lambda name: rest[name][0].t_ms)
                event = rest[lane].pop(0)
                done[lane] = event.t_ms
                if not rest[lane]:
                    del rest[lane]
                if self._pause:
                    time.sleep(self._pause)
                self.events_after_stop += stop()
                yield lane, event
        finally:
            self.closed += 1

    def new_problem(self, seed: int, family: str | None) -> ProblemCard:
        if family not in (None, "shopping"):
            raise ValueError(f"unknown family {family!r}")
        return ProblemCard(
            text=f"Mia has {seed} lamps. She buys 4. How many lamps does Mia have?",
            answer=str(seed + 4), family="shopping", steps=1,
        )  # fmt: skip


def _cancelled(t: float) -> RunFinished:
    return RunFinished(
        t_ms=t, reason="cancelled", message="stopped", num_tokens=0, target_forwards=0,
        target_tokens=0, draft_forwards=0, prefill_ms=0.0, draft_ms=0.0, verify_ms=0.0, other_ms=t,
    )  # fmt: skip
