"""The market of a backtest: turns bars into the instants of a day, in the order of time.

At one instant things happen in the order of the fields of `Instant`: bars that end there fill what
rested in them, an auction is matched and phases move, strategies are shown what has closed, and
bars that begin there fill what takes. Nothing of a bar is shown before it has ended.

Strategies get the bars that polling would have built: in trading phases a bar without a trade is
flat at the price before. What trades in an auction comes with the bar that its source stamps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Final

import numpy as np

from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.domain.symbols import SymbolTable
from bot.domain.timetable import instant_of
from bot.engine.market import BAR_PHASES
from bot.runtime.history.backtest.fills import OPENING_PERCENT
from bot.runtime.history.bars import BarSource, DayFrame
from bot.sandbox.exchange.timetable import LIMIT_ORDERS_END
from bot.sandbox.markets.replay.path import EARLY_S

DAY: Final = timedelta(days=1)
DAY_S: Final = 86_400
EPOCH: Final = date(1970, 1, 1)
LOOK_BACK: Final = timedelta(days=30)
"""How far before the first day its last close is looked for: over Tet."""
_LOCAL_S: Final = 7 * 3_600
_GRID_S: Final = _LOCAL_S
"""Bars lie on the grid of UTC, whose midnight is at 07:00."""


@dataclass(slots=True)
class Instant:
    """What happens at one time. `auctions`: price and volume of what an ending auction matched.

    `timers`: (strategy, time of day). `moves`: a phase begins on some exchange.
    """

    at: datetime
    ended: list[Bar] = field(default_factory=list)
    auctions: dict[str, tuple[int, int]] = field(default_factory=dict)
    moves: bool = False
    quoted: list[str] = field(default_factory=list)
    shown: list[Bar] = field(default_factory=list)
    begun: list[Bar] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SymbolDay:
    """One symbol on one day: where it trades, and what is known of its frame before the first bar.

    `is_moved`: its first day on another exchange. `close` is its last one before.
    """

    instrument: Instrument
    frame: DayFrame
    first: int | None
    is_moved: bool


@dataclass(frozen=True, slots=True)
class MarketDay:
    """A trading day, its symbols and its instants in order."""

    day: date
    symbols: Mapping[str, SymbolDay]
    instants: tuple[Instant, ...]
    bars: int


@dataclass(frozen=True, slots=True)
class Hours:
    """The day of one exchange in seconds from local midnight; None: it has no such auction."""

    spans: tuple[tuple[int, int, Phase], ...]
    opening: int | None
    closing: int | None
    end: int

    @classmethod
    def of(cls, rulebook: Rulebook, exchange: Exchange) -> "Hours":
        found: list[tuple[int, int, Phase]] = []
        spans = rulebook.venues[exchange].plan.timetable.spans
        starts = [each.start.hour * 3_600 + each.start.minute * 60 for each in spans]
        for span, start, end in zip(spans, starts, [*starts[1:], DAY_S], strict=True):
            if found and found[-1][2] is span.phase:
                found[-1] = (found[-1][0], end, span.phase)
            else:
                found.append((start, end, span.phase))
        ends = {phase: end for _, end, phase in found}
        over = (at for at, _, phase in found[1:] if phase in LIMIT_ORDERS_END)
        return cls(tuple(found), ends.get(Phase.OPEN), ends.get(Phase.PRE_CLOSED), next(over))

    @property
    def trading(self) -> tuple[tuple[int, int], ...]:
        """The spans whose quotes form bars."""
        return tuple((start, end) for start, end, phase in self.spans if phase in BAR_PHASES)

    @property
    def moves(self) -> tuple[int, ...]:
        return tuple(start for start, _, _ in self.spans[1:])

    def continuous_from(self, second: int, until: int) -> int | None:
        """Return when a bar of these seconds begins to trade continuously."""
        spans = (each for each in self.spans if each[2] is Phase.PROGRESS)
        return next(
            (max(start, second) for start, end, _ in spans if start < until and second < end), None
        )

    def placed(self, second: int, width: int) -> int:
        """Return the start of a bar; one stamped just before or after trading is put into it."""
        if width >= DAY_S:
            return 0
        if second == self.closing:
            return second
        for start, end in self.trading:
            if start - EARLY_S <= second < start and start != self.opening:
                return start // width * width
            if second < end <= second + width or start <= second < end:
                return second
        ended = [end for _, end in self.trading if end == second]
        return second - width if ended else second

    def grid(self, width: int) -> tuple[int, ...]:
        """Return the starts of the bars that polling would build in a whole day."""
        if width >= DAY_S:
            return (0,)
        return tuple(
            second
            for second in range(_GRID_S % width, DAY_S, width)
            if any(start < second + width and second < end for start, end in self.trading)
        )


InstantAt = Callable[[int], Instant]
"""Returns the instant of a second of the local day."""
Rows = list[tuple[int, int, int, int, int, int]]
"""Start in seconds of the local day, open, high, low, close, volume."""


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
        """`wanted`: the symbols, and the widths of bars that strategies take of each."""
        self._rulebook = rulebook
        self._table = table
        self._source = source
        self._width = round(source.width.total_seconds())
        self._wanted = wanted
        self._instruments = dict(known)
        self._hours = {each: Hours.of(rulebook, each) for each in Exchange}
        self._grids = {each: self._hours[each].grid(self._width) for each in Exchange}
        self._lasts: dict[str, int] = {}
        self._of_a_day: dict[str, Bar] = {}
        """Bars of a whole day, shown when the next day's trading begins."""

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
                if any(rows.values()):
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
        self._lasts[symbol] = rows[-1][4]
        midnight = instant_of(day, time())
        return day, [
            Bar(symbol, midnight + timedelta(seconds=second), self._width, *rest)
            for second, *rest in rows
        ]

    def _day(
        self, day: date, rows: Mapping[str, Rows], frames: Mapping[str, DayFrame]
    ) -> MarketDay:
        instants: dict[int, Instant] = {}
        midnight = instant_of(day, time())
        symbols = {}

        def instant(second: int) -> Instant:
            found = instants.get(second)
            if found is None:
                found = instants[second] = Instant(midnight + timedelta(seconds=second))
            return found

        for symbol, own in rows.items():
            before = self._instruments[symbol]
            instrument = self._table.instrument(symbol, day) or before
            is_moved = instrument.exchange is not before.exchange
            self._instruments[symbol] = instrument
            first = own[0][1] if own else None
            symbols[symbol] = SymbolDay(instrument, frames[symbol], first, is_moved)
            hours = self._hours[instrument.exchange]
            bars = self._placed(symbol, midnight, hours, own)
            self._trade(bars, hours, instant)
            self._show(symbol, bars, instrument.exchange, midnight, instant)
        for exchange in {each.instrument.exchange for each in symbols.values()}:
            for second in self._hours[exchange].moves:
                instant(second).moves = True
        ordered = tuple(instants[second] for second in sorted(instants))
        return MarketDay(day, symbols, ordered, sum(map(len, rows.values())))

    def _placed(self, symbol: str, midnight: datetime, hours: Hours, rows: Rows) -> dict[int, Bar]:
        """Return the bars of a day by the second of their start; what falls together is one."""
        found: dict[int, Bar] = {}
        for second, *row in rows:
            start = hours.placed(second, self._width)
            at = midnight + timedelta(seconds=start)
            bar = Bar(symbol, at, self._width, *row)
            if start in found:
                bar = joined([found[start], bar], at, self._width)
            found[start] = bar
        return found

    def _trade(self, bars: Mapping[int, Bar], hours: Hours, instant: InstantAt) -> None:
        """Put each bar where it begins, where its auction is matched and where it ends."""
        width = self._width
        opening, closing = hours.opening, hours.closing
        for start, bar in bars.items():
            until = start + width
            if opening is not None and start <= opening < until:
                volume = bar.volume * OPENING_PERCENT // 100
                instant(opening).auctions[bar.symbol] = bar.open, volume
            if closing is not None and start <= closing < until:
                instant(closing).auctions[bar.symbol] = bar.close, bar.volume
            begins = hours.continuous_from(start, until)
            if begins is not None:
                instant(begins).begun.append(bar)
            ends = min(until, hours.end) if start < hours.end else until
            instant(ends).ended.append(bar)

    def _show(
        self,
        symbol: str,
        bars: Mapping[int, Bar],
        exchange: Exchange,
        midnight: datetime,
        instant: InstantAt,
    ) -> None:
        """Put each bar that strategies take where it has closed, flat ones between them."""
        width, last, hours = self._width, self._lasts.get(symbol), self._hours[exchange]
        whole: list[tuple[int, Bar]] = []
        for start in sorted({*self._grids[exchange], *bars}):
            bar = bars.get(start)
            if bar is None and last is not None:
                at = midnight + timedelta(seconds=start)
                bar = Bar(symbol, at, width, last, last, last, last, 0)
            if bar is not None:
                last = bar.close
                whole.append((start, bar))
                instant(min(start + width, max(start, hours.end))).quoted.append(symbol)
        if last is not None:
            self._lasts[symbol] = last
        if (held := self._of_a_day.pop(symbol, None)) is not None:
            opening = instant(hours.trading[0][0])
            opening.quoted.append(symbol)
            opening.shown.append(held)
        for wanted in self._wanted[symbol]:
            span = round(wanted.total_seconds())
            if span >= DAY_S and whole:
                begins = midnight + timedelta(seconds=_GRID_S)
                self._of_a_day[symbol] = joined([bar for _, bar in whole], begins, span)
                continue
            parts: dict[int, list[Bar]] = {}
            for second, bar in whole:
                parts.setdefault((second - _GRID_S) // span * span + _GRID_S, []).append(bar)
            for second, inside in parts.items():
                at_second = midnight + timedelta(seconds=second)
                whole_bar = inside[0] if span == width else joined(inside, at_second, span)
                instant(second + span).shown.append(whole_bar)


class _Reader:
    """Hands out the rows of one symbol day by day."""

    def __init__(self, days: Iterator[tuple[date, Rows]]) -> None:
        self._days = days
        self._next = next(days, None)

    def of(self, day: date) -> Rows:
        while self._next is not None and self._next[0] < day:
            self._next = next(self._days, None)
        return self._next[1] if self._next is not None and self._next[0] == day else []


def joined(bars: Sequence[Bar], start: datetime, seconds: int) -> Bar:
    """Return one bar over several that follow one another."""
    return Bar(
        bars[0].symbol,
        start,
        seconds,
        bars[0].open,
        max(each.high for each in bars),
        min(each.low for each in bars),
        bars[-1].close,
        sum(each.volume for each in bars),
    )


def _by_day(source: BarSource, symbol: str, first: date, last: date) -> Iterator[tuple[date, Rows]]:
    """Yield the rows of each local day; a day may be cut in two by a chunk's end."""
    kept_day, kept = 0, Rows()
    for chunk in source.chunks(symbol, first, last):
        local = chunk.start + _LOCAL_S
        numbers = local // DAY_S
        borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(chunk)]
        columns = (local % DAY_S, chunk.open, chunk.high, chunk.low, chunk.close, chunk.volume)
        for begin, end in pairwise(borders):
            if begin == end:
                continue
            rows = list(zip(*(each[begin:end].tolist() for each in columns), strict=True))
            number = int(numbers[begin])
            if number != kept_day:
                if kept:
                    yield EPOCH + timedelta(days=kept_day), kept
                kept_day, kept = number, []
            kept += rows
    if kept:
        yield EPOCH + timedelta(days=kept_day), kept
