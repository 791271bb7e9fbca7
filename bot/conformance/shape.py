"""Compares a payload with a shape in the notation of `reads_*.yaml`.

A shape is a word for a scalar (`int`, `num?`, a word list), a mapping of names (`*` behind a name:
required), or a list of one shape. `"?"` in a mapping says that the object may be null, `"[]"` that
it is a list. Places are written as in drift: `items.price`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Final, TypeGuard

NAMES_SHOWN_MAX: Final = 6
_NUMERIC: Final = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?", re.ASCII)
_MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])", re.ASCII)
NULLABLE: Final = "?"
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
    """Find all differences; a field counts as missing if none of its objects has it."""
    found = Differences()
    _compare(shape, value, "", found, words)
    found.gone -= found.seen
    found.added -= found.seen
    return found


def _compare(shape: Shape, value: object, place: str, found: Differences, words: Words) -> None:
    if isinstance(shape, Mapping):
        if value is None and shape.get(NULLABLE):
            return
        shape = [shape[_LIST]] if _LIST in shape else shape
    if isinstance(shape, str):
        _compare_scalar(shape, value, place, found, words)
    elif isinstance(shape, list):
        if isinstance(value, list):
            for each in value:
                _compare(shape[0], each, place, found, words)
        else:
            found.wrong[place] = f"{_kind(value)} in place of a list"
    elif isinstance(shape, Mapping):
        if isinstance(value, dict):
            _compare_object(shape, value, f"{place}." if place else "", found, words)
        else:
            found.wrong[place] = f"{_kind(value)} in place of an object"


def _compare_object(
    shape: Mapping[str, Shape],
    value: Mapping[str, object],
    prefix: str,
    found: Differences,
    words: Words,
) -> None:
    known = {name.rstrip("*"): inner for name, inner in shape.items() if name != NULLABLE}
    required = {name.rstrip("*") for name in shape if name.endswith("*")}
    found.missing.update(prefix + name for name in required - value.keys())
    found.gone.update(prefix + name for name in known.keys() - value.keys() - required)
    found.added.update(prefix + name for name in value.keys() - known.keys())
    for name in known.keys() & value.keys():
        inner, place = known[name], prefix + name
        found.seen.add(place)
        if isinstance(inner, str):
            may_be_null = inner.endswith(NULLABLE) or inner in {"null", "any"}
        else:
            may_be_null = isinstance(inner, Mapping) and bool(inner.get(NULLABLE))
        if value[name] is None and name not in required and not may_be_null:
            found.null.add(place)
        else:
            _compare(inner, value[name], place, found, words)


def _compare_scalar(
    shape: str, value: object, place: str, found: Differences, words: Words
) -> None:
    kind = shape.removesuffix(NULLABLE)
    if value is None and (shape != kind or kind in {"null", "any"}):
        return
    if kind in words:
        if value not in words[kind]:
            found.wrong[place] = f"{value!r:.40} is not a known {kind}"
    elif not SCALARS[kind](value):
        is_text = kind in {"int", "num"} and isinstance(value, str) and _NUMERIC.fullmatch(value)
        if is_text:  # a tolerant client can still read the number
            found.textual.add(place)
        else:
            found.wrong[place] = f"{_kind(value)} in place of {kind}"


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


def shown(names: Mapping[str, str] | set[str]) -> str:
    """Format places for a reader, a few of them."""
    if isinstance(names, Mapping):
        places = [f"{name}: {why}" for name, why in sorted(names.items())]
    else:
        places = sorted(names)
    more = f" and {len(places) - NAMES_SHOWN_MAX} more" if len(places) > NAMES_SHOWN_MAX else ""
    return ", ".join(places[:NAMES_SHOWN_MAX]) + more


# ---------------------------------------------------------------------------------------- scalars


def _is_number(value: object) -> TypeGuard[int | Decimal]:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _parses(parse: Callable[[str], object]) -> Callable[[object], bool]:
    """Return a check that passes texts which `parse` accepts without a ValueError."""

    def check(value: object) -> bool:
        try:
            return isinstance(value, str) and bool(parse(value))
        except ValueError:
            return False

    return check


_KINDS: Final[Mapping[type, str]] = {
    bool: "a bool",
    int: "a number",
    Decimal: "a fraction",
    str: "a text",
    dict: "an object",
    list: "a list",
}
SCALARS: Final[Mapping[str, Callable[[object], bool]]] = {
    "int": lambda value: _is_number(value) and value == Decimal(value).to_integral_value(),
    "num": _is_number,
    "text": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "ts": _parses(lambda text: datetime.fromisoformat(text).tzinfo),
    "day": _parses(lambda text: date.fromisoformat(text).isoformat() == text),
    "month": _parses(_MONTH.fullmatch),
    "null": lambda value: value is None,
    "any": lambda _: True,
}
"""The words for scalars, besides the word lists of `words.yaml`."""
