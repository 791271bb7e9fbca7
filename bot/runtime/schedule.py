"""The timetable: what is due when. APScheduler's triggers are its only arithmetic of time.

Two drivers share it. On the system clock APScheduler's `AsyncIOScheduler` fires the jobs; on a
simulated or scaled clock `Timetable` asks the same triggers for their next times and the stepped
market (`stepped.py`) walks from one to the next. A job only starts a poll or posts an event: it is
never the place where something is decided, and never holds a request that a shutdown could cut off.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from heapq import heappop, heappush
from typing import Final

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    SchedulerEvent,
)
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.clock import Clock, SystemClock
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.rulebook import Rulebook

Fire = Callable[[datetime], None]
Report = Callable[[str, str], None]

POLL_MISFIRE_GRACE_S: Final = 1
"""A poll that is later than this is left out: the next one is fresher anyway."""
LOOK_AGAIN_S: Final = 1.0
"""How late an alarm may be after the clock was stepped, or the machine was suspended."""
_TROUBLES: Final = {
    EVENT_JOB_MISSED: "missed its time",
    EVENT_JOB_MAX_INSTANCES: "was still running",
    EVENT_JOB_ERROR: "failed",
}

# What it has to say `SystemTimetable` reports, with the job's name: once is enough.
logging.getLogger("apscheduler").addHandler(logging.NullHandler())


class PhaseTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires at every phase boundary of an exchange, as the rulebook's calendar has them."""

    def __init__(self, rulebook: Rulebook, exchange: Exchange) -> None:
        self._rulebook = rulebook
        self._exchange = exchange

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the first boundary after the last one fired (or after `now`)."""
        return self._rulebook.next_phase_change(self._exchange, previous_fire_time or now).at


@dataclass(frozen=True, slots=True)
class Job:
    """Something due again and again. `misfire_grace_s` None: late is better than never."""

    name: str
    trigger: BaseTrigger
    fire: Fire
    misfire_grace_s: int | None = None


def every(period: timedelta, *, start: datetime) -> BaseTrigger:
    """Fire each `period`, first at `start`."""
    return IntervalTrigger(
        seconds=period.total_seconds(),
        start_date=start.astimezone(EXCHANGE_TZ),
        timezone=EXCHANGE_TZ,
    )


def daily_at(moment: time) -> BaseTrigger:
    """Fire at a local time of each weekday."""
    return CronTrigger(
        day_of_week="mon-fri",
        hour=moment.hour,
        minute=moment.minute,
        second=moment.second,
        timezone=EXCHANGE_TZ,
    )


class Timetable:
    """Jobs on a clock that is moved elsewhere. Jobs due at one instant fire in the order given."""

    def __init__(self, jobs: Sequence[Job], now: datetime) -> None:
        self._jobs = list(jobs)
        self._heap: list[tuple[datetime, int]] = []
        for number, job in enumerate(self._jobs):
            self._push(number, job.trigger.get_next_fire_time(None, now.astimezone(EXCHANGE_TZ)))

    def _push(self, number: int, due: datetime | None) -> None:
        if due is not None:
            heappush(self._heap, (due.astimezone(UTC), number))

    def next_due(self) -> datetime | None:
        """The next instant at which a job is due."""
        return self._heap[0][0] if self._heap else None

    def fire_due(self, now: datetime) -> None:
        """Fire all that is due up to `now`, each once however many of its times have passed."""
        while self._heap and self._heap[0][0] <= now:
            due, number = heappop(self._heap)
            job = self._jobs[number]
            following: datetime | None = due
            while following is not None and following <= now:
                following = job.trigger.get_next_fire_time(following, now.astimezone(EXCHANGE_TZ))
            self._push(number, following)
            job.fire(due)


class Alarm:
    """Calls `ring` once when its instant has come on `clock`; a new instant takes its place.

    The loop counts seconds that no step of the clock moves and that stand still while the machine
    is suspended. So it never waits longer than `look_again_s`, and asks the clock every time.
    """

    def __init__(self, clock: Clock, ring: Fire, *, look_again_s: float = LOOK_AGAIN_S) -> None:
        self._clock = clock
        self._ring = ring
        self._look_again_s = look_again_s
        self._instant: datetime | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def set(self, instant: datetime | None) -> None:
        """Ring at `instant`, and no more at the one before; None: not at all."""
        if instant == self._instant or self._is_over:
            return
        self._instant = instant
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if instant is not None:
            self._wait(instant, self._clock.now())

    def end(self) -> None:
        """Ring no more, whatever it is set to."""
        self.set(None)
        self._is_over = True

    def _wait(self, instant: datetime, now: datetime) -> None:
        ahead_s = min(max((instant - now).total_seconds(), 0.0), self._look_again_s)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + ahead_s, self._look)

    def _look(self) -> None:
        assert self._instant is not None, "a timer without an instant"
        now = self._clock.now()
        if now < self._instant:
            self._wait(self._instant, now)
        else:
            self._instant = self._timer = None
            self._ring(now)


class SystemTimetable:
    """The same jobs on the system clock, fired by APScheduler on the running loop.

    The engine's deadline moves after many an event and is an `Alarm`, which costs next to nothing.

    Overlap: a job never runs twice at once (`max_instances=1`); several missed times are one run
    (`coalesce`); a poll that comes too late is left out. Each of these is reported.
    """

    def __init__(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> None:
        self._engine_due = Alarm(SystemClock(), on_due)
        self._report = report
        self._scheduler = AsyncIOScheduler(
            timezone=EXCHANGE_TZ, job_defaults={"coalesce": True, "max_instances": 1}
        )
        self._scheduler.add_listener(self._on_trouble, sum(_TROUBLES))
        for job in jobs:
            self._scheduler.add_job(
                _run,
                job.trigger,
                args=[job.fire],
                id=job.name,
                name=job.name,
                misfire_grace_time=job.misfire_grace_s,
            )

    def _on_trouble(self, event: SchedulerEvent) -> None:
        self._report(str(getattr(event, "job_id", "?")), _TROUBLES[event.code])

    def start(self) -> None:
        """Begin to fire."""
        self._scheduler.start()

    def wake_at(self, instant: datetime | None) -> None:
        """Have `on_due` called at `instant`, in place of what was asked before."""
        self._engine_due.set(instant)

    async def stop(self) -> None:
        """Fire no more. What fires at this moment ends first: cut off, it would be an error."""
        self._engine_due.end()
        if self._scheduler.running:
            self._scheduler.pause()
            await asyncio.sleep(0)
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)


async def _run(fire: Fire) -> None:
    fire(SystemClock().now())
