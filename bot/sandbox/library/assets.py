"""What is traded elsewhere, or only valued: a walk that goes on while the sandbox plays.

Days before the scenario's lead to the reference of the table; from that day on the walk goes on,
and today is shown as far as its clock has come. The quote is the last point of the history.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Final

from bot.sandbox.library.days import HISTORY_STARTS, local_day
from bot.sandbox.library.walk import (
    Bar,
    DayBar,
    Hours,
    Nature,
    days_from,
    merged,
    stream,
    walk_until,
    within,
)

DAYS_AHEAD: Final = 400
"""How long a sandbox may play on before a walk stands still."""

DaysBetween = Callable[[date, date], Sequence[date]]


@dataclass(frozen=True)
class Walked:
    """One such thing. `reference` is its close before the scenario's first day, in units."""

    symbol: str
    reference: int
    nature: Nature
    hours: Hours
    seed: int
    first_day: date
    days_between: DaysBetween
    starts: date = HISTORY_STARTS

    @cached_property
    def _past(self) -> tuple[DayBar, ...]:
        days = self.days_between(self.starts, self.first_day - timedelta(days=1))
        return walk_until(tuple(days), self.reference, self.nature, self.seed, self.symbol)

    @cached_property
    def _ahead(self) -> tuple[DayBar, ...]:
        days = self.days_between(self.first_day, self.first_day + timedelta(days=DAYS_AHEAD))
        source = stream(self.seed, "ahead", self.symbol)
        return tuple(days_from(days, self.reference, self.nature, source))

    def slots(self, day: date, at: datetime) -> tuple[Bar, ...]:
        """Return the parts of a day that are over at `at`."""
        bar = next((bar for bar in (*self._past, *self._ahead) if bar.day == day), None)
        if bar is None:
            return ()
        source = stream(self.seed, "slots", self.symbol, day)
        parts = within(bar, self.hours, self.nature, source)
        return tuple(part for part in parts if part.start + self.hours.slot <= at)

    def bars(self, at: datetime) -> list[DayBar]:
        """Return every day, oldest first; today as far as it has come."""
        today = local_day(at)
        over = [bar for bar in self._ahead if bar.day < today]
        so_far = merged(self.slots(today, at), at) if today >= self.first_day else None
        running = [] if so_far is None else [DayBar(today, *so_far[1:])]
        return [*self._past, *over, *running]


@dataclass(frozen=True, slots=True)
class Day:
    """The latest day of something in units; `opened` is None before its first point."""

    day: date
    reference: int
    price: int
    opened: int | None
    high: int | None
    low: int | None
    volume: int

    @property
    def change(self) -> int:
        """Price less reference."""
        return self.price - self.reference


def latest(bars: Sequence[DayBar], day: date) -> Day:
    """Return the quote that fits the days, on its latest `day`: that of the last bar, or, before
    the first trade of that day, the close before.
    """
    last = bars[-1]
    if last.day != day:
        return Day(day, last.close, last.close, None, None, None, 0)
    before = bars[-2].close if len(bars) > 1 else last.open
    return Day(day, before, last.close, last.open, last.high, last.low, last.volume)
