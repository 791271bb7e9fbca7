"""The sandbox's indicators are TA-Lib's, day by day, so `bot api` and a strategy's bar agree."""

import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest
import talib

from bot.sandbox.library.technicals import INDICATORS, Prices, lines_of
from tests.rows import every_row

DAYS = 260
NOT_IN_TALIB = {"ICHIMOKU"}
CASES = [
    ("SMA", "SMA", "close", (20,), ("value",)),
    ("SMA", "SMA", "close", (5,), ("value",)),
    ("EMA", "EMA", "close", (20,), ("value",)),
    ("EMA", "EMA", "close", (3,), ("value",)),
    ("VOLUME_SMA", "SMA", "volume", (20,), ("value",)),
    ("RSI", "RSI", "close", (14,), ("value",)),
    ("RSI", "RSI", "close", (5,), ("value",)),
    ("MACD", "MACD", "close", (12, 26, 9), ("macd_line", "signal_line", "histogram")),
    ("MACD", "MACD", "close", (5, 13, 4), ("macd_line", "signal_line", "histogram")),
    ("MACD", "MACD", "close", (26, 12, 9), ("macd_line", "signal_line", "histogram")),
    ("STOCH", "STOCHF", "high low close", (14, 3), ("k", "d")),
    ("CCI", "CCI", "high low close", (20,), ("value",)),
    ("WILLIAMS_R", "WILLR", "high low close", (14,), ("value",)),
    ("BBANDS", "BBANDS", "close", (20, 2), ("upper", "middle", "lower")),
    ("BBANDS", "BBANDS", "close", (10, 1.5), ("upper", "middle", "lower")),
    ("ATR", "ATR", "high low close", (14,), ("value",)),
    ("OBV", "OBV", "close volume", (), ("value",)),
    ("MFI", "MFI", "high low close volume", (14,), ("value",)),
    ("ADX", "ADX", "high low close", (14,), ("value",)),
    ("ADX", "ADX", "high low close", (5,), ("value",)),
    ("ADX", "PLUS_DI", "high low close", (14,), ("plus_di",)),
    ("ADX", "MINUS_DI", "high low close", (14,), ("minus_di",)),
    ("SUPERTREND", "SUPERTREND", "high low close", (10, 3.0), ("value", "up")),
    ("SUPERTREND", "SUPERTREND", "high low close", (7, 1.5), ("value", "up")),
    ("SUPERTREND", "SUPERTREND", "high low close", (5, 1.0), ("value", "up")),
    ("PSAR", "SAR", "high low", (0.02, 0.2), ("value",)),
    ("PSAR", "SAR", "high low", (0.05, 0.1), ("value",)),
]


def days(seed: int, *, flat: int = 0) -> Prices:
    """A walk in thousands of VND, after some days on which the price does not move."""
    source, close, rows = Random(seed), 27.0, []
    for number in range(DAYS):
        opened, close = close, close if number < flat else close * (1 + source.gauss(0, 0.015))
        reach = 0.0 if number < flat else 0.2
        high = max(opened, close) + reach * source.random()
        low = min(opened, close) - reach * source.random()
        rows.append((high, low, close, float(source.randrange(1, 9_000) * 100)))
    return Prices(*(list(column) for column in zip(*rows, strict=True)))


def by_talib(function: str, inputs: str, params: tuple[float, ...], prices: Prices) -> list[Any]:
    columns = [np.array(getattr(prices, name)) for name in inputs.split()]
    given = (*params, *params[-1:]) if function == "BBANDS" else params
    found = getattr(talib, function)(*columns, *given)
    lines = found if isinstance(found, tuple) else (found,)
    if function == "SUPERTREND":
        lines = (lines[0], np.where(np.isnan(lines[0]), math.nan, lines[1] > 0))
    return [[float(each) for each in line] for line in lines]


@every_row(("name", "function", "inputs", "params", "lines"), CASES)
@pytest.mark.parametrize("prices", [days(1), days(2), days(3, flat=60)], ids=["1", "2", "flat"])
def test_an_indicator_is_ta_libs(name, function, inputs, params, lines, prices):
    found = lines_of(name, prices, [Decimal(str(each)) for each in params])

    for line, wanted in zip(lines, by_talib(function, inputs, params, prices), strict=True):
        known = [math.nan if value is None else value for value in found[line]]
        assert known == pytest.approx(wanted, rel=1e-7, abs=1e-7, nan_ok=True), line


def test_every_indicator_is_compared_or_not_in_ta_lib():
    assert {case[0] for case in CASES} == INDICATORS.keys() - NOT_IN_TALIB
    assert not NOT_IN_TALIB & {name.upper() for name in talib.get_functions()}


@every_row("name", sorted(INDICATORS))
def test_what_a_query_leaves_out_has_a_default(name):
    defaults = [Decimal(str(each)) for each in INDICATORS[name][1]]

    assert lines_of(name, days(4), []) == lines_of(name, days(4), defaults)


@every_row("name", sorted(INDICATORS.keys() - {"PSAR", "SUPERTREND"}))
def test_a_line_is_as_long_as_the_days_however_few(name):
    few = Prices(*([27.0], [26.0], [26.5], [100.0]))

    assert {len(line) for line in lines_of(name, few, []).values()} == {1}
