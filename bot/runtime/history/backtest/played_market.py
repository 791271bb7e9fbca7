"""Plays a recorded market: its quotes and depths drive a mirrored exchange with a simulated broker.

    recorded quote, depth ─► mirrored market ─► Engine ── orders ─► mirrored market ─► rows

Account, orders and rows come from a sandbox house. Events that are not about the market pass on to
the engine unchanged.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from bot.domain.account import ShareholderRight
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.message import (
    AccountRead,
    AmendAnswered,
    AmendOrder,
    CancelAnswered,
    CancelOrder,
    Command,
    DepthReceived,
    Event,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    QuoteReceived,
    ReadAccount,
    ReadOrder,
    ReadTodaysOrders,
    Record,
    SendStarted,
    TimePassed,
    TodaysOrdersRead,
)
from bot.domain.operations import EarlierOrdersRead
from bot.domain.order import OrderReport
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.runtime.history.backtest.broker import account_read_of
from bot.runtime.history.backtest.conditions import UNSHOWN
from bot.runtime.history.backtest.loop import DEADLINES_MAX
from bot.runtime.history.backtest.result import Collected
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.house.house import House
from bot.sandbox.markets.mirror.market import depth_facts, quote_facts
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.scenario import AccountScript, Scenario, SymbolScript

_HTTP_OK: Final = 200
_REFUSED: Final = frozenset({"REJECTED", "FAILED"})


class PlayedMarket:
    """A house with one account; `quotes` and `instruments` define the listings, `deep` the symbols
    with depths, `at` the start.
    """

    def __init__(
        self,
        quotes: Mapping[str, Quote],
        instruments: Mapping[str, Instrument],
        deep: Collection[str],
        script: AccountScript,
        *,
        at: datetime,
        rulebook: Rulebook,
        fill: FillName,
    ) -> None:
        symbols = tuple(
            SymbolScript(
                symbol=symbol,
                exchange=quote.exchange,
                kind=instruments[symbol].kind,
                reference=quote.reference or quote.last,
            )
            for symbol, quote in quotes.items()
            if symbol in instruments
        )
        scenario = Scenario(symbols=symbols, accounts=(script,), fill=fill).on(at)
        self.script = script
        self.rights: tuple[ShareholderRight, ...] = ()
        """What corporate actions have paid here, so that every account read can explain it."""
        self._house = House(scenario, rulebook)
        self._deep = deep
        self._symbols = {each.symbol for each in symbols}
        self._rulebook = rulebook

    @property
    def account(self) -> Account:
        return self._house.accounts[self.script.id]

    def closes(self) -> Mapping[str, int]:
        """Return the last price of each symbol, or its reference if it has none yet."""
        boards = {symbol: self._house.venue.board(symbol) for symbol in self._symbols}
        return {symbol: board.last or board.reference for symbol, board in boards.items()}

    def through(
        self,
        engine: Engine,
        events: Iterable[Event],
        kept: Collected,
        heard: Callable[[Event], Event | None] = lambda event: event,
    ) -> None:
        """Give an engine the market of these events, and simulate its orders.

        `heard` returns the events for the engine from a recorded one. An answer comes after
        everything recorded at its instant, as on the day itself: an order whose cancel has just
        been sent is still working for a strategy woken then.
        """
        waiting, now = deque[Event](), datetime.min.replace(tzinfo=UTC)

        def take(event: Event) -> None:
            for command in engine.handle(event):
                if isinstance(command, Record):
                    kept.keep(command.entry)
                elif isinstance(command, PlaceOrder) and (
                    reason := engine.reason_not_to_send(command.intent)
                ):
                    intent_id = command.intent.intent_id
                    waiting.append(PlaceAnswered(event.at, intent_id, NotSent(reason), None))
                else:
                    waiting.extend(self._answer(command, event.at))

        def pass_to(at: datetime) -> None:
            for _ in range(DEADLINES_MAX):
                while waiting:
                    take(waiting.popleft())
                due = engine.next_due()
                if due is None or due >= at:
                    return
                self._house.advance(due)
                take(TimePassed(due))
            raise AssertionError(f"more than {DEADLINES_MAX} deadlines before {at}")

        for event in events:
            if event.at > now:
                pass_to(event.at)
                now = event.at
                self._house.advance(now)
            if (played := self._as_played(heard(event))) is not None:
                take(played)
        pass_to(now)

    def _as_played(self, event: Event | None) -> Event | None:
        """Apply the event to the market; return the events for the engine."""
        match event:
            case QuoteReceived(at, quote) if quote.symbol in self._symbols:
                self._see("mirror_quote", at, **quote_facts(quote))
                if quote.symbol not in self._deep:  # assume one: the last price, and one tick above
                    board = self._house.venue.board(quote.symbol)
                    above = self._rulebook.ticks_of(board.instrument).up(quote.last)
                    has_bid = quote.last > (quote.floor or 0)
                    has_ask = quote.ceiling is None or above <= quote.ceiling
                    bids = (DepthLevel(quote.last, UNSHOWN),) if has_bid else ()
                    asks = (DepthLevel(above, UNSHOWN),) if has_ask else ()
                    self._show(Depth(quote.symbol, bids, asks, quote.updated_at), at)
            case DepthReceived(at, depth) if depth.symbol in self._symbols:
                self._show(depth, at)
            case AccountRead(at):
                return replace(self._account(at), rights=self.rights or event.rights)
            case TodaysOrdersRead(at):
                return self._todays_orders(at)
            case EarlierOrdersRead(at):
                return EarlierOrdersRead(at, ())
        return event

    def _see(self, kind: str, at: datetime, **facts: JsonValue) -> None:
        self._house.carry_out({"kind": kind, "at": at.isoformat(), **facts})

    def _show(self, depth: Depth, at: datetime) -> None:
        self._see("mirror_depth", at, seen=at.isoformat(), **depth_facts(depth))

    # ------------------------------------------------------------------------- the broker

    def _answer(self, command: Command, at: datetime) -> list[Event]:
        """Carry out a command and return the resulting events for the engine."""
        match command:
            case PlaceOrder(intent):
                order: JsonValue = {
                    "sub_account": None,
                    "side": intent.side.value,
                    "symbol": intent.symbol,
                    "quantity": intent.quantity,
                    "order_type": intent.order_type.value,
                    "limit_price": intent.limit_price,
                }
                line: dict[str, JsonValue] = {"kind": "place", "account": self.script.id}
                outcome = self._changed({**line, "body": order}, at)
                started = SendStarted(at, intent.intent_id)
                return [started, PlaceAnswered(at, intent.intent_id, outcome, None)]
            case CancelOrder(order_id):
                outcome = self._changed({"kind": "cancel", "order": order_id}, at)
                return [CancelAnswered(at, order_id, outcome, None)]
            case AmendOrder(order_id):
                body: dict[str, JsonValue] = {
                    "quantity": command.quantity,
                    "limit_price": command.limit_price,
                }
                outcome = self._changed({"kind": "amend", "order": order_id, "body": body}, at)
                return [AmendAnswered(at, order_id, outcome, None)]
            case ReadOrder(order_id):
                rows = self._rows(at)
                return [OrderRead(at, order_id, rows.get(order_id))]
            case ReadTodaysOrders():
                return [self._todays_orders(at)]
            case ReadAccount():
                return [self._account(at)]
            case _:
                return []

    def _changed(self, line: dict[str, JsonValue], at: datetime) -> Outcome:
        try:
            change = self._house.carry_out({**line, "at": at.isoformat()})
        except HttpRefusal as refused:
            return Refused(refused.code, refused.message, refused.status)
        assert change is not None, "an order was changed"
        result, refusal = change.result, change.refusal
        if refusal is not None:
            return Refused(refusal.code, refusal.reason, _HTTP_OK, result)
        if result.status in _REFUSED:
            return Refused(result.code or result.status, result.reason or "", _HTTP_OK, result)
        return Accepted(result)

    def _rows(self, at: datetime) -> Mapping[str, OrderReport]:
        today = at.astimezone(EXCHANGE_TZ).date()
        reports = (
            each.report(self._house.scenario.switches, at)
            for each in self._house.day_order_book.every()
        )
        return {each.order_id: each for each in reports if each.trading_date == today}

    def _todays_orders(self, at: datetime) -> TodaysOrdersRead:
        rows = tuple(self._rows(at).values())
        return TodaysOrdersRead(at, self.script.extended_id, rows, at)

    def _account(self, at: datetime) -> AccountRead:
        read = account_read_of(self.account, self.closes(), self.script.extended_id, at)
        return replace(read, rights=self.rights or None)
