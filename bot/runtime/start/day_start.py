"""The reads before a day begins: the same after a start and after a night.

    order history (where an earlier day left orders open, or places unknown)
        ─► day order book ─► account ─► Reconciled

With open work, or in a running bot, failed reads are retried until they work: orders may be open,
so the bot stays, cancels and takes requests; no order is sent before everything is read. If the
broker answers other reads, a day begins without the order history after `HISTORY_TRIES`, and the
symbols of what it would have shown are halted. A start also reads the market; what orders need
comes first.

Today's day order book does not list orders that an earlier day left open; the order history does,
under each of an order's ids. It is merged before that day is closed, so that a fill while no bot
ran also becomes a fill in the journal. A place whose outcome was lost has no id: of it the history
gives what looks like it, and the engine decides.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from typing import Final

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError, Malformed, is_unknown
from bot.broker.paging import read_pages
from bot.clock import Clock
from bot.config.strategies.load import UnknownSymbols
from bot.domain.account import SubAccount
from bot.domain.entry import Note, OrderUpdated
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.message import (
    InstrumentsRead,
    Noted,
    QuoteReceived,
    Reconciled,
)
from bot.domain.operations import EarlierOrdersRead
from bot.domain.order import (
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    Intent,
    OrderReport,
    OrderState,
    OrderType,
    Side,
)
from bot.domain.plan import StrategyPlan
from bot.domain.quote import Quote
from bot.domain.recovery import Recovery
from bot.protocol.calls import ORDER_HISTORY_CODEC
from bot.protocol.status import state_of
from bot.protocol.strict_json import compact
from bot.protocol.values.account import PastOrder
from bot.runtime.activity import Post
from bot.runtime.closes import Closes
from bot.runtime.reads import DayBookReader, Reads
from bot.runtime.start.broker import unreachable
from bot.runtime.start.retry import BrokerRetry
from bot.runtime.timetable.notes import quote_note

HISTORY_TRIES: Final = 5
"""How often the order history is requested before a day begins without it."""
REFUSED_S: Final = 300.0
"""How long a running bot waits after the broker has refused its key at the start of a day."""


@dataclass(frozen=True, slots=True)
class KnownOrders:
    """Orders as the bot knows them; `later_ids` are the ids of each, by its first one. `unknown`
    are the places of which it is not known whether they became orders.
    """

    rows: Iterable[OrderUpdated]
    later_ids: Mapping[str, Sequence[str]]
    unknown: Iterable[Intent]

    @classmethod
    def of(cls, recovery: Recovery) -> "KnownOrders":
        """Return what the journal knows of them."""
        unknown = [one.intent for one in recovery.intents if one.state in UNRESOLVED_SENDS]
        return cls(recovery.orders, recovery.later_ids, unknown)


@dataclass(frozen=True, slots=True)
class DayStart:
    """Reads what a day begins with, and posts it."""

    client: BrokerClient
    account: SubAccount
    market: Clock
    reads: Reads
    day_order_book: DayBookReader
    retry: BrokerRetry
    post: Post
    plans: tuple[StrategyPlan, ...]
    listed: Mapping[str, Instrument]
    closes: Closes
    listed_on: dict[str, date] = field(default_factory=dict)
    """By symbol, the day on which the broker last said where it is listed."""

    async def after_start(self, known: KnownOrders) -> Mapping[str, Instrument]:
        """Read all that a run begins with; return its instruments, by their symbols.

        Raises OperatorMistake if nothing is open and the broker does not answer.
        """
        try:
            await self._orders_and_account(known)
            quotes = await self._quotes()
        except BrokerError as error:
            raise unreachable(error) from error
        at = self.market.now()
        today = at.astimezone(EXCHANGE_TZ).date()
        self.listed_on.update(dict.fromkeys((each.symbol for each in quotes), today))
        found = {each.symbol: Instrument(each.symbol, each.exchange) for each in quotes}
        self.post(InstrumentsRead(at, tuple(found.values())))
        instruments = {**{s: i for s, i in self.listed.items() if s in self._symbols()}, **found}
        for exchange in sorted({each.exchange for each in instruments.values()}):
            await self.reads.phase(exchange)
        await self.closes.read(instruments)
        for quote in quotes:
            self.post(QuoteReceived(at, quote))
            self.post(Noted(at, quote_note(quote, at)))
        return instruments

    async def after_night(self, known: KnownOrders) -> Mapping[str, Instrument]:
        """Read what a day begins with in a running bot, for as long as it takes; return where each
        symbol is listed according to the broker this morning.
        """
        is_read = False
        while not is_read:
            try:
                await self._orders_and_account(known)
                is_read = True
            except BrokerError as error:
                self.retry.tell(f"the broker refuses the reads of a new day ({error})", REFUSED_S)
                await self.retry.pause(REFUSED_S)
        traded = {symbol: each for symbol, each in self.listed.items() if symbol in self._symbols()}
        await self.closes.read(traded)
        self.reconciled()
        found, today = dict[str, Instrument](), self.market.now().astimezone(EXCHANGE_TZ).date()
        for symbol in self._symbols():
            with suppress(BrokerError):  # what does not answer stays where it was
                quote = await self.client.quote(symbol)
                found[symbol] = Instrument(symbol, quote.exchange)
                self.listed_on[symbol] = today
        self.post(InstrumentsRead(self.market.now(), tuple(found.values())))
        return found

    def reconciled(self) -> None:
        """Return the event that everything has been read."""
        self.post(Reconciled(self.market.now()))

    async def _orders_and_account(self, known: KnownOrders) -> None:
        self.post(await self._earlier(known))
        await self.retry.ask(self.day_order_book.read_first)
        await self.retry.ask(self.reads.account_first)

    async def _earlier(self, known: KnownOrders) -> EarlierOrdersRead:
        now = self.market.now()
        today = now.astimezone(EXCHANGE_TZ).date()
        left = left_open(known, self.account, today)
        lost = [
            each
            for each in known.unknown
            if each.account == self.account.extended_id and each.trading_date < today
        ]
        if not left and not lost:
            return EarlierOrdersRead(now, ())
        ask = partial(earlier_ends, self.client, self.account, left, lost, now=now)
        look = partial(self.client.todays_orders, self.account, now)
        found = await read_history(self.retry, ask, look)
        if isinstance(found, BrokerError):
            ids = ", ".join([*left, *(each.intent_id for each in lost)])
            text = (
                f"the order history can't be read ({found}): how {ids} ended is not known. Their "
                "symbols are halted. Compare the holding with the broker's, then: bot resume"
            )
            numbers = {"alert": "HISTORY_UNREAD", "orders": ids, "error": str(found)}
            self.post(Noted(now, Note(now, "ALERT", text, numbers)))
            return EarlierOrdersRead(self.market.now(), (), is_unread=True)
        return EarlierOrdersRead(self.market.now(), found)

    def _symbols(self) -> Collection[str]:
        return sorted({symbol for plan in self.plans for symbol in plan.symbols})

    async def _quotes(self) -> list[Quote]:
        """Read every symbol's quote. Raises OperatorMistake, for all unknown symbols at once.

        A quote that can't be read (a price of 0 before the symbol's first trade) stops no other
        symbol. With open work none is awaited: the polls continue, and orders come first.
        """
        quotes, unknown, unread = [], [], dict[str, BrokerError]()
        for symbol in self._symbols():
            try:
                quotes.append(await self.client.quote(symbol))
            except BrokerError as error:
                is_awaited = not self.retry.is_needed or symbol not in self.listed
                if not is_awaited or isinstance(error, Malformed):
                    unread[symbol] = error
                elif is_unknown(error):
                    unknown.append(symbol)
                else:
                    raise
        if unknown:
            raise UnknownSymbols(unknown, self.plans)
        for symbol, failure in unread.items():
            if symbol not in self.listed or not (quotes or self.retry.is_needed):
                raise Malformed(failure.call, f"{symbol}: {failure.reason}")
            why = "Orders may be open, so the" if self.retry.is_needed else "The"
            self.retry.report(
                f"{symbol} has no quote ({failure}): nothing is sent in it until there is one. "
                f"{why} bot goes on without it"
            )
        return quotes


def left_open(known: KnownOrders, account: SubAccount, today: date) -> dict[str, OrderUpdated]:
    """Return our own orders of an account that are open and from an earlier day, by every id that
    they have had.
    """
    return {
        order_id: row
        for row in known.rows
        if row.intent_id is not None
        and row.account == account.extended_id
        and row.trading_date < today
        and row.state not in TERMINAL_STATES
        for order_id in (row.order_id, *known.later_ids.get(row.order_id, ()))
    }


async def read_history(
    retry: BrokerRetry,
    ask: Callable[[], Awaitable[tuple[OrderReport, ...]]],
    look: Callable[[], Awaitable[object]],
) -> tuple[OrderReport, ...] | BrokerError:
    """Return the order history's answer, or why it is given up: only if the broker answers another
    read at once, whatever the history's own answer was. If the broker does not answer at all, keep
    waiting and retrying. Raises BrokerError if it refuses the other read too.
    """
    while True:
        try:
            return await retry.ask(ask, tries_max=HISTORY_TRIES)
        except BrokerError as error:
            failure = error
        try:
            await look()
        except BrokerError:
            await retry.ask(look)
        else:
            return failure


async def earlier_ends(
    client: BrokerClient,
    account: SubAccount,
    left: Mapping[str, OrderUpdated],
    lost: Sequence[Intent],
    *,
    now: datetime,
) -> tuple[OrderReport, ...]:
    """Return what the history says of orders that an earlier day left, and what in it looks like a
    place that was lost; empty if there were none.

    For an order that it does not list, the engine halts the symbol. `now` is market time. Raises
    BrokerError if the history cannot be read.
    """
    days = [*(row.trading_date for row in left.values()), *(each.trading_date for each in lost)]
    if not days:
        return ()
    query = [("fromDate", min(days).isoformat()), ("toDate", max(days).isoformat())]
    pages = read_pages(client, ORDER_HISTORY_CODEC, {"sub_account_id": account.id}, query)
    found = list[OrderReport]()
    async for page in pages:
        for past in page.value.orders:
            row = left.get(past.order_id)
            report = _report_of(row, past, now) if row is not None else None
            # The id may be another order's, of another day.
            report = report or _report_like(lost, past, now)
            found += [report] if report is not None else []
    return tuple(found)


def _report_like(lost: Sequence[Intent], past: PastOrder, now: datetime) -> OrderReport | None:
    """Return the row of an order that looks like a lost place, or like a part of it; whether it is
    that, the engine decides. What was executed of it may not be known: then it counts as open.
    """
    days = {each.trading_date for each in lost}
    day = past.transaction_date or (min(days) if len(days) == 1 else None)
    alike = (
        each
        for each in lost
        if (each.trading_date, each.symbol, each.side) == (day, past.symbol, past.side)
        and 0 < past.quantity <= each.quantity
    )
    intent = next(alike, None)
    if intent is None or not past.order_id:
        return None
    named = past.order_type if past.order_type in OrderType.__members__ else past.market_price
    report = replace(
        _row_of(past, intent, now), order_type=named or "", price=past.limit_price or None
    )
    if past.executed_quantity is None:
        report = replace(report, state=OrderState.ACCEPTED, cancelled_quantity=0)
        return replace(report, remaining_quantity=past.quantity)
    return report


def _report_of(row: OrderUpdated, past: PastOrder, now: datetime) -> OrderReport | None:
    """Return what the history says about an order. All are day orders, so none is open any more.

    None if it is another order (ids may be reused on another day), or if the history does not say
    how much was executed.
    """
    if past.executed_quantity is None or past.symbol != row.symbol:
        return None
    if past.transaction_date not in {None, row.trading_date}:
        return None
    report = _row_of(past, row, now)
    return replace(report, order_type=row.order_type, price=past.limit_price or row.price)


def _row_of(past: PastOrder, order: OrderUpdated | Intent, now: datetime) -> OrderReport:
    """Return an order of the history as a row of its own day, which is over."""
    executed = past.executed_quantity or 0
    quantity = past.quantity or order.quantity
    figures = {
        "order_quantity": past.quantity,
        "execute_quantity": past.executed_quantity,
        "execute_price": past.average_price,
        "execute_amount": past.executed_amount,
    }
    return OrderReport(
        order_id=past.order_id,
        root_order_id=order.order_id if isinstance(order, OrderUpdated) else past.order_id,
        account=order.account,
        trading_date=order.trading_date,
        symbol=order.symbol,
        side=Side(past.side) if past.side in Side.__members__ else order.side,
        quantity=quantity,
        order_type=order.order_type,
        price=None,
        executed_quantity=executed,
        average_price=past.average_price,
        executed_amount=past.executed_amount,
        remaining_quantity=0,
        cancelled_quantity=max(0, quantity - executed),
        status=past.status,
        state=state_of(past.status),
        may_cancel=False,
        may_amend=False,
        placed_at=None,
        message="",
        requested_at=now,
        raw=compact({"call": "order_history", "status": past.status, **figures}),
    )
