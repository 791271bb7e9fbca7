"""Histories of what is quoted: bars between two instants, in the resolution asked for."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final, TypeVar

from bot.protocol.values.series import PriceBar
from bot.sandbox.library.asked import Asked
from bot.sandbox.library.days import Days, local_day, start_of
from bot.sandbox.library.figures import scaled
from bot.sandbox.library.walk import Bar, DayBar, grouped

INTRADAY_DAYS_MAX: Final = 60
"""Of a history in parts of a day the newest trading days of the range, at most so many."""
STEPS: Final = {
    "5": timedelta(minutes=5),
    "15": timedelta(minutes=15),
    "30": timedelta(minutes=30),
    "1H": timedelta(hours=1),
    "4H": timedelta(hours=4),
}
T = TypeVar("T")
SlotsOf = Callable[[date], Iterable[Bar]]


def span_of(asked: Asked) -> tuple[datetime, datetime]:
    """Return from and to of a history; raises HttpRefusal 400 when they are the wrong way round."""
    first, last = asked.instant("from"), asked.instant("to")
    assert first is not None, "the table of parameters requires both"
    assert last is not None, "the table of parameters requires both"
    if last < first:
        raise asked.bad("to: before from")
    return first, last


def in_span(asked: Asked, points: Sequence[T], day_of: Callable[[T], date]) -> list[T]:
    """Return the points whose day begins in the span."""
    first, last = span_of(asked)
    return [point for point in points if first <= start_of(day_of(point)) <= last]


def daily(asked: Asked, bars: Sequence[DayBar]) -> list[Bar]:
    """Return the days of the span as bars."""
    found = in_span(asked, bars, _day)
    return [Bar(start_of(bar.day), *bar[1:]) for bar in found]


def intraday(asked: Asked, days: Days, slots_of: SlotsOf, step: timedelta) -> list[Bar]:
    """Return the parts of the days of the span."""
    first, last = span_of(asked)
    known = days.between(local_day(first), min(local_day(last), asked.today))
    bars = [bar for day in known[-INTRADAY_DAYS_MAX:] for bar in grouped(slots_of(day), step)]
    return [bar for bar in bars if first <= bar.start <= last]


def price_bars(bars: Iterable[Bar], digits: int) -> tuple[PriceBar, ...]:
    """Return bars as the API writes them."""
    return tuple(
        PriceBar(
            bar.start,
            scaled(bar.open, digits),
            scaled(bar.high, digits),
            scaled(bar.low, digits),
            scaled(bar.close, digits),
            scaled(bar.volume, 0),
        )
        for bar in bars
    )


def closes_only(bars: Iterable[Bar], digits: int) -> tuple[PriceBar, ...]:
    """Return bars of closes alone."""
    return tuple(PriceBar(bar.start, close=scaled(bar.close, digits)) for bar in bars)


def _day(bar: DayBar) -> date:
    return bar.day
