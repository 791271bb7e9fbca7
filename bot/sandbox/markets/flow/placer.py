"""Places the order flow's orders in one symbol by tick, and takes the oldest back.

A tick is an index into `prices`, the day's prices from floor to ceiling. A price beyond them is not
placed at all: the exchange would refuse it.
"""

from collections import deque
from datetime import UTC, datetime
from typing import Final

from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.venue import ALL_LEVELS
from bot.sandbox.markets.source import ORDER_MAX, CrowdOrders, MarketAccess

_PIECES_MAX: Final = 200
_KEPT_MAX: Final = 60
"""Orders that are left in the book; older ones are taken back."""


class OrderPlacer:
    """Places and takes back orders of one symbol."""

    def __init__(self, symbol: str, access: MarketAccess) -> None:
        self._symbol, self._venue = symbol, access.venue
        self._orders = CrowdOrders(symbol, access)
        self._kept: deque[str] = deque()
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self.prices: tuple[int, ...] = ()
        self._ticks: dict[int, int] = {}

    def begin_day(self, prices: tuple[int, ...]) -> None:
        """Take the prices of a new day; whatever waited has lapsed."""
        self.prices = prices
        self._ticks = {price: tick for tick, price in enumerate(prices)}
        self._kept.clear()

    def move_to(self, at: datetime) -> None:
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
        depth = self._venue.depth(self._symbol, ALL_LEVELS)
        return sum(level.volume for level in (depth.bids if side is Side.BUY else depth.asks))

    def give(self, side: Side, tick: int, quantity: int) -> None:
        """Place a limit order, in pieces if it is larger than the exchange takes."""
        if 0 <= tick < len(self.prices):
            most = min(quantity, _PIECES_MAX * ORDER_MAX)
            level = side, self.prices[tick]
            self._kept.extend(self._orders.submit_in_pieces(level, most, self._at))

    def give_unpriced(self, side: Side, quantity: int, order_type: OrderType) -> None:
        most = min(quantity, ORDER_MAX)
        self._orders.submit(side, most, None, self._at, order_type=order_type)

    def trim(self) -> None:
        """Take the oldest orders back while there are too many."""
        while len(self._kept) > _KEPT_MAX:
            self._orders.cancel(self._kept.popleft(), self._at)
