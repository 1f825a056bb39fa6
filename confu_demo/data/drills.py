"""Short exercises that teach a small model faster than whole problems do.

Arithmetic drills are bare equations in the number ranges of the problems. Easy judge pairs are
numbers, equations and equally worded sentences: verdicts about them are learned first, and
verdicts about paraphrases follow much sooner than from paraphrases alone. Our own choice.
"""

from __future__ import annotations

import random

from confu_demo.data.documents import JudgePair, change_step
from confu_demo.data.problems import Problem
from confu_demo.data.steps import Operation, Quantity, Step, compute, word_step

_SIGNS: dict[Operation, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def random_step(rng: random.Random) -> Step:
    """A right step with operands as they occur in the problems."""
    draw = rng.random()
    operation: Operation
    if draw < 0.5:
        left, right, operation = rng.randint(2, 300), rng.randint(2, 90), "add"
    elif draw < 0.85:
        left, operation = rng.randint(4, 300), "subtract"
        right = rng.randint(2, min(90, left - 1))
    elif draw < 0.97:
        left, right, operation = rng.randint(2, 9), rng.randint(2, 12), "multiply"
    else:
        right, operation = rng.randint(2, 9), "divide"
        left = right * rng.randint(2, 12)
    value = compute(operation, left, right)
    assert value is not None
    return Step(Quantity("running"), operation, (left, right), value)


def equation(step: Step, commuted: bool = False) -> str:
    left, right = reversed(step.operands) if commuted else step.operands
    return f"{left} {_SIGNS[step.operation]} {right} = {step.value}"


def drill_lines(rng: random.Random, count: int) -> list[str]:
    """Equations and worded steps, each right, about unrelated numbers."""
    lines = []
    for _ in range(count):
        step = random_step(rng)
        lines.append(equation(step) + "." if rng.random() < 0.6 else word_step(step, rng))
    return lines


def easy_pair(problem: Problem, rng: random.Random) -> JudgePair:
    """Two numbers, two equations or two equally worded steps; half of them mean the same."""
    same, kind = rng.random() < 0.5, rng.choice(("number", "equation", "sentence"))
    step = rng.choice(problem.steps)
    other = step if same else change_step(step, rng)
    if kind == "number":
        first, second = str(step.value), str(other.value)
        same = first == second
    elif kind == "equation":
        commuted = step.operation in ("add", "multiply") and rng.random() < 0.3
        first, second = equation(step, commuted), equation(other)
        meaning = (step.operation, sorted(step.operands), step.value)
        same = first == second or (
            step.operation in ("add", "multiply")
            and meaning == (other.operation, sorted(other.operands), other.value)
        )
    else:
        wording = rng.getrandbits(32)
        first = word_step(step, random.Random(wording))
        second = word_step(other, random.Random(wording))
    return JudgePair(first, second, same, f"easy {kind}")
