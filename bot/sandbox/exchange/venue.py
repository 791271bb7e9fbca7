"""The exchanges as one state machine: orders in, events out, phases by the rulebook's timetable.

Each call passes the time, which never goes back. Boundaries passed since the last call are
processed first, in time order and, at one instant, in the order HOSE, HNX, UPCOM, restricted
symbols; their events come first in the result. A trading day starts by itself with its first phase,
on references computed from the day before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot, Phase
from bot.domain.order import OrderType, Side
from bot.domain.quote import Depth, DepthLevel
from bot.domain.rulebook import Rulebook
from bot.domain.status import NORMAL
from bot.sandbox.errors import (
    DuplicateOrder,
    OrdersWork,
    TimeWentBack,
    TradingDayRuns,
    UnknownSymbol,
)
from bot.sandbox.exchange.admission import amend_refusal, verdict_on
from bot.sandbox.exchange.book import BookSide, RestingOrder
from bot.sandbox.exchange.day import LIMIT_ORDERS_END, ExchangeDay
from bot.sandbox.exchange.market import (
    Board,
    DayTotals,
    SymbolMarket,
    next_listing,
    open_market,
    with_warrant_bands,
)
from bot.sandbox.exchange.matching import MatchingEngine
from bot.sandbox.exchange.message import (
    ChangeRefused,
    Listing,
    LiveOrder,
    NewOrder,
    OrderRefused,
    PhaseMoved,
    Refusal,
    VenueEvent,
)

ALL_LEVELS: Final = 10_000
"""More levels than any book has."""
_EVEN: Final = Lot.EVEN
_ODD: Final = Lot.ODD


class Venue:
    """HOSE, HNX and UPCOM, as far as their symbols are listed here.

    Order ids are the caller's and never used twice. Ended orders are forgotten, so memory grows
    with the open orders only. A symbol that is not listed here raises UnknownSymbol.
    """

    def __init__(self, rulebook: Rulebook, listings: Sequence[Listing], *, start: datetime) -> None:
        self._rulebook = rulebook
        self._matching = MatchingEngine(start)
        self._date = start.astimezone(EXCHANGE_TZ).date()
        present = {listing.instrument.exchange for listing in listings}
        self._days = {
            (each, False): ExchangeDay(rulebook, each, start, NORMAL)
            for each in Exchange
            if each in present
        }
        """By exchange, and whether its symbols are under restricted trading."""
        listed = with_warrant_bands(rulebook, listings)
        self._markets = {each.instrument.symbol: self._open(each) for each in listed}
        self._due = min(day.due for day in self._days.values())

    def _open(self, listing: Listing) -> SymbolMarket:
        instrument = listing.instrument
        exchange, status = instrument.exchange, instrument.status
        is_restricted = self._rulebook.statuses.is_restricted(status)
        day = self._days.get((exchange, is_restricted))
        if day is None:
            day = ExchangeDay(self._rulebook, exchange, self._matching.now, status)
            self._days[exchange, is_restricted] = day
        return open_market(self._rulebook, listing, day)

    # --------------------------------------------------------------------------------- orders

    def refusal(self, order: NewOrder) -> Refusal | None:
        """Return why the order would be refused now, without taking it. The account checks cash."""
        verdict = verdict_on(order, self._markets.get(order.symbol))
        return verdict if isinstance(verdict, Refusal) else None

    def submit(self, order: NewOrder, at: datetime) -> list[VenueEvent]:
        """Take an order and work it, or refuse it. Raises DuplicateOrder for the id of a working
        order.
        """
        matching = self._matching
        if at != matching.now:
            self._reach(at)
        market = self._markets.get(order.symbol)
        if order.order_id in matching.live:
            raise DuplicateOrder(f"order {order.order_id!r} is working; give each order its own id")
        verdict = verdict_on(order, market)
        if market is None or (verdict is not _EVEN and verdict is not _ODD):
            matching.events.append(OrderRefused(at, order.order_id, Refusal(verdict)))
        elif market.day.is_collecting:
            matching.collect(matching.take(order, verdict, market), market)
        else:
            matching.work[order.order_type](matching.take(order, verdict, market), market)
        events, matching.events = matching.events, []
        return events

    def cancel(self, order_id: str, at: datetime) -> list[VenueEvent]:
        """Cancel the open part of an order, or refuse and leave the order unchanged."""
        matching = self._matching
        if at != matching.now:
            self._reach(at)
        order = matching.live.get(order_id)
        if order is None:
            self._refuse_change(order_id, Refusal.NOT_OPEN)
        elif not (market := self._markets[order.home.book.symbol]).day.may_cancel:
            self._refuse_change(order_id, Refusal.CHANGE_NOT_NOW)
        else:
            if market.auction_orders:
                market.forget_auction_order(order)
            matching.cancel(order)
        events, matching.events = matching.events, []
        return events

    def amend(
        self, order_id: str, at: datetime, *, price: int | None = None, quantity: int | None = None
    ) -> list[VenueEvent]:
        """Change price or total quantity, or refuse and leave the order unchanged.

        `quantity` is the new total, executed part included. A new price or a greater quantity takes
        a new place in time; a smaller quantity keeps the old one.
        """
        self._reach(at)
        order = self._matching.live.get(order_id)
        refusal = self.amend_refusal(order_id, price=price, quantity=quantity)
        if refusal is not None or order is None:
            self._refuse_change(order_id, refusal or Refusal.NOT_OPEN)
        else:
            market, matching = self._markets[order.book.symbol], self._matching
            work = matching.rest if market.day.is_collecting else matching.work[OrderType.LO]
            total = quantity or order.quantity
            matching.amend(order, market, work, price=price or order.price, quantity=total)
        return self._matching.drain()

    def amend_refusal(
        self, order_id: str, *, price: int | None = None, quantity: int | None = None
    ) -> Refusal | None:
        """Return why the amendment would be refused now; the account checks cash."""
        order = self._matching.live.get(order_id)
        if order is None:
            return Refusal.NOT_OPEN
        market = self._markets[order.book.symbol]
        return amend_refusal(order, market, price=price, quantity=quantity)

    def _refuse_change(self, order_id: str, reason: Refusal) -> None:
        self._matching.events.append(ChangeRefused(self._matching.now, order_id, reason))

    # ----------------------------------------------------------------------------------- time

    @property
    def now(self) -> datetime:
        """The instant of the last call."""
        return self._matching.now

    def advance(self, at: datetime) -> list[VenueEvent]:
        """Process every phase boundary up to and including `at`. Raises TimeWentBack."""
        self._reach(at)
        return self._matching.drain()

    def next_boundary(self, after: datetime) -> datetime:
        """Return the next instant, strictly after `after`, at which something ends by itself."""
        if self._matching.now <= after < self._due:
            return self._due
        return min(day.due_after(after) for day in self._days.values())

    def _reach(self, at: datetime) -> None:
        if at < self._matching.now:
            raise TimeWentBack(f"the venue is at {self._matching.now}; {at} is too late for it")
        while self._due <= at:
            self._matching.now = self._due
            for day in [day for day in self._days.values() if day.due == self._due]:
                self._pass(day)
            self._due = min(day.due for day in self._days.values())
        self._matching.now = at

    def _pass(self, day: ExchangeDay) -> None:
        matching = self._matching
        if matching.now.astimezone(EXCHANGE_TZ).date() != self._date:
            self.start_day(matching.now)
        if day.ends_in_uncross:
            for market in self._markets_on(day):
                for book in (market.even, market.odd) if day.is_auction else (market.late,):
                    matching.uncross(book, market)
                market.auction_orders.clear()
        before = day.phase
        day.enter(matching.now)
        if day.phase is before:
            return
        if day.phase in LIMIT_ORDERS_END:  # after-hours orders live until the exchange closes
            for market in self._markets_on(day):
                matching.lapse(market.even.in_time_order())
                matching.lapse(market.odd.in_time_order())
                market.set_close()
                if day.phase is Phase.CLOSED:
                    matching.lapse(market.late.in_time_order())
        if not day.is_restricted:
            matching.events.append(PhaseMoved(matching.now, day.exchange, day.phase))
        for market in self._markets_on(day):
            self._trade_what_crosses(market)

    def start_day(self, at: datetime, overrides: Iterable[Listing] = ()) -> None:
        """Start the trading day of `at` on new references; `overrides` replace the computed ones.

        References: the close on HOSE and HNX, the average of even-lot trades on UPCOM. Call it
        while every exchange is closed, else it raises TradingDayRuns; without a call the first
        phase does it. If called again before a day's first phase, only what `overrides` name
        restarts.
        """
        if any(day.phase is not Phase.CLOSED for day in self._days.values()):
            raise TradingDayRuns(f"no trading day starts at {at}: an exchange is open")
        given = {listing.instrument.symbol: listing for listing in overrides}
        today = at.astimezone(EXCHANGE_TZ).date()
        begun = {s: m for s, m in self._markets.items() if today == self._date and m.is_untouched}
        listed = [
            given.get(s) or (begun[s].listing if s in begun else self.next_listing(s))
            for s in self._markets
        ]
        for listing in with_warrant_bands(self._rulebook, listed):
            symbol = listing.instrument.symbol
            market = self._markets[symbol] = self._open(listing)
            market.is_halted |= symbol in begun and begun[symbol].is_halted
        self._date = today
        self._due = min(day.due for day in self._days.values())

    @property
    def board_day(self) -> date:
        """The day that the boards show, in Vietnam; it changes with `start_day`, at the latest with
        the first phase of the next day.
        """
        return self._date

    def next_listing(self, symbol: str) -> Listing:
        """Return the listing with which the symbol would start if the next day began now."""
        return next_listing(self._rulebook, self._market(symbol))

    # ------------------------------------------------------------------------------ mirroring

    def relist(self, listing: Listing) -> None:
        """Give a symbol another listing, on empty books; the day continues.

        For a venue that mirrors another and takes its reference and band. Raises OrdersWork while
        an order of the symbol is working.
        """
        symbol = listing.instrument.symbol
        self._market(symbol)
        if any(order.book.symbol == symbol for order in self._matching.live.values()):
            raise OrdersWork(f"orders of {symbol!r} are working; relist it when they have ended")
        self._markets[symbol] = self._open(listing)

    def set_totals(self, symbol: str, totals: DayTotals) -> None:
        """Replace our own figures of the day by those of the mirrored venue. A close stays."""
        market = self._market(symbol)
        close = None if market.totals.close is None else totals.last
        market.totals = replace(totals, close=close)

    # ---------------------------------------------------------------------------------- halts

    def halt(self, symbol: str) -> None:
        """Stop trading a symbol: no order or amendment is taken; open orders may be cancelled."""
        self._market(symbol).is_halted = True

    def resume(self, symbol: str, at: datetime) -> list[VenueEvent]:
        """End a short halt; books that an auction left crossed are uncrossed first.

        Outside continuous trading the uncross waits until it begins, as nothing trades over lunch.
        A symbol that is suspended, delisting or halted for its restriction stays so.
        """
        self._reach(at)
        market = self._market(symbol)
        status = replace(market.listing.instrument.status, is_halted=False)
        market.is_halted = not self._rulebook.statuses.is_tradable(status)
        self._trade_what_crosses(market)
        return self._matching.drain()

    def _trade_what_crosses(self, market: SymbolMarket) -> None:
        """Start continuous trading, first uncrossing what a halted auction has left crossed."""
        if market.is_halted or market.day.phase is not Phase.PROGRESS:
            return
        for book in (market.even, market.odd):
            if book.is_crossed():
                self._matching.uncross(book, market)

    # -------------------------------------------------------------------------------- reading

    def phase(self, exchange: Exchange) -> Phase:
        """Return the phase of an exchange that has a symbol here, for its normal symbols."""
        return self._days[exchange, False].phase

    def phase_of(self, symbol: str) -> Phase:
        return self._market(symbol).day.phase

    def depth(self, symbol: str, levels: int = 3) -> Depth:
        """Return the even-lot levels that have a price, best first; in an auction
        they may cross.
        """
        book = self._market(symbol).even
        return Depth(symbol, _top(book.buys, levels), _top(book.sells, levels), self._matching.now)

    def touch(self, symbol: str) -> tuple[int | None, int | None]:
        """Return the best even-lot bid and ask, None for an empty side."""
        book = self._market(symbol).even
        return book.buys.best(), book.sells.best()

    def unpriced(self, symbol: str) -> tuple[int, int]:
        """Return the shares to buy and to sell waiting in an auction without a price."""
        orders = self._market(symbol).even.unpriced.values()
        bought = sum(order.remaining for order in orders if order.side is Side.BUY)
        return bought, sum(order.remaining for order in orders) - bought

    def board(self, symbol: str) -> Board:
        return self._market(symbol).board()

    def is_live(self, order_id: str) -> bool:
        return order_id in self._matching.live

    def order(self, order_id: str) -> LiveOrder | None:
        """Return a working order, None if it has ended or never existed."""
        order = self._matching.live.get(order_id)
        return None if order is None else _live(order)

    def open_orders(self) -> list[LiveOrder]:
        """Return every working order, oldest id first."""
        return [_live(order) for order in self._matching.live.values()]

    def _market(self, symbol: str) -> SymbolMarket:
        try:
            return self._markets[symbol]
        except KeyError:
            raise UnknownSymbol(f"symbol {symbol!r} is not listed on this venue") from None

    def _markets_on(self, day: ExchangeDay) -> list[SymbolMarket]:
        return [market for market in self._markets.values() if market.day is day]


def _top(side: BookSide, levels: int) -> tuple[DepthLevel, ...]:
    keys = side.keys[: -levels - 1 : -1]
    sign, found = side.sign, side.levels
    return tuple([DepthLevel(key * sign, found[key].volume) for key in keys])


def _live(order: RestingOrder) -> LiveOrder:
    return LiveOrder(
        order.order_id,
        order.owner,
        order.book.symbol,
        order.side,
        order.order_type,
        order.price or None,
        order.quantity,
        order.remaining,
        order.book.lot,
    )
