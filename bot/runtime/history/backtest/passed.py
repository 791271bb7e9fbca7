"""What a strategy is shown of bars that the engine does not take one by one.

The same as the engine would show it: the bar, the indicators over all bars up to it, what was read,
the time, the quote. A thing is made when the strategy looks at it, for most bars nobody does.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import Final

from bot.domain.quote import Bar, Depth, Quote
from bot.engine.passing import Hearer
from bot.engine.wake import REQUESTS_MAX
from bot.runtime.history.backtest.indicator_columns import IndicatorColumns
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

Seen = tuple[Quote, Depth | None]
See = Callable[[str, int], Seen | None]
"""Quote and depth of a symbol in a second of the local day, None where they are those that the
engine has shown last."""


class Passed:
    """The bars of a series on a day, at the one that `indicators` has come to."""

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
        """Return quote and depth at that time; None: those that were there before these bars."""
        return self._see(self.series.symbol, self.series.shown_at[self.indicators.at - 1])


class PassedContext(Context):
    """A context that can be put before bars that are passed; assigning to it ends that."""

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


class PassedBar(BarView):
    """A closed bar whose numbers are those of a row; it becomes a `Bar` when that is asked for."""

    __slots__ = ("_row", "_series")
    _row: int
    _series: Series

    def __init__(self, series: Series, row: int, read: Read) -> None:
        _set_series(self, series)
        _set_row(self, row)
        _set_read(self, read)

    @property
    def bar(self) -> Bar:
        return self._series.bar(self._row)

    @property
    def start(self) -> datetime:
        return self._series.midnight + timedelta(seconds=self._series.rows.start[self._row])

    @property
    def open(self) -> int:
        return self._series.rows.open[self._row]

    @property
    def high(self) -> int:
        return self._series.rows.high[self._row]

    @property
    def low(self) -> int:
        return self._series.rows.low[self._row]

    @property
    def close(self) -> int:
        return self._series.rows.close[self._row]

    @property
    def volume(self) -> int:
        return self._series.rows.volume[self._row]


# What is frozen is filled through its slots, once.
_set_series: Callable[[PassedBar, Series], None] = vars(PassedBar)["_series"].__set__
_set_row: Callable[[PassedBar, int], None] = vars(PassedBar)["_row"].__set__
_set_read: Callable[[BarView, Read], None] = vars(BarView)["read"].__set__


@dataclass(frozen=True, slots=True)
class Done:
    """What a hook has done that was called before the engine had come to its bar."""

    requests: list[Request]
    reads: Reads
    error: BaseException | None


class Listener:
    """An instance that bars are shown to; it is shown one after the other."""

    def __init__(self, hearer: Hearer, passed: Passed) -> None:
        context, strategy = hearer.instance.context, hearer.instance.strategy
        assert isinstance(context, PassedContext), "the engine was made with it"
        self.hearer, self.passed, self.context = hearer, passed, context
        self._warm_up = type(strategy).warm_up
        self._on_bar: Callable[[BarView], None] = strategy.on_bar
        self._is_deaf = type(strategy).on_bar is Strategy.on_bar
        self._names: dict[tuple[str, int], str] = {}
        self._bars_before = 0
        self._is_cold = False
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Be put before the bars that come, from the next one of the series on."""
        self.context.passed = self.passed
        self._bars_before = self.hearer.series.count - self.passed.indicators.at

    def is_called_for(self, row: int) -> bool:
        """Tell whether its hook is called for a bar: it has one, and the history that it needs."""
        return not self._is_deaf and not self._waits(row)

    def _waits(self, row: int) -> bool:
        return self._bars_before + row + 1 < self._warm_up

    def hear(self, row: int) -> bool:
        """Call the hook with a bar; False when the engine has to judge what it has done.

        Who holds shares and cannot decide for want of bars is told of by the engine.
        """
        if self._waits(row):
            return not self.context.position
        if self._is_deaf:
            return True
        try:
            self._on_bar(PassedBar(self.passed.series, row, self._read))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._error = error
            return False
        wanted = self.context.requests
        if self._is_cold:
            return not self.context.position
        if not wanted:
            return True
        return len(wanted) <= REQUESTS_MAX and all(each.kind is _SKIP for each in wanted)

    def settle(self, counts: Counter[str], row: int) -> None:
        """Count the "no" of a hook that the engine need not judge, and be ready for the next."""
        context = self.context
        if self._is_cold or self._waits(row):
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
        """Return what the hook has done, and be ready for the next."""
        context = self.context
        done = Done(context.requests[:], dict(context.reads), self._error)
        self._is_cold, self._error = False, None
        context.reads.clear()
        return done

    def _read(self, name: str, period: int) -> Indicator:
        """Return an indicator, and note that it was looked at."""
        value = self.passed.indicators.read(name, period)
        key = self._names.get((name, period))
        if key is None:
            key = self._names[name, period] = f"{name}({period})"
        self.context.reads[key] = value
        if isnan(value):
            self._is_cold = True
        return value
