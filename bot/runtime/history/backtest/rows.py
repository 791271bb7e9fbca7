"""The bars of a day as rows of numbers: where each belongs on its exchange's day, and when it
begins, ends and is shown. Times are seconds from local midnight.

A bar becomes an object only if somebody is to see it: a day has hundreds, and for most of them only
the close is needed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.domain.timetable import Timetable
from bot.engine.market import BAR_PHASES
from bot.runtime.history.bars import outlasts_span
from bot.sandbox.exchange.day import LIMIT_ORDERS_END
from bot.sandbox.markets.replay.data import EARLY_S

Auction = tuple[int, int | None]
"""Its price, and its volume if known."""
LAYOUTS_MAX: Final = 100
"""Days whose layout is cached: many are alike."""
_CLOSE = 3
"""Index in a row without its start."""
DAY_S: Final = 86_400


@dataclass(slots=True)
class Rows:
    """Bars of one symbol and day, oldest first. `start` is in seconds of the local day."""

    start: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    low: list[int] = field(default_factory=list)
    close: list[int] = field(default_factory=list)
    volume: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def columns(self) -> tuple[list[int], ...]:
        return self.start, self.open, self.high, self.low, self.close, self.volume

    def extend(self, other: "Rows") -> None:
        """Append later rows."""
        for column, more in zip(self.columns, other.columns, strict=True):
            column.extend(more)

    def until(self, second: int) -> "Rows":
        """Return the rows that begin before a second of the day."""
        end = bisect_left(self.start, second)
        return self if end == len(self) else Rows(*(column[:end] for column in self.columns))

    def add(self, start: int, rows: "Rows", first: int, end: int) -> None:
        """Append a row that merges those of `rows` from `first` up to, not including, `end`."""
        self.start.append(start)
        self.open.append(rows.open[first])
        self.high.append(max(rows.high[first:end]))
        self.low.append(min(rows.low[first:end]))
        self.close.append(rows.close[end - 1])
        self.volume.append(sum(rows.volume[first:end]))


def joined(starts: Sequence[int], rows: Rows) -> Rows:
    """Return the rows by their new starts, merging those with the same start.

    Leading flat rows, which only repeat the earlier price, count only if all rows are flat.
    """
    if len(set(starts)) == len(starts):
        return rows if starts == rows.start else Rows(list(starts), *rows.columns[1:])
    made, first = Rows(), 0
    for index in range(1, len(starts) + 1):
        if index == len(starts) or starts[index] != starts[first]:
            own = range(first, index)
            traded = (each for each in own if rows.volume[each] or rows.high[each] > rows.low[each])
            made.add(starts[first], rows, next(traded, first), index)
            first = index
    return made


def with_flat(rows: Rows, grid: Sequence[int], last: int | None) -> Rows:
    """Return the rows with flat ones where the grid has none, at the close before them.

    `last` is the close before the first; None: there was none, and nothing is flat before it.
    """
    known = rows.start
    if not set(grid).difference(known):
        return rows
    starts, made = list[int](), list[tuple[int, ...]]()
    traded = dict(zip(known, zip(*rows.columns[1:], strict=True), strict=True))
    flat = None if last is None else (last, last, last, last, 0)
    for start in sorted({*grid, *known}):
        row = traded.get(start)
        if row is not None:
            close = row[_CLOSE]
            flat = (close, close, close, close, 0)
        elif (row := flat) is None:
            continue
        starts.append(start)
        made.append(row)
    return Rows(starts, *map(list, zip(*made, strict=True)))


@dataclass(slots=True)
class Series:
    """Bars of a width as strategies see them, and the second at which each is shown."""

    symbol: str
    width: int
    midnight: datetime
    rows: Rows
    shown_at: list[int] = field(default_factory=list)

    def bar(self, index: int) -> Bar:
        rows, start = self.rows, self.midnight + timedelta(seconds=self.rows.start[index])
        prices = rows.open[index], rows.high[index], rows.low[index], rows.close[index]
        return Bar(self.symbol, start, self.width, *prices, rows.volume[index])


@dataclass(slots=True)
class DayRows(Series):
    """The bars of a symbol's day that trade, and the `series` that strategies are shown of it.

    `ended_at` is the end of each row; `begun_at` is when the rows with numbers `begun` start to
    trade continuously; `quoted_at` is when a poll would show a new price. `auctions`: price and
    volume matched by the auction that ends then. `held`: the daily bar of the day before, and when
    it is shown.
    """

    ended_at: list[int] = field(default_factory=list)
    begun_at: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    auctions: dict[int, Auction] = field(default_factory=dict)
    quoted_at: list[int] = field(default_factory=list)
    held: tuple[int, Bar] | None = None
    series: list[Series] = field(default_factory=list)

    @property
    def layout(self) -> list[list[int]]:
        """The lists of seconds in which anything happens; they are never modified."""
        return [self.ended_at, self.begun_at, self.quoted_at, *(s.shown_at for s in self.series)]

    @property
    def others(self) -> set[int]:
        """The few further seconds in which anything happens."""
        return set(self.auctions) if self.held is None else {*self.auctions, self.held[0]}


class SecondsOfDays:
    """The seconds in which anything happens on a day, in order; cached, as many days
    have the same.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[list[list[int]], tuple[int, ...]]] = {}

    def of(self, moves: frozenset[int], placed: Collection[DayRows]) -> tuple[int, ...]:
        """Return the seconds of a day whose phases begin in `moves`."""
        lists = [each for rows in placed for each in rows.layout]
        others = moves.union(*(rows.others for rows in placed))
        key = (others, *map(id, lists))
        known = self._known.get(key)
        if known is None:
            if len(self._known) == LAYOUTS_MAX:
                self._known.clear()
            known = lists, tuple(sorted(others.union(*lists)))
            self._known[key] = known  # this keeps the lists alive, so that no other gets their ids
        return known[1]


def within(seconds: Sequence[int], first: int, last: int) -> range:
    """Return the index range of a sorted list from `first` to `last`, both included."""
    return range(bisect_left(seconds, first), bisect_right(seconds, last))


@dataclass(frozen=True, slots=True)
class Hours:
    """The day of one exchange in seconds from local midnight; None: it has no such auction.

    From `collects_from` on there is only the closing auction.
    """

    spans: tuple[tuple[int, int, Phase], ...]
    opening: int | None
    closing: int | None
    collects_from: int
    end: int

    @classmethod
    def of(cls, timetable: Timetable) -> "Hours":
        found, spans = list[tuple[int, int, Phase]](), timetable.spans
        starts = [each.start.hour * 3_600 + each.start.minute * 60 for each in spans]
        for span, start, end in zip(spans, starts, [*starts[1:], DAY_S], strict=True):
            if found and found[-1][2] is span.phase:
                found[-1] = (found[-1][0], end, span.phase)
            else:
                found.append((start, end, span.phase))
        ends = {phase: end for _, end, phase in found}
        begins = {phase: start for start, _, phase in found}
        over = (at for at, _, phase in found[1:] if phase in LIMIT_ORDERS_END)
        closing, collects_from = ends.get(Phase.PRE_CLOSED), begins.get(Phase.PRE_CLOSED, DAY_S)
        return cls(tuple(found), ends.get(Phase.OPEN), closing, collects_from, next(over))

    @property
    def trading(self) -> tuple[tuple[int, int], ...]:
        """The spans whose quotes form bars."""
        return tuple((start, end) for start, end, phase in self.spans if phase in BAR_PHASES)

    @property
    def moves(self) -> tuple[int, ...]:
        return tuple(start for start, _, _ in self.spans[1:])

    def continuous_from(self, second: int, until: int) -> int | None:
        """Return when a bar of these seconds starts to trade continuously."""
        spans = (each for each in self.spans if each[2] is Phase.PROGRESS)
        return next(
            (max(start, second) for start, end, _ in spans if start < until and second < end), None
        )

    def placed(self, second: int, width: int) -> int:
        """Return the start of a bar; one stamped just before or after trading is moved into it."""
        if width >= DAY_S:
            return 0
        if second == self.closing:
            return second
        for start, end in self.trading:
            if start - EARLY_S <= second < start:
                return start
            if second < end <= second + width or start <= second < end:
                return second
        ended = [end for _, end in self.trading if end == second]
        return second - width if ended else second

    def grid(self, width: int) -> tuple[int, ...]:
        """Return the starts of the bars that polling would build in a whole day."""
        return tuple(
            second
            for second in range(0, DAY_S, width)
            if any(start < second + width and second < end for start, end in self.trading)
        )


class BarTimes(dict[int, tuple[int, int | None, int]]):
    """Where a bar of a second belongs, starts to trade and ends; computed once each. `late`: the
    starts of those that last longer than their span of the grid.
    """

    def __init__(self, hours: Hours, width: int) -> None:
        super().__init__()
        self._hours, self._width = hours, width
        self._sessions = {start for start, _ in hours.trading}
        self.late: set[int] = set()
        self._of: dict[tuple[int, ...], tuple[list[int], ...]] = {}

    def __missing__(self, second: int) -> tuple[int, int | None, int]:
        hours, start = self._hours, self._hours.placed(second, self._width)
        until = start + self._width
        ends = min(until, hours.end) if start < hours.end else until
        # The first bar of a session may be stamped by its first trade; it ends with its span.
        is_known = start in self._sessions or start >= hours.end
        if not is_known and outlasts_span(start, ends, self._width):
            self.late.add(start)
        found = self[second] = start, hours.continuous_from(start, until), ends
        return found

    def of(self, seconds: tuple[int, ...]) -> tuple[list[int], ...]:
        """Return the start of each bar of a day; the end of each start; and for bars that trade
        continuously, when they start to and which they are. The lists are never modified.
        """
        known = self._of.get(seconds)
        if known is not None:
            return known
        starts = [self[second][0] for second in seconds]
        joined_starts = [start for start, _ in groupby(starts)]
        begins = [(self[start][1], row) for row, start in enumerate(joined_starts)]
        begun = [(second, row) for second, row in begins if second is not None]
        if len(self._of) == LAYOUTS_MAX:
            self._of.clear()
        made = self._of[seconds] = (
            starts,
            [self[start][2] for start in joined_starts],
            [second for second, _ in begun],
            [row for _, row in begun],
        )
        return made


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the bars of a source belong on a day of an exchange. `is_early`: the day ends early,
    and later bars in the source were never traded.
    """

    hours: Hours
    grid: tuple[int, ...]
    times: BarTimes
    is_early: bool

    @classmethod
    def on(cls, rulebook: Rulebook, exchange: Exchange, day: date, width: int) -> "Layout":
        """Return the layout for bars of a width, in seconds, on a trading day."""
        hours = Hours.of(rulebook.timetable_on(exchange, day))
        is_early = day in rulebook.calendar.early_closes
        return cls(hours, hours.grid(width), BarTimes(hours, width), is_early)
