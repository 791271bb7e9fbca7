"""Cancels and amendments: when, of what, and what becomes of the place in time."""

import pytest

from bot.sandbox.exchange.message import (
    CancelCause,
    ChangeRefused,
    OrderAmended,
    OrderCancelled,
    Refusal,
    Traded,
)
from tests.sandbox.exchange.stage import Stage, fills, local, only, trades


def two_buys() -> Stage:
    stage = Stage("10:00")
    stage.submit("HPG BUY 1000 LO 25300", name="O1")
    stage.submit("HPG BUY 500 LO 25300", name="O2")
    return stage


def reason(events) -> Refusal | None:
    refused = only(events, ChangeRefused)
    return refused[0].reason if refused else None


def test_a_smaller_quantity_keeps_its_place():
    stage = two_buys()

    events = stage.amend("O1", quantity=600)

    assert events == [OrderAmended(local("10:00"), "O1", 25_300, 600, 600)]
    assert fills(stage.submit("HPG SELL 700 LO 25300", name="s")) == {
        "O1": 600,
        "O2": 100,
        "s": 700,
    }


def test_a_greater_quantity_goes_to_the_end():
    stage = two_buys()

    stage.amend("O1", quantity=1_200)

    assert fills(stage.submit("HPG SELL 600 LO 25300", name="s")) == {
        "O2": 500,
        "O1": 100,
        "s": 600,
    }


def test_a_new_price_takes_a_new_time_at_that_price():
    stage = two_buys()
    stage.submit("HPG BUY 100 LO 25350", name="there")

    stage.amend("O1", price=25_350)

    assert stage.levels("HPG") == ([(25_350, 1_100), (25_300, 500)], [])
    assert fills(stage.submit("HPG SELL 200 LO 25350", name="s")) == {
        "there": 100,
        "O1": 100,
        "s": 200,
    }


def test_a_new_price_that_reaches_the_other_side_trades():
    stage = two_buys()
    stage.submit("HPG SELL 300 LO 25400")

    events = stage.amend("O1", price=25_450)

    assert [type(event) for event in events] == [OrderAmended, Traded]
    assert trades(events) == [(25_400, 300)]
    assert stage.levels("HPG") == ([(25_450, 700), (25_300, 500)], [])


def test_price_and_quantity_together_lose_the_place():
    stage = two_buys()

    events = stage.amend("O1", price=25_350, quantity=600)

    assert events == [OrderAmended(local("10:00"), "O1", 25_350, 600, 600)]


def test_the_executed_part_never_changes():
    stage = two_buys()
    stage.submit("HPG SELL 300 LO 25300")

    assert reason(stage.amend("O1", quantity=300)) is Refusal.BELOW_EXECUTED
    assert stage.amend("O1", quantity=400) == [OrderAmended(local("10:00"), "O1", 25_300, 400, 100)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"price": 25_310}, Refusal.OFF_TICK),
        ({"price": 27_150}, Refusal.OUTSIDE_BAND),
        ({"price": 0}, Refusal.OUTSIDE_BAND),
        ({"quantity": 150}, Refusal.QUANTITY),
        ({"quantity": 0}, Refusal.QUANTITY),
        ({"quantity": 500_100}, Refusal.TOO_LARGE),
        ({"quantity": 50}, Refusal.LOT_CHANGED),
        ({"price": 25_300}, Refusal.NOTHING_CHANGED),
        ({"quantity": 1_000}, Refusal.NOTHING_CHANGED),
        ({}, Refusal.NOTHING_CHANGED),
    ],
)
def test_a_wrong_amendment_is_refused_and_changes_nothing(fields, expected):
    stage = two_buys()

    assert reason(stage.amend("O1", **fields)) is expected
    assert stage.levels("HPG") == ([(25_300, 1_500)], [])


def test_a_cancel_takes_out_the_open_part_from_the_middle_of_a_level():
    stage = two_buys()
    stage.submit("HPG BUY 200 LO 25300", name="O3")

    events = stage.cancel("O2")

    assert events == [OrderCancelled(local("10:00"), "O2", 500, CancelCause.REQUESTED)]
    assert stage.levels("HPG") == ([(25_300, 1_200)], [])
    assert fills(stage.submit("HPG SELL 1200 LO 25300", name="s")) == {
        "O1": 1_000,
        "O3": 200,
        "s": 1_200,
    }


def test_what_has_ended_cannot_be_cancelled_again():
    stage = two_buys()
    stage.cancel("O1")

    assert reason(stage.cancel("O1")) is Refusal.NOT_OPEN
    assert reason(stage.amend("O1", quantity=600)) is Refusal.NOT_OPEN
    assert reason(stage.cancel("never was")) is Refusal.NOT_OPEN


@pytest.mark.parametrize(
    ("at", "symbol", "expected"),
    [
        ("14:31", "HPG", Refusal.CHANGE_NOT_NOW),
        ("14:31", "SHS", Refusal.CHANGE_NOT_NOW),
        ("14:31", "BSR", None),
        ("11:45", "HPG", Refusal.CHANGE_NOT_NOW),
        ("11:45", "SHS", Refusal.CHANGE_NOT_NOW),
        ("11:45", "BSR", Refusal.CHANGE_NOT_NOW),
        ("14:29:59", "HPG", None),
        ("14:46", "HPG", Refusal.NOT_OPEN),
    ],
)
def test_a_cancel_of_a_morning_order_depends_on_the_phase(at, symbol, expected):
    stage = Stage("10:00")
    price = {"HPG": 25_000, "SHS": 12_000, "BSR": 22_600}[symbol]
    stage.submit(f"{symbol} BUY 100 LO {price}", name="mine")
    stage.at(at)

    assert reason(stage.cancel("mine")) is expected


def test_auction_and_after_hours_orders_stay_as_they_are():
    stage = Stage("10:00")
    stage.last("SHS", 12_000)
    stage.at("14:31")
    stage.submit("SHS BUY 100 ATC", name="auction")
    assert reason(stage.cancel("auction")) is Refusal.CHANGE_NOT_NOW
    stage.at("14:46")
    stage.submit("SHS BUY 100 PLO", name="late")

    assert reason(stage.cancel("late")) is Refusal.CHANGE_NOT_NOW
    assert reason(stage.amend("late", quantity=200)) is Refusal.CHANGE_NOT_NOW


def test_the_remainder_of_a_market_order_can_be_amended_and_cancelled():
    stage = Stage("10:00")
    stage.submit("HPG SELL 300 LO 25400")
    stage.submit("HPG BUY 500 MTL", name="taker")

    assert reason(stage.amend("taker", price=25_300)) is None
    assert reason(stage.cancel("taker")) is None
