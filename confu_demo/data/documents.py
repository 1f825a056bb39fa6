"""Texts that the bundled models read and write: solutions, and judge questions with verdicts.

A solution document is ``Question: ...``, ``Solution:``, the steps and ``Answer: N``, divided by
blank lines. A judge document shows two steps and ends with one word, ``same`` or ``different``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from confu_demo.data.problems import ITEMS, PEOPLE, Problem
from confu_demo.data.steps import Operation, Quantity, Step, compute, word_step

VERDICT_WORDS = (" same", " different")


def prompt_text(question: str) -> str:
    """What the models read before the first step."""
    return f"Question: {question.strip()}\n\nSolution:\n\n"


def solution_text(problem: Problem, rng: random.Random) -> str:
    """A right solution in random wordings, without the end-of-text token."""
    steps = [word_step(step, rng) for step in problem.steps]
    return "\n\n".join([*steps, f"Answer: {problem.answer}"])


def judge_prompt(first: str, second: str) -> str:
    """The question whose next token is the verdict."""
    return f"Compare:\nA: {first.strip()}\nB: {second.strip()}\nVerdict:"


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two steps, and whether they mean the same. ``kind`` names how the pair was made."""

    first: str
    second: str
    same: bool
    kind: str


def _other_value(step: Step, rng: random.Random) -> Step:
    """One digit of the value changed."""
    digits = list(str(step.value))
    place = rng.randrange(len(digits))
    choices = [d for d in "0123456789" if d != digits[place] and not (place == 0 and d == "0")]
    digits[place] = rng.choice(choices)
    return replace(step, value=int("".join(digits)))


def _other_operand(step: Step, rng: random.Random) -> Step:
    left, right = step.operands
    amount = rng.choice((-10, -3, -2, -1, 1, 2, 3, 10))
    if rng.random() < 0.5:
        left = max(0, left + amount) if left + amount != left else left + 1
    else:
        right = max(1, right + amount)
    value = compute(step.operation, left, right)
    if (left, right) == step.operands or value is None or value < 0 or rng.random() < 0.3:
        value = step.value
    changed = replace(step, operands=(left, right), value=value)
    return changed if not changed.means_the_same(step) else _other_value(step, rng)


def _other_operation(step: Step, rng: random.Random) -> Step:
    swaps: dict[Operation, Operation] = {
        "add": "subtract", "subtract": "add", "multiply": "add", "divide": "subtract",
    }  # fmt: skip
    operation = swaps[step.operation]
    left, right = step.operands
    if operation == "subtract" and left < right:
        left, right = right, left
    value = compute(operation, left, right)
    return replace(step, operation=operation, operands=(left, right), value=value or 0)


def _other_quantity(step: Step, rng: random.Random) -> Step:
    quantity = step.quantity
    if quantity.entity and (not quantity.item or rng.random() < 0.7):
        names = [name for name, _ in PEOPLE if name != quantity.entity]
        return replace(step, quantity=replace(quantity, entity=rng.choice(names)))
    if quantity.item:
        items = [item for item in ITEMS if item != quantity.item]
        return replace(step, quantity=replace(quantity, item=rng.choice(items)))
    kinds = [
        kind for kind in ("total", "change", "left", "share", "running") if kind != quantity.kind
    ]
    return replace(step, quantity=Quantity(rng.choice(kinds)))


def _swapped(step: Step, rng: random.Random) -> Step:
    """Operands in the wrong order where order matters."""
    if step.operation in ("add", "multiply") or step.operands[0] == step.operands[1]:
        return _other_operand(step, rng)
    return replace(step, operands=(step.operands[1], step.operands[0]))


_CHANGES = {
    "value": _other_value,
    "operand": _other_operand,
    "operation": _other_operation,
    "quantity": _other_quantity,
    "swapped": _swapped,
}
_CHANGE_WEIGHTS = (30, 30, 8, 12, 5)


def change_step(step: Step, rng: random.Random) -> Step:
    """A step that looks alike and means something else."""
    return _CHANGES[rng.choices(tuple(_CHANGES), _CHANGE_WEIGHTS)[0]](step, rng)


def judge_pair(problem: Problem, rng: random.Random) -> JudgePair:
    """A random pair about one step of a problem: half true paraphrases, half hard negatives."""
    step = rng.choice(problem.steps)
    text = word_step(step, rng)
    draw = rng.random()
    if draw < 0.5:
        return JudgePair(text, word_step(step, rng), True, "paraphrase")
    if draw < 0.9:
        kind = rng.choices(tuple(_CHANGES), _CHANGE_WEIGHTS)[0]
        other = word_step(_CHANGES[kind](step, rng), rng)
    elif draw < 0.95:
        others = [other for other in problem.steps if not other.means_the_same(step)]
        kind, other = (
            "another step",
            word_step(rng.choice(others or [_other_value(step, rng)]), rng),
        )
    elif draw < 0.97:
        words = word_step(step, rng).split(" ")
        kind, other = "truncated", " ".join(words[: rng.randint(1, max(1, len(words) - 2))])
    else:
        kind, other = "answer", f"Answer: {problem.answer}"
        if rng.random() < 0.5:
            text = f"Answer: {_other_value(problem.steps[-1], rng).value}"
    return (
        JudgePair(other, text, False, kind)
        if rng.random() < 0.5
        else JudgePair(text, other, False, kind)
    )


def judge_document(pair: JudgePair) -> str:
    return judge_prompt(pair.first, pair.second) + VERDICT_WORDS[0 if pair.same else 1]
