"""The order history tells how orders ended that were open when the bot went down."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from bot.broker.errors import BrokerError
from bot.config.rulebook import load_rulebook
from bot.domain.entry import Note, OrderUpdated
from bot.domain.message import Noted
from bot.domain.operations import EarlierOrdersRead
from bot.domain.order import OrderReport, OrderState, Side
from bot.domain.order_status import shown_state
from bot.engine.control_state import Standing
from bot.runtime.activity import RightOfWay
from bot.runtime.closes import Closes
from bot.runtime.read_health import Health
from bot.runtime.reads import Reads
from bot.runtime.start.day_start import (
    DayStart,
    KnownOrders,
    earlier_ends,
    left_open,
    read_history,
)
from bot.runtime.start.retry import BrokerRetry
from bot.sandbox.faults.script import FaultScript
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
    known = KnownOrders([row], {row.order_id: later}, ())
    left = left_open(known, stage.account, DAY + timedelta(days=1))
    return await earlier_ends(stage.broker.client, stage.account, left, (), now=stage.clock.now())


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


async def lost_of(stage: Stage, row: OrderUpdated, **changes: object) -> tuple[OrderReport, ...]:
    """What the history shows that looks like that order, had its answer been lost."""
    lost = intent(limit_price=row.price, **changes)  # type: ignore[arg-type]
    client, now = stage.broker.client, stage.clock.now()
    return await earlier_ends(client, stage.account, {}, [lost], now=now)


@pytest.mark.parametrize(("limit_price", "then"), [(ABOVE, "FILLED"), (BELOW, "EXPIRED")])
async def test_a_place_whose_answer_was_lost_is_found_in_the_history(
    tmp_path: Path, sqlite_url: str, limit_price: int, then: str
) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=limit_price)

    [report] = await lost_of(stage, row)

    assert (report.order_id, report.root_order_id) == (row.order_id, row.order_id)
    assert (report.account, report.trading_date, report.side) == (row.account, DAY, row.side)
    assert (report.quantity, report.price, report.order_type) == (row.quantity, row.price, "LO")
    assert shown_state(report) == then
    assert report.executed_quantity == (row.quantity if then == "FILLED" else 0)
    assert report.remaining_quantity == 0
    others: list[dict[str, object]] = [
        {"symbol": "SHS"},
        {"side": Side.SELL},
        {"quantity": row.quantity - 1},
        {"trading_date": DAY - timedelta(days=1)},
    ]
    for other in others:
        assert await lost_of(stage, row, **other) == ()
    await stage.strike()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"order_type": "MP", "execute_quantity": 100}, ("MP", None, 100, 0)),
        ({"order_type": "?", "market_price": "MP", "execute_quantity": 0}, ("MP", None, 0, 0)),
        ({"order_type": "LO", "limit_price": 27_100}, ("LO", 27_100, 0, 100)),
        ({"order_side": "", "execute_quantity": 0}, None),
        ({"transaction_date": "2026-11-18", "execute_quantity": 0}, None),
    ],
)
async def test_what_the_history_says_of_a_lost_place_is_read_as_it_stands(
    tmp_path: Path, sqlite_url: str, said: dict[str, object], found: tuple[object, ...] | None
) -> None:
    row_of = {"order_id": "ORD9", "symbol": "HPG", "order_side": "BUY", "order_quantity": 100}
    rows = [{**row_of, "order_status": "SENT", **said}]
    body = json.dumps({"error_code": "0", "result": {"data": rows}})
    match = {"verb": "GET", "path": "/trading/sub-accounts/*/orders*", "times": 0}
    fault = {"match": match, "action": {"do": "status", "status": 200, "body": body}}
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE, faults=[fault])

    reports = await lost_of(stage, row, quantity=100)

    shown = [
        (each.order_type, each.price, each.executed_quantity, each.remaining_quantity)
        for each in reports
    ]
    assert shown == ([found] if found else [])
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


async def _read(stage: Stage, row: OrderUpdated) -> tuple[OrderReport, ...] | BrokerError:
    retry = BrokerRetry(JumpingWaiter(stage.clock), lambda _: None, is_needed=True)
    look = partial(stage.broker.client.todays_orders, stage.account, stage.clock.now())
    return await read_history(retry, partial(ends_of, stage, row), look)


async def test_the_history_of_a_broker_that_is_away_is_asked_for_when_it_is_back(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE)
    stage.sandbox.add_fault(FaultScript.model_validate(AWAY))

    found = await _read(stage, row)

    assert not isinstance(found, BrokerError)
    [report] = found
    assert (report.order_id, report.executed_quantity) == (row.order_id, row.quantity)
    await stage.strike()


@pytest.mark.parametrize("status", [500, 401])
async def test_a_history_that_is_dead_alone_is_given_up(
    tmp_path: Path, sqlite_url: str, status: int
) -> None:
    """A 401 too: a key that other reads are answered with is not refused."""
    dead = {**DEAD, "action": {"do": "status", "status": status}}
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE, faults=[dead])

    found = await _read(stage, row)

    assert isinstance(found, BrokerError)
    assert f"HTTP {status}" in str(found)
    await stage.strike()


async def test_a_day_begins_without_a_history_that_alone_refuses_the_key(
    tmp_path: Path, sqlite_url: str
) -> None:
    dead = {**DEAD, "action": {"do": "status", "status": 401}}
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE, faults=[dead])
    client, clock, post = stage.broker.client, stage.clock, stage.events.append
    health, way = Health(clock, post), RightOfWay(hold_s=0)
    day_start = DayStart(
        client=client,
        account=stage.account,
        market=clock,
        reads=Reads(client, stage.account, clock, health, post, way),
        day_order_book=stage.day_order_book,
        retry=BrokerRetry(JumpingWaiter(clock), lambda _: None, is_needed=True),
        post=post,
        plans=(),
        listed={},
        closes=Closes(client, clock, load_rulebook(), post, {}),
    )

    lost = intent(number=7, limit_price=BELOW)
    for known in (KnownOrders([row], {}, ()), KnownOrders([], {}, [lost])):
        stage.events.clear()
        await day_start.after_start(known)

        notes = [each.entry for each in stage.events if isinstance(each, Noted)]
        told = [note.numbers for note in notes if isinstance(note, Note) and note.kind == "ALERT"]
        name = lost.intent_id if known.unknown else row.order_id
        assert [(each["alert"], each["orders"]) for each in told] == [("HISTORY_UNREAD", name)]
        [read] = [each for each in stage.events if isinstance(each, EarlierOrdersRead)]
        assert (read.reports, read.is_unread) == ((), True)
    await stage.strike()


async def test_a_bot_that_waits_to_begin_its_next_day_is_not_said_to_have_not_begun(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage, _ = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE)
    stage.sandbox.add_fault(FaultScript.model_validate(AWAY))
    client, clock, post = stage.broker.client, stage.clock, stage.events.append
    health, told = Health(clock, post), list[Standing]()
    retry = BrokerRetry(
        JumpingWaiter(clock), lambda _: told.extend(retry.standing()), is_needed=True
    )
    day_start = DayStart(
        client=client,
        account=stage.account,
        market=clock,
        reads=Reads(client, stage.account, clock, health, post, RightOfWay(hold_s=0)),
        day_order_book=stage.day_order_book,
        retry=retry,
        post=post,
        plans=(),
        listed={},
        closes=Closes(client, clock, load_rulebook(), post, {}),
    )

    await day_start.after_night(KnownOrders([], {}, ()))

    assert told
    for each in told:
        assert each.code == "START_WAITS"
        assert "has not begun" not in each.text
        assert "No order is sent until the bot has read where it stands" in each.text
    await stage.strike()


async def test_a_history_is_not_given_up_for_a_key_that_the_broker_refuses(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage, row = await left_overnight(tmp_path, sqlite_url, limit_price=ABOVE)
    refused = {
        "match": {"path": "/trading/*", "times": 0},
        "action": {"do": "status", "status": 401},
    }
    stage.sandbox.add_fault(FaultScript.model_validate(refused))

    with pytest.raises(BrokerError, match="401"):
        await _read(stage, row)
    await stage.strike()
