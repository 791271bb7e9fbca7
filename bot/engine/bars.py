"""Bars: built from polled quotes, or taken whole from a history, never both for one series.

A bar belongs to the grid of its width (09:15:00, 09:16:00 …) and closes at the first event at or
after its end, also when no quote comes at the boundary. Its volume is the growth of the day's
volume. A span in which no quote was seen has no bar.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bot.domain.quote import Bar, Quote
from bot.engine.indicators import IndicatorSet
from bot.strategy import Indicator, Reads


@dataclass(slots=True)
class Forming:
    """A bar that quotes still change; `end` is the first instant after it."""

    start: datetime
    end: datetime
    open: int
    high: int
    low: int
    close: int
    volume: int


@dataclass(slots=True)
class BarSeries:
    """The bars of one symbol and width, and the indicators over them."""

    symbol: str
    width: timedelta
    indicators: IndicatorSet = field(default_factory=IndicatorSet)
    count: int = 0
    last: Bar | None = None
    is_recorded: bool = False
    """True once whole bars arrive from outside: quotes then build none."""
    forming: Forming | None = None
    _day_volume: int | None = None

    def take(self, bar: Bar) -> bool:
        """Add a closed bar; False, and nothing changes, when it is not newer than the last."""
        if self.last is not None and bar.start <= self.last.start:
            return False
        self.last = bar
        self.count += 1
        self.indicators.update(bar.close)
        return True

    def read(self, reads: Reads, name: str, period: int) -> Indicator:
        """Return an indicator, and note in `reads` that it was looked at."""
        value = reads[f"{name}({period})"] = self.indicators.read(name, period)
        return value

    def stop_building(self) -> None:
        """Whole bars have come: drop what quotes have begun."""
        self.is_recorded = True
        self.forming = None

    def add(self, at: datetime, quote: Quote) -> None:
        """Let a quote form the bar of its time. The bar before it must have been closed."""
        if self.is_recorded or quote.last <= 0:
            return
        before = quote.volume if self._day_volume is None else self._day_volume
        growth = max(0, quote.volume - before)
        self._day_volume = quote.volume
        price = quote.last
        if self.forming is None:
            start = grid_start(at, self.width)
            end = start + self.width
            self.forming = Forming(start, end, price, price, price, price, 0)
        forming = self.forming
        forming.high, forming.low = max(forming.high, price), min(forming.low, price)
        forming.close = price
        forming.volume += growth

    def close_if_due(self, at: datetime) -> Bar | None:
        """Return the bar that has ended by `at`, already taken into the series."""
        forming = self.forming
        if forming is None or at < forming.end:
            return None
        self.forming = None
        seconds = round(self.width.total_seconds())
        prices = forming.open, forming.high, forming.low
        bar = Bar(self.symbol, forming.start, seconds, *prices, forming.close, forming.volume)
        return bar if self.take(bar) else None


def grid_start(at: datetime, width: timedelta) -> datetime:
    """Return the start of the grid span that holds `at`."""
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return at - since % width
