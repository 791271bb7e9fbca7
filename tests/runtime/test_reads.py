"""Reads as background work."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.message import (
    AccountRead,
    Event,
    OrderRead,
    ReadHealthChanged,
    TodaysOrdersRead,
)
from bot.engine.health import DETAIL
from bot.runtime.activity import RightOfWay
from bot.runtime.read_health import LISTED_FOR_S, Health
from bot.runtime.reads import DayBookReader, Reads
from tests.broker.played_broker import ACCOUNT, Reply, desk
from tests.protocol.samples import ROW_JSON

SHARES = Reply({"error_code": "0", "data": {"portfolio": []}})
MONEY = Reply({"error_code": "0", "result": {"ci_balance": 5, "net_asset_value": 9}})
LIST = Reply({"error_code": "0", "result": [ROW_JSON]})
ROW = Reply({"error_code": "0", "result": ROW_JSON})
UNKNOWN = Reply({"error_code": "404", "message": "unknown"}, 404)


async def test_the_read_before_a_cancel_waits_for_no_poll_of_the_same_order() -> None:
    posted: list[Event] = []
    bench = desk(UNKNOWN)
    health, way = Health(bench.clock, posted.append), RightOfWay(hold_s=0)
    reads = Reads(bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way)
    reads._under_way.add("order ORD1")  # a poll that waits for the quota

    await reads.order("ORD1")
    await reads.order_to_cancel("ORD1")

    assert posted == [OrderRead(bench.clock.now(), "ORD1", None)]
    assert len(bench.played.asked) == 1


@pytest.mark.parametrize("answer", [Reply({}, 500), Reply({"error_code": "1"}, 400)])
async def test_whatever_keeps_a_row_from_being_read_is_told_to_the_cancel_that_waits(
    answer: Reply,
) -> None:
    posted: list[Event] = []
    bench = desk(answer)
    health, way = Health(bench.clock, posted.append), RightOfWay(hold_s=0)
    reads = Reads(bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way)
    at = bench.clock.now()

    await reads.order_to_cancel("ORD1")

    assert [replace(one, at=at) for one in posted] == [
        OrderRead(at, "ORD1", None, is_unreadable=True)
    ]


async def test_a_dead_detail_is_named_at_the_second_failure_and_ends_with_a_row() -> None:
    posted: list[Event] = []
    bench = desk(*(Reply({}, 500),) * 6, UNKNOWN, ROW)
    health, way = Health(bench.clock, posted.append), RightOfWay(hold_s=0)
    reads = Reads(bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way)

    ids = ["ORD1", "ORD2", "ORD3", ROW_JSON["orderid"]]
    for each in ids:
        await reads.order(each)

    news = [each for each in posted if isinstance(each, ReadHealthChanged)]
    assert [(one.kind, one.is_healthy) for one in news] == [(DETAIL, False), (DETAIL, True)]
    assert len(news) + len(ids) == len(posted)
    assert posted.index(news[0]) == 2


async def test_a_detail_that_does_not_know_what_is_listed_is_dead_but_a_young_order_may_lag() -> (
    None
):
    posted: list[Event] = []
    bench, now_s = desk(LIST, LIST, *(UNKNOWN,) * 4, ROW), [100.0]
    health = Health(bench.clock, posted.append, lambda: now_s[0])
    client, post, way = bench.broker.client, posted.append, RightOfWay(hold_s=0)
    book = DayBookReader(client, ACCOUNT, bench.clock, timedelta, health, post, lambda: now_s[0])
    reads = Reads(client, ACCOUNT, bench.clock, health, post, way)
    listed = ROW_JSON["orderid"]

    await book.read()
    now_s[0] += LISTED_FOR_S - 0.1
    await book.read()
    await reads.order(listed)
    now_s[0] += 0.1
    await reads.order(listed)
    await reads.order("ORD1")
    assert not any(isinstance(each, ReadHealthChanged) for each in posted)

    await reads.order_to_cancel(listed)
    await reads.order(listed)

    news = [each for each in posted if isinstance(each, ReadHealthChanged)]
    assert [(one.kind, one.is_healthy) for one in news] == [(DETAIL, False), (DETAIL, True)]
    assert news[0].detail == f"{listed} is not known there, and the day order book shows it"
    rows = [each for each in posted if isinstance(each, OrderRead)]
    assert [each.report is None for each in rows] == [True, True, True, True, False]
    assert not any(each.is_unreadable for each in rows)


async def test_an_id_that_the_last_list_does_not_show_may_be_unknown() -> None:
    posted: list[Event] = []
    empty = Reply({"error_code": "0", "result": []})
    bench, now_s = desk(LIST, empty, UNKNOWN, UNKNOWN), [100.0]
    health = Health(bench.clock, posted.append, lambda: now_s[0])
    client, post, way = bench.broker.client, posted.append, RightOfWay(hold_s=0)
    book = DayBookReader(client, ACCOUNT, bench.clock, timedelta, health, post, lambda: now_s[0])
    reads = Reads(client, ACCOUNT, bench.clock, health, post, way)

    await book.read()
    now_s[0] += LISTED_FOR_S
    await book.read()
    await reads.order(ROW_JSON["orderid"])
    await reads.order(ROW_JSON["orderid"])

    assert not any(isinstance(each, ReadHealthChanged) for each in posted)


async def test_one_detail_that_fails_or_an_id_that_is_unknown_is_no_trouble() -> None:
    posted: list[Event] = []
    bench = desk(Reply({}, 500), UNKNOWN, UNKNOWN, Reply({}, 500), UNKNOWN)
    health, way = Health(bench.clock, posted.append), RightOfWay(hold_s=0)
    reads = Reads(bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way)

    for number in range(5):
        await reads.order(f"ORD{number}")

    assert [each for each in posted if not isinstance(each, OrderRead)] == []


async def test_a_poll_of_the_market_lets_an_order_go_first() -> None:
    posted: list[Event] = []
    bench = desk(UNKNOWN)
    health, way = Health(bench.clock, posted.append), RightOfWay(hold_s=30)
    reads = Reads(bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way)
    way.begin()
    polls = [asyncio.create_task(each("FPT")) for each in (reads.quote, reads.depth)]
    await asyncio.sleep(0)

    await reads.order("ORD1")

    assert len(bench.played.asked) == 1
    way.end()
    await asyncio.gather(*polls)
    assert len(bench.played.asked) == 3


async def test_corporate_actions_that_could_not_be_read_are_asked_for_again_ever_more_seldom() -> (
    None
):
    posted: list[Event] = []
    account = [SHARES, MONEY]
    refused, given = Reply({}, 404), Reply({"error_code": "0", "result": []})
    tried = [*account, refused, *account]
    bench = desk(*tried, *tried, *account, given, *account)
    health, way, passed_s = Health(bench.clock, posted.append), RightOfWay(hold_s=0), [0.0]
    reads = Reads(
        bench.broker.client,
        ACCOUNT,
        bench.clock,
        health,
        posted.append,
        way,
        lambda: passed_s[0],
    )

    for passed_s[0] in (0, 1, 2, 5, 6, 600):
        await reads.account()

    rights = [event.rights for event in posted if isinstance(event, AccountRead)]
    assert rights == [None, None, None, None, (), None]


async def test_a_rows_own_time_is_told_by_our_clock_where_the_brokers_is_known_to_be_off() -> None:
    posted: list[Event] = []
    bench = desk(LIST, LIST)
    ahead = timedelta(seconds=12)
    for offset in (timedelta, lambda: ahead):
        health = Health(bench.clock, posted.append)
        book = DayBookReader(
            bench.broker.client, ACCOUNT, bench.clock, offset, health, posted.append, lambda: 0.0
        )
        await book.read()

    as_told, by_ours = [
        event.reports[0].placed_at for event in posted if isinstance(event, TodaysOrdersRead)
    ]
    assert as_told is not None
    assert by_ours == as_told - ahead
