"""The library hangs together: histories end at quotes, indices are their members, parts add up."""

from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from bot.domain.instrument import EXCHANGE_TZ
from tests.rows import every_row
from tests.sandbox.client import Bench, bench, ready, scenario

SYMBOLS = [
    {"symbol": "FPT", "exchange": "HOSE", "reference": 131_500},
    {"symbol": "HPG", "exchange": "HOSE", "reference": 26_950, "level_volume": 12_000},
    {"symbol": "ZZZ", "exchange": "HOSE", "reference": 9_500},
    {"symbol": "SHS", "exchange": "HNX", "reference": 21_500},
    {"symbol": "VEA", "exchange": "UPCOM", "reference": 38_700},
]
ETF = {"symbol": "E1VFVN30", "exchange": "HOSE", "kind": "ETF", "reference": 32_500}
LISTED = [str(each["symbol"]) for each in SYMBOLS]
INDICES = ["VNINDEX", "VN30", "HNXINDEX", "HNX30", "UPCOMINDEX"]
ACCOUNTS = [{"id": "0009000011", "holdings": {"HPG": 1_000}}]
PLAYED = [(7, 45), (8, 360), (9, 0)]
"""Seeds, and minutes of market time since 09:10: in the morning, after the close, before all."""
SPAN = "from=1600000000&to=1900000000"
each_market = every_row(("seed", "minutes"), PLAYED)


@cache
def market(seed: int, minutes: int) -> Bench:
    """A market that has run for some minutes."""
    symbols = [*SYMBOLS, ETF]
    made = bench(scenario(start="09:10", symbols=symbols, accounts=ACCOUNTS, seed=seed))
    made.pass_time(minutes * 60)
    return made


def local_day(bar: dict[str, Any]) -> date:
    return datetime.fromtimestamp(bar["t"], EXCHANGE_TZ).date()


async def series(b: Bench, path: str, query: str = SPAN) -> list[dict[str, Any]]:
    return list((await b.get(f"/market/quotes/{path}/history?{query}"))["series"])


WHOLE: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
"""Whole histories as they were answered once; a market that stands still repeats itself."""


async def whole_series(seed: int, minutes: int, path: str) -> list[dict[str, Any]]:
    key = seed, minutes, path
    if key not in WHOLE:
        WHOLE[key] = await series(market(seed, minutes), path)
    return WHOLE[key]


# ------------------------------------------------------------------------------------ histories

QUOTED = [
    *(f"stocks/{symbol}" for symbol in LISTED),
    "stocks/NVDA",
    *(f"indices/{code}" for code in (*INDICES, "SP500")),
    "forex/USDVND",
    "cryptos/BTC",
    "commodities/GOLD",
    "bonds/CSB125001",
    "bonds/VN10Y",
    "etfs/E1VFVN30",
    "funds/DEMOEQ",
]


def price_of(quote: dict[str, Any]) -> Any:
    names = ("price", "value", "bid", "nav", "yield")
    return next(quote[name] for name in names if quote.get(name) is not None)


def close_of(bar: dict[str, Any]) -> Any:
    return next(bar[name] for name in ("c", "nav", "yield") if bar.get(name) is not None)


@pytest.mark.long
@each_market
@every_row("path", QUOTED)
async def test_the_last_bar_of_a_history_is_the_quote(seed: int, minutes: int, path: str) -> None:
    b = market(seed, minutes)

    quote, bars = await b.get(f"/market/quotes/{path}"), await whole_series(seed, minutes, path)

    last = bars[-1]
    assert close_of(last) == price_of(quote)
    if quote.get("open") is not None and last.get("o") is not None:
        names = {"o": "open", "h": "high", "l": "low", "v": "volume"}
        volume = {"volume": quote["volume"] or 0}
        assert {names[key]: last[key] for key in names} == {
            name: (quote | volume)[name] for name in names.values()
        }
    assert [bar["t"] for bar in bars] == sorted({bar["t"] for bar in bars})


@each_market
@every_row("path", QUOTED)
async def test_every_bar_holds_its_open_and_close(seed: int, minutes: int, path: str) -> None:
    bars = await whole_series(seed, minutes, path)

    whole = [bar for bar in bars if bar.get("o") is not None]
    assert all(bar["l"] <= min(bar["o"], bar["c"]) for bar in whole)
    assert all(bar["h"] >= max(bar["o"], bar["c"]) for bar in whole)
    assert len(bars) > 200


@each_market
@every_row("symbol", LISTED)
async def test_the_walk_of_the_past_ends_at_the_reference(
    seed: int, minutes: int, symbol: str
) -> None:
    b = market(seed, minutes)

    quote, bars = (
        await b.get(f"/market/quotes/stocks/{symbol}"),
        await whole_series(seed, minutes, f"stocks/{symbol}"),
    )

    before = [bar for bar in bars if local_day(bar) < date(2026, 11, 19)]
    assert before[-1]["c"] == quote["reference"]
    assert {local_day(bar).weekday() for bar in bars} <= set(range(5))


@each_market
@every_row("path", ["stocks/HPG", "stocks/SHS", "etfs/E1VFVN30", "bonds/CSB125001"])
@every_row("resolution", ["5", "15", "30", "1H", "4H"])
async def test_the_parts_of_a_day_are_together_the_day(
    seed: int, minutes: int, path: str, resolution: str
) -> None:
    b = market(seed, minutes)
    first = int(datetime(2026, 11, 12, tzinfo=EXCHANGE_TZ).timestamp())
    span = f"from={first}&to=1900000000"

    days = await series(b, path, span)
    parts = await series(b, path, f"{span}&resolution={resolution}")

    for day in days:
        of_day = [part for part in parts if local_day(part) == local_day(day)]
        assert (of_day[0]["o"], of_day[-1]["c"]) == (day["o"], day["c"])
        assert max(part["h"] for part in of_day) == day["h"]
        assert min(part["l"] for part in of_day) == day["l"]
        assert sum(part["v"] for part in of_day) == day["v"]


async def test_what_was_played_yesterday_is_a_bar_today() -> None:
    b = bench(scenario(start="14:20", symbols=SYMBOLS[:2], accounts=ACCOUNTS, seed=3))
    b.pass_time(40 * 60)
    yesterday = await b.get("/market/quotes/stocks/HPG")
    b.pass_time(18.5 * 3_600)

    quote, bars = await b.get("/market/quotes/stocks/HPG"), await series(b, "stocks/HPG")
    values = await series(b, "indices/VNINDEX")
    index = await b.get("/market/quotes/indices/VNINDEX")

    assert [local_day(bar) for bar in bars[-2:]] == [date(2026, 11, 19), date(2026, 11, 20)]
    assert (bars[-2]["c"], bars[-2]["v"]) == (yesterday["price"], yesterday["volume"])
    assert (bars[-1]["c"], quote["reference"]) == (quote["price"], yesterday["price"])
    assert (values[-1]["c"], values[-2]["c"]) == (index["value"], index["reference"])


# -------------------------------------------------------------------------------------- indices


@each_market
@every_row("code", INDICES)
async def test_an_index_is_made_of_its_members(seed: int, minutes: int, code: str) -> None:
    b = market(seed, minutes)

    quote = await b.get(f"/market/quotes/indices/{code}")
    members = await b.get(f"/market/indices/{code}/constituents")

    quotes = {
        each["symbol"]: await b.get(f"/market/quotes/stocks/{each['symbol']}") for each in members
    }
    now = sum(each["shares"] * quotes[each["symbol"]]["price"] for each in members)
    before = sum(each["shares"] * quotes[each["symbol"]]["reference"] for each in members)
    assert quote["value"] == pytest.approx(quote["reference"] * now / before, abs=0.02)
    assert sum(each["weight"] for each in members) == pytest.approx(100, abs=0.001)
    assert quote["volume"] == sum(each["volume"] for each in quotes.values())
    assert [each["market_cap"] for each in members] == sorted(
        (each["market_cap"] for each in members), reverse=True
    )


@each_market
async def test_rising_and_falling_stocks_are_counted_from_their_quotes(
    seed: int, minutes: int
) -> None:
    b = market(seed, minutes)

    found = await b.get(f"/market/index-realtime?index={','.join(INDICES)},NO-SUCH")

    assert [each["index"] for each in found] == INDICES
    for each in found:
        members = await b.get(f"/market/indices/{each['index']}/constituents")
        breadth = await b.get(f"/market/indices/{each['index']}/breadth")
        quotes = [await b.get(f"/market/quotes/stocks/{one['symbol']}") for one in members]
        changes = [quote["change"] for quote in quotes]
        assert each["advances"] == breadth["advances"] == sum(one > 0 for one in changes)
        assert each["declines"] == breadth["declines"] == sum(one < 0 for one in changes)
        assert each["nochanges"] == breadth["nochanges"] == changes.count(0)
        assert each["ceiling"] == sum(one["price"] == one["ceiling"] for one in quotes)
        assert each["allValue"] == sum(one["value"] for one in members)


@each_market
async def test_the_day_of_an_index_ends_at_its_value(seed: int, minutes: int) -> None:
    b = market(seed, minutes)

    found = await b.get(f"/market/index-realtime?index={','.join(INDICES)}")

    for each in found:
        lengths = {len(each[name]) for name in ("values", "volumes", "times", "advancesArr")}
        assert len(lengths) == 1
        if each["values"]:
            assert (each["values"][-1], each["volumes"][-1]) == (
                each["indexValue"],
                each["allQuantity"],
            )
            assert each["advancesArr"][-1] == each["advances"]
            assert each["times"] == sorted(each["times"])
            assert each["volumes"] == sorted(each["volumes"])


async def test_a_fund_on_the_exchange_is_taken_where_it_is_quoted_and_nowhere_else() -> None:
    b = await ready()

    quote = await b.get("/market/quotes/etfs/E1VFVN30")
    placed = await b.place(symbol="E1VFVN30", stock_type="ETF", limit_price=int(quote["floor"]))
    catalogue = await b.get("/market/quotes/etfs")
    absent = await b.call("GET", "/market/quotes/etfs/FUEVFVND")
    refused = await b.place(symbol="FUEVFVND", stock_type="ETF")

    assert (placed["order_status"], placed["code"]) == ("SENT", None)
    assert [each["symbol"] for each in catalogue] == ["E1VFVN30"]
    assert (absent.status_code, refused["code"]) == (404, "-400099")


# ------------------------------------------------------------------------------------------ flows

DAYS = ["2026-11-19", "2026-11-18", "2025-03-04"]
PARTS = ("matched", "put_through")
MEASURES = ("volume", "value")


def assert_split(split: dict[str, Any]) -> None:
    for measure in MEASURES:
        assert split["total"][measure] == sum(split[part][measure] for part in PARTS)


@each_market
@every_row("day", DAYS)
@every_row("symbol", LISTED)
async def test_what_groups_traded_is_part_of_what_was_traded(
    seed: int, minutes: int, day: str, symbol: str
) -> None:
    b, path = market(seed, minutes), f"/market/stocks/{symbol}/trading"

    whole = await b.get(f"{path}?date={day}")
    groups = [await b.get(f"{path}/{name}?date={day}") for name in ("foreign", "proprietary")]

    assert_split(whole)
    for group in groups:
        for side in ("buy", "sell", "net"):
            assert_split(group[side])
        for part in ("total", *PARTS):
            for measure in MEASURES:
                net = group["buy"][part][measure] - group["sell"][part][measure]
                assert group["net"][part][measure] == net
    for side in ("buy", "sell"):
        for measure in MEASURES:
            taken = sum(group[side]["total"][measure] for group in groups)
            assert taken <= whole["total"][measure]


@each_market
async def test_matched_volume_is_the_quotes(seed: int, minutes: int) -> None:
    b = market(seed, minutes)

    for symbol in LISTED:
        quote = await b.get(f"/market/quotes/stocks/{symbol}")
        traded = await b.get(f"/market/stocks/{symbol}/trading")

        assert traded["matched"]["volume"] == quote["volume"]


@each_market
async def test_a_day_of_a_history_is_what_the_day_itself_says(seed: int, minutes: int) -> None:
    b, path = market(seed, minutes), "/market/stocks/HPG/trading"

    for name in ("", "/foreign", "/proprietary"):
        days = (await b.get(f"{path}{name}/history?from=2026-11-10&to=2026-11-19"))["data"]
        assert [day["date"] for day in days] == sorted((day["date"] for day in days), reverse=True)
        for day in days:
            alone = await b.get(f"{path}{name}?date={day['date']}")
            assert {key: alone[key] for key in day} == day


async def test_until_a_day_begins_everything_is_of_the_day_before() -> None:
    b = bench(scenario(start="14:20", symbols=SYMBOLS[:2], accounts=ACCOUNTS, seed=3))
    b.pass_time(16 * 3_600 + 40 * 60)

    quote = await b.get("/market/quotes/stocks/HPG")
    traded = await b.get("/market/stocks/HPG/trading")
    orders = await b.get("/market/stocks/HPG/trading/orders")
    today = await b.get("/market/stocks/HPG/trading/orders?date=2026-11-20")
    earlier = await b.get("/market/stock-realtime?symbol=HPG")
    foreign = await b.get("/market/stocks/HPG/trading/foreign")

    assert (traded["date"], orders["date"], foreign["date"]) == ("2026-11-19",) * 3
    assert traded["matched"]["volume"] == quote["volume"] > 0
    assert orders["buy"]["volume"] + orders["sell"]["volume"] == quote["volume"]
    assert today["buy"] is None
    assert earlier["foreignBought"] == foreign["buy"]["total"]["volume"] > 0


@each_market
async def test_buyers_and_sellers_who_took_are_all_that_matched(seed: int, minutes: int) -> None:
    b = market(seed, minutes)

    for symbol in LISTED:
        orders = await b.get(f"/market/stocks/{symbol}/trading/orders?date=2026-11-18")
        traded = await b.get(f"/market/stocks/{symbol}/trading?date=2026-11-18")

        assert orders["buy"]["volume"] + orders["sell"]["volume"] == traded["matched"]["volume"]
        assert orders["net_volume"] == orders["buy"]["volume"] - orders["sell"]["volume"]


async def test_orders_of_today_are_known_after_the_close_only() -> None:
    morning, evening = market(7, 45), market(8, 360)
    path = "/market/stocks/HPG/trading/orders"

    early, late = [await each.get(f"{path}?date=2026-11-19") for each in (morning, evening)]
    assumed = [(await each.get(path))["date"] for each in (morning, evening)]

    assert (early["buy"], early["net_volume"]) == (None, None)
    assert late["buy"]["volume"] > 0
    assert assumed == ["2026-11-18", "2026-11-19"]


@each_market
@every_row("symbol", LISTED)
async def test_owned_and_free_are_the_foreign_room(seed: int, minutes: int, symbol: str) -> None:
    b, path = market(seed, minutes), f"/market/stocks/{symbol}"

    now = await b.get(f"{path}/ownership/foreign-room")
    owners = await b.get(f"{path}/ownership")
    days = await b.get(f"{path}/ownership/foreign-room/history?from=2026-10-01&to=2026-11-19")
    flows = (await b.get(f"{path}/trading/foreign/history?from=2026-10-01&to=2026-11-19"))["data"]

    assert now["owned"] + now["available"] == now["max_volume"]
    assert owners["foreign_room"]["available"] == now["available"]
    assert owners["structure"]["foreign"]["volume"] == now["owned"]
    assert all(day["owned"] + day["available"] == day["max_volume"] for day in days["items"])
    nets = {flow["date"]: flow["net"]["total"]["volume"] for flow in flows}
    items = days["items"]
    for later, earlier in pairwise(items):
        assert later["owned"] - earlier["owned"] == nets[later["date"]]
    assert days["total"] == len(flows)


@each_market
@every_row("symbol", LISTED)
async def test_owners_are_a_hundred_percent(seed: int, minutes: int, symbol: str) -> None:
    b = market(seed, minutes)

    structure = (await b.get(f"/market/stocks/{symbol}/ownership"))["structure"]
    listing = await b.get(f"/market/stocks/{symbol}/listing")

    assert sum(each["pct"] for each in structure.values()) == pytest.approx(100, abs=1e-9)
    assert sum(each["volume"] for each in structure.values()) == listing["outstanding_shares"]
    assert min(each["volume"] for each in structure.values()) >= 0


@each_market
@every_row("path", ["indices/VNINDEX", "sectors/financials"])
async def test_foreigners_and_others_are_all(seed: int, minutes: int, path: str) -> None:
    b = market(seed, minutes)

    days = (await b.get(f"/market/{path}/trading/foreign/history"))["data"]

    for day in days:
        for side in ("buy", "sell"):
            for part in ("total", *PARTS):
                for measure in MEASURES:
                    others = day["others"][side][part][measure]
                    assert day[side][part][measure] + others == day["traded"][part][measure]


@each_market
async def test_a_sector_performs_as_its_stocks_do(seed: int, minutes: int) -> None:
    b, path = market(seed, minutes), "/market/sectors/technology"

    now = await b.get(f"{path}/performance")
    year = await b.get(f"{path}/performance?window=1Y")
    days = (await b.get(f"{path}/performance/history?from=2026-10-01&to=2026-11-19"))["data"]
    [member] = await b.get(f"{path}/constituents")
    nobody = await b.get("/market/sectors/utilities/performance")

    screened = await b.get("/market/stocks?window=1Y&sector=technology")
    assert (now["market_cap"], now["change_percent"]) == (
        member["market_cap"],
        member["change_percent"],
    )
    assert year["change_percent"] == screened["items"][0]["change_percent"]
    assert days[0]["date"] == "2026-11-19"
    assert days[0]["change_percent"] == now["change_percent"]
    assert [day["date"] for day in days] == sorted((day["date"] for day in days), reverse=True)
    assert nobody["change_percent"] is None


INDEX_SPAN = "from=1795000000&to=1800000000"


async def index_days(b: Bench, code: str) -> list[dict[str, Any]]:
    return list((await b.get(f"/market/quotes/indices/{code}/history?{INDEX_SPAN}"))["series"])


async def test_the_bar_of_an_index_is_the_same_on_the_day_after() -> None:
    b = bench(scenario(start="09:10", symbols=SYMBOLS[1:4]))
    b.pass_time(6 * 3_600)

    before = {code: await index_days(b, code) for code in ("VNINDEX", "HNXINDEX")}
    b.pass_time(20 * 3_600)
    after = {code: await index_days(b, code) for code in before}

    assert {code: days[: len(before[code])] for code, days in after.items()} == before
    assert {len(days) - len(before[code]) for code, days in after.items()} == {1}


async def test_a_dividend_moves_no_index() -> None:
    dividend = {"do": "cash_dividend", "symbol": "HPG", "vnd_per_share": 2_000}
    action = {**dividend, "ex_date": "2026-11-20", "pays_on": "2026-12-10"}
    b = bench(scenario(start="14:50", corporate_actions=[action]))
    before = await b.get("/market/quotes/indices/VNINDEX")
    b.pass_time(17.5 * 3_600)

    after = await b.get("/market/quotes/indices/VNINDEX")
    stock = await b.get("/market/quotes/stocks/HPG")

    assert stock["reference"] == 25_000
    assert after["reference"] == before["value"] == after["value"]


async def test_an_index_opens_where_its_members_did_and_not_at_the_end_of_that_minute() -> None:
    levels = {"bids": [[21_400, 1_000]], "asks": [[21_900, 1_000]]}
    deals = [
        {"at": "09:16:10", "do": "take", "price": 21_900, "volume": 100},
        {"at": "09:16:20", "do": "give", "price": 21_400, "volume": 100},
    ]
    still = {"standstills": [{"at": "09:16", "until": "16:00", **levels}], "deals": deals}
    b = bench(scenario(symbols=[{**SYMBOLS[3], **still}], accounts=[]))
    b.pass_time(90)

    index = await b.get("/market/quotes/indices/HNXINDEX")

    points = [index[name] for name in ("reference", "open", "high", "low", "value")]
    assert points == [268.00, 272.99, 272.99, 266.75, 266.75]


async def test_the_depth_is_taken_every_five_minutes_while_the_market_trades() -> None:
    b = market(8, 360)

    entries = (await b.get("/market/quotes/stocks/HPG/order-book/history"))["entries"]
    empty = (await market(9, 0).get("/market/quotes/stocks/HPG/order-book/history"))["entries"]

    times = [datetime.fromisoformat(each["taken_at"]) for each in entries]
    assert {each.minute % 5 for each in times} == {0}
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) == timedelta(minutes=5)
    assert not any(11.5 < each.hour + each.minute / 60 < 13 for each in times)
    assert len(times) > 40
    assert all(
        each["remain_bid"] >= sum(level["volume"] for level in each["bids"]) for each in entries
    )
    assert empty == []


@every_row(
    "path",
    [
        "/market/quotes/stocks/HPG/history?resolution=1H&",
        "/market/quotes/bonds/VN10Y/history?",
        "/market/price-histories-chart?symbol=HPG&resolution=30&",
        "/market/calendar?",
    ],
)
@every_row("seconds", ["253402300799", "999999999999999999"])
async def test_seconds_beyond_every_calendar_are_no_error_of_ours(path: str, seconds: str) -> None:
    b = market(7, 45)

    assert (await b.call("GET", f"{path}from=0&to={seconds}")).status_code == 200
    assert (await b.call("GET", f"{path}from={seconds}&to={seconds}")).status_code == 200
