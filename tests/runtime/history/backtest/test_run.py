"""A backtest: the engine's orders, filled from bars that had not begun when they were sent."""

from datetime import date

import pytest

from bot.config.problems import OperatorMistake
from bot.strategy import BarView, Strategy
from tests.runtime.history.backtest.listed import DAY, backtest, bar, clock

NEXT = date(2026, 11, 20)


class BuyOnce(Strategy):
    """Buys at the bar of 09:20, which closes at 09:21."""

    limit: int = 27_000

    def on_bar(self, bar: BarView) -> None:
        if (bar.start.hour, bar.start.minute) == (2, 20):
            self.buy(100, limit=self.limit, why="it is time")


def test_an_order_fills_in_the_next_bar_and_never_in_the_one_it_was_made_by() -> None:
    bars = [
        bar("09:19", 27_000),
        bar("09:20", 27_000, 27_000, 26_500, 26_900),
        bar("09:21", 26_950, 27_000, 26_900, 27_000),
    ]

    result = backtest(BuyOnce, bars)

    [fill] = result.fills
    assert (clock(fill.at), fill.price, fill.quantity) == ("09:21:00", 26_950, 100)


def test_two_runs_of_one_spec_are_equal() -> None:
    bars = [bar(f"09:{minute}", 27_000 + minute % 3 * 50) for minute in range(19, 40)]

    first, second = backtest(BuyOnce, bars), backtest(BuyOnce, bars)

    assert first == second
    assert first.fills


def test_money_is_counted_to_the_dong() -> None:
    bars = [bar("09:20", 27_000), bar("09:21", 27_000), bar("14:45", 27_200)]

    result = backtest(BuyOnce, bars)

    [point] = result.equity
    assert (point.cash, point.shares) == (100_000_000 - 2_700_000 - 4_050, 2_720_000)
    assert result.closes == {"HPG": (27_200, 27_200)}


def test_a_range_the_calendar_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(OperatorMistake, match=r"E-BT-002 --from 2019-01-02: the calendar knows"):
        backtest(BuyOnce, [bar("09:20", 27_000)], first=date(2019, 1, 2))


def test_days_the_other_way_round_are_refused() -> None:
    with pytest.raises(OperatorMistake, match=f"E-BT-001 --from {NEXT} is after --to {DAY}"):
        backtest(BuyOnce, [bar("09:20", 27_000)], first=NEXT, last=DAY)
