"""Closing prices and indicators of a stock, in thousands of VND."""

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from bot.protocol.values.stocks import Close, Indicator, IndicatorPoint, Technicals
from bot.sandbox.library.asked import Asked
from bot.sandbox.library.figures import rounded, scaled
from bot.sandbox.library.indicators import INDICATORS, Lines, Prices, lines_of
from bot.sandbox.library.series import DAILY
from bot.sandbox.library.stocks import Stocks

THOUSAND: Final = 1_000
_DIGITS: Final = 4
DAYS_MIN: Final = {"SUPERTREND": 200, "PSAR": 200}
"""With fewer trading days these have no points, but a note."""
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
