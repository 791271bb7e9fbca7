"""What is unusual for a strategy, and its own budget: through the engine, and over a restart."""

from dataclasses import replace
from datetime import datetime

import pytest

from bot.domain.entry import Decision, Verdict
from bot.domain.instrument import Phase
from bot.domain.message import PlaceOrder
from bot.domain.order import OrderState
from bot.domain.plan import Limits
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.risk.view import invested
from tests.engine.stage import DAY, PLAN, Stage, report_of

MEDIAN = Limits(max_times_median=5)


def own(limits, **stored):
    held = RecoveredStrategy({"HPG": (500, 13_000_000)}, 0, 0, 0, "on", **stored)
    recovery = Recovery(DAY, strategies={"test": held})
    plan = replace(PLAN, limits=limits)
    return Stage(plan, cash=10**9, sellable=500, recovery=recovery)


def buy(stage, quantity, order_id):
    stage.after(1).quote()
    stage.request(lambda s: s.buy(quantity, limit=27_000, why="as asked"))
    for placed in stage.new(PlaceOrder):
        stage.accept(placed.intent, order_id)
        row = report_of(placed.intent, order_id, executed=quantity, state=OrderState.FILLED)
        stage.book(replace(row, status="FILLED"))


def test_the_sixth_buy_is_held_against_the_five_before_it():
    stage = own(MEDIAN)
    for number in range(1, 6):
        buy(stage, 100 + 100 * number, f"ORD{number}")

    buy(stage, 2_100, "ORD6")
    assert stage.last(Decision).code == "FAT_FINGER"
    numbers = {"value_vnd": 56_700_000, "median_vnd": 10_800_000, "times": 5, "orders": 5}
    assert stage.last(Decision).numbers == numbers

    buy(stage, 2_000, "ORD7")
    assert stage.decided() == (Verdict.PASSED, "OK")


def test_after_a_restart_the_usual_buys_are_known_at_once():
    stage = own(MEDIAN, recent_buys=(2_700_000,) * 5)

    buy(stage, 600, "ORD1")

    assert stage.decided() == (Verdict.BLOCKED, "FAT_FINGER")


def test_a_close_of_all_that_was_bought_is_no_slip():
    stage = own(MEDIAN, recent_buys=(270_000,) * 20)

    stage.request(lambda s: s.close(limit=27_000, why="out"))

    assert stage.decided() == (Verdict.PASSED, "OK")


def test_capital_counts_shares_at_the_last_price_and_buys_on_their_way_and_open():
    stage = own(Limits(capital=30_000_000))
    state, strategy = stage.engine._state, stage.engine._state.strategies["test"]
    assert invested(state, strategy) == 500 * 27_000

    intent = stage.buy(100, 26_500)
    assert invested(state, strategy) == 500 * 27_000 + 100 * 26_500
    stage.accept(intent)
    assert invested(state, strategy) == 500 * 27_000 + 100 * 26_500

    row = report_of(intent, executed=100, state=OrderState.FILLED)
    stage.book(replace(row, status="FILLED"))
    assert invested(state, strategy) == 600 * 27_000


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("14:28:59", (Verdict.PASSED, "OK")),
        ("14:29:00", (Verdict.BLOCKED, "SELF_CROSS")),
        ("14:29:59", (Verdict.BLOCKED, "SELF_CROSS")),
    ],
)
def test_from_a_minute_before_an_auction_no_opposite_order_is_sent(at, expected):
    stage = own(Limits())
    stage.now = datetime.fromisoformat("2026-11-19T14:20+07:00")
    stage.phase(Phase.PROGRESS)
    stage.quote()
    stage.accept(stage.buy(100, 26_000))
    stage.now = datetime.fromisoformat(f"2026-11-19T{at}+07:00")
    stage.quote()

    stage.request(lambda s: s.sell(100, limit=28_000, why="far away"))

    assert stage.decided() == expected
