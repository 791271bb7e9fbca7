"""The values that query parameters may have, and the combinations that are not allowed.

The client checks before it sends, the sandbox before it answers; both get the same findings.
Whether a day lies in the future depends on a clock and is checked by the server. Names are those of
the wire.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

ITEMS_MAX: Final = 50
"""Longest list, where the document gives no limit."""
TEXT_CHARACTERS_MAX: Final = 256
RANGE_YEARS_MAX: Final = 5

_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?", re.ASCII)
_MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])", re.ASCII)
_PERIOD: Final = re.compile(r"[0-9]{4}(-Q[1-4]|-(0[1-9]|1[0-2]))?", re.ASCII)
_SLASHED: Final = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4})", re.ASCII)
_INDICATOR: Final = re.compile(r"([A-Z_]+)(\([0-9]+(\.[0-9]+)?(,[0-9]+(\.[0-9]+)?)*\))?", re.ASCII)
_OUTSIDE_BRACKETS: Final = re.compile(r",(?![^()]*\))")


class Kind(StrEnum):
    """How a parameter is written, in words for a person."""

    TEXT = "a text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    DAY = "a day, YYYY-MM-DD"
    SLASHED_DAY = "a day, DD/MM/YYYY"
    MONTH = "a month, YYYY-MM"
    PERIOD = "YYYY, YYYY-Qn or YYYY-MM"
    UNIX_SECONDS = "Unix seconds"
    INDICATOR = "an indicator, such as RSI(14)"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query.

    `values` are the only words it takes; for a number they are allowed besides numbers. `default`
    is what the server assumes. `is_list`: several, separated by commas, at most `items_max`.
    """

    name: str
    kind: Kind = Kind.TEXT
    is_required: bool = False
    values: tuple[str, ...] = ()
    default: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    is_list: bool = False
    items_max: int = ITEMS_MAX


@dataclass(frozen=True, slots=True)
class QueryFault:
    """Why the API refuses a query with 400: the parameter, and what is wrong with it."""

    name: str
    reason: str


class Rule(Protocol):
    """A rule about combinations of parameters."""

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        """Yield what breaks the rule, in a query whose parameters are each valid."""
        ...


@dataclass(frozen=True, slots=True)
class Together:
    """All of them or none."""

    names: tuple[str, ...]

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        missing = [name for name in self.names if name not in query]
        if len(missing) < len(self.names):
            yield from (QueryFault(name, f"goes with {_and(self.names)}") for name in missing)


@dataclass(frozen=True, slots=True)
class AtMostOne:
    """None of them or one."""

    names: tuple[str, ...]

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        given = [name for name in self.names if name in query]
        if len(given) > 1:
            yield QueryFault(given[1], f"only one of {_and(self.names)}")


@dataclass(frozen=True, slots=True)
class ExactlyOne:
    """One of them."""

    names: tuple[str, ...]

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        """Name the first if none is given, the second if several are."""
        given = [name for name in self.names if name in query]
        if len(given) != 1:
            name = given[1] if given else self.names[0]
            yield QueryFault(name, f"exactly one of {_and(self.names)}")


@dataclass(frozen=True, slots=True)
class EitherOr:
    """Either the one parameter, or both of the pair."""

    one: str
    pair: tuple[str, str]

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        """Name the single parameter if neither alternative is complete."""
        if self.one not in query and not all(name in query for name in self.pair):
            yield QueryFault(self.one, f"either this, or {_and(self.pair)}")


@dataclass(frozen=True, slots=True)
class OnlyWith:
    """The one parameter only when the other has this value."""

    name: str
    other: str
    value: str

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        if self.name in query and query.get(self.other) != self.value:
            yield QueryFault(self.name, f"only with {self.other}={self.value}")


@dataclass(frozen=True, slots=True)
class DayRange:
    """The second day is not before the first, nor more than five years after it."""

    first: str
    second: str

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        if self.first not in query or self.second not in query:
            return
        first, second = query[self.first], query[self.second]
        if second < first:
            yield QueryFault(self.second, f"before {self.first}")
        # Compared as texts, so a range from 29 February may end on 1 March.
        elif f"{int(first[:4]) + RANGE_YEARS_MAX:04}{first[4:]}" < second:
            yield QueryFault(self.second, f"more than {RANGE_YEARS_MAX} years after {self.first}")


@dataclass(frozen=True, slots=True)
class LiveOnly:
    """With `date`, no sorting or filtering by fields that exist only for today."""

    fields: tuple[str, ...]

    def faults(self, query: Mapping[str, str]) -> Iterator[QueryFault]:
        if "date" not in query:
            return
        barred = {f"{field}_{bound}" for field in self.fields for bound in ("gt", "lt")}
        sorted_by = query.get("sort", "").removeprefix("-")
        by_average = {name for name in ("price_gt", "price_lt") if query.get(name) in self.fields}
        for name in sorted((barred & query.keys()) | by_average):
            yield QueryFault(name, "not with date")
        if sorted_by in self.fields:
            yield QueryFault("sort", f"not by {sorted_by} with date")


def faults_of(parameter: Parameter, text: str) -> Iterator[QueryFault]:
    """Yield what is wrong with the value of one parameter."""
    items = [text]
    if parameter.is_list:
        items = [item.strip() for item in _OUTSIDE_BRACKETS.split(text)]
    if len(items) > parameter.items_max:
        yield QueryFault(parameter.name, f"more than {parameter.items_max}")
        return
    found = (_reason(parameter, item) for item in items)
    if reason := next(filter(None, found), None):
        yield QueryFault(parameter.name, reason)


def _reason(parameter: Parameter, text: str) -> str | None:
    if not text or len(text) > TEXT_CHARACTERS_MAX:
        return "empty or too long"
    if text in parameter.values:
        return None
    if parameter.kind is Kind.INDICATOR:
        known = _INDICATOR.fullmatch(text)
        return None if known and known[1] in parameter.values else f"not {parameter.kind.value}"
    if parameter.values and parameter.kind is not Kind.NUMBER:
        return f"not one of {', '.join(parameter.values)}"
    if not _WRITTEN[parameter.kind](text):
        return f"not {parameter.kind.value}"
    if parameter.minimum is not None and Decimal(text) < parameter.minimum:
        return f"below {parameter.minimum}"
    if parameter.maximum is not None and Decimal(text) > parameter.maximum:
        return f"above {parameter.maximum}"
    return None


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_slashed_day(text: str) -> bool:
    found = _SLASHED.fullmatch(text)
    return found is not None and _is_day(f"{found[3]}-{found[2]}-{found[1]}")


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_WRITTEN: Final[Mapping[Kind, Callable[[str], bool]]] = {
    Kind.TEXT: lambda _: True,
    Kind.WHOLE: _matches(_WHOLE),
    Kind.NUMBER: _matches(_NUMBER),
    Kind.DAY: _is_day,
    Kind.SLASHED_DAY: _is_slashed_day,
    Kind.MONTH: _matches(_MONTH),
    Kind.PERIOD: _matches(_PERIOD),
    Kind.UNIX_SECONDS: _matches(_WHOLE),
}


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(names)
