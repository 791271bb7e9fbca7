"""A backtest's result on one screen."""

from dataclasses import replace

from bot.cli.report.summary import summary_json, summary_lines
from bot.runtime.history.backtest.figures import Benchmarks, figures_of
from tests.backtest_results import RESULT, busy_result

NOTHING = Benchmarks(None, None)


def test_one_screen_says_what_came_of_it_and_what_was_assumed() -> None:
    result = busy_result()

    lines = list(summary_lines(result, figures_of(result, Benchmarks(0.04, 0.05))))

    assert lines == [
        "backtest of sma-fpt (sma_cross) on FPT · 2026-03-02 to 2026-05-22 · 3,600 bars of 1m",
        "  account      100,000,000 -> 102,360,000 VND  (+2,360,000 VND, +2.36 %)",
        "  a year       +10.21 %",
        "  buy and hold +4.00 % for the same symbols · VN-Index +5.00 %",
        "  drawdown     -0.66 % from 2026-03-23 to 2026-03-24, back on 2026-04-06: 10 trading days",
        "  ratios       Sharpe 4.80 · Sortino 7.27",
        "  trades       12 closed, 50.0 % won · mean win +139,470 · mean loss -160,230",
        (
            "  invested     66.7 % of the days, 6.6 % of the money on average · "
            "turnover 1.19 times the account"
        ),
        "  costs        124,560 VND: fee 363,960, tax 120,600, slippage -360,000",
        "  worst days   2026-03-24 -0.66 %",
        "  orders       26 sent: 24 filled, 1 cancelled or lapsed, 1 rejected: 1 -900017",
        "  refused      2 before they were sent: 2 CASH",
        "  T+2          3 exits came before the shares had settled",
        "  assumed      fills: queue",
        (
            "               Sharpe and Sortino from daily returns, 250 days a year, no risk-free "
            "rate, sample deviation"
        ),
        "               a trade is a sale against the average cost, fees and tax included",
        "               slippage is against the last price seen at the decision",
        "  missing      FPT 2026-03-02: the day ends at 10:15",
    ]


def test_what_cannot_be_told_is_a_dash_with_its_reason() -> None:
    text = "\n".join(summary_lines(RESULT, figures_of(RESULT, NOTHING)))

    assert "a year       – (needs 60 days, there are 0)" in text
    assert "buy and hold – for the same symbols" in text
    assert "Sharpe – · Sortino – (needs 10 days, there are 0)" in text
    assert "none closed, so no hit rate" in text
    assert "drawdown     – (the account never fell below its highest close)" in text
    assert "missing      nothing known" in text
    assert "nan" not in text
    assert "inf " not in text


def test_one_of_a_thing_is_told_as_one() -> None:
    result = busy_result()
    figures = figures_of(result, NOTHING)
    assert figures.drawdown is not None
    one = replace(
        figures,
        drawdown=replace(figures.drawdown, days=1),
        unsettled_exits=1,
        unmatched_shares=1,
        costs=replace(figures.costs, unpriced=1),
    )

    text = "\n".join(summary_lines(result, one))

    assert "back on 2026-04-06: 1 trading day\n" in text
    assert "T+2          1 exit came before the shares had settled" in text
    assert "1 share sold that no trade had bought" in text
    assert "(1 fill without a visible price)" in text


def test_json_has_the_same_figures_under_stable_keys() -> None:
    result = busy_result()

    found = summary_json(result, figures_of(result, NOTHING))

    assert list(found) == [
        *("strategies", "first", "last", "bars", "bar_seconds", "looks", "figures"),
        *("decisions", "assumptions", "gaps", "why_slow"),
    ]
    figures = found["figures"]
    assert isinstance(figures, dict)
    parts = {"fee": 363_960, "tax": 120_600, "slippage": -360_000, "unpriced": 0}
    assert figures["costs"] == {**parts, "total": 124_560}
    assert figures["index_return"] is None
    assert figures["drawdown"]["recovered"] == "2026-04-06"
