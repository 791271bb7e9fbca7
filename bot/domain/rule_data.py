"""Reads plain rule data, as a YAML file holds it, into typed values; a mistake has a place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import TypeVar

from bot.domain.errors import RuleDataError

Member = TypeVar("Member", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class RuleData:
    """A value of a rule file and its place there. Every reader raises RuleDataError."""

    value: object
    place: str = ""

    def __getitem__(self, key: str) -> "RuleData":
        found = self.get(key)
        if found is None:
            raise RuleDataError(self.place, f"the key {key!r}", sorted(map(str, self._mapping())))
        return found

    def get(self, key: str) -> "RuleData | None":
        """Return the value under `key`, None when it is absent (a null is a value)."""
        mapping = self._mapping()
        return RuleData(mapping[key], self._below(key)) if key in mapping else None

    def items(self) -> Iterator[tuple[str, "RuleData"]]:
        """Yield the entries of a mapping."""
        for key, value in self._mapping().items():
            yield str(key), RuleData(value, self._below(str(key)))

    def rows(self) -> tuple["RuleData", ...]:
        """Return the elements of a list."""
        if not isinstance(self.value, list):
            raise RuleDataError(self.place, "a list", self.value)
        return tuple(RuleData(v, f"{self.place}[{i}]") for i, v in enumerate(self.value))

    def allow(self, *keys: str) -> None:
        """Refuse a mapping with any other key."""
        for key, entry in self.items():
            if key not in keys:
                raise RuleDataError(entry.place, f"one of {', '.join(keys)}", key)

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            raise RuleDataError(self.place, "a text", self.value)
        return self.value

    def integer(self) -> int:
        """Return a whole number that is not negative."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            raise RuleDataError(self.place, "a whole number from 0", self.value)
        return self.value

    def integer_or_none(self) -> int | None:
        """Return a whole number, or None for a null."""
        return None if self.value is None else self.integer()

    def flag(self) -> bool:
        """Return true or false."""
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
        """Return a date, or None for a null."""
        return None if self.value is None else self.day()

    def time_of_day(self) -> time:
        """Return a local time, written `09:15` or `09:15:00`."""
        try:
            return time.fromisoformat(self.text())
        except ValueError as error:
            raise RuleDataError(self.place, "a time like 09:15", self.value) from error

    def member(self, enum: type[Member]) -> Member:
        """Return the member of `enum` that is written here."""
        text = self.text()
        if text not in enum.__members__:
            raise RuleDataError(self.place, f"one of {', '.join(enum.__members__)}", text)
        return enum[text]

    def members(self, enum: type[Member]) -> tuple[Member, ...]:
        """Return a list of members of `enum`, in the order written."""
        return tuple(row.member(enum) for row in self.rows())

    def version(self, on: date | None) -> "RuleData":
        """Return the version of a dated rule that is in effect on a day (None: the newest).

        A dated rule is a list of mappings, each with `from` and, when it has ended, `until`
        (inclusive).
        """
        rows = self.rows()
        found = [row for row in rows if _is_in_effect(row, on)]
        if len(found) != 1:
            wanted = f"one version in effect {f'on {on}' if on else 'now'}"
            raise RuleDataError(self.place, wanted, f"{len(found)} of {len(rows)}")
        return found[0]

    def _mapping(self) -> Mapping[object, object]:
        if not isinstance(self.value, Mapping):
            raise RuleDataError(self.place, "a mapping", self.value)
        return self.value

    def _below(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def _is_in_effect(row: RuleData, on: date | None) -> bool:
    until = row["until"].day_or_none() if row.get("until") else None
    if on is None:
        return until is None
    return row["from"].day() <= on and (until is None or on <= until)
