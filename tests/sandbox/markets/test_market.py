"""The simulated market: believable, scripted where the scenario says so, and ours stand in it."""

from datetime import datetime
from typing import Any

import pytest

from bot.domain.instrument import Phase
from bot.domain.quote import Depth
from tests.sandbox.client import RULEBOOK, Bench, bench, ready, scenario

ACCOUNTS = [{"id": "0009000011"}]
FREE = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}


def market(start: str = "09:16:00", **keys: Any) -> Bench:
    return bench(scenario(start=start, symbols=[FREE | keys], accounts=ACCOUNTS))


def depth(b: Bench) -> Depth:
    return b.sandbox._house.venue.depth("HPG")


def volumes(b: Bench) -> tuple[int, int]:
    found = depth(b)
    return sum(level.volume for level in found.bids), sum(level.volume for level in found.asks)


@pytest.mark.parametrize(
    ("symbol", "exchange", "reference"),
    [
        ("HPG", "HOSE", 27_000),
        ("FPT", "HOSE", 132_000),
        ("SHS", "HNX", 21_500),
        ("VEA", "UPCOM", 38_700),
    ],
)
def test_there_are_three_levels_a_side_and_a_spread_of_one_or_two_ticks(
    symbol: str, exchange: str, reference: int
) -> None:
    listed = {"symbol": symbol, "exchange": exchange, "reference": reference}
    b = bench(scenario(symbols=[listed], accounts=ACCOUNTS))
    instrument = b.sandbox.scenario.symbols[0].instrument
    wide, shallow, looks = 0, 0, 200
    for _ in range(looks):
        b.pass_time(5)
        seen = b.sandbox._house.venue.depth(symbol)
        assert seen.bid is not None
        assert seen.ask is not None
        above = RULEBOOK.ticks_of(instrument).up(RULEBOOK.ticks_of(instrument).up(seen.bid))
        wide += seen.ask > above
        shallow += min(len(seen.bids), len(seen.asks)) < 3

    board = b.sandbox._house.venue.board(symbol)
    assert wide <= looks // 20
    assert shallow == 0
    assert board.volume > 0
    assert board.low is not None
    assert board.low > board.floor


def test_an_opening_auction_makes_a_price() -> None:
    b = market(start="09:05:00")

    b.pass_time(600)

    venue = b.sandbox._house.venue
    assert venue.phase_of("HPG") is Phase.PROGRESS
    assert venue.board("HPG").open is not None


def test_over_lunch_nobody_trades() -> None:
    b = market(start="11:29:00")
    b.pass_time(61)
    before = b.sandbox._house.venue.board("HPG")

    b.pass_time(3600)

    assert b.sandbox._house.venue.board("HPG") == before


def test_the_price_follows_its_path() -> None:
    b = market(path=[{"at": "09:36", "price": 28_000}], swing_ticks=1)

    b.pass_time(20 * 60)

    last = b.sandbox._house.venue.board("HPG").last
    assert last is not None
    assert abs(last - 28_000) <= 200


def test_an_imbalance_multiplies_what_waits() -> None:
    b = market(imbalances=[{"at": "09:17", "until": "09:18", "bids": 6, "asks": 0.5}])
    b.pass_time(90)

    bids, asks = volumes(b)

    assert bids >= 3 * asks


def test_a_standstill_shows_its_levels_and_refills_nothing() -> None:
    asks = [[27_050, 200], [27_100, 2_000]]
    still = {"at": "09:17", "until": "09:20", "bids": [[27_000, 9_000]], "asks": asks}
    b = market(standstills=[still])
    b.pass_time(60)
    before = volumes(b)

    b.pass_time(175)

    assert before == volumes(b) == (9_000, 2_200)
    b.pass_time(5)
    assert volumes(b) != before


def test_volumes_beyond_the_largest_order_wait_and_trade_in_several() -> None:
    levels = {"bids": [[26_950, 600_000]], "asks": [[27_000, 1_200_000]]}
    still = {"at": "09:17", "until": "09:20", **levels}
    deal = {"at": "09:18", "do": "take", "price": 27_000, "volume": 1_100_000}
    b = market(level_volume=2_000_000, standstills=[still], deals=[deal])
    b.pass_time(30)
    assert min(volumes(b)) > 1_000_000
    b.pass_time(35)
    assert volumes(b) == (600_000, 1_200_000)
    b.pass_time(60)
    assert volumes(b) == (600_000, 100_000)

    b.pass_time(300)
    assert min(volumes(b)) > 1_000_000


def test_a_standstill_that_the_start_lies_in_holds_from_there_on() -> None:
    still = {"at": "09:17", "bids": [[27_000, 9_000]], "asks": [[27_050, 200]]}
    running = market(start="09:18:00", standstills=[still | {"until": "09:20"}])
    over = market(start="09:18:00", standstills=[still | {"until": "09:18"}])

    for each in (running, over):
        each.pass_time(60)

    assert volumes(running) == (9_000, 200)
    assert volumes(over) != (9_000, 200)


async def test_a_scripted_deal_fills_a_part_of_our_waiting_order() -> None:
    still = {"at": "09:16", "until": "16:00", "bids": [[26_900, 100]], "asks": [[27_100, 100]]}
    deals = [{"at": "09:17", "do": "give", "price": 27_000, "volume": 200}]
    listed = [FREE | {"standstills": [still], "deals": deals}]
    b = await ready(scenario(symbols=listed, accounts=ACCOUNTS))
    order_id = (await b.place(quantity=500, limit_price=27_000))["order_id"]

    b.pass_time(60)

    row = await b.row(order_id)
    assert (row["execqtty"], row["remainqtty"], depth(b).ask) == (200, 300, 27_100)


async def test_our_order_waits_behind_those_that_came_before_it() -> None:
    still = {"at": "09:16", "until": "16:00", "bids": [[27_000, 300]], "asks": []}
    deals = [
        {"at": "09:17", "do": "give", "price": 27_000, "volume": 300},
        {"at": "09:18", "do": "give", "price": 27_000, "volume": 100},
    ]
    listed = [FREE | {"standstills": [still], "deals": deals}]
    b = await ready(scenario(symbols=listed, accounts=ACCOUNTS))
    order_id = (await b.place(limit_price=27_000))["order_id"]

    seen = []
    for _ in range(2):
        b.pass_time(60)
        seen.append((await b.row(order_id))["execqtty"])

    assert seen == [0, 100]


def test_the_next_due_instant_is_never_behind() -> None:
    b = market()
    seen: list[datetime] = []
    for _ in range(50):
        due = b.sandbox.next_due()
        assert due is not None
        b.clock.advance_to(max(due, b.clock.now()))
        b.sandbox.advance(b.clock.now())
        seen.append(due)

    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
