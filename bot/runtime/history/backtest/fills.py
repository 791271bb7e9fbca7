"""What a bar fills of an order: the three models of docs/paper.md, over bars instead of depth.

A new order trades at the open of the next bar; resting orders fill inside a bar at their own limit;
an auction has one price. A bar does not show who was ahead of us, so that is modelled, entirely by
the constants below. Every function is pure and looks at one bar.

touch: completely, as soon as the bar reaches the limit; a taker pays the open.

depth: at most `SHARE_PERCENT` of the bar's volume; a taker pays one tick of spread.

queue: as depth, but a resting order fills only if the bar trades through its limit, or after the
shares ahead of it have traded at its price.

Polls see finished bars through the same model: the last price, and a depth around it.

In none of them does a buy fill if nobody sold below the ceiling, or a sale if nobody paid more than
the floor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import mul
from types import MappingProxyType
from typing import Final

from bot.domain.instrument import BOARD_LOT
from bot.domain.order import Side
from bot.domain.quote import Bar, Depth, DepthLevel, Quote
from bot.runtime.history.backtest.rows import DayRows
from bot.sandbox.exchange.day import PriceGrid
from bot.sandbox.exchange.market import DayTotals, SymbolMarket
from bot.sandbox.markets.mirror.model import FillName

SHARE_PERCENT: Final = 10
"""At most this much of a bar's volume, but always one board lot."""
OPENING_PERCENT: Final = 60
"""Share of the volume of a bar that holds the opening auction and more (as in
docs/market-files.md).
"""


@dataclass(frozen=True, slots=True)
class FillModel:
    """`is_whole`: any quantity at once. `ticks`: what a taker pays beyond the price shown.
    `has_queue`: a bar that only touches a limit first fills those ahead of us.
    """

    is_whole: bool
    ticks: int
    has_queue: bool

    def budget(self, volume: int) -> int | None:
        """Return how many of a bar's shares our orders may have; None: any number."""
        if self.is_whole:
            return None
        return max(volume * SHARE_PERCENT // 100 // BOARD_LOT * BOARD_LOT, BOARD_LOT)


MODELS: Final[Mapping[FillName, FillModel]] = MappingProxyType(
    {
        "touch": FillModel(is_whole=True, ticks=0, has_queue=False),
        "depth": FillModel(is_whole=False, ticks=1, has_queue=False),
        "queue": FillModel(is_whole=False, ticks=1, has_queue=True),
    }
)


def touch_of(last: int, grid: PriceGrid) -> tuple[int | None, int | None]:
    """Return the modelled bid and ask: the last price, and one tick above.

    At the ceiling there is no ask, at the floor no bid.
    """
    bid = last if last > grid.floor else None
    if last <= grid.floor:
        return bid, last
    return bid, grid.up(last) if last < grid.ceiling else None


def taking_price(model: FillModel, side: Side, price: int, grid: PriceGrid) -> int | None:
    """Return the price for an order that takes at once while `price` is shown; None:
    nobody offers.
    """
    if model.ticks == 0:
        is_locked = price >= grid.ceiling if side is Side.BUY else price <= grid.floor
        return None if is_locked else price
    bid, ask = touch_of(price, grid)
    return ask if side is Side.BUY else bid


def is_worth(side: Side, limit: int, price: int) -> bool:
    """Return whether a limit allows a price."""
    return price <= limit if side is Side.BUY else price >= limit


def best_of(bar: Bar, side: Side) -> int:
    """Return the bar's best price for that side, which has to reach the order's limit."""
    return bar.low if side is Side.BUY else bar.high


def is_reached(side: Side, limit: int, bar: Bar, grid: PriceGrid) -> bool:
    """Return whether the bar reaches a limit, other than at the locked end of the band."""
    best = best_of(bar, side)
    is_locked = best >= grid.ceiling if side is Side.BUY else best <= grid.floor
    return not is_locked and is_worth(side, limit, best)


def traded_at_limit(bar: Bar, grid: PriceGrid) -> int:
    """Return the shares traded at a bar's lowest or highest price, spread evenly over
    its prices.
    """
    return bar.volume // (1 + (bar.high - bar.low) // grid.ticks.tick_at(bar.high))


def totals_after(totals: DayTotals, day: DayRows, first: int, end: int) -> DayTotals:
    """Return the totals with the bars of the rows from `first` up to, not including, `end`."""
    opens, highs, lows, closes, volumes = (each[first:end] for each in day.rows.columns[1:])
    if not any(volumes):
        return totals
    if 0 in volumes:
        columns = zip(opens, highs, lows, closes, volumes, strict=True)
        traded = [row for row in columns if row[-1]]
        opens, highs, lows, closes, volumes = map(list, zip(*traded, strict=True))
    volume, value = totals.volume + sum(volumes), totals.value + sum(map(mul, closes, volumes))
    made = replace(totals, volume=volume, value=value)
    for price in (opens[0], *map(min, (opens, lows, closes)), *map(max, (opens, highs, closes))):
        made.record(price, 0)
    made.record(closes[-1], 0)
    return made


def quote_of(market: SymbolMarket, totals: DayTotals, at: datetime) -> Quote:
    """Return the quote of a symbol with these totals of the day so far."""
    listing, band = market.listing, market.band
    last, reference = totals.last or listing.reference, listing.reference
    symbol, exchange = listing.instrument.symbol, listing.instrument.exchange
    frame = (last, reference, band.ceiling, band.floor)
    return Quote(symbol, exchange, *frame, totals.open, totals.high, totals.low, totals.volume, at)


def depth_of(market: SymbolMarket, totals: DayTotals, at: datetime) -> Depth:
    """Return a depth of one level on each side, around the last price."""
    listing = market.listing
    bid, ask = touch_of(totals.last or listing.reference, market.grid)
    shares = max(totals.volume, 1)
    bids = () if bid is None else (DepthLevel(bid, shares),)
    asks = () if ask is None else (DepthLevel(ask, shares),)
    return Depth(listing.instrument.symbol, bids, asks, at)
