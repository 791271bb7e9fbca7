"""Checks that bars are plausible: ticks, bands, lots, hours and days, by the exchanges' rules.

Errors that make bars useless are fatal: prices in thousands or off the tick, days without trading.
Other findings are reported and the bars kept, as a band is only as certain as its reference.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bot.config.market_files.table import PROBLEMS_MAX, opened
from bot.config.problems import Problem, shown_path
from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.rulebook import Rulebook
from bot.runtime.history.bars import BarColumns, DayFrame, off_grid, outlasts_span
from bot.runtime.history.store.bar_files import DAY_S, FIGURES, INDICES, OFFSET_S, between
from bot.sandbox.markets.replay.data import EARLY_S
from bot.sandbox.markets.replay.market import day_spans

_EPOCH: Final = date(1970, 1, 1).toordinal()
_SATURDAY: Final = 5
_FACTOR: Final = 300
"""A price off the day's reference by this factor is in another unit."""
_PARQUET: Final = ".parquet"
_TRADING: Final = frozenset({Phase.OPEN, Phase.PROGRESS, Phase.PRE_CLOSED, Phase.POST_SESSION})
Rows = NDArray[np.int64]
"""Two lines: each row's number in its file, and the start of its bar."""


@dataclass(frozen=True, slots=True)
class WrongRow:
    """A wrong row, counted from 0, the start of its bar, and the column that shows it."""

    row: int
    start: int
    column: str
    code: str
    message: str

    @property
    def clock(self) -> str:
        """When the bar began, in local time; of a daily bar the day."""
        return f"{datetime.fromtimestamp(self.start, EXCHANGE_TZ):%Y-%m-%d %H:%M}".removesuffix(
            " 00:00"
        )


@dataclass(slots=True)
class Checked:
    """The findings on the bars of one symbol: at most PROBLEMS_MAX of each kind, and
    their number.
    """

    symbol: str
    bars: int = 0
    fatal: list[WrongRow] = field(default_factory=list)
    told: list[WrongRow] = field(default_factory=list)
    fatal_count: int = 0
    told_count: int = 0
    ex_dates: dict[date, str] = field(default_factory=dict)
    """Days on which the share seems to have gone ex without any file saying so, in words."""

    def note(self, rows: Rows, column: str, code: str, message: str) -> None:
        """Record rows that make the bars useless."""
        self.fatal_count += rows.shape[1]
        _fill(self.fatal, rows, column, code, message)

    def tell(self, rows: Rows, column: str, code: str, message: str) -> None:
        """Record rows that are odd but may be kept."""
        self.told_count += rows.shape[1]
        _fill(self.told, rows, column, code, message)


def _fill(wrong_rows: list[WrongRow], rows: Rows, column: str, code: str, message: str) -> None:
    room = max(0, PROBLEMS_MAX - len(wrong_rows))
    wrong_rows += [
        WrongRow(row, at, column, code, message) for row, at in rows[:, :room].T.tolist()
    ]


class BarCheck:
    """Checks one symbol, chunk by chunk. `instrument_on`: the instrument on a day,
    None: not known.
    """

    def __init__(
        self,
        symbol: str,
        rulebook: Rulebook,
        instrument_on: Callable[[date], Instrument | None],
        frames: Mapping[date, DayFrame],
        *,
        is_adjusted: bool = False,
    ) -> None:
        self._rulebook, self._instrument_on, self._frames = rulebook, instrument_on, frames
        self._is_adjusted = is_adjusted
        self._close = 0
        self._before: Instrument | None = None
        self._open_spans = cache(self._spans)
        self.found = Checked(symbol)

    def add(self, columns: BarColumns) -> None:
        """Check the next bars; a day may continue in the following ones."""
        days = (columns.start + OFFSET_S) // DAY_S
        numbers, firsts = np.unique(days, return_index=True)
        for number, first, end in zip(numbers, firsts, [*firsts[1:], len(days)], strict=True):
            day = date.fromordinal(int(number) + _EPOCH)
            midnight = int(number) * DAY_S - OFFSET_S
            self._day(
                day, between(columns, midnight, midnight + DAY_S), self.found.bars + int(first)
            )
            self._close = int(columns.close[end - 1])
        self.found.bars += len(columns)

    def _day(self, day: date, bars: BarColumns, at: int) -> None:
        rows = np.stack([np.arange(at, at + len(bars)), bars.start])
        if is_closed(self._rulebook.calendar, day):
            message = (
                f"{day} ({day:%A}) is not a trading day; was the time converted to another zone?"
            )
            self.found.note(rows[:, :1], "time", "E-MKT-005", message)
            return
        instrument = self._instrument_on(day)
        if bars.symbol in INDICES or instrument is None:
            return
        if bars.seconds < DAY_S:
            seconds, is_open = (bars.start + OFFSET_S) % DAY_S, np.zeros(len(bars), bool)
            for first, last in self._open_spans(instrument.exchange):
                is_open |= (seconds <= last) & (seconds + bars.seconds > first)
            text = f"{instrument.exchange} does not trade then"
            self.found.tell(rows[:, ~is_open], "time", "E-MKT-005", text)
            if (seconds % bars.seconds).any():
                open_at = np.unique(seconds[is_open]).tolist()
                late = np.isin(seconds, self._late(open_at, instrument.exchange, bars.seconds))
                self.found.note(rows[:, late], "time", "E-MKT-011", off_grid(bars.seconds))
        if not self._is_adjusted:
            odd = bars.volume % BOARD_LOT != 0
            self.found.tell(
                rows[:, odd], "volume", "E-MKT-008", f"the volume is no multiple of {BOARD_LOT}"
            )
            self._prices(instrument, day, bars, rows)
        self._before = instrument

    def _spans(self, exchange: Exchange) -> list[tuple[int, int]]:
        """Return when bars may begin, in seconds of the local day, with some tolerance before."""
        day = next(iter(self._rulebook.calendar.trading_days))
        return [
            (span.start - (EARLY_S if span.phase is Phase.PROGRESS else 0), span.end)
            for span in day_spans(self._rulebook, exchange, day)
            if span.phase in _TRADING
        ]

    def _late(self, seconds: list[int], exchange: Exchange, width: int) -> list[int]:
        """Return those of the seconds in which a bar would last longer than its span."""
        spans = self._open_spans(exchange)
        over, begun = max(last for _, last in spans), [range(s, s + EARLY_S + 1) for s, _ in spans]
        return [
            each
            for each in seconds
            if not any(each in start for start in begun)
            and outlasts_span(each, min(each + width, over), width)
        ]

    def _prices(self, instrument: Instrument, day: date, bars: BarColumns, rows: Rows) -> None:
        frame, opened_at = self._frames.get(day, DayFrame()), int(bars.open[0])
        is_same = self._before is not None and self._before.exchange is instrument.exchange
        before = self._close if is_same else 0
        reference = frame.reference or round(before * (frame.ex_ratio or 1))
        if reference and not 1 / _FACTOR < opened_at / reference < _FACTOR:
            message = f"{opened_at:,} beside a reference of {reference:,}: write whole VND"
            self.found.note(rows[:, :1], "open", "E-MKT-006", message)
            return
        ticks, wrong = self._rulebook.ticks_of(instrument), np.zeros(len(bars), bool)
        for name in FIGURES[:-1]:
            prices = getattr(bars, name)
            for price in map(int, np.unique(prices)):
                if not ticks.is_on_grid(price):
                    text = f"{price:,} is off the tick of {ticks.tick_at(price):,} VND on "
                    text += f"{instrument.exchange}; are prices in thousands, or adjusted?"
                    found = (prices == price) & ~wrong
                    wrong |= found
                    self.found.note(rows[:, found], name, "E-MKT-007", text)
        if not reference or (frame.reference is None and instrument.exchange is Exchange.UPCOM):
            return
        band = self._rulebook.band(instrument, reference)
        ceiling, floor = frame.ceiling or band.ceiling, frame.floor or band.floor
        if frame.reference is None and not floor <= opened_at <= ceiling:
            move = (opened_at - before) * 100 / before
            self.found.ex_dates[day] = f"opens at {opened_at:,}, {move:+.1f} % from {before:,}"
            return
        message = f"outside the band {floor:,} to {ceiling:,} VND around {reference:,}"
        self.found.tell(rows[:, bars.low < floor], "low", "E-MKT-007", message)
        self.found.tell(rows[:, bars.high > ceiling], "high", "E-MKT-007", message)


def is_closed(calendar: TradingCalendar, day: date) -> bool:
    """Return whether the exchanges are known to be closed; before the calendar
    begins, on weekends.
    """
    if calendar.covers(day):
        return not calendar.is_trading_day(day)
    return day.weekday() >= _SATURDAY


def placed(
    path: Path, wrong_rows: Sequence[WrongRow], more: int, lines: Sequence[int] = ()
) -> list[Problem]:
    """Return wrong rows as problems with file, line and column, by line; then the number of further
    ones.

    `lines`: the line of each row in a file of many symbols. A row of a Parquet file is counted as a
    line under a header.
    """
    numbers = {wrong.row: lines[wrong.row] if lines else wrong.row + 2 for wrong in wrong_rows}
    starts = _starts(path, set(numbers.values()))
    found = []
    for wrong in sorted(wrong_rows, key=lambda each: (numbers[each.row], each.column)):
        number = numbers[wrong.row]
        column = starts.get(number, {}).get(wrong.column, 1)
        text = f"{wrong.clock}: {wrong.message}"
        found.append(Problem(wrong.code, text, shown_path(path), number, column))
    if more > 0:
        text = f"{more:,} more rows like these"
        found.append(Problem("E-MKT-003", text, shown_path(path)))
    return found


def _starts(path: Path, lines: Set[int]) -> dict[int, dict[str, int]]:
    """Return at which character, from 1, each column of some lines begins."""
    found: dict[int, dict[str, int]] = {}
    if not lines or path.suffix == _PARQUET:
        return found
    with opened(path) as file:
        names = file.readline().decode("utf-8-sig").strip().split(",")
        for number, line in enumerate(islice(file, max(lines) - 1), start=2):
            if number in lines:
                widths = [len(cell) + 1 for cell in line.decode("utf-8", "replace").split(",")]
                found[number] = dict(zip(names, accumulate([1, *widths]), strict=False))
    for starts in found.values():
        starts.setdefault("time", starts.get("date", 1))
    return found
