"""What doing nothing would have brought."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import pytest

from bot.runtime.history.backtest.benchmarks import benchmarks_of
from bot.runtime.history.backtest.figures import Benchmarks
from bot.runtime.history.bars import BarColumns, DayFrame
from tests.backtest_results import RESULT, WavyBars, at, equity, trading_days

HELD = replace(
    RESULT,
    equity=equity([100_000] * 4),
    closes={"FPT": (100, 130), "HPG": (200, 180)},
)


def test_the_same_money_goes_into_each_symbol() -> None:
    found = benchmarks_of(HELD, WavyBars())

    assert found.buy_and_hold == pytest.approx(0.1)
    assert found.index_return is None


@dataclass(frozen=True)
class Paying(WavyBars):
    """HPG went ex on the first day, whose close counts already, and by a fifth on the third."""

    def frames(self, *span: object) -> Mapping[date, DayFrame]:
        days = trading_days(3)
        if span[0] != "HPG":
            return {}
        return {days[0]: DayFrame(ex_ratio=0.5), days[2]: DayFrame(ex_ratio=0.8)}


def test_what_a_share_falls_by_on_an_ex_date_is_paid() -> None:
    # HPG: 180 / 200 / 0.8 is an eighth more than it cost.
    found = benchmarks_of(HELD, Paying())

    assert found.buy_and_hold == pytest.approx((0.3 + 0.125) / 2)


@dataclass(frozen=True)
class Indexed(WavyBars):
    """With an index that closes at 120,000 on the first day and 3,000 higher on each next one."""

    names: tuple[str, ...] = ("FPT", "VNINDEX")

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        for number, day in enumerate(trading_days(4)):
            if first <= day <= last:
                start = np.array([int(at(day, clock).timestamp()) for clock in ("09:15", "14:45")])
                close = np.array([110_000, 120_000]) + 3_000 * number
                yield BarColumns(symbol, 60, start, close, close, close, close, start)


def test_the_index_goes_from_the_first_close_to_the_last() -> None:
    assert benchmarks_of(HELD, Indexed()).index_return == pytest.approx(9_000 / 120_000)


def test_nothing_is_known_of_no_days() -> None:
    assert benchmarks_of(RESULT, Indexed()) == Benchmarks(None, None)
