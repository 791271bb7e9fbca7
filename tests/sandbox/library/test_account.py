"""Assets, the day's profit and the order history are what the ledger says."""

from typing import Any

import pytest

from tests.sandbox.client import ACCOUNT, DEFAULTS, EXTENDED, Bench, ready, scenario

TWO = [
    {"id": ACCOUNT, "cash": 100_000_000, "holdings": {"HPG": 1_000, "SHS": 500}},
    {"id": "0009000016", "suffix": ".6", "type": "Margin", "cash": 50_000_000},
]
USER = "900001"
HISTORY = f"/trading/sub-accounts/{ACCOUNT}/orders?fromDate=2026-11-19&toDate=2026-11-19"


async def traded() -> Bench:
    b = await ready(scenario(accounts=TWO))
    await b.place(quantity=300)
    await b.place(side="SELL", quantity=200, limit_price=26_950)
    await b.place(limit_price=26_900)
    return b


async def summary(b: Bench, account: str = ACCOUNT) -> dict[str, Any]:
    return dict(await b.get(f"/trading/accounts/{account}/summary"))


async def test_assets_are_cash_and_money_due_and_shares_of_all_accounts() -> None:
    b = await traded()

    assets = await b.get(f"/users/v3/users/{USER}/assets/summary")
    summaries = [await summary(b, str(each["id"])) for each in TWO]
    portfolio = (await b.get(f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio"))["portfolio"]

    products, money = assets["products"], assets["money"]
    assert products["stock"] == sum(row["total"] * row["close_price"] for row in portfolio)
    assert products["stock"] == sum(each["securities_amt"] for each in summaries)
    assert money["ci_balance"] == sum(each["ci_balance"] for each in summaries)
    assert money["receiving_amt"] == sum(each["receiving_amt"] for each in summaries) > 0
    assert money["baldefovd"] == sum(int(each["baldefovd"]) for each in summaries)
    assert money["total"] == money["ci_balance"] + money["receiving_amt"]
    assert assets["net_asset_value"] == products["total"] + money["total"]
    costs = sum(row["cost_price_amount"] for row in portfolio)
    assert assets["pnl"]["stock"]["pnl"] == pytest.approx(products["stock"] - costs, abs=1_000)


async def test_the_days_profit_is_what_net_assets_have_moved_since_the_references() -> None:
    b = await ready(scenario(accounts=TWO))
    at_start = 100_000_000 + 50_000_000 + 1_000 * 27_000 + 500 * 21_500
    await b.place(quantity=300)
    await b.place(side="SELL", quantity=200, limit_price=26_950)

    today = await b.get(f"/trading/pnl-today/{USER}")
    parts = [await b.get(f"/trading/pnl-today/{USER}?sub-account-id={each['id']}") for each in TWO]
    assets = await b.get(f"/users/v3/users/{USER}/assets/summary")

    assert today["sub_account_id"] == "ALL"
    assert today["pnl_amount"] == assets["net_asset_value"] - at_start
    assert today["pnl_amount"] == sum(part["pnl_amount"] for part in parts)
    assert today["pnl_rate"] == pytest.approx(100 * today["pnl_amount"] / at_start, abs=0.01)


async def test_a_profit_of_yesterday_is_none_of_today() -> None:
    still = {"symbol": "SHS", "exchange": "HNX", "reference": 21_500, "trade_chance": 0}
    b = await ready(scenario(accounts=TWO, symbols=[DEFAULTS["symbols"][0], still]))
    await b.place(quantity=300)
    b.pass_time(20 * 3_600)

    today = await b.get(f"/trading/pnl-today/{USER}?sub-account-id={ACCOUNT}")

    quote = await b.get("/market/quotes/stocks/HPG")
    other = await b.get("/market/quotes/stocks/SHS")
    moved = 1_300 * quote["change"] + 500 * other["change"]
    assert today["pnl_amount"] == moved


async def test_the_history_holds_the_orders_of_the_ledger_newest_first() -> None:
    b = await traded()

    orders = (await b.get(HISTORY))["data"]
    rows = await b.get(f"/trading/v1/accounts/{ACCOUNT}/order-book")

    assert [each["order_id"] for each in orders] == [row["orderid"] for row in reversed(rows)]
    for order, row in zip(orders, reversed(rows), strict=True):
        assert (order["execute_quantity"], order["execute_amount"], order["order_status"]) == (
            row["execqtty"],
            row["execamt"],
            row["status"],
        )
    assert orders[1]["fee_amount"] == 8_085
    assert orders[1]["tax_amount"] == 200 * 26_950 // 1_000
    assert {each["account_id"] for each in orders} == {EXTENDED}


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ("", 3),
        ("&symbol=SHS", 0),
        ("&orderStatus=MATCHED_ALL", 2),
        ("&orderStatus=SENT", 1),
        ("&page=2", 0),
    ],
)
async def test_the_history_is_filtered_and_behind_its_last_page_empty(
    more: str, count: int
) -> None:
    b = await traded()

    assert len((await b.get(HISTORY + more))["data"]) == count


async def test_the_history_keeps_other_days_apart() -> None:
    b = await traded()
    b.pass_time(24 * 3_600)
    path = f"/trading/sub-accounts/{ACCOUNT}/orders"

    yesterday = (await b.get(f"{path}?fromDate=2026-11-19&toDate=2026-11-19"))["data"]
    today = (await b.get(f"{path}?fromDate=2026-11-20&toDate=2026-11-20"))["data"]
    refused = [
        (await b.call("GET", f"{path}?{query}")).status_code
        for query in (
            "fromDate=2026-11-19",
            "fromDate=2026-11-19&toDate=2026-11-18",
            "fromDate=2026-11-25&toDate=2026-11-26",
        )
    ]

    assert (len(yesterday), today) == (3, [])
    assert refused == [400, 400, 400]
    assert {each["order_status"] for each in yesterday} == {"MATCHED_ALL", "EXPIRED"}


async def test_a_hidden_row_is_not_in_the_history_either() -> None:
    hide = {"match": {"verb": "POST", "nth": 1}, "action": {"do": "hide_row", "seconds": 60}}
    hide["match"] |= {"path": "*/orders"}
    b = await ready(scenario(faults=[hide]))
    await b.place()

    assert (await b.get(HISTORY))["data"] == []


async def test_rights_belong_to_shares_that_were_held_and_were_paid_before() -> None:
    b = await ready(scenario(accounts=TWO))
    path = f"/trading/v5/account/{ACCOUNT}/user-rights"

    rights = await b.get(path)
    chosen = [
        len(await b.get(f"{path}?{query}"))
        for query in (
            "symbol=HPG",
            "catType=CASH_DIVIDEND%2CSTOCK_DIVIDEND",
            "catType=VOTING_RIGHTS",
            "status=COMPLETED",
            "status=REJECTED",
            "fromDate=2026-11-01",
            "toDate=2020-01-01",
        )
    ]

    assert {(right["symbol"], right["ownNumberOfShare"]) for right in rights} == {
        ("HPG", 1_000),
        ("SHS", 500),
    }
    dates = [right["reportDate"] for right in rights]
    assert dates == sorted(dates, reverse=True)
    assert max(dates) < "2026-11-19"
    assert all(right["waitingAmountForReturn"] == 0 for right in rights)
    of_hpg = sum(right["symbol"] == "HPG" for right in rights)
    assert chosen == [of_hpg, len(rights), 0, len(rights), 0, 0, 0]


async def test_rights_events_and_news_tell_one_story() -> None:
    dividend = {"do": "cash_dividend", "symbol": "HPG", "vnd_per_share": 800}
    coming = {**dividend, "ex_date": "2026-11-20", "pays_on": "2026-12-10"}
    b = await ready(scenario(accounts=TWO, corporate_actions=[coming]))
    b.pass_time(24 * 3_600)

    rights = await b.get(f"/trading/v5/account/{ACCOUNT}/user-rights")
    events = {each: await b.get(f"/market/stocks/{each}/events") for each in ("HPG", "SHS")}
    path = "/market/market-news?topic=stock&symbol=HPG&page_size=50&page="
    news = [each for page in (1, 2, 3) for each in (await b.get(f"{path}{page}"))["results"]]
    earlier = await b.get("/market/news?stock=HPG&from_date=20/11/2026&to_date=20/11/2026")

    told = {(symbol, e["type"], e["ex_date"]) for symbol in events for e in events[symbol]}
    of_rights = {(right["symbol"], right["type"], right["actionDate"]) for right in rights}
    assert of_rights == {each for each in told if each[1] != "SHAREHOLDER_MEETING"}
    assert ("HPG", "CASH_DIVIDEND", "2026-11-20") in of_rights
    assert {each["title"] for each in events["HPG"]} <= {each["title"] for each in news}
    assert [each["title"] for each in earlier] == [
        "HPG: cash dividend 1:800, ex-date 2026-11-20 (made up)"
    ]


async def test_what_buys_hold_back_is_secured_in_the_summary_of_all() -> None:
    b = await ready()
    await b.place(limit_price=26_500)

    account = await b.get(f"/trading/accounts/{ACCOUNT}/summary")
    whole = await b.get("/users/v3/users/900001/assets/summary")

    assert whole["debt"]["secure_amount"] == account["secure_amt"] >= 26_500 * 100


@pytest.mark.long
async def test_shares_that_were_sold_are_sent_until_they_settle() -> None:
    b = await ready()
    await b.place(side="SELL", limit_price=26_900)
    path = f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio"

    ages = []
    for _ in range(7):
        [held] = (await b.get(path))["portfolio"]
        ages.append([held[f"sending_t{age}"] for age in range(3)])
        b.pass_time(24 * 3_600)

    assert ages[:2] == [[100, 0, 0], [0, 100, 0]]
    assert ages[-1] == [0, 0, 0]
