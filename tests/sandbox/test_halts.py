"""Halts that a scenario scripts: from a time to a time the exchange takes nothing in a symbol."""

from typing import Any

import pytest
from pydantic import ValidationError

from bot.sandbox.scenario import Scenario
from tests.sandbox.client import Bench, ready, scenario

HPG: dict[str, Any] = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}
SHS: dict[str, Any] = {"symbol": "SHS", "exchange": "HNX", "reference": 21_500}
HALTS = [{"at": "09:20", "until": "09:30"}]
ACCOUNTS = [{"id": "0009000011"}]


async def halted(*halts: dict[str, str], start: str = "09:16:00", **keys: Any) -> Bench:
    symbol = {**HPG, "halts": list(halts), **keys}
    return await ready(scenario(start=start, symbols=[symbol, SHS], accounts=ACCOUNTS))


def is_halted(b: Bench, symbol: str = "HPG") -> bool:
    return b.sandbox._house.venue.board(symbol).is_halted


def volume(b: Bench) -> int:
    return b.sandbox._house.venue.board("HPG").volume


@pytest.mark.parametrize("market", [{}, {"flow": {}}], ids=["crowd", "flow"])
async def test_a_symbol_is_halted_from_its_time_to_its_time(market: dict[str, Any]) -> None:
    b = await halted(*HALTS, **market)

    b.pass_time(239)
    assert not is_halted(b)
    b.pass_time(1)
    assert is_halted(b)
    assert not is_halted(b, "SHS")
    before = volume(b)
    b.pass_time(599)
    assert (is_halted(b), volume(b)) == (True, before)
    b.pass_time(1)
    assert not is_halted(b)
    b.pass_time(600)
    assert volume(b) > before > 0


async def test_an_order_is_refused_while_it_lasts_and_taken_after_it() -> None:
    b = await halted(*HALTS)
    b.pass_time(300)

    refused = await b.place(limit_price=26_500)
    b.pass_time(600)
    taken = await b.place(limit_price=26_500)

    assert refused["order_status"] == "REJECTED"
    assert taken["order_status"] == "SENT"


async def test_a_symbol_that_is_halted_for_the_whole_run_stays_so_on_the_next_day() -> None:
    b = await ready(scenario(symbols=[{**HPG, "is_halted": True}, SHS], accounts=ACCOUNTS))

    b.pass_time(86_400)
    await b.log_in()

    assert (is_halted(b), is_halted(b, "SHS")) == (True, False)
    assert (await b.place(limit_price=26_500))["order_status"] == "REJECTED"


async def test_a_market_that_starts_within_a_halt_begins_halted() -> None:
    b = await halted(*HALTS, start="09:25:00")

    b.pass_time(1)
    assert is_halted(b)
    b.pass_time(300)
    assert not is_halted(b)


async def test_a_halt_that_is_past_has_not_been() -> None:
    b = await halted(*HALTS, start="09:31:00")

    b.pass_time(10)
    assert not is_halted(b)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"halts": [{"at": "10:00", "until": "10:00"}]}, "wanted a time after 10:00:00"),
        ({"halts": HALTS, "is_halted": True}, "halted for the whole run"),
    ],
)
def test_a_halt_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Scenario.model_validate({"symbols": [HPG | changes]})
