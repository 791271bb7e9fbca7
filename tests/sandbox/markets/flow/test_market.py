"""The order flow: believable, the same for a seed, and on its band day after day."""

from collections import Counter
from datetime import date, datetime, time
from typing import Any

import pytest
from pydantic import ValidationError

from bot.domain.instrument import EXCHANGE_TZ, Lot
from bot.sandbox.exchange.message import Listing, OrderRefused, Traded, VenueEvent
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.flow.market import flow_market
from bot.sandbox.markets.source import MarketAccess
from bot.sandbox.scenario import Scenario, SymbolScript
from tests.sandbox.client import RULEBOOK

DAY = date(2026, 11, 19)
NEXT = date(2026, 11, 20)
MONDAY = date(2026, 11, 23)
HPG = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "level_volume": 2_000}
SHS = {"symbol": "SHS", "exchange": "HNX", "reference": 21_500, "level_volume": 2_000}
VEA = {"symbol": "VEA", "exchange": "UPCOM", "reference": 38_500, "level_volume": 500}
LIQUID = {"symbol": "SSI", "exchange": "HOSE", "reference": 33_500, "level_volume": 60_000}


class Played:
    """A venue with nobody in it but the flow, and what happened there."""

    def __init__(self, *symbols: dict[str, Any], start: str = "08:59:55", seed: int = 7) -> None:
        given = [{"flow": {}} | symbol for symbol in symbols]
        data = {"day": DAY.isoformat(), "start": start, "seed": seed, "symbols": given}
        played = Scenario.model_validate(data)
        listings = [Listing(script.instrument, script.reference) for script in played.symbols]
        self.venue = Venue(RULEBOOK, listings, start=played.starts_at)
        self.events: list[VenueEvent] = []
        self.flow = flow_market(
            played,
            played.symbols,
            MarketAccess(RULEBOOK, self.venue, self.events.extend),
        )

    def until(self, local: str, day: date = DAY) -> "Played":
        end = datetime.combine(day, time.fromisoformat(local), EXCHANGE_TZ)
        while (due := min(self.flow.next_due(), self.venue.next_boundary(self.venue.now))) <= end:
            self.events += self.venue.advance(due)
            while self.flow.next_due() <= due:
                self.flow.run_next()
        self.events += self.venue.advance(end)
        return self

    def trades(self, lot: Lot = Lot.EVEN) -> list[Traded]:
        return [each for each in self.events if isinstance(each, Traded) and each.lot is lot]

    def volume(self, start: str, end: str) -> int:
        low, high = time.fromisoformat(start), time.fromisoformat(end)
        return sum(
            each.quantity
            for each in self.trades()
            if low <= each.at.astimezone(EXCHANGE_TZ).time() < high
        )


def test_no_order_of_the_flow_is_ever_refused() -> None:
    played = Played(HPG, SHS, VEA).until("15:30", NEXT)

    assert not [each for each in played.events if isinstance(each, OrderRefused)]
    assert {each.symbol for each in played.trades()} == {"HPG", "SHS", "VEA"}


def test_the_same_seed_trades_the_same_however_it_is_advanced() -> None:
    whole = Played(HPG, SHS).until("11:00")
    sliced = Played(HPG, SHS)
    for minute in range(60):
        sliced.until(f"09:{minute:02}:07")
    sliced.until("11:00")

    assert sliced.events == whole.events


def test_another_seed_trades_otherwise() -> None:
    assert Played(HPG).until("10:00").events != Played(HPG, seed=8).until("10:00").events


def test_an_added_symbol_leaves_the_others_as_they_were() -> None:
    alone = Played(HPG).until("10:00")
    accompanied = Played(VEA, HPG).until("10:00")

    assert [each for each in accompanied.trades() if each.symbol == "HPG"] == alone.trades()


def test_every_day_is_on_the_band_of_its_own_reference() -> None:
    up = {"flow": {"days": ["limit_up", "limit_up", "limit_up"]}}
    played = Played(HPG | up)

    closes = []
    for day in (DAY, NEXT, MONDAY):
        board = played.until("15:30", day).venue.board("HPG")
        closes.append((board.reference, board.close, board.ceiling))

    assert closes == [(27_000, 28_850, 28_850), (28_850, 30_850, 30_850), (30_850, 33_000, 33_000)]
    assert not [each for each in played.events if isinstance(each, OrderRefused)]


@pytest.mark.parametrize("symbol", [HPG, SHS, VEA], ids=lambda each: each["exchange"])
def test_a_limit_up_day_ends_with_no_offer_and_a_queue_at_the_ceiling(
    symbol: dict[str, Any],
) -> None:
    played = Played(symbol | {"flow": {"days": ["limit_up"]}}).until("14:29")

    board, depth = played.venue.board(symbol["symbol"]), played.venue.depth(symbol["symbol"])
    assert board.last == board.high == board.ceiling
    assert depth.asks == ()
    assert depth.bids[0].price == board.ceiling
    assert depth.bids[0].volume > symbol["level_volume"]


def test_a_limit_down_day_ends_with_no_bid_and_a_queue_at_the_floor() -> None:
    played = Played(HPG | {"flow": {"days": ["limit_down"]}}).until("14:44")

    board, depth = played.venue.board("HPG"), played.venue.depth("HPG")
    assert board.last == board.low == board.floor
    assert depth.bids == ()
    assert depth.asks[0].price == board.floor


def test_a_named_day_moves_as_its_name_says() -> None:
    moved = {}
    for kind in ("up", "down"):
        board = Played(HPG | {"flow": {"days": [kind], "daily_pct": 0.3}}).until("15:00").venue
        close = board.board("HPG").close
        assert close is not None
        moved[kind] = close - 27_000

    assert moved["up"] >= 100
    assert moved["down"] <= -100


def test_a_liquid_symbol_has_a_spread_of_one_tick_and_three_levels() -> None:
    played = Played(LIQUID | {"flow": {"days": ["quiet"]}})
    spreads: Counter[int] = Counter()
    for minute in range(16, 46):
        depth = played.until(f"09:{minute}:30").venue.depth("SSI")
        assert min(len(depth.bids), len(depth.asks)) == 3
        spreads[(depth.asks[0].price - depth.bids[0].price) // 50] += 1

    assert spreads[1] >= 20


def test_the_day_is_busy_at_its_ends_and_still_over_lunch() -> None:
    played = Played(SHS | {"flow": {"days": ["quiet"]}}).until("15:30")
    whole = played.volume("09:00", "15:01")

    assert played.volume("11:30", "13:00") == 0
    assert played.volume("14:00", "14:30") > played.volume("11:00", "11:30")
    assert 0.02 < played.volume("14:45", "14:46") / whole < 0.15
    assert played.volume("14:55", "15:01") > 0, "after-hours orders trade at the close"


def test_sizes_are_whole_lots_with_a_heavy_tail_and_some_odd_lots_trade() -> None:
    played = Played(LIQUID).until("10:30")

    sizes = sorted(each.quantity for each in played.trades())
    assert all(size % 100 == 0 for size in sizes)
    assert sizes[-1] > 8 * sizes[len(sizes) // 2]
    assert all(0 < each.quantity < 100 for each in played.trades(Lot.ODD))
    assert played.trades(Lot.ODD)


def test_a_first_trade_far_off_leaves_the_price_where_it_was() -> None:
    """On HNX, without an opening auction, about every seventh day begins so."""
    strayed = [Played(SHS, seed=seed).until("09:00:00") for seed in range(12)]
    first = [(played, played.trades()[0].price) for played in strayed if played.trades()]
    far = [played for played, price in first if abs(price / 21_500 - 1) > 0.06]

    assert far
    for played in far:
        later = played.until("09:10").trades()[-1].price
        assert abs(later / 21_500 - 1) < 0.05


def test_a_market_that_starts_within_the_day_has_a_book_at_once() -> None:
    played = Played(HPG, start="10:30:00").until("10:30:01")

    depth = played.venue.depth("HPG")
    assert len(depth.bids) == len(depth.asks) == 3


def test_a_symbol_has_a_flow_or_a_script() -> None:
    both = HPG | {"flow": {}, "path": [{"at": "10:00", "price": 27_500}]}

    with pytest.raises(ValidationError, match="a symbol has either flow"):
        SymbolScript.model_validate(both)
