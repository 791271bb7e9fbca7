"""The matching engine: works, ends and amends orders and uncrosses books.

A continuous trade takes the price of the order that was resting; priority is price, then time.
Source: HOSE Decision 352/QĐ-SGDHCM (2025), art. 6; Vietnam Exchange Decision 17/QĐ-HĐTV, art. 21.
It knows no phases and checks nothing: `venue` does both before calling.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from bot.domain.instrument import Lot
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.auction import clearing_of, pairs
from bot.sandbox.exchange.book import Book, Level, RestingOrder
from bot.sandbox.exchange.market import SymbolMarket
from bot.sandbox.exchange.message import (
    CancelCause,
    NewOrder,
    OrderAccepted,
    OrderAmended,
    OrderCancelled,
    OrderLapsed,
    OrderRepriced,
    Traded,
    Uncrossed,
    VenueEvent,
)

_BUY: Final = Side.BUY
_EVEN: Final = Lot.EVEN
_PLO: Final = OrderType.PLO
_REQUESTED: Final = CancelCause.REQUESTED

Work = Callable[[RestingOrder, SymbolMarket], None]


class MatchingEngine:
    """All live orders, the sequence counter, and the events since the last drain."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.live: dict[str, RestingOrder] = {}
        self.events: list[VenueEvent] = []
        self._sequence = 0
        self.work: Final[Mapping[OrderType, Work]] = {
            OrderType.LO: self._work_limit,
            OrderType.MTL: self._work_market_to_limit,
            OrderType.MAK: self._work_match_and_kill,
            OrderType.MOK: self._work_match_or_kill,
            OrderType.PLO: self._work_late,
        }

    def drain(self) -> list[VenueEvent]:
        """Return and clear the events since the last call."""
        events, self.events = self.events, []
        return events

    # ------------------------------------------------------------------------------- arriving

    def take(self, order: NewOrder, lot: Lot, market: SymbolMarket) -> RestingOrder:
        """Accept an order and give it its place in time; the caller then collects or works it."""
        self._sequence += 1
        order_id, quantity = order.order_id, order.quantity
        book = market.even if lot is _EVEN else market.odd
        book = market.late if order.order_type is _PLO else book
        taken = RestingOrder(
            order_id,
            order.owner,
            order.order_type,
            order.price or 0,
            quantity,
            quantity,
            self._sequence,
            book.buys if order.side is _BUY else book.sells,
        )
        self.live[order_id] = taken
        self.events.append(OrderAccepted(self.now, order_id))
        return taken

    def collect(self, order: RestingOrder, market: SymbolMarket) -> None:
        """Let the order wait for an uncross."""
        _at_the_close(order, market)
        market.note_auction_order(order)
        if order.price:
            order.home.add(order)
        else:
            order.book.unpriced[order.order_id] = order

    def rest(self, order: RestingOrder, _: SymbolMarket) -> None:
        """Let an order rest at its price, last in time there."""
        order.home.add(order)

    def _work_limit(self, order: RestingOrder, market: SymbolMarket) -> None:
        home = order.home
        if home.rivals.keys and home.rivals.keys[-1] >= -home.sign * order.price:
            self._sweep(order, market, order.price)
        if order.remaining:
            home.add(order)

    def _work_late(self, order: RestingOrder, market: SymbolMarket) -> None:
        _at_the_close(order, market)
        self._work_limit(order, market)

    def _work_market_to_limit(self, order: RestingOrder, market: SymbolMarket) -> None:
        """Sweep; the remainder becomes an LO one tick beyond the last fill (SSI, Yuanta: KRX,
        2025).
        """
        last = self._sweep(order, market, _furthest(order.side, market))
        if last is None:
            self._end(order, CancelCause.NO_OPPOSITE)
        elif order.remaining:
            is_buy = order.side is Side.BUY
            order.price = market.grid.up(last) if is_buy else market.grid.down(last)
            order.order_type = OrderType.LO
            order.home.add(order)
            self.events.append(OrderRepriced(self.now, order.order_id, order.price))

    def _work_match_and_kill(self, order: RestingOrder, market: SymbolMarket) -> None:
        last = self._sweep(order, market, _furthest(order.side, market))
        if order.remaining:
            cause = CancelCause.NO_OPPOSITE if last is None else CancelCause.REMAINDER_KILLED
            self._end(order, cause)

    def _work_match_or_kill(self, order: RestingOrder, market: SymbolMarket) -> None:
        limit = _furthest(order.side, market)
        if order.home.rivals.can_fill(order.remaining, -limit * order.home.sign):
            self._sweep(order, market, limit)
        else:
            self._end(order, CancelCause.NOT_WHOLE)

    def _sweep(self, taker: RestingOrder, market: SymbolMarket, limit: int) -> int | None:
        """Trade the incoming order up to `limit`; return the last price, None without a trade."""
        home, price = taker.home, None
        rivals, reach, keys = home.rivals, -limit * home.sign, home.rivals.keys
        while taker.remaining and keys and keys[-1] >= reach:
            level = rivals.levels[keys[-1]]
            price = level.price
            quantity = self._trade_at(level, taker)
            if home.book.lot is _EVEN:
                market.totals.record(price, quantity)
            if level.head is None:
                rivals.close(level.key)
        if not taker.remaining:
            del self.live[taker.order_id]
        return price

    def _trade_at(self, level: Level, taker: RestingOrder) -> int:
        """Trade the incoming order with one level, first in first out; return the quantity."""
        now, book, price = self.now, taker.home.book, level.price
        symbol, lot, is_buy = book.symbol, book.lot, taker.home is book.buys
        taker_id, left = taker.order_id, taker.remaining
        while left and (maker := level.head) is not None:
            maker_id, quantity = maker.order_id, maker.remaining
            if quantity > left:
                quantity = left
                maker.remaining -= quantity
            else:
                level.pop_head()
                del self.live[maker_id]
            left -= quantity
            ids = (taker_id, maker_id) if is_buy else (maker_id, taker_id)
            self.events.append(Traded(now, symbol, lot, price, quantity, *ids, False))
        traded = taker.remaining - left
        taker.remaining = left
        level.volume -= traded
        return traded

    def _fill(self, order: RestingOrder, quantity: int) -> None:
        """Take `quantity` off an order in the book; a filled order leaves the book."""
        order.remaining -= quantity
        if order.level is not None:
            order.level.volume -= quantity
        if not order.remaining:
            order.leave()
            del self.live[order.order_id]

    # --------------------------------------------------------------------------------- ending

    def cancel(self, order: RestingOrder) -> None:
        order.leave()
        self._end(order, _REQUESTED)

    def _end(self, order: RestingOrder, cause: CancelCause) -> None:
        del self.live[order.order_id]
        self.events.append(OrderCancelled(self.now, order.order_id, order.remaining, cause))

    def lapse(self, orders: Iterable[RestingOrder]) -> None:
        for order in orders:
            order.leave()
            del self.live[order.order_id]
            self.events.append(OrderLapsed(self.now, order.order_id, order.remaining))

    # ------------------------------------------------------------------------------- amending

    def amend(
        self, order: RestingOrder, market: SymbolMarket, work: Work, *, price: int, quantity: int
    ) -> None:
        """Give an order a new price and total. It keeps its place in time only if just the quantity
        shrinks.

        An order with a new place is worked again: it trades, or waits in an auction.
        """
        keeps_place = price == order.price and quantity < order.quantity
        remaining = quantity - (order.quantity - order.remaining)
        if keeps_place and order.level is not None:
            order.level.volume -= order.remaining - remaining
        else:
            order.leave()
        order.price, order.quantity, order.remaining = price, quantity, remaining
        self.events.append(OrderAmended(self.now, order.order_id, price, quantity, remaining))
        if not keeps_place:
            self._sequence += 1
            order.sequence = self._sequence
            work(order, market)

    # ----------------------------------------------------------------------------- uncrossing

    def uncross(self, book: Book, market: SymbolMarket) -> None:
        """End the collection of a book: trade it at one price; orders without a price lapse.

        A halted symbol does not trade. An empty book makes no event.
        """
        if book.is_empty():
            return
        symbol, lot, grid, anchor = book.symbol, book.lot, market.grid, market.anchor
        found = None if market.is_halted else clearing_of(book, grid, anchor)
        if found is None:
            self.events.append(Uncrossed(self.now, symbol, lot, None, 0))
        else:
            price, volume = found.price, found.volume
            self.events.append(Uncrossed(self.now, symbol, lot, price, volume))
            for pair in pairs(book, grid, anchor, found):
                ids = (pair.buy.order_id, pair.sell.order_id)
                self.events.append(Traded(self.now, symbol, lot, price, pair.quantity, *ids, True))
                self._fill(pair.buy, pair.quantity)
                self._fill(pair.sell, pair.quantity)
            if lot is _EVEN:
                market.totals.record(price, volume)
        self.lapse(list(book.unpriced.values()))


def _furthest(side: Side, market: SymbolMarket) -> int:
    """Return the worst price at which an order without one may trade: the end of the band."""
    return market.band.ceiling if side is Side.BUY else market.band.floor


def _at_the_close(order: RestingOrder, market: SymbolMarket) -> None:
    """Set the price of an after-hours order; such orders are taken only once there is a close."""
    if order.order_type is OrderType.PLO:
        order.price = market.anchor
