"""Closing prices and indicators of a stock, in thousands of VND."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

from bot.protocol.values.stocks import Close, Indicator, IndicatorPoint, Technicals
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.figures import rounded, scaled
from bot.sandbox.library.indicators import INDICATORS, Lines, Prices, lines_of
from bot.sandbox.library.periods import range_asked
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import DayBar

THOUSAND: Final = 1_000
_THOUSAND_DIGITS: Final = 3
_DIGITS: Final = 4
_DAILY: Final = "1D"
DAYS_MIN: Final = {"SUPERTREND": 200, "PSAR": 200}
"""With fewer trading days these have no points, but a note."""
_UP: Final = "up"
_DIRECTIONS: Final = {1.0: "UP", 0.0: "DOWN"}
_OUTSIDE_BRACKETS: Final = re.compile(r",(?![^()]*\))")
_PARTS: Final = re.compile(r"([A-Z_]+)(?:\((.*)\))?")
_LENGTH_MAX: Final = 250


class TechnicalAnswers:
    """Answers the one call."""

    def __init__(self, stocks: Stocks) -> None:
        self._stocks = stocks

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {"stock_technicals": self.technicals}

    def technicals(self, asked: Asked) -> object:
        """Answer closes and indicators of a range; without one, of the last closed session."""
        symbol = self._stocks.script(asked.symbol).symbol
        bars = self._stocks.bars(symbol)
        first, last = self._range(asked, symbol, bars)
        columns = _columns([bar for bar in bars if bar.day <= last])
        days = [bar.day for bar in bars if bar.day <= last]
        closes = (bar for bar in bars if first <= bar.day <= last)
        indicators = _OUTSIDE_BRACKETS.split(asked.query["indicators"])
        return Technicals(
            symbol=symbol,
            prices=tuple(Close(bar.day, scaled(bar.close, _THOUSAND_DIGITS)) for bar in closes),
            indicators=tuple(
                self._indicator(asked, text.strip(), columns, days, first) for text in indicators
            ),
            resolution=_DAILY,
            start=first,
            end=last,
        )

    def _range(self, asked: Asked, symbol: str, bars: Sequence[DayBar]) -> tuple[date, date]:
        if asked.day("from") is not None:
            return range_asked(asked)
        today = self._stocks.trading_day
        is_over = today < asked.today or self._stocks.has_closed(symbol)
        closed = [bar.day for bar in bars if bar.day < today or is_over]
        return closed[-1], closed[-1]

    def _indicator(
        self, asked: Asked, text: str, columns: Prices, days: Sequence[date], first: date
    ) -> Indicator:
        name, params = _read(asked, text)
        if len(days) < DAYS_MIN.get(name, 1):
            return Indicator(name, params, text, (), "Not enough trading days")
        lines = lines_of(name, columns, params)
        points = (_point(day, index, lines) for index, day in enumerate(days) if day >= first)
        return Indicator(name, params, text, tuple(points))


def _columns(bars: Sequence[DayBar]) -> Prices:
    return Prices(
        high=[bar.high / THOUSAND for bar in bars],
        low=[bar.low / THOUSAND for bar in bars],
        close=[bar.close / THOUSAND for bar in bars],
        volume=[float(bar.volume) for bar in bars],
    )


def _read(asked: Asked, text: str) -> tuple[str, tuple[Decimal, ...]]:
    """Return name and parameters; too many of them, zero, or a very long span is a 400."""
    found = _PARTS.fullmatch(text)
    assert found is not None, "the table of parameters has checked the form"
    name, inside = found[1], found[2]
    params = tuple(Decimal(part) for part in inside.split(",")) if inside else ()
    _, defaults = INDICATORS[name]
    if len(params) > len(defaults) or any(not 0 < each <= _LENGTH_MAX for each in params):
        raise asked.bad(f"indicators: not the parameters of {name}")
    if any(each < 1 for each in params) and name != "PSAR":
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
