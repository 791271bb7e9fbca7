"""The timetable: what is due when. APScheduler's triggers are its only arithmetic of time.

`Timetable` asks the triggers for their next times; what drives a clock walks from one to the next:
the stepped market (`stepped.py`) or, where time goes on by itself, the driver of `system.py`.
APScheduler's own scheduler fires by the wall clock, and would sleep for as long as that is set
back. A job only starts a poll or posts an event: it is never the place where something is decided,
and never holds a request that a shutdown could cut off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from heapq import heappop, heappush

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.rulebook import Rulebook

Fire = Callable[[datetime], None]
Report = Callable[[str, str], None]


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
    """Something due again and again."""

    name: str
    trigger: BaseTrigger
    fire: Fire


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

    def fire_due(self, now: datetime) -> Sequence[tuple[Job, datetime]]:
        """Fire all that is due up to `now`, each once however many of its times have passed; return
        what that was, and when it was due.
        """
        fired = []
        while self._heap and self._heap[0][0] <= now:
            due, number = heappop(self._heap)
            job = self._jobs[number]
            following: datetime | None = due
            while following is not None and following <= now:
                following = job.trigger.get_next_fire_time(following, now.astimezone(EXCHANGE_TZ))
            self._push(number, following)
            fired.append((job, due))
            job.fire(due)
        return fired
