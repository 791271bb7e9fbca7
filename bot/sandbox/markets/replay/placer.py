"""Puts recorded trades into the venue, one by one, with a modelled depth around them.

Files hold no depth: five levels a side are modelled, each of about `level_volume`, the best of
them next to the price that traded last. A recorded trade finds its price free of what we modelled
better, as much waiting at it as it takes, and an aggressor who takes it; so where nobody else has
an order the tape shows just that trade. An order of ours that waits at that price is filled in its
turn, one that is better priced is filled first, and the recorded trade has less. A level that an
order of ours has taken away is there again with the next trade.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Final

from bot.domain.order import OrderType, Side
from bot.domain.ticks import TickTable
from bot.sandbox.exchange.event import VenueEvent
from bot.sandbox.exchange.grid import PriceGrid
from bot.sandbox.exchange.order import CROWD, NewOrder
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.flow.placer import LOT, ORDER_MAX
from bot.sandbox.markets.replay.data import Print

LEVELS: Final = 5
_SPREAD: Final = 0.6
"""Of the logarithm of a modelled level."""
_NO_PRICES: Final = PriceGrid(TickTable(((None, 1),)), (), frozenset(), 0, 0)
_BUY: Final = Side.BUY
_OTHER: Final = {Side.BUY: Side.SELL, Side.SELL: Side.BUY}

Deliver = Callable[[list[VenueEvent]], None]
Level = tuple[Side, int]


class ReplayPlacer:
    """The other investors of one replayed symbol."""

    def __init__(self, symbol: str, level_volume: int, *, venue: Venue, deliver: Deliver) -> None:
        self._symbol, self._level_volume = symbol, level_volume
        self._venue, self._deliver = venue, deliver
        self._resting: dict[Level, list[str]] = {}
        self._number = 0
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self._grid = _NO_PRICES
        self._random = Random(0)

    def move_to(self, at: datetime) -> None:
        """Act at that instant from now on."""
        self._at = at

    def begin_day(self, grid: PriceGrid, random: Random) -> None:
        """Take the prices of a new day; whatever waited has lapsed."""
        self._grid, self._random = grid, random
        self._resting.clear()

    def trade(self, made: Print) -> None:
        """Let a recorded trade happen between two others, or with us where we come first."""
        taking = self._aggressor(made)
        self.clear(made.price, but=_OTHER[taking])
        self._have((_OTHER[taking], made.price), made.quantity)
        for order_id in self._submit(taking, made.price, made.quantity):
            if self._venue.is_live(order_id):
                self._deliver(self._venue.cancel(order_id, self._at))
        self._surround(made.price, waiting=_OTHER[taking])

    def _aggressor(self, made: Print) -> Side:
        """Return who took; at the band's end only those who come from the other side can."""
        if made.price >= self._grid.ceiling:
            return Side.SELL
        return Side.BUY if made.price <= self._grid.floor else made.aggressor or Side.BUY

    def gather(self, side: Side, price: int, quantity: int) -> None:
        """Put an order into an auction."""
        self._submit(side, price, quantity)

    def clear(self, price: int, but: Side | None = None) -> None:
        """Take back what we modelled and what would trade at `price`; `but` may stay just at it."""
        for level in list(self._resting):
            side, at = level
            if (at > price if side is _BUY else at < price) or (at == price and side is not but):
                self._take_back(level)

    def _surround(self, price: int, *, waiting: Side) -> None:
        """Model the depth: `waiting` has its best level at `price`, the other side a tick away."""
        for side, step in ((Side.BUY, self._grid.down), (Side.SELL, self._grid.up)):
            at = price
            for number in range(LEVELS + 1):
                if number or side is waiting:
                    self._have((side, at), 1)
                following = step(at)
                if following == at:
                    break
                at = following

    def _have(self, level: Level, least: int) -> None:
        """See to it that at least so much of ours waits there; an empty level is filled."""
        waiting = self._waiting(level)
        if waiting >= least:
            return
        usual = self._level_volume * self._random.lognormvariate(-_SPREAD * _SPREAD / 2, _SPREAD)
        wanted = least - waiting if least > 1 else max(LOT, round(usual / LOT) * LOT)
        given = self._submit(level[0], level[1], wanted)
        self._resting.setdefault(level, []).extend(given)

    def _waiting(self, level: Level) -> int:
        orders = map(self._venue.order, self._resting.get(level, ()))
        live = [order for order in orders if order is not None]
        if live:
            self._resting[level] = [order.order_id for order in live]
        else:
            self._resting.pop(level, None)
        return sum(order.remaining for order in live)

    def _take_back(self, level: Level) -> None:
        for order_id in self._resting.pop(level):
            if self._venue.is_live(order_id):
                self._deliver(self._venue.cancel(order_id, self._at))

    def _submit(self, side: Side, price: int, quantity: int) -> list[str]:
        """Give an order, in pieces where it is larger than the exchange takes; return the ids."""
        given = []
        for start in range(0, quantity, ORDER_MAX):
            self._number += 1
            order_id = f"{self._symbol}-{self._number}"
            piece = min(ORDER_MAX, quantity - start)
            order = NewOrder(order_id, CROWD, self._symbol, side, piece, OrderType.LO, price)
            self._deliver(self._venue.submit(order, self._at))
            given.append(order_id)
        return given
