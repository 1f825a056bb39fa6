"""Word problems whose solutions are checked step by step: the bundled suite's world.

A family is a function of a random generator and a number of steps; it returns the sentences,
the question and the steps. Values stay below 1,000, products within the small tables, so that a
model of a few million parameters can learn to be right. Our own design (models.md); the splits
are in :mod:`confu_demo.data.splits`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from confu_demo.data.steps import Operation, Quantity, Step, compute

PEOPLE = (
    ("Ann", "She"), ("Tom", "He"), ("Mia", "She"), ("Leo", "He"), ("Eva", "She"), ("Sam", "He"),
    ("Zoe", "She"), ("Max", "He"), ("Ida", "She"), ("Ben", "He"), ("Lea", "She"), ("Dan", "He"),
    ("Amy", "She"), ("Jon", "He"), ("Kim", "She"), ("Ned", "He"),
)  # fmt: skip
ITEMS = (
    "apples", "pears", "shells", "coins", "cards", "stamps", "books", "pens", "marbles", "stones",
    "cups", "plates", "toys", "balls", "beads", "flowers", "keys", "lamps", "boxes", "stickers",
)  # fmt: skip
FOODS = ("eggs", "spoons", "onions", "carrots", "tomatoes", "potatoes", "lemons", "nuts")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
GAINS = ("buys", "finds", "gets", "wins", "picks up")
LOSSES = ("gives away", "loses", "sells", "drops", "lends out")
MAX_VALUE = 999


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its machine-readable solution. ``answer`` is the last step's value."""

    family: str
    text: str
    steps: tuple[Step, ...]

    @property
    def answer(self) -> int:
        return self.steps[-1].value


class _Solution:
    """Collects steps and keeps the arithmetic right."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, quantity: Quantity, operation: Operation, left: int, right: int) -> int:
        value = compute(operation, left, right)
        if value is None or not 0 <= value <= MAX_VALUE:
            raise _Retry
        self.steps.append(Step(quantity, operation, (left, right), value))
        return value


class _Retry(Exception):
    """The random draw left the allowed numbers: draw again."""


Draft = tuple[list[str], list[Step]]


def _running(
    rng: random.Random, solution: _Solution, quantity: Quantity, now: int
) -> tuple[int, str, int]:
    """One random change of a running count: (new value, "gain" or "loss", amount)."""
    gain = now < 15 or (now < 180 and rng.random() < 0.55)
    amount = rng.randint(2, 60 if rng.random() < 0.5 else 20)
    if not gain:
        amount = min(amount, now - 1)
    value = solution.add(quantity, "add" if gain else "subtract", now, amount)
    return value, "gain" if gain else "loss", amount


def inventory(rng: random.Random, num_steps: int) -> Draft:
    (name, pronoun), item = rng.choice(PEOPLE), rng.choice(ITEMS)
    now = rng.randint(5, 99)
    lines, solution = [f"{name} has {now} {item}."], _Solution()
    for _ in range(num_steps):
        now, change, amount = _running(rng, solution, Quantity("owned", name, item), now)
        verb = rng.choice(GAINS if change == "gain" else LOSSES)
        lines.append(f"{pronoun} {verb} {amount}.")
    lines.append(f"How many {item} does {name} have at the end?")
    return lines, solution.steps


def bus(rng: random.Random, num_steps: int) -> Draft:
    vehicle = rng.choice(("bus", "train", "ferry", "tram"))
    now = rng.randint(5, 90)
    lines, solution = [f"A {vehicle} starts with {now} passengers."], _Solution()
    for _ in range(num_steps):
        now, change, amount = _running(rng, solution, Quantity("count", "", "passengers"), now)
        move = "get on" if change == "gain" else "get off"
        lines.append(f"{rng.choice(('At the next stop', 'Then', 'Later'))} {amount} {move}.")
    lines.append(f"How many passengers are on the {vehicle} then?")
    return lines, solution.steps


def expression(rng: random.Random, num_steps: int) -> Draft:
    now = rng.randint(2, 99)
    text, solution = f"Compute {now}", _Solution()
    for _ in range(num_steps):
        now, change, amount = _running(rng, solution, Quantity("running"), now)
        text += f" {'+' if change == 'gain' else '-'} {amount}"
    return [text + "."], solution.steps


def shopping(rng: random.Random, num_steps: int) -> Draft:
    """m products, m - 1 sums and, for an even number of steps, the change."""
    kinds = max(2, (num_steps + 1) // 2)
    (name, pronoun), items = rng.choice(PEOPLE), rng.sample(ITEMS, kinds)
    solution, lines, costs = _Solution(), [], []
    for position, item in enumerate(items):
        count, price = rng.randint(2, 9), rng.randint(2, 12)
        costs.append(solution.add(Quantity("cost", "", item), "multiply", count, price))
        who = name if position == 0 else pronoun
        lines.append(f"{who} buys {count} {item} for {price} dollars each.")
    total = costs[0]
    for cost in costs[1:]:
        total = solution.add(Quantity("total"), "add", total, cost)
    if num_steps % 2 == 0:
        paid = rng.choice([p for p in (50, 100, 150, 200, 300, 500) if p > total])
        solution.add(Quantity("change"), "subtract", paid, total)
        lines.append(f"{pronoun} pays with {paid} dollars. How much money does {name} get back?")
    else:
        lines.append(f"How much does {name} pay?")
    return lines, solution.steps


def comparison(rng: random.Random, num_steps: int) -> Draft:
    """People whose counts refer to one another; then the running total."""
    people = max(2, num_steps // 2 + 1)
    names, item = [p[0] for p in rng.sample(PEOPLE, people)], rng.choice(ITEMS)
    first = rng.randint(4, 50)
    counts, solution = [first], _Solution()
    lines = [f"{names[0]} has {first} {item}."]
    for position in range(1, people):
        other = position - 1 if rng.random() < 0.6 else rng.randrange(position)
        kind = rng.choice(("more", "more", "fewer", "times"))
        owned, base = Quantity("owned", names[position], item), counts[other]
        if kind == "times" and base <= 20:
            factor = rng.randint(2, 4)
            value = solution.add(owned, "multiply", factor, base)
            lines.append(f"{names[position]} has {factor} times as many as {names[other]}.")
        elif kind == "fewer" and base > 3:
            amount = rng.randint(2, min(30, base - 1))
            value = solution.add(owned, "subtract", base, amount)
            lines.append(f"{names[position]} has {amount} fewer than {names[other]}.")
        else:
            amount = rng.randint(2, 30)
            value = solution.add(owned, "add", base, amount)
            lines.append(f"{names[position]} has {amount} more than {names[other]}.")
        counts.append(value)
    if num_steps % 2 == 1 and people > 2:
        lines.append(f"How many {item} do the last two have together?")
        solution.add(Quantity("total"), "add", counts[-2], counts[-1])
        return lines, solution.steps
    total = counts[0]
    for count in counts[1:]:
        total = solution.add(Quantity("total"), "add", total, count)
    lines.append(f"How many {item} do they have together?")
    return lines, solution.steps


def walk(rng: random.Random, num_steps: int) -> Draft:
    """Some days are given by comparison with the day before; then the total."""
    days = max(2, num_steps // 2 + 1)
    start, name = rng.randrange(8 - days) if days < 8 else 0, rng.choice(PEOPLE)[0]
    distance = rng.randint(3, 40)
    lines, solution, distances = (
        [f"On {DAYS[start]} {name} walks {distance} km."],
        _Solution(),
        [distance],
    )
    for day in DAYS[start + 1 : start + days]:
        amount, quantity = rng.randint(2, 15), Quantity("distance", day)
        if distance > amount + 2 and rng.random() < 0.5:
            distance = solution.add(quantity, "subtract", distance, amount)
            lines.append(f"On {day} it is {amount} km less than the day before.")
        else:
            distance = solution.add(quantity, "add", distance, amount)
            lines.append(f"On {day} it is {amount} km more than the day before.")
        distances.append(distance)
    total = distances[0]
    for distance in distances[1:]:
        total = solution.add(Quantity("total"), "add", total, distance)
    lines.append("How far is that in all?")
    return lines, solution.steps


def sharing(rng: random.Random, num_steps: int) -> Draft:
    """A product, some changes, and where it divides, equal shares."""
    item, now = rng.choice(ITEMS), 0
    solution = _Solution()
    boxes, each = rng.randint(2, 9), rng.randint(2, 12)
    now = solution.add(Quantity("count", "", item), "multiply", boxes, each)
    lines = [f"There are {boxes} bags with {each} {item} each."]
    for _ in range(num_steps - 2):
        now, change, amount = _running(rng, solution, Quantity("count", "", item), now)
        verb = "come in" if change == "gain" else "are taken out"
        lines.append(f"{amount} {verb}.")
    children = rng.randint(2, 9)
    if now < 4 or (children < now <= 100 and now % children):
        raise _Retry
    if now <= 100 and now % children == 0:
        solution.add(Quantity("share"), "divide", now, children)
        lines.append(f"The {item} are shared among {children} children. How many does each get?")
    else:
        taken = rng.randint(2, min(60, now - 1))
        solution.add(Quantity("left"), "subtract", now, taken)
        lines.append(f"{taken} {item} are sold. How many are left?")
    return lines, solution.steps


def savings(rng: random.Random, num_steps: int) -> Draft:
    name, pronoun = rng.choice(PEOPLE)
    weeks, amount = rng.randint(2, 9), rng.randint(2, 12)
    solution, quantity = _Solution(), Quantity("owned", name, "dollars")
    now = solution.add(quantity, "multiply", weeks, amount)
    lines = [f"{name} saves {amount} dollars a week for {weeks} weeks."]
    for _ in range(num_steps - 1):
        now, change, amount = _running(rng, solution, quantity, now)
        verb = rng.choice(("earns", "is given") if change == "gain" else ("spends", "pays"))
        lines.append(f"{pronoun} {verb} {amount} dollars.")
    lines.append(f"How many dollars does {name} have then?")
    return lines, solution.steps


def recipe(rng: random.Random, num_steps: int) -> Draft:
    """m products for m ingredients, then the total of all pieces."""
    kinds = max(2, (num_steps + 1) // 2)
    foods, cakes = rng.sample(FOODS, kinds), rng.randint(2, 9)
    dish = rng.choice(("soup", "cake", "salad", "pie"))
    amounts = [rng.randint(2, 12) for _ in foods]
    needs = ", ".join(f"{n} {food}" for n, food in zip(amounts[:-1], foods[:-1], strict=True))
    lines = [f"One {dish} needs {needs} and {amounts[-1]} {foods[-1]}. The cook makes {cakes}."]
    solution = _Solution()
    counts = [
        solution.add(Quantity("needed", "", food), "multiply", cakes, amount)
        for food, amount in zip(foods, amounts, strict=True)
    ]
    total = counts[0]
    for count in counts[1:]:
        total = solution.add(Quantity("total"), "add", total, count)
    lines.append("How many pieces does the cook need in all?")
    return lines, solution.steps


FAMILIES: dict[str, Callable[[random.Random, int], Draft]] = {
    "inventory": inventory,
    "bus": bus,
    "expression": expression,
    "shopping": shopping,
    "comparison": comparison,
    "walk": walk,
    "sharing": sharing,
    "savings": savings,
    "recipe": recipe,
}


def make_problem(
    rng: random.Random, *, min_steps: int, max_steps: int, family: str | None = None
) -> Problem:
    """A random problem of ``min_steps`` to ``max_steps`` steps (some families round by one)."""
    if family is not None and family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}: choose one of {', '.join(FAMILIES)}")
    while True:
        name = family or rng.choice(tuple(FAMILIES))
        try:
            lines, steps = FAMILIES[name](rng, rng.randint(min_steps, max_steps))
        except (_Retry, IndexError):
            continue
        return Problem(name, " ".join(lines), tuple(steps))
