"""One reasoning step of a bundled word problem, as text in many wordings and back.

A step is ``quantity = left (operation) right = value``; its meaning is machine-readable, its
wording is drawn at random, so that two right steps differ in words and not in meaning. The
parser reads the meaning back from any wording. Operands always stand before the value: a small
model can then compute from what it has just written. Our own design.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

Operation = Literal["add", "subtract", "multiply", "divide"]
COMMUTATIVE = frozenset({"add", "multiply"})

WORDINGS: dict[Operation, tuple[str, ...]] = {
    "add": (
        "{q} must be {a} + {b} = {c}.",
        "{a} + {b} = {c}, which is {q}.",
        "add {a} and {b} for {q}: {c}.",
        "{q}: {a} plus {b} makes {c}.",
        "{a} and {b} together are {c}, so that is {q}.",
        "{q} should be {a} plus {b}, or {c}.",
        "put {a} and {b} together and {q} will be {c}.",
        "for {q} we need {a} + {b}, that gives {c}.",
        "the sum of {a} and {b} is {c}: {q}.",
    ),
    "subtract": (
        "{q} must be {a} - {b} = {c}.",
        "{a} - {b} = {c}, which is {q}.",
        "take {a} and remove {b} for {q}: {c}.",
        "{q}: {a} minus {b} leaves {c}.",
        "{a} less {b} is {c}, so that is {q}.",
        "{q} should be {a} minus {b}, or {c}.",
        "from {a} take {b} and {q} will be {c}.",
        "for {q} we need {a} - {b}, that gives {c}.",
        "the difference of {a} and {b} is {c}: {q}.",
    ),
    "multiply": (
        "{q} must be {a} * {b} = {c}.",
        "{a} * {b} = {c}, which is {q}.",
        "multiply {a} and {b} for {q}: {c}.",
        "{q}: {a} times {b} makes {c}.",
        "{a} groups of {b} are {c}, so that is {q}.",
        "{q} should be {a} times {b}, or {c}.",
        "count {a} by {b} and {q} will be {c}.",
        "for {q} we need {a} * {b}, that gives {c}.",
        "the product of {a} and {b} is {c}: {q}.",
    ),
    "divide": (
        "{q} must be {a} / {b} = {c}.",
        "{a} / {b} = {c}, which is {q}.",
        "divide {a} by {b} for {q}: {c}.",
        "{q}: {a} over {b} makes {c}.",
        "{a} split into {b} is {c}, so that is {q}.",
        "{q} should be {a} divided by {b}, or {c}.",
        "share {a} among {b} and {q} will be {c}.",
        "for {q} we need {a} / {b}, that gives {c}.",
        "the quotient of {a} and {b} is {c}: {q}.",
    ),
}
CONNECTORS = ("", "", "", "Then ", "Next, ", "Now ", "So ", "After that, ")

# Every kind of quantity has two names; {e} is a person, place or day, {i} a thing.
# The parser tries them in this order, so the special one stands first.
QUANTITIES: dict[str, tuple[str, str]] = {
    "distance": ("{e}'s distance", "the way on {e}"),
    "owned": ("{e}'s {i}", "the {i} of {e}"),
    "count": ("the {i} so far", "the number of {i}"),
    "cost": ("the cost of the {i}", "the price for the {i}"),
    "total": ("the total", "the whole sum"),
    "change": ("the change", "the money back"),
    "left": ("what is left", "the rest"),
    "share": ("each share", "the part for each"),
    "needed": ("the {i} needed", "the amount of {i}"),
    "running": ("the result", "the value"),
}
_SLOT = {"e": r"(?P<e>[A-Z][a-z]+)", "i": r"(?P<i>[a-z]+)"}


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a step computes: a kind of :data:`QUANTITIES` with its person and thing."""

    kind: str
    entity: str = ""
    item: str = ""

    def phrase(self, variant: int) -> str:
        return QUANTITIES[self.kind][variant].format(e=self.entity, i=self.item)


@dataclass(frozen=True, slots=True)
class Step:
    """``quantity = operands[0] (operation) operands[1] = value``; all integers."""

    quantity: Quantity
    operation: Operation
    operands: tuple[int, int]
    value: int

    @property
    def is_right(self) -> bool:
        return self.value == compute(self.operation, *self.operands)

    def means_the_same(self, other: Step) -> bool:
        """Same quantity, operation and value; operands in any order where they commute."""
        ours, theirs = self.operands, other.operands
        if self.operation in COMMUTATIVE:
            ours, theirs = (min(ours), max(ours)), (min(theirs), max(theirs))
        return (self.quantity, self.operation, ours, self.value) == (
            other.quantity,
            other.operation,
            theirs,
            other.value,
        )


def compute(operation: Operation, left: int, right: int) -> int | None:
    """The exact result, or None for a division that leaves a remainder."""
    if operation == "add":
        return left + right
    if operation == "subtract":
        return left - right
    if operation == "multiply":
        return left * right
    return left // right if right and left % right == 0 else None


def word_step(step: Step, rng: random.Random) -> str:
    """One random wording: connector, template, name of the quantity, order of operands."""
    left, right = step.operands
    if step.operation in COMMUTATIVE and rng.random() < 0.25:
        left, right = right, left
    template = rng.choice(WORDINGS[step.operation])
    phrase = step.quantity.phrase(rng.randrange(2))
    connector = rng.choice(CONNECTORS)
    body = template.format(q=phrase, a=left, b=right, c=step.value)
    if connector:
        return connector + body
    return body[0].upper() + body[1:]


@cache
def _quantity_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = []
    for kind, names in QUANTITIES.items():
        for name in names:
            pattern = re.escape(name).replace(r"\{e\}", _SLOT["e"]).replace(r"\{i\}", _SLOT["i"])
            rows.append((kind, re.compile(pattern)))
    return tuple(rows)


@cache
def _step_patterns() -> tuple[tuple[Operation, re.Pattern[str]], ...]:
    rows: list[tuple[Operation, re.Pattern[str]]] = []
    for operation, templates in WORDINGS.items():
        for template in templates:
            pattern = re.escape(template).replace(r"\{q\}", r"(?P<q>[A-Za-z' ]+?)")
            for slot in "abc":
                pattern = pattern.replace(rf"\{{{slot}\}}", rf"(?P<{slot}>-?\d{{1,9}})")
            rows.append((operation, re.compile(pattern)))
    return tuple(rows)


def _parse_quantity(phrase: str) -> Quantity | None:
    for candidate in (phrase, phrase[:1].lower() + phrase[1:]):
        for kind, pattern in _quantity_patterns():
            match = pattern.fullmatch(candidate)
            if match:
                slots = match.groupdict()
                return Quantity(kind, slots.get("e") or "", slots.get("i") or "")
    return None


def parse_step(text: str) -> Step | None:
    """The meaning of a step in any of our wordings, or None where the text is none of them."""
    body = " ".join(text.split())
    for connector in sorted({c for c in CONNECTORS if c}, key=len, reverse=True):
        if body.startswith(connector):
            body = body[len(connector) :]
            break
    for candidate in (body, body[:1].lower() + body[1:]):
        for operation, pattern in _step_patterns():
            match = pattern.fullmatch(candidate)
            if match and (quantity := _parse_quantity(match["q"])):
                operands = (int(match["a"]), int(match["b"]))
                return Step(quantity, operation, operands, int(match["c"]))
    return None


_ANSWER = re.compile(r"Answer: (-?\d{1,9})\s*\Z")


def parse_answer(text: str) -> int | None:
    """The number of a closing ``Answer: N`` line, or None."""
    match = _ANSWER.search(text)
    return int(match.group(1)) if match else None
