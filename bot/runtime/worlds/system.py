"""The environment of a real broker: one at an address, in the machine's own time.

That is a steady clock's: polls and deadlines come in time whatever becomes of the wall.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from typing import Final

from bot.broker.budget import SystemWaiter, Waiter
from bot.clock import Clock, SteadyClock, boottime_s, suspended_s
from bot.domain.entry import Entry
from bot.protocol.secret import Secret
from bot.runtime.activity import AllAtOnce, Post, Turn
from bot.runtime.schedule import Fire, Firing, Job, Report, Timetable
from bot.runtime.time_watch import TimeWatch
from bot.runtime.worlds.environment import REAL_TIME, Access, Driver, Elapsed, Mark

LOOK_AGAIN_S: Final = 1.0
"""How late a job may be after the machine was suspended: the loop's own timers stand still then."""
LATE_S: Final = 1.0
"""A job that comes later is told of."""
SLEPT: Final = "the machine slept"
BLOCKED: Final = "the bot was busy or stood still"


def unmarked(entry: Entry) -> Entry:
    """Return the entry as it is: a broker that we do not play has no scenario."""
    return entry


class SystemEnvironment:
    """Those that follow another market clock build on it: the wire's is always the machine's."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._speed = 1.0
        self._steady = SteadyClock()
        self.wire: Clock = self._steady
        self.market: Clock = self._steady
        self.waiter: Waiter = SystemWaiter(self.wire)
        self.turn: Turn = AllAtOnce()
        self.max_concurrent: int | None = None
        self.pace = REAL_TIME
        self.has_machines_time = True
        self.quota_speed = 1.0
        self.elapsed_s: Elapsed = boottime_s
        self.mailed_code: Secret | None = None
        self.story_start: datetime | None = None
        self.mark: Mark = unmarked

    async def open(self, _stack: AsyncExitStack) -> Access:
        """Return the access: the broker is there already."""
        return self._access

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        """Follow the market clock."""
        timetable = Timetable(jobs, self.market.now())
        return ClockDriver(self.market, timetable, on_due, report, speed=self._speed)

    async def watch_time(self, post: Post) -> None:
        """Tell of a wall clock that is set, and of a machine that stood still."""
        await TimeWatch(self._steady, post, self.market.now).run()

    async def pause(self, span: timedelta) -> None:
        """Let a span of market time pass."""
        await self.waiter.sleep_until(self.wire.now() + span / self._speed)

    def finish(self) -> None:
        """Do nothing: the broker's day goes on without us."""


class ClockDriver:
    """Sleeps from one due instant to the next. A deadline that comes nearer wakes it; one that is
    put off does not.
    """

    def __init__(
        self, clock: Clock, timetable: Timetable, on_due: Fire, report: Report, *, speed: float
    ) -> None:
        self._clock = clock
        self._timetable = timetable
        self._on_due = on_due
        self._report = report
        self._speed = speed
        self._engine_due: datetime | None = None
        self._wakes_at: datetime | None = None
        """When it looks at the engine's deadline; None while it does not sleep."""
        self._nudge = asyncio.Event()
        self._slept_s = suspended_s()

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`, in place of what was asked before."""
        self._engine_due = instant
        if instant is not None and self._wakes_at is not None and instant < self._wakes_at:
            self._nudge.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire what is due until `stopping` is set."""
        ending = asyncio.create_task(self._end(stopping))
        try:
            while not stopping.is_set():
                await self._sleep()
                now = self._clock.now()
                self._tell(self._timetable.fire_due(now), now)
                if self._engine_due is not None and self._engine_due <= now:
                    self._engine_due = None
                    self._on_due(now)
        finally:
            ending.cancel()

    async def _end(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._nudge.set()

    async def _sleep(self) -> None:
        now, longest = self._clock.now(), timedelta(seconds=LOOK_AGAIN_S * self._speed)
        dues = [due for due in (self._timetable.next_due(), self._engine_due) if due is not None]
        self._wakes_at = min([*dues, now + longest])
        with suppress(TimeoutError):
            async with asyncio.timeout(
                max((self._wakes_at - now).total_seconds(), 0.0) / self._speed
            ):
                await self._nudge.wait()
                self._nudge.clear()
        self._wakes_at = None

    def _tell(self, fired: Sequence[Firing], now: datetime) -> None:
        slept_s, self._slept_s = suspended_s() - self._slept_s, suspended_s()
        late_max = timedelta(seconds=LATE_S * self._speed)
        late = [each for each in fired if now - each.first > late_max]
        if late:
            self._report(late, SLEPT if slept_s > LATE_S else BLOCKED)
