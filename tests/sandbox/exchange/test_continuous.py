"""Continuous trading and the after-hours orders, through the venue."""

import pytest

from bot.domain.instrument import Exchange, Lot
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.message import (
    CancelCause,
    LiveOrder,
    OrderAccepted,
    OrderCancelled,
    OrderLapsed,
    OrderRepriced,
    Refusal,
    Traded,
    Uncrossed,
)
from tests.rows import every_row
from tests.sandbox.exchange.stage import SYMBOLS, Stage, fills, listing, local, only, trades
from tests.sandbox.exchange.vectors import CONTINUOUS

OPPOSITE = {"BUY": "SELL", "SELL": "BUY"}


@every_row("case", CONTINUOUS.values())
def test_a_worked_order_trades_rests_and_ends_as_it_should(case):
    exchange = Exchange[case["exchange"]]
    symbol, stage = SYMBOLS[exchange], Stage("10:00", listing(exchange, case["reference"]))
    for price, quantity in case["resting"]:
        stage.submit(f"{symbol} {OPPOSITE[case['side']]} {quantity} LO {price}")

    line = f"{symbol} {case['side']} {case['qty']} {case['type']} {case.get('price', '')}"
    events = stage.submit(line, name="taker")

    assert trades(events) == [tuple(trade) for trade in case["trades"]]
    assert sum(end.quantity for end in only(events, OrderCancelled)) == case["cancelled"]
    assert resting(stage, "taker") == case["rest"]


def resting(stage: Stage, name: str) -> list[object] | None:
    order = stage.venue.order(name)
    if order is None:
        return None
    assert order.order_type is OrderType.LO
    return [order.side.value, order.price, order.remaining]


def test_the_remainder_of_a_market_order_is_announced_as_a_limit_order():
    stage = Stage("10:00")
    stage.submit("HPG SELL 300 LO 25400")

    events = stage.submit("HPG BUY 500 MTL", name="taker")

    assert [type(event) for event in events] == [OrderAccepted, Traded, OrderRepriced]
    assert events[-1] == OrderRepriced(local("10:00"), "taker", 25_450)
    assert stage.venue.order("taker") == LiveOrder(
        "taker", "", "HPG", Side.BUY, OrderType.LO, 25_450, 500, 200, Lot.EVEN
    )


@pytest.mark.parametrize(
    ("kind", "resting_quantity", "cause"),
    [
        ("MTL", 0, CancelCause.NO_OPPOSITE),
        ("MAK", 0, CancelCause.NO_OPPOSITE),
        ("MAK", 100, CancelCause.REMAINDER_KILLED),
        ("MOK", 100, CancelCause.NOT_WHOLE),
    ],
)
def test_what_an_immediate_order_leaves_over_is_cancelled_with_its_cause(
    kind, resting_quantity, cause
):
    stage = Stage("10:00")
    if resting_quantity:
        stage.submit(f"SHS SELL {resting_quantity} LO 12000")

    events = stage.submit(f"SHS BUY 500 {kind}")

    assert [end.cause for end in only(events, OrderCancelled)] == [cause]


def test_price_goes_before_time_and_time_before_size():
    stage = Stage("10:00")
    stage.submit("HPG BUY 100 LO 25300", name="first")
    stage.submit("HPG BUY 900 LO 25300", name="second")
    stage.submit("HPG BUY 100 LO 25350", name="best")

    events = stage.submit("HPG SELL 300 LO 25300", name="taker")

    traded = [(trade.buy_order_id, trade.price, trade.quantity) for trade in only(events, Traded)]
    assert traded == [("best", 25_350, 100), ("first", 25_300, 100), ("second", 25_300, 100)]


def test_a_partial_fill_keeps_its_place():
    stage = Stage("10:00")
    stage.submit("HPG SELL 300 LO 25400", name="first")
    stage.submit("HPG SELL 300 LO 25400", name="second")
    stage.submit("HPG BUY 100 LO 25400")

    events = stage.submit("HPG BUY 300 LO 25400", name="taker")

    assert fills(events) == {"first": 200, "second": 100, "taker": 300}


def test_odd_lots_meet_odd_lots_only_and_set_no_price():
    stage = Stage("10:00")
    stage.submit("HPG SELL 100 LO 25300")
    stage.submit("HPG SELL 40 LO 25400", name="odd seller")

    events = stage.submit("HPG BUY 60 LO 25500", name="odd buyer")

    assert trades(events) == [(25_400, 40)]
    assert only(events, Traded)[0].lot is Lot.ODD
    assert stage.venue.board("HPG").last is None
    assert stage.levels("HPG") == ([], [(25_300, 100)])
    assert resting(stage, "odd buyer") == ["BUY", 25_500, 20]


def test_after_hours_orders_meet_in_a_batch_then_on_arrival_at_the_close():
    stage = Stage("10:00")
    stage.last("SHS", 12_100)
    stage.at("14:46")
    stage.submit("SHS SELL 500 PLO", name="s")
    stage.at("14:50")
    stage.submit("SHS BUY 300 PLO", name="b")
    batch = stage.at("14:55")
    stage.at("14:57")
    on_arrival = stage.submit("SHS BUY 400 PLO", name="late")
    end = stage.at("15:00")

    assert trades(batch) == [(12_100, 300)]
    assert only(batch, Uncrossed) == [Uncrossed(local("14:55"), "SHS", Lot.EVEN, 12_100, 300)]
    assert trades(on_arrival) == [(12_100, 200)]
    assert only(end, OrderLapsed) == [OrderLapsed(local("15:00"), "late", 200)]


def test_an_after_hours_order_needs_a_price_of_the_day():
    stage = Stage("14:46")

    assert stage.refused("SHS SELL 500 PLO") is Refusal.NO_CLOSE


def test_the_board_tells_the_day():
    stage = Stage("10:00")
    for price in (25_400, 25_600, 25_200, 25_300):
        stage.last("HPG", price)

    board = stage.venue.board("HPG")

    prices = (board.open, board.high, board.low, board.last)
    assert prices == (25_400, 25_600, 25_200, 25_300)
    assert (board.volume, board.value) == (400, 10_150_000)
    assert (board.reference, board.ceiling, board.floor) == (25_350, 27_100, 23_600)
    assert (board.close, board.auction_price) == (None, None)
