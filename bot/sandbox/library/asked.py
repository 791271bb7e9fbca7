"""What a call of the library asks for: its path and its checked query, in the types they mean."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from bot.sandbox.errors import HttpRefusal
from bot.sandbox.library.days import local_day

_UNIX_S_MAX: Final = 4_102_444_800
"""The year 2100: behind everything that is known, and far from where a calendar ends."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question. `query` has its defaults and is good by the table of parameters; `bad` makes
    the 400 for what only the library can find wrong.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    at: datetime
    bad: Callable[[str], HttpRefusal]

    @property
    def symbol(self) -> str:
        """The symbol of the path, or of the query; its case does not matter."""
        return (self.path.get("symbol") or self.query["symbol"]).upper()

    @property
    def today(self) -> date:
        """The local date."""
        return local_day(self.at)

    def text(self, name: str) -> str | None:
        """Return a parameter, None when it was left out."""
        return self.query.get(name)

    def items(self, name: str) -> tuple[str, ...]:
        """Return a list parameter, empty when it was left out."""
        text = self.query.get(name, "")
        return tuple(item.strip() for item in text.split(",")) if text else ()

    def whole(self, name: str) -> int:
        """Return a whole number that is there or has a default."""
        return int(self.query[name])

    def number(self, name: str) -> Decimal | None:
        """Return a number, None when it was left out."""
        text = self.query.get(name)
        return None if text is None else Decimal(text)

    def day(self, name: str) -> date | None:
        """Return a day, None when it was left out."""
        text = self.query.get(name)
        return None if text is None else date.fromisoformat(text)

    def instant(self, name: str) -> datetime | None:
        """Return Unix seconds as an instant (the year 2100 for what is beyond it)."""
        text = self.query.get(name)
        return None if text is None else datetime.fromtimestamp(min(int(text), _UNIX_S_MAX), UTC)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A value of which the wire gets less: the elements of `items` have `fields` alone."""

    value: object
    items: str
    fields: frozenset[str]

    def narrow(self, written: Any) -> Mapping[str, object]:
        """Leave out of the encoded value what was not chosen; what was chosen stays, also null."""
        kept = [
            {name: value for name, value in each.items() if name in self.fields}
            for each in written[self.items]
        ]
        return {**written, self.items: kept}


Answer = Callable[[Asked], object]
"""Answers one call with the value that its codec encodes, or that value Narrowed. Raises
HttpRefusal.
"""
