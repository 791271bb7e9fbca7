"""Closing prices and technical indicators of a stock, in thousands of VND.

The indicators are those of the broker's screen, each by TA-Lib's definition. They are hand-written
because only the engine may import TA-Lib, and the simulated broker must not share code that the bot
decides with. A test compares each with TA-Lib's; only ICHIMOKU has no counterpart there.

An indicator takes the days, oldest first, and returns its lines without the days that have too
little history: every line ends with the last day.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import accumulate, pairwise
from math import inf, sqrt
from typing import Final

from bot.protocol.values.stocks import Close, Indicator, IndicatorPoint, Technicals
from bot.sandbox.library.answer import DAILY, Asked, rounded, scaled
from bot.sandbox.library.stocks import Stocks

Line = Sequence[float | None]
Lines = Mapping[str, Line]
Values = Sequence[float]


@dataclass(frozen=True, slots=True)
class Prices:
    """The days as columns."""

    high: Values
    low: Values
    close: Values
    volume: Values

    @property
    def typical(self) -> list[float]:
        return [sum(day) / 3 for day in zip(self.high, self.low, self.close, strict=True)]

    @property
    def true_ranges(self) -> list[float]:
        """Return the true range of each day but the first (it includes the gap from the previous
        close).
        """
        days = zip(self.high[1:], self.low[1:], self.close, strict=False)
        return [max(high, before) - min(low, before) for high, low, before in days]

    def reaches(self, number: int) -> list[tuple[float, float]]:
        """Return the highest high and the lowest low of every `number` days."""
        highs, lows = _windows(self.high, number), _windows(self.low, number)
        return list(zip(map(max, highs), map(min, lows), strict=True))


def _windows(values: Values, number: int) -> list[Values]:
    return [values[end - number : end] for end in range(number, len(values) + 1)]


def _means(values: Values, number: int) -> list[float]:
    return [sum(window) / number for window in _windows(values, number)]


def _smoothed(values: Values, weight: float, start: float) -> list[float]:
    return list(accumulate(values, lambda last, v: last + weight * (v - last), initial=start))


def _average(values: Values, number: int, weight: float) -> list[float]:
    """An exponential average that starts with the simple average of the first values."""
    start = sum(values[:number]) / number
    return _smoothed(values[number:], weight, start) if len(values) >= number else []


def _ema(values: Values, number: int) -> list[float]:
    return _average(values, number, 2 / (number + 1))


def _wilder(values: Values, number: int) -> list[float]:
    return _average(values, number, 1 / number)


def _moves(values: Values) -> list[float]:
    return [now - before for before, now in pairwise(values)]


def _signed(volumes: Values, moves: Values) -> list[float]:
    """Volumes of rising days, negated on falling days."""
    days = zip(volumes, moves, strict=True)
    return [volume * ((move > 0) - (move < 0)) for volume, move in days]


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


# ----------------------------------------------------------------------- averages, oscillators


def bbands(prices: Prices, number: int, width: float) -> Lines:
    middle, windows = _means(prices.close, number), _windows(prices.close, number)
    bands = [
        (mean, width * sqrt(sum((value - mean) ** 2 for value in window) / number))
        for mean, window in zip(middle, windows, strict=True)
    ]
    return {
        "upper": [mean + reach for mean, reach in bands],
        "middle": middle,
        "lower": [mean - reach for mean, reach in bands],
    }


def macd(prices: Prices, fast: int, slow: int, signal: int) -> Lines:
    """Both averages begin on the day of the slow one; the fast one ignores earlier days."""
    fast, slow = sorted((fast, slow))
    averages = (_ema(prices.close[slow - fast :], fast), _ema(prices.close, slow))
    line = [a - b for a, b in zip(*averages, strict=True)]
    smooth, line = _ema(line, signal), line[signal - 1 :]
    rest = [a - b for a, b in zip(line, smooth, strict=True)]
    return {"macd_line": line, "signal_line": smooth, "histogram": rest}


def rsi(prices: Prices, number: int) -> Line:
    moves = _moves(prices.close)
    rises = _wilder([max(move, 0.0) for move in moves], number)
    falls = _wilder([max(-move, 0.0) for move in moves], number)
    return [_percent(up, up + down) for up, down in zip(rises, falls, strict=True)]


def stoch(prices: Prices, number: int, smooth: int) -> Lines:
    days = zip(prices.close[number - 1 :], prices.reaches(number), strict=True)
    k = [_percent(close - low, high - low) for close, (high, low) in days]
    return {"k": k[smooth - 1 :], "d": _means(k, smooth)}


def williams_r(prices: Prices, number: int) -> Line:
    days = zip(prices.close[number - 1 :], prices.reaches(number), strict=True)
    return [-_percent(high - close, high - low) for close, (high, low) in days]


def cci(prices: Prices, number: int) -> Line:
    line = []
    for window in _windows(prices.typical, number):
        mean = sum(window) / number
        spread = sum(abs(value - mean) for value in window) / number
        line.append((window[-1] - mean) / (0.015 * spread) if spread else 0.0)
    return line


def mfi(prices: Prices, number: int) -> Line:
    typical = prices.typical
    values = [price * volume for price, volume in zip(typical, prices.volume, strict=True)]
    windows = _windows(_signed(values[1:], _moves(typical)), number)
    sums = [(sum(value for value in days if value > 0), sum(map(abs, days))) for days in windows]
    return [_percent(inflow, whole) if whole >= 1 else 0.0 for inflow, whole in sums]


def obv(prices: Prices) -> Line:
    return list(accumulate(_signed(prices.volume, [1.0, *_moves(prices.close)])))


# ------------------------------------------------------------------------------------- trend


def adx(prices: Prices, number: int) -> Lines:
    """Strength of the trend, and the two directions; their sums begin one day short."""
    pairs = list(zip(_moves(prices.high), [-move for move in _moves(prices.low)], strict=True))
    ranges, plus, minus = (
        _smoothed(values[number - 1 :], 1 / number, sum(values[: number - 1]) / number)[1:]
        for values in (
            prices.true_ranges,
            [up if up > down and up > 0 else 0.0 for up, down in pairs],
            [down if down > up and down > 0 else 0.0 for up, down in pairs],
        )
    )
    plus_di, minus_di = list(map(_percent, plus, ranges)), list(map(_percent, minus, ranges))
    moves = [_percent(abs(a - b), a + b) for a, b in zip(plus_di, minus_di, strict=True)]
    return {"value": _wilder(moves, number), "plus_di": plus_di, "minus_di": minus_di}


def supertrend(prices: Prices, number: int, factor: float) -> Lines:
    """A line that trails the price by a multiple of the true range; `up` is 1 while it is below the
    price.

    Floor and ceiling only move closer to the price, until a day closes beyond them.
    """
    highs, lows, closes = prices.high[number:], prices.low[number:], prices.close[number:]
    spans = _wilder(prices.true_ranges, number)
    days = zip(highs, lows, closes, prices.close[number - 1 : -1], spans, strict=True)
    line: list[float] = []
    ups: list[float] = []
    floor, ceiling, is_up = -inf, inf, True
    for high, low, close, before, span in days:
        below, above = (high + low) / 2 - factor * span, (high + low) / 2 + factor * span
        floor = below if below > floor or before < floor else floor
        ceiling = above if above < ceiling or before > ceiling else ceiling
        is_up = (not ups or close >= floor) if is_up else close > ceiling
        line.append(floor if is_up else ceiling)
        ups.append(float(is_up))
    return {"value": line, "up": ups}


def psar(prices: Prices, step: float, most: float) -> Lines:
    """Parabolic stop and reverse; `up` is 1 while it is below the price.

    A falling trend is a rising one upside down: its days are (-low, -high).
    """
    rising = list(zip(prices.high, prices.low, strict=True))
    days = {1: rising, -1: [(-low, -high) for high, low in rising]}
    (high, low), (next_high, next_low) = rising[:2]
    sign = -1 if low - next_low > max(next_high - high, 0.0) else 1
    (best, _), stop = days[sign][1], days[sign][0][1]
    step = pace = min(step, most)
    line: list[float] = []
    ups: list[float] = []
    for index in range(1, len(rising)):
        high, low = days[sign][index]
        if turns := low <= stop:
            sign = -sign
            high, low = days[sign][index]
        low = min(low, days[sign][max(1, index - 1)][1])
        if turns:
            stop, best, pace = min(-best, low), high, step
        line.append(sign * stop)
        ups.append(float(sign > 0))
        if high > best:
            best, pace = high, min(most, pace + step)
        stop = min(stop + pace * (best - stop), low)
    return {"value": line, "up": ups}


def ichimoku(prices: Prices, fast: int, middle: int, slow: int) -> Lines:
    """Midpoints of ranges; `senkou` lines as drawn for the day, `chikou` the close drawn back."""
    tenkan, kijun, late = (
        [(high + low) / 2 for high, low in prices.reaches(number)]
        for number in (fast, middle, slow)
    )
    pairs = zip(reversed(tenkan), reversed(kijun), strict=False)
    return {
        "tenkan": tenkan,
        "kijun": kijun,
        "senkou_a": [(a + b) / 2 for a, b in pairs][: middle - 1 : -1],
        "senkou_b": late[:-middle],
        "chikou": [*prices.close[middle:], *[None] * min(middle, len(prices.close))],
    }


INDICATORS: Final[Mapping[str, tuple[Callable[..., Line | Lines], tuple[float, ...]]]] = {
    "SMA": (lambda prices, number: _means(prices.close, number), (20,)),
    "EMA": (lambda prices, number: _ema(prices.close, number), (20,)),
    "ADX": (adx, (14,)),
    "SUPERTREND": (supertrend, (10, 3.0)),
    "PSAR": (psar, (0.02, 0.2)),
    "ICHIMOKU": (ichimoku, (9, 26, 52)),
    "RSI": (rsi, (14,)),
    "MACD": (macd, (12, 26, 9)),
    "STOCH": (stoch, (14, 3)),
    "CCI": (cci, (20,)),
    "WILLIAMS_R": (williams_r, (14,)),
    "BBANDS": (bbands, (20, 2.0)),
    "ATR": (lambda prices, number: _wilder(prices.true_ranges, number), (14,)),
    "OBV": (obv, ()),
    "MFI": (mfi, (14,)),
    "VOLUME_SMA": (lambda prices, number: _means(prices.volume, number), (20,)),
}
"""By the name in a query, with default parameters; a whole number counts days."""


def lines_of(name: str, prices: Prices, params: Sequence[Decimal]) -> Lines:
    """Return an indicator's lines, as long as the days; None with too little history."""
    function, defaults = INDICATORS[name]
    given = [type(default)(param) for default, param in zip(defaults, params, strict=False)]
    found = function(prices, *given, *defaults[len(given) :])
    lines = found if isinstance(found, Mapping) else {"value": found}
    days = len(prices.close)
    return {each: [*[None] * (days - len(line)), *line] for each, line in lines.items()}


THOUSAND: Final = 1_000
_DIGITS: Final = 4
DAYS_MIN: Final = {"SUPERTREND": 200, "PSAR": 200}
"""With fewer trading days these return a note instead of points."""
_UP: Final = "up"
_DIRECTIONS: Final = {1.0: "UP", 0.0: "DOWN"}
_OUTSIDE_BRACKETS: Final = re.compile(r",(?![^()]*\))")
_PARTS: Final = re.compile(r"([A-Z_]+)(?:\((.*)\))?")
_LENGTH_MAX: Final = 250


@dataclass(frozen=True, slots=True)
class TechnicalAnswers:
    stocks: Stocks

    def stock_technicals(self, asked: Asked) -> object:
        """Answer closes and indicators of a range; without one, of the last closed session."""
        symbol = self.stocks.known(asked.symbol)
        bars, today = self.stocks.bars(symbol), self.stocks.trading_day
        if asked.day("from") is not None:
            first, last = asked.days()
        else:
            is_over = self.stocks.is_over(symbol, asked.today)
            first = last = [bar.day for bar in bars if bar.day < today or is_over][-1]
        known = [bar for bar in bars if bar.day <= last]
        prices = Prices(
            high=[bar.high / THOUSAND for bar in known],
            low=[bar.low / THOUSAND for bar in known],
            close=[bar.close / THOUSAND for bar in known],
            volume=[float(bar.volume) for bar in known],
        )
        indicators = []
        for text in map(str.strip, _OUTSIDE_BRACKETS.split(asked.query["indicators"])):
            name, params = _read(asked, text)
            if len(known) < DAYS_MIN.get(name, 1):
                indicators.append(Indicator(name, params, text, (), "Not enough trading days"))
                continue
            lines = lines_of(name, prices, params)
            days = ((index, bar.day) for index, bar in enumerate(known) if bar.day >= first)
            points = (_point(day, index, lines) for index, day in days)
            indicators.append(Indicator(name, params, text, tuple(points)))
        closes = (Close(bar.day, scaled(bar.close, 3)) for bar in known if bar.day >= first)
        return Technicals(
            symbol=symbol,
            prices=tuple(closes),
            indicators=tuple(indicators),
            resolution=DAILY,
            start=first,
            end=last,
        )


def _read(asked: Asked, text: str) -> tuple[str, tuple[Decimal, ...]]:
    """Return name and parameters; too many of them, zero, or a very long span is a 400."""
    found = _PARTS.fullmatch(text)
    assert found is not None, "the table of parameters has checked the form"
    name, inside = found[1], found[2]
    params = tuple(Decimal(part) for part in inside.split(",")) if inside else ()
    _, defaults = INDICATORS[name]
    lengths_fit = all(0 < each <= _LENGTH_MAX and (each >= 1 or name == "PSAR") for each in params)
    if len(params) > len(defaults) or not lengths_fit:
        raise asked.bad(f"indicators: not the parameters of {name}")
    return name, params


def _point(day: date, index: int, lines: Lines) -> IndicatorPoint:
    numbers = {
        name: rounded(value, _DIGITS)
        for name, line in lines.items()
        if name != _UP and (value := line[index]) is not None
    }
    up = lines[_UP][index] if _UP in lines else None
    return IndicatorPoint(day, None if up is None else _DIRECTIONS[up], numbers)
