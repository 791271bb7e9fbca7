"""Plays recorded trades into the venue, one by one, with a modelled depth around them.

Files hold no depth: five levels a side are modelled, each of about `level_volume`, the best of
them next to the price that traded last. A recorded trade finds its price free of what we modelled
better, as much waiting at it as it takes, and an aggressor who takes it; so where nobody else has
an order the tape shows just that trade. An order of ours that waits at that price is filled in its
turn, one that is better priced is filled first, and the recorded trade has less. A level that an
order of ours has taken away is there again with the next trade.
"""

from datetime import UTC, datetime
from random import Random
from typing import Final

from bot.domain.instrument import BOARD_LOT
from bot.domain.order import Side
from bot.domain.venue import TickTable
from bot.sandbox.exchange.day import PriceGrid
from bot.sandbox.markets.replay.data import Print
from bot.sandbox.markets.source import OTHER, CrowdOrders, Level, MarketAccess

_LEVELS: Final = 5
_SPREAD: Final = 0.6
"""Of the logarithm of a modelled level."""
_NO_PRICES: Final = PriceGrid(TickTable(((None, 1),)), (), frozenset(), 0, 0)


class ReplayPlacer:
    def __init__(self, symbol: str, level_volume: int, access: MarketAccess) -> None:
        self._level_volume, self._venue = level_volume, access.venue
        self._orders = CrowdOrders(symbol, access)
        self._resting: dict[Level, list[str]] = {}
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self._grid = _NO_PRICES
        self._random = Random(0)

    def move_to(self, at: datetime) -> None:
        self._at = at

    def begin_day(self, grid: PriceGrid, random: Random) -> None:
        """Take the prices of a new day; whatever waited has lapsed."""
        self._grid, self._random = grid, random
        self._resting.clear()

    def trade(self, made: Print) -> None:
        """Let a recorded trade happen between two others, or with us where we come first."""
        price = made.price
        # At the band's end only those who come from the other side can take.
        if price >= self._grid.ceiling:
            taking = Side.SELL
        else:
            taking = Side.BUY if price <= self._grid.floor else made.aggressor or Side.BUY
        waiting = OTHER[taking]
        self.clear(price, but=waiting)
        self._have((waiting, price), made.quantity)
        self._take_back(self._orders.submit_in_pieces((taking, price), made.quantity, self._at))
        # Model the depth: `waiting` has its best level at the price, the other side a tick away.
        for side, step in ((Side.BUY, self._grid.down), (Side.SELL, self._grid.up)):
            at = price
            for number in range(_LEVELS + 1):
                if number or side is waiting:
                    self._have((side, at), 1)
                following = step(at)
                if following == at:
                    break
                at = following

    def gather(self, side: Side, price: int, quantity: int) -> None:
        self._orders.submit_in_pieces((side, price), quantity, self._at)

    def clear(self, price: int, but: Side | None = None) -> None:
        """Take back what we modelled and what would trade at `price`; `but` may stay just at it."""
        for level in list(self._resting):
            side, at = level
            crosses = at > price if side is Side.BUY else at < price
            if crosses or (at == price and side is not but):
                self._take_back(self._resting.pop(level))

    def _have(self, level: Level, least: int) -> None:
        """Make sure that at least so much of ours waits there; an empty level is filled."""
        orders = map(self._venue.order, self._resting.get(level, ()))
        live = [order for order in orders if order is not None]
        if live:
            self._resting[level] = [order.order_id for order in live]
        else:
            self._resting.pop(level, None)
        waiting = sum(order.remaining for order in live)
        if waiting < least:
            spread = self._random.lognormvariate(-_SPREAD * _SPREAD / 2, _SPREAD)
            usual = max(BOARD_LOT, round(self._level_volume * spread / BOARD_LOT) * BOARD_LOT)
            wanted = least - waiting if least > 1 else usual
            given = self._orders.submit_in_pieces(level, wanted, self._at)
            self._resting.setdefault(level, []).extend(given)

    def _take_back(self, order_ids: list[str]) -> None:
        for order_id in order_ids:
            self._orders.cancel(order_id, self._at)
