"""Bars: built from polled quotes, following those of a history; or received whole, one by one.

A bar lies on the grid of its width (`domain/quote.py`) and closes at the first event at or after
its end, even without a quote at the boundary. A quote that was requested before that end and comes
after it is of no bar: the next one shows what has traded. Its volume is the growth of the day's
volume. It opens with its first trade; without a trade the earlier price counts. A span in which no
quote was seen has no bar. A bar seen only in part has a true close, which the indicators use, but
it wakes no strategy.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from bot.domain.quote import Bar, Quote, span_of
from bot.engine.settings import BARS_KEPT
from bot.strategy import Indicator, Reads

if TYPE_CHECKING:
    from bot.engine.indicators import IndicatorSet

_FAR: Final = datetime.max.replace(tzinfo=UTC)
LATE_PART: Final = 6
"""A bar whose first quote comes later than a sixth of its width was seen only in part, unless it
was watched before: a feed polls at least this often per bar.
"""
EX_DATES_MAX: Final = 8
"""More than occur in a run while earlier bars still matter."""
NIGHT_MIN: Final = timedelta(hours=6)
"""Longer than any pause within a day: what is seen after it is of another day."""


REACH: Final = {"sma": 1, "ema": 8, "rsi": 16}
"""How many times its period an indicator depends on: in an average with infinite memory, earlier
values weigh less than a ten-millionth (e^-16).
"""


def bars_of(read: str) -> int:
    """Return how many bars a read like `sma(20)` needs for a value.

    RSI needs one more than its period, for its first change.
    """
    return int(read.partition("(")[2][:-1]) + read.startswith("rsi")


def reach_of(read: str) -> int:
    """Return after how many bars their beginning no longer matters, plus one for the previous
    value.
    """
    return min(BARS_KEPT, bars_of(read) * REACH[read.partition("(")[0]] + 1)


class Bars:
    """The series that strategies want, and `first_end`, the first end of one of their bars.

    So an event costs nothing for bars of other symbols, or for bars that are still forming.
    """

    def __init__(self) -> None:
        self._of: dict[str, list[BarSeries]] = {}
        self._wanted: list[BarSeries] = []
        self.first_end = _FAR

    def want(self, symbol: str, width: timedelta) -> None:
        """Create a series of a symbol and a width, unless it exists."""
        if self.series(symbol, width) is None:
            series = BarSeries(symbol, width)
            self._wanted.append(series)
            self._of.setdefault(symbol, []).append(series)

    def series(self, symbol: str, width: timedelta) -> "BarSeries | None":
        """Return the bars of a symbol and a width, None if nobody wants them."""
        return next((each for each in self._of.get(symbol, ()) if each.width == width), None)

    def of(self, symbol: str) -> "Sequence[BarSeries]":
        """Return all bars of a symbol."""
        return self._of.get(symbol, ())

    def has(self, symbol: str) -> bool:
        """Return whether anybody wants bars of a symbol."""
        return symbol in self._of

    def add(self, at: datetime, quote: Quote) -> None:
        """Apply a quote to the bars of its symbol."""
        for series in self._of[quote.symbol]:
            series.add(at, quote)
            if series.forming is not None:
                self.first_end = min(self.first_end, series.forming.end)

    def look(self, at: datetime, quote: Quote, *, forms: bool) -> None:
        """Note the day's volume from a quote outside continuous trading. A quote that `forms` a bar
        does so only if the volume has grown.
        """
        for series in self._of[quote.symbol]:
            if forms and series.has_grown(quote):
                self.add(at, quote)
                return
            series.grown(at, quote)

    def seed(
        self, series: "BarSeries", bars: Sequence[Bar], forming: Bar | None, at: datetime
    ) -> None:
        """Start a series with the bars of a history, keeping those built from quotes since.

        A bar that was forming when the history was requested, and is over `at`, is incomplete.
        """
        is_over = forming is not None and span_of(forming.start, series.width)[1] <= at
        series.seed(bars, None if is_over else forming)
        self.first_end = min(self._ends(), default=_FAR)

    def take_whole(self, series: "BarSeries", bar: Bar) -> bool:
        """Take a whole bar of a history; return False if it is not newer than the last.

        From here on quotes build no bars in its series, and a bar they have begun is dropped.
        """
        series.is_recorded, series.seen_from = True, None
        if series.forming is not None:
            series.forming = None
            self.first_end = min(self._ends(), default=_FAR)
        return series.take(bar)

    def ended(self, at: datetime) -> "Iterator[tuple[BarSeries, Bar]]":
        """Yield each bar that has ended by `at`, added to its series, in the order in which the
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
    """A bar that quotes still change; `end` is the first instant after it. `seen_from` is when
    watching began, for a bar seen only in part.
    """

    start: datetime
    end: datetime
    open: int
    high: int
    low: int
    close: int
    volume: int
    seen_from: datetime | None = None
    has_traded: bool = True
    """Until its first trade, a bar has the earlier price."""


def _no_indicators() -> "IndicatorSet":
    # TA-Lib and NumPy cost 16 MB and 0.1 s, so they are imported only if bars are wanted. An engine
    # creates all its series when it is created, so no hook waits for this.
    from bot.engine.indicators import IndicatorSet

    return IndicatorSet()


def _seconds(instant: datetime) -> int:
    return int(instant.timestamp())


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
    asked: int = 0
    """How many bars were requested from a history; 0: none."""
    history: str = ""
    """The result of that, in words."""
    is_asked_again: bool = False
    """Whether it could not be read."""
    late_ex_date: date | None = None
    """Discovered only after these bars began: until they start over, nobody decides on them."""
    doubt: str = ""
    """Why earlier bars may be on another price level, which cannot be determined now:
    no entries.
    """
    reach: int = 0
    """How many bars matter for what strategies have read so far."""
    seen_from: datetime | None = None
    """Since when the last bar was watched, if it was seen only in part."""
    _volume: int | None = None
    _looked_at: datetime | None = None
    went_ex: date | None = None
    """The last day on which it was checked whether earlier bars had to be adjusted."""
    gone_ex: "deque[tuple[datetime, float]]" = field(
        default_factory=lambda: deque(maxlen=EX_DATES_MAX)
    )
    """The midnights of ex-dates in this run, and the factors for earlier closes."""
    _read: set[str] = field(default_factory=set)
    _starts: "array[int]" = field(default_factory=lambda: array("q"))
    """The starts of the stored bars, in seconds since 1970, and their closes: 16 bytes each; a
    hundred symbols keep half a million.
    """
    _closes: "array[int]" = field(default_factory=lambda: array("q"))

    def take(self, bar: Bar) -> bool:
        """Add a closed bar; return False, changing nothing, if it is not newer than the last."""
        if self.last is not None and bar.start <= self.last.start:
            return False
        self.last = bar
        self._keep(_seconds(bar.start), bar.close)
        return True

    def _keep(self, start: int, close: int) -> None:
        self.count += 1
        self._starts.append(start)
        self._closes.append(close)
        del self._starts[:-BARS_KEPT], self._closes[:-BARS_KEPT]
        self.indicators.update(close)

    def seed(self, bars: Sequence[Bar], forming: Bar | None) -> None:
        """Start over with the bars of a history and our own later ones.

        `forming` is the history's part of the unfinished bar: what we have not seen of it.
        """
        after = bisect_right(self._starts, _seconds(bars[-1].start)) if bars else 0
        own, newest = list(zip(self._starts, self._closes, strict=True))[after:], self.last
        self.went_ex = None
        self.indicators, self.count, self.last = _no_indicators(), 0, None
        del self._starts[:], self._closes[:]
        for bar in bars:
            self.take(bar)
        for known in own:
            self._keep(*known)
        if own:
            self.last = newest
        if forming is None:
            return
        now = self.forming
        start, end = span_of(forming.start, self.width)
        if now is None and not (self.last is not None and self.last.start >= start):
            prices = (forming.open, forming.high, forming.low, forming.close)
            has_traded = forming.volume > 0
            self.forming = Forming(start, end, *prices, forming.volume, has_traded=has_traded)
        elif now is not None and now.start == start:
            if not now.has_traded:
                now.high, now.low = forming.high, forming.low
            now.open, now.seen_from = forming.open, None
            now.has_traded = now.has_traded or forming.volume > 0
            now.high, now.low = max(now.high, forming.high), min(now.low, forming.low)
            now.volume = max(now.volume, forming.volume)

    def read(self, reads: Reads, name: str, period: int) -> Indicator:
        """Return an indicator, and record the read in `reads`."""
        said = f"{name}({period})"
        value = reads[said] = self.indicators.read(name, period)
        if said not in self._read:
            self._read.add(said)
            self.reach = max(self.reach, reach_of(said))
        return value

    def last_before(self, instant: datetime) -> tuple[datetime, int] | None:
        """Return start and close of the newest bar that began before an instant."""
        if self.last is not None and self.last.start < instant:
            return self.last.start, self.last.close
        found = bisect_left(self._starts, _seconds(instant)) - 1
        if found < 0:
            return None
        return datetime.fromtimestamp(self._starts[found], UTC), self._closes[found]

    def go_ex(self, midnight: datetime, ratio: float | None) -> int:
        """Multiply the indicators' data before a day by a ratio, or drop it if the ratio is not
        known; return the number of bars affected.
        """
        earlier = bisect_left(self._starts, _seconds(midnight))
        keep = len(self._starts) - earlier
        before = min(self.count, BARS_KEPT) - keep  # not all are stored while bars are passed over
        self.indicators = self.indicators.begun_again(keep, ratio)
        if ratio is None:
            del self._starts[:earlier], self._closes[:earlier]
            self.count = keep
        return before

    def has_grown(self, quote: Quote) -> bool:
        """Return whether anything was matched since the previous quote."""
        return self._volume is not None and (quote.volume or 0) > self._volume

    def grown(self, at: datetime, quote: Quote) -> int:
        """Return by how much the day's volume has grown since the quote before.

        A day begins with zero; the first quote of a run says nothing about the volume before it,
        and one that does not say the volume nothing about its growth.
        """
        before, looked_at, volume = self._volume, self._looked_at, quote.volume
        self._looked_at = at
        if looked_at is not None and at - looked_at > NIGHT_MIN:
            before = 0
        self._volume = before if volume is None else volume
        return 0 if before is None or volume is None else max(0, volume - before)

    def add(self, at: datetime, quote: Quote) -> None:
        """Apply a quote to the bar of its time. The bar before it must have been closed."""
        if self.is_recorded or quote.last <= 0:
            return
        looked_at, price, forming = self._looked_at, quote.last, self.forming
        start, end = (forming.start, forming.end) if forming else span_of(at, self.width)
        if forming is None and self.last is not None and start <= self.last.start:
            return  # it comes after its bar has closed: the next quote shows its growth too
        growth = self.grown(at, quote)
        if forming is None:
            forming = self.forming = Forming(start, end, price, price, price, price, 0)
            is_watched = looked_at is not None and at - looked_at <= NIGHT_MIN
            forming.has_traded = not is_watched and quote.volume != 0
            if not is_watched and quote.volume != 0 and (at - start) * LATE_PART > self.width:
                forming.seen_from = at
        if not forming.has_traded and (growth or price != forming.close):
            forming.has_traded = True
            forming.open = forming.high = forming.low = price
        forming.high, forming.low = max(forming.high, price), min(forming.low, price)
        forming.close = price
        forming.volume += growth

    def close_if_due(self, at: datetime) -> Bar | None:
        """Return the bar that has ended by `at`, already added to the series."""
        forming = self.forming
        if forming is None or at < forming.end:
            return None
        self.forming, self.seen_from = None, forming.seen_from
        seconds = round(self.width.total_seconds())
        prices = forming.open, forming.high, forming.low
        bar = Bar(self.symbol, forming.start, seconds, *prices, forming.close, forming.volume)
        return bar if self.take(bar) else None
