"""Lists in pages are read to their end, and no further."""

from typing import Any

import pytest

from bot.broker.errors import Malformed, Refused
from bot.broker.paging import read_pages
from bot.protocol import calls
from bot.protocol.envelope import seal
from bot.protocol.shaped import Codec
from tests.broker.played_broker import Desk, Reply, desk


def screen(page: int, *symbols: str, total: int) -> Reply:
    items = [{"symbol": symbol} for symbol in symbols]
    body = {"page": page, "page_size": 2, "total": total, "items": items}
    return Reply(seal(calls.CODECS["screener"].endpoint, body))


def news(page: int, next_page: int | None, *ids: str) -> Reply:
    fields = {"title": "t", "url": "u", "topic": "macro", "published_at": "2026-11-19T09:00:00Z"}
    results = [{"id": each, **fields} for each in ids]
    body = {"total": 3, "current_page": page, "page_size": 2, "next_page": next_page}
    return Reply(seal(calls.CODECS["market_news"].endpoint, {**body, "results": results}))


def orders(*ids: str) -> Reply:
    rows = [{"order_id": each, "symbol": "HPG"} for each in ids]
    return Reply(seal(calls.ORDER_HISTORY_CODEC.endpoint, {"data": rows}))


async def pages(bench: Desk, codec: Codec[Any], **path: str) -> list[Any]:
    days = [("fromDate", "2026-11-01"), ("toDate", "2026-11-19")]
    query = days if codec is calls.ORDER_HISTORY_CODEC else []
    return [heard.value async for heard in read_pages(bench.broker.client, codec, path, query)]


def asked_pages(bench: Desk) -> list[str]:
    return [asked.target.rpartition("page=")[2] for asked in bench.played.asked]


async def test_a_total_is_followed_to_its_last_page() -> None:
    bench = desk(
        screen(1, "A", "B", total=5), screen(2, "C", "D", total=5), screen(3, "E", total=5)
    )

    found = await pages(bench, calls.CODECS["screener"])

    assert [item.symbol for page in found for item in page.items] == ["A", "B", "C", "D", "E"]
    assert asked_pages(bench)[1:] == ["2", "3"]


async def test_a_next_page_that_is_the_current_one_ends_the_list() -> None:
    bench = desk(news(1, 2, "1", "2"), news(2, 2, "3"))

    found = await pages(bench, calls.CODECS["market_news"])

    assert [len(page.items) for page in found] == [2, 1]


async def test_the_order_history_ends_with_its_first_empty_page() -> None:
    bench = desk(orders("1", "2"), orders("3"), orders())

    found = await pages(bench, calls.ORDER_HISTORY_CODEC, sub_account_id="0001234567")

    assert [len(page.orders) for page in found] == [2, 1, 0]


async def test_an_order_history_without_pages_is_read_once() -> None:
    bench = desk(orders("1", "2"))

    found = await pages(bench, calls.ORDER_HISTORY_CODEC, sub_account_id="0001234567")

    assert [len(page.orders) for page in found] == [2]
    assert len(bench.played.asked) == 2


def refused(status: int) -> Reply:
    return Reply({"error_code": str(status), "message": "no"}, status)


def many(first: int, count: int) -> Reply:
    return orders(*(str(each) for each in range(first, first + count)))


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize(
    "before", [[many(1, 1)], [many(1, 19)], [many(1, 20), many(21, 10)], [many(1, 7), many(8, 6)]]
)
async def test_an_order_history_ends_where_a_page_that_it_does_not_have_is_refused(
    status: int, before: list[Reply]
) -> None:
    bench = desk(*before, refused(status))

    found = await pages(bench, calls.ORDER_HISTORY_CODEC, sub_account_id="0001234567")

    assert len(found) == len(before)
    assert len(bench.played.asked) == len(before) + 1


@pytest.mark.parametrize(
    ("before", "status"),
    [
        ([], 404),  # nothing of it was read
        ([many(1, 20)], 404),  # a page that may be full
        ([many(1, 7), many(8, 7)], 404),
        ([many(1, 1)], 403),
        ([many(1, 1)], 500),
    ],
)
async def test_any_other_refusal_leaves_an_order_history_unread(
    before: list[Reply], status: int
) -> None:
    bench = desk(*before, refused(status))

    with pytest.raises(Refused):
        await pages(bench, calls.ORDER_HISTORY_CODEC, sub_account_id="0001234567")


async def test_a_promised_page_that_is_refused_leaves_a_list_unread() -> None:
    bench = desk(screen(1, "A", "B", total=5), refused(404))

    with pytest.raises(Refused):
        await pages(bench, calls.CODECS["screener"])


async def test_a_page_that_comes_again_is_malformed() -> None:
    bench = desk(screen(1, "A", "B", total=9))

    with pytest.raises(Malformed, match="page 2"):
        await pages(bench, calls.CODECS["screener"])

    assert len(bench.played.asked) == 2


async def test_a_promise_of_more_with_nothing_in_it_ends_the_list() -> None:
    bench = desk(news(1, 2, "1"), news(2, 3))

    assert len(await pages(bench, calls.CODECS["market_news"])) == 2


async def test_a_call_without_pages_is_read_once() -> None:
    bench = desk(
        Reply(seal(calls.CODECS["stock_catalogue"].endpoint, [{"symbol": "HPG", "name": "x"}]))
    )

    assert len(await pages(bench, calls.CODECS["stock_catalogue"])) == 1
