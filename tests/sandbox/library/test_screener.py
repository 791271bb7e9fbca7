"""The screener's answer on the wire: what was chosen and nothing else, and which days it has."""

import pytest

from tests.sandbox.client import Bench, bench, scenario
from tests.sandbox.library.test_market import market

DEFAULT = {"symbol", "exchange", "name", "price", "change_percent"}


@pytest.fixture(scope="module")
def b() -> Bench:
    return market(7, 1)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("sort=symbol", DEFAULT),
        ("", DEFAULT | {"market_cap"}),
        ("sort=-volume&pe_gt=0", DEFAULT | {"volume", "pe"}),
        ("fields=price&sort=symbol", {"symbol", "price"}),
        ("fields=pe,sector&sort=symbol", {"symbol", "pe", "sector"}),
        ("date=2026-11-17&fields=pe,ma50", {"symbol", "pe", "ma50", "volume"}),
    ],
)
async def test_an_item_has_the_chosen_fields_and_those_sorted_and_filtered_by(
    b: Bench, query: str, fields: set[str]
) -> None:
    items = (await b.get(f"/market/stocks?{query}"))["items"]

    assert items
    assert [set(item) for item in items] == [fields] * len(items)


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/market/stocks?date={}", {"2026-11-20": 200, "2026-11-21": 400, "2026-11-22": 400}),
        (
            "/market/stocks/HPG/trading?date={}",
            {"2026-11-20": 200, "2026-11-22": 200, "2026-11-23": 400},
        ),
        ("/market/stocks/HPG/trading/orders?date={}", {"2026-11-20": 200, "2026-11-23": 400}),
        ("/market/stocks/HPG/trading/foreign?date={}", {"2026-11-20": 200, "2026-11-23": 400}),
        ("/market/stocks/HPG/trading/proprietary?date={}", {"2026-11-20": 200}),
        ("/market/stocks/HPG/trading/history?from=2026-11-20&to={}", {"2026-11-20": 200}),
        ("/market/stocks/HPG/technicals?from=2026-11-20&to={}", {"2026-11-20": 200}),
        (
            "/market/stocks/HPG/ownership/foreign-room/history?from=2026-11-20&to={}",
            {"2026-11-20": 200},
        ),
    ],
)
async def test_on_a_sunday_friday_is_a_day_of_the_past(path: str, statuses: dict[str, int]) -> None:
    sunday = bench(scenario(day="2026-11-22", start="10:00"))

    found = {day: (await sunday.call("GET", path.format(day))).status_code for day in statuses}

    assert found == statuses


async def test_on_a_sunday_friday_has_traded() -> None:
    sunday = bench(scenario(day="2026-11-22", start="10:00"))
    path = "/market/stocks/HPG"

    (item,) = (await sunday.get("/market/stocks?date=2026-11-20&exchange=HOSE"))["items"]
    total = (await sunday.get(f"{path}/trading?date=2026-11-20"))["total"]
    orders = await sunday.get(f"{path}/trading/orders?date=2026-11-20")
    technicals = await sunday.get(f"{path}/technicals")

    assert item["volume"] == total["volume"] > 0
    assert orders["buy"]["volume"] > 0
    assert technicals["prices"][-1]["date"] == "2026-11-20"
