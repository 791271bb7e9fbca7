"""What others offer us in one symbol: the displayed levels as orders of the crowd in our venue."""

from collections.abc import Mapping
from datetime import datetime

from bot.domain.order import Side
from bot.sandbox.markets.source import CrowdOrders, Level, MarketAccess


class Offers:
    """The crowd's orders of one symbol, each at most `order_max` shares.

    A level that shows the same volume as before holds what we left of it; with `remembers_taken`
    False every showing offers it whole.
    """

    def __init__(
        self, symbol: str, access: MarketAccess, *, order_max: int, remembers_taken: bool
    ) -> None:
        self._venue = access.venue
        self._crowd = CrowdOrders(symbol, access, mark="~")
        self._order_max = order_max
        self._remembers_taken = remembers_taken
        self._orders: dict[Level, list[str]] = {}
        self._displayed: dict[Level, int] = {}
        self._left: dict[Level, int] = {}

    def show(self, wanted: Mapping[Level, int], at: datetime) -> None:
        """Offer these levels and no other; what crosses a resting order of ours trades with it."""
        for level in list(self._orders):
            if not (self._remembers_taken and wanted.get(level) == self._displayed[level]):
                self._take_out(level, at)
        for level, volume in wanted.items():
            if level not in self._orders:
                is_known = self._remembers_taken and self._displayed.get(level) == volume
                self._displayed[level] = volume
                self._put(level, self._left[level] if is_known else volume, at)

    def withdraw(self, at: datetime) -> None:
        """Offer nothing; what is left of each level is remembered."""
        for level in list(self._orders):
            self._take_out(level, at)

    def strike(self, side: Side, price: int, quantity: int, at: datetime) -> None:
        """Let somebody trade with our resting orders on `side` at `price`, past other people's.

        The levels of that side are offered again as they were.
        """
        levels = [level for level in self._orders if level[0] is side]
        for level in levels:
            self._take_out(level, at)
        striking = (Side.SELL if side is Side.BUY else Side.BUY, price)
        for order_id in self._submit(striking, quantity, at):
            self._crowd.cancel(order_id, at)
        for level in levels:
            self._put(level, self._left[level], at)

    def forget(self) -> None:
        """Forget the levels shown so far; they must be out of the venue."""
        self._orders, self._displayed, self._left = {}, {}, {}

    def _put(self, level: Level, volume: int, at: datetime) -> None:
        self._orders[level] = self._submit(level, volume, at)

    def _take_out(self, level: Level, at: datetime) -> None:
        order_ids = self._orders.pop(level)
        live = (self._venue.order(order_id) for order_id in order_ids)
        self._left[level] = sum(order.remaining for order in live if order is not None)
        for order_id in order_ids:
            self._crowd.cancel(order_id, at)

    def _submit(self, level: Level, volume: int, at: datetime) -> list[str]:
        return self._crowd.submit_in_pieces(level, volume, at, piece_max=self._order_max)
