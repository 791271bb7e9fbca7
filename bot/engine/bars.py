"""Bars: built from polled quotes, or taken whole from a history, never both for one series.

A bar belongs to the grid of its width (09:15:00, 09:16:00 …) and closes at the first event at or
after its end, also when no quote comes at the boundary. Its volume is the growth of the day's
volume. A span in which no quote was seen has no bar.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from bot.domain.quote import Bar, Quote
from bot.strategy import Indicator, Reads

if TYPE_CHECKING:
    from bot.engine.indicators import IndicatorSet

_FAR: Final = datetime.max.replace(tzinfo=UTC)


class Bars:
    """The series that strategies want, and `first_end`, when the first of their bars ends.

    So an event costs nothing for the bars of other symbols, nor for those that are still forming.
    """

    def __init__(self) -> None:
        self._of: dict[str, list[BarSeries]] = {}
        self._wanted: list[BarSeries] = []
        self.first_end = _FAR

    def want(self, symbol: str, width: timedelta) -> None:
        """Have bars of a symbol and a width, if there are none yet."""
        if self.series(symbol, width) is None:
            series = BarSeries(symbol, width)
            self._wanted.append(series)
            self._of.setdefault(symbol, []).append(series)

    def series(self, symbol: str, width: timedelta) -> "BarSeries | None":
        """Return the bars of a symbol and a width, None when nobody wants them."""
        return next((each for each in self._of.get(symbol, ()) if each.width == width), None)

    def has(self, symbol: str) -> bool:
        """Tell whether anybody wants bars of a symbol."""
        return symbol in self._of

    def add(self, at: datetime, quote: Quote) -> None:
        """Let a quote form the bars of its symbol."""
        for series in self._of[quote.symbol]:
            series.add(at, quote)
            if series.forming is not None:
                self.first_end = min(self.first_end, series.forming.end)

    def take_whole(self, series: "BarSeries", bar: Bar) -> bool:
        """Take a whole bar of a history; False when it is not newer than the last.

        From here on quotes build none in its series: what they have begun is dropped.
        """
        series.is_recorded = True
        if series.forming is not None:
            series.forming = None
            self.first_end = min(self._ends(), default=_FAR)
        return series.take(bar)

    def ended(self, at: datetime) -> "Iterator[tuple[BarSeries, Bar]]":
        """Yield each bar that has ended by `at`, taken into its series, in the order in which the
        series were wanted.
        """
        if at < self.first_end:
            return
        for series in self._wanted:
            bar = series.close_if_due(at)
            if bar is not None:
                yield series, bar
        self.first_end = min(self._ends(), default=_FAR)

    def next_end(self, after: datetime) -> datetime | None:
        """Return the first end of a forming bar after an instant."""
        if self.first_end > after:
            return None if self.first_end == _FAR else self.first_end
        return min((end for end in self._ends() if end > after), default=None)

    def _ends(self) -> Iterator[datetime]:
        return (each.forming.end for each in self._wanted if each.forming is not None)


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


def _no_indicators() -> "IndicatorSet":
    # TA-Lib and NumPy are 16 MB and 0.1 s: for those who want bars. An engine makes all its series
    # when it is made, so no hook waits for this.
    from bot.engine.indicators import IndicatorSet

    return IndicatorSet()


@dataclass(slots=True)
class BarSeries:
    """The bars of one symbol and width, and the indicators over them."""

    symbol: str
    width: timedelta
    indicators: "IndicatorSet" = field(default_factory=_no_indicators)
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
