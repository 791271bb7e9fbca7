"""The environments of a broker at an address: a real one, or a sandbox in another process.

With a real broker, time is the machine's own by a steady clock: polls and deadlines are on time
whatever happens to the wall clock. A served sandbox (`bot paper serve`) reports market time, wire
time and speed on a loopback path; from then on market time here is computed from the machine's
clock, and both sides agree to a few milliseconds.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from typing import Final

from bot.broker.broker import connect
from bot.broker.budget import SystemWaiter, Waiter
from bot.broker.errors import Malformed, Unreachable
from bot.broker.link import READ_BOUNDS, HttpRequest, Traffic
from bot.clock import Clock, ScaledClock, SteadyClock, boottime_s, suspended_s
from bot.domain.entry import Entry
from bot.protocol.envelope import Answer
from bot.protocol.secret import Secret
from bot.runtime.activity import AllAtOnce, Post, Turn
from bot.runtime.timetable.schedule import Fire, Job, Report, Timetable
from bot.runtime.watches import TimeWatch
from bot.runtime.worlds.environment import REAL_TIME, Access, Driver, Elapsed, Mark

LOOK_AGAIN_S: Final = 1.0
"""How late a job may be after the machine was suspended: the loop's own timers stop then."""
LATE_S: Final = 1.0
"""A job later than this is reported."""
SLEPT: Final = "the machine slept"
BLOCKED: Final = "the bot was busy or stood still"
CONTROL_PATH: Final = "/_sandbox/control"
_CALL: Final = "sandbox clocks"


def unmarked(entry: Entry) -> Entry:
    """Return the entry unchanged: a real broker has no scenario."""
    return entry


class SystemEnvironment:
    """Base of environments that follow another market clock: wire time is always the machine's."""

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
        """Return the access: the broker already exists."""
        return self._access

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        """Follow the market clock."""
        timetable = Timetable(jobs, self.market.now())
        return ClockDriver(self.market, timetable, on_due, report, speed=self._speed)

    async def watch_time(self, post: Post) -> None:
        """Report when the wall clock was set or the machine stood still."""
        await TimeWatch(self._steady, post, self.market.now).run()

    async def pause(self, span: timedelta) -> None:
        """Wait for a span of market time."""
        await self.waiter.sleep_until(self.wire.now() + span / self._speed)

    def finish(self) -> None:
        """Do nothing: the broker's day continues without us."""


class ClockDriver:
    """Sleeps from one due instant to the next. A deadline that moves nearer wakes it; one that is
    postponed does not.
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
        """When it looks at the engine's deadline; None while it is not sleeping."""
        self._nudge = asyncio.Event()
        self._slept_s = suspended_s()

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`, replacing an earlier request."""
        self._engine_due = instant
        if instant is not None and self._wakes_at is not None and instant < self._wakes_at:
            self._nudge.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire what is due until `stopping` is set."""

        async def end() -> None:
            await stopping.wait()
            self._nudge.set()

        ending = asyncio.create_task(end())
        try:
            while not stopping.is_set():
                await self._sleep()
                now = self._clock.now()
                fired = self._timetable.fire_due(now)
                slept_s, self._slept_s = suspended_s() - self._slept_s, suspended_s()
                late_max = timedelta(seconds=LATE_S * self._speed)
                if late := [each for each in fired if now - each.first > late_max]:
                    self._report(late, SLEPT if slept_s > LATE_S else BLOCKED)
                if self._engine_due is not None and self._engine_due <= now:
                    self._engine_due = None
                    self._on_due(now)
        finally:
            ending.cancel()

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


class ServedEnvironment(SystemEnvironment):
    """Uses the sandbox's market time, and the machine's as wire time."""

    async def open(self, _stack: AsyncExitStack) -> Access:
        """Read how its market time runs. Raises BrokerError."""
        found = await read_market_clock(self._access.base_url, self.wire)
        if found is not None:
            self.market, self._speed = found
            self.has_machines_time = False
            self.quota_speed = self._speed
        return self._access


async def read_market_clock(base_url: str, wire: Clock) -> tuple[ScaledClock, float] | None:
    """Ask a server whether it is a sandbox, and how its market time runs; None if it is not one.

    Raises Unreachable, or Malformed if the path answers what no sandbox would.
    """
    link = connect(base_url, traffic=Traffic())
    try:
        answer = await link.exchange(HttpRequest("GET", CONTROL_PATH, {}), READ_BOUNDS)
    finally:
        await link.close()
    if not isinstance(answer, Answer):
        raise Unreachable(_CALL, answer.reason)
    if answer.http_status == 404:
        return None
    try:
        found = json.loads(answer.body)
        market, speed = datetime.fromisoformat(found["market"]), float(found["speed"])
    except (ValueError, KeyError, TypeError) as error:
        raise Malformed(_CALL, "no market time and speed") from error
    return ScaledClock(wire, start=market, speed=speed), speed
