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
        del self._closes[:-BARS_MAX]  # kept for an indicator that is first read later on
        for running in self._running.values():
            running.update(float(close))

    def begun_again(self, keep: int, ratio: float | None) -> "IndicatorSet":
        """Return a set of the same closes of which all but the last `keep` are multiplied by a
        ratio, or left out where there is none.
        """
        split = max(0, len(self._closes) - keep)
        before = [] if ratio is None else [close * ratio for close in self._closes[:split]]
        made = IndicatorSet()
        made._closes = before + self._closes[split:]
        return made

    def read(self, name: str, period: int) -> Indicator:
        """Return the value at the last bar, NaN while the history is too short.

        Raises KeyError for an unknown name, ValueError for a period outside 2 to 5,000.
        """
        if not BARS_MIN <= period <= BARS_MAX:
            raise ValueError(f"{name}({period}): wanted {BARS_MIN} to {BARS_MAX} bars")
        running = self._running.get((name, period)) or self._started(name, period)
        return (
            Indicator(math.nan)
            if running is None
            else Indicator(running.handle.value, running.previous)
        )

    def _started(self, name: str, period: int) -> _Running | None:
        """Start one bar back when there is enough history, so that `previous` is known at once."""
        for bars_back in (1, 0):
            known = len(self._closes) - bars_back
            try:
                handle = (
                    FUNCTIONS[name](np.array(self._closes[:known]), period) if known > 0 else None
                )
            except InsufficientHistory:
                handle = None
            if handle is not None:
                running = self._running[name, period] = _Running(handle, math.nan)
                for close in self._closes[known:]:
                    running.update(close)
                return running
        return None
