"""The broker's order entry: place, amend and cancel.

An order is refused inside HTTP 200 with an order-level code, or taken: its cash or shares are
reserved, it goes to the exchange, and the answer shows it as it was before matching (a switch:
after). A limit order in the lunch break or between 08:30 and the first phase waits here. A refused
change leaves the order unchanged. Source: broker open API 0.2.0-preview.3, order execution and
order state machine; where it is silent, the project's rulings 9 to 13, 18, 23 and 44.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, InstrumentKind, Phase
from bot.domain.order import OrderResult, OrderState, OrderType
from bot.domain.rulebook import Rulebook
from bot.protocol.values.border import AmendRequest, PlaceRequest
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.market import Board
from bot.sandbox.exchange.message import ChangeRefused, NewOrder, Refusal, fact
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.house.day_order_book import DayOrderBook, as_new_order, reject
from bot.sandbox.house.order_record import (
    AMENDED_IN_PART,
    AMENDED_IN_PART_TEXT,
    OrderRecord,
    OrderStage,
    Rejection,
    rejection_of,
)
from bot.sandbox.scenario import AccountScript, Scenario, SymbolScript

ORDERS_TAKEN_FROM: Final = time(8, 30)
"""Limit orders are refused before this time and after the close; from this time on they wait."""
ROUTING_SUFFIX: Final = ".4"
_KINDS: Final = {
    "BOND": frozenset({InstrumentKind.BOND}),
    "ETF": frozenset({InstrumentKind.ETF}),
    "FUND_CERTIFICATE": frozenset({InstrumentKind.CLOSED_END_FUND, InstrumentKind.ETF}),
    "WARRANT": frozenset({InstrumentKind.CW}),
}
"""The kinds allowed for a `stock_type`; STOCK, the default, checks nothing."""
_ONLY_ROUTING: Final = Rejection("FAILED", "Chỉ tiểu khoản .4 được đặt lệnh")


@dataclass(frozen=True, slots=True)
class Change:
    """Result of an amendment or a cancel: the order as shown; `refusal` if refused."""

    result: OrderResult
    refusal: Rejection | None = None


@fact
class _Admitted:
    """An admitted order as the exchange takes it; `waits` while its exchange is not trading."""

    order: NewOrder
    board: Board
    waits: bool


class OrderEntry:
    """Takes the orders of all sub-accounts. While `holds` is true for a symbol, its orders wait
    here.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        rulebook: Rulebook,
        venue: Venue,
        accounts: Mapping[str, Account],
        day_order_book: DayOrderBook,
        holds: Callable[[str], bool],
    ) -> None:
        self._rulebook = rulebook
        self._venue = venue
        self._accounts = accounts
        self._day_order_book = day_order_book
        self._holds = holds
        self._switches = scenario.switches
        self._symbols = {script.symbol: script for script in scenario.symbols}

    def place(
        self,
        account: AccountScript,
        request: PlaceRequest,
        at: datetime,
        *,
        scripted: Rejection | None = None,
    ) -> OrderResult:
        """Take or refuse an order; `scripted` is a refusal that a fault wants."""
        order, switches = self._record(account, request, at), self._switches
        if switches.row_visible_after_s:
            order.hidden_until = at + timedelta(seconds=switches.row_visible_after_s)
        self._day_order_book.add(order)
        checked = scripted or self._checked(order, request)
        if isinstance(checked, Rejection):
            reject(order, checked)
            result = order.result(switches)
            if switches.rejected_order_id == "given":
                return result
            # With a switch, a refused order has neither an id nor a row.
            order.hidden_until = datetime.max.replace(tzinfo=UTC)
            return replace(result, order_id="")
        self._accounts[order.account.id].reserve(checked.order, checked.board)
        if checked.waits:
            order.stage = OrderStage.WAITING
            return order.result(switches)
        before = order.result(switches)
        self._day_order_book.apply(self._venue.submit(checked.order, at))
        return order.result(switches) if switches.matching == "before_answer" else before

    def _record(self, account: AccountScript, request: PlaceRequest, at: datetime) -> OrderRecord:
        script = self._symbols.get(request.symbol)
        exchange = script.exchange if script else None
        number, is_limit = self._day_order_book.next_number, request.order_type is OrderType.LO
        routed = self._rulebook.routed(exchange, request.order_type) if exchange else None
        return OrderRecord(
            order_id=f"ORD{number}",
            number=number,
            account=account,
            symbol=request.symbol,
            exchange=exchange,
            side=request.side,
            quantity=request.quantity,
            order_type=routed or request.order_type,
            market_price=None if is_limit else request.order_type,
            limit_price=request.limit_price,
            price=request.limit_price,
            lot=self._rulebook.venues[exchange].lots.lot_of(request.quantity) if exchange else None,
            placed_at=at,
            phase=self._venue.phase_of(request.symbol) if script else None,
        )

    def _checked(self, order: OrderRecord, request: PlaceRequest) -> _Admitted | Rejection:
        script, kinds = self._symbols.get(request.symbol), _KINDS.get(request.stock_type)
        if script is not None and kinds is not None and script.kind not in kinds:
            return rejection_of(Refusal.UNKNOWN_SYMBOL, None)
        if self._switches.only_routing_account_trades and order.account.suffix != ROUTING_SUFFIX:
            return _ONLY_ROUTING
        found = self._admission(order, script)
        return rejection_of(found, order.lot) if isinstance(found, Refusal) else found

    def _admission(self, order: OrderRecord, script: SymbolScript | None) -> _Admitted | Refusal:
        if script is None:
            return Refusal.UNKNOWN_SYMBOL
        wanted, board = self._new_order(order), self._venue.board(order.symbol)
        waits = self._waits(script)
        refusal = (
            self._refusal_to_hold(order, script, board) if waits else self._venue.refusal(wanted)
        )
        refusal = refusal or self._accounts[order.account.id].can_place(wanted, board)
        return refusal or _Admitted(wanted, board, waits)

    def _refusal_to_hold(
        self, order: OrderRecord, script: SymbolScript, board: Board
    ) -> Refusal | None:
        """Check what a closed exchange would not check."""
        price = order.limit_price
        if board.is_halted:
            return Refusal.HALTED
        if order.order_type is not OrderType.LO or price is None:
            return Refusal.HALTED if self._holds(order.symbol) else Refusal.ORDER_TYPE
        if order.lot is None:
            return Refusal.QUANTITY
        if not self._rulebook.ticks_of(script.instrument).is_on_grid(price):
            return Refusal.OFF_TICK
        return None if board.floor <= price <= board.ceiling else Refusal.OUTSIDE_BAND

    def _waits(self, script: SymbolScript) -> bool:
        """Return whether orders are held: over lunch, from 08:30 to the first phase, or market not
        seen.
        """
        exchange = script.exchange
        phase = self._venue.phase(exchange)
        if phase is not Phase.CLOSED:
            return phase is Phase.BREAK or self._holds(script.symbol)
        now = self._venue.now.astimezone(EXCHANGE_TZ)
        opening = self._rulebook.next_phase_change(exchange, now).at.astimezone(EXCHANGE_TZ)
        return opening.date() == now.date() and now.time() >= ORDERS_TAKEN_FROM

    def _new_order(self, order: OrderRecord) -> NewOrder:
        assert order.exchange is not None, "an unlisted symbol never gets this far"
        wanted = order.market_price or OrderType.LO
        return as_new_order(order, self._rulebook.canonical(order.exchange, wanted))

    def cancel(self, order: OrderRecord, at: datetime) -> Change:
        """Cancel the open part of an order, or refuse and leave it unchanged."""
        if order.stage is OrderStage.WAITING:
            self._accounts[order.account.id].release(order.order_id)
            order.cancelled_quantity = order.remaining
            order.stage = OrderStage.CANCELLED
            self._day_order_book.note(order)
            return Change(order.result(self._switches))
        if not order.may_change(self._switches):
            return self._refused(order, Refusal.NOT_OPEN)
        events = self._venue.cancel(order.order_id, at)
        refused = (event.reason for event in events if isinstance(event, ChangeRefused))
        if (refusal := next(refused, None)) is not None:
            return self._refused(order, refusal)
        self._day_order_book.apply(events)
        result = order.result(self._switches)
        if self._switches.cancel_answer == "CANCELLING":
            result = replace(result, status="CANCELLING", state=OrderState.PENDING_CANCEL)
        return Change(result)

    def amend(self, order: OrderRecord, request: AmendRequest, at: datetime) -> Change:
        """Change price or total quantity of an order, or refuse and leave it unchanged.

        The answer shows the order amended but, by default, before the new price matched anything.
        """
        switches, price, quantity = self._switches, request.limit_price, request.quantity
        if quantity is not None and switches.modify_quantity == "open":
            quantity += order.executed_quantity
        if not (order.may_change(switches) and order.has_limit):
            return self._refused(order, Refusal.NOT_OPEN)
        if None not in (price, quantity) and switches.modify_both == "refuse":
            return self._refused(order, Refusal.TWO_FIELDS)
        if order.stage is OrderStage.WAITING:
            return self._amend_waiting(order, price, quantity)
        refusal = self._venue.amend_refusal(order.order_id, price=price, quantity=quantity)
        refusal = refusal or self._accounts[order.account.id].can_amend(
            order.order_id,
            price=price,
            quantity_change=(quantity or order.quantity) - order.quantity,
        )
        if refusal is not None:
            return self._refused(order, refusal)
        events = self._venue.amend(order.order_id, at, price=price, quantity=quantity)
        was_partly_matched = order.executed_quantity > 0
        self._rename(order, order.former())
        self._day_order_book.apply(events[:1])
        before = order.result(switches)
        self._day_order_book.apply(events[1:])
        result = order.result(switches) if switches.matching == "before_answer" else before
        if was_partly_matched:
            result = replace(result, code=AMENDED_IN_PART, reason=AMENDED_IN_PART_TEXT)
        return Change(result)

    def _rename(self, order: OrderRecord, former: OrderRecord) -> None:
        switches = self._switches
        if switches.modify_id != "new":
            return
        if switches.modify_executed == "restarts":
            order.former_quantity = order.executed_quantity
            order.former_amount = order.executed_amount
        self._day_order_book.rename(order, former)

    def _amend_waiting(self, order: OrderRecord, price: int | None, quantity: int | None) -> Change:
        """Check a waiting order like a new one; if refused, it keeps waiting unchanged."""
        account, old = self._accounts[order.account.id], (order.limit_price, order.quantity)
        former = order.former()
        account.release(order.order_id)
        self._set_waiting(order, price or old[0], quantity or old[1])
        found = self._admission(order, self._symbols[order.symbol])
        if isinstance(found, Refusal):
            self._set_waiting(order, *old)
        account.reserve(self._new_order(order), self._venue.board(order.symbol))
        self._day_order_book.note(order)
        if isinstance(found, Refusal):
            return self._refused(order, found)
        self._rename(order, former)
        return Change(order.result(self._switches))

    def _set_waiting(self, order: OrderRecord, price: int | None, quantity: int) -> None:
        assert order.exchange is not None, "an order that waits is listed"
        order.price = order.limit_price = price
        order.quantity = quantity
        order.lot = self._rulebook.venues[order.exchange].lots.lot_of(quantity)

    def _refused(self, order: OrderRecord, refusal: Refusal) -> Change:
        rejection = rejection_of(refusal, order.lot)
        result = order.result(self._switches)
        return Change(replace(result, code=rejection.code, reason=rejection.reason), rejection)
