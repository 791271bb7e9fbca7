"""Indicators over the closes of one series of bars. The only module that imports TA-Lib.

TA-Lib's streaming handles cost the same for every bar and equal the batch functions bit for bit, so
that backtest and live runs agree.
"""

import math
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from bot.engine.settings import BARS_KEPT, require_length
from bot.strategy import Indicator

# TA-Lib imports polars and pandas if installed, to accept their frames: 35 MB that we never use.
# Setting a module to None makes it unavailable.
_FRAMES: Final = [name for name in ("polars", "pandas") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_FRAMES))  # type: ignore[arg-type]
try:
    from talib import InsufficientHistory, stream  # type: ignore[attr-defined]  # not in its stubs
finally:
    for name in _FRAMES:
        del sys.modules[name]


class Handle(Protocol):
    """A streaming handle with one real input."""

    @property
    def value(self) -> float: ...
    def update(self, _close: float, /) -> float: ...


_PARTS: Final = 1_024
Open = Callable[[NDArray[np.float64], int], Handle]

FUNCTIONS: Final[Mapping[str, Open]] = {
    "sma": lambda closes, period: stream.SMA(closes, timeperiod=period),
    "ema": lambda closes, period: stream.EMA(closes, timeperiod=period),
    "rsi": lambda closes, period: stream.RSI(closes, timeperiod=period),
}


def start(name: str, period: int, closes: Sequence[float]) -> tuple[Handle, float] | None:
    """Return a handle that has processed these closes, and its previous value, NaN if there was
    none; None if there are too few closes. Further input continues from there.
    """
    for bars_back in (1, 0):
        known = len(closes) - bars_back
        if known < period:  # every one of them needs that
            continue
        try:
            handle = FUNCTIONS[name](np.array(closes[:known]), period)
        except InsufficientHistory:
            continue
        previous = math.nan
        for close in closes[known:]:
            previous = handle.value
            handle.update(close)
        return handle, previous
    return None


def levelled(close: float, ratio: float) -> float:
    """Return an earlier close on the level after an ex-date, to 1/1,024 VND. Sums of binary
    fractions are exact: a running average keeps no residue of what has left it, so that of a price
    that stands still is the price, wherever it began.
    """
    return round(close * ratio * _PARTS) / _PARTS


@dataclass(slots=True)
class _Running:
    handle: Handle
    previous: float

    def update(self, close: float) -> None:
        self.previous = self.handle.value
        self.handle.update(close)


class IndicatorSet:
    """All indicators requested for one series; a new one starts from the stored history."""

    def __init__(self) -> None:
        self._closes = array("d")
        self._running: dict[tuple[str, int], _Running] = {}

    def update(self, close: int) -> None:
        """Take one closed bar's close."""
        self._closes.append(float(close))
        del self._closes[:-BARS_KEPT]  # kept for indicators first read later on
        for running in self._running.values():
            running.update(float(close))

    def begun_again(self, keep: int, ratio: float | None) -> "IndicatorSet":
        """Return a set with the same closes, all but the last `keep` multiplied by a ratio, or
        dropped if there is none.
        """
        split = max(0, len(self._closes) - keep)
        made = IndicatorSet()
        if ratio is not None:
            made._closes.extend(levelled(close, ratio) for close in self._closes[:split])
        made._closes.extend(self._closes[split:])
        return made

    def read(self, name: str, period: int) -> Indicator:
        """Return the value at the last bar, NaN while the history is too short.

        Raises KeyError for an unknown name, and as `require_length` for a period.
        """
        require_length(name, period)
        running = self._running.get((name, period)) or self._started(name, period)
        return (
            Indicator(math.nan)
            if running is None
            else Indicator(running.handle.value, running.previous)
        )

    def _started(self, name: str, period: int) -> _Running | None:
        started = start(name, period, self._closes)
        if started is None:
            return None
        handle, previous = started
        running = self._running[name, period] = _Running(handle, previous)
        return running
