"""The order history tells how orders ended that were open when the bot went down."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from bot.broker.errors import BrokerError
from bot.domain.entry import OrderUpdated
from bot.domain.order import OrderReport, OrderState
from bot.runtime.start.broker import BrokerRetry
from bot.runtime.start.day_start import KnownOrders, earlier_ends, left_open, read_history
from bot.sandbox.faults.rule import FaultScript
from tests.broker.loopback import JumpingWaiter
from tests.staging import DAY, Stage, intent, scenario, set_stage

NIGHT = timedelta(hours=23)
BELOW, ABOVE = 26_000, 27_100
LEVELS = {"bids": [[26_900, 500]], "asks": [[27_000, 500]]}
STILL = {
    "symbol": "HPG",
    "exchange": "HOSE",
    "reference": 27_000,
    "standstills": [{"at": "09:20", "until": "16:00", **LEVELS}],
}
"""Nobody trades through the day that passes between two mornings."""


async def left_overnight(
    folder: Path, url: str, *, limit_price: int, **more: object
) -> tuple[Stage, OrderUpdated]:
    """A stage on the next morning, and the row of an order that was working the day before."""
    stage = await set_stage(folder, url, scenario(symbols=[STILL], **more))
    wanted = await stage.ready(intent(limit_price=limit_price))
    await stage.orders.place(wanted)
    [order_id] = stage.placed()
    row = OrderUpdated(
        at=stage.clock.now(), order_id=order_id, account=wanted.account, trading_date=DAY,
        intent_id=wanted.intent_id, strategy=wanted.strategy, symbol=wanted.symbol,
        exchange=wanted.exchange, side=wanted.side, quantity=wanted.quantity, order_type="LO",
        price=limit_price, state=OrderState.ACCEPTED, broker_status="SENT", executed_quantity=0,
        executed_amount=0, cancelled_quantity=0, fee=0, tax=0, code=None, reason=None,
    )  # fmt: skip
    stage.clock.advance_to(stage.clock.now() + NIGHT)
    return stage, row


async def ends_of(stage: Stage, row: OrderUpdated, *later: str) -> tuple[OrderReport, ...]:
    known = KnownOrders([row], {row.order_id: later})
    left = left_open(known, stage.account, DAY + timedelta(days=1))
    return await earlier_ends(stage.broker.client, stage.account, left, now=stage.clock.now())


async def test_a_fill_of_the_time_without_a_bot_is_told(tmp_path: Path, sqlite_url: str) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE)

    found = await ends_of(stage, row)

    [report] = found
    assert (report.order_id, report.executed_quantity) == (row.order_id, row.quantity)
    assert report.executed_amount > 0
    assert report.remaining_quantity == 0
    await stage.strike()


async def test_an_order_that_lapsed_is_told_to_have(tmp_path: Path, sqlite_url: str) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=BELOW)

    found = await ends_of(stage, row)

    [report] = found
    assert (report.state, report.executed_quantity) == (OrderState.EXPIRED, 0)
    await stage.strike()


async def test_what_the_history_does_not_know_is_left_open(tmp_path: Path, sqlite_url: str) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=BELOW)
    others = [
        replace(row, order_id="ORD99"),
        replace(row, symbol="SHS"),
        replace(row, account="120C900009.1"),
        replace(row, intent_id=None),
        replace(row, state=OrderState.CANCELLED),
        replace(row, trading_date=DAY + timedelta(days=1)),
    ]

    for other in others:
        assert await ends_of(stage, other) == ()
    await stage.strike()


async def test_a_row_that_does_not_say_what_was_executed_is_not_taken_for_nothing(
    tmp_path: Path, sqlite_url: str
) -> None:
    said = {"order_id": "ORD10000001", "symbol": "HPG", "order_status": "SENT"}
    body = json.dumps({"error_code": "0", "result": {"data": [{"symbol": "SHS"}, said]}})
    match = {"verb": "GET", "path": "/trading/sub-accounts/*/orders*", "times": 0}
    fault = {"match": match, "action": {"do": "status", "status": 200, "body": body}}
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE, faults=[fault])
    assert row.order_id == "ORD10000001"

    found = await ends_of(stage, row)

    assert found == ()
    await stage.strike()


async def test_every_id_of_a_renamed_order_is_looked_up(tmp_path: Path, sqlite_url: str) -> None:
    figures = {"symbol": "HPG", "order_status": "SENT", "order_quantity": 100}
    rows = [
        {**figures, "order_id": order_id, "execute_quantity": executed}
        for order_id, executed in (("ORD10000001-1", 60), ("ORD10000001", 40), ("ORD7", 10))
    ]
    body = json.dumps({"error_code": "0", "result": {"data": rows}})
    match = {"verb": "GET", "path": "/trading/sub-accounts/*/orders*", "times": 0}
    fault = {"match": match, "action": {"do": "status", "status": 200, "body": body}}
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE, faults=[fault])

    found = await ends_of(stage, row, "ORD10000001-1")

    told = {each.order_id: each.executed_quantity for each in found}
    assert told == {"ORD10000001-1": 60, "ORD10000001": 40}
    await stage.strike()


AWAY = {"match": {"verb": "GET", "path": "/trading/*", "times": 20}, "action": {"do": "rst"}}
DEAD = {
    "match": {"verb": "GET", "path": "/trading/sub-accounts/*/orders*", "times": 0},
    "action": {"do": "status", "status": 500},
}


async def _read(stage: Stage, row: OrderUpdated) -> tuple[OrderReport, ...]:
    retry = BrokerRetry(JumpingWaiter(stage.clock), lambda _: None, is_needed=True)
    look = partial(stage.broker.client.todays_orders, stage.account, stage.clock.now())
    return await read_history(retry, partial(ends_of, stage, row), look)


async def test_the_history_of_a_broker_that_is_away_is_asked_for_when_it_is_back(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE)
    stage.sandbox.add_fault(FaultScript.model_validate(AWAY))

    [report] = await _read(stage, row)

    assert (report.order_id, report.executed_quantity) == (row.order_id, row.quantity)
    await stage.strike()


async def test_a_history_that_is_dead_alone_is_given_up(tmp_path: Path, sqlite_url: str) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE, faults=[DEAD])

    with pytest.raises(BrokerError, match="HTTP 500"):
        await _read(stage, row)
    await stage.strike()
