"""The broker's orders of the day, kept up to date from the exchange's events.

Every event of the exchange comes through `apply`, in order: it updates the records, the accounts
and the orders held here: they are sent when trading opens, and end with their day unsent. Changes
go to the ledger.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderType
from bot.sandbox.errors import OrderUnknown
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.day import LIMIT_ORDERS_END, TRADING
from bot.sandbox.exchange.message import (
    NewOrder,
    OrderAmended,
    OrderCancelled,
    OrderLapsed,
    OrderRefused,
    OrderRepriced,
    PhaseMoved,
    Traded,
    VenueEvent,
)
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.house.order_record import FAILED, OrderRecord, OrderStage, Rejection, rejection_of
from bot.sandbox.scenario import AccountScript

FIRST_ORDER_NUMBER: Final = 10_000_001


class DayOrderBook:
    """All orders that came through the broker, by id; `accounts` by the id of the sub-account.

    Every trade of the exchange, including others', goes to `on_trade` first. While `holds` is true
    for a symbol, its orders wait here whatever the phase.
    """

    def __init__(
        self,
        venue: Venue,
        accounts: Mapping[str, Account],
        *,
        on_trade: Callable[[Traded], None],
        holds: Callable[[str], bool],
    ) -> None:
        self._venue = venue
        self._accounts = accounts
        self._on_trade = on_trade
        self._holds = holds
        self._orders: dict[str, OrderRecord] = {}
        self._shown: dict[str, OrderRecord] = {}
        self._former: dict[str, list[OrderRecord]] = {}
        self._changed: dict[str, OrderRecord] = {}

    def add(self, order: OrderRecord) -> None:
        self._orders[order.order_id] = self._shown[order.shown_id] = order
        self.note(order)

    def rename(self, order: OrderRecord, former: OrderRecord) -> None:
        """Give an order a new id in answers and paths. The old id's row stays as it ended:
        cancelled, with what was matched until then.
        """
        self._shown[former.shown_id] = former
        self._former.setdefault(order.order_id, []).append(former)
        order.renamed += 1
        self._shown[order.shown_id] = order

    def note(self, order: OrderRecord) -> None:
        self._changed[order.order_id] = order

    def take_changed(self) -> list[OrderRecord]:
        """Return and clear the orders changed since the last call, in the order of
        their changes.
        """
        changed, self._changed = list(self._changed.values()), {}
        return changed

    @property
    def next_number(self) -> int:
        return FIRST_ORDER_NUMBER + len(self._orders)

    def order(self, account: AccountScript, order_id: str, at: datetime) -> OrderRecord:
        """Return an order of that account and of today by its current id; raises OrderUnknown.

        An order whose row is hidden is found: it works, and a client that knows its id may change
        it.
        """
        found = self._shown.get(order_id)
        if found is None or not _is_of(found, account, at):
            raise OrderUnknown(order_id)
        return found

    def visible_order(self, account: AccountScript, order_id: str, at: datetime) -> OrderRecord:
        """Return an order whose row is visible; raises OrderUnknown."""
        found = self.order(account, order_id, at)
        if found.is_hidden(at):
            raise OrderUnknown(order_id)
        return found

    def every(self) -> tuple[OrderRecord, ...]:
        """Return the orders of all accounts and days, oldest first."""
        return tuple(self._orders.values())

    def rows(self) -> tuple[OrderRecord, ...]:
        """Return the row of every id of every order, oldest first, as that id counts it."""
        return tuple(
            each.as_counted()
            for order in self._orders.values()
            for each in (*self._former.get(order.order_id, ()), order)
        )

    def find(self, order_id: str) -> OrderRecord | None:
        """Return the order or row of an id, of any account and day, else None: the row of a former
        id has ended, though the order works on under its newest.
        """
        return self._shown.get(order_id)

    def todays(self, account: AccountScript, at: datetime) -> list[OrderRecord]:
        """Return an account's visible orders of the local date of `at`, oldest first."""
        return [
            each
            for order in self._orders.values()
            for each in (*self._former.get(order.order_id, ()), order)
            if _is_of(each, account, at) and not each.is_hidden(at)
        ]

    def apply(self, events: Iterable[VenueEvent]) -> None:
        for event in events:
            match event:
                case Traded():
                    self._apply_trade(event)
                case PhaseMoved():
                    self._apply_phase(event)
                case (
                    OrderCancelled()
                    | OrderLapsed()
                    | OrderRefused()
                    | OrderRepriced()
                    | OrderAmended()
                ):
                    found = self._orders.get(event.order_id)
                    if found is not None:
                        self._accounts[found.account.id].apply(event)
                        _change(found, event)
                        self.note(found)
                case _:
                    pass

    def _apply_phase(self, moved: PhaseMoved) -> None:
        """Send what waits for this phase; with the last of the day's limit orders what still waits
        ends too, or it would be sent the next morning.
        """
        for order in [each for each in self._waiting() if each.exchange is moved.exchange]:
            if moved.phase in LIMIT_ORDERS_END:
                self.apply([OrderLapsed(moved.at, order.order_id, order.remaining)])
            elif moved.phase in TRADING and not self._holds(order.symbol):
                self._send(order, moved.at)

    def _apply_trade(self, trade: Traded) -> None:
        self._on_trade(trade)
        ours = [self._orders.get(trade.buy_order_id), self._orders.get(trade.sell_order_id)]
        accounts = {order.account.id: self._accounts[order.account.id] for order in ours if order}
        for account in accounts.values():
            for booked in account.apply(trade):
                order = self._orders[booked.order_id]
                order.executed_quantity += booked.quantity
                order.executed_amount += booked.amount
                order.fee += booked.fee
                order.tax += booked.tax
                self.note(order)

    def release(self, symbol: str, at: datetime) -> None:
        """Send a symbol's orders that were held for its market."""
        for order in self._waiting():
            if order.symbol == symbol:
                self._send(order, at)

    def _waiting(self) -> list[OrderRecord]:
        return [each for each in self._orders.values() if each.stage is OrderStage.WAITING]

    def _send(self, order: OrderRecord, at: datetime) -> None:
        order.stage = OrderStage.WORKING
        self.note(order)
        self.apply(self._venue.submit(as_new_order(order), at))


def _change(
    order: OrderRecord,
    event: OrderCancelled | OrderLapsed | OrderRefused | OrderRepriced | OrderAmended,
) -> None:
    match event:
        case OrderCancelled():
            order.cancelled_quantity += event.quantity
            order.stage = OrderStage.CANCELLED
        case OrderLapsed():
            order.stage = OrderStage.LAPSED
        case OrderRefused():
            reject(order, rejection_of(event.reason, order.lot))
        case OrderRepriced():
            order.price = event.price
        case OrderAmended():
            order.price = event.price
            order.adjusted_quantity += event.quantity - order.quantity
            order.quantity = event.quantity
            order.limit_price = None if order.market_price else event.price


def as_new_order(order: OrderRecord, order_type: OrderType = OrderType.LO) -> NewOrder:
    price = order.limit_price if order_type is OrderType.LO else None
    return NewOrder(
        order.order_id,
        order.account.id,
        order.symbol,
        order.side,
        order.quantity,
        order_type,
        price,
    )


def reject(order: OrderRecord, rejection: Rejection) -> None:
    """End an order as refused; the code FAILED makes it failed rather than rejected."""
    order.stage = OrderStage.FAILED if rejection.code == FAILED else OrderStage.REJECTED
    order.code, order.reason = rejection.code, rejection.reason


def _is_of(order: OrderRecord, account: AccountScript, at: datetime) -> bool:
    is_todays = order.placed_at.astimezone(EXCHANGE_TZ).date() == at.astimezone(EXCHANGE_TZ).date()
    return is_todays and order.account.id == account.id
