"""The timetable on a clock that runs by itself at a speed of its own: a sandbox in another process.

`bot paper serve` tells its market time, the wire's and the speed on a loopback path; from then on
market time here is computed from the machine's clock, and both sides agree to a few milliseconds.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from typing import Final

from bot.broker.errors import Malformed, Unreachable
from bot.broker.http import READ_BOUNDS, HttpRequest, Traffic, connect
from bot.clock import Clock, ScaledClock
from bot.protocol.answer import Answer
from bot.runtime.schedule import Timetable

CONTROL_PATH: Final = "/_sandbox/control"
IDLE_S_MAX: Final = 60.0
_CALL: Final = "sandbox clocks"


class PacedDriver:
    """Sleeps from one due instant to the next. A deadline that comes nearer wakes it."""

    def __init__(
        self,
        clock: Clock,
        timetable: Timetable,
        on_due: Callable[[datetime], None],
        *,
        speed: float,
    ) -> None:
        self._clock = clock
        self._timetable = timetable
        self._on_due = on_due
        self._speed = speed
        self._engine_due: datetime | None = None
        self._nudge = asyncio.Event()

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`."""
        self._engine_due = instant
        self._nudge.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire what is due until `stopping` is set."""
        ending = asyncio.create_task(stopping.wait())
        try:
            while not stopping.is_set():
                await self._sleep(ending)
                self._fire(self._clock.now())
        finally:
            ending.cancel()

    async def _sleep(self, ending: asyncio.Task[bool]) -> None:
        self._nudge.clear()
        nudged = asyncio.create_task(self._nudge.wait())
        await asyncio.wait(
            {ending, nudged}, timeout=self._wait_s(), return_when=asyncio.FIRST_COMPLETED
        )
        nudged.cancel()

    def _wait_s(self) -> float:
        due = [each for each in (self._timetable.next_due(), self._engine_due) if each is not None]
        if not due:
            return IDLE_S_MAX
        ahead = (min(due) - self._clock.now()).total_seconds() / self._speed
        return min(max(ahead, 0.0), IDLE_S_MAX)

    def _fire(self, now: datetime) -> None:
        self._timetable.fire_due(now)
        if self._engine_due is not None and self._engine_due <= now:
            self._engine_due = None
            self._on_due(now)


async def read_market_clock(base_url: str, wire: Clock) -> tuple[ScaledClock, float] | None:
    """Ask a server whether it is a sandbox, and how its market time runs; None: it is not one.

    Raises Unreachable, or Malformed when the answer of the path is not what a sandbox says.
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
    return _clock_of(answer, wire)


def _clock_of(answer: Answer, wire: Clock) -> tuple[ScaledClock, float]:
    try:
        told = json.loads(answer.body)
        market, speed = datetime.fromisoformat(told["market"]), float(told["speed"])
    except (ValueError, KeyError, TypeError) as error:
        raise Malformed(_CALL, "no market time and speed") from error
    return ScaledClock(wire, start=market, speed=speed), speed
