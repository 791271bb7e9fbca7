"""The hand of the order flow in one symbol: gives orders by tick, takes the oldest back.

A tick is an index into `prices`, the day's prices from floor to ceiling. A price beyond them is not
given at all: the exchange would refuse it.
"""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.event import VenueEvent
from bot.sandbox.exchange.order import CROWD, NewOrder
from bot.sandbox.exchange.venue import Venue

LOT: Final = 100
ORDER_MAX: Final = 500_000
"""HOSE takes no larger order; the flow keeps to it everywhere."""
_PIECES_MAX: Final = 200
_ALL_LEVELS: Final = 10_000

Deliver = Callable[[list[VenueEvent]], None]


class OrderPlacer:
    """Gives and takes orders; what the venue answers goes to `deliver`."""

    def __init__(self, symbol: str, *, venue: Venue, deliver: Deliver, kept_max: int) -> None:
        self._symbol = symbol
        self._venue = venue
        self._deliver = deliver
        self._kept_max = kept_max
        self._kept: deque[str] = deque()
        self._number = 0
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self.prices: tuple[int, ...] = ()
        self._ticks: dict[int, int] = {}

    def begin_day(self, prices: tuple[int, ...]) -> None:
        """Take the prices of a new day; whatever waited has lapsed."""
        self.prices = prices
        self._ticks = {price: tick for tick, price in enumerate(prices)}
        self._kept.clear()

    def move_to(self, at: datetime) -> None:
        """Act at that instant from now on."""
        self._at = at

    def touch(self) -> tuple[int | None, int | None]:
        """Return the ticks of the best bid and ask, None for an empty side."""
        bid, ask = self._venue.touch(self._symbol)
        return (
            None if bid is None else self._ticks[bid],
            None if ask is None else self._ticks[ask],
        )

    def waiting(self, side: Side) -> int:
        """Return all shares that wait on a side at a price."""
        depth = self._venue.depth(self._symbol, _ALL_LEVELS)
        return sum(level.volume for level in (depth.bids if side is Side.BUY else depth.asks))

    def give(self, side: Side, tick: int, quantity: int) -> None:
        """Give a limit order, in pieces if it is larger than the exchange takes."""
        if not 0 <= tick < len(self.prices):
            return
        for _ in range(_PIECES_MAX):
            piece = min(quantity, ORDER_MAX)
            self._kept.append(self._submit(side, piece, OrderType.LO, self.prices[tick]))
            quantity -= piece
            if quantity <= 0:
                return

    def give_unpriced(self, side: Side, quantity: int, order_type: OrderType) -> None:
        """Give an ATO, ATC or PLO order."""
        self._submit(side, min(quantity, ORDER_MAX), order_type, None)

    def trim(self) -> None:
        """Take the oldest orders back while there are too many; ended ones are just forgotten."""
        while len(self._kept) > self._kept_max:
            order_id = self._kept.popleft()
            if self._venue.is_live(order_id):
                self._deliver(self._venue.cancel(order_id, self._at))

    def _submit(self, side: Side, quantity: int, order_type: OrderType, price: int | None) -> str:
        self._number += 1
        order_id = f"{self._symbol}-{self._number}"
        order = NewOrder(order_id, CROWD, self._symbol, side, quantity, order_type, price)
        self._deliver(self._venue.submit(order, self._at))
        return order_id
