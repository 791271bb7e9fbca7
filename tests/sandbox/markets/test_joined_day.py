"""A market that is joined during or after its day has really had one: simulated, not invented."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from bot.sandbox.serve import market_opening
from tests.rows import every_row
from tests.sandbox.client import RULEBOOK, Bench, bench, ready, scenario

SYMBOLS = [
    {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000},
    {"symbol": "SHS", "exchange": "HNX", "reference": 21_500},
    {"symbol": "VEA", "exchange": "UPCOM", "reference": 38_700},
]
NOON = datetime(2026, 11, 19, 4, 45, tzinfo=UTC)
LATE = datetime(2026, 11, 19, 7, 50, tzinfo=UTC)
EVENING = datetime(2026, 11, 20, 11, 0, tzinfo=UTC)
SATURDAY = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
each_time = every_row("at", [NOON, LATE, SATURDAY])
each_symbol = every_row("symbol", [str(each["symbol"]) for each in SYMBOLS])


@cache
def joined(at: datetime) -> Bench:
    """What `bot paper serve --now` makes of a scenario."""
    played = scenario(symbols=SYMBOLS, accounts=[{"id": "0009000011", "holdings": {"SHS": 1_000}}])
    made = bench(played.on(market_opening(at, RULEBOOK)))
    made.pass_time((at - made.clock.now()).total_seconds())
    return made


@pytest.mark.long
@each_time
@each_symbol
async def test_its_quote_bars_and_minutes_tell_one_day(at: datetime, symbol: str) -> None:
    b, path = joined(at), f"/market/quotes/stocks/{symbol}"

    quote = await b.get(path)
    days = (await b.get(f"{path}/history?from=1790000000&to=1800000000"))["series"]
    parts = (await b.get(f"{path}/history?resolution=5&from=1790000000&to=1800000000"))["series"]

    whole = {name: quote[name] for name in ("open", "high", "low", "price", "volume")}
    assert quote["volume"] > 0
    assert {key: days[-1][key] for key in "ohlcv"} == dict(
        zip("ohlcv", whole.values(), strict=True)
    )
    today = [part for part in parts if part["t"] >= days[-1]["t"]]
    assert sum(part["v"] for part in today) == whole["volume"]
    assert max(part["h"] for part in today) == whole["high"]
    assert min(part["l"] for part in today) == whole["low"]
    assert (today[0]["o"], today[-1]["c"]) == (whole["open"], whole["price"])


@each_time
async def test_its_index_has_the_minutes_of_that_day(at: datetime) -> None:
    [now] = await joined(at).get("/market/index-realtime?index=VNINDEX")
    quote = await joined(at).get("/market/quotes/indices/VNINDEX")

    assert len(now["times"]) > 100
    assert (max(now["values"]), now["values"][-1]) == (quote["high"], quote["value"])


async def test_after_a_close_that_traded_an_after_hours_order_is_taken() -> None:
    played = scenario(symbols=SYMBOLS[1:2], accounts=[{"id": "0009000011", "cash": 100_000_000}])
    b = await ready(played.on(market_opening(LATE, RULEBOOK)))
    b.pass_time((LATE - b.clock.now()).total_seconds())

    plo: dict[str, Any] = {"type": "MARKET", "limit_price": None, "market_price": "PLO"}
    placed = await b.place(symbol="SHS", **plo)

    assert (placed["order_status"], placed["code"]) == ("SENT", None)


@pytest.mark.parametrize(
    ("at", "opening"),
    [
        (datetime(2026, 11, 19, 1, 30, tzinfo=UTC), datetime(2026, 11, 19, 1, 30, tzinfo=UTC)),
        (NOON, datetime(2026, 11, 19, 1, 59, 55, tzinfo=UTC)),
        (EVENING, datetime(2026, 11, 20, 1, 59, 55, tzinfo=UTC)),
        (SATURDAY, datetime(2026, 11, 20, 1, 59, 55, tzinfo=UTC)),
    ],
)
def test_a_market_is_played_from_the_opening_of_its_last_day(
    at: datetime, opening: datetime
) -> None:
    assert market_opening(at, RULEBOOK) == opening
