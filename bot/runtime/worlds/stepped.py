"""The stepped market: one market clock shared by daemon and embedded sandbox.

It stops while anything is under way and otherwise jumps to the next due instant: a step of the
sandbox's market, a job of the timetable, a deadline of the engine, or the end of a rate-limit wait,
in this fixed order. Between jumps it sleeps to keep the pace. So the same seed gives the same story
on any machine, database and speed.

While a 2FA code is out, market time runs no faster than the wall clock: people type no faster in a
sandbox, where the code's five minutes would otherwise be over in five seconds.

At infinite speed it does not stop at the market's own instants: nobody looks at the market in
between, and what is due there happens on the way to our next instant.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Final, Protocol

from bot.clock import SimulatedClock, monotonic_s
from bot.runtime.activity import Activity, Turn
from bot.runtime.timetable.schedule import Fire, Timetable

LAG_MAX_S: Final = 5.0
"""If it lags by more than this, the pace is kept from now on instead of caught up with."""
_WAIT_S_MAX: Final = 0.2
"""Longer waits are split, as the pace may change meanwhile."""


class Market(Protocol):
    """What else moves in market time: the embedded sandbox, or nothing."""

    def next_due(self) -> datetime | None:
        """The next instant at which something happens in it."""

    def advance(self, to: datetime) -> None:
        """Process everything due up to `to`."""


class SteppedWaiter:
    """Waits on the stepped clock, giving its turn away meanwhile so that the clock can move."""

    def __init__(self, clock: SimulatedClock, activity: Activity, turn: Turn) -> None:
        self._clock = clock
        self._activity = activity
        self._turn = turn
        self._waiting: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._number = 0

    def now(self) -> datetime:
        """Return the stepped instant."""
        return self._clock.now()

    async def sleep_until(self, instant: datetime) -> None:
        """Wait until the clock has reached `instant`."""
        if instant <= self._clock.now():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        heappush(self._waiting, (instant, self._number, future))
        self._turn.give_back()
        self._activity.end()
        cut_off: asyncio.CancelledError | None = None
        try:
            await future
        except asyncio.CancelledError as error:
            if future.cancelled():  # else it has been woken, and counts
                self._activity.begin()
            cut_off = error
        while True:
            try:
                await self._turn.take()
            # whoever had a turn gives it back: only its own
            except asyncio.CancelledError as error:
                cut_off = error
            else:
                break
        if cut_off is not None:
            raise cut_off

    def next_due(self) -> datetime | None:
        """When the first wait ends."""
        return self._waiting[0][0] if self._waiting else None

    def wake_due(self, now: datetime) -> None:
        """End the waits that are over; their tasks count as under way again at once."""
        while self._waiting and self._waiting[0][0] <= now:
            _, _, future = heappop(self._waiting)
            if not future.done():
                self._activity.begin()
                future.set_result(None)


class SteppedMarket:
    """Moves the market clock from one due instant to the next, at `speed` times the wall clock's
    pace.
    """

    def __init__(
        self,
        *,
        clock: SimulatedClock,
        activity: Activity,
        waiter: SteppedWaiter,
        market: Market,
        timetable: Timetable,
        on_due: Fire,
        speed: float,
        is_code_out: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._activity = activity
        self._waiter = waiter
        self._market = market
        self._timetable = timetable
        self._on_due = on_due
        self._speed = speed
        self._is_code_out = is_code_out
        self._pace = speed
        self._engine_due: datetime | None = None
        self._anchor = (monotonic_s(), clock.now())

    def wake_at(self, instant: datetime | None) -> None:
        """Remember the engine's next deadline."""
        self._engine_due = instant

    async def run(self, stopping: asyncio.Event) -> None:
        """Move until `stopping` is set."""
        while not stopping.is_set():
            if not self._activity.is_idle:
                await _first_of(self._activity.idle(), stopping.wait())
            ours = (self._timetable.next_due(), self._engine_due, self._waiter.next_due())
            parts = [part for part in ours if part is not None]
            if not parts or math.isfinite(self._speed):
                parts += [due for due in (self._market.next_due(),) if due is not None]
            due = max(min(parts), self._clock.now())
            if (ahead := self._ahead_s(due)) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(ahead, _WAIT_S_MAX)):
                        await stopping.wait()
            elif self._activity.is_idle and not stopping.is_set():
                self._clock.advance_to(due)
                self._market.advance(due)
                self._timetable.fire_due(due)
                if self._engine_due is not None and self._engine_due <= due:
                    self._engine_due = None
                    self._on_due(due)
                self._waiter.wake_due(due)
            await asyncio.sleep(0)

    def _ahead_s(self, due: datetime) -> float:
        """How long the wall clock has to wait for `due`; while a code is out, at a slower pace from
        the same instant on.
        """
        wall, market = self._anchor
        is_slow = math.isfinite(self._speed) and self._is_code_out()
        pace = min(self._speed, 1.0) if is_slow else self._speed
        if pace != self._pace:
            now = monotonic_s()
            wall, market = now, market + timedelta(seconds=(now - wall) * self._pace)
            self._anchor, self._pace = (wall, market), pace
        ahead = wall + (due - market).total_seconds() / self._pace - monotonic_s()
        if ahead < -LAG_MAX_S:
            self._anchor = (monotonic_s(), due)
        return ahead


async def _first_of(*waits: Coroutine[object, object, object]) -> None:
    """Return when the first of these is done: a stop need not wait for idleness."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
