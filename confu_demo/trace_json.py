"""Events as plain JSON values and back, decoded strictly from the events' own type hints.

A new field or a new event in :mod:`confu_demo.trace` needs no code here. Tuples become lists,
nested records become objects, and an event is an object whose ``event`` key is its class name.
Decoding refuses what the hints do not allow: unknown events, missing or extra fields, wrong
types, NaN and infinities. Knows nothing about files (see :mod:`confu_demo.trace_io`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from confu_demo.trace import Event

T = TypeVar("T")
Decode = Callable[[Any], Any]
"""Turns a JSON value into what the type hint says, or raises :class:`WrongShape`."""

EVENT_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


class WrongShape(ValueError):
    """A JSON value that its type hint does not allow: ``DraftProposed.tree.parents[3] must be a
    whole number, not text``."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path.removeprefix('.')} {reason}".strip())
        self.reason = reason
        self.path = path

    def under(self, parent: str) -> WrongShape:
        return WrongShape(self.reason, parent + self.path)


def to_json(event: Event) -> dict[str, Any]:
    """``{"event": "DraftProposed", "t_ms": 1.5, ...}`` with lists for tuples.

    Raises ``ValueError`` for NaN and infinities, which JSON does not have.
    """
    return {"event": type(event).__name__, **encode(event)}


def from_json(data: Any) -> Event:
    """The event of a :func:`to_json` object. Raises :class:`WrongShape`."""
    if not isinstance(data, dict):
        raise WrongShape(f"an event must be an object, not {_name(data)}")
    name = data.get("event")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise WrongShape("the event has no name" if name is None else f"unknown event {name!r:.60}")
    rest = {key: value for key, value in data.items() if key != "event"}
    try:
        return cast(Event, decode(kind, rest))
    except WrongShape as error:
        raise error.under(kind.__name__) from None


def encode(value: Any) -> Any:
    """A record, tuple or scalar as JSON values."""
    if is_dataclass(value):
        return {item.name: encode(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a trace holds finite numbers only, not {value}")
    return value


def decode(kind: type[T], data: Any) -> T:
    """``data`` as an instance of the dataclass ``kind``. Raises :class:`WrongShape`."""
    return cast(T, _decoder(cast(Any, kind))(data))


@cache
def _decoder(hint: Any) -> Decode:
    if is_dataclass(hint):
        return _record(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(args)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _sequence(args[0])
    if origin is tuple:
        return _fixed(args)
    if hint is float:
        return _float
    if hint in (int, str, bool, NoneType):
        return _exactly(hint)
    raise TypeError(f"a trace cannot hold {hint}")  # a mistake in an event's own definition


def _name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", NoneType: "null", bool: "a boolean"}
    return names.get(type(value), "a number")


def _exactly(kind: type[Any]) -> Decode:
    wanted = {int: "a whole number", str: "text", bool: "true or false", NoneType: "null"}[kind]

    def decode_exactly(value: Any) -> Any:
        if type(value) is not kind:  # not isinstance: True is an int
            raise WrongShape(f"must be {wanted}, not {_name(value)}")
        return value

    return decode_exactly


def _float(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise WrongShape(f"must be a number, not {_name(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise WrongShape("must be a finite number")
    return number


def _literal(allowed: tuple[Any, ...]) -> Decode:
    def decode_literal(value: Any) -> Any:
        if not any(type(value) is type(item) and value == item for item in allowed):
            raise WrongShape(f"must be one of {', '.join(map(str, allowed))}")
        return value

    return decode_literal


def _union(args: tuple[Any, ...]) -> Decode:
    """``X | None`` is the only union that events need; it keeps messages short."""
    (inner,) = (arg for arg in args if arg is not NoneType)
    if len(args) != 2:
        raise TypeError(f"a trace cannot hold a union of {args}")
    decode_inner = _decoder(inner)
    return lambda value: None if value is None else decode_inner(value)


def _sequence(item: Any) -> Decode:
    decode_item = _decoder(item)

    def decode_sequence(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise WrongShape(f"must be a list, not {_name(value)}")
        found: list[Any] = []
        try:
            for entry in value:
                found.append(decode_item(entry))
        except WrongShape as error:
            raise error.under(f"[{len(found)}]") from None
        return tuple(found)

    return decode_sequence


def _fixed(items: tuple[Any, ...]) -> Decode:
    decoders = [_decoder(item) for item in items]

    def decode_fixed(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(decoders):
            raise WrongShape(f"must be a list of {len(decoders)}")
        found: list[Any] = []
        try:
            for decode_item, entry in zip(decoders, value, strict=True):
                found.append(decode_item(entry))
        except WrongShape as error:
            raise error.under(f"[{len(found)}]") from None
        return tuple(found)

    return decode_fixed


def _record(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    decoders = {item.name: _decoder(hints[item.name]) for item in fields(kind)}
    required = [
        item.name
        for item in fields(kind)
        if item.default is MISSING and item.default_factory is MISSING
    ]

    def decode_record(value: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongShape(f"must be an object, not {_name(value)}")
        for name in required:
            if name not in value:
                raise WrongShape(f"has no field {name}")
        found: dict[str, Any] = {}
        for name, entry in value.items():
            if name not in decoders:
                raise WrongShape(f"has an unknown field {name!r:.60}")
            try:
                found[name] = decoders[name](entry)
            except WrongShape as error:
                raise error.under(f".{name}") from None
        return kind(**found)

    return decode_record
