"""Every switch of a scenario is in the table of switches, and turning it shows."""

from pathlib import Path

import pytest

from bot.sandbox.scenario import Switches
from tests.rows import every_row
from tests.sandbox.client import (
    ACCOUNT,
    EXTENDED,
    bench,
    order_body,
    orders_path,
    ready,
    scenario,
)
from tests.sandbox.switch_table import FIXED, SWITCHES, positions, switches_markdown

PAGE = Path(__file__).parents[3] / "docs" / "switches.md"
BOOK = f"/trading/v1/accounts/{ACCOUNT}/order-book"
SPAN = "from=1600000000&to=1900000000"
PROVEN_ELSEWHERE = {
    "partial_status": "test_orders",
    "matched_may_cancel": "test_orders",
    "matching": "test_orders",
    "cancel_answer": "test_orders",
    "refused_change": "test_orders",
    "modify_both": "test_orders",
    "modify_quantity": "test_orders",
    "only_routing_account_trades": "test_orders",
}


# ---------------------------------------------------------------------------------- the table


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text("utf-8") == switches_markdown()


def test_the_table_has_every_switch_once_and_its_positions() -> None:
    names = [row.name for row in SWITCHES]

    assert sorted(names) == sorted(Switches.model_fields)
    assert len(set(names)) == len(names)
    assert positions("other_user_status") == "**`401`**, `403`, `404`"
    assert positions("no_error_code") == '**`null`**, `""`, `"0"`'
    assert positions("no_reports") == '**`list`**, `"null"`'
    assert positions("verify_body_hash") == "**`false`**, `true`"
    assert len({row.question for row in FIXED}) == len(FIXED)


@every_row("name", sorted(Switches.model_fields))
def test_every_switch_has_a_test_that_turns_it(name: str) -> None:
    where = Path(__file__).with_name(f"{PROVEN_ELSEWHERE.get(name, 'test_switches')}.py")

    assert f'"{name}": ' in where.read_text("utf-8").split("# turned below", maxsplit=1)[-1]


# turned below


# --------------------------------------------------------------------------------------- orders


async def test_a_modify_may_give_a_new_id_and_keep_the_root() -> None:
    b = await ready(scenario(switches={"modify_id": "new"}))
    first = await b.place(limit_price=26_900)

    change = await b.call("PUT", orders_path(first["order_id"]), {"quantity": 200})
    new_id = change.json()["result"][0]["order_id"]
    again = await b.call("PUT", orders_path(new_id), {"price": 26_850})
    last_id = again.json()["result"][0]["order_id"]
    rows = await b.get(BOOK)
    old = await b.row(first["order_id"])
    gone = await b.call("DELETE", orders_path(last_id), {"sub_account": EXTENDED})

    ids = [first["order_id"], new_id, last_id]
    assert len(set(ids)) == 3
    assert [row["orderid"] for row in rows] == ids
    assert {row["rootorderid"] for row in rows} == {first["order_id"]}
    assert [(row["qtty"], row["price"], row["status"]) for row in rows] == [
        (100, 26_900, "CANCELLED"),
        (200, 26_900, "CANCELLED"),
        (200, 26_850, "SENT"),
    ]
    assert old == rows[0]
    assert gone.json()["result"][0]["order_status"] == "CANCELLED"


async def test_the_row_of_a_former_id_is_changed_by_nothing() -> None:
    b = await ready(scenario(switches={"modify_id": "new"}))
    path = orders_path((await b.place(limit_price=26_900))["order_id"])
    await b.call("PUT", path, {"quantity": 200})

    refused = [
        await b.call("PUT", path, {"quantity": 300}),
        await b.call("DELETE", path, {"sub_account": EXTENDED}),
    ]

    assert all(one.json()["result"][0]["code"] for one in refused)
    assert [row["remainqtty"] for row in await b.get(BOOK)] == [0, 200]


SHOWN = ("qtty", "execqtty", "remainqtty", "execamt")
OF_THE_FIRST = (500, 300, 0, 300 * 27_000)
BOTH = 300 * 27_000 + 300 * 27_050
COUNTED = {
    "carried": [(600, 300, 0, 300 * 27_000), (600, 600, 0, BOTH)],
    "restarts": [(300, 0, 0, 0), (300, 300, 0, 300 * 27_050)],
}


@pytest.mark.parametrize("counting", COUNTED)
async def test_a_new_id_goes_on_counting_or_begins_at_zero(counting: str) -> None:
    counts = {"modify_executed": "carried"} | {"modify_executed": counting}
    b = await ready(scenario(switches={"modify_id": "new", **counts}))
    order_id = (await b.place(quantity=500))["order_id"]

    order_id = (await b.call("PUT", orders_path(order_id), {"quantity": 600})).json()["result"][0][
        "order_id"
    ]
    change = await b.call("PUT", orders_path(order_id), {"price": 27_050})
    rows = [tuple(row[name] for name in SHOWN) for row in await b.get(BOOK)]

    assert rows == [OF_THE_FIRST, *COUNTED[counting]]
    assert change.json()["result"][0]["order_quantity"] == COUNTED[counting][-1][0]
    [order] = b.sandbox._house.day_order_book.every()
    assert (order.executed_quantity, order.executed_amount) == (600, BOTH)


async def test_a_refused_modify_gives_no_new_id() -> None:
    b = await ready(scenario(switches={"modify_id": "new"}))
    first = await b.place(limit_price=26_900)

    await b.call("PUT", orders_path(first["order_id"]), {"price": 26_901})

    assert (await b.row(first["order_id"]))["orderid"] == first["order_id"]


async def test_a_waiting_order_gets_a_new_id_too() -> None:
    b = await ready(scenario(start="12:00", switches={"modify_id": "new"}))
    first = await b.place(limit_price=26_900)

    await b.call("PUT", orders_path(first["order_id"]), {"quantity": 200})

    old, new = await b.get(BOOK)
    assert (old["status"], old["qtty"], new["qtty"]) == ("CANCELLED", 100, 200)
    assert new["rootorderid"] == old["orderid"] == first["order_id"] != new["orderid"]


async def test_a_new_row_may_be_late() -> None:
    b = await ready(scenario(switches={"row_visible_after_s": 2.5}))
    placed = await b.place()

    early = await b.get(BOOK)
    b.pass_time(3)

    assert early == []
    assert [row["orderid"] for row in await b.get(BOOK)] == [placed["order_id"]]


async def test_an_order_whose_row_is_late_is_changed_by_its_id() -> None:
    b = await ready(scenario(switches={"row_visible_after_s": 2.5}))
    path = orders_path((await b.place(limit_price=26_500))["order_id"])

    amended = await b.call("PUT", path, {"quantity": 200})
    cancelled = await b.call("DELETE", path, {"sub_account": EXTENDED})

    assert amended.json()["result"][0]["order_quantity"] == 200
    assert cancelled.json()["result"][0]["order_status"] == "CANCELLED"


@pytest.mark.parametrize(("choice", "rows"), [("given", 1), ("empty", 0)])
async def test_a_refused_place_may_have_no_id_and_no_row(choice: str, rows: int) -> None:
    b = await ready(scenario(switches={"rejected_order_id": choice}))

    refused = await b.place(limit_price=27_001)

    assert refused["order_status"] == "REJECTED"
    assert (refused["order_id"] != "") == (choice == "given")
    assert len(await b.get(BOOK)) == rows


@pytest.mark.parametrize(("choice", "status"), [("required", 400), ("optional", 200)])
async def test_a_place_may_leave_its_account_out(choice: str, status: int) -> None:
    b = await ready(scenario(switches={"place_names_account": choice}))
    body = order_body()
    del body["sub_account"]

    left_out = await b.call("POST", orders_path(), body)
    wrong = await b.call("POST", orders_path(), order_body(sub_account="120C900001.6"))

    assert (left_out.status_code, wrong.status_code) == (status, 400)


@pytest.mark.parametrize("code", [None, "", "0"])
async def test_no_error_has_three_forms(code: str | None) -> None:
    b = await ready(scenario(switches={"no_error_code": code}))

    assert (await b.place())["code"] == code


# --------------------------------------------------------------------------------- account data


@pytest.mark.parametrize(("choice", "codes"), [("seed", ["03", "02"]), ("core", ["12", "4"])])
async def test_status_codes_come_from_either_map(choice: str, codes: list[str]) -> None:
    b = await ready(scenario(switches={"status_codes": choice}))
    await b.place()
    await b.place(quantity=500)

    rows = await b.get(BOOK)

    assert [row["status_code"] for row in rows] == codes
    assert (await b.row(rows[0]["orderid"]))["status_code"] == codes[0]


@pytest.mark.parametrize(
    ("choice", "shown"),
    [("extended", (EXTENDED, "STOCK")), ("numbered", (f"{ACCOUNT}.01", ".1"))],
)
async def test_a_row_names_its_account_in_two_ways(choice: str, shown: tuple[str, str]) -> None:
    b = await ready(scenario(switches={"row_account": choice}))
    await b.place()

    (row,) = await b.get(BOOK)

    assert (row["afacctno_ext"], row["producttypename"]) == shown


async def test_total_pnl_may_be_a_quantity() -> None:
    rows = [
        (await b.get(f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio"))["portfolio"][0]
        for b in [
            await ready(scenario(switches={"total_pnl": each})) for each in ("amount", "quantity")
        ]
    ]

    assert rows[0]["total_pnl"] == rows[0]["pnl_amount"]
    assert rows[1]["total_pnl"] == rows[1]["total"] == 1_000


async def test_the_type_of_an_account_may_be_in_small_letters() -> None:
    b = await ready(scenario(switches={"account_type_case": "lower"}))

    assert [each["type"] for each in await b.get("/users/v1/users/900001/sub-accounts")] == [
        "normal"
    ]


# --------------------------------------------------------------------------------------- access


@pytest.mark.parametrize("choice", [401, 403, 404])
async def test_another_user_is_refused_with_any_of_three(choice: int) -> None:
    b = bench(scenario(switches={"other_user_status": choice}))

    for path in (
        "/users/v1/users/7/sub-accounts",
        "/users/v3/users/7/assets/summary",
        "/trading/pnl-today/7",
    ):
        answer = await b.call("GET", path)
        assert (answer.status_code, answer.json()["error_code"]) == (choice, str(choice))


@pytest.mark.parametrize(
    ("choice", "codes"),
    [
        ("seed", ("400", "401", "RATE_LIMIT_EXCEEDED")),
        ("named", ("INVALID_PARAMETER", "AUTH_SIGNATURE_INVALID", "RATE_LIMIT_EXCEEDED")),
        ("numeric", ("400", "401", "429")),
    ],
)
async def test_error_codes_have_two_forms(choice: str, codes: tuple[str, str, str]) -> None:
    b = bench(scenario(switches={"error_codes": choice}))

    parameter = await b.call("GET", "/trading/market/session")
    signature = await b.call("GET", "/users/v1/users/me", headers={"X-FH-SIGNATURE": "0" * 64})
    for _ in range(598):
        await b.call("GET", "/trading/market/session?exchange=HOSE")
    quota = await b.call("GET", "/trading/market/session?exchange=HOSE")

    assert tuple(each.json()["error_code"] for each in (parameter, signature, quota)) == codes


@pytest.mark.parametrize(("choice", "status"), [(False, 200), (True, 401)])
async def test_a_wrong_body_hash_may_be_found(choice: bool, status: int) -> None:
    b = await ready(scenario(switches={"verify_body_hash": choice}))
    signed = b.signed("POST", orders_path(), b'{"other": 1}')

    answer = await b.call("POST", orders_path(), order_body(), headers=signed)

    assert answer.status_code == status


@pytest.mark.parametrize(("choice", "status"), [(False, 200), (True, 401)])
async def test_a_signature_that_is_not_needed_may_be_checked(choice: bool, status: int) -> None:
    b = bench(scenario(switches={"check_tier_one_signature": choice}))
    target = "/trading/market/session?exchange=HOSE"

    bad = await b.call("GET", target, headers={"X-FH-SIGNATURE": "0" * 64})
    none = await b.call("GET", target, headers={"X-FH-SIGNATURE": None})

    assert (bad.status_code, none.status_code) == (status, 200)


@pytest.mark.parametrize(("choice", "status"), [(False, 200), (True, 429)])
async def test_refused_requests_may_use_up_quota(choice: bool, status: int) -> None:
    b = bench(scenario(switches={"refused_requests_count": choice}))
    target = "/trading/market/session?exchange=HOSE"
    for _ in range(600):
        await b.call("GET", target)
    b.pass_time(30)
    await b.call("GET", target)
    for _ in range(599):
        await b.call("GET", target)
    b.pass_time(31)

    assert (await b.call("GET", target)).status_code == status


@pytest.mark.parametrize(
    ("choice", "statuses"),
    [("suggested", [400, 400, 400, 403, 429]), ("400", [400] * 5)],
)
async def test_otp_refusals_have_statuses_of_their_own_or_all_400(
    choice: str, statuses: list[int]
) -> None:
    b = bench(scenario(switches={"otp_refusal_status": choice}))
    path = "/auth/v1/openapi/2fa"
    ticket = (await b.call("POST", f"{path}/request", {"channel": "EMAIL"})).json()["ticket_id"]
    wrong = {"ticket_id": ticket, "otp_code": "000000"}

    answers = [await b.call("POST", f"{path}/verify", wrong) for _ in range(4)]
    for _ in range(4):
        await b.call("POST", f"{path}/request", {"channel": "EMAIL"})
    answers.append(await b.call("POST", f"{path}/request", {"channel": "EMAIL"}))

    assert [each.status_code for each in answers] == statuses
    assert [each.json()["error_code"] for each in answers][-2:] == [
        "OTP_LOCKED",
        "OTP_RATE_LIMIT_EXCEEDED",
    ]


# ---------------------------------------------------------------------------------- market data


@pytest.mark.parametrize(
    ("choice", "types"), [("table", {"LO", "MP", "ATC"}), ("narrow", {"LO", "MP"})]
)
async def test_the_types_of_a_phase_are_listed_widely_or_narrowly(
    choice: str, types: set[str]
) -> None:
    b = bench(scenario(switches={"listed_types": choice}))

    phase = await b.get("/trading/market/session?exchange=HOSE")

    assert set(phase["available_order_types"]) == types


async def test_a_depth_may_begin_with_the_worst_level() -> None:
    b = bench(scenario(switches={"depth_order": "worst_first"}))

    for path in ("stocks/HPG", "bonds/CSB125001", "etfs/E1VFVN30"):
        depth = await b.get(f"/market/quotes/{path}/order-book")
        bids, asks = ([level["price"] for level in depth[side]] for side in ("bids", "asks"))
        assert (bids, asks) == (sorted(bids), sorted(asks, reverse=True))


@pytest.mark.parametrize(("levels", "shown"), [(1, 1), (3, 2), (10, 2)])
async def test_a_depth_has_as_many_levels_as_wanted(levels: int, shown: int) -> None:
    b = bench(scenario(switches={"depth_levels": levels}))

    depth = await b.get("/market/quotes/stocks/HPG/order-book")

    assert (len(depth["bids"]), len(depth["asks"])) == (shown, shown)


@pytest.mark.parametrize(("choice", "first"), [("absent", None), ("price_zero", 500)])
async def test_orders_without_a_price_may_be_a_level_of_price_0(
    choice: str, first: int | None
) -> None:
    b = await ready(scenario(start="09:05", switches={"auction_levels": choice}))
    await b.place(type="MARKET", limit_price=None, market_price="ATO", quantity=500)

    depth = await b.get("/market/quotes/stocks/HPG/order-book")

    zero = [level["volume"] for level in depth["bids"] if level["price"] == 0]
    assert zero == ([] if first is None else [first])
    assert all(level["price"] for level in depth["asks"])


async def test_a_history_may_be_in_thousands() -> None:
    whole, thousands = [
        await bench(scenario(switches={"history_scale": each})).get(
            f"/market/quotes/stocks/HPG/history?{SPAN}"
        )
        for each in ("vnd", "thousand")
    ]

    assert whole["series"][-1]["c"] == 27_000
    assert thousands["series"][-1]["c"] == 27
    assert whole["series"][0]["v"] == thousands["series"][0]["v"]


@pytest.mark.parametrize("path", ["stocks/HPG", "indices/VNINDEX", "forex/USDVND", "funds/DEMOEQ"])
async def test_a_history_may_be_newest_first(path: str) -> None:
    up, down = [
        (
            await bench(scenario(switches={"history_order": each})).get(
                f"/market/quotes/{path}/history?{SPAN}"
            )
        )["series"]
        for each in ("ascending", "descending")
    ]

    assert down == up[::-1]


async def test_the_series_of_counts_may_be_missing() -> None:
    b = bench(scenario(switches={"index_count_series": False}))

    (found,) = await b.get("/market/index-realtime?index=VNINDEX")

    assert "values" in found
    assert found.keys().isdisjoint({"advancesArr", "declinesArr", "nochangesArr", "ceilings"})


@pytest.mark.parametrize("choice", ["item", "detail", "figure"])
async def test_a_unit_sits_in_one_of_three_places(choice: str) -> None:
    b = bench(scenario(switches={"calendar_unit": choice}))

    page = await b.get("/market/calendar?country=Vietnam")

    event = next(each for each in page["results"] if each["title"].startswith("Consumer"))
    assert (event.get("unit"), event["detail"].get("unit")) == {
        "item": ("Percent", None),
        "detail": (None, "Percent"),
        "figure": (None, None),
    }[choice]
    assert event["detail"]["previous"].endswith("%") == (choice == "figure")


@pytest.mark.parametrize(("choice", "shown"), [("list", []), ("null", None)])
async def test_no_reports_are_a_list_or_nothing(choice: str, shown: object) -> None:
    b = bench(scenario(switches={"no_reports": choice}))

    answer = await b.call("GET", "/market/recommendation-reports/SHS")
    other = await b.call("GET", "/market/recommendation-reports/HPG")

    assert answer.json()["data"] == shown
    assert other.json()["data"]["recommendationReports"]


@pytest.mark.parametrize(
    ("switches", "statuses"),
    [
        ({}, [200, 200]),
        ({"fund_paths": "gone"}, [404, 200]),
        ({"earlier_paths": "gone"}, [200, 404]),
    ],
)
async def test_paths_may_be_gone(switches: dict[str, str], statuses: list[int]) -> None:
    b = bench(scenario(switches=switches))
    paths = ("/fund-trading/public/fund-companies", "/market/financial-data/gold")

    assert [(await b.call("GET", path)).status_code for path in paths] == statuses
