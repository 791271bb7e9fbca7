"""Reads as background work."""

import asyncio

from bot.domain.message import Event, OrderRead
from bot.runtime.activity import RightOfWay
from bot.runtime.reads import Health, Reads
from tests.broker.played_broker import ACCOUNT, Reply, desk

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
