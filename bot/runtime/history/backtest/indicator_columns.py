"""Indicators over columns of closes, read at a position that moves along them.

The values equal those of `IndicatorSet` bit for bit: the same TA-Lib handles, started at the same
bar on the same history. But a handle runs through all the closes ahead when its indicator is first
read, so that advancing a thousand bars costs no more than one.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from bot.engine.indicators import FUNCTIONS, Handle, IndicatorSet, levelled, start
from bot.engine.settings import BARS_KEPT, require_length
from bot.strategy import Indicator

Ready = tuple[str, list[float]]
"""The call that reads it, and its values: `values[at]` is the one before `values[at + 1]`."""


@dataclass(slots=True)
class _Column:
    """`values[i + 1]` is the value once `i` of the closes ahead have been taken."""

    handle: Handle
    values: list[float]


class IndicatorColumns(IndicatorSet):
    """Replaces an `IndicatorSet` for the engine: `update` takes the next bar's close.

    `at` is how many of the closes ahead have been taken; callers move it along with the bars.
    `ready` holds, by name and length, indicators known for everything ahead and without NaN.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at = 0
        self.has_missed = False
        """Set when a value was requested without enough history; the reader resets it."""
        self.ready: dict[str, dict[int, Ready]] = {name: {} for name in FUNCTIONS}
        self.changes = 0
        """How often `ready` has been replaced."""
        self._history = deque[float](maxlen=BARS_KEPT)
        self._ahead: list[float] = []
        self._columns: dict[tuple[str, int], _Column] = {}

    def look_ahead(self, closes: Sequence[int]) -> None:
        """Take in the closes of the next bars; the previous ones have all been taken."""
        assert self.at == len(self._ahead), "bars are taken in their order"
        self._history.extend(self._ahead)
        self._ahead, self.at = list(map(float, closes)), 0
        for (name, period), column in self._columns.items():
            column.values = column.values[-2:]
            column.values += map(column.handle.update, self._ahead)
            self._make_ready(name, period, column.values)

    def _make_ready(self, name: str, period: int, values: list[float]) -> None:
        self.ready[name].pop(period, None)
        self.changes += 1
        if not math.isnan(sum(values)):
            self.ready[name][period] = f"{name}({period})", values

    def update(self, close: int) -> None:
        """Take one closed bar's close."""
        if self.at == len(self._ahead):
            self.look_ahead([close])
        assert self._ahead[self.at] == close, "the bars ahead are those that come"
        self.at += 1

    def begun_again(self, keep: int, ratio: float | None) -> IndicatorSet:
        """Multiply all closes but the last `keep` by a ratio, or drop them if there is none, and
        restart all indicators. The object stays the same, as others move its `at`.
        """
        before = len(self._history) + self.at - keep
        assert before <= len(self._history), "what lies ahead is on the level of its day"
        closes = list(self._history)
        earlier = [] if ratio is None else [levelled(close, ratio) for close in closes[:before]]
        self._history = deque([*earlier, *closes[before:]], maxlen=BARS_KEPT)
        self._columns.clear()
        self.changes += 1
        for ready in self.ready.values():
            ready.clear()
        return self

    def read(self, name: str, period: int) -> Indicator:
        """Return the value at the last bar, NaN while the history is too short.

        Raises KeyError for an unknown name, and as `require_length` for a period.
        """
        require_length(name, period)
        column = self._columns.get((name, period)) or self._begun(name, period)
        if column is None:
            self.has_missed = True
            return Indicator(math.nan)
        value = column.values[self.at + 1]
        self.has_missed |= math.isnan(value)
        return Indicator(value, column.values[self.at])

    def _begun(self, name: str, period: int) -> _Column | None:
        at = self.at
        if len(self._history) + at < period:
            return None  # it is called again at each bar until there is enough
        started = start(name, period, [*self._history, *self._ahead[:at]][-BARS_KEPT:])
        if started is None:
            return None
        handle, previous = started
        unread = [0.0] * at  # nobody goes back to bars at which it was not read
        values = [*unread, previous, handle.value, *map(handle.update, self._ahead[at:])]
        column = _Column(handle, values)
        self._columns[name, period] = column
        self._make_ready(name, period, column.values)
        return column
