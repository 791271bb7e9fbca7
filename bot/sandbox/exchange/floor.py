"""Where orders meet: working an order, ending it, uncrossing a book.

A continuous trade takes the price of the order that was resting; priority is price, then time.
Source: HOSE Decision 352/QĐ-SGDHCM (2025), art. 6; Vietnam Exchange Decision 17/QĐ-HĐTV, art. 21.
The floor knows no phases and checks nothing: `venue` has done both when it calls.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bot.domain.instrument import Lot
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.auction import Clearing, Pair, clearing_of, pairs
from bot.sandbox.exchange.book import SIGN, Book, RestingOrder
from bot.sandbox.exchange.event import (
    CancelCause,
    OrderAccepted,
    OrderAmended,
    OrderCancelled,
    OrderLapsed,
    OrderRepriced,
    Traded,
    Uncrossed,
    VenueEvent,
)
from bot.sandbox.exchange.market import SymbolMarket
from bot.sandbox.exchange.order import NewOrder

Work = Callable[[RestingOrder, SymbolMarket], None]


class Floor:
    """All live orders, the count that is their time, and the events since the last drain."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.live: dict[str, RestingOrder] = {}
        self.events: list[VenueEvent] = []
        self._sequence = 0
        self._work: Final[Mapping[OrderType, Work]] = {
            OrderType.LO: self._work_limit,
            OrderType.MTL: self._work_market_to_limit,
            OrderType.MAK: self._work_match_and_kill,
            OrderType.MOK: self._work_match_or_kill,
            OrderType.PLO: self._work_late,
        }

    def drain(self) -> list[VenueEvent]:
        """Hand over what happened since the last call."""
        events, self.events = self.events, []
        return events

    # ------------------------------------------------------------------------- arriving

    def take(self, order: NewOrder, lot: Lot) -> RestingOrder:
        """Accept an order and give it its place in time; the caller has it collected or traded."""
        self._sequence += 1
        taken = RestingOrder(
            order.order_id,
            order.owner,
            order.symbol,
            order.side,
            order.order_type,
            order.price or 0,
            order.quantity,
            order.quantity,
            lot,
            self._sequence,
        )
        self.live[order.order_id] = taken
        self.events.append(OrderAccepted(self.now, order.order_id))
        return taken

    def collect(self, order: RestingOrder, market: SymbolMarket) -> None:
        """Let the order wait for an uncross."""
        _at_the_close(order, market)
        book = market.book_of(order)
        market.note_auction_side(order)
        if order.price:
            book.side(order.side).add(order)
        else:
            book.unpriced[order.order_id] = order

    def trade(self, order: RestingOrder, market: SymbolMarket) -> None:
        """Work the order in continuous trading, by its type."""
        self._work[order.order_type](order, market)

    def _work_limit(self, order: RestingOrder, market: SymbolMarket) -> None:
        book = market.book_of(order)
        self._sweep(book, order, market, order.price)
        if order.remaining:
            book.side(order.side).add(order)

    def _work_late(self, order: RestingOrder, market: SymbolMarket) -> None:
        _at_the_close(order, market)
        self._work_limit(order, market)

    def _work_market_to_limit(self, order: RestingOrder, market: SymbolMarket) -> None:
        """Sweep; the rest becomes an LO one tick beyond the last fill (SSI, Yuanta: KRX, 2025)."""
        last = self._sweep(market.even, order, market, _furthest(order.side, market))
        if last is None:
            self._end(order, CancelCause.NO_OPPOSITE)
        elif order.remaining:
            is_buy = order.side is Side.BUY
            order.price = market.grid.up(last) if is_buy else market.grid.down(last)
            order.order_type = OrderType.LO
            market.even.side(order.side).add(order)
            self.events.append(OrderRepriced(self.now, order.order_id, order.price))

    def _work_match_and_kill(self, order: RestingOrder, market: SymbolMarket) -> None:
        last = self._sweep(market.even, order, market, _furthest(order.side, market))
        if order.remaining:
            cause = CancelCause.NO_OPPOSITE if last is None else CancelCause.REMAINDER_KILLED
            self._end(order, cause)

    def _work_match_or_kill(self, order: RestingOrder, market: SymbolMarket) -> None:
        limit = _furthest(order.side, market)
        if market.even.can_fill(order, limit):
            self._sweep(market.even, order, market, limit)
        else:
            self._end(order, CancelCause.NOT_WHOLE)

    def _sweep(
        self, book: Book, taker: RestingOrder, market: SymbolMarket, limit: int
    ) -> int | None:
        """Trade the taker as far as `limit` reaches; return the last price, None for no trade."""
        side = book.opposite(taker.side)
        keys, reach, price = side.keys, -limit * SIGN[taker.side], None
        while taker.remaining and keys and keys[-1] >= reach:
            maker = side.levels[keys[-1]].head
            assert maker is not None, "an emptied level leaves with its last order"
            price, quantity = maker.price, min(maker.remaining, taker.remaining)
            buy, sell = (taker, maker) if taker.side is Side.BUY else (maker, taker)
            self._report(Pair(buy, sell, quantity), price, market, is_auction=False)
            self._fill(maker, quantity, book)
            taker.remaining -= quantity
        if not taker.remaining:
            del self.live[taker.order_id]
        return price

    def _report(self, pair: Pair, price: int, market: SymbolMarket, *, is_auction: bool) -> None:
        buy, quantity = pair.buy, pair.quantity
        if buy.lot is Lot.EVEN:
            market.tape.record(price, quantity)
        ids = (buy.order_id, pair.sell.order_id)
        self.events.append(Traded(self.now, buy.symbol, buy.lot, price, quantity, *ids, is_auction))

    def _fill(self, order: RestingOrder, quantity: int, book: Book) -> None:
        """Take `quantity` off an order in the book; the order leaves when it was all."""
        order.remaining -= quantity
        if order.level is not None:
            order.level.volume -= quantity
        if not order.remaining:
            book.remove(order)
            del self.live[order.order_id]

    # --------------------------------------------------------------------------- ending

    def cancel(self, order: RestingOrder, market: SymbolMarket) -> None:
        """Take an order out because its owner asked."""
        market.book_of(order).remove(order)
        self._end(order, CancelCause.REQUESTED)

    def _end(self, order: RestingOrder, cause: CancelCause) -> None:
        del self.live[order.order_id]
        self.events.append(OrderCancelled(self.now, order.order_id, order.remaining, cause))

    def lapse(self, book: Book) -> None:
        """End every order of a book: its time is over."""
        self._lapse_all(book, book.in_time_order())

    def _lapse_all(self, book: Book, orders: list[RestingOrder]) -> None:
        for order in orders:
            book.remove(order)
            del self.live[order.order_id]
            self.events.append(OrderLapsed(self.now, order.order_id, order.remaining))

    # ------------------------------------------------------------------------- amending

    def amend(
        self, order: RestingOrder, market: SymbolMarket, *, price: int, quantity: int
    ) -> None:
        """Give an order a price and a total. Only a mere decrease keeps its place in time."""
        keeps_place = price == order.price and quantity < order.quantity
        remaining = quantity - (order.quantity - order.remaining)
        book = market.book_of(order)
        if keeps_place and order.level is not None:
            order.level.volume -= order.remaining - remaining
        else:
            book.remove(order)
        order.price, order.quantity, order.remaining = price, quantity, remaining
        self.events.append(OrderAmended(self.now, order.order_id, price, quantity, remaining))
        if not keeps_place:
            self._sequence += 1
            order.sequence = self._sequence
            self._work_limit(order, market)

    # ------------------------------------------------------------------------ uncrossing

    def uncross(self, book: Book, lot: Lot, market: SymbolMarket) -> None:
        """End the collection of a book: trade it at one price; orders without a price lapse.

        A halted symbol trades nothing. An empty book says nothing.
        """
        if book.is_empty():
            return
        found = None if market.is_halted else clearing_of(book, market.grid, market.anchor)
        self._announce(found, lot, market)
        if found is not None:
            self._clear(book, found, market)
        self._lapse_all(book, list(book.unpriced.values()))

    def _announce(self, found: Clearing | None, lot: Lot, market: SymbolMarket) -> None:
        price, volume = (found.price, found.volume) if found else (None, 0)
        symbol = market.listing.instrument.symbol
        self.events.append(Uncrossed(self.now, symbol, lot, price, volume))

    def _clear(self, book: Book, found: Clearing, market: SymbolMarket) -> None:
        for pair in pairs(book, market.grid, market.anchor, found):
            self._report(pair, found.price, market, is_auction=True)
            self._fill(pair.buy, pair.quantity, book)
            self._fill(pair.sell, pair.quantity, book)


def _furthest(side: Side, market: SymbolMarket) -> int:
    """Return the worst price that an order without one may trade at: the band's end."""
    return market.band.ceiling if side is Side.BUY else market.band.floor


def _at_the_close(order: RestingOrder, market: SymbolMarket) -> None:
    """Give an after-hours order its price; such orders are taken only once there is one."""
    if order.order_type is OrderType.PLO:
        order.price = market.anchor
