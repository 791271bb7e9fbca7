"""A sandbox whose market is order flow or recorded days: every call answers, a restart goes on."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bot.broker.drift import drift_of
from bot.config.scenario_file import load_scenario
from bot.protocol.calls import CODECS
from bot.sandbox.markets.replay.data import RecordedBar, RecordedDay, Recording
from bot.sandbox.scenario import Scenario
from tests.sandbox.api.test_every_path import READS, SPARSE, read
from tests.sandbox.client import ACCOUNT, Bench, bench, ready, scenario

DAY = date(2026, 11, 19)
HPG = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "level_volume": 2_000}
FLOWING: dict[str, Any] = {
    "symbols": [
        HPG | {"flow": {}},
        {"symbol": "SHS", "exchange": "HNX", "reference": 21_500, "flow": {"days": ["limit_up"]}},
        {"symbol": "VEA", "exchange": "UPCOM", "reference": 38_700},
    ]
}


def flowing() -> Scenario:
    return scenario(**FLOWING)


def replayed() -> Scenario:
    bar = RecordedBar(0, 27_000, 27_400, 26_800, 27_300, 900_000)
    etf = {"symbol": "E1VFVN30", "exchange": "HOSE", "kind": "ETF", "reference": 32_500}
    symbols = [HPG | {"replay": "daily"}, etf, *FLOWING["symbols"][1:]]
    told = scenario(symbols=symbols, replay={"daily": "daily.csv"})
    days = {"HPG": {DAY: RecordedDay(27_000, whole=bar)}}
    return told.with_recording(Recording(days, "one bar"))


async def test_every_call_answers_beside_a_flow_a_recording_and_a_script() -> None:
    b = await ready(replayed())
    await b.place()
    b.pass_time(600)

    for name in READS:
        payload = await read(b, name)
        CODECS[name].decode(payload)
        assert drift_of(CODECS[name], payload).gone == tuple(SPARSE.get(name, ()))


async def test_the_history_of_today_is_what_the_flow_traded() -> None:
    b = await ready(scenario(symbols=[HPG | {"flow": {}}]))
    b.pass_time(7 * 3_600)

    quote = await b.get("/market/quotes/stocks/HPG")
    board = b.sandbox._house.venue.board("HPG")

    assert board.volume > 0
    assert str(board.volume) in str(quote)


@pytest.mark.parametrize("market", [flowing, replayed])
async def test_a_restart_over_the_ledger_finds_the_same_market(market: Any, tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    first = await ready(market(), path)
    for price in (26_950, 27_000, 27_100):
        await first.place(limit_price=price, quantity=300)
        first.pass_time(61.5)
    before = await told_of(first)

    second = bench(market(), path)
    second.token, second.numbers = first.token, first.numbers
    second.wire.advance_to(first.wire.now())

    assert await told_of(second) == before
    second.pass_time(300)
    first.pass_time(300)
    assert await told_of(second) == await told_of(first)


async def told_of(b: Bench) -> list[Any]:
    targets = [
        f"/trading/v1/accounts/{ACCOUNT}/order-book",
        "/market/quotes/stocks/HPG/order-book",
        "/market/quotes/stocks/SHS",
    ]
    return [await b.get(target) for target in targets]


def test_the_shipped_market_has_thirty_symbols_on_three_exchanges() -> None:
    market = load_scenario("market", Path())

    exchanges = [script.exchange for script in market.symbols]
    assert len(exchanges) == 30
    assert {each: exchanges.count(each) for each in exchanges} == {"HOSE": 18, "HNX": 6, "UPCOM": 6}
    assert all(script.flow is not None for script in market.symbols)
