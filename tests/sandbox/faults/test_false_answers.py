"""Good answers made false: spoilt, swapped, overridden, out of order, out of date."""

from typing import Any

import pytest

from bot.sandbox.faults.garbage import GarbageKind, spoil
from bot.sandbox.faults.script import FaultScript
from tests.rows import every_row
from tests.sandbox.client import ACCOUNT, Bench, order_body, orders_path, ready

BOOK = f"/trading/v1/accounts/{ACCOUNT}/order-book"
QUOTE = "/market/quotes/stocks/HPG"
PORTFOLIO = f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio"
SUMMARY = f"/trading/accounts/{ACCOUNT}/summary"
PLACES = {"verb": "POST", "path": "*/orders"}
BOOKS = {"verb": "GET", "path": "*/order-book"}


async def faulty(**rule: Any) -> Bench:
    b = await ready()
    b.sandbox.add_fault(FaultScript.model_validate(rule))
    return b


async def count(b: Bench) -> int:
    return len(await b.get(BOOK))


@every_row("kind", GarbageKind)
async def test_garbage_is_the_good_answer_spoilt(kind: GarbageKind) -> None:
    b = await faulty(match={"nth": 2}, action={"do": "garbage", "kind": kind})

    good, bad = [await b.call("GET", QUOTE) for _ in range(2)]

    assert (bad.status_code, bad.content) == (200, spoil(kind, good.content))


async def test_garbage_before_the_effect_leaves_no_order_and_after_it_one() -> None:
    counts = []
    for point in ("before_auth", "after_apply"):
        action = {"do": "garbage", "kind": "html"}
        b = await faulty(match=PLACES, point=point, action=action)
        await b.call("POST", orders_path(), order_body())
        counts.append(await count(b))

    assert counts == [0, 1]


@pytest.mark.parametrize(
    ("field", "seen"),
    [
        ("symbol", {"symbol": "VNM"}),
        ("side", {"order_side": "SELL"}),
        ("quantity", {"order_quantity": 200}),
        ("price", {"limit_price": 27_100}),
        ("order_id", {"order_id": "ORD1"}),
        ("account", {"account_id": "120C999999.1"}),
        ("date", {"transaction_date": "2020-01-02"}),
        ("type", {"order_type": "ATC"}),
    ],
)
async def test_a_swapped_row_differs_in_one_field(field: str, seen: dict[str, Any]) -> None:
    b = await faulty(match=PLACES, action={"do": "swap_row", "field": field})

    result = await b.place()
    true_row = (await b.get(BOOK))[0]

    assert {name: result[name] for name in seen} == seen
    assert (true_row["symbol"], true_row["qtty"], true_row["side"]) == ("HPG", 100, "BUY")


async def test_a_swapped_row_of_the_day_book_differs_under_every_name_of_the_field() -> None:
    b = await faulty(match=BOOKS, action={"do": "swap_row", "field": "order_id", "value": "ORD7"})
    await b.place()

    [row] = await b.get(BOOK)

    assert (row["orderid"], row["rootorderid"]) == ("ORD7", "ORD7")


@pytest.mark.parametrize("rows", [0, 2])
async def test_an_answer_may_have_no_row_or_two(rows: int) -> None:
    b = await faulty(match=PLACES, action={"do": "swap_row", "rows": rows})

    answer = await b.call("POST", orders_path(), order_body())

    assert len(answer.json()["result"]) == rows
    assert await count(b) == 1


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("*/portfolio", {"do": "swap_row", "field": "symbol"}),
        ("*/summary", {"do": "reorder", "of": "rows"}),
        ("*/summary", {"do": "status_override", "status": "SENT"}),
        ("*/quotes/stocks/HPG", {"do": "set_fields", "fields": {"symbol": "HPG"}}),
        ("*/order-book", {"do": "stale_read", "seconds": 30}),
    ],
)
async def test_what_leaves_an_answer_as_it_is_has_not_struck(
    path: str, action: dict[str, Any]
) -> None:
    b = await faulty(match={"verb": "GET", "path": path}, action=action)

    for target in (PORTFOLIO, SUMMARY, QUOTE, BOOK):
        assert (await b.call("GET", target)).status_code == 200

    [rule] = b.sandbox._house.faults._rules
    assert (rule.seen, rule.struck) == (1, 0)


async def test_a_status_is_overridden_in_every_row_and_detail() -> None:
    b = await faulty(
        match={"path": "*/order-book*", "times": 0},
        action={"do": "status_override", "status": "DREAMING", "code": "06"},
    )
    ids = [(await b.place(limit_price=26_950))["order_id"] for _ in range(2)]

    rows = [*await b.get(BOOK), await b.row(ids[0])]

    assert {(row["status"], row["status_"], row["status_code"]) for row in rows} == {
        ("DREAMING", "DREAMING", "06")
    }


async def test_fields_are_set_in_rows_and_in_objects() -> None:
    b = await faulty(match=BOOKS, action={"do": "set_fields", "fields": {"execqtty": -5}})
    quote = {"match": {"path": QUOTE}, "action": {"do": "set_fields", "fields": {"price": 27}}}
    b.sandbox.add_fault(FaultScript.model_validate(quote))
    await b.place()

    assert (await b.get(BOOK))[0]["execqtty"] == -5
    assert (await b.get(QUOTE))["price"] == 27


async def test_rows_come_in_another_order_and_all_of_them() -> None:
    b = await faulty(match=BOOKS, action={"do": "reorder", "of": "rows"})
    placed = [(await b.place(limit_price=26_950))["order_id"] for _ in range(6)]

    shuffled, true = [[row["orderid"] for row in await b.get(BOOK)] for _ in range(2)]

    assert true == placed != shuffled
    assert sorted(shuffled) == placed


async def test_a_stale_book_is_the_one_of_some_seconds_ago() -> None:
    b = await faulty(
        match=BOOKS | {"at": "09:17", "times": 0}, action={"do": "stale_read", "seconds": 30}
    )
    seen = []
    for _ in range(6):
        seen.append(await count(b))
        await b.place(limit_price=26_950)
        b.pass_time(20)

    assert seen == [0, 1, 2, 1, 2, 3]


async def test_a_stale_read_without_an_earlier_one_is_true() -> None:
    b = await faulty(match=BOOKS, action={"do": "stale_read", "seconds": 30})
    await b.place()

    assert await count(b) == 1
