"""The three fill models for our orders against the market that a broker shows.

Each translates what is displayed into orders of others in our own venue, which then matches by
price and time, within phase, tick, band and lot. Their assumptions:

touch: we take any quantity at the best displayed price of the other side, and a resting order is
filled completely as soon as that price reaches its limit.

depth: we take what each displayed level holds, and what we took from a level is not offered again
until its displayed volume changes. A resting order is filled by what the other side displays at its
limit or better, level by level.

queue: taking is as in depth. A resting order queues behind the volume displayed at its price when
it arrived; shares traded at that price reduce the queue first and then fill us, a trade through our
price fills us completely, and volume that vanishes without a trade is assumed to have been behind
us first. A price beyond the displayed levels shows nothing, so the volume first displayed there
counts as ahead. A trade already seen in the depth is not counted twice when the quote reports it.

A resting order trades at its own limit, as on the exchange. All three are blind to: levels beyond
the displayed three; what happens between two polls (all shares traded between two quotes count at
the later price); our own effect on others; odd lots, whose book is not shown (such orders wait and
lapse); after-hours orders; other investors' unpriced auction orders. An auction is uncrossed on the
levels displayed last before its end; among equals at its price we come first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Literal

from bot.domain.instrument import BOARD_LOT
from bot.domain.order import Side
from bot.domain.quote import Depth
from bot.sandbox.exchange.message import LiveOrder

Offered = Mapping[tuple[Side, int], int]
"""Shares offered at each level, by side and price."""
FillName = Literal["touch", "depth", "queue"]
WITHOUT_END: Final = 5_000_000
"""Shares that `touch` offers at the best price: ten times the largest order that HOSE takes."""


@dataclass(frozen=True, slots=True)
class FillModel:
    """One fill model. `offers` translates the displayed depth into shares offered by level.

    `remembers_taken`: what we took from a level stays taken while it shows the same volume.
    `has_queue`: resting orders wait behind what was displayed, and trades fill them.
    """

    offers: Callable[[Depth], Offered]
    remembers_taken: bool
    has_queue: bool


def at_the_touch(depth: Depth) -> Offered:
    """Offer any quantity at the best price of each side."""
    best = {Side.BUY: depth.bid, Side.SELL: depth.ask}
    return {(side, price): WITHOUT_END for side, price in best.items() if price is not None}


def as_displayed(depth: Depth) -> Offered:
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


DISPLAYED_LEVELS: Final = 3
"""A side that shows fewer levels has no more."""
QUOTE_AGE_MAX: Final = timedelta(seconds=2)
"""If an order came later than this after a quote, trades count for it only from the quote after
next: those in the next quote may be older than the order.
"""


@dataclass(slots=True)
class QueuePosition:
    """One order's position. `ahead` None: its price has not been displayed since it came.

    `moved` is how far displayed depth has moved it forward since the last quote.
    """

    order: LiveOrder
    ahead: int | None
    moved: int = 0
    counts_next: bool = True


class Queue:
    """The queue positions of our resting even-lot orders in one symbol, oldest first."""

    def __init__(self) -> None:
        self._positions: dict[str, QueuePosition] = {}
        self._quoted_at: datetime | None = None
        self._volume: int | None = None

    def settle(self, orders: Iterable[LiveOrder], depth: Depth | None, at: datetime) -> None:
        """Update the positions to the orders resting now; new ones queue behind `depth`."""
        is_quoted = self._quoted_at is not None and at - self._quoted_at <= QUOTE_AGE_MAX
        before, self._positions = self._positions, {}
        for order in orders:
            position = before.get(order.order_id)
            old = position and position.order
            # Another price or a greater quantity takes a new position in time.
            if position and old and old.price == order.price and order.quantity <= old.quantity:
                position.order = order
            else:
                position = QueuePosition(order, _displayed(order, depth), counts_next=is_quoted)
            self._positions[order.order_id] = position

    def see(self, depth: Depth) -> None:
        for position in self._positions.values():
            displayed = _displayed(position.order, depth)
            if displayed is None:
                continue
            if position.ahead is not None:
                position.moved += max(0, position.ahead - displayed)
            position.ahead = displayed if position.ahead is None else min(position.ahead, displayed)

    def trade(self, last: int, volume: int, at: datetime) -> list[tuple[LiveOrder, int]]:
        """Process a quote and return the orders it fills, with their shares, best first.

        `volume` is the day's so far. Everything traded since the previous quote counts at `last`. A
        quote with less is an older one that came late: its trades have been counted.
        """
        if self._volume is not None and volume < self._volume:
            return []
        growth = 0 if self._volume is None else volume - self._volume
        self._volume, self._quoted_at = volume, at
        fills, ours_before = [], {Side.BUY: 0, Side.SELL: 0}
        for position in self._positions.values():
            side = position.order.side
            filled = _filled(position, last, growth, ours_before[side]) if growth > 0 else 0
            if filled:
                fills.append((position.order, filled))
            if position.order.price == last:
                ours_before[side] += filled
            position.moved, position.counts_next = 0, True
        return sorted(fills, key=lambda fill: -_eagerness(fill[0]))

    def start_phase(self) -> None:
        """Reset the volume: what an auction traded fills no resting order."""
        self._volume = self._quoted_at = None


def _filled(position: QueuePosition, last: int, growth: int, ours_before: int) -> int:
    """Return how much of an order `growth` shares traded at `last` fill, and move it forward."""
    order, sign = position.order, 1 if position.order.side is Side.BUY else -1
    if not position.counts_next:
        return 0
    if _eagerness(order) > sign * last:
        return order.remaining
    if order.price != last or position.ahead is None:
        return 0
    eaten = max(0, growth - position.moved)
    reached, position.ahead = eaten - position.ahead - ours_before, max(0, position.ahead - eaten)
    return min(order.remaining, max(0, reached) // BOARD_LOT * BOARD_LOT)


def _eagerness(order: LiveOrder) -> int:
    """Sort key for prices of a side: the greater, the better."""
    price = order.price or 0
    return price if order.side is Side.BUY else -price


def _displayed(order: LiveOrder, depth: Depth | None) -> int | None:
    """Return the volume displayed at an order's price, None if the display does not reach it."""
    if depth is None:
        return None
    levels = depth.bids if order.side is Side.BUY else depth.asks
    sign = 1 if order.side is Side.BUY else -1
    reaches = len(levels) < DISPLAYED_LEVELS or _eagerness(order) >= sign * levels[-1].price
    volumes = {level.price: level.volume for level in levels}
    return volumes.get(order.price or 0, 0) if reaches else None
