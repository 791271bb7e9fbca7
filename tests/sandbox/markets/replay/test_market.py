"""Recorded days, replayed: the tape is the record's, and our orders take part."""

from collections.abc import Mapping
from datetime import date, datetime, time
from random import Random
from typing import Any

import pytest

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.message import Listing, NewOrder, OrderRefused, Traded, VenueEvent
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.replay.data import (
    Print,
    RecordedBar,
    RecordedDay,
    Recording,
    prints_of,
    walked,
)
from bot.sandbox.markets.replay.market import day_spans, replay_market
from bot.sandbox.markets.source import MarketAccess
from bot.sandbox.scenario import Scenario
from tests.sandbox.client import RULEBOOK

DAY = date(2026, 11, 19)
NEXT = date(2026, 11, 20)
Minutes = Mapping[str, tuple[int, int, int, int, int]]
HOSE_DAY: Minutes = {
    "09:15": (27_000, 27_100, 26_900, 27_050, 50_000),
    "09:16": (27_050, 27_050, 27_050, 27_050, 100),
    "09:17": (27_050, 27_300, 27_000, 27_000, 900_000),
    "11:30": (27_100, 27_100, 27_100, 27_100, 1_200),
    "13:00": (27_200, 27_200, 26_800, 26_800, 1_300_000),
    "14:29": (26_850, 26_900, 26_850, 26_900, 7_700),
    "14:45": (27_150, 27_150, 27_150, 27_150, 2_000_000),
}
EXPECTED = {
    "09:15": (27_000, 27_100, 26_900, 27_050, 50_000),
    "09:16": (27_050, 27_050, 27_050, 27_050, 100),
    "09:17": (27_050, 27_300, 27_000, 27_000, 900_000),
    "11:29": (27_100, 27_100, 27_100, 27_100, 1_200),
    "13:00": (27_200, 27_200, 26_800, 26_800, 1_300_000),
    "14:29": (26_850, 26_900, 26_850, 26_900, 7_700),
    "14:45": (27_150, 27_150, 27_150, 27_150, 2_000_000),
}


def second(text: str) -> int:
    at = time.fromisoformat(text)
    return at.hour * 3_600 + at.minute * 60 + at.second


def recorded(minutes: Minutes, reference: int = 27_000) -> RecordedDay:
    bars = tuple(RecordedBar(second(minute), *bar) for minute, bar in minutes.items())
    return RecordedDay(reference, bars)


class Replayed:
    """A venue with nobody in it but a recording, and what happened there."""

    def __init__(
        self,
        days: Mapping[date, RecordedDay],
        *,
        exchange: Exchange = Exchange.HOSE,
        start: str = "08:59:55",
        **keys: Any,
    ) -> None:
        symbol = {"symbol": "HPG", "exchange": exchange, "reference": 27_000, "replay": "minutes"}
        data = {"day": DAY, "start": start, "symbols": [symbol], "replay": {"minutes": "x"}}
        scenario = Scenario.model_validate(data | keys)
        self.scenario = scenario.with_recording(Recording({"HPG": days}))
        listing = Listing(scenario.symbols[0].instrument, next(iter(days.values())).reference)
        self.venue = Venue(RULEBOOK, [listing], start=scenario.starts_at)
        self.events: list[VenueEvent] = []
        self.market = replay_market(
            self.scenario,
            self.scenario.symbols,
            MarketAccess(RULEBOOK, self.venue, self.events.extend),
        )

    def until(self, local: str, day: date = DAY) -> "Replayed":
        end = datetime.combine(day, time.fromisoformat(local), EXCHANGE_TZ)
        while (due := min(self.market.next_due(), self.venue.next_boundary(self.venue.now))) <= end:
            self.events += self.venue.advance(due)
            while self.market.next_due() <= due:
                self.market.run_next()
        self.events += self.venue.advance(end)
        return self

    def bars(self, day: date = DAY) -> dict[str, tuple[int, ...]]:
        """The tape of a day as minute bars."""
        found: dict[str, list[Traded]] = {}
        for each in self.events:
            local = each.at.astimezone(EXCHANGE_TZ)
            if isinstance(each, Traded) and each.lot is Lot.EVEN and local.date() == day:
                found.setdefault(f"{local:%H:%M}", []).append(each)
        return {minute: bar_of(trades) for minute, trades in found.items()}

    def place(self, side: Side, price: int, quantity: int) -> None:
        order = NewOrder("ours", "us", "HPG", side, quantity, OrderType.LO, price)
        self.events += self.venue.submit(order, self.venue.now)

    def ours(self) -> list[tuple[int, int]]:
        return [
            (each.price, each.quantity)
            for each in self.events
            if isinstance(each, Traded) and "ours" in (each.buy_order_id, each.sell_order_id)
        ]


def bar_of(trades: list[Traded]) -> tuple[int, ...]:
    prices = [each.price for each in trades]
    volume = sum(each.quantity for each in trades)
    return prices[0], max(prices), min(prices), prices[-1], volume


def test_the_tape_of_each_minute_is_the_recorded_bar() -> None:
    replayed = Replayed({DAY: recorded(HOSE_DAY)}).until("15:30")

    assert replayed.bars() == EXPECTED
    assert not [each for each in replayed.events if isinstance(each, OrderRefused)]
    assert replayed.venue.board("HPG").close == 27_150


def test_upcom_trades_to_its_last_minute_without_an_auction() -> None:
    day = {
        "08:59": (27_000, 27_100, 27_000, 27_100, 500),
        "09:00": (27_100, 27_100, 26_900, 26_900, 700),
        "15:00": (26_800, 26_800, 26_800, 26_800, 200),
    }
    replayed = Replayed({DAY: recorded(day)}, exchange=Exchange.UPCOM).until("15:30")

    assert replayed.bars() == {
        "09:00": (27_000, 27_100, 26_900, 26_900, 1_200),
        "14:59": (26_800, 26_800, 26_800, 26_800, 200),
    }


def test_hnx_closes_with_the_recorded_auction() -> None:
    day = {
        "09:00": (27_000, 27_300, 27_000, 27_300, 500),
        "14:45": (27_100, 27_100, 27_100, 27_100, 9_900),
    }
    replayed = Replayed({DAY: recorded(day)}, exchange=Exchange.HNX).until("15:30")

    assert replayed.bars() == day


def test_the_band_holds_whatever_side_it_is_touched_from() -> None:
    ceiling, floor = 28_850, 25_150
    day = {
        "09:20": (27_000, ceiling, 27_000, ceiling, 900),
        "09:21": (ceiling, ceiling, ceiling, ceiling, 1_000_000),
        "10:00": (27_000, 27_000, floor, floor, 900),
        "10:01": (floor, floor, floor, floor, 600),
    }
    replayed = Replayed({DAY: recorded(day)}).until("09:25")

    assert replayed.venue.touch("HPG") == (ceiling, None)
    assert replayed.until("10:05").venue.touch("HPG") == (None, floor)
    assert replayed.bars() == day


def test_each_day_begins_on_its_own_reference() -> None:
    first = recorded({"09:20": (27_000, 27_000, 27_000, 27_000, 100)})
    split = recorded({"09:20": (13_500, 13_600, 13_500, 13_600, 300)}, reference=13_500)
    replayed = Replayed({DAY: first, NEXT: split}).until("15:30", NEXT)

    assert replayed.venue.board("HPG").reference == 13_500
    assert replayed.bars(NEXT) == {"09:20": (13_500, 13_600, 13_500, 13_600, 300)}


def test_there_is_depth_on_both_sides_between_trades() -> None:
    depth = Replayed({DAY: recorded(HOSE_DAY)}).until("10:00").venue.depth("HPG")

    assert (len(depth.bids), len(depth.asks)) == (3, 3)
    assert depth.bids[0].price < depth.asks[0].price


def test_an_order_of_ours_is_filled_when_the_record_trades_through_it() -> None:
    replayed = Replayed({DAY: recorded(HOSE_DAY)}).until("10:00")

    replayed.place(Side.BUY, 26_950, 300)
    replayed.until("13:05")

    assert sum(quantity for _, quantity in replayed.ours()) == 300
    assert {price for price, _ in replayed.ours()} == {26_950}


def test_an_order_of_ours_takes_the_modelled_depth() -> None:
    replayed = Replayed({DAY: recorded(HOSE_DAY)}).until("10:00")
    ask = replayed.venue.depth("HPG").asks[0]

    replayed.place(Side.BUY, ask.price, 100)

    assert replayed.ours() == [(ask.price, 100)]


def test_the_same_recording_and_seed_trade_the_same_in_slices() -> None:
    whole = Replayed({DAY: recorded(HOSE_DAY)}).until("10:00")
    sliced = Replayed({DAY: recorded(HOSE_DAY)})
    for minute in range(10, 40):
        sliced.until(f"09:{minute}:07")

    assert sliced.until("10:00").events == whole.events


@pytest.mark.parametrize("exchange", [Exchange.HOSE, Exchange.HNX, Exchange.UPCOM])
@pytest.mark.parametrize(
    "bar",
    [
        (27_000, 27_600, 26_500, 27_300, 3_000_000),
        (27_300, 27_300, 26_700, 26_700, 900),
        (27_000, 27_000, 27_000, 27_000, 100),
    ],
)
def test_a_daily_bar_is_walked_from_open_to_close_through_both_extremes(
    exchange: Exchange, bar: tuple[int, int, int, int, int]
) -> None:
    whole = RecordedDay(27_000, whole=RecordedBar(0, *bar))
    replayed = Replayed({DAY: whole}, exchange=exchange).until("15:30")

    board = replayed.venue.board("HPG")
    seen = (board.open, board.high, board.low, board.last, board.volume)
    assert seen == bar
    assert not [each for each in replayed.events if isinstance(each, OrderRefused)]


def test_trades_are_replayed_one_by_one_with_their_aggressor() -> None:
    trades = (
        Print(second("09:15:00"), 27_100, 5_000, None),
        Print(second("09:15:03"), 27_150, 200, Side.BUY),
        Print(second("09:15:03"), 27_050, 700, Side.SELL),
    )
    replayed = Replayed({DAY: RecordedDay(27_000, trades=trades)}).until("09:20")

    assert replayed.bars() == {"09:15": (27_100, 27_150, 27_050, 27_050, 5_900)}


def test_a_bar_visits_the_extreme_that_it_moved_away_from_first() -> None:
    rising, falling = (RecordedBar(0, 10, 12, 9, close, 1_000) for close in (11, 9))

    assert walked(rising) == [10, 9, 12, 11]
    assert walked(falling) == [10, 12, 9]


def test_a_bar_of_fewer_lots_than_prices_plays_its_last() -> None:
    assert walked(RecordedBar(0, 10, 11, 10, 11, 100)) == [11]


def test_prints_add_up_whatever_the_random_stream() -> None:
    spans = day_spans(RULEBOOK, Exchange.HOSE, DAY)
    for seed in range(30):
        made = prints_of(recorded(HOSE_DAY), spans, Random(seed), round)
        assert sum(each.quantity for each in made) == sum(bar[4] for bar in HOSE_DAY.values())
        assert all(each.quantity % 100 == 0 < each.quantity for each in made)
