"""O2: a strategy that runs away: orders stay exactly at the limits, and it is disabled at once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from bot.domain.entry import Note, StrategySwitched
from bot.domain.message import PlaceOrder
from bot.domain.order import OrderState, Side
from bot.domain.plan import AccountLimits, Limits
from bot.engine.settings import EngineSettings
from bot.strategy import Strategy
from tests.engine.stage import PLAN, START, Stage, report_of
from tests.rows import every_row

SECOND = timedelta(seconds=1)


def _stage(limits: Limits | None = None, *, held: int = 0, **shared: Any) -> Stage:
    settings = EngineSettings(account_limits=AccountLimits(**shared))
    plan = replace(PLAN, limits=limits or Limits())
    return Stage(plan, settings=settings, cash=10**11, sellable=held)


def _filled(stage: Stage) -> None:
    """Fill each order that has left, in the instant."""
    for placed in stage.new(PlaceOrder):
        intent, order_id = placed.intent, f"ORD{placed.intent.intent_id}"
        stage.accept(intent, order_id)
        stage.after(0.001)
        row = report_of(intent, order_id, executed=intent.quantity, state=OrderState.FILLED)
        stage.book(replace(row, status="MATCHED"))


def _disabled(stage: Stage) -> list[str]:
    return [one.state for one in stage.all(StrategySwitched)]


@pytest.mark.one_strike
@every_row("in_a_call", [1, 7, 50, 100, 101, 1_000])
@every_row(
    "limits",
    [
        {"max_orders_per_second": 1},
        {"max_orders_per_second": 3},
        {"max_orders_per_minute": 6},
        {"max_orders_per_day": 30},
        {"max_orders_per_day": 60},
    ],
)
def test_a_thousand_signals_a_second_are_orders_to_the_limit_and_the_end_of_their_strategy(
    in_a_call: int, limits: dict[str, Any]
) -> None:
    stage, made = _stage(**limits), 0
    [most] = limits.values()

    while stage.now - START < 3 * SECOND:
        prices = [25_200 + 50 * ((made + each) % 70) for each in range(in_a_call)]
        stage.request(*(partial(_buy, limit=price) for price in prices))
        _filled(stage)
        made += in_a_call
        stage.after(in_a_call / 1_000)

    calls = 500 // in_a_call if in_a_call <= 100 else 0
    assert len(stage.all(PlaceOrder)) == min(most, calls)
    [switched] = stage.all(StrategySwitched)
    assert (switched.state, switched.at - START < SECOND) == ("disabled", True)
    assert "STRATEGY_RUNAWAY" in [one.numbers.get("alert") for one in stage.all(Note)]


def _ask(method: Callable[..., None], strategy: Strategy) -> None:
    method(strategy, 100, limit=27_000)


def _buy(strategy: Strategy, limit: int) -> None:
    strategy.buy(100, limit=limit, why="more")


def test_a_strategy_of_many_symbols_has_room_for_each_of_them() -> None:
    stage = _stage()
    [strategy] = stage.engine._state.strategies.values()
    strategy.instances.update({f"S{number}": strategy.instances["HPG"] for number in range(99)})

    for _ in range(10):
        stage.request(*[partial(_buy, limit=27_000)] * 100)

    assert _disabled(stage) == []
    stage.request(partial(_buy, limit=27_000))
    assert _disabled(stage) == ["disabled"]


@pytest.mark.one_strike
@every_row("flips", [1, 2, 3, 8])
def test_a_flip_flop_turns_as_often_as_the_limit_says(flips: int) -> None:
    stage = _stage(held=1_000, max_flips_per_symbol=flips)

    for turn in range(40):
        stage.after(61).account(1_000)
        stage.quote()
        turned_to = Strategy.sell if turn % 2 else Strategy.buy
        stage.request(partial(_ask, turned_to))
        _filled(stage)

    sides = [one.intent.side for one in stage.all(PlaceOrder)]
    turned = sum(one is not other for one, other in pairwise(sides))
    assert sides[-1] is Side.SELL, "what was bought may always go"
    assert turned == flips + (flips + 1) % 2


@every_row(("repeats", "minutes"), [(3, 10), (10, 20)])
def test_the_same_signal_at_each_poll_is_an_order_a_minute_until_it_is_disabled(
    repeats: int, minutes: int
) -> None:
    stage = _stage(Limits(max_repeats=repeats))

    for _ in range(minutes * 60):
        stage.after(1).quote()
        stage.request(partial(_buy, limit=27_000))
        _filled(stage)

    placed = stage.all(PlaceOrder)
    times = [one.intent.created_at for one in placed]
    assert len(placed) == repeats
    assert all(later - at >= 60 * SECOND for at, later in pairwise(times))
    [switched] = stage.all(StrategySwitched)
    assert (switched.state, switched.at - times[-1] < SECOND) == ("disabled", True)


def test_an_order_that_rests_keeps_every_equal_one_back() -> None:
    stage = _stage()

    for _ in range(600):
        stage.after(1).quote()
        stage.request(partial(_buy, limit=27_000))
        for placed in stage.new(PlaceOrder):
            stage.accept(placed.intent)

    assert len(stage.all(PlaceOrder)) == 1
