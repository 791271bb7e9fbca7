"""Histories of what is quoted: bars between two instants, in the resolution asked for."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import Final, TypeVar

from bot.protocol.values.series import PriceBar
from bot.sandbox.library.asked import Asked
from bot.sandbox.library.days import Days, local_day, start_of
from bot.sandbox.library.figures import scaled
from bot.sandbox.library.walk import Bar, DayBar, grouped

INTRADAY_DAYS_MAX: Final = 60
"""Of a history in parts of a day the newest trading days of the range, at most so many."""
DAILY: Final = "1D"
_STEPS: Final = {
    "5": timedelta(minutes=5),
    "15": timedelta(minutes=15),
    "30": timedelta(minutes=30),
    "1H": timedelta(hours=1),
    "4H": timedelta(hours=4),
}
T = TypeVar("T")
SlotsOf = Callable[[date], Iterable[Bar]]


def in_span(asked: Asked, points: Sequence[T], day_of: Callable[[T], date]) -> list[T]:
    """Return the points whose day begins in the span."""
    first, last = asked.span()
    return [point for point in points if first <= start_of(day_of(point)) <= last]


def daily(asked: Asked, bars: Sequence[DayBar]) -> list[Bar]:
    """Return the days of the span as bars."""
    found = in_span(asked, bars, lambda bar: bar.day)
    return [Bar(start_of(bar.day), *bar[1:]) for bar in found]


def in_resolution(asked: Asked, bars: Sequence[DayBar], days: Days, slots_of: SlotsOf) -> list[Bar]:
    """Return the days of the span, or their parts of the length that `resolution` asks for."""
    if asked.query["resolution"] == DAILY:
        return daily(asked, bars)
    first, last = asked.span()
    known = days.between(local_day(first), min(local_day(last), asked.today))
    step = _STEPS[asked.query["resolution"]]
    found = (bar for day in known[-INTRADAY_DAYS_MAX:] for bar in grouped(slots_of(day), step))
    return [bar for bar in found if first <= bar.start <= last]


def price_bars(bars: Iterable[Bar], digits: int) -> tuple[PriceBar, ...]:
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
    return tuple(PriceBar(bar.start, close=scaled(bar.close, digits)) for bar in bars)
