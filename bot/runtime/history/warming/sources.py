"""Earlier bars from the broker's history call and from the store, as polling would have built them.

The call has 5, 15 and 30 minutes, hours and days. Wider bars are built from its minutes here, as it
is not documented where the grid of its hours begins; narrower ones do not exist. It has no row for
a span without a trade, while polls see the last price: within a part of a day that has rows, such
spans become flat bars. Implausible data invalidates the whole answer. The store, filled by `bot
data`, is the last source.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from bot.broker.client import BrokerClient
from bot.config.problems import OperatorMistake
from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.quote import DAY, Bar, LastClose, WentEx, span_of, widened, width_name
from bot.domain.rulebook import Rulebook
from bot.engine.findings import JUMP_MAX
from bot.engine.market import BAR_PHASES
from bot.journal.writing.thread import in_time
from bot.protocol.calls import CODECS
from bot.runtime.closes import FIGURE_MAX, price_unit
from bot.runtime.history.warming.warm_up import Earlier, UnusableHistory

if TYPE_CHECKING:  # slow to import, and not needed before the first read
    from bot.protocol.values.series import PriceHistory

MINUTES: Final = (30, 15, 5)
_DAILY: Final = "1D"
_OPENS, _ENDS = time(9), time(15, 5)
"""Some histories stamp trades of the close at 15:00."""
_PARTS: Final = (("morning", time(9), time(12)), ("afternoon", time(12), time(15, 5)))
_DAYS_MORE: Final = 2
_EARLY: Final = timedelta(minutes=2)
"""A row stamped this little before trading begins is of its first bar, as in a backtest."""
_INSTANT: Final = timedelta(microseconds=1)
_AHEAD: Final = timedelta(minutes=1)
"""More than the broker's clock may be ahead plus the time of an answer."""
_WEEK: Final = timedelta(days=7)
_HOLIDAYS: Final = 2 * _WEEK
"""Allows for Tet."""
_TRADED_MINUTES: Final = 255
"""Minutes of trading in a day, with its auctions: 09:00 to 11:30 and 13:00 to 14:45."""
FOLDER: Final = "data"
"""The store's folder in the state directory."""
READ_S: Final = 10.0
CLOSE_WITHIN: Final = timedelta(days=14)
"""Longer than any closure of the exchanges: an older close is not that of the previous day."""


def resolution_of(width: timedelta) -> tuple[str, timedelta] | None:
    """Return the resolution to request for building bars of a width, None if there is none."""
    if width == DAY:
        return _DAILY, DAY
    for minutes in MINUTES:
        if width % timedelta(minutes=minutes) == timedelta(0):
            return str(minutes), timedelta(minutes=minutes)
    return None


@dataclass(frozen=True, slots=True)
class BrokerBars:
    """Reads the history call; `closes` are the last known ones, by symbol."""

    client: BrokerClient
    rulebook: Rulebook
    closes: dict[str, LastClose]

    name: ClassVar = "the broker's history"

    def asks(self, width: timedelta) -> bool:
        return resolution_of(width) is not None

    def give_again(self, symbols: Collection[str]) -> None:
        """Nothing is cached here: each read asks again."""

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        """Request the days that hold `count` bars. Raises BrokerError, UnusableHistory."""
        asked = resolution_of(width)
        if asked is None:
            return None
        resolution, step = asked
        first = first_of(now, width, count)
        query = (
            ("from", str(int(first.timestamp()))),
            ("to", str(int(now.timestamp()))),
            ("resolution", resolution),
        )
        history: PriceHistory = await self.client.read(
            CODECS["stock_history"], {"symbol": instrument.symbol}, query
        )
        history = asked_for(history, first, now)
        last = self.closes.get(instrument.symbol)
        bars = checked(self.rulebook, instrument, history, step, now)
        if bars and last and last.price is not None and _is_far(bars[-1].close, last.price):
            text = f"its last close is {bars[-1].close:,}, the known one {last.price:,}"
            raise UnusableHistory(text)
        if step == DAY:
            gaps = missing_days(self.rulebook.calendar, bars, now)
        else:
            bars, gaps = filled(self.rulebook, instrument, bars, step, now)
        made = list(widened(bars, width))
        forming = made.pop() if made and span_of(made[-1].start, width)[1] > now else None
        return Earlier(tuple(made), forming, tuple(gaps))


def first_of(now: datetime, width: timedelta, count: int) -> datetime:
    """Return the midnight from which there are `count` bars, allowing for a month of holidays."""
    minutes = min(width, timedelta(minutes=_TRADED_MINUTES)).total_seconds() / 60
    days = int(count * minutes // _TRADED_MINUTES) + _DAYS_MORE
    return span_of(now, DAY)[0] - (days // 5 + 1) * _WEEK - _HOLIDAYS


# -------------------------------------------------------------------------------------- the checks


def asked_for(history: "PriceHistory", first: datetime, now: datetime) -> "PriceHistory":
    """Return a history without bars older than requested, and without the bar that has just begun
    by a clock ahead of ours.
    """
    rows = (r for r in history.bars if r.start >= first and not now < r.start <= now + _AHEAD)
    return replace(history, bars=tuple(rows))


def checked(
    rulebook: Rulebook,
    instrument: Instrument,
    history: "PriceHistory",
    step: timedelta,
    now: datetime,
) -> list[Bar]:
    """Return the rows as bars in VND. Raises UnusableHistory if they are implausible."""
    closes = [row.close for row in history.bars if row.close]
    if history.symbol != instrument.symbol:
        raise UnusableHistory(f"it is of {history.symbol}")
    if len(closes) < len(history.bars):
        raise UnusableHistory(f"{len(history.bars) - len(closes):,} of its rows have no close")
    for row in history.bars:
        figures = (row.open, row.high, row.low, row.close, row.volume)
        if any(each is not None and each >= FIGURE_MAX for each in figures):
            text = f"its bar of {_when(row.start)} has a figure that no bar can have"
            raise UnusableHistory(text)
    if not closes:
        return []
    unit = price_unit(rulebook, instrument, closes)
    bars, seconds = list[Bar](), round(step.total_seconds())
    for row in history.bars:
        assert row.close is not None, "rows without a close were refused"
        given = [row.close if each is None else each for each in (row.open, row.high, row.low)]
        start = span_of(row.start, DAY)[0] if step == DAY else row.start
        opened, high, low, close = (round(each * unit) for each in (*given, row.close))
        volume = int(row.volume or 0)
        bars.append(Bar(instrument.symbol, start, seconds, opened, high, low, close, volume))
    for bar in bars:
        if why := _objection(rulebook.calendar, bar, step, now):
            raise UnusableHistory(f"its bar of {_when(bar.start)} {why}")
    for before, after in pairwise(bars):
        if before.start == after.start:
            raise UnusableHistory(f"it has two bars of {_when(after.start)}")
        if _is_far(before.close, after.close):
            text = f"its close goes from {before.close:,} to {after.close:,}"
            raise UnusableHistory(f"{text} at {_when(after.start)}")
    return bars


def _objection(calendar: TradingCalendar, bar: Bar, step: timedelta, now: datetime) -> str:
    local = bar.start.astimezone(EXCHANGE_TZ)
    if bar.start > now:
        return "is of the future"
    if calendar.covers(local.date()) and not calendar.is_trading_day(local.date()):
        return "is of a day without trading"
    if step != DAY and not _OPENS <= local.time() < _ENDS:
        return "is of a time without trading"
    if step != DAY and span_of(bar.start, step)[0] != bar.start:
        return f"does not begin on the grid of {step}"
    if not 0 < bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high:
        prices = f"opens at {bar.open:,} and closes at {bar.close:,}"
        return f"{prices} with a low of {bar.low:,} and a high of {bar.high:,}"
    if _is_far(bar.low, bar.high):
        return f"has a low of {bar.low:,} and a high of {bar.high:,}"
    return f"has a volume of {bar.volume:,}" if bar.volume < 0 else ""


def _is_far(one: int, other: int) -> bool:
    return max(one, other) > JUMP_MAX * min(one, other)


# --------------------------------------------------------------------------------------- flat bars


def filled(
    rulebook: Rulebook,
    instrument: Instrument,
    bars: Sequence[Bar],
    step: timedelta,
    now: datetime | None = None,
) -> tuple[list[Bar], list[str]]:
    """Insert flat bars into parts of a day that have rows, up to the last row; name parts without
    any, also after the last row if they are over `now`.

    Polling sees the last price in every span of trading, first the reference: on UPCOM the average
    of the day before. If a whole part is missing, the history more likely lacks it.
    """
    if not bars:
        return [], []
    seconds, exchange = round(step.total_seconds()), instrument.exchange
    bars = list(widened(_placed(rulebook, exchange, bars), step))
    known = {bar.start: bar for bar in bars}
    made, gaps, close, value, volume = list[Bar](), list[str](), bars[0].open, 0, 0
    first, last, end = bars[0].start, bars[-1].start, now or bars[-1].start
    for day in _days(rulebook.calendar, first, end):
        if volume and exchange is Exchange.UPCOM:
            close = rulebook.ticks_of(instrument).average(value, volume)
        value = volume = 0
        for word, begins, ends in _PARTS:
            at, until = (
                datetime.combine(day, each, EXCHANGE_TZ).astimezone(UTC) for each in (begins, ends)
            )
            spans = [at + number * step for number in range(-((at - until) // step))]
            if not any(span in known for span in spans):
                if first < spans[0] and spans[-1] < end:
                    gaps.append(f"gap {day} {word}")
                continue
            for start in spans:
                bar, trades = known.get(start), rulebook.phase_at(exchange, start) in BAR_PHASES
                if bar is None and trades and first < start < last:
                    bar = Bar(instrument.symbol, start, seconds, close, close, close, close, 0)
                if bar is not None:
                    made.append(bar)
                    close, volume = bar.close, volume + bar.volume
                    value += bar.close * bar.volume
    return made, gaps


def _placed(rulebook: Rulebook, exchange: Exchange, bars: Sequence[Bar]) -> Iterator[Bar]:
    """Yield rows at a time of the bar that polling would have had them in: one stamped when trading
    pauses is of the last bar before, one stamped just before trading of the first.
    """
    for bar in bars:
        start = bar.start
        if rulebook.phase_at(exchange, start) not in BAR_PHASES:
            change = rulebook.next_phase_change(exchange, start)
            before = rulebook.phase_at(exchange, start - _INSTANT)
            if change.phase in BAR_PHASES and change.at - start <= _EARLY:
                start = change.at
            elif before in BAR_PHASES and before is not Phase.PRE_CLOSED:
                start -= _INSTANT
        yield bar if start == bar.start else replace(bar, start=start)


def missing_days(calendar: TradingCalendar, bars: Sequence[Bar], now: datetime) -> list[str]:
    """Name the trading days between the first bar and now that have none."""
    if not bars:
        return []
    known = {bar.start.astimezone(EXCHANGE_TZ).date() for bar in bars}
    today = now.astimezone(EXCHANGE_TZ).date()
    days = (each for each in _days(calendar, bars[0].start, now) if each not in {*known, today})
    return [f"gap {each}" for each in days if calendar.is_trading_day(each)]


def _days(calendar: TradingCalendar, first: datetime, last: datetime) -> Iterator[date]:
    """Yield the trading days; outside the calendar, all days."""
    day = first.astimezone(EXCHANGE_TZ).date()
    while day <= last.astimezone(EXCHANGE_TZ).date():
        if calendar.is_trading_day(day) or not calendar.covers(day):
            yield day
        day += DAY


def _when(start: datetime) -> str:
    return f"{start.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True)
class StoredBars:
    """Reads the store in a folder, if there is one, in a thread so that nothing waits for it."""

    folder: Path
    rulebook: Rulebook

    name: ClassVar = "the store"

    def asks(self, _width: timedelta) -> bool:
        return False

    def give_again(self, symbols: Collection[str]) -> None:
        """Nothing is cached here: each read looks again."""

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        """Return the newest bars, built from the widest suitable ones, and after their end from
        narrower ones. Raises UnusableHistory if the store cannot be read.
        """
        if not self.folder.is_dir():
            return None
        try:
            return await in_time(partial(self._read, instrument, width, count, now), READ_S)
        except OperatorMistake as error:
            first, *others = error.problems
            more = f"; {len(others):,} more: bot data check {instrument.symbol}" if others else ""
            raise UnusableHistory(f"{first.head}{more}") from error
        except (OSError, TimeoutError) as error:
            raise UnusableHistory(f"{self.folder.name} can't be read: {error}") from error

    async def went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        """Return what the store's daily files say about ex-dates, if the previous close is there
        too. Raises OSError, TimeoutError, UnusableHistory.
        """
        if not self.folder.is_dir():
            return ()
        try:
            return await in_time(partial(self._went_ex, symbol, days), READ_S)
        except OperatorMistake as error:
            raise UnusableHistory(error.problems[0].head) from error

    def _went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        from bot.runtime.history.store.store import open_bars

        found = dict[date, WentEx]()
        for step, file in sorted(self._files_of(symbol).items()):
            source = open_bars(file, width=step)
            for day, frame in source.frames(symbol, min(days), max(days)).items():
                since = day - CLOSE_WITHIN
                chunks = list(source.chunks(symbol, since, day - DAY))
                if day in days and frame.ex_ratio is not None and chunks and day not in found:
                    close = int(chunks[-1].close[-1])
                    found[day] = WentEx(symbol, day, close, round(close * frame.ex_ratio))
        return list(found.values())

    def _files_of(self, symbol: str) -> dict[timedelta, Path]:
        """Return the symbol's own files by width: damaged ones of others do not affect it."""
        # NumPy and perhaps polars: imported only if there is a store.
        from bot.runtime.history.store.archive import Archive
        from bot.runtime.history.store.store import bar_files, symbol_of

        return {
            step: file
            for step in Archive(self.folder).widths()
            for file in bar_files(self.folder / "bars" / width_name(step))
            if symbol_of(file) == symbol
        }

    def _read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        every = self._files_of(instrument.symbol)
        files = {step: file for step, file in every.items() if not width % step}
        found, gaps, newest = dict[datetime, Bar](), list[str](), date.min
        for step, file in sorted(files.items(), reverse=True):
            first = first_of(now, width, count).astimezone(EXCHANGE_TZ).date()
            try:
                last, own, missing = self._bars_of(instrument, step, file, first, newest, now)
            except (OperatorMistake, UnusableHistory):
                if not found:
                    raise
                missing = [f"its bars of {width_name(step)} are not used: bot data check"]
            else:
                newest = max(newest, last)
                made = [bar for bar in widened(own, width) if span_of(bar.start, width)[1] <= now]
                found = {bar.start: bar for bar in made} | found
            gaps += missing
        bars = tuple(found[each] for each in sorted(found)[-count:])
        return Earlier(bars, gaps=tuple(gaps)) if files else None

    def _bars_of(
        self,
        instrument: Instrument,
        step: timedelta,
        file: Path,
        first: date,
        newest: date,
        now: datetime,
    ) -> tuple[date, list[Bar], list[str]]:
        """Return a file's last day, its bars from a day on and what it lacks; none unless it goes
        on after the day `newest`.
        """
        from bot.runtime.history.store.archive import Archive
        from bot.runtime.history.store.store import open_bars

        source, symbol = open_bars(file, width=step), instrument.symbol
        span, key = source.span(symbol), (width_name(step), symbol)
        if span is None or span[1] <= newest:
            return newest, [], []
        if any(e.is_adjusted for e in Archive(self.folder).ranges() if (e.width, e.symbol) == key):
            raise UnusableHistory("its prices are adjusted, those of today are as quoted")
        today = now.astimezone(EXCHANGE_TZ).date()
        chunks = source.chunks(symbol, max(span[0], first), today)
        bars = [bar for chunk in chunks for bar in chunk.bars() if bar.start <= now]
        if step == DAY:
            return span[1], bars, missing_days(self.rulebook.calendar, bars, now)
        return span[1], *filled(self.rulebook, instrument, bars, step)
