"""Indicators over columns of closes, read at a bar that moves along them.

The values are those of `IndicatorSet`, bit for bit: the same handles of TA-Lib, begun at the same
bar on the same history. Only that a handle runs through all the closes that lie ahead when its
indicator is first read, so that going on by a thousand bars costs no more than by one.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from bot.engine.indicators import Handle, IndicatorSet, start
from bot.strategy import BARS_MAX, BARS_MIN, Indicator


@dataclass(slots=True)
class _Column:
    """`values[i]` is the value when `since + i` of the closes ahead have been taken."""

    handle: Handle
    values: list[float]
    since: int


class IndicatorColumns(IndicatorSet):
    """What an `IndicatorSet` is to the engine: `update` takes the next bar's close.

    `at` is how many of the closes ahead have been taken; who moves it has moved along the bars.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at = 0
        self._history = deque[float](maxlen=BARS_MAX)
        self._ahead: list[float] = []
        self._columns: dict[tuple[str, int], _Column] = {}

    def look_ahead(self, closes: Sequence[int]) -> None:
        """Take in the closes of the bars that come next; those before have all been taken."""
        assert self.at == len(self._ahead), "bars are taken in their order"
        self._history.extend(self._ahead)
        self._ahead, self.at = [float(close) for close in closes], 0
        for column in self._columns.values():
            last, ahead = column.values[-2:], map(column.handle.update, self._ahead)
            column.values, column.since = [*last, *ahead], -1

    def update(self, close: int) -> None:
        """Take one closed bar's close."""
        if self.at == len(self._ahead):
            self.look_ahead([close])
        assert self._ahead[self.at] == close, "the bars ahead are those that come"
        self.at += 1

    def read(self, name: str, period: int) -> Indicator:
        """Return the value at the last bar, NaN while the history is too short.

        Raises KeyError for an unknown name, ValueError for a period outside 2 to 5,000.
        """
        column = self._columns.get((name, period)) or self._begun(name, period)
        if column is None:
            return Indicator(math.nan)
        at, values = self.at - column.since, column.values
        return Indicator(values[at], values[at - 1])

    def _begun(self, name: str, period: int) -> _Column | None:
        if not BARS_MIN <= period <= BARS_MAX:
            raise ValueError(f"{name}({period}): wanted {BARS_MIN} to {BARS_MAX} bars")
        at = self.at
        started = start(name, period, [*self._history, *self._ahead[:at]][-BARS_MAX:])
        if started is None:
            return None
        handle, previous = started
        ahead = map(handle.update, self._ahead[at:])
        values = [previous, handle.value, *ahead]
        column = self._columns[name, period] = _Column(handle, values, since=at - 1)
        return column
