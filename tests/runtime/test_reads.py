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
from bot.runtime.read_health import LISTED_AGO_MAX_S, LISTED_FOR_S, Health
from bot.runtime.reads import DayBookReader, Reads
from tests.broker.played_broker import ACCOUNT, Reply, desk
from tests.protocol.samples import ROW_JSON

SHARES = Reply({"error_code": "0", "data": {"portfolio": []}})
MONEY = Reply({"error_code": "0", "result": {"ci_balance": 5, "net_asset_value": 9}})
TODAYS = {**ROW_JSON, "txdate": "2026-11-19", "odtimestamp": "2026-11-19T09:14:11"}
LIST = Reply({"error_code": "0", "result": [TODAYS]})
ROW = Reply({"error_code": "0", "result": TODAYS})
LISTED = ROW_JSON["orderid"]
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

    ids = ["ORD1", "ORD2", "ORD3", LISTED]
    for each in ids:
        await reads.order(each)

    news = [each for each in posted if isinstance(each, ReadHealthChanged)]
    assert [(one.kind, one.is_healthy) for one in news] == [(DETAIL, False), (DETAIL, True)]
    assert len(news) + len(ids) == len(posted)
    assert posted.index(news[0]) == 2


def shown(*replies: Reply) -> tuple[DayBookReader, Reads, list[Event], list[float]]:
    """Return both readers of the broker's answers, what they post, and a clock to be set."""
    posted: list[Event] = []
    bench, now_s = desk(*replies), [100.0]
    health = Health(bench.clock, posted.append, lambda: now_s[0])
    parts = bench.broker.client, ACCOUNT, bench.clock
    book = DayBookReader(*parts, timedelta, health, posted.append, lambda: now_s[0])
    reads = Reads(*parts, health, posted.append, RightOfWay(hold_s=0), lambda: now_s[0])
    return book, reads, posted, now_s


def told(posted: list[Event]) -> list[tuple[str, bool]]:
    news = [each for each in posted if isinstance(each, ReadHealthChanged)]
    return [(each.kind, each.is_healthy) for each in news]


async def test_a_detail_that_does_not_know_what_is_listed_is_dead_but_a_young_order_may_lag() -> (
    None
):
    book, reads, posted, now_s = shown(LIST, LIST, *(UNKNOWN,) * 4, ROW)

    await book.read()
    now_s[0] += LISTED_FOR_S - 0.1
    await book.read()
    await reads.order(LISTED)
    now_s[0] += 0.1
    await reads.order(LISTED)
    await reads.order("ORD1")
    assert told(posted) == []

    await reads.order_to_cancel(LISTED)
    assert told(posted) == [(DETAIL, False)]
    await reads.order(LISTED)

    assert told(posted) == [(DETAIL, False), (DETAIL, True)]
    named = next(each for each in posted if isinstance(each, ReadHealthChanged))
    assert named.detail == f"it does not know {LISTED}, which the day order book shows"
    rows = [each for each in posted if isinstance(each, OrderRead)]
    assert [each.report is None for each in rows] == [True, True, True, True, False]
    assert not any(each.is_unreadable for each in rows)


@pytest.mark.parametrize(
    ("second", "after_s"),
    [
        (Reply({"error_code": "0", "result": []}), 1.0),  # no longer in the list
        (Reply({}, 400), LISTED_AGO_MAX_S + 1),  # the list is dead
    ],
)
async def test_what_no_list_of_the_last_minute_shows_may_be_unknown(
    second: Reply, after_s: float
) -> None:
    book, reads, posted, now_s = shown(LIST, second, UNKNOWN, UNKNOWN)

    await book.read()
    now_s[0] += LISTED_FOR_S
    await book.read()
    now_s[0] += after_s
    await reads.order(LISTED)
    await reads.order(LISTED)

    assert (DETAIL, False) not in told(posted)


async def test_a_row_of_an_earlier_day_in_the_list_may_be_unknown() -> None:
    of_before = Reply({"error_code": "0", "result": [ROW_JSON]})
    book, reads, posted, now_s = shown(of_before, UNKNOWN, UNKNOWN)

    await book.read()
    [read] = [each for each in posted if isinstance(each, TodaysOrdersRead)]
    assert [each.order_id for each in read.reports] == [LISTED]
    now_s[0] += LISTED_FOR_S
    await reads.order(LISTED)
    await reads.order(LISTED)

    assert told(posted) == []


async def test_a_detail_that_answers_again_is_alive_though_it_does_not_know_the_order() -> None:
    _, reads, posted, _ = shown(*(Reply({}, 500),) * 6, UNKNOWN)

    for each in ("ORD1", "ORD2", "ORD3"):
        await reads.order(each)

    assert told(posted) == [(DETAIL, False), (DETAIL, True)]


async def test_that_an_order_is_not_known_is_an_answer() -> None:
    _, reads, _, now_s = shown(UNKNOWN)

    await reads.order("ORD1")
    now_s[0] += 5

    assert reads.health.ages_s()[DETAIL] == 5


async def test_a_detail_that_knows_nothing_stays_dead_for_an_order_that_is_in_no_list() -> None:
    book, reads, posted, now_s = shown(LIST, *(UNKNOWN,) * 3)

    await book.read()
    now_s[0] += LISTED_FOR_S
    for each in (LISTED, LISTED, "ORD1"):
        await reads.order(each)

    assert told(posted) == [(DETAIL, False)]


async def test_with_the_day_a_dead_detail_ends() -> None:
    book, reads, posted, now_s = shown(LIST, *(UNKNOWN,) * 2, LIST)

    await book.read()
    now_s[0] += LISTED_FOR_S
    for each in (LISTED, LISTED):
        await reads.order(each)
    book._day = None
    await book.read()

    assert told(posted) == [(DETAIL, False), (DETAIL, True)]


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


async def test_a_second_look_at_a_difference_reads_corporate_actions_again_ever_more_seldom() -> (
    None
):
    posted: list[Event] = []
    account, given = [SHARES, MONEY], Reply({"error_code": "0", "result": []})
    asked = [*account, given]
    bench = desk(*asked, *account, *asked, *account, *asked, *account, *asked)
    health, way, passed_s = Health(bench.clock, posted.append), RightOfWay(hold_s=0), [0.0]
    parts = bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way
    reads = Reads(*parts, lambda: passed_s[0])

    await reads.account()
    passed_s[0] = 60
    await reads.account()
    for passed_s[0] in (65, 66, 67, 70, 71):
        await reads.account_again()

    rights = [event.rights for event in posted if isinstance(event, AccountRead)]
    assert rights == [(), None, (), None, (), None, ()]


async def test_a_second_look_that_is_due_while_the_account_is_being_read_is_made_by_that_read() -> (
    None
):
    posted: list[Event] = []
    account, given = [SHARES, MONEY], Reply({"error_code": "0", "result": []})
    bench = desk(*account, given, *account, given, *account)
    health, way, passed_s = Health(bench.clock, posted.append), RightOfWay(hold_s=0), [0.0]
    parts = bench.broker.client, ACCOUNT, bench.clock, health, posted.append, way
    reads = Reads(*parts, lambda: passed_s[0])
    await reads.account()
    passed_s[0] = 60

    under_way = asyncio.create_task(reads.account())
    await asyncio.sleep(0)
    await reads.account_again()
    await under_way
    await reads.account()

    rights = [event.rights for event in posted if isinstance(event, AccountRead)]
    assert rights == [(), (), None]


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


@pytest.mark.parametrize("none", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("ahead_s", [-2, 2])
async def test_a_row_whose_time_is_the_first_or_last_that_there_is_has_none(
    none: str, ahead_s: int
) -> None:
    posted: list[Event] = []
    row = {**TODAYS, "txtime": "", "odtimestamp": none}
    bench = desk(Reply({"error_code": "0", "result": [row]}))
    health, ahead = Health(bench.clock, posted.append), timedelta(seconds=ahead_s)
    client, clock, post = bench.broker.client, bench.clock, posted.append
    book = DayBookReader(client, ACCOUNT, clock, lambda: ahead, health, post, lambda: 0.0)

    await book.read()

    [read] = posted
    assert isinstance(read, TodaysOrdersRead)
    assert [(each.order_id, each.placed_at) for each in read.reports] == [(LISTED, None)]
