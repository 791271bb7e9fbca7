"""The environment of a real broker: one at an address, in the machine's own time."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

from bot.broker.budget import SystemWaiter, Waiter
from bot.clock import Clock, SystemClock, boottime_s
from bot.domain.entry import Entry
from bot.protocol.secret import Secret
from bot.runtime.activity import AllAtOnce, Turn
from bot.runtime.schedule import Fire, Job, Report, SystemTimetable
from bot.runtime.worlds.environment import REAL_TIME, Access, Driver, Elapsed, Mark


def unmarked(entry: Entry) -> Entry:
    """Return the entry as it is: a broker that we do not play has no scenario."""
    return entry


class SystemEnvironment:
    """Those that follow another market clock build on it: the wire's is always the machine's."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._speed = 1.0
        self.wire: Clock = SystemClock()
        self.market: Clock = self.wire
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
        """Let APScheduler fire the jobs."""
        return SystemDriver(SystemTimetable(jobs, on_due, report))

    async def pause(self, span: timedelta) -> None:
        """Let a span of market time pass."""
        await self.waiter.sleep_until(self.wire.now() + span / self._speed)

    def finish(self) -> None:
        """Do nothing: the broker's day goes on without us."""


class SystemDriver:
    """APScheduler between its start and its stop."""

    def __init__(self, timetable: SystemTimetable) -> None:
        self._timetable = timetable

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`."""
        self._timetable.wake_at(instant)

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire until `stopping` is set."""
        self._timetable.start()
        try:
            await stopping.wait()
        finally:
            await self._timetable.stop()
