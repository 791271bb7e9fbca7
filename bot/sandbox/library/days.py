"""The days of the library: trading days as far back as its histories reach."""

from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Final

from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import EXCHANGE_TZ

HISTORY_STARTS: Final = date(2021, 1, 1)
"""Nothing of the library is older."""
SATURDAY: Final = 5
_STARTS_KEPT: Final = 4_096


class Days:
    """Trading days of the calendar; before the years that it covers, weekdays."""

    def __init__(self, calendar: TradingCalendar) -> None:
        self._calendar = calendar

    @cached_property
    def all(self) -> tuple[date, ...]:
        """Every trading day since the histories start, also those to come."""
        covered = date(min(self._calendar.years), 1, 1)
        known = (day for day in self._calendar.trading_days if day >= HISTORY_STARTS)
        return (*weekdays(HISTORY_STARTS, covered - timedelta(days=1)), *known)

    def is_open(self, day: date) -> bool:
        return self.last(day) == day

    def last(self, day: date) -> date:
        """Return the day itself when it is a trading day, else the one before it."""
        return self.all[max(0, bisect_right(self.all, day) - 1)]

    def before(self, day: date, number: int = 1) -> date:
        """Return the trading day so many before a day; at the far end the first."""
        return self.all[max(0, bisect_left(self.all, day) - number)]

    def between(self, first: date, last: date) -> tuple[date, ...]:
        """Return the trading days of a range, both ends included."""
        return self.all[bisect_left(self.all, first) : bisect_right(self.all, last)]


def every_day(first: date, last: date) -> list[date]:
    """Return all days of a range, both ends included."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def weekdays(first: date, last: date) -> list[date]:
    return [day for day in every_day(first, last) if day.weekday() < SATURDAY]


def local_day(at: datetime) -> date:
    """Return the date of an instant in Vietnam."""
    return at.astimezone(EXCHANGE_TZ).date()


@lru_cache(_STARTS_KEPT)
def start_of(day: date) -> datetime:
    """Return the midnight, in Vietnam, with which a day begins; a daily bar starts there."""
    return datetime.combine(day, time(), EXCHANGE_TZ).astimezone(UTC)


def months_before(day: date, months: int) -> date:
    """Return the same day some months earlier; at most the 28th, which every month has."""
    index = day.year * 12 + day.month - 1 - months
    return day.replace(year=index // 12, month=index % 12 + 1, day=min(day.day, 28))
