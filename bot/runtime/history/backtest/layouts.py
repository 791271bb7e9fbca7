"""Where the bars of a source belong on a day of an exchange, in seconds from local midnight."""

from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.rulebook import Rulebook
from bot.domain.timetable import Timetable
from bot.engine.market import BAR_PHASES
from bot.runtime.history.backtest.rows import LAYOUTS_MAX
from bot.sandbox.exchange.timetable import LIMIT_ORDERS_END
from bot.sandbox.markets.replay.path import EARLY_S

DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Hours:
    """The day of one exchange in seconds from local midnight; None: it has no such auction.

    From `collects_from` on there is nothing but the closing one.
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


class Places(dict[int, tuple[int, int | None, int]]):
    """Where a bar of a second belongs, begins to trade and ends: each is thought about once."""

    def __init__(self, hours: Hours, width: int) -> None:
        super().__init__()
        self._hours, self._width = hours, width
        self._of: dict[tuple[int, ...], tuple[list[int], ...]] = {}

    def __missing__(self, second: int) -> tuple[int, int | None, int]:
        hours, start = self._hours, self._hours.placed(second, self._width)
        until = start + self._width
        ends = min(until, hours.end) if start < hours.end else until
        place = self[second] = start, hours.continuous_from(start, until), ends
        return place

    def of(self, seconds: tuple[int, ...]) -> tuple[list[int], ...]:
        """Return the start of each bar of a day; of each start when it ends; of those that trade
        continuously when they begin to, and which they are. Nobody changes these lists.
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
    """Where the bars of a source belong on a day of an exchange. `is_early`: it ends before its
    time, and what the source has of later was never traded.
    """

    hours: Hours
    grid: tuple[int, ...]
    places: Places
    is_early: bool

    @classmethod
    def on(cls, rulebook: Rulebook, exchange: Exchange, day: date, width: int) -> "Layout":
        """Return that of bars of a width, in seconds, on a trading day."""
        hours = Hours.of(rulebook.timetable_on(exchange, day))
        is_early = day in rulebook.calendar.early_closes
        return cls(hours, hours.grid(width), Places(hours, width), is_early)
