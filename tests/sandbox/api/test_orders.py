"""Orders at the broker: taken, refused inside 200, filled, amended, cancelled, held."""

from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.client import (
    ACCOUNT,
    DEFAULTS,
    EXTENDED,
    RULEBOOK,
    Bench,
    bench,
    order_body,
    orders_path,
    ready,
    scenario,
)

CANCEL = {"sub_account": EXTENDED}


async def change(b: Bench, method: str, order_id: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await b.call(method, orders_path(order_id), body)
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["result"]
    return dict(result)


def pick(fields: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(fields[name] for name in names)


async def test_a_place_answers_before_matching_and_the_row_is_partly_filled_a_moment_later() -> (
    None
):
    b = await ready()

    result = await b.place(quantity=500)
    row = await b.row(result["order_id"])

    assert pick(result, "order_status", "execute_quantity", "code", "order_type", "lot") == (
        "SENT",
        0,
        None,
        "LO",
        "EVEN",
    )
    assert pick(row, "status", "status_code", "execqtty", "remainqtty", "execamt") == (
        "SENT",
        "02",
        300,
        200,
        8_100_000,
    )
    assert pick(row, "txtime", "allowcancel", "allowamend") == ("09:16:00", "Y", "Y")


async def test_by_a_switch_a_place_answers_after_matching_with_fee() -> None:
    b = await ready(scenario(switches={"matching": "before_answer"}))

    result = await b.place(quantity=300)

    assert pick(result, "order_status", "execute_quantity", "execute_price", "fee_amount") == (
        "MATCHED_ALL",
        300,
        27_000,
        12_150,
    )


async def test_an_average_price_is_floored_and_the_amount_exact() -> None:
    b = await ready()

    order_id = (await b.place(quantity=700, limit_price=27_050))["order_id"]

    row = await b.row(order_id)
    assert pick(row, "execamt", "execprice", "status", "status_code") == (
        300 * 27_000 + 400 * 27_050,
        27_028,
        "MATCHED_ALL",
        "03",
    )


async def test_by_a_switch_a_partly_filled_row_says_matched() -> None:
    b = await ready(scenario(switches={"partial_status": "MATCHED", "matched_may_cancel": False}))

    order_id = (await b.place(quantity=500))["order_id"]

    row = await b.row(order_id)
    assert pick(row, "status", "status_code", "allowcancel") == ("MATCHED", "02", "N")
    refused = await change(b, "DELETE", order_id, CANCEL)
    assert pick(refused, "order_status", "code") == ("MATCHED", "FAILED")


@pytest.mark.parametrize(
    ("fields", "code", "status"),
    [
        ({"limit_price": 29_000}, "-900017", "REJECTED"),
        ({"limit_price": 25_100}, "-900017", "REJECTED"),
        ({"limit_price": 27_010}, "-900017", "REJECTED"),
        ({"quantity": 150}, "-700104", "REJECTED"),
        ({"quantity": 500_100}, "-700105", "REJECTED"),
        ({"quantity": 5_000}, "-400116", "REJECTED"),
        ({"side": "SELL", "quantity": 1_100}, "-400116", "REJECTED"),
        ({"symbol": "NOPE"}, "-400099", "REJECTED"),
        ({"type": "MARKET", "limit_price": None, "market_price": "ATC"}, "-100113", "REJECTED"),
        (
            {"type": "MARKET", "limit_price": None, "market_price": "MTL", "quantity": 50},
            "-700114",
            "REJECTED",
        ),
    ],
)
async def test_a_wrong_order_is_rejected_inside_200(
    fields: dict[str, Any], code: str, status: str
) -> None:
    b = await ready()

    result = await b.place(**fields)
    row = await b.row(result["order_id"])

    assert pick(result, "order_status", "code") == (status, code)
    assert result["rejected_reason"]
    assert pick(row, "status", "status_code", "remainqtty", "allowcancel") == (
        status,
        "05",
        0,
        "N",
    )
    assert (await b.get(f"/trading/accounts/{ACCOUNT}/summary"))["secure_amt"] == 0


async def test_a_halted_symbol_is_rejected() -> None:
    symbols = [DEFAULTS["symbols"][0] | {"is_halted": True}]
    b = await ready(scenario(symbols=symbols))

    assert (await b.place())["code"] == "-700069"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        order_body(limit_price=None),
        order_body(market_price="MTL"),
        order_body(type="MARKET"),
        order_body(quantity=0),
        order_body(quantity="100"),
        order_body(side="HOLD"),
        order_body(sub_account="120C900001.6"),
        order_body(sub_account=None),
    ],
)
async def test_a_malformed_body_is_400_and_places_nothing(body: Any) -> None:
    b = await ready()

    answer = await b.call("POST", orders_path(), body)

    assert (answer.status_code, answer.json()["error_code"]) == (400, "400")
    assert await b.get(f"/trading/v1/accounts/{ACCOUNT}/order-book") == []


async def test_a_market_order_is_echoed_after_routing_and_its_rest_has_a_price_in_the_row() -> None:
    b = await ready()

    result = await b.place(type="MARKET", limit_price=None, market_price="MP", quantity=1_000)
    row = await b.row(result["order_id"])

    assert pick(result, "order_type", "market_price", "limit_price") == ("MTL", "MP", None)
    assert pick(row, "pricetype", "price", "execqtty", "remainqtty", "status") == (
        "MTL",
        27_100,
        800,
        200,
        "SENT",
    )


async def test_a_killed_remainder_keeps_sent_with_nothing_open() -> None:
    levels = {"at": "09:16", "until": "16:00", "asks": [[21_500, 200]]}
    shs = {"symbol": "SHS", "exchange": "HNX", "reference": 21_500, "standstills": [levels]}
    b = await ready(scenario(symbols=[shs], accounts=[{"id": ACCOUNT}]))
    mak = {"type": "MARKET", "limit_price": None, "market_price": "MAK", "symbol": "SHS"}

    first = await b.place(**mak, quantity=500)
    second = await b.place(**mak, quantity=500)

    assert first["order_type"] == "FAK"
    row, empty = await b.row(first["order_id"]), await b.row(second["order_id"])
    assert pick(row, "status", "execqtty", "cancelqtty", "remainqtty") == ("SENT", 200, 300, 0)
    assert pick(empty, "status", "status_code", "cancelqtty") == ("CANCELLED", "04", 500)


# ------------------------------------------------------------------------------------ cancel


async def test_an_untouched_order_is_cancelled_at_once_and_its_money_is_free_again() -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]
    held = (await b.get(f"/trading/accounts/{ACCOUNT}/summary"))["secure_amt"]

    result = await change(b, "DELETE", order_id, CANCEL)

    assert held == 2_695_000 + 4_043
    assert pick(result, "order_status", "execute_quantity", "code") == ("CANCELLED", 0, None)
    assert pick(await b.row(order_id), "status", "cancelqtty", "remainqtty") == (
        "CANCELLED",
        100,
        0,
    )
    assert (await b.get(f"/trading/accounts/{ACCOUNT}/summary"))["secure_amt"] == 0


async def test_a_cancelled_rest_leaves_the_status_and_keeps_the_fills() -> None:
    b = await ready()
    order_id = (await b.place(quantity=500))["order_id"]

    result = await change(b, "DELETE", order_id, CANCEL)

    assert pick(result, "order_status", "execute_quantity") == ("SENT", 300)
    row = await b.row(order_id)
    assert pick(row, "status", "cancelqtty", "remainqtty", "allowcancel") == ("SENT", 200, 0, "N")


async def test_by_a_switch_a_cancel_answers_cancelling() -> None:
    b = await ready(scenario(switches={"cancel_answer": "CANCELLING"}))
    order_id = (await b.place(limit_price=26_950))["order_id"]

    result = await change(b, "DELETE", order_id, CANCEL)

    assert result["order_status"] == "CANCELLING"
    assert (await b.row(order_id))["status"] == "CANCELLED"


@pytest.mark.parametrize("form", ["result", "http_400"])
async def test_a_refused_change_leaves_the_order_unchanged(form: str) -> None:
    b = await ready(scenario(switches={"refused_change": form}))
    order_id = (await b.place(quantity=300))["order_id"]
    before = await b.row(order_id)

    cancel = await b.call("DELETE", orders_path(order_id), CANCEL)
    amend = await b.call("PUT", orders_path(order_id), {"price": 26_950})

    assert [cancel.status_code, amend.status_code] == (
        [200, 200] if form == "result" else [400] * 2
    )
    if form == "result":
        assert pick(cancel.json()["result"][0], "order_status", "code") == ("MATCHED_ALL", "FAILED")
    else:
        assert cancel.json()["error_code"] == "FAILED"
    assert await b.row(order_id) == before


async def test_nothing_is_cancelled_in_a_closing_auction() -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]
    b.pass_time(5 * 3600 + 20 * 60)

    await b.log_in()
    result = await change(b, "DELETE", order_id, CANCEL)

    assert pick(result, "order_status", "code") == ("SENT", "-300025")


async def test_a_cancel_names_its_account_and_its_order() -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]

    wrong = await b.call("DELETE", orders_path(order_id), {"sub_account": "120C900001.6"})
    unknown = await b.call("DELETE", orders_path("ORD99"), CANCEL)
    bodiless = await b.call("DELETE", orders_path(order_id))

    assert [a.status_code for a in (wrong, unknown, bodiless)] == [400, 404, 400]
    assert (await b.row(order_id))["status"] == "SENT"


# ------------------------------------------------------------------------------------- amend


async def test_an_amendment_keeps_the_id_and_echoes_the_new_terms() -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]

    result = await change(b, "PUT", order_id, {"quantity": 200, "price": 26_900})

    assert pick(result, "order_id", "order_quantity", "limit_price", "order_status", "code") == (
        order_id,
        200,
        26_900,
        "SENT",
        None,
    )
    assert pick(await b.row(order_id), "qtty", "price", "adjustqtty") == (200, 26_900, 100)


async def test_an_amended_price_matches_after_the_answer() -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]

    result = await change(b, "PUT", order_id, {"price": 27_000})

    assert pick(result, "execute_quantity", "limit_price") == (0, 27_000)
    assert pick(await b.row(order_id), "status", "execqtty") == ("MATCHED_ALL", 100)


async def test_amending_a_partly_matched_order_says_so_with_a_code_that_is_no_rejection() -> None:
    b = await ready()
    order_id = (await b.place(quantity=500))["order_id"]

    result = await change(b, "PUT", order_id, {"quantity": 400})

    assert pick(result, "code", "order_status", "order_quantity") == ("-701111", "SENT", 400)
    assert pick(await b.row(order_id), "qtty", "execqtty", "remainqtty") == (400, 300, 100)


async def test_by_a_switch_the_amended_quantity_is_the_open_part() -> None:
    b = await ready(scenario(switches={"modify_quantity": "open"}))
    order_id = (await b.place(quantity=500))["order_id"]

    await change(b, "PUT", order_id, {"quantity": 400})

    assert (await b.row(order_id))["qtty"] == 700


async def test_by_a_switch_one_amendment_changes_one_field() -> None:
    b = await ready(scenario(switches={"modify_both": "refuse"}))
    order_id = (await b.place(limit_price=26_950))["order_id"]

    result = await change(b, "PUT", order_id, {"quantity": 200, "price": 26_900})

    assert pick(result, "code", "order_quantity", "limit_price") == ("-700106", 100, 26_950)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"price": 26_910}, "-900017"),
        ({"price": 30_000}, "-900017"),
        ({"quantity": 150}, "-700104"),
        ({"quantity": 50}, "-700104"),
        ({"quantity": 100_000}, "-400116"),
        ({"price": 26_950}, "-700106"),
    ],
)
async def test_an_amendment_is_checked_like_a_new_order(body: dict[str, int], code: str) -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]

    assert (await change(b, "PUT", order_id, body))["code"] == code


async def test_an_empty_amendment_is_400() -> None:
    b = await ready()
    order_id = (await b.place(limit_price=26_950))["order_id"]

    assert (await b.call("PUT", orders_path(order_id), {})).status_code == 400


# ------------------------------------------------------------------------------------ waiting


async def test_a_limit_order_of_the_lunch_break_waits_and_is_sent_when_it_ends() -> None:
    b = await ready(scenario(start="11:45", symbols=DEFAULTS["symbols"]))

    result = await b.place(limit_price=26_950)
    waiting = await b.row(result["order_id"])
    b.pass_time(75 * 60)
    await b.log_in()

    assert result["order_status"] == "WAITING_TO_SEND"
    assert pick(waiting, "allowcancel", "remainqtty") == ("Y", 100)
    assert (await b.row(result["order_id"]))["status"] == "SENT"


async def test_an_order_waiting_when_the_day_is_cut_short_ends_with_it(tmp_path: Path) -> None:
    noon = {"date": "2026-11-19", "at": "12:00", "name": "cut short"}
    cut = RULEBOOK.with_override({"early_closes": [noon]})
    played, path = scenario(start="11:45"), tmp_path / "sandbox.jsonl"
    b = bench(played, path, rulebook=cut)
    await b.log_in()
    await b.place(limit_price=27_000)

    b.pass_time(15 * 60)
    assert (await b.row("ORD10000001"))["status"] == "EXPIRED"

    b.pass_time(86_400)
    await b.log_in()
    held = await b.get(f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio")
    assert held["portfolio"][0]["total"] == 1_000
    assert (await b.get(f"/trading/accounts/{ACCOUNT}/summary"))["secure_amt"] == 0
    b.sandbox.close()
    bench(played, path, rulebook=cut)  # opens: the ledger replays


async def test_an_order_that_waits_for_the_opening_is_checked_against_the_days_own_band() -> None:
    # The first day closes near its floor: 24,500 lies below it, 28,000 above the next ceiling.
    path = [{"at": "14:40", "price": 25_300}]
    falling = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "path": path}
    b = await ready(scenario(start="14:20", symbols=[falling]))
    b.pass_time((24 - 14 + 7) * 3_600 + 39 * 60)
    quote = "/market/quotes/stocks/HPG"
    before = await b.get(quote)
    b.pass_time(60)
    close = (await b.get(quote))["reference"]
    b.pass_time(45 * 60)
    await b.log_in()

    placed = [await b.place(side="SELL", limit_price=price) for price in (24_500, 28_000)]

    assert (before["reference"], close) == (27_000, before["price"])
    assert [each["order_status"] for each in placed] == ["WAITING_TO_SEND", "REJECTED"]
    b.pass_time(16 * 60)
    assert (await b.row(placed[0]["order_id"]))["status"] == "SENT"


async def test_an_order_that_waits_can_be_amended_and_cancelled() -> None:
    b = await ready(scenario(start="11:45"))
    order_id = (await b.place(limit_price=26_950))["order_id"]

    refused = await change(b, "PUT", order_id, {"price": 26_910})
    amended = await change(b, "PUT", order_id, {"price": 26_900})
    held = (await b.get(f"/trading/accounts/{ACCOUNT}/summary"))["secure_amt"]
    cancelled = await change(b, "DELETE", order_id, CANCEL)

    assert pick(refused, "code", "limit_price") == ("-900017", 26_950)
    assert pick(amended, "code", "limit_price") == (None, 26_900)
    assert held == 2_690_000 + 4_035
    assert cancelled["order_status"] == "CANCELLED"
    assert (await b.get(f"/trading/accounts/{ACCOUNT}/summary"))["secure_amt"] == 0


@pytest.mark.parametrize(
    ("start", "status", "code"),
    [
        ("08:29:59", "REJECTED", "-300025"),
        ("08:30:00", "WAITING_TO_SEND", None),
        ("09:05:00", "SENT", None),
        ("11:30:00", "WAITING_TO_SEND", None),
        ("14:50:00", "REJECTED", "-300025"),
        ("15:00:00", "REJECTED", "-300025"),
    ],
)
async def test_when_a_limit_order_is_taken(start: str, status: str, code: str | None) -> None:
    b = await ready(scenario(start=start))

    result = await b.place(limit_price=26_950)

    assert pick(result, "order_status", "code") == (status, code)


async def test_a_market_order_does_not_wait() -> None:
    b = await ready(scenario(start="11:45"))

    result = await b.place(type="MARKET", limit_price=None, market_price="MTL")

    assert result["code"] == "-100113"


async def test_what_is_left_at_the_close_expires() -> None:
    b = await ready(
        scenario(start="14:29", symbols=DEFAULTS["symbols"][1:], accounts=[{"id": ACCOUNT}])
    )
    order_id = (await b.place(symbol="SHS", limit_price=19_500))["order_id"]

    b.pass_time(20 * 60)

    await b.log_in()
    row = await b.row(order_id)
    assert pick(row, "status", "status_code", "remainqtty") == ("EXPIRED", "04", 0)


async def test_by_a_switch_only_the_routing_account_may_trade() -> None:
    accounts = [{"id": ACCOUNT}, {"id": "0009000044", "suffix": ".4"}]
    b = await ready(scenario(accounts=accounts, switches={"only_routing_account_trades": True}))
    other = "/trading/oa/sub-accounts/0009000044/orders"

    refused = await b.place()
    taken = await b.call("POST", other, order_body(sub_account="120C900001.4"))

    assert pick(refused, "order_status", "code") == ("FAILED", "FAILED")
    assert taken.json()["result"][0]["order_status"] == "SENT"


@pytest.mark.parametrize(
    ("fields", "lot"),
    [
        ({"quantity": 150}, "EVEN"),
        ({"symbol": "QQQ", "quantity": 100}, "EVEN"),
        ({"symbol": "QQQ", "quantity": 7}, "ODD"),
    ],
)
async def test_an_order_that_is_refused_has_a_lot_too(fields: dict[str, Any], lot: str) -> None:
    b = await ready()

    refused = await b.place(**fields)

    assert (refused["order_status"], refused["lot"]) == ("REJECTED", lot)


@pytest.mark.parametrize("kind", ["BOND", "ETF", "WARRANT", "FUND_CERTIFICATE"])
async def test_a_share_is_refused_as_what_it_is_not(kind: str) -> None:
    b = await ready()

    refused = await b.place(stock_type=kind)

    assert (refused["order_status"], refused["code"]) == ("REJECTED", "-400099")
