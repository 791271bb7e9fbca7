"""The environment of a sandbox in another process: its market time runs by itself, at any speed.

`bot paper serve` gives its market time, the wire's and the speed on a loopback path; from then on
market time here is computed from the machine's clock, and both sides agree to a few milliseconds.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Final

from bot.broker.connect import connect
from bot.broker.errors import Malformed, Unreachable
from bot.broker.link import READ_BOUNDS, HttpRequest, Traffic
from bot.clock import Clock, ScaledClock
from bot.protocol.answer import Answer
from bot.runtime.schedule import Fire, Job, Report, Timetable
from bot.runtime.worlds.environment import Access, Driver
from bot.runtime.worlds.system import SystemEnvironment

CONTROL_PATH: Final = "/_sandbox/control"
IDLE_S_MAX: Final = 60.0
_CALL: Final = "sandbox clocks"


class ServedEnvironment(SystemEnvironment):
    """The sandbox's market time, and the machine's as wire time."""

    async def open(self, _stack: AsyncExitStack) -> Access:
        """Learn how its market time runs. Raises BrokerError."""
        found = await read_market_clock(self._access.base_url, self.wire)
        if found is not None:
            self.market, self._speed = found
            self.has_machines_time = False
            self.quota_speed = self._speed
        return self._access

    def drive(self, jobs: Sequence[Job], on_due: Fire, _report: Report) -> Driver:
        """Follow its clock."""
        timetable = Timetable(jobs, self.market.now())
        return PacedDriver(self.market, timetable, on_due, speed=self._speed)


class PacedDriver:
    """Sleeps from one due instant to the next. A deadline that comes nearer wakes it."""

    def __init__(self, clock: Clock, timetable: Timetable, on_due: Fire, *, speed: float) -> None:
        self._clock = clock
        self._timetable = timetable
        self._on_due = on_due
        self._speed = speed
        self._engine_due: datetime | None = None
        self._nudge = asyncio.Event()

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`."""
        if instant != self._engine_due:
            self._engine_due = instant
            self._nudge.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire what is due until `stopping` is set."""
        ending = asyncio.create_task(stopping.wait())
        try:
            while not stopping.is_set():
                self._nudge.clear()
                nudged = asyncio.create_task(self._nudge.wait())
                due = [each for each in (self._timetable.next_due(), self._engine_due) if each]
                wait_s = IDLE_S_MAX
                if due:
                    ahead_s = (min(due) - self._clock.now()).total_seconds() / self._speed
                    wait_s = min(max(ahead_s, 0.0), IDLE_S_MAX)
                waits = {ending, nudged}
                await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                nudged.cancel()
                now = self._clock.now()
                self._timetable.fire_due(now)
                if self._engine_due is not None and self._engine_due <= now:
                    self._engine_due = None
                    self._on_due(now)
        finally:
            ending.cancel()


async def read_market_clock(base_url: str, wire: Clock) -> tuple[ScaledClock, float] | None:
    """Ask a server whether it is a sandbox, and how its market time runs; None: it is not one.

    Raises Unreachable, or Malformed when the path answers what no sandbox would.
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
