"""Reads as background work."""

from bot.domain.message import Event, OrderRead
from bot.runtime.reads import Health, Reads
from tests.broker.played_broker import ACCOUNT, Reply, desk

UNKNOWN = Reply({"error_code": "404", "message": "unknown"}, 404)


async def test_the_read_before_a_cancel_waits_for_no_poll_of_the_same_order() -> None:
    posted: list[Event] = []
    bench = desk(UNKNOWN)
    health = Health(bench.clock, posted.append)
    reads = Reads(bench.broker.client, ACCOUNT, bench.clock, health, posted.append)
    reads._under_way.add("order ORD1")  # a poll that waits for the quota

    await reads.order("ORD1")
    await reads.order_to_cancel("ORD1")

    assert posted == [OrderRead(bench.clock.now(), "ORD1", None)]
    assert len(bench.played.asked) == 1
