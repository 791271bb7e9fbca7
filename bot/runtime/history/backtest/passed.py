"""What a strategy sees of bars that the engine does not process one by one.

The same as the engine would show it: the bar, the indicators over all bars up to it, what was read,
the time, the quote. Each is created only when the strategy looks at it; for most bars it does not.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from sys import getrefcount
from typing import Final

from bot.domain.quote import Bar, Depth, Quote
from bot.engine.hook_faults import REQUESTS_MAX
from bot.engine.market import Hearer
from bot.runtime.history.backtest.foreseen import Foreseen
from bot.runtime.history.backtest.indicator_columns import IndicatorColumns, Ready
from bot.runtime.history.backtest.rows import Series
from bot.strategy import (
    BarView,
    Context,
    Indicator,
    Read,
    Reads,
    Request,
    RequestKind,
    Strategy,
)

_SKIP: Final = RequestKind.SKIP
_new: Final = float.__new__
HEARD_AFTER: Final = 8
"""After a bar at which the hook may act, so many bars are all played: it may act again soon."""
_UNKEPT: Final = 3
"""References to a view that nobody else keeps: from its listener, from a local name there, and from
the counting call.
"""

Seen = tuple[Quote, Depth | None]
See = Callable[[str, int], Seen | None]
"""Quote and depth of a symbol in a second of the local day, None if unchanged since the engine last
showed them.
"""


class Passed:
    """The bars of a series on a day, at the position that `indicators` has reached."""

    def __init__(self, series: Series, indicators: IndicatorColumns, see: See) -> None:
        self.indicators = indicators
        self.series = series
        self._see = see

    @property
    def now(self) -> datetime:
        """When the bar is shown."""
        second = self.series.shown_at[self.indicators.at - 1]
        return self.series.midnight + timedelta(seconds=second)

    @property
    def seen(self) -> Seen | None:
        """Return quote and depth at that time; None if unchanged since before these bars."""
        return self._see(self.series.symbol, self.series.shown_at[self.indicators.at - 1])


class PassedContext(Context):
    """A context for passed bars; assigning a field ends that mode."""

    __slots__ = ("_depth", "_now", "_quote", "passed")

    def __init__(self, symbol: str = "", name: str = "") -> None:
        self.passed: Passed | None = None
        super().__init__(symbol, name)

    @property
    def now(self) -> datetime | None:
        return self._now if self.passed is None else self.passed.now

    @now.setter
    def now(self, value: datetime | None) -> None:
        self._now, self.passed = value, None

    @property
    def quote(self) -> Quote | None:
        seen = None if self.passed is None else self.passed.seen
        return self._quote if seen is None else seen[0]

    @quote.setter
    def quote(self, value: Quote | None) -> None:
        self._quote, self.passed = value, None

    @property
    def depth(self) -> Depth | None:
        seen = None if self.passed is None else self.passed.seen
        return self._depth if seen is None or seen[1] is None else seen[1]

    @depth.setter
    def depth(self, value: Depth | None) -> None:
        self._depth, self.passed = value, None


@dataclass(slots=True)
class BarCursor:
    """The number of bars of which a view shows the last."""

    at: int


class PassedBar(BarView):
    """A closed bar with the numbers of a row; it becomes a `Bar` on demand.

    One view moves along all the bars, with its cursor. If a strategy keeps it, it is pinned to its
    bar (`pin`) and a new one moves on.
    """

    __slots__ = ("_cursor", "_indicators", "_reads", "_ready", "_series")
    _indicators: IndicatorColumns
    _cursor: BarCursor | IndicatorColumns
    _ready: Mapping[str, Mapping[int, Ready]]
    _reads: Reads
    _series: Series

    def __init__(self, passed: Passed, reads: Reads, read: Read) -> None:
        _set_indicators(self, passed.indicators)
        _set_cursor(self, passed.indicators)
        _set_ready(self, passed.indicators.ready)
        _set_reads(self, reads)
        _set_series(self, passed.series)
        _set_read(self, read)

    def pin(self) -> None:
        """Keep showing the same bar from now on."""
        _set_cursor(self, BarCursor(self._cursor.at))

    def sma(self, bars: int) -> Indicator:
        found = self._ready["sma"].get(bars) if type(bars) is int else None
        return self.read("sma", bars) if found is None else self._look(*found)

    def ema(self, bars: int) -> Indicator:
        found = self._ready["ema"].get(bars) if type(bars) is int else None
        return self.read("ema", bars) if found is None else self._look(*found)

    def rsi(self, bars: int = 14) -> Indicator:
        found = self._ready["rsi"].get(bars) if type(bars) is int else None
        return self.read("rsi", bars) if found is None else self._look(*found)

    def _look(self, name: str, values: list[float]) -> Indicator:
        """Return a value that is known to exist, and note that it was read."""
        at = self._indicators.at
        found = self._reads[name] = _new(Indicator, values[at + 1])
        found.previous = values[at]  # half the cost of calling the class
        return found

    @property
    def bar(self) -> Bar:
        return self._series.bar(self._cursor.at - 1)

    @property
    def start(self) -> datetime:
        return self._series.midnight + timedelta(
            seconds=self._series.rows.start[self._cursor.at - 1]
        )

    @property
    def open(self) -> int:
        return self._series.rows.open[self._cursor.at - 1]

    @property
    def high(self) -> int:
        return self._series.rows.high[self._cursor.at - 1]

    @property
    def low(self) -> int:
        return self._series.rows.low[self._cursor.at - 1]

    @property
    def close(self) -> int:
        return self._series.rows.close[self._cursor.at - 1]

    @property
    def volume(self) -> int:
        return self._series.rows.volume[self._cursor.at - 1]


# Frozen fields are set through their slots, once.
_slots = vars(PassedBar)
_set_indicators: Callable[[PassedBar, IndicatorColumns], None] = _slots["_indicators"].__set__
_set_cursor: Callable[[PassedBar, BarCursor | IndicatorColumns], None] = _slots["_cursor"].__set__
_set_ready: Callable[[PassedBar, Mapping[str, Mapping[int, Ready]]], None] = _slots[
    "_ready"
].__set__
_set_reads: Callable[[PassedBar, Reads], None] = _slots["_reads"].__set__
_set_series: Callable[[PassedBar, Series], None] = _slots["_series"].__set__
_set_read: Callable[[BarView, Read], None] = vars(BarView)["read"].__set__


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a hook that was called before the engine had reached its bar."""

    requests: list[Request]
    reads: Reads
    error: BaseException | None


class Listener:
    """An instance to which bars are shown one after the other."""

    def __init__(self, hearer: Hearer, passed: Passed, counts: Counter[str]) -> None:
        """`counts`: decisions by code."""
        context, strategy = hearer.instance.context, hearer.instance.strategy
        assert isinstance(context, PassedContext), "the engine was made with it"
        self.hearer, self.passed, self.context = hearer, passed, context
        self._counts = counts
        self._strategy = strategy
        # the engine checks this only once, too
        self._is_deaf = type(strategy).on_bar is Strategy.on_bar
        self._hook: tuple[object, ...] = ()
        self._look_at_the_hook()
        self._view = PassedBar(passed, context.reads, self._read)
        self._first = 0
        self._is_cold = False
        self._error: BaseException | None = None

    def _look_at_the_hook(self) -> None:
        """Check what is called: a strategy may have replaced its hook or class."""
        kind, own = type(self._strategy), vars(self._strategy).get("on_bar")
        if self._hook != (kind, kind.on_bar, own):
            self._hook = kind, kind.on_bar, own
            self._warm_up = kind.warm_up
            self._foreseen = Foreseen(self._strategy, self.passed.indicators)

    def begin(self) -> None:
        """Start with the bars ahead, from the series' next one on."""
        self.context.passed = self.passed
        self._look_at_the_hook()
        # anything missed by a hook that the engine called
        self.passed.indicators.has_missed = False
        bars_before = self.hearer.series.count - self.passed.indicators.at
        self._first = self._warm_up - bars_before - 1
        self._view = PassedBar(self.passed, self.context.reads, self._read)

    def end(self) -> None:
        """Stop showing bars; a strategy that has kept the last bar keeps that one."""
        self._view.pin()

    def is_called_for(self, row: int) -> bool:
        """Return whether its hook is called for a bar: it has one, and the history
        that it needs.
        """
        return not self._is_deaf and row >= self._first

    def hear_all(self, first: int, end: int) -> int:
        """Call the hook with the bars from `first` up to `end`; return the first one that the
        engine has to judge, else `end`. Bars that lead to nothing are settled.
        """
        warm = min(end, max(first, self._first))
        if first < warm:
            if self.context.position:
                return first
            self._counts["WARMING"] += warm - first
        if self._is_deaf:
            return end
        row = warm
        while row < end:
            ahead = self._foreseen.next(self.passed.series, row, end)
            if ahead is None:
                return self._hear_each(row, end)
            if ahead > row:
                self._counts["NO_SIGNAL"] += ahead - row
            self.passed.indicators.at = row = ahead
            near = min(end, row + HEARD_AFTER)
            row = self._hear_each(row, near)
            if row < near:
                return row
        return end

    def _hear_each(self, first: int, end: int) -> int:
        context, strategy, reads, view = (
            self.context,
            self._strategy,
            self.context.reads,
            self._view,
        )
        indicators, row, counted = self.passed.indicators, first, 0
        try:
            for row in range(first, end):
                indicators.at = row + 1
                strategy.on_bar(view)
                if getrefcount(view) > _UNKEPT:
                    view = self._another()
                if indicators.has_missed or context.requests:
                    if not self._is_no():
                        break
                    self.settle(row)
                    counted += 1
                reads.clear()
            else:
                row = end
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._error = error
        if silent := row - first - counted:
            self._counts["NO_SIGNAL"] += silent
        return row

    def next_call(self, first: int, end: int) -> int:
        """Return the first bar from `first` up to `end` at which its hook must be called, or at
        which the engine must report missing bars; `end`: none.
        """
        warm = min(end, max(first, self._first))
        if first < warm and self.context.position:
            return first
        if self._is_deaf or warm == end:
            return end
        ahead = self._foreseen.next(self.passed.series, warm, end)
        return warm if ahead is None else ahead

    def pass_by(self, first: int, end: int) -> None:
        """Count the "no request" results of the bars from `first` up to `end`, without calling the
        hook.
        """
        warm = min(end, max(first, self._first))
        if first < warm:
            self._counts["WARMING"] += warm - first
        if warm < end and not self._is_deaf:
            self._counts["NO_SIGNAL"] += end - warm

    def hear(self, row: int) -> bool:
        """Call the hook with a bar; return False if the engine has to judge the result.

        If it holds shares but lacks bars to decide, the engine reports that.
        """
        if row < self._first:
            return not self.context.position
        if self._is_deaf:
            return True
        view = self._view
        try:
            self._strategy.on_bar(view)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._error = error
            return False
        if getrefcount(view) > _UNKEPT:
            self._another()
        has_missed = self.passed.indicators.has_missed
        return not (has_missed or self.context.requests) or self._is_no()

    def _another(self) -> PassedBar:
        """Leave the view to the strategy that has kept it, and continue with a new one."""
        self._view.pin()
        self._view = PassedBar(self.passed, self.context.reads, self._read)
        return self._view

    def _is_no(self) -> bool:
        """Return whether everything that the hook has requested leads to nothing."""
        # It may have read any bar that it has kept, including the engine's own.
        indicators = self.passed.indicators
        self._is_cold, indicators.has_missed = indicators.has_missed, False
        wanted = self.context.requests
        if self._is_cold:
            return not self.context.position
        return len(wanted) <= REQUESTS_MAX and all(each.kind is _SKIP for each in wanted)

    def settle(self, row: int) -> None:
        """Count the "no request" of a hook that the engine need not judge, and get ready for the
        next.
        """
        context, counts = self.context, self._counts
        if self._is_cold or row < self._first:
            counts["WARMING"] += 1
            self._is_cold = False
            context.requests.clear()
        elif self._is_deaf:
            return
        elif context.requests:
            counts["SKIP"] += len(context.requests)
            context.requests.clear()
        else:
            counts["NO_SIGNAL"] += 1
        context.reads.clear()

    def done(self) -> Done:
        """Return what the hook has done, and get ready for the next."""
        context = self.context
        done = Done(context.requests[:], dict(context.reads), self._error)
        self._is_cold, self._error = False, None
        self.passed.indicators.has_missed = False
        context.reads.clear()
        return done

    def _read(self, name: str, period: int) -> Indicator:
        """Return an indicator, and note that it was read."""
        value = self.passed.indicators.read(name, period)
        self.context.reads[f"{name}({period})"] = value
        return value
