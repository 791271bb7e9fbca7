"""Reads of the broker as background work: each posts what it learned as an event, or counts a
failure.

A failed read changes nothing in the engine's picture; three failures in a row of any reads make the
broker unhealthy, the next success makes it healthy again.
"""

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Final

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError, Malformed
from bot.clock import Clock
from bot.domain.account import ShareholderRight, SubAccount
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.message import (
    AccountRead,
    BrokerHealthChanged,
    DepthReceived,
    OrderRead,
    PhaseChanged,
    QuoteReceived,
    TodaysOrdersRead,
)
from bot.runtime.inbox import Post
from bot.runtime.worlds.environment import Elapsed

FAILURES_MAX: Final = 3
MORNING: Final = timedelta(hours=8)
"""After midnight: by then what goes ex on a day has been booked."""


class Health:
    """Counts failures in a row and posts when reads stop or start working."""

    def __init__(self, clock: Clock, post: Post) -> None:
        self._clock = clock
        self._post = post
        self._failures = 0
        self._is_healthy = True

    def succeeded(self) -> None:
        """A read worked."""
        self._failures = 0
        if not self._is_healthy:
            self._is_healthy = True
            self._post(BrokerHealthChanged(self._clock.now(), True, "reads work again"))

    def failed(self, error: BrokerError) -> None:
        """A read failed."""
        self._failures += 1
        if self._is_healthy and self._failures >= FAILURES_MAX:
            self._is_healthy = False
            self._post(BrokerHealthChanged(self._clock.now(), False, str(error)))


class DayOrderBook:
    """The day order book: read at once, remembered by its ids, one read at a time."""

    def __init__(
        self,
        client: BrokerClient,
        account: SubAccount,
        clock: Clock,
        health: Health,
        post: Post,
        elapsed_s: Elapsed,
    ) -> None:
        self._client = client
        self._account = account
        self._clock = clock
        self._health = health
        self._post = post
        self._elapsed_s = elapsed_s
        self._ids: set[str] = set()
        self._day: date | None = None
        self._read_s: float | None = None
        self._failure = ""

    def known_ids(self) -> tuple[str, ...]:
        """Every order id seen in the book of the day so far, sorted."""
        return tuple(sorted(self._ids))

    def learn(self, order_id: str) -> None:
        """An order of ours was accepted; its id is known before the book shows it."""
        self._ids.add(order_id)

    async def read_first(self) -> None:
        """Read the book for the first time of a run. Raises BrokerError when it cannot be."""
        await self.read()
        if self._read_s is None:
            raise BrokerError("todays_orders", f"the day order book can't be read: {self._failure}")

    async def reason_of_age(self, age_max: timedelta) -> str | None:
        """Read the book unless that was done within `age_max`; return why it is too old even so."""
        if self._is_older(age_max):
            await self.read()
        if not self._is_older(age_max):
            return None
        failure = f"; reading it again failed: {self._failure}" if self._failure else ""
        if self._read_s is None:
            return f"the day order book has not been read yet{failure}"
        age_s, limit_s = self._elapsed_s() - self._read_s, age_max.total_seconds()
        return f"the day order book was read {age_s:.1f} s ago, limit {limit_s:g} s{failure}"

    def _is_older(self, age_max: timedelta) -> bool:
        """An age is a duration: it is not the market clock's, which may step or run faster."""
        return self._read_s is None or self._elapsed_s() - self._read_s > age_max.total_seconds()

    async def read(self) -> None:
        """Read the book and post it."""
        asked_at, asked_s = self._clock.now(), self._elapsed_s()
        try:
            found = await self._client.todays_orders(self._account, asked_at)
        except BrokerError as error:
            self._health.failed(error)
            self._failure = str(error)
            return
        self._health.succeeded()
        self._read_s, self._failure = asked_s, ""
        self._begin_day(asked_at.astimezone(EXCHANGE_TZ).date())
        self._ids.update(report.order_id for report in found.reports)
        self._ids.update(row.order_id for row in found.set_aside if row.order_id)
        account, at = self._account.extended_id, self._clock.now()
        self._post(TodaysOrdersRead(at, account, found.reports, asked_at, found.set_aside))

    def _begin_day(self, day: date) -> None:
        """Forget the ids of another day: the broker may give them out again."""
        if day != self._day:
            self._day, self._ids = day, set()


class Reads:
    """The other reads, each one call and one event. Two of one kind and symbol never overlap."""

    def __init__(
        self, client: BrokerClient, account: SubAccount, clock: Clock, health: Health, post: Post
    ) -> None:
        self._client = client
        self._account = account
        self._clock = clock
        self._health = health
        self._post = post
        self._under_way: set[str] = set()
        self._rights_day: date | None = None

    async def _once(self, key: str, read: Callable[[datetime], Awaitable[None]]) -> None:
        if key in self._under_way:
            return
        self._under_way.add(key)
        try:
            await read(self._clock.now())
        except BrokerError as error:
            self._health.failed(error)
        else:
            self._health.succeeded()
        finally:
            self._under_way.discard(key)

    def is_under_way(self, key: str) -> bool:
        """Whether a read of that kind and symbol has no answer yet: `quote FPT`."""
        return key in self._under_way

    async def quote(self, symbol: str) -> None:
        """Poll the quote of a symbol."""

        async def read(asked_at: datetime) -> None:
            quote = await self._client.quote(symbol)
            self._post(QuoteReceived(asked_at, quote))

        await self._once(f"quote {symbol}", read)

    async def depth(self, symbol: str) -> None:
        """Poll the depth of a symbol."""

        async def read(asked_at: datetime) -> None:
            depth = await self._client.depth(symbol)
            self._post(DepthReceived(asked_at, depth))

        await self._once(f"depth {symbol}", read)

    async def phase(self, exchange: Exchange) -> None:
        """Ask the broker for the phase of an exchange and the order types that it takes there."""

        async def read(asked_at: datetime) -> None:
            found = await self._client.market_phase(exchange)
            self._post(PhaseChanged(asked_at, exchange, found.phase, found.available))

        await self._once(f"phase {exchange}", read)

    async def order(self, order_id: str) -> None:
        """Poll one order's detail row; one that cannot be read keeps no cancel waiting."""

        async def read(asked_at: datetime) -> None:
            try:
                report = await self._client.order(self._account, order_id, asked_at)
            except Malformed:
                self._post(OrderRead(asked_at, order_id, None, is_unreadable=True))
                raise
            self._post(OrderRead(asked_at, order_id, report))

        await self._once(f"order {order_id}", read)

    async def account(self) -> None:
        """Poll cash and holdings."""

        async def read(asked_at: datetime) -> None:
            snapshot = await self._client.account_snapshot(self._account, asked_at)
            self._post(AccountRead(asked_at, snapshot, await self._todays_rights(asked_at)))

        await self._once("account", read)

    async def _todays_rights(self, asked_at: datetime) -> tuple[ShareholderRight, ...] | None:
        """Read corporate actions with the first read of a run, and of each day from 08:00 on.

        They only give a difference its name: a failure is as good as none.
        """
        day = (asked_at.astimezone(EXCHANGE_TZ) - MORNING).date()
        if day == self._rights_day:
            return None
        self._rights_day = day
        try:
            return await self._client.rights(self._account)
        except BrokerError:
            return None
