"""The broker of a backtest: takes the engine's commands and answers with events.

The sandbox's `Account` keeps cash, shares, T+2, fee and tax; the exchange's own admission checks
phase, type, lot, tick and band; rows are the broker's `OrderRecord`. `exchange.py` fills and ends
orders.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.instrument import EXCHANGE_TZ, Lot
from bot.domain.message import (
    AccountRead,
    AmendAnswered,
    AmendOrder,
    CancelAnswered,
    CancelOrder,
    Command,
    Event,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    ReadAccount,
    ReadOrder,
    ReadTodaysOrders,
    SendStarted,
    TodaysOrdersRead,
)
from bot.domain.order import Intent, OrderType, Side
from bot.domain.outcome import Accepted, Outcome, Refused
from bot.domain.rulebook import Rulebook
from bot.runtime.history.backtest.exchange import BarExchange
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.admission import amend_refusal, verdict_on
from bot.sandbox.exchange.book import RestingOrder
from bot.sandbox.exchange.message import CancelCause, NewOrder, OrderAmended, Refusal
from bot.sandbox.house.order_record import OrderRecord, OrderStage, rejection_of
from bot.sandbox.scenario import AccountScript, Switches

FIRST_NUMBER: Final = 10_000_001
_HTTP_OK: Final = 200


class BarBroker:
    """One sub-account at a broker whose exchange consists of bars."""

    def __init__(self, rulebook: Rulebook, exchange: BarExchange, account: AccountScript) -> None:
        self.script = account
        self._exchange = exchange
        self._account = exchange.account
        self._rulebook = rulebook
        self._switches = Switches()
        self._rows: dict[str, OrderRecord] = {}
        self._number = FIRST_NUMBER

    def start_day(self) -> None:
        """Stop showing rows of earlier days."""
        self._rows.clear()

    def answer(self, command: Command, at: datetime) -> list[Event]:
        """Carry out a command and return the resulting events for the engine."""
        match command:
            case PlaceOrder(intent):
                started = SendStarted(at, intent.intent_id)
                return [started, PlaceAnswered(at, intent.intent_id, self._place(intent, at), None)]
            case CancelOrder(order_id):
                return [CancelAnswered(at, order_id, self._cancel(order_id, at), None)]
            case AmendOrder():
                return [AmendAnswered(at, command.order_id, self._amend(command, at), None)]
            case ReadOrder(order_id):
                return [self._row(order_id, at)]
            case ReadTodaysOrders():
                return [self.todays_orders(at)]
            case ReadAccount():
                return [self.account_read(at)]
            case _:
                return []

    def news(self, at: datetime) -> list[Event]:
        """Return the rows of orders that have changed by themselves since the last call: ended ones
        need not be read again and again.
        """
        changed, self._exchange.news = self._exchange.news, {}
        return [self._row(order_id, at) for order_id in changed]

    def _row(self, order_id: str, at: datetime) -> OrderRead:
        row = self._rows.get(order_id)
        return OrderRead(at, order_id, None if row is None else row.report(self._switches, at))

    def todays_orders(self, at: datetime) -> TodaysOrdersRead:
        """Return today's rows, as a poll would read them."""
        self._exchange.news = {}
        rows = tuple([each.report(self._switches, at) for each in self._rows.values()])
        return TodaysOrdersRead(at, self.script.extended_id, rows, at)

    def account_read(self, at: datetime) -> AccountRead:
        """Return cash and holdings, after settling what is due."""
        self._account.settle(at)
        closes, extended = self._exchange.closes(), self.script.extended_id
        return account_read_of(self._account, closes, extended, at)

    def _place(self, intent: Intent, at: datetime) -> Outcome:
        listed = self._exchange.listed(intent.symbol)
        kind = self._rulebook.canonical(intent.exchange, intent.order_type)
        record = self._record(intent, at)
        order = NewOrder(
            record.order_id,
            self.script.id,
            intent.symbol,
            intent.side,
            intent.quantity,
            kind,
            intent.limit_price,
        )
        verdict = verdict_on(order, None if listed is None else listed.market)
        refusal: Refusal | None = verdict if isinstance(verdict, Refusal) else None
        if listed is not None and refusal is None:
            refusal = self._account.can_place(order, listed.market.board())
        if refusal is not None or listed is None:
            rejection = rejection_of(refusal or Refusal.UNKNOWN_SYMBOL, record.lot)
            record.stage = OrderStage.REJECTED
            record.code, record.reason = rejection.code, rejection.reason
            result = record.result(self._switches)
            return Refused(rejection.code, rejection.reason, _HTTP_OK, result)
        self._account.reserve(order, listed.market.board())
        self._exchange.take_in(record, kind, listed)
        return Accepted(record.result(self._switches))

    def _record(self, intent: Intent, at: datetime) -> OrderRecord:
        number, is_limit = self._number, intent.order_type is OrderType.LO
        self._number += 1
        record = OrderRecord(
            order_id=f"ORD{number}",
            number=number,
            account=self.script,
            symbol=intent.symbol,
            exchange=intent.exchange,
            side=intent.side,
            quantity=intent.quantity,
            order_type=self._rulebook.routed(intent.exchange, intent.order_type),
            market_price=None if is_limit else intent.order_type,
            limit_price=intent.limit_price,
            price=intent.limit_price,
            lot=self._rulebook.venues[intent.exchange].lots.lot_of(intent.quantity),
            placed_at=at,
            phase=self._exchange.phase(intent.exchange),
        )
        self._rows[record.order_id] = record
        return record

    def _cancel(self, order_id: str, at: datetime) -> Outcome:
        order = self._exchange.working.get(order_id)
        if order is None:
            return self._refused(self._rows[order_id], Refusal.NOT_OPEN)
        if not order.listed.market.day.may_cancel:
            return self._refused(order.record, Refusal.CHANGE_NOT_NOW)
        self._exchange.cancel(order, at, CancelCause.REQUESTED)
        return Accepted(order.record.result(self._switches))

    def _amend(self, command: AmendOrder, at: datetime) -> Outcome:
        order = self._exchange.working.get(command.order_id)
        if order is None or order.limit is None:
            return self._refused(self._rows[command.order_id], Refusal.NOT_OPEN)
        record, listed, market = order.record, order.listed, order.listed.market
        home = market.odd if record.lot is Lot.ODD else market.even
        resting = RestingOrder(  # in the form that the exchange's own check takes
            record.order_id,
            record.account.id,
            OrderType.LO if order.kind is OrderType.MTL else order.kind,
            order.limit,
            record.quantity,
            record.remaining,
            0,
            home.buys if record.side is Side.BUY else home.sells,
        )
        price, quantity = command.limit_price, command.quantity
        total = quantity or record.quantity
        refusal = amend_refusal(resting, market, price=price, quantity=quantity)
        refusal = refusal or self._account.can_amend(
            record.order_id, price=price, quantity_change=total - record.quantity
        )
        if refusal is not None:
            return self._refused(record, refusal)
        new_price = price or order.limit
        if new_price != record.price or total > record.quantity:
            order.has_rested, order.ahead = False, listed.last_volume
        record.adjusted_quantity += total - record.quantity
        record.price, record.quantity = new_price, total
        record.limit_price = None if record.market_price else new_price
        self._account.apply(OrderAmended(at, record.order_id, new_price, total, record.remaining))
        return Accepted(record.result(self._switches))

    def _refused(self, record: OrderRecord, refusal: Refusal) -> Refused:
        rejection = rejection_of(refusal, record.lot)
        result = record.result(self._switches)
        return Refused(rejection.code, rejection.reason, _HTTP_OK, result)


def account_read_of(
    account: Account, closes: Mapping[str, int], extended_id: str, at: datetime
) -> AccountRead:
    """Return cash and holdings of a simulated account, as a poll would read them."""
    holdings = {
        each.symbol: Holding(
            each.symbol,
            each.total,
            each.sellable,
            sum(each.receiving) + each.promised,
            each.cost_price,
        )
        for each in account.holdings(at.astimezone(EXCHANGE_TZ).date())
    }
    worth = account.net_assets(closes)
    return AccountRead(at, AccountSnapshot(at, extended_id, account.cash, worth, holdings))
