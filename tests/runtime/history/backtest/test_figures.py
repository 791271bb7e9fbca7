"""The figures of a backtest, against values worked out by hand, and what doing nothing brought."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import sqrt

import numpy as np
import pytest

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState, Side
from bot.runtime.history.backtest import figures as of
from bot.runtime.history.backtest.figures import (
    Benchmarks,
    Costs,
    Day,
    Drawdown,
    Figures,
    benchmarks_of,
)
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.bars import BarColumns, DayFrame
from tests.backtest_results import (
    RESULT,
    WavyBars,
    at,
    blocked,
    decision,
    equity,
    fill,
    order,
    trading_days,
)

HELD = replace(
    RESULT,
    equity=equity([100_000] * 4),
    closes={"FPT": (100, 130), "HPG": (200, 180)},
)


def figures_of(result: BacktestResult) -> Figures:
    return of.figures_of(result, Benchmarks(None, None))


def test_the_return_is_from_the_capital_to_the_last_close() -> None:
    figures = figures_of(replace(RESULT, equity=equity([102_000, 101_000, 105_000])))

    assert (figures.profit, figures.equity, figures.days) == (5_000, 105_000, 3)
    assert figures.total_return == pytest.approx(0.05)


def test_a_year_is_told_from_sixty_days_on() -> None:
    assert of.year_return(0.02, 59) is None
    assert of.year_return(-1.0, 250) is None
    # 60 days are 6/25 of a year: 1.02 ** (25 / 6) = 1.086002...
    assert of.year_return(0.02, 60) == pytest.approx(1.02 ** (25 / 6) - 1)
    assert of.year_return(0.02, 250) == pytest.approx(0.02)


def test_a_day_is_measured_from_the_close_before_and_the_first_from_the_capital() -> None:
    days = of.daily(equity([110_000, 99_000]), 100_000)

    first, second = trading_days(2)
    assert days == (Day(first, 10_000, 0.1), Day(second, -11_000, -0.1))


def test_sharpe_is_mean_by_sample_deviation_over_a_year_of_250_days() -> None:
    # Ten days of +3 % and ten of -1 %: mean 1 %, squares 20 * 0.02 ** 2, by 19.
    gains = [0.03, -0.01] * 10

    assert of.sharpe(gains) == pytest.approx(0.01 / sqrt(20 * 0.0004 / 19) * sqrt(250))


def test_sortino_counts_the_losing_days_alone_over_all_days() -> None:
    # Ten squares of 0.01 over twenty days: root of 0.00005.
    gains = [0.03, -0.01] * 10

    assert of.sortino(gains) == pytest.approx(0.01 / sqrt(0.00005) * sqrt(250))


def test_ratios_are_unknown_with_too_few_days_and_where_nothing_moved() -> None:
    assert of.sharpe([0.03, -0.01] * 4) is None
    assert of.sortino([0.03, -0.01] * 4) is None
    assert of.sharpe([0.0] * 20) is None
    assert of.sortino([0.01] * 20) is None


def test_the_deepest_drawdown_has_its_days() -> None:
    # Up to 110, down to 99 (a tenth), back above 110 on the sixth day.
    found = of.deepest_drawdown(equity([105, 110, 104, 99, 108, 111, 109]), 100)

    days = trading_days(7)
    assert found is not None
    assert found.depth == pytest.approx(-0.1)
    assert replace(found, depth=0.0) == Drawdown(0.0, days[1], days[3], days[5], 4)


def test_a_drawdown_from_the_capital_that_never_ends_lasts_to_the_last_day() -> None:
    found = of.deepest_drawdown(equity([90, 80, 85]), 100)

    days = trading_days(3)
    assert found is not None
    assert found.depth == pytest.approx(-0.2)
    assert (found.peak, found.trough, found.recovered, found.days) == (days[0], days[1], None, 3)


def test_an_account_that_never_fell_has_no_drawdown() -> None:
    assert of.deepest_drawdown(equity([100, 101, 101, 105]), 100) is None
    assert of.deepest_drawdown((), 100) is None


def test_a_month_goes_from_the_last_close_of_the_month_before() -> None:
    days = trading_days(24)  # March 2026 has 22 of them
    assert days[21] == date(2026, 3, 31)

    found = of.monthly(equity([100_000] * 21 + [110_000, 99_000, 121_000]), 100_000)

    assert found == {(2026, 3): pytest.approx(0.1), (2026, 4): pytest.approx(0.1)}


def test_trades_count_with_fees_and_tax() -> None:
    fills = (
        fill(1, Side.BUY, 100, 1_000, fee=150),
        fill(2, Side.SELL, 100, 1_003, fee=150, tax=100),  # 300 gained, 400 paid
        fill(3, Side.BUY, 100, 1_000, fee=150),
        fill(4, Side.SELL, 100, 1_010, fee=150, tax=100),  # 1,000 gained, 400 paid
        fill(5, Side.BUY, 100, 1_000, fee=150),
    )

    figures = figures_of(replace(RESULT, fills=fills))

    assert (figures.trades, figures.trades_won, figures.hit_rate) == (2, 1, 0.5)
    assert (figures.mean_win, figures.mean_loss, figures.open_positions) == (600, -100, 1)


def test_costs_are_fee_tax_and_what_fills_cost_beyond_the_price_seen() -> None:
    fills = (
        fill(1, Side.BUY, 100, 1_010, fee=150),  # saw 1,000: 1,000 too dear
        fill(2, Side.SELL, 100, 1_020, fee=160, tax=102),  # saw 1,025: 500 too cheap
        fill(3, Side.BUY, 100, 990, fee=140),  # saw 1,000: 1,000 better
        fill(4, Side.SELL, 100, 990),  # nothing is known of its decision
    )
    decisions = (
        decision(1, Side.BUY, 1_000),
        decision(2, Side.SELL, 1_025),
        decision(3, Side.BUY, 1_000, saw={}),  # no price seen: the limit it set
    )

    costs = figures_of(replace(RESULT, fills=fills, decisions=decisions)).costs

    assert costs == Costs(fee=450, tax=102, slippage=500, unpriced=1)
    assert costs.total == 1_052


def test_turnover_is_half_of_what_was_traded_by_the_mean_equity() -> None:
    fills = (fill(1, Side.BUY, 100, 1_000), fill(2, Side.SELL, 100, 1_000))

    figures = figures_of(replace(RESULT, fills=fills, equity=equity([80_000, 120_000])))

    assert figures.turnover == pytest.approx(1.0)


def test_exposure_counts_days_and_money() -> None:
    account = equity([100_000] * 4, [0, 50_000, 100_000, 0])

    figures = figures_of(replace(RESULT, equity=account))

    assert (figures.days_invested, figures.money_invested) == (0.5, 0.375)


def test_orders_refusals_and_blocked_exits_are_counted_by_reason() -> None:
    rows = (
        order(1, Side.BUY, OrderState.ACCEPTED),
        order(1, Side.BUY, OrderState.FILLED),
        order(2, Side.BUY, OrderState.REJECTED, code="-900017"),
        order(3, Side.BUY, OrderState.EXPIRED),
    )
    decisions = (blocked(1, "CASH", ""), blocked(2, "BAND", ""), blocked(3, "CASH", ""))
    counts = {"CASH": 2, "BAND": 1, "NOT_SETTLED": 7, "SELLABLE": 2, "SKIP": 99}

    figures = figures_of(replace(RESULT, orders=rows, decisions=decisions, counts=counts))

    assert (figures.orders, figures.orders_filled, figures.orders_cancelled) == (3, 1, 1)
    assert figures.refused == {"CASH": 2, "BAND": 1}
    assert figures.rejected == {"-900017": 1}
    assert figures.unsettled_exits == 9


def test_the_worst_days_come_worst_first_and_gains_are_none() -> None:
    account = equity([99_000, 100_000, 98_000, 98_500])

    worst = figures_of(replace(RESULT, equity=account)).worst_days

    days = trading_days(3)
    assert [(day.day, day.change) for day in worst] == [(days[2], -2_000), (days[0], -1_000)]


def test_a_backtest_without_a_day_tells_nothing_rather_than_zero() -> None:
    figures = figures_of(RESULT)

    unknown = (figures.sharpe, figures.sortino, figures.year_return, figures.hit_rate)
    assert unknown == (None, None, None, None)
    assert (figures.turnover, figures.days_invested, figures.drawdown) == (None, None, None)


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


@dataclass(frozen=True)
class Part(Indexed):
    """An index that has bars of some of the days alone."""

    numbers: tuple[int, ...] = ()

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        days = [trading_days(4)[number] for number in self.numbers]
        for chunk in super().chunks(symbol, first, last):
            if datetime.fromtimestamp(int(chunk.start[0]), EXCHANGE_TZ).date() in days:
                yield chunk


@pytest.mark.parametrize("numbers", [(0,), (1, 2, 3), (3,), ()])
def test_an_index_without_its_first_day_or_any_later_one_has_no_return(
    numbers: tuple[int, ...],
) -> None:
    assert benchmarks_of(HELD, Part(numbers=numbers)).index_return is None


def test_nothing_is_known_of_no_days() -> None:
    assert benchmarks_of(RESULT, Indexed()) == Benchmarks(None, None)
