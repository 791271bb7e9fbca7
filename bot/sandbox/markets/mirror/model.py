"""The three ways in which orders of ours are filled against the market that a broker shows.

Each is a translation of what is displayed into what others offer in our own venue; the venue then
matches, by price and time, within phase, tick, band and lot. What each assumes:

touch: we take any quantity at the best displayed price of the other side, and a resting order is
filled whole as soon as that price reaches its limit.

depth: we take what each displayed level holds, and what we took of a level is not offered again
until it shows another volume. A resting order is filled by what the other side displays at its
limit or better, level by level.

queue: taking is as in depth. A resting order queues behind what was displayed at its price when it
came; shares traded at that price eat the queue first and then fill us, a trade through our price
fills us whole, and volume that goes without a trade is taken to have been behind us first.

A resting order trades at its own limit, as on the exchange. All three are blind to: levels beyond
the displayed three; what happens between two polls (all shares traded between two quotes count at
the later one's price); our own effect on others; odd lots, whose book is not shown (such orders
wait and lapse); after-hours orders; other people's orders without a price in an auction. An auction
is uncrossed on the levels displayed last before its end; among equals at its price we are first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from bot.domain.instrument import BOARD_LOT
from bot.domain.order import Side
from bot.domain.quote import Depth

if TYPE_CHECKING:  # the settings know these names, and need not import a venue for them
    from bot.sandbox.markets.source import Level

FillName = Literal["touch", "depth", "queue"]
WITHOUT_END: Final = 5_000_000
"""Shares that `touch` offers at the best price: ten orders of the greatest size that HOSE takes."""


@dataclass(frozen=True, slots=True)
class FillModel:
    """One of the three ways. `offers` translates the displayed depth into shares offered by level.

    `remembers_taken`: what we took of a level stays taken while it shows the same volume.
    `has_queue`: resting orders wait behind what was displayed, and trades fill them.
    """

    offers: "Callable[[Depth], Mapping[Level, int]]"
    remembers_taken: bool
    has_queue: bool


def at_the_touch(depth: Depth) -> "Mapping[Level, int]":
    """Offer any quantity at the best price of each side."""
    best = {Side.BUY: depth.bid, Side.SELL: depth.ask}
    return {(side, price): WITHOUT_END for side, price in best.items() if price is not None}


def as_displayed(depth: Depth) -> "Mapping[Level, int]":
    """Offer each level's displayed volume, rounded down to whole board lots."""
    sides = ((Side.BUY, depth.bids), (Side.SELL, depth.asks))
    return {
        (side, level.price): lots
        for side, levels in sides
        for level in levels
        if (lots := level.volume // BOARD_LOT * BOARD_LOT)
    }


MODELS: Final[Mapping[FillName, FillModel]] = MappingProxyType(
    {
        "touch": FillModel(at_the_touch, remembers_taken=False, has_queue=False),
        "depth": FillModel(as_displayed, remembers_taken=True, has_queue=False),
        "queue": FillModel(as_displayed, remembers_taken=True, has_queue=True),
    }
)
