"""The market of a backtest: turns bars into the instants of a day, in time order.

At one instant things happen in the order of the fields of `Instant`: bars that end there fill
resting orders, an auction is matched, strategies are shown the bars that have closed, phases
change, quotes and the daily bar of the day before are shown, and bars that begin there fill takers.
Nothing of a bar is shown before it has ended.

Strategies get the bars that polling would have built: in trading phases a bar without a trade is
flat at the previous price. Auction trades come with the bar that the source assigns them to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import groupby, pairwise
from operator import mul
from typing import Final

import numpy as np

from bot.config.problems import OperatorMistake
from bot.domain.instrument import Exchange, Instrument, SymbolTable
from bot.domain.local_time import instant_of, local_of
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.fills import OPENING_PERCENT
from bot.runtime.history.backtest.rows import (
    DAY_S,
    LAYOUTS_MAX,
    Auction,
    DayRows,
    Layout,
    Rows,
    SecondsOfDays,
    Series,
    joined,
    with_flat,
    within,
)
from bot.runtime.history.bars import BarSource, DayFrame, off_grid, span_in_day

DAY: Final = timedelta(days=1)
EPOCH: Final = date(1970, 1, 1)
LOOK_BACK: Final = timedelta(days=30)
"""How far before the first day its last close is searched: longer than Tet."""
_LOCAL_S: Final = 7 * 3_600


@dataclass(slots=True)
class Instant:
    """What happens at one time. `auctions`: price and volume matched by an ending auction; the
    volume is None if it is not known apart from that of the bar just ended.

    `moves`: a phase begins on some exchange. `held`: the daily bars of the day before.
    """

    at: datetime
    ended: list[Bar] = field(default_factory=list)
    auctions: dict[str, Auction] = field(default_factory=dict)
    shown: list[Bar] = field(default_factory=list)
    moves: bool = False
    quoted: list[str] = field(default_factory=list)
    held: list[Bar] = field(default_factory=list)
    begun: list[Bar] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SymbolDay:
    """One symbol on one day: where it trades, and what is known about its limits before the first
    bar.

    `is_moved`: its first day on another exchange. `close` is its last one before.
    """

    instrument: Instrument
    frame: DayFrame
    first: int | None
    is_moved: bool


@dataclass(frozen=True, slots=True)
class MarketDay:
    """A trading day and its symbols. `seconds` are those of the local day in which anything
    happens, in order; in those of `moves` a phase begins on some exchange.
    """

    day: date
    symbols: Mapping[str, SymbolDay]
    rows: Mapping[str, DayRows]
    moves: frozenset[int]
    seconds: tuple[int, ...]
    midnight: datetime

    def at(self, second: int) -> datetime:
        """Return a second of the local day as an instant."""
        return self.midnight + timedelta(seconds=second)

    def instant(self, second: int) -> Instant:
        """Return what happens in a second."""
        made = Instant(self.at(second), moves=second in self.moves)
        for symbol, rows in self.rows.items():
            made.ended += [rows.bar(index) for index in within(rows.ended_at, second, second)]
            begun = within(rows.begun_at, second, second)
            made.begun += [rows.bar(rows.begun[index]) for index in begun]
            if (auction := rows.auctions.get(second)) is not None:
                made.auctions[symbol] = auction
            made.quoted += [symbol] * len(within(rows.quoted_at, second, second))
            if rows.held is not None and rows.held[0] == second:
                made.quoted.append(symbol)
                made.held.append(rows.held[1])
            for series in rows.series:
                shown = within(series.shown_at, second, second)
                made.shown += [series.bar(index) for index in shown]
        return made


@lru_cache(maxsize=LAYOUTS_MAX)
def _spans(seconds: tuple[int, ...], width: int) -> tuple[list[int], list[int]]:
    """Return the starts of the wider bars that these belong to, and the end of each bar."""
    starts = [span_in_day(second, width)[0] for second in seconds]
    return starts, [span_in_day(start, width)[1] for start, _ in groupby(starts)]


@lru_cache(maxsize=LAYOUTS_MAX)
def _quoted_at(starts: tuple[int, ...], width: int, end: int) -> list[int]:
    """Return when a poll would show the price of each bar: at its end, at the latest when trading
    ends.
    """
    return [min(start + width, max(start, end)) for start in starts]


class Market:
    """The days of a source, for the symbols of some strategies."""

    def __init__(
        self,
        rulebook: Rulebook,
        table: SymbolTable,
        source: BarSource,
        wanted: Mapping[str, Sequence[timedelta]],
        known: Mapping[str, Instrument],
    ) -> None:
        """`wanted`: the symbols, and the bar widths that strategies take of each."""
        self._rulebook = rulebook
        self._table = table
        self._source = source
        self._width = round(source.width.total_seconds())
        self._wanted = wanted
        self._instruments = dict(known)
        self._layouts: dict[tuple[Exchange, date | None], Layout] = {}
        self._ends = {symbol: span[1] for symbol in wanted if (span := source.span(symbol))}
        self._lasts: dict[str, int] = {}
        self._averages: dict[str, int] = {}
        self._seconds = SecondsOfDays()
        self._of_a_day: dict[str, Bar] = {}
        """Daily bars, shown when the next day's trading begins."""

    def days(self, first: date, last: date) -> Iterator[MarketDay]:
        """Yield the trading days on which any symbol has a bar, in order."""
        readers = {
            symbol: _Reader(_by_day(self._source, symbol, first, last)) for symbol in self._wanted
        }
        frames = {symbol: self._source.frames(symbol, first, last) for symbol in self._wanted}
        day = first
        while day <= last:
            if self._rulebook.calendar.is_trading_day(day):
                rows = {symbol: each.of(day) for symbol, each in readers.items()}
                # Whether a day has no bar is not known before it is over.
                begun = any(name in self._lasts and day <= end for name, end in self._ends.items())
                if begun or any(map(len, rows.values())):
                    known = {symbol: each.get(day, DayFrame()) for symbol, each in frames.items()}
                    yield self._day(day, rows, known)
            day += DAY

    def before(self, symbol: str, first: date) -> tuple[date, list[Bar]] | None:
        """Return the last day with a bar before a day, and its bars."""
        found = None
        for each in _by_day(self._source, symbol, first - LOOK_BACK, first - DAY):
            found = each
        if found is None:
            return None
        day, rows = found
        self._lasts[symbol] = rows.close[-1]
        instrument = self._table.instrument(symbol, day) or self._instruments[symbol]
        self._instruments[symbol] = instrument
        self._note_average(instrument, rows)
        series = Series(symbol, self._width, instant_of(day, time()), rows, rows.start)
        return day, [series.bar(index) for index in range(len(rows))]

    def _day(
        self, day: date, rows: Mapping[str, Rows], frames: Mapping[str, DayFrame]
    ) -> MarketDay:
        midnight = instant_of(day, time())
        symbols, placed, moves = {}, {}, set[int]()
        for symbol, own in rows.items():
            before = self._instruments[symbol]
            instrument = self._table.instrument(symbol, day) or before
            is_moved = instrument.exchange is not before.exchange
            self._instruments[symbol] = instrument
            first = own.open[0] if own.open else None
            symbols[symbol] = SymbolDay(instrument, frames[symbol], first, is_moved)
            early = day if day in self._rulebook.calendar.early_closes else None
            layout = self._layouts.get((instrument.exchange, early))
            if layout is None:
                layout = Layout.on(self._rulebook, instrument.exchange, day, self._width)
                self._layouts[instrument.exchange, early] = layout
            moves.update(layout.hours.moves)
            placed[symbol] = self._trade(symbol, own, layout, midnight)
            if symbol in self._lasts:
                self._lasts[symbol] = self._level(instrument, frames[symbol])
            self._show(placed[symbol], layout)
            self._note_average(instrument, placed[symbol].rows)
        seconds = self._seconds.of(frozenset(moves), placed.values())
        return MarketDay(day, symbols, placed, frozenset(moves), seconds, midnight)

    def _level(self, instrument: Instrument, frame: DayFrame) -> int:
        """Return the price that polls see until the day's first trade: the reference, which on
        UPCOM comes from the average of the day before.
        """
        symbol, last = instrument.symbol, self._lasts[instrument.symbol]
        if frame.ex_ratio is not None:
            ticks = self._rulebook.ticks_of(instrument)
            return frame.reference or ticks.up(round(last * frame.ex_ratio) - 1)
        if instrument.exchange is Exchange.UPCOM:
            return frame.reference or self._averages.get(symbol, last)
        return last

    def _note_average(self, instrument: Instrument, rows: Rows) -> None:
        """Keep the average of a UPCOM day; without a trade the reference stays."""
        symbol = instrument.symbol
        if instrument.exchange is not Exchange.UPCOM:
            self._averages.pop(symbol, None)
        elif volume := sum(rows.volume):
            value = sum(map(mul, rows.close, rows.volume))
            self._averages[symbol] = self._rulebook.ticks_of(instrument).average(value, volume)
        elif symbol in self._lasts:
            self._averages[symbol] = self._lasts[symbol]

    def _trade(self, symbol: str, own: Rows, layout: Layout, midnight: datetime) -> DayRows:
        """Place each bar where it begins, where its auction is matched and where it ends."""
        width, hours = self._width, layout.hours
        if layout.is_early:
            own = own.until(hours.end)
        starts, *when = layout.times.of(tuple(own.start))
        if layout.times.late:
            at = local_of(midnight + timedelta(seconds=min(layout.times.late)))
            raise OperatorMistake.of(
                "E-MKT-011", f"{symbol} {at:%Y-%m-%d %H:%M}: {off_grid(width)}"
            )
        bars = joined(starts, own)
        day = DayRows(symbol, width, midnight, bars)
        day.ended_at, day.begun_at, day.begun = when
        opening, closing = hours.opening, hours.closing
        if opening is not None:
            for index in _traded(bars, opening - width + 1, opening):
                volume = bars.volume[index] * OPENING_PERCENT // 100
                day.auctions[opening] = bars.open[index], volume
        if closing is not None:
            for index in _traded(bars, closing - width + 1, closing):
                is_of_more = bars.start[index] < hours.collects_from
                matched = None if is_of_more else bars.volume[index]
                day.auctions[closing] = bars.close[index], matched
        return day

    def _show(self, day: DayRows, layout: Layout) -> None:
        """Schedule each bar that strategies take when it has closed, with flat ones in between."""
        symbol, width, hours = day.symbol, self._width, layout.hours
        # At a span without a trade nobody knows whether one will still come that day, so each is
        # flat, as polls would see it. Only after its very last day does a symbol have no price.
        is_known = symbol in self._ends and local_of(day.midnight).date() <= self._ends[symbol]
        grid = layout.grid if is_known else ()
        whole = with_flat(day.rows, grid, self._lasts.get(symbol))
        known = tuple(whole.start)
        day.quoted_at = _quoted_at(known, width, hours.end)
        if whole.close:
            self._lasts[symbol] = whole.close[-1]
        if (held := self._of_a_day.pop(symbol, None)) is not None:
            day.held = next(iter(hours.trading), (hours.end,))[0], held
        for wanted in self._wanted[symbol]:
            span = round(wanted.total_seconds())
            starts, ends = _spans(known, span)
            bars = joined(starts, whole)
            series = Series(symbol, span, day.midnight, bars)
            if span < DAY_S:
                series.shown_at = ends
                day.series.append(series)
            elif len(bars):
                self._of_a_day[symbol] = series.bar(0)


def wanted_of(strategies: Iterable[LoadedStrategy]) -> Mapping[str, tuple[timedelta, ...]]:
    """Return the symbols of the strategies, and the bar widths that they take of each."""
    found: dict[str, dict[timedelta, None]] = {}
    for plan in (each.plan for each in strategies):
        for symbol in plan.symbols:
            widths = found.setdefault(symbol, {})
            if plan.wake.bar is not None:
                widths[plan.wake.bar] = None
    return {symbol: tuple(widths) for symbol, widths in found.items()}


def _traded(bars: Rows, first: int, last: int) -> Iterator[int]:
    """Yield the rows from one start to another in which anything was traded."""
    return (index for index in within(bars.start, first, last) if bars.volume[index])


class _Reader:
    """Hands out the rows of one symbol day by day."""

    def __init__(self, days: Iterator[tuple[date, Rows]]) -> None:
        self._days = days
        self._next = next(days, None)

    def of(self, day: date) -> Rows:
        while self._next is not None and self._next[0] < day:
            self._next = next(self._days, None)
        return self._next[1] if self._next is not None and self._next[0] == day else Rows()


def _by_day(source: BarSource, symbol: str, first: date, last: date) -> Iterator[tuple[date, Rows]]:
    """Yield the rows of each local day; the end of a chunk may cut a day in two."""
    kept_day, kept = 0, Rows()
    for chunk in source.chunks(symbol, first, last):
        local = chunk.start + _LOCAL_S
        numbers = local // DAY_S
        borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(chunk)]
        columns = (local % DAY_S, chunk.open, chunk.high, chunk.low, chunk.close, chunk.volume)
        for begin, end in pairwise(borders):
            if begin == end:
                continue
            rows = Rows(*(each[begin:end].tolist() for each in columns))
            number = int(numbers[begin])
            if number != kept_day:
                if kept.start:
                    yield EPOCH + timedelta(days=kept_day), kept
                kept_day, kept = number, Rows()
            kept.extend(rows)
    if kept.start:
        yield EPOCH + timedelta(days=kept_day), kept
