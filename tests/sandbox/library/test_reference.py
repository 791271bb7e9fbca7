"""Screener, indicators, reports, funds, news, macro: each agrees with what it is made of."""

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.words import EARLIER_MARKETS
from tests.sandbox.client import Bench, bench, scenario
from tests.sandbox.library.test_market import LISTED, SYMBOLS, market

WHOLE = "from=1600000000&to=1900000000"
NUMBERS = "price,change_percent,market_cap,pe,pb,eps,volume,value,ma50,ma200"
FLOWS = "foreign_net_value,foreign_buy_value,foreign_sell_value,foreign_room_available"


@cache
def january() -> Bench:
    """A day on which the last reports are those of a whole year."""
    return bench(scenario(day="2026-01-12", symbols=SYMBOLS))


@pytest.fixture
def b() -> Bench:
    return market(7, 45)


# ------------------------------------------------------------------------------------- screener


async def screen(b: Bench, query: str) -> list[dict[str, Any]]:
    return list((await b.get(f"/market/stocks?{query}"))["items"])


async def test_the_screener_shows_quotes_and_facts(b: Bench) -> None:
    items = await screen(b, f"fields={NUMBERS},{FLOWS}")

    assert {item["symbol"] for item in items} == set(LISTED)
    for item in items:
        path = f"/market/stocks/{item['symbol']}"
        quote = await b.get(f"/market/quotes/stocks/{item['symbol']}")
        listing, overview = (
            await b.get(f"{path}/listing"),
            await b.get(f"/market/company-financial/overview?symbol={item['symbol']}"),
        )
        foreign, room = (
            await b.get(f"{path}/trading/foreign"),
            await b.get(f"{path}/ownership/foreign-room"),
        )
        assert (item["price"], item["change_percent"]) == (quote["price"], quote["change_percent"])
        assert item["market_cap"] == item["price"] * listing["outstanding_shares"]
        assert (item["pe"], item["pb"], item["eps"]) == (
            overview["pe"],
            overview["pb"],
            overview["eps"],
        )
        assert item["foreign_net_value"] == foreign["net"]["total"]["value"]
        assert item["foreign_buy_value"] - item["foreign_sell_value"] == item["foreign_net_value"]
        assert item["foreign_room_available"] == room["available"]


@pytest.mark.parametrize("field", ["price", "market_cap", "pe", "volume", "foreign_net_value"])
async def test_it_sorts_both_ways(b: Bench, field: str) -> None:
    up, down = [await screen(b, f"sort={sign}{field}") for sign in ("", "-")]

    assert [item[field] for item in up] == sorted(item[field] for item in up)
    assert [item["symbol"] for item in down] == [item["symbol"] for item in reversed(up)]


async def test_pages_are_the_whole_list(b: Bench) -> None:
    whole = [item["symbol"] for item in await screen(b, "")]
    pages = [await screen(b, f"page_size=2&page={page}") for page in (1, 2, 3, 4)]

    assert [item["symbol"] for page in pages for item in page] == whole
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert (await b.get("/market/stocks?page_size=2"))["total"] == len(LISTED)


@pytest.mark.parametrize("bound", ["price_gt=26000", "price_lt=ma50", "pe_lt=14", "volume_gt=0"])
async def test_a_bound_keeps_exactly_what_is_inside(b: Bench, bound: str) -> None:
    every = await screen(b, f"fields={NUMBERS}")
    (field, kind), limit = bound.split("=", maxsplit=1)[0].split("_"), bound.split("=")[1]

    kept = {item["symbol"] for item in await screen(b, bound)}

    for item in every:
        value, edge = item[field], item[limit] if limit in item else float(limit)
        assert (item["symbol"] in kept) == (value > edge if kind == "gt" else value < edge)


@pytest.mark.parametrize(
    ("query", "symbols"),
    [
        ("exchange=HNX", {"SHS"}),
        ("index=HNX30", {"SHS"}),
        ("sector=basic-materials&exchange=HOSE", {"HPG"}),
        ("index=VN30", {"FPT", "HPG", "ZZZ"}),
    ],
)
async def test_it_chooses_by_exchange_index_and_sector(
    b: Bench, query: str, symbols: set[str]
) -> None:
    found = {item["symbol"] for item in await screen(b, query)}

    assert symbols <= found
    assert found <= symbols | {"ZZZ"}


async def test_a_window_is_the_sum_of_its_days(b: Bench) -> None:
    items = await screen(b, "window=1W&fields=volume,change_percent")
    for item in items:
        path = f"/market/stocks/{item['symbol']}/trading/history?from=2026-11-13&to=2026-11-19"
        days = (await b.get(path))["data"]

        assert len(days) == 5
        assert item["volume"] == sum(day["total"]["volume"] for day in days)


async def test_a_past_day_has_its_own_figures_and_no_live_ones(b: Bench) -> None:
    items = await screen(b, "date=2026-11-17&fields=price,volume,market_cap,ma50")
    refused = [
        (await b.call("GET", f"/market/stocks?{query}")).status_code
        for query in (
            "date=2026-11-19",
            "date=2026-11-15",
            "date=2026-11-17&window=1W",
            "date=2026-11-17&sort=pe",
            "date=2026-11-17&pe_gt=3",
            "sort=ma50",
        )
    ]

    for item in items:
        path = f"/market/stocks/{item['symbol']}/trading?date=2026-11-17"
        assert item["volume"] == (await b.get(path))["total"]["volume"]
        assert (item["market_cap"], item["ma50"]) == (None, None)
    assert [item["volume"] for item in items] == sorted(
        (item["volume"] for item in items), reverse=True
    )
    assert refused == [400] * 6


# ------------------------------------------------------------------------------------ technicals

EVERY = (
    "SMA(5),EMA(12),ADX(14),SUPERTREND(10,3),PSAR,ICHIMOKU,RSI,MACD,STOCH(14,3),CCI,WILLIAMS_R,"
    "BBANDS(20,2),ATR,OBV,MFI,VOLUME_SMA"
)
SPAN = "from=2026-10-01&to=2026-11-18"


async def technicals(b: Bench, indicators: str) -> dict[str, list[dict[str, Any]]]:
    path = f"/market/stocks/HPG/technicals?{SPAN}&indicators={indicators}"
    return {each["indicator"]: each["data"] for each in (await b.get(path))["indicators"]}


async def test_closes_of_the_technicals_are_thousands_of_the_historys(b: Bench) -> None:
    prices = (await b.get(f"/market/stocks/HPG/technicals?{SPAN}"))["prices"]
    bars = (await b.get(f"/market/quotes/stocks/HPG/history?{WHOLE}"))["series"]

    assert [each["close"] * 1_000 for each in prices] == [
        bar["c"] for bar in bars[-1 - len(prices) : -1]
    ]


async def test_every_indicator_has_its_own_points(b: Bench) -> None:
    found = await technicals(b, EVERY)

    keys = {name: set(points[-1]) - {"date", "direction"} for name, points in found.items()}
    assert keys == {name: {"value"} for name in found} | {
        "MACD": {"macd_line", "signal_line", "histogram"},
        "BBANDS": {"upper", "middle", "lower"},
        "STOCH": {"k", "d"},
        "ADX": {"value", "plus_di", "minus_di"},
        "ICHIMOKU": {"tenkan", "kijun", "senkou_a", "senkou_b"},
    }
    assert {found[name][-1]["direction"] for name in ("PSAR", "SUPERTREND")} <= {"UP", "DOWN"}
    assert "chikou" in found["ICHIMOKU"][0]


async def test_indicators_are_what_their_names_say(b: Bench) -> None:
    found = await technicals(b, EVERY)
    closes = [
        each["close"] for each in (await b.get(f"/market/stocks/HPG/technicals?{SPAN}"))["prices"]
    ]

    assert found["SMA"][-1]["value"] == pytest.approx(sum(closes[-5:]) / 5, abs=1e-4)
    assert all(0 <= point["value"] <= 100 for point in found["RSI"] + found["MFI"])
    assert all(-100 <= point["value"] <= 0 for point in found["WILLIAMS_R"])
    assert all(0 <= point["k"] <= 100 for point in found["STOCH"])
    assert all(point["lower"] <= point["middle"] <= point["upper"] for point in found["BBANDS"])
    macd = found["MACD"][-1]
    assert macd["histogram"] == pytest.approx(macd["macd_line"] - macd["signal_line"], abs=2e-4)
    assert all(point["value"] > 0 for point in found["ATR"])


@pytest.mark.parametrize(
    "text", ["SMA(0)", "SMA(1,2)", "OBV(3)", "SMA(999)", "NOPE", ",".join(["SMA"] * 21)]
)
async def test_what_is_no_indicator_is_a_400(b: Bench, text: str) -> None:
    answer = await b.call("GET", f"/market/stocks/HPG/technicals?indicators={text}")

    assert answer.status_code == 400


# --------------------------------------------------------------------------------------- reports


async def test_reports_reach_the_last_quarter_that_is_over(b: Bench) -> None:
    path = "/market/company-financial/analysis?symbol=FPT"

    years, quarters = await b.get(path), await b.get(f"{path}&period=quarterly")

    assert [row["year"] for row in years] == [2025, 2024, 2023, 2022, 2021]
    newest = [(row["year"], row["quarter"]) for row in quarters[:4]]
    assert newest == [(2026, 3), (2026, 2), (2026, 1), (2025, 4)]


@pytest.mark.parametrize("symbol", LISTED)
async def test_reports_add_up(symbol: str) -> None:
    b = january()
    path = f"/market/v2/financial-statement/statement?symbol={symbol}"

    statements = {
        (kind, period): await b.get(f"{path}&type={kind}&period={period}")
        for kind in ("income-statement", "balance-sheet", "cash-flow")
        for period in ("annual", "quarterly")
    }

    quarterly = statements["income-statement", "quarterly"]
    for row in (*statements["income-statement", "annual"], *quarterly):
        assert row["revenue"] - row["cost_of_goods_sold"] == row["gross_profit"]
        assert row["gross_profit"] - row["other_expenses"] == row["net_profit"]
    for row in statements["balance-sheet", "quarterly"]:
        assert row["total_assets"] == row["total_liabilities"] + row["equity"]
    for row in statements["cash-flow", "annual"]:
        parts = ("operating_cash_flow", "investing_cash_flow", "financing_cash_flow")
        assert row["net_change_in_cash"] == sum(row[part] for part in parts)
    year = statements["income-statement", "annual"][0]
    quarters = quarterly[:4]
    assert [row["quarter"] for row in quarters] == [4, 3, 2, 1]
    assert sum(row["revenue"] for row in quarters) == year["revenue"]
    assert sum(row["net_profit"] for row in quarters) == year["net_profit"]
    listing = await b.get(f"/market/stocks/{symbol}/listing")
    overview = await b.get(f"/market/company-financial/overview?symbol={symbol}")
    assert year["net_profit"] == overview["eps"] * listing["outstanding_shares"]


async def test_a_stock_without_reports_of_analysts_has_an_empty_list(b: Bench) -> None:
    answers = [await b.get(f"/market/recommendation-reports/{symbol}") for symbol in LISTED[:2]]

    assert answers[0]["recommendationReports"][0]["stock"] == LISTED[0]
    assert answers[1] == []


# ----------------------------------------------------------------------------------------- funds

FUNDS = "/fund-trading/public/fund-certificates"
NAMES = ["DEMOEQ", "DEMOGR", "DEMOBF", "SAMPEQ", "SAMPBL", "SAMPBF"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_funds_figures_agree(b: Bench, name: str) -> None:
    quote = await b.get(f"/market/quotes/funds/{name}")
    histories = await b.get(f"{FUNDS}/{name}/nav-histories?period=ONE_YEAR")
    growth = await b.get(
        f"{FUNDS}/benchmark/growth?fund-names={name}&amount=1000000&period=ONE_YEAR"
    )
    shelf = [
        fund
        for kind in ("STOCK_FUND", "BOND_FUND", "BALANCE_FUND")
        for fund in await b.get(f"{FUNDS}?fund-type={kind}")
    ]

    navs = histories["nav_histories"]
    assert (navs[-1]["nav"], navs[-1]["date"]) == (quote["nav"], quote["nav_date"])
    assert quote["nav_date"] == "2026-11-18"
    assert {fund["name"]: fund["aum"] for fund in shelf}[name] == quote["total_nav"]
    profit = 100 * (navs[-1]["nav"] - navs[0]["nav"]) / navs[0]["nav"]
    assert growth[0]["profit_percent"] == pytest.approx(profit, abs=0.01)
    assert growth[0]["current_amount"] == round(10_000 * (100 + growth[0]["profit_percent"]))
    index = await b.get(f"/market/quotes/indices/VNINDEX/history?{WHOLE}")
    closes = [bar["c"] for bar in index["series"]]
    assert navs[-1]["benchmark_value"] == closes[-2]


@pytest.mark.parametrize("name", NAMES)
async def test_what_a_fund_holds_is_a_hundred_percent(b: Bench, name: str) -> None:
    held = await b.get(f"{FUNDS}/{name}/portfolio")
    assets = {
        row["type"]: row["percent"] for row in await b.get(f"{FUNDS}/{name}/asset-allocation")
    }
    sectors = await b.get(f"{FUNDS}/{name}/sector-allocation")

    assert sum(assets.values()) == pytest.approx(100)
    assert sum(row["percent"] for row in held) == pytest.approx(assets["STOCK"])
    assert sum(row["percent"] for row in sectors) == pytest.approx(assets["STOCK"])


async def test_how_many_funds_hold_a_stock_is_counted(b: Bench) -> None:
    held = [row["symbol"] for name in NAMES for row in await b.get(f"{FUNDS}/{name}/portfolio")]

    top = await b.get(f"{FUNDS}/top-holding-symbols")

    assert {row["symbol"]: row["number_of_funds"] for row in top} == {
        symbol: held.count(symbol) for symbol in held
    }


async def test_a_flow_is_what_came_less_what_went(b: Bench) -> None:
    for row in await b.get(f"{FUNDS}/top-fund-flow?fund-type=STOCK_FUND"):
        assert row["fund_flow"] == row["fund_inflow"] - row["fund_outflow"]
        assert row["month"] == "2026-11"


# -------------------------------------------------------------------- news, macro, earlier paths


async def test_news_are_of_listed_stocks_newest_first_and_each_can_be_opened(b: Bench) -> None:
    page = await b.get("/market/market-news?topic=stock&page_size=50")
    dates = [item["published_at"] for item in page["results"]]
    one = page["results"][0]

    assert dates == sorted(dates, reverse=True)
    assert datetime.fromisoformat(dates[0]) <= b.clock.now()
    assert {symbol for item in page["results"] for symbol in item["symbols"]} <= set(LISTED)
    article = await b.get(f"/market/market-news/{one['id']}")
    assert {key: article[key] for key in one} == one
    only = await b.get(f"/market/market-news?topic=stock&symbol={one['symbols'][0]}")
    assert {tuple(item["symbols"]) for item in only["results"]} == {tuple(one["symbols"])}


async def test_pages_of_the_broker_say_where_they_are(b: Bench) -> None:
    first = await b.get("/market/market-news?page_size=50")
    last = await b.get(f"/market/market-news?page_size=50&page={-(-first['total'] // 50)}")

    assert (first["previous_page"], first["next_page"]) == (1, 2)
    assert last["next_page"] == last["current_page"]
    assert first["page_total"] == len(first["results"]) == 50


async def test_the_calendar_tells_the_macro_figures(b: Bench) -> None:
    events = await b.get(
        "/market/calendar?country=Vietnam&from=1780000000&page_size=50&to=1800000000"
    )
    series = await b.get("/market/macro/indicators/cpi_yoy?from=2026-01&to=2026-12")

    times = [event["detail"]["date"] for event in events["results"]]
    assert times == sorted(times)
    told = [
        float(event["detail"]["actual"])
        for event in events["results"]
        if event["title"].startswith("Consumer") and event["detail"]["actual"]
    ]
    assert told[::-1] == [point["value"] for point in series["series"]][: len(told)]
    for earlier, later in pairwise(
        [event for event in events["results"] if event["title"].startswith("Consumer")]
    ):
        if earlier["detail"]["actual"]:
            assert later["detail"]["previous"] == earlier["detail"]["actual"]


async def test_the_calendar_has_something_in_every_week_and_nothing_at_weekends(b: Bench) -> None:
    first = int(b.clock.now().timestamp())

    page = await b.get(f"/market/calendar?from={first}&to={first + 28 * 86_400}&page_size=50")

    times = [datetime.fromisoformat(event["detail"]["date"]) for event in page["results"]]
    gaps = [later - earlier for earlier, later in pairwise([b.clock.now(), *times])]
    assert max(gaps) <= timedelta(days=7)
    assert {at.weekday() for at in times} <= set(range(5))


async def test_units_are_the_words_of_the_document(b: Bench) -> None:
    indicators = await b.get("/market/macro/indicators")

    units = {each["unit"] for each in indicators}

    assert units == {"Percent", "Points", "Thousand", "USD Billion"}


@pytest.mark.parametrize(
    "path", ["stocks/AAPL", "indices/SP500", "forex/EURUSD", "commodities/GOLD"]
)
async def test_what_is_traded_abroad_rests_at_weekends(b: Bench, path: str) -> None:
    series = (await b.get(f"/market/quotes/{path}/history?{WHOLE}"))["series"]

    days = {datetime.fromtimestamp(bar["t"], EXCHANGE_TZ).weekday() for bar in series}

    assert days == set(range(5))


async def test_coins_have_bars_at_weekends(b: Bench) -> None:
    series = (await b.get(f"/market/quotes/cryptos/BTC/history?{WHOLE}"))["series"]

    days = {datetime.fromtimestamp(bar["t"], EXCHANGE_TZ).weekday() for bar in series}

    assert days == set(range(7))


@pytest.mark.parametrize("path", ["stocks/AAPL", "indices/SP500", "commodities/GOLD"])
async def test_on_a_saturday_a_quote_from_abroad_is_fridays_bar(path: str) -> None:
    b = bench(scenario().on(datetime(2026, 11, 21, 3, tzinfo=UTC)))

    quote = await b.get(f"/market/quotes/{path}")
    last = (await b.get(f"/market/quotes/{path}/history?{WHOLE}"))["series"][-1]

    assert last["c"] == quote.get("price", quote.get("value"))
    assert quote["open"] is not None


@pytest.mark.parametrize("kind", EARLIER_MARKETS)
async def test_every_earlier_market_has_points_up_to_the_limit(b: Bench, kind: str) -> None:
    points = await b.get(f"/market/financial-data/market?type={kind}&limit=5")

    assert len({point["date"] for point in points}) == 5


@pytest.mark.parametrize("kind", ["PCE", "CORE_PCE"])
async def test_the_earlier_macro_has_consumption_prices(b: Bench, kind: str) -> None:
    assert await b.get(f"/market/financial-data/macro?type={kind}&country=US")


async def test_technicals_are_answered_as_a_history_too(b: Bench) -> None:
    query = "from=2026-10-01&to=2026-11-18&indicators=RSI(14)"

    one, other = [
        await b.get(f"/market/stocks/FPT/technicals{more}?{query}") for more in ("", "/history")
    ]

    assert one == other
    assert len(one["prices"]) > 20


async def test_macro_periods_and_limits_cut(b: Bench) -> None:
    path = "/market/macro/indicators/gdp_yoy"

    latest, quarters, capped = [
        (await b.get(f"{path}{query}"))["series"]
        for query in ("", "?from=2025-Q1&to=2025-Q4", "?from=2024&to=2025&limit=3")
    ]

    assert len(latest) == 1
    assert [point["period"] for point in quarters] == ["2025-Q4", "2025-Q3", "2025-Q2", "2025-Q1"]
    assert [point["period"] for point in capped] == ["2025-Q4", "2025-Q3", "2025-Q2"]


async def test_the_earlier_board_is_the_quote_and_the_depth(b: Bench) -> None:
    board = await b.get("/market/stock-realtime?symbol=HPG")
    quote = await b.get("/market/quotes/stocks/HPG")
    depth = await b.get("/market/quotes/stocks/HPG/order-book")
    several = await b.get("/market/stock-realtime?symbols=HPG,SHS,NOPE")
    listed = await b.get("/market/stock-realtime?exchange=UPCOM")

    for name in ("price", "open", "high", "low", "reference", "ceiling", "floor", "change"):
        assert board[name] == quote[name]
    assert board["totalVolume"] == quote["volume"]
    assert [board["buyPrice1"], board["sellPrice1"]] == [
        depth["bids"][0]["price"],
        depth["asks"][0]["price"],
    ]
    assert [each["symbol"] for each in several] == ["HPG", "SHS"]
    assert [each["symbol"] for each in listed] == ["VEA"]


async def test_the_earlier_chart_is_the_history_by_column(b: Bench) -> None:
    span = "from=1790000000&to=1900000000"

    chart = await b.get(f"/market/price-histories-chart?symbol=HPG&resolution=1H&{span}")
    bars = (await b.get(f"/market/quotes/stocks/HPG/history?resolution=1H&{span}"))["series"]

    columns = {"time": "t", "open": "o", "close": "c", "high": "h", "low": "l", "volume": "v"}
    assert {name: chart[name] for name in columns} == {
        name: [bar[key] for bar in bars] for name, key in columns.items()
    }


async def test_earlier_gold_is_the_dealers(b: Bench) -> None:
    gold = await b.get("/market/financial-data/gold")

    for row in gold:
        product = await b.get(f"/market/quotes/commodities/GOLD/dealer-products/{row['index']}")
        assert (row["buy_value"], row["sell_value"]) == (product["buy"], product["sell"])
        history = await b.get(
            f"/market/quotes/commodities/GOLD/dealer-products/{row['index']}/history?{WHOLE}"
        )
        assert history["series"][-1]["price"] == product["sell"]
    assert await b.get("/market/quotes/commodities/BRENT/dealer-products") == []
