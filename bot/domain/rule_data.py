"""Reads plain rule data, as loaded from YAML, into typed values; errors name the place.

The rules can also be listed as a table: content, dates, confidence and source of each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import Final, TypeVar

from bot.domain.errors import RuleDataError

Member = TypeVar("Member", bound=StrEnum)

_ABOUT: Final = frozenset({"from", "until", "confidence", "source", "note"})
_HOME: Final = "exchanges."


@dataclass(frozen=True, slots=True)
class RuleData:
    """A value of a rule file and its place in the file. Every reader raises RuleDataError."""

    value: object
    place: str = ""

    def __getitem__(self, key: str) -> "RuleData":
        found = self.get(key)
        if found is None:
            raise RuleDataError(self.place, f"the key {key!r}", sorted(map(str, self._mapping())))
        return found

    def get(self, key: str) -> "RuleData | None":
        """Return the value under `key`, None if it is absent (a null counts as a value)."""
        mapping = self._mapping()
        return RuleData(mapping[key], self._below(key)) if key in mapping else None

    def items(self) -> Iterator[tuple[str, "RuleData"]]:
        for key, value in self._mapping().items():
            yield str(key), RuleData(value, self._below(str(key)))

    def rows(self) -> tuple["RuleData", ...]:
        if not isinstance(self.value, list):
            raise RuleDataError(self.place, "a list", self.value)
        return tuple(RuleData(v, f"{self.place}[{i}]") for i, v in enumerate(self.value))

    def allow(self, *keys: str) -> None:
        """Raise if a mapping has any other key."""
        for key, entry in self.items():
            if key not in keys:
                raise RuleDataError(entry.place, f"one of {', '.join(keys)}", key)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise RuleDataError(self.place, "a text", self.value)
        return self.value

    def integer(self) -> int:
        """Return a whole number, not negative."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            raise RuleDataError(self.place, "a whole number from 0", self.value)
        return self.value

    def integer_or_none(self) -> int | None:
        return None if self.value is None else self.integer()

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise RuleDataError(self.place, "true or false", self.value)
        return self.value

    def day(self) -> date:
        """Return a date, written `2026-11-24` with or without quotes."""
        if isinstance(self.value, date) and not isinstance(self.value, datetime):
            return self.value
        try:
            return date.fromisoformat(self.text())
        except ValueError as error:
            raise RuleDataError(self.place, "a date like 2026-11-24", self.value) from error

    def day_or_none(self) -> date | None:
        return None if self.value is None else self.day()

    def time_of_day(self) -> time:
        """Return a local time, written `09:15` or `09:15:00`, without a zone."""
        wanted = "a time like 09:15, of Asia/Ho_Chi_Minh"
        try:
            found = time.fromisoformat(self.text())
        except ValueError as error:
            raise RuleDataError(self.place, wanted, self.value) from error
        if found.tzinfo is not None:
            raise RuleDataError(self.place, wanted, self.value)
        return found

    def member(self, enum: type[Member]) -> Member:
        """Return the member of `enum` that this value names."""
        text = self.text()
        if text not in enum.__members__:
            raise RuleDataError(self.place, f"one of {', '.join(enum.__members__)}", text)
        return enum[text]

    def members(self, enum: type[Member]) -> tuple[Member, ...]:
        """Return a list of members of `enum`, in the order of the file."""
        return tuple(row.member(enum) for row in self.rows())

    def version(self, on: date | None) -> "RuleData":
        """Return the version of a dated rule that is in effect on a day (None: the newest).

        A dated rule is a list of mappings, each with `from` and, when it has ended, `until`
        (inclusive).
        """
        rows = self.rows()
        found = [row for row in rows if row.is_in_effect(on)]
        if len(found) != 1:
            wanted = f"one version in effect {f'on {on}' if on else 'now'}"
            raise RuleDataError(self.place, wanted, f"{len(found)} of {len(rows)}")
        return found[0]

    def is_in_effect(self, on: date | None) -> bool:
        """Return whether this version of a rule is in effect on a day (None: it has no end)."""
        until = self["until"].day_or_none() if self.get("until") else None
        if on is None:
            return until is None
        return self["from"].day() <= on and (until is None or on <= until)

    def _mapping(self) -> Mapping[object, object]:
        if not isinstance(self.value, Mapping):
            raise RuleDataError(self.place, "a mapping", self.value)
        return self.value

    def _below(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


# --------------------------------------------------------------------------- the rules as a table


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One version of one rule. `rule` is its path, like `HOSE.ticks` or `fees.broker`.

    `since` and `until` are inclusive; None: open-ended. `source` names entries of `sources.yaml`;
    `confidence` is high, medium or low, a closed day's status, or `operator`.
    """

    rule: str
    since: date | None
    until: date | None
    says: str
    confidence: str
    source: tuple[str, ...]
    note: str = ""

    def holds(self, on: date) -> bool:
        is_begun = self.since is None or self.since <= on
        return is_begun and (self.until is None or on <= self.until)


def rule_rows(data: RuleData) -> Iterator[RuleRow]:
    """Yield every dated version below `data`, in the order of the file."""
    if isinstance(data.value, dict) and "from" in data.value:
        yield _row(data)
    elif isinstance(data.value, dict):
        for key in data.value:
            yield from rule_rows(data[key])
    elif isinstance(data.value, list):
        for row in data.rows():
            yield from rule_rows(RuleData(row.value, data.place))


def closure_rows(calendar: RuleData) -> Iterator[RuleRow]:
    """Yield the weekdays on which the exchanges are, or may be, closed."""
    for name in ("closed", "unconfirmed_closures"):
        for row in calendar[name].rows():
            day, source = row["date"].day(), row["source"].text()
            status = row["status"].text() if name == "closed" else "UNCONFIRMED"
            yield RuleRow(f"calendar.{name}", day, day, row["name"].text(), status, (source,))


def override_rows(data: RuleData) -> Iterator[RuleRow]:
    """Yield what an operator has changed, one row for each entry of a mapping."""
    for key, value in data.items():
        entries = dict(value.items()) if isinstance(value.value, dict) else {"": value}
        for name, entry in entries.items():
            rule = f"operator.{key}.{name}".rstrip(".")
            yield RuleRow(rule, None, None, shown(entry.value), "operator", ())


def _row(data: RuleData) -> RuleRow:
    until, note = data.get("until"), data.get("note")
    confidence, source = data.get("confidence"), data.get("source")
    says = {key: value.value for key, value in data.items() if key not in _ABOUT}
    return RuleRow(
        rule=data.place.removeprefix(_HOME),
        since=data["from"].day(),
        until=until.day_or_none() if until else None,
        says=shown(says),
        confidence=confidence.text() if confidence else "",
        source=tuple(row.text() for row in source.rows()) if source else (),
        note=note.text() if note else "",
    )


def shown(value: object) -> str:
    """Return rule data on one line: `band 7, special 20`, `LO/ATO`, `none`."""
    if isinstance(value, dict):
        return _span_or_zone(value) or ", ".join(f"{k} {shown(v)}" for k, v in value.items())
    if isinstance(value, list):
        is_plain = not any(isinstance(each, (dict, list)) for each in value)
        return ("/" if is_plain else "; ").join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _span_or_zone(value: dict[object, object]) -> str:
    """Return the short form of a span (by its start) or of a tick (by its zone's end), if it has
    one.
    """
    if "phase" in value and "end" not in value and "start" in value:
        return f"{value['start']} {value['phase']}"
    if set(value) == {"below", "tick"}:
        tick, below = shown(value["tick"]), value["below"]
        return tick if below is None else f"{tick} below {shown(below)}"
    return ""
