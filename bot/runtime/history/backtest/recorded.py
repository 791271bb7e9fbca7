"""Trades a recorded day again: its market in the mirror of paper mode, its strategies on top.

    recorded quote, depth ─► mirrored market ─► Engine ── orders ─► mirrored market ─► rows

What the recording holds of the market, the phases, the timers and the operator goes to the engine
as it did; account, orders and rows come from a house that is played here. So what differs from the
recorded day are the fills that the model supposes, and what follows from them.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.config.strategies.invoke import invoke
from bot.domain.days import EarlierOrdersRead
from bot.domain.entry import Verdict
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.machine import ClockStepped, DiskSeen, StoodStill
from bot.domain.message import (
    AccountRead,
    AmendAnswered,
    AmendOrder,
    BrokerHealthChanged,
    CancelAnswered,
    CancelOrder,
    ClockOffsetChanged,
    Command,
    DepthReceived,
    Event,
    InstrumentsRead,
    JournalHealthChanged,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    QuoteReceived,
    ReadAccount,
    ReadHealthChanged,
    ReadOrder,
    ReadTodaysOrders,
    Record,
    Recovered,
    SendStarted,
    TimePassed,
    TodaysOrdersRead,
)
from bot.domain.order import Intent, OrderReport
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.runtime.history.backtest.broker import account_read_of
from bot.runtime.history.backtest.collect import Collected
from bot.runtime.history.backtest.loop import DEADLINES_MAX
from bot.runtime.history.recording.recordings import GAP, Unusable, parts_of, read_head, rows_of
from bot.runtime.history.recording.replay import recorded_runs, strategies_of
from bot.runtime.history.recording.what_if import OF_ORDERS
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.house.house import House
from bot.sandbox.markets.mirror.market import depth_facts, quote_facts
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.scenario import AccountScript, Scenario, SymbolScript

ACCOUNT_ID: Final = "0000000001"
_HTTP_OK: Final = 200
_REFUSED: Final = frozenset({"REJECTED", "FAILED"})

OF_THE_MACHINE: Final = (
    *(BrokerHealthChanged, JournalHealthChanged, ReadHealthChanged),
    *(ClockOffsetChanged, ClockStepped, StoodStill, DiskSeen),
)
"""Events of the network and the machine of that day. Its deadlines stay: what is due at the instant
of a poll came before or after it."""
COUNTED: Final = (
    *("recorded", "played", "the same order", "the same fill", "other shares", "other price"),
    *("only recorded", "only played"),
)
"""What orders are counted by, as far as there are any."""
UNSHOWN: Final = 10_000
"""Shares at bid and at ask of a symbol whose depth was not recorded: its last price, a tick above.
"""


@dataclass(frozen=True, slots=True)
class Order:
    """One order that was sent, and what it came to."""

    at: datetime
    strategy: str
    symbol: str
    side: str
    quantity: int
    price: int | None
    state: str
    executed: int
    amount: int

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same order on both sides."""
        return (self.at, self.strategy, self.symbol, self.side, self.quantity, self.price)


@dataclass(frozen=True, slots=True)
class Compared:
    """The orders of a recorded day as they were, and as the fill model has them."""

    day: date
    fill: FillName
    recorded: tuple[Order, ...]
    played: tuple[Order, ...]

    def counts(self) -> Mapping[str, int]:
        """Count the orders by what is equal about them."""
        ours = {each.key: each for each in self.played}
        counts: Counter[str] = Counter(recorded=len(self.recorded), played=len(self.played))
        for each in self.recorded:
            other = ours.pop(each.key, None)
            if other is None:
                counts["only recorded"] += 1
                continue
            counts["the same order"] += 1
            if each.executed != other.executed:
                counts["other shares"] += 1
            elif each.amount != other.amount:
                counts["other price"] += 1
            else:
                counts["the same fill"] += 1
        counts["only played"] = len(ours)
        return counts


def trade_again(state_dir: Path, day: date, *, fill: FillName = "queue") -> Compared:
    """Trade the runs of a recorded day again and compare. Raises Unusable."""
    recorded, played = list[Order](), list[Order]()
    for folder in recorded_runs(state_dir, day):
        head, ways = read_head(folder)
        rows = [row for part in parts_of(folder) for row in rows_of(part)]
        if any(row.kind == GAP for row in rows):
            raise Unusable(f"{folder}: events are missing, so its orders can't be compared")
        events = [ways.event.read(row.event) for row in rows if row.event]
        kept = Collected()
        for row in rows:
            for command in ways.commands.read(row.commands or "[]"):
                if isinstance(command, Record):
                    kept.keep(command.entry)
        recorded += orders_of(kept)
        run = _Played(events, head.rulebook, fill)
        strategies = [
            replace(each, plan=replace(each.plan, account=run.script.extended_id))
            for each in strategies_of(head)
        ]
        engine = Engine(
            rulebook=head.rulebook, strategies=strategies, settings=head.settings, invoke=invoke
        )
        played += orders_of(run.through(engine, events))
    return Compared(day, fill, tuple(recorded), tuple(played))


def orders_of(kept: Collected) -> list[Order]:
    """Return the orders of a run, in the order in which they were decided."""
    by_intent = {each.intent_id: each for each in kept.orders.values()}
    found = []
    for each in kept.decisions:
        order = by_intent.get(each.request_id)
        if each.verdict is Verdict.PASSED and order is not None and each.side is not None:
            found.append(
                Order(
                    *(each.at, each.strategy, each.symbol, each.side, order.quantity),
                    *(order.price, order.state, order.executed_quantity, order.executed_amount),
                )
            )
    return found


class _Played:
    """A house whose market is the recorded one, with an account that begins as the recorded."""

    def __init__(self, events: Iterable[Event], rulebook: Rulebook, fill: FillName) -> None:
        quotes, instruments = dict[str, Quote](), dict[str, Instrument]()
        first, account, self._deep = None, None, set[str]()
        for event in events:
            first = first or event.at
            if isinstance(event, QuoteReceived):
                quotes.setdefault(event.quote.symbol, event.quote)
            elif isinstance(event, DepthReceived):
                self._deep.add(event.depth.symbol)
            elif isinstance(event, InstrumentsRead):
                instruments |= {each.symbol: each for each in event.instruments}
            elif isinstance(event, AccountRead):
                account = account or event.snapshot
        if first is None or account is None or not quotes:
            raise Unusable("it holds no quote or no account: there is nothing to trade on")
        holdings = {
            symbol: held.total
            for symbol, held in account.holdings.items()
            if held.total and symbol in quotes
        }
        self.script = AccountScript(id=ACCOUNT_ID, cash=account.cash, holdings=holdings)
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
        scenario = Scenario(symbols=symbols, accounts=(self.script,), fill=fill).on(first)
        self._house = House(scenario, rulebook)
        self._symbols = {each.symbol for each in symbols}
        self._rulebook = rulebook

    def through(self, engine: Engine, events: Iterable[Event]) -> Collected:
        """Give an engine the market of these events, and play what it orders.

        An answer comes after all that was recorded of its instant, as it came on the day: an
        order whose cancel has just left still works for a strategy that is woken then.
        """
        kept, waiting, now = Collected(), deque[Event](), datetime.min.replace(tzinfo=UTC)

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
            if (played := self._as_played(event)) is not None:
                take(played)
        pass_to(now)
        return kept

    def _as_played(self, event: Event) -> Event | None:
        """Show the market what the event shows; return what the engine hears of it."""
        at = event.at
        match event:
            case QuoteReceived(quote=quote) if quote.symbol in self._symbols:
                self._see("mirror_quote", at, **quote_facts(quote))
                if quote.symbol not in self._deep:
                    self._show(self._touch(quote), at)
            case DepthReceived(depth=depth) if depth.symbol in self._symbols:
                self._show(depth, at)
            case Recovered():
                return Recovered(at, Recovery(event.recovery.trading_date))
            case AccountRead():
                return replace(self._account(at), rights=event.rights)
            case TodaysOrdersRead():
                return self._todays_orders(at)
            case EarlierOrdersRead():
                return EarlierOrdersRead(at, ())
            case _ if isinstance(event, (*OF_ORDERS, *OF_THE_MACHINE)):
                return None
        return event

    def _see(self, kind: str, at: datetime, **facts: JsonValue) -> None:
        self._house.carry_out({"kind": kind, "at": at.isoformat(), **facts})

    def _show(self, depth: Depth, at: datetime) -> None:
        self._see("mirror_depth", at, seen=at.isoformat(), **depth_facts(depth))

    def _touch(self, quote: Quote) -> Depth:
        """Suppose a depth where none was recorded: the last price, and one tick above."""
        board = self._house.venue.board(quote.symbol)
        above = self._rulebook.ticks_of(board.instrument).up(quote.last)
        bids = (DepthLevel(quote.last, UNSHOWN),) if quote.last > (quote.floor or 0) else ()
        has_ask = quote.ceiling is None or above <= quote.ceiling
        asks = (DepthLevel(above, UNSHOWN),) if has_ask else ()
        return Depth(quote.symbol, bids, asks, quote.updated_at)

    # ------------------------------------------------------------------------- the broker

    def _answer(self, command: Command, at: datetime) -> list[Event]:
        """Carry a command out and return what the engine hears of it."""
        match command:
            case PlaceOrder(intent):
                outcome = self._placed(intent, at)
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

    def _placed(self, intent: Intent, at: datetime) -> Outcome:
        body: JsonValue = {
            "sub_account": None,
            "side": intent.side.value,
            "symbol": intent.symbol,
            "quantity": intent.quantity,
            "order_type": intent.order_type.value,
            "limit_price": intent.limit_price,
        }
        return self._changed({"kind": "place", "account": ACCOUNT_ID, "body": body}, at)

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
        account, venue = self._house.accounts[ACCOUNT_ID], self._house.venue
        boards = {symbol: venue.board(symbol) for symbol in self._symbols}
        closes = {symbol: board.last or board.reference for symbol, board in boards.items()}
        return account_read_of(account, closes, self.script.extended_id, at)
