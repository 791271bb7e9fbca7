"""Assets traded elsewhere or only valued: currencies, coins, commodities, bonds, foreign indices
and shares, funds.

Each is a random walk that continues while the sandbox runs: the days before the scenario lead up to
the table's reference; from then on the walk continues, and today is shown up to the current time.
The quote is the last point of the history.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Final, TypedDict

from bot.domain.local_time import local_date
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library import walk
from bot.sandbox.library.answer import maybe, percent, scaled, units_of
from bot.sandbox.library.walk import HISTORY_STARTS, Days, Row, every_day, table, weekdays

DAYS_AHEAD: Final = 400
"""How long a sandbox may run before its walks end."""
WALKS_START: Final = date(2023, 1, 1)
"""The histories of the tables' rows are shorter than those of stocks."""
_LONGEST_REST: Final = timedelta(days=30)
"""No market is closed for longer."""
_BOND_MOVE: Final = 0.0008
_YIELD_MOVE: Final = 0.006
_SHARE_MOVE: Final = 0.015

DaysBetween = Callable[[date, date], Sequence[date]]
_ELSEWHERE: Final[Mapping[str, DaysBetween]] = {
    "crypto": every_day,
    "forex": weekdays,
    "commodity": weekdays,
    "index": weekdays,
    "foreign_stock": weekdays,
}
"""The trading days of assets traded elsewhere, by group; the others use our own days."""
_TABLE_OF_GROUP: Final[Mapping[str, str]] = {"bond": "bonds", "foreign_stock": "foreign_stocks"}


class DayFigures(TypedDict):
    """The figures that most quotes share."""

    open: Decimal | None
    high: Decimal | None
    low: Decimal | None
    reference: Decimal
    change: Decimal
    change_percent: Decimal | None


@dataclass(frozen=True, slots=True)
class Day:
    """The latest day of an asset in units; `opened` is None before its first point."""

    day: date
    reference: int
    price: int
    opened: int | None
    high: int | None
    low: int | None
    volume: int

    @property
    def change(self) -> int:
        return self.price - self.reference

    @property
    def change_percent(self) -> Decimal | None:
        return percent(self.change, self.reference)

    def figures(self, digits: int) -> DayFigures:
        return DayFigures(
            open=maybe(self.opened, digits),
            high=maybe(self.high, digits),
            low=maybe(self.low, digits),
            reference=scaled(self.reference, digits),
            change=scaled(self.change, digits),
            change_percent=self.change_percent,
        )


@dataclass(frozen=True)
class Asset:
    """A table row with a random walk, in units of 10^-digits; `stream_name` names its random
    stream.

    `reference` is its close before the scenario's first day.
    """

    row: Row
    stream_name: str
    digits: int
    reference: int
    nature: walk.Nature
    hours: walk.Hours
    seed: int
    first_day: date
    days_between: DaysBetween
    starts: date = HISTORY_STARTS

    @property
    def symbol(self) -> str:
        return self.row["symbol"]

    @cached_property
    def _past(self) -> tuple[walk.DayBar, ...]:
        days = self.days_between(self.starts, self.first_day - timedelta(days=1))
        return walk.walk_until(
            tuple(days), self.reference, self.nature, self.seed, self.stream_name
        )

    @cached_property
    def _ahead(self) -> tuple[walk.DayBar, ...]:
        days = self.days_between(self.first_day, self.first_day + timedelta(days=DAYS_AHEAD))
        source = walk.stream(self.seed, "ahead", self.stream_name)
        return tuple(walk.days_from(days, self.reference, self.nature, source))

    def slots(self, day: date, at: datetime) -> tuple[walk.SimulatedBar, ...]:
        """Return the parts of a day that are finished at `at`."""
        bar = next((bar for bar in (*self._past, *self._ahead) if bar.day == day), None)
        if bar is None:
            return ()
        source = walk.stream(self.seed, "slots", self.stream_name, day)
        parts = walk.within(bar, self.hours, self.nature, source)
        return tuple(part for part in parts if part.start + self.hours.slot <= at)

    def bars(self, at: datetime) -> list[walk.DayBar]:
        """Return every day, oldest first; today as far as it has gone."""
        today = local_date(at)
        over = [bar for bar in self._ahead if bar.day < today]
        so_far = walk.merged(self.slots(today, at), at) if today >= self.first_day else None
        running = [] if so_far is None else [walk.DayBar(today, *so_far[1:])]
        return [*self._past, *over, *running]

    def now(self, at: datetime) -> Day:
        """Return the latest day: that of the last bar, or before its first trade, at the previous
        close.
        """
        bars, today = self.bars(at), local_date(at)
        last, day = bars[-1], self.days_between(today - _LONGEST_REST, today)[-1]
        if last.day != day:
            return Day(day, last.close, last.close, None, None, None, 0)
        before = bars[-2].close if len(bars) > 1 else last.open
        return Day(day, before, last.close, last.open, last.high, last.low, last.volume)


class Assets:
    """All assets, by group and symbol, created on first use."""

    def __init__(self, days: Days, *, seed: int, first_day: date) -> None:
        self.days = days
        self._seed = seed
        self._first_day = first_day
        self._made: dict[tuple[str, str], Asset] = {}

    def rows(self, group: str) -> tuple[Row, ...]:
        if group in _TABLE_OF_GROUP:
            return table(_TABLE_OF_GROUP[group])
        return tuple(row for row in table("assets") if row["kind"] == group)

    def find(self, group: str, symbol: str) -> Asset | None:
        """Return one of a group, None for an unknown symbol."""
        if (found := self._made.get((group, symbol))) is not None:
            return found
        row = next((row for row in self.rows(group) if row["symbol"] == symbol), None)
        if row is None:
            return None
        digits, reference, nature = _walk_of(group, row)
        made = self._made[group, symbol] = Asset(
            row,
            stream_name=symbol,
            digits=digits,
            reference=units_of(reference, digits),
            nature=nature,
            hours=walk.ROUND_THE_CLOCK if group in _ELSEWHERE else walk.EXCHANGE_HOURS,
            seed=self._seed,
            first_day=self._first_day,
            days_between=_ELSEWHERE.get(group, self.days.between),
            starts=WALKS_START,
        )
        return made

    def get(self, group: str, symbol: str) -> Asset:
        """Return one of a group; raises HttpRefusal 404."""
        found = self.find(group, symbol)
        if found is None:
            raise not_found()
        return found


def _walk_of(group: str, row: Row) -> tuple[int, str, walk.Nature]:
    """Return digits, reference and nature of a row; the walk of a bond without a price is its
    yield.
    """
    match group:
        case "bond" if not row["reference"]:
            return 3, row["yield"], walk.Nature(_YIELD_MOVE, 0)
        case "bond":
            return 0, row["reference"], walk.Nature(_BOND_MOVE, int(row["volume"]))
        case "foreign_stock":
            return 2, row["reference"], walk.Nature(_SHARE_MOVE, int(row["volume"]))
        case _:
            nature = walk.Nature(float(row["daily"]), int(row["volume"]))
            return int(row["digits"]), row["reference"], nature
