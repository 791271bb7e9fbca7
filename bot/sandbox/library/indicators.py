"""Technical indicators as the broker's screen has them, in plain Python over lists of floats.

Every function takes the days, oldest first, and returns lines of the same length; None where there
are too few days yet. Definitions are the usual ones: Wilder's smoothing for RSI, ATR and ADX,
exponential averages that begin with the first value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Final

Line = list[float | None]
Lines = Mapping[str, Line]


@dataclass(frozen=True, slots=True)
class Prices:
    """The days as columns."""

    high: Sequence[float]
    low: Sequence[float]
    close: Sequence[float]
    volume: Sequence[float]

    def __len__(self) -> int:
        return len(self.close)

    @property
    def typical(self) -> list[float]:
        """The average of high, low and close."""
        return [sum(day) / 3 for day in zip(self.high, self.low, self.close, strict=True)]

    @property
    def true_ranges(self) -> list[float]:
        """How far each day reached, the gap from the close before included."""
        before = [self.close[0], *self.close[:-1]]
        days = zip(self.high, self.low, before, strict=True)
        return [max(high, close) - min(low, close) for high, low, close in days]


def _rolling(values: Sequence[float], number: int, of: Callable[[Sequence[float]], float]) -> Line:
    return [
        of(values[end - number : end]) if end >= number else None
        for end in range(1, len(values) + 1)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _exponential(values: Sequence[float], weight: float) -> list[float]:
    smoothed: list[float] = []
    for value in values:
        last = smoothed[-1] if smoothed else value
        smoothed.append(last + weight * (value - last))
    return smoothed


def _late(line: Sequence[float], number: int) -> Line:
    """Leave out the first days, whose average is not one yet."""
    return [value if index >= number - 1 else None for index, value in enumerate(line)]


def _ema(values: Sequence[float], number: int) -> list[float]:
    return _exponential(values, 2 / (number + 1))


def _wilder(values: Sequence[float], number: int) -> list[float]:
    return _exponential(values, 1 / number)


def _per_cent(part: float, whole: float, otherwise: float = 0.0) -> float:
    return 100 * part / whole if whole else otherwise


# ---------------------------------------------------------------------------------- averages


def sma(prices: Prices, number: float = 20) -> Lines:
    """Simple average of closes."""
    return {"value": _rolling(prices.close, int(number), _mean)}


def ema(prices: Prices, number: float = 20) -> Lines:
    """Exponential average of closes."""
    return {"value": _late(_ema(prices.close, int(number)), int(number))}


def volume_sma(prices: Prices, number: float = 20) -> Lines:
    """Simple average of volumes."""
    return {"value": _rolling(prices.volume, int(number), _mean)}


def bbands(prices: Prices, number: float = 20, width: float = 2) -> Lines:
    """Bands around the average."""
    middle = _rolling(prices.close, int(number), _mean)
    spread = _rolling(prices.close, int(number), _deviation)
    pairs = list(zip(middle, spread, strict=True))
    return {
        "upper": [m if m is None or s is None else m + width * s for m, s in pairs],
        "middle": middle,
        "lower": [m if m is None or s is None else m - width * s for m, s in pairs],
    }


def macd(prices: Prices, fast: float = 12, slow: float = 26, signal: float = 9) -> Lines:
    """Two averages' distance, its average, and their difference."""
    pairs = zip(_ema(prices.close, int(fast)), _ema(prices.close, int(slow)), strict=True)
    line = [a - b for a, b in pairs]
    smooth = _ema(line, int(signal))
    rest = [a - b for a, b in zip(line, smooth, strict=True)]
    names = ("macd_line", "signal_line", "histogram")
    return {
        name: _late(each, int(slow)) for name, each in zip(names, (line, smooth, rest), strict=True)
    }


# ------------------------------------------------------------------------------- oscillators


def rsi(prices: Prices, number: float = 14) -> Lines:
    """Strength of rises against falls, 0 to 100."""
    moves = _moves(prices.close)
    rises = _wilder([max(move, 0.0) for move in moves], int(number))
    falls = _wilder([max(-move, 0.0) for move in moves], int(number))
    line = [_per_cent(up, up + down, 50.0) for up, down in zip(rises, falls, strict=True)]
    return {"value": _late(line, int(number) + 1)}


def _moves(values: Sequence[float]) -> list[float]:
    return [0.0, *(now - before for before, now in pairwise(values))]


def stoch(prices: Prices, number: float = 14, smooth: float = 3) -> Lines:
    """Where the close stands in the range of the last days, 0 to 100."""
    k = _in_range(prices, int(number))
    known = [value for value in k if value is not None]
    d = _rolling(known, int(smooth), _mean)
    return {"k": k, "d": [*[None] * (len(k) - len(known)), *d]}


def williams_r(prices: Prices, number: float = 14) -> Lines:
    """The same from the top, -100 to 0."""
    line = _in_range(prices, int(number))
    return {"value": [None if value is None else value - 100 for value in line]}


def _in_range(prices: Prices, number: int) -> Line:
    highs, lows = _rolling(prices.high, number, max), _rolling(prices.low, number, min)
    days = zip(prices.close, highs, lows, strict=True)
    return [
        None if high is None or low is None else _per_cent(close - low, high - low, 50.0)
        for close, high, low in days
    ]


def cci(prices: Prices, number: float = 20) -> Lines:
    """How far the typical price is from its average, in mean distances."""
    typical = prices.typical

    def index(values: Sequence[float]) -> float:
        mean = _mean(values)
        spread = _mean([abs(value - mean) for value in values])
        return (values[-1] - mean) / (0.015 * spread) if spread else 0.0

    return {"value": _rolling(typical, int(number), index)}


def mfi(prices: Prices, number: float = 14) -> Lines:
    """RSI of money: typical price times volume, 0 to 100."""
    typical = prices.typical
    signed = [
        price * volume * ((move > 0) - (move < 0))
        for price, volume, move in zip(typical, prices.volume, _moves(typical), strict=True)
    ]

    def index(flows: Sequence[float]) -> float:
        inflow = sum(flow for flow in flows if flow > 0)
        return _per_cent(inflow, sum(map(abs, flows)), 50.0)

    return {"value": _rolling(signed, int(number), index)}


def obv(prices: Prices) -> Lines:
    """Volumes of rising days less those of falling days."""
    total, line = 0.0, []
    for volume, move in zip(prices.volume, _moves(prices.close), strict=True):
        total += volume * ((move > 0) - (move < 0))
        line.append(total)
    return {"value": list(line)}


# ------------------------------------------------------------------------------------- trend


def atr(prices: Prices, number: float = 14) -> Lines:
    """Average true range."""
    return {"value": _late(_wilder(prices.true_ranges, int(number)), int(number))}


def adx(prices: Prices, number: float = 14) -> Lines:
    """Strength of the trend, and the two directions, 0 to 100."""
    ups, downs = _moves(prices.high), [-move for move in _moves(prices.low)]
    pairs = list(zip(ups, downs, strict=True))
    plus = _wilder([up if up > down and up > 0 else 0.0 for up, down in pairs], int(number))
    minus = _wilder([down if down > up and down > 0 else 0.0 for up, down in pairs], int(number))
    ranges = _wilder(prices.true_ranges, int(number))
    plus_di = [_per_cent(a, b) for a, b in zip(plus, ranges, strict=True)]
    minus_di = [_per_cent(a, b) for a, b in zip(minus, ranges, strict=True)]
    moves = [_per_cent(abs(a - b), a + b) for a, b in zip(plus_di, minus_di, strict=True)]
    lines = {"value": _wilder(moves, int(number)), "plus_di": plus_di, "minus_di": minus_di}
    return {name: _late(line, int(number)) for name, line in lines.items()}


def supertrend(prices: Prices, number: float = 10, factor: float = 3) -> Lines:
    """A line that trails the price by some true ranges; `up` is 1 while it is below the price."""
    ranges = _wilder(prices.true_ranges, int(number))
    line, ups = [], []
    stop, is_up = prices.low[0], True
    for high, low, close, span in zip(prices.high, prices.low, prices.close, ranges, strict=True):
        below, above = (high + low) / 2 - factor * span, (high + low) / 2 + factor * span
        stop = max(stop, below) if is_up else min(stop, above)
        if (close < stop) is is_up and close != stop:
            is_up, stop = not is_up, above if is_up else below
        line.append(stop)
        ups.append(float(is_up))
    return {"value": list(line), "up": list(ups)}


def psar(prices: Prices, step: float = 0.02, most: float = 0.2) -> Lines:
    """Parabolic stop and reverse; `up` is 1 while it is below the price."""
    stop, best, pace, is_up = prices.low[0], prices.high[0], step, True
    line, ups = [], []
    for high, low in zip(prices.high, prices.low, strict=True):
        stop += pace * (best - stop)
        reach = high if is_up else low
        if (low < stop) if is_up else (high > stop):
            stop, best, pace, is_up = best, (low if is_up else high), step, not is_up
        elif (reach > best) if is_up else (reach < best):
            best, pace = reach, min(most, pace + step)
        line.append(stop)
        ups.append(float(is_up))
    return {"value": list(line), "up": list(ups)}


def ichimoku(prices: Prices, fast: float = 9, middle: float = 26, slow: float = 52) -> Lines:
    """Middles of ranges; `senkou` lines as drawn for the day, `chikou` the close drawn back."""
    tenkan, kijun = _middles(prices, int(fast)), _middles(prices, int(middle))
    shift = int(middle)
    ahead = [
        None if a is None or b is None else (a + b) / 2 for a, b in zip(tenkan, kijun, strict=True)
    ]
    back: Line = [*prices.close[shift:], *[None] * min(shift, len(prices))]
    return {
        "tenkan": tenkan,
        "kijun": kijun,
        "senkou_a": _shifted(ahead, shift),
        "senkou_b": _shifted(_middles(prices, int(slow)), shift),
        "chikou": back,
    }


def _middles(prices: Prices, number: int) -> Line:
    highs, lows = _rolling(prices.high, number, max), _rolling(prices.low, number, min)
    return [
        None if high is None or low is None else (high + low) / 2
        for high, low in zip(highs, lows, strict=True)
    ]


def _shifted(line: Line, shift: int) -> Line:
    return [*[None] * min(shift, len(line)), *line[: max(0, len(line) - shift)]]


INDICATORS: Final[Mapping[str, Callable[..., Lines]]] = {
    "SMA": sma,
    "EMA": ema,
    "ADX": adx,
    "SUPERTREND": supertrend,
    "PSAR": psar,
    "ICHIMOKU": ichimoku,
    "RSI": rsi,
    "MACD": macd,
    "STOCH": stoch,
    "CCI": cci,
    "WILLIAMS_R": williams_r,
    "BBANDS": bbands,
    "ATR": atr,
    "OBV": obv,
    "MFI": mfi,
    "VOLUME_SMA": volume_sma,
}
"""By the name in a query; what stands in brackets there are the parameters in their order."""
