"""Bars as columns: provided by every store, used by every backtest, warm-up and report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from bot.domain.local_time import instant_of
from bot.domain.quote import Bar, span_of, width_name

CHUNK_BARS: Final = 100_000
"""At most this many bars of one symbol are held at once: 6 MB."""
_SOME_DAY: Final = date(2026, 1, 1)
"""Any day after June 1975: until then Saigon's clocks were an hour ahead of today's."""

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BarColumns:
    """Bars of one symbol and width, oldest first, each time once. Columns are equally long.

    `start` is Unix seconds, prices are VND as quoted that day (never adjusted) or hundredths of an
    index's points, volume is shares.
    """

    symbol: str
    seconds: int
    start: Column
    open: Column
    high: Column
    low: Column
    close: Column
    volume: Column

    def __len__(self) -> int:
        return len(self.start)

    def bars(self) -> Iterator[Bar]:
        """Yield the rows as the domain's bars, in whole numbers."""
        columns = (self.open, self.high, self.low, self.close, self.volume)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for start, row in zip(self.start.tolist(), rows, strict=True):
            yield Bar(self.symbol, datetime.fromtimestamp(start, UTC), self.seconds, *row)


@dataclass(frozen=True, slots=True)
class DayFrame:
    """What the exchange fixed for one day of a symbol, as far as the data have it; VND.

    `ex_ratio`: the factor for the previous close on an ex-date, None on other days.
    """

    reference: int | None = None
    ceiling: int | None = None
    floor: int | None = None
    ex_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Trading time of a symbol without data, in words a person can act on."""

    symbol: str
    first: date
    last: date
    what: str


class BarSource(Protocol):
    """A source of bars of one width: a folder of files, the store, a list in a test."""

    @property
    def width(self) -> timedelta: ...

    def symbols(self) -> tuple[str, ...]:
        """Return the symbols that have bars, sorted."""
        ...

    def span(self, symbol: str) -> tuple[date, date] | None:
        """Return the first and last local day with a bar; None without one."""
        ...

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        """Yield the bars of local days `first` to `last`, in order, at most CHUNK_BARS at once."""
        ...

    def frames(self, symbol: str, first: date, last: date) -> Mapping[date, DayFrame]:
        """Return the known references and bands by day, without the days of which none is known."""
        ...

    def gaps(self, symbol: str, first: date, last: date) -> tuple[Gap, ...]:
        """Return what is missing: trading days without a bar, days that end early."""
        ...


@lru_cache(maxsize=10_000)
def span_in_day(second: int, width: int) -> tuple[int, int]:
    """Return start and end, in seconds of the local day, of the bar of a width."""
    midnight = instant_of(_SOME_DAY, time())
    start, end = span_of(midnight + timedelta(seconds=second), timedelta(seconds=width))
    return round((start - midnight).total_seconds()), round((end - midnight).total_seconds())


def outlasts_span(start: int, end: int, width: int) -> bool:
    """Return whether a bar, in seconds of the local day, lasts longer than the span in which it
    begins: strategies would see it before its end.
    """
    return end > span_in_day(start, width)[1]


def off_grid(width: int) -> str:
    """Return what is wrong with a bar that lasts longer than its span, and what to do."""
    name = width_name(timedelta(seconds=width))
    text = f"a bar of {name} from here on outlasts the span of the grid (from 09:00, from 13:00)"
    return f"{text} that it is shown for: take bars that begin on that grid"
