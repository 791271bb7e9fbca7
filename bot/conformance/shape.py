"""Compares a payload with a shape as `reads_*.yaml` write it.

A shape is a word for a scalar (`int`, `num?`, a word list), a mapping of names (`*` behind a name:
required), or a list of one shape. `"?"` in a mapping says that the object may be null, `"[]"` that
it is a list. Places are written as in drift: `items.price`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Final

NAMES_SHOWN_MAX: Final = 6
_NUMERIC: Final = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?", re.ASCII)
_MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])", re.ASCII)
_NULLABLE: Final = "?"
_LIST: Final = "[]"

Shape = object
Words = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Differences:
    """Where a payload differs from its shape, as places.

    `textual` are numbers sent as texts, `null` optional fields that are null against the document:
    a tolerant client reads both.
    """

    missing: set[str] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)
    textual: set[str] = field(default_factory=set)
    null: set[str] = field(default_factory=set)
    added: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)


def compare(shape: Shape, value: object, words: Words) -> Differences:
    """Find all differences; a field is gone when none of the objects it belongs in has it."""
    found = Differences()
    _compare(shape, value, "", found, words)
    found.gone -= found.seen
    found.added -= found.seen
    return found


def _compare(shape: Shape, value: object, place: str, found: Differences, words: Words) -> None:
    if isinstance(shape, str):
        _compare_scalar(shape, value, place, found, words)
    elif isinstance(shape, list):
        _compare_list(shape[0], value, place, found, words)
    elif isinstance(shape, Mapping):
        if value is None and shape.get(_NULLABLE):
            return
        if _LIST in shape:
            _compare_list(shape[_LIST], value, place, found, words)
        else:
            _compare_object(shape, value, place, found, words)


def _compare_list(
    element: Shape, value: object, place: str, found: Differences, words: Words
) -> None:
    if not isinstance(value, list):
        found.wrong[place] = f"{_kind(value)} in place of a list"
        return
    for each in value:
        _compare(element, each, place, found, words)


def _compare_object(
    shape: Mapping[str, Shape], value: object, place: str, found: Differences, words: Words
) -> None:
    if not isinstance(value, dict):
        found.wrong[place] = f"{_kind(value)} in place of an object"
        return
    known = {name.rstrip("*"): inner for name, inner in shape.items() if name != _NULLABLE}
    required = {name.rstrip("*") for name in shape if name.endswith("*")}
    found.missing.update(_at(place, name) for name in required - value.keys())
    found.gone.update(_at(place, name) for name in known.keys() - value.keys() - required)
    found.added.update(_at(place, name) for name in value.keys() - known.keys())
    for name in known.keys() & value.keys():
        found.seen.add(_at(place, name))
        if value[name] is None and name not in required and not _may_be_null(known[name]):
            found.null.add(_at(place, name))
            continue
        _compare(known[name], value[name], _at(place, name), found, words)


def _may_be_null(shape: Shape) -> bool:
    if isinstance(shape, str):
        return shape.endswith(_NULLABLE) or shape in {"null", "any"}
    return isinstance(shape, Mapping) and bool(shape.get(_NULLABLE))


def _compare_scalar(
    shape: str, value: object, place: str, found: Differences, words: Words
) -> None:
    kind = shape.removesuffix(_NULLABLE)
    if value is None and (shape != kind or kind in {"null", "any"}):
        return
    if kind in words:
        if value not in words[kind]:
            found.wrong[place] = f"{value!r:.40} is no {kind}"
    elif not _CHECKS[kind](value):
        _note_wrong(kind, value, place, found)


def _note_wrong(kind: str, value: object, place: str, found: Differences) -> None:
    """A number sent as a text is what a tolerant client reads all the same."""
    if kind in {"int", "num"} and isinstance(value, str) and _NUMERIC.fullmatch(value):
        found.textual.add(place)
    else:
        found.wrong[place] = f"{_kind(value)} in place of {kind}"


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


def shown(names: Mapping[str, str] | set[str]) -> str:
    """Write places for a person, a few of them."""
    if isinstance(names, Mapping):
        told = [f"{name}: {why}" for name, why in sorted(names.items())]
    else:
        told = sorted(names)
    more = f" and {len(told) - NAMES_SHOWN_MAX} more" if len(told) > NAMES_SHOWN_MAX else ""
    return ", ".join(told[:NAMES_SHOWN_MAX]) + more


# ---------------------------------------------------------------------------------------- scalars


def _is_whole(value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _reads(read: Callable[[str], object]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        if not isinstance(value, str):
            return False
        try:
            read(value)
        except ValueError:
            return False
        return True

    return check


def _stamp(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("an instant without an offset")
    return found


def _month(text: str) -> str:
    if _MONTH.fullmatch(text) is None:
        raise ValueError("no month")
    return text


_KINDS: Final[Mapping[type, str]] = {
    bool: "a bool",
    int: "a number",
    Decimal: "a fraction",
    str: "a text",
    dict: "an object",
    list: "a list",
}
_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "int": _is_whole,
    "num": _is_number,
    "text": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "ts": _reads(_stamp),
    "day": _reads(date.fromisoformat),
    "month": _reads(_month),
    "null": lambda value: value is None,
    "any": lambda _: True,
}


def words_in(shape: Shape) -> Iterator[str]:
    """Yield every scalar word of a shape, for a test of the data."""
    if isinstance(shape, str):
        yield shape.removesuffix(_NULLABLE)
    elif isinstance(shape, list):
        yield from words_in(shape[0])
    elif isinstance(shape, Mapping):
        for name, inner in shape.items():
            if name != _NULLABLE:
                yield from words_in(inner)
