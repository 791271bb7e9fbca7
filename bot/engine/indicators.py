"""Indicators over the closes of one series of bars. The only module that imports TA-Lib.

TA-Lib's streaming handles cost the same for every bar and equal the batch functions bit for bit, so
that a backtest and a live run cannot drift apart.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from talib import InsufficientHistory, stream  # type: ignore[attr-defined]  # not in its stubs

from bot.strategy import BARS_MAX, BARS_MIN, Indicator

HISTORY_BARS_MAX: Final = BARS_MAX
"""Closes kept for an indicator that is asked for later than the first bar."""


class Handle(Protocol):
    """A streaming handle of one real input."""

    @property
    def value(self) -> float: ...
    def update(self, _close: float, /) -> float: ...


Open = Callable[[NDArray[np.float64], int], Handle]

FUNCTIONS: Final[Mapping[str, Open]] = {
    "sma": lambda closes, period: stream.SMA(closes, timeperiod=period),
    "ema": lambda closes, period: stream.EMA(closes, timeperiod=period),
    "rsi": lambda closes, period: stream.RSI(closes, timeperiod=period),
}


@dataclass(slots=True)
class _Running:
    handle: Handle
    previous: float

    def update(self, close: float) -> None:
        self.previous = self.handle.value
        self.handle.update(close)


class IndicatorSet:
    """All indicators that anybody has asked of one series; a new one starts from kept history."""

    def __init__(self) -> None:
        self._closes: list[float] = []
        self._running: dict[tuple[str, int], _Running] = {}

    def update(self, close: int) -> None:
        """Take one closed bar's close."""
        self._closes.append(float(close))
        del self._closes[:-HISTORY_BARS_MAX]
        for running in self._running.values():
            running.update(float(close))

    def read(self, name: str, period: int) -> Indicator:
        """Return the value at the last bar, NaN while the history is too short.

        Raises KeyError for an unknown name, ValueError for a period outside 2 to 5,000.
        """
        if not BARS_MIN <= period <= BARS_MAX:
            raise ValueError(f"{name}({period}): wanted {BARS_MIN} to {BARS_MAX} bars")
        running = self._running.get((name, period)) or self._start(name, period)
        if running is None:
            return Indicator(math.nan)
        return Indicator(running.handle.value, running.previous)

    def _start(self, name: str, period: int) -> _Running | None:
        started = self._opened(name, period)
        if started is not None:
            self._running[name, period] = started
        return started

    def _opened(self, name: str, period: int) -> _Running | None:
        """Open one bar back when there is enough history, so that `previous` is known at once."""
        before = self._open(name, period, self._closes[:-1])
        if before is not None:
            running = _Running(before, math.nan)
            running.update(self._closes[-1])
            return running
        now = self._open(name, period, self._closes)
        return _Running(now, math.nan) if now is not None else None

    @staticmethod
    def _open(name: str, period: int, closes: list[float]) -> Handle | None:
        if not closes:
            return None
        try:
            return FUNCTIONS[name](np.array(closes), period)
        except InsufficientHistory:
            return None
