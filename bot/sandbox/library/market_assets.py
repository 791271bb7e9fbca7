"""Currencies, coins, commodities, foreign indices and shares, bonds: one walk for each row of the
tables, made when it is first asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.assets import Day, DaysBetween, Walked, latest
from bot.sandbox.library.days import Days, local_day
from bot.sandbox.library.figures import units_of
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import EXCHANGE_HOURS, ROUND_THE_CLOCK, DayBar, Nature

WALKS_START: Final = date(2023, 1, 1)
"""Their histories are shorter than those of stocks."""
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5
_LONGEST_REST: Final = timedelta(days=30)
"""No market rests longer."""
_BOND_MOVE: Final = 0.0008
_YIELD_MOVE: Final = 0.006
_SHARE_MOVE: Final = 0.015
_YIELD_DIGITS: Final = 3
_DOLLAR_DIGITS: Final = 2


@dataclass(frozen=True, slots=True)
class Asset:
    """A row of a table and its walk, in units of 10^-digits."""

    row: Row
    digits: int
    walked: Walked
    days: Days

    @property
    def symbol(self) -> str:
        """Its symbol."""
        return self.row["symbol"]

    @property
    def has_closes_only(self) -> bool:
        """Whether its history has nothing but closes."""
        return bool(self.row.get("closes"))

    def bars(self, at: datetime) -> list[DayBar]:
        """Return its days."""
        return self.walked.bars(at)

    def now(self, at: datetime) -> Day:
        """Return its latest day."""
        today = local_day(at)
        traded = self.walked.days_between(today - _LONGEST_REST, today)
        return latest(self.bars(at), traded[-1])


class Assets:
    """All of them, by group and symbol."""

    def __init__(self, days: Days, *, seed: int, first_day: date) -> None:
        self._days = days
        self._seed = seed
        self._first_day = first_day
        self._made: dict[tuple[str, str], Asset] = {}

    def rows(self, group: str) -> tuple[Row, ...]:
        """Return the rows of a group, in their order."""
        if group in _TABLE_OF_GROUP:
            return table(_TABLE_OF_GROUP[group])
        return tuple(row for row in table("assets") if row["kind"] == group)

    def find(self, group: str, symbol: str) -> Asset | None:
        """Return one of a group, None when there is none of that symbol."""
        if (found := self._made.get((group, symbol))) is not None:
            return found
        row = next((row for row in self.rows(group) if row["symbol"] == symbol), None)
        if row is None:
            return None
        made = self._made[group, symbol] = self._asset(group, row)
        return made

    def get(self, group: str, symbol: str) -> Asset:
        """Return one of a group; raises HttpRefusal 404."""
        found = self.find(group, symbol)
        if found is None:
            raise not_found()
        return found

    def _asset(self, group: str, row: Row) -> Asset:
        digits, text, nature = _MANNER[group](row)
        walked = Walked(
            symbol=row["symbol"],
            reference=units_of(text, digits),
            nature=nature,
            hours=ROUND_THE_CLOCK if group in _ELSEWHERE else EXCHANGE_HOURS,
            seed=self._seed,
            first_day=self._first_day,
            days_between=_ELSEWHERE.get(group, self._days.between),
            starts=WALKS_START,
        )
        return Asset(row, digits, walked, self._days)


def every_day(first: date, last: date) -> Sequence[date]:
    """Return all days of a range."""
    return [first + number * _DAY for number in range((last - first).days + 1)]


def weekdays(first: date, last: date) -> Sequence[date]:
    """Return the days of a range but Saturdays and Sundays."""
    return [day for day in every_day(first, last) if day.weekday() < _SATURDAY]


Manner = tuple[int, str, Nature]


def _of_asset(row: Row) -> Manner:
    nature = Nature(float(row["daily"]), int(row["volume"]))
    return int(row["digits"]), row["reference"], nature


def _of_bond(row: Row) -> Manner:
    if not row["reference"]:
        return _YIELD_DIGITS, row["yield"], Nature(_YIELD_MOVE, 0)
    return 0, row["reference"], Nature(_BOND_MOVE, int(row["volume"]))


def _of_foreign_stock(row: Row) -> Manner:
    return _DOLLAR_DIGITS, row["reference"], Nature(_SHARE_MOVE, int(row["volume"]))


_ELSEWHERE: Final[Mapping[str, DaysBetween]] = {
    "crypto": every_day,
    "forex": weekdays,
    "commodity": weekdays,
    "index": weekdays,
    "foreign_stock": weekdays,
}
"""On which days what is traded elsewhere trades, by group; the others keep our own days."""
_TABLE_OF_GROUP: Final[Mapping[str, str]] = {"bond": "bonds", "foreign_stock": "foreign_stocks"}
_MANNER: Final[Mapping[str, Callable[[Row], Manner]]] = {
    "forex": _of_asset,
    "crypto": _of_asset,
    "commodity": _of_asset,
    "index": _of_asset,
    "bond": _of_bond,
    "foreign_stock": _of_foreign_stock,
}
