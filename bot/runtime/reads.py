"""Background reads of the broker: each posts its result as an event, or counts a failure.

A failed read does not change the engine's state (`read_health.py` says when it is reported). The
detail of an order is one kind of read, whichever order is asked for; its failures say nothing of
the others, as the day order book shows an order too. That it does not know an id is an answer,
unless the day order book has shown that id for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Final

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError
from bot.clock import Clock, boottime_s
from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.message import (
    AccountRead,
    DepthReceived,
    Event,
    OrderRead,
    PhaseChanged,
    QuoteReceived,
    TodaysOrdersRead,
)
from bot.domain.order import OrderReport
from bot.engine.health import DETAIL
from bot.engine.index import KnownIds, SeenIds
from bot.runtime.activity import Post, RightOfWay
from bot.runtime.read_health import ACCOUNT, BOOK, PHASE, Health
from bot.runtime.worlds.environment import Elapsed

ROW_TIMES_STEP: Final = timedelta(seconds=1)
"""Times of rows have a resolution of one second."""
MORNING: Final = timedelta(hours=8)
"""After midnight: what goes ex on a day has been booked by then."""
RIGHTS_AGAIN_S: Final = 2.0
"""How long after a read of the corporate actions they may be read again: if that failed, or by the
second look at a difference that they may explain. Each further time of a day it is twice as long.
"""
RIGHTS_AGAIN_MAX_S: Final = 300.0

ReadRow = Callable[[SubAccount, str, datetime], Awaitable[OrderReport | None]]
Spawn = Callable[[Coroutine[object, object, None], str], asyncio.Task[None]]


@dataclass(eq=False, slots=True)
class DayBookReader:
    """The day order book: read on demand, its ids remembered, one read at a time."""

    client: BrokerClient
    account: SubAccount
    clock: Clock
    offset: Callable[[], timedelta]
    """Returns how far the clock that stamped the rows of our orders is ahead of ours: by an
    estimate that lets no order leave, no row of one may be judged.
    """
    health: Health
    post: Post
    elapsed_s: Elapsed
    """For ages, which are durations: the market clock may step or run faster."""
    ids: SeenIds = field(default_factory=SeenIds, init=False)
    """Every order id of the day so far; ours are added before a read shows them."""
    answered: set[str] = field(default_factory=set, init=False)
    """Of these, the ids that the answers to our places have named."""
    _day: date | None = field(default=None, init=False)
    _read_s: float | None = field(default=None, init=False)
    _failure: BrokerError | None = field(default=None, init=False)
    _ahead: asyncio.Task[None] | None = field(default=None, init=False)

    def note_answered(self, order_id: str) -> None:
        """Remember the id that an answer has named: heard again, it is another order's. A refused
        place need not have one.
        """
        if order_id:
            self.ids.add(order_id)
            self.answered.add(order_id)

    def known(self) -> KnownIds:
        """Return what an answer to an order sent now can't name: the ids so far, and those that
        other answers name until then.
        """
        return self.ids.until_now(also=self.answered)

    async def read_first(self) -> None:
        """Read it for the first time of a day. Raises BrokerError on failure."""
        await self.read()
        if (failure := self._failure) is not None:
            reason = f"the day order book can't be read: {failure}"
            raise BrokerError("todays_orders", reason) from failure

    async def reason_of_age(self, age_max: timedelta) -> str | None:
        """Read it unless that was done within `age_max`; return why it is still too
        old, if it is.
        """
        if not self.is_older(age_max):
            return None
        if self._ahead is not None and not self._ahead.done():
            await asyncio.wait({self._ahead})
        else:
            await self.read()
        if not self.is_older(age_max):
            return None
        failure = f"; reading it again failed: {self._failure}" if self._failure else ""
        if self._read_s is None:
            return f"the day order book has not been read yet{failure}"
        age_s, limit_s = self.elapsed_s() - self._read_s, age_max.total_seconds()
        return f"the day order book was read {age_s:.1f} s ago, limit {limit_s:g} s{failure}"

    def read_ahead(self, age_max: timedelta, spawn: Spawn) -> None:
        """Start reading it if it is too old for an order whose decision is being committed."""
        if self.is_older(age_max) and (self._ahead is None or self._ahead.done()):
            self._ahead = spawn(self.read(), "day order book")

    def is_older(self, age_max: timedelta) -> bool:
        """Return whether it was not read within `age_max`."""
        return self._read_s is None or self.elapsed_s() - self._read_s > age_max.total_seconds()

    async def read(self) -> None:
        """Read the day order book and post it."""
        asked_at, asked_s = self.clock.now(), self.elapsed_s()
        try:
            found = await self.client.todays_orders(self.account, asked_at)
        except BrokerError as error:
            self.health.failed(error, BOOK)
            self._failure = error
            return
        self.health.succeeded(BOOK)
        self._read_s, self._failure = asked_s, None
        day = asked_at.astimezone(EXCHANGE_TZ).date()
        if day != self._day:  # the broker may reuse the ids of another day
            self._day, self.ids, self.answered = day, SeenIds(), set()
            self.health.rest(DETAIL, "")
        todays = [each.order_id for each in found.reports if each.trading_date >= day]
        self.health.listed(todays, asked_s)
        for each in todays:
            self.ids.add(each)
        for row in found.set_aside:
            if row.order_id:
                self.ids.add(row.order_id)
        account, at = self.account.extended_id, self.clock.now()
        reports, offset = found.reports, self.offset()
        if abs(offset) >= ROW_TIMES_STEP:
            reports = tuple([_by_our_clock(each, offset) for each in reports])
        self.post(TodaysOrdersRead(at, account, reports, asked_at, found.set_aside))


def _by_our_clock(report: OrderReport, offset: timedelta) -> OrderReport:
    placed_at = report.placed_at
    return report if placed_at is None else replace(report, placed_at=placed_at - offset)


@dataclass(eq=False, slots=True)
class Reads:
    """The other reads, each one call and one event. Two of one kind and symbol never overlap."""

    client: BrokerClient
    sub_account: SubAccount
    clock: Clock
    health: Health
    post: Post
    way: RightOfWay
    elapsed_s: Elapsed = boottime_s
    _under_way: set[str] = field(default_factory=set, init=False)
    _rights_day: date | None = field(default=None, init=False)
    _rights_due_s: float = field(default=0.0, init=False)
    _rights_wait_s: float = field(default=RIGHTS_AGAIN_S, init=False)
    _looks_again: bool = field(default=False, init=False)
    phases: dict[Exchange, PhaseChanged] = field(default_factory=dict, init=False)
    """The last announced phase of each exchange."""

    async def _once(
        self,
        key: str,
        ask: Callable[[datetime], Awaitable[Event]],
        named: tuple[str, str] | None,
    ) -> BrokerError | None:
        """Read, and post the result as an event of the request's time; return a failure.

        `named` is the kind and subject under which a failure is counted.
        """
        if key in self._under_way:
            return None
        self._under_way.add(key)
        asked_at = self.clock.now()
        try:
            self.post(await ask(asked_at))
        except BrokerError as error:
            if named is not None:
                self.health.failed(error, *named)
            return error
        else:
            self.health.succeeded(*named or ())
            return None
        finally:
            self._under_way.discard(key)

    def is_under_way(self, key: str) -> bool:
        """Return whether a read of that kind and symbol has no answer yet: `quote FPT`."""
        return key in self._under_way

    async def quote(self, symbol: str) -> None:
        """Poll the quote of a symbol."""

        async def ask(at: datetime) -> Event:
            return QuoteReceived(at, await self.client.quote(symbol), self.clock.now())

        await self.way.clear()
        await self._once(f"quote {symbol}", ask, ("the quote", symbol))

    async def depth(self, symbol: str) -> None:
        """Poll the depth of a symbol."""

        async def ask(at: datetime) -> Event:
            return DepthReceived(at, await self.client.depth(symbol), self.clock.now())

        await self.way.clear()
        await self._once(f"depth {symbol}", ask, ("the depth", symbol))

    async def phase(self, exchange: Exchange) -> BrokerError | None:
        """Read the phase of an exchange and the order types that the broker lists for it; return a
        failure.
        """

        async def ask(at: datetime) -> Event:
            found = await self.client.market_phase(exchange)
            self.phases[exchange] = PhaseChanged(at, exchange, found.phase, found.available)
            return self.phases[exchange]

        return await self._once(f"phase {exchange}", ask, (PHASE, exchange.value))

    async def order(self, order_id: str) -> None:
        """Poll one order's detail row."""
        await self._order(f"order {order_id}", order_id, self.client.order)

    async def order_to_cancel(self, order_id: str) -> None:
        """Read it before a cancel, without waiting for a poll of it that waits for the quota."""
        await self._order(f"order {order_id} to cancel", order_id, self.client.order_to_cancel)

    async def _order(self, key: str, order_id: str, read: ReadRow) -> None:
        """Post the row, or that it cannot be read, so that no cancel waits for it."""

        async def ask(at: datetime) -> Event:
            asked_s = self.elapsed_s()
            try:
                row = await read(self.sub_account, order_id, at)
            except BrokerError as error:
                self.post(OrderRead(at, order_id, None, is_unreadable=True))
                self.health.failed_alone(error, DETAIL)
                raise
            if row is None:
                self.health.not_known(order_id, asked_s)
            else:
                self.health.succeeded(DETAIL)
            return OrderRead(at, order_id, row)

        await self._once(key, ask, None)

    async def account(self) -> None:
        """Poll cash and holdings."""
        await self._account("account")

    async def account_again(self) -> None:
        """Poll them for a second look at a difference, which what the broker has booked since its
        corporate actions were read may explain.
        """
        self._looks_again = True  # for the read that is under way, if one is
        await self._account("account")

    async def account_first(self) -> None:
        """Read cash and holdings at the start of a day. Raises BrokerError on failure."""
        if (failure := await self._account("account of the day")) is not None:
            raise BrokerError("account", f"the account can't be read: {failure}") from failure

    async def _account(self, key: str) -> BrokerError | None:
        """Read cash and holdings.

        Corporate actions come with the first read of a run, and of each day from 08:00 on, and with
        each second look at a difference, the next of a day after twice the time. They only help to
        explain one, so a failure counts as none; they are asked for again with a later read.
        """

        async def ask(at: datetime) -> Event:
            snapshot, rights = await self.client.account_snapshot(self.sub_account, at), None
            day = (at.astimezone(EXCHANGE_TZ) - MORNING).date()
            now_s = self.elapsed_s()
            is_new_day = day != self._rights_day
            looks_again, self._looks_again = self._looks_again, False
            if (is_new_day or looks_again) and now_s >= self._rights_due_s:
                self._rights_due_s = now_s + self._rights_wait_s
                self._rights_wait_s = min(2 * self._rights_wait_s, RIGHTS_AGAIN_MAX_S)
                with suppress(BrokerError):
                    rights = await self.client.rights(self.sub_account)
                    if is_new_day:
                        self._rights_day, self._rights_wait_s = day, RIGHTS_AGAIN_S
            return AccountRead(at, snapshot, rights)

        return await self._once(key, ask, (ACCOUNT, ""))
