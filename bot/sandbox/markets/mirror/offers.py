"""What others offer us in one symbol: the displayed levels as orders of the crowd in our venue."""

from collections.abc import Callable, Mapping
from datetime import datetime

from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.event import VenueEvent
from bot.sandbox.exchange.order import CROWD, NewOrder
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.mirror.model import Level

Deliver = Callable[[list[VenueEvent]], None]


class Offers:
    """The crowd's orders of one symbol, each at most `order_max` shares.

    A level that showed the same volume before holds what we left of it; with `remembers_taken`
    False every showing offers it whole.
    """

    def __init__(
        self, symbol: str, venue: Venue, deliver: Deliver, *, order_max: int, remembers_taken: bool
    ) -> None:
        self._symbol = symbol
        self._venue = venue
        self._deliver = deliver
        self._order_max = order_max
        self._remembers_taken = remembers_taken
        self._orders: dict[Level, list[str]] = {}
        self._displayed: dict[Level, int] = {}
        self._left: dict[Level, int] = {}
        self._number = 0

    def show(self, wanted: Mapping[Level, int], at: datetime) -> None:
        """Offer these levels and no other; what crosses a resting order of ours trades with it."""
        for level in list(self._orders):
            if not (self._remembers_taken and wanted.get(level) == self._displayed[level]):
                self._take_out(level, at)
        for level, volume in wanted.items():
            if level not in self._orders:
                self._put(level, volume, at)

    def withdraw(self, at: datetime) -> None:
        """Offer nothing; what is left of each level is remembered."""
        for level in list(self._orders):
            self._take_out(level, at)

    def strike(self, side: Side, price: int, quantity: int, at: datetime) -> None:
        """Let somebody trade with our resting orders on `side` at `price`, past other people's.

        The levels of that side are offered again as they were.
        """
        levels = {level: self._displayed[level] for level in self._orders if level[0] is side}
        for level in levels:
            self._take_out(level, at)
        opposite = Side.SELL if side is Side.BUY else Side.BUY
        for order_id in self._submit((opposite, price), quantity, at):
            self._cancel(order_id, at)
        for level, volume in levels.items():
            self._orders[level] = self._submit(level, self._left[level], at)
            self._displayed[level] = volume

    def forget(self) -> None:
        """Remember nothing of the levels shown so far; they must be out of the venue."""
        self._orders, self._displayed, self._left = {}, {}, {}

    # ------------------------------------------------------------------------------ the venue

    def _put(self, level: Level, volume: int, at: datetime) -> None:
        is_known = self._remembers_taken and self._displayed.get(level) == volume
        self._displayed[level] = volume
        self._orders[level] = self._submit(level, self._left[level] if is_known else volume, at)

    def _take_out(self, level: Level, at: datetime) -> None:
        order_ids = self._orders.pop(level)
        live = (self._venue.order(order_id) for order_id in order_ids)
        self._left[level] = sum(order.remaining for order in live if order is not None)
        for order_id in order_ids:
            self._cancel(order_id, at)

    def _submit(self, level: Level, volume: int, at: datetime) -> list[str]:
        starts = range(0, volume, self._order_max)
        return [self._order(level, min(self._order_max, volume - start), at) for start in starts]

    def _order(self, level: Level, quantity: int, at: datetime) -> str:
        self._number += 1
        order_id = f"{self._symbol}~{self._number}"
        side, price = level
        order = NewOrder(order_id, CROWD, self._symbol, side, quantity, OrderType.LO, price)
        self._deliver(self._venue.submit(order, at))
        return order_id

    def _cancel(self, order_id: str, at: datetime) -> None:
        if self._venue.order(order_id) is not None:
            self._deliver(self._venue.cancel(order_id, at))
