"""Our resting orders' places in the real market's queue, as far as it can be seen. Pure.

An order queues behind all that was displayed at its price when it came. A price beyond the
displayed levels shows nothing: there the whole volume that is first displayed counts as ahead.
Displayed volume below what is ahead moves us forward, as cancels are taken from behind us first; a
trade that the depth has shown already is not counted twice when the quote reports it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.domain.instrument import BOARD_LOT
from bot.domain.order import Side
from bot.domain.quote import Depth
from bot.sandbox.exchange.message import LiveOrder

DISPLAYED_LEVELS: Final = 3
"""A side that shows fewer has no more."""
QUOTE_AGE_MAX: Final = timedelta(seconds=2)
"""An order that came later than this after a quote has its first trades in the quote after next:
those in the next quote may be older than the order."""


@dataclass(slots=True)
class Place:
    """One order's place. `ahead` None: beyond what has ever been displayed since it came.

    `moved` is by how much displayed depth has moved it forward since the last quote.
    """

    order: LiveOrder
    ahead: int | None
    moved: int = 0
    counts_next: bool = True


class Queue:
    """The places of our resting even-lot orders in one symbol, in the order in which they came."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._quoted_at: datetime | None = None
        self._volume: int | None = None

    def settle(self, orders: Iterable[LiveOrder], depth: Depth | None, at: datetime) -> None:
        """Update the places to the orders that rest now; new ones queue behind `depth`."""
        is_quoted = self._quoted_at is not None and at - self._quoted_at <= QUOTE_AGE_MAX
        before, self._places = self._places, {}
        for order in orders:
            place = before.get(order.order_id)
            old = place and place.order
            # Another price or a greater quantity takes a new place in time.
            if place and old and old.price == order.price and order.quantity <= old.quantity:
                place.order = order
            else:
                place = Place(order, _displayed(order, depth), counts_next=is_quoted)
            self._places[order.order_id] = place

    def see(self, depth: Depth) -> None:
        for place in self._places.values():
            displayed = _displayed(place.order, depth)
            if displayed is None:
                continue
            if place.ahead is not None:
                place.moved += max(0, place.ahead - displayed)
            place.ahead = displayed if place.ahead is None else min(place.ahead, displayed)

    def trade(self, last: int, volume: int, at: datetime) -> list[tuple[LiveOrder, int]]:
        """Take in a quote and return which orders it fills and by how many shares, best first.

        `volume` is the day's so far. All that was traded since the quote before counts at `last`.
        """
        growth = 0 if self._volume is None else volume - self._volume
        self._volume, self._quoted_at = volume, at
        fills, ours_before = [], {Side.BUY: 0, Side.SELL: 0}
        for place in self._places.values():
            side = place.order.side
            filled = _filled(place, last, growth, ours_before[side]) if growth > 0 else 0
            if filled:
                fills.append((place.order, filled))
            if place.order.price == last:
                ours_before[side] += filled
            place.moved, place.counts_next = 0, True
        return sorted(fills, key=lambda fill: -_eagerness(fill[0]))

    def start_phase(self) -> None:
        """Forget the volume: what an auction traded fills no resting order."""
        self._volume = self._quoted_at = None


def _filled(place: Place, last: int, growth: int, ours_before: int) -> int:
    """Return how much of an order `growth` shares traded at `last` fill, and move it forward."""
    order, sign = place.order, 1 if place.order.side is Side.BUY else -1
    if not place.counts_next:
        return 0
    if _eagerness(order) > sign * last:
        return order.remaining
    if order.price != last or place.ahead is None:
        return 0
    eaten = max(0, growth - place.moved)
    reached, place.ahead = eaten - place.ahead - ours_before, max(0, place.ahead - eaten)
    return min(order.remaining, max(0, reached) // BOARD_LOT * BOARD_LOT)


def _eagerness(order: LiveOrder) -> int:
    """Order prices of a side from better to worse: the greater, the better."""
    price = order.price or 0
    return price if order.side is Side.BUY else -price


def _displayed(order: LiveOrder, depth: Depth | None) -> int | None:
    """Return what is displayed at an order's price, None where the display does not reach."""
    if depth is None:
        return None
    levels = depth.bids if order.side is Side.BUY else depth.asks
    sign = 1 if order.side is Side.BUY else -1
    reaches = len(levels) < DISPLAYED_LEVELS or _eagerness(order) >= sign * levels[-1].price
    volumes = {level.price: level.volume for level in levels}
    return volumes.get(order.price or 0, 0) if reaches else None
