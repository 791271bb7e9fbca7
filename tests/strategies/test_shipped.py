"""The two strategies that are shipped: each decides what it says, and is short."""

import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest

from bot.domain.entry import Decision, Verdict
from bot.domain.message import PlaceOrder
from bot.domain.order import Side
from bot.domain.plan import OrderPlan, Wake
from bot.domain.quote import Bar
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.testing import play
from tests.engine.stage import HPG, PLAN, RULEBOOK, Stage, report_of

SmaCross = import_module("strategies.sma_cross").SmaCross
DepthImbalance = import_module("strategies.depth_imbalance").DepthImbalance


@pytest.mark.parametrize("strategy", [SmaCross, DepthImbalance])
def test_a_strategy_is_ten_lines_besides_the_check_of_its_parameters(strategy):
    lines = [line for line in inspect.getsource(strategy).splitlines() if line.strip()]
    check = inspect.getsource(strategy.check).splitlines()

    assert len(lines) - len(check) <= 10
    assert len(check) <= 3


def _bars(closes):
    start = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
    return [
        Bar("FPT", start + timedelta(minutes=n), 60, c, c, c, c, 1_000)
        for n, c in enumerate(closes)
    ]


EAGER = OrderPlan(ticks=5)
DOWN_UP_DOWN = [*range(132_000, 131_000, -100), *range(131_000, 133_000, 200)]
DOWN_UP_DOWN += [*range(133_000, 130_000, -300)]


def test_sma_cross_buys_the_cross_up_and_sells_the_cross_down():
    r = play(SmaCross, bars=_bars(DOWN_UP_DOWN), settled_shares=100, fast=3, slow=6, order=EAGER)

    assert [one.side for one in r.orders] == [Side.BUY, Side.SELL]
    why = r.of(Verdict.PASSED)[0].why
    assert why == "SMA3 131,400 crossed above SMA6 131,250"
    assert r.of(Verdict.PASSED)[1].why == "SMA3 132,400 crossed below SMA6 132,600"


def test_sma_cross_is_warming_until_it_has_its_bars():
    r = play(SmaCross, bars=_bars(DOWN_UP_DOWN), fast=3, slow=6, order=EAGER)

    codes = [one.code for one in r.decisions]
    assert codes[:6] == ["WARMING"] * 5 + ["NO_SIGNAL"]


def test_sma_cross_does_not_sell_what_has_not_settled():
    r = play(SmaCross, bars=_bars(DOWN_UP_DOWN), fast=3, slow=6, order=EAGER)

    assert [one.side for one in r.orders] == [Side.BUY]
    assert [one.code for one in r.of(Verdict.SKIPPED)].count("NOT_SETTLED") == 1


def _depth_stage(**parameters):
    stage = Stage(is_open=False, sellable=1_000)
    plan = replace(PLAN, wake=Wake(depth=timedelta(seconds=2)), parameters=parameters)
    stage.engine = Engine(
        rulebook=RULEBOOK,
        strategies=[LoadedStrategy(plan, DepthImbalance, (HPG,))],
        settings=EngineSettings(),
        invoke=invoke_plainly,
    )
    stage.open()
    return stage


def test_depth_imbalance_buys_at_the_ask_and_sells_at_the_bid():
    stage = _depth_stage(ratio=3.0)
    stage.depth(26_950, 27_000)
    bought = stage.last(PlaceOrder).intent
    stage.accept(bought)
    stage.after(2).book(report_of(bought, executed=100))

    stage.after(60).quote()
    stage.depth(26_950, None)
    assert stage.new(Decision)[-1].why == "holding"
    stage.after(2).depth(None, 27_000)
    assert stage.decided() == (Verdict.SKIPPED, "NO_PRICE")

    assert (bought.side, bought.limit_price, bought.why) == (Side.BUY, 27_000, "bids 5.0x asks")


def test_depth_imbalance_says_what_it_saw_and_what_it_needs():
    stage = _depth_stage(ratio=6.0)

    stage.depth(26_950, 27_000)

    decision = stage.new(Decision)[-1]
    assert (decision.code, decision.why) == ("SKIP", "bids 5.0x asks, needs 6.0x")
    assert set(decision.numbers) == {"bid_volume(3)", "ask_volume(3)"}
    assert stage.engine.status().counts["skips"] == 1
