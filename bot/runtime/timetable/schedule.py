"""The timetable: what is due when. APScheduler's triggers are its only arithmetic of time.

`Timetable` asks the triggers for their next times; the clock's driver moves from one to the next:
the stepped market or, if time runs by itself, the driver of `worlds/system.py`. APScheduler's own
scheduler fires by the wall clock, and would oversleep if that is set back. A job only starts a poll
or posts an event: it never decides anything, and never holds a request that a shutdown could cut
off.

Every job declares what happens if it is late, if its time passed while nothing could run, and if it
is due again before its last run is done. Nothing is replayed: however many times have passed, a job
runs at most once, for the last of them, and the others are reported.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from heapq import heappop, heappush

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.domain.calendar import TradingCalendar
from bot.domain.errors import CalendarEnds
from bot.domain.hours import hours_at
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.local_time import local_date
from bot.domain.rulebook import Rulebook

Started = asyncio.Task[None] | None
"""What a job has started and has to be awaited; None if nothing has."""
Fire = Callable[[datetime], Started]


class WhenMissed(StrEnum):
    """What happens to a job whose time has passed by more than its allowance."""

    RUN_ONCE = "run once"
    LIST = "list only"


class WhenOverlapping(StrEnum):
    """What happens to a job that is due again while its work is still under way."""

    SKIP = "skip"
    QUEUE = "queue one"


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


class BeforeOpening(BaseTrigger):  # type: ignore[misc]
    """Fires `lead` before the first session of each trading day, and on no other day."""

    def __init__(self, rulebook: Rulebook, exchanges: frozenset[Exchange], lead: timedelta) -> None:
        self._rulebook = rulebook
        self._exchanges = exchanges
        self._lead = lead

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the first such instant after the last one fired (or after `now`)."""
        after = previous_fire_time or now
        hours = hours_at(self._rulebook, self._exchanges, after)
        while hours is not None and hours.opens - self._lead <= after:
            hours = hours_at(self._rulebook, self._exchanges, hours.closes)
        return None if hours is None else hours.opens - self._lead


class OnTradingDays(BaseTrigger):  # type: ignore[misc]
    """Fires at a local time of each trading day; never again past the end of the calendar.

    On a day that ends early, `after_close` is the time after that end at which it fires.
    """

    def __init__(
        self, calendar: TradingCalendar, moment: time, after_close: timedelta | None = None
    ) -> None:
        self._calendar = calendar
        self.moment = moment
        self._after_close = after_close

    def _on(self, day: date) -> datetime:
        early, usual = self._calendar.early_closes.get(day), self.moment
        if early is None or self._after_close is None:
            return datetime.combine(day, usual, EXCHANGE_TZ)
        return datetime.combine(day, early.at, EXCHANGE_TZ) + self._after_close

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the first such instant after the last one fired (or from `now` on)."""
        local = (previous_fire_time or now).astimezone(EXCHANGE_TZ)
        day = local.date()
        today = self._on(day)
        is_ahead = today > local if previous_fire_time else today >= local
        if is_ahead and self._calendar.is_trading_day(day):
            return today
        try:
            following = self._calendar.next_trading_day(day)
        except CalendarEnds:
            return None
        return self._on(following)

    def last_until(self, at: datetime) -> datetime | None:
        """Return the last such instant, `at` included; None outside the calendar."""
        day = local_date(at)
        try:
            last = self._on(self._calendar.add_trading_days(day, 0))
            if last > at:
                last = self._on(self._calendar.add_trading_days(day, -1))
        except CalendarEnds:
            return None
        return last.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Job:
    """Something due repeatedly, and its policy for times that cannot be kept.

    `late_max`: a run later than this is missed; None: it is never too late. `done_by_start`: a
    start does the same, so one that passed before the start is not missed.
    """

    name: str
    trigger: BaseTrigger
    fire: Fire
    late_max: timedelta | None = None
    missed: WhenMissed = WhenMissed.RUN_ONCE
    overlapping: WhenOverlapping = WhenOverlapping.SKIP
    done_by_start: bool = False

    def next_due(self, now: datetime) -> datetime | None:
        """Return its first time from `now` on; None if there is none any more."""
        due = _after(self, None, now)  # the trigger of a one-time job keeps returning its time
        return due if due is not None and due >= now else None

    def passed_while_down(self, since: datetime, now: datetime) -> "Firing | None":
        """Return what has passed between two runs of the bot, None if nothing that matters.

        For a one-time job only a time of today counts: a start reports earlier days.
        """
        first = _after(self, None, since)
        if self.done_by_start or self.period is not None or first is None or first >= now:
            return None
        firing = _firing(self, first, now)
        is_today = local_date(firing.due) == local_date(now)
        return replace(firing, is_run=is_today and self.missed is WhenMissed.RUN_ONCE, is_down=True)

    @property
    def period(self) -> timedelta | None:
        """The interval between its times, if always the same, as for polls."""
        return self.trigger.interval if isinstance(self.trigger, IntervalTrigger) else None


@dataclass(frozen=True, slots=True)
class Firing:
    """The result for the times of a job that had passed when it was checked: `count` of them, from
    `first` to `due`, which is the only one run (`is_run`), if any.
    """

    job: Job
    first: datetime
    due: datetime
    count: int
    late: timedelta
    is_run: bool
    is_down: bool = False
    """Whether no bot was running at that time."""

    @property
    def missed(self) -> int:
        """How many were not run in time."""
        if self.is_down:
            return self.count
        is_late = self.job.late_max is not None and self.late > self.job.late_max
        return self.count if is_late else self.count - 1


Report = Callable[[Sequence[Firing], str], None]
"""Takes what was late or missed, and why."""


class Overlaps:
    """Fires jobs, one run of each at a time: a run due meanwhile follows the job's policy."""

    def __init__(self, on_overlap: Callable[[Job, datetime], None]) -> None:
        self._on_overlap = on_overlap
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._queued: dict[str, datetime] = {}

    def fire(self, job: Job, due: datetime) -> None:
        """Run a job, or report that its previous run is not done."""
        if job.name in self._under_way:
            if job.name not in self._queued:
                self._on_overlap(job, due)
            if job.overlapping is WhenOverlapping.QUEUE:
                self._queued[job.name] = due
            return
        work = job.fire(due)
        if work is not None:
            self._under_way[job.name] = work
            work.add_done_callback(lambda _: self._done(job))

    def _done(self, job: Job) -> None:
        del self._under_way[job.name]
        queued = self._queued.pop(job.name, None)
        if queued is not None:
            self.fire(job, queued)


def every(period: timedelta, *, start: datetime) -> BaseTrigger:
    """Fire each `period`, first at `start`."""
    return IntervalTrigger(
        seconds=period.total_seconds(),
        start_date=start.astimezone(EXCHANGE_TZ),
        timezone=EXCHANGE_TZ,
    )


def once(instant: datetime) -> BaseTrigger:
    return DateTrigger(instant.astimezone(EXCHANGE_TZ), timezone=EXCHANGE_TZ)


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
    """Jobs on a clock that is moved elsewhere. Jobs due at one instant fire in the given order."""

    def __init__(self, jobs: Sequence[Job], now: datetime) -> None:
        self._jobs = list(jobs)
        self._heap: list[tuple[datetime, int]] = []
        for number, job in enumerate(self._jobs):
            self._push(number, _after(job, None, now))

    def _push(self, number: int, due: datetime | None) -> None:
        if due is not None:
            heappush(self._heap, (due, number))

    def next_due(self) -> datetime | None:
        """The next instant at which a job is due."""
        return self._heap[0][0] if self._heap else None

    def fire_due(self, now: datetime) -> Sequence[Firing]:
        """Fire everything due up to `now`, each job once however many of its times have passed,
        according to its policy; return the results.
        """
        fired = []
        while self._heap and self._heap[0][0] <= now:
            first, number = heappop(self._heap)
            job = self._jobs[number]
            firing = _firing(job, first, now)
            fired.append(firing)
            self._push(number, _after(job, firing.due, now))
            if firing.is_run:
                job.fire(firing.due)
        return fired


def _after(job: Job, due: datetime | None, now: datetime) -> datetime | None:
    """Return the first time of a job after `due`, or the first from `now` on."""
    last = due.astimezone(EXCHANGE_TZ) if due else None
    found: datetime | None = job.trigger.get_next_fire_time(last, now.astimezone(EXCHANGE_TZ))
    return found.astimezone(UTC) if found else None


def _firing(job: Job, first: datetime, now: datetime) -> Firing:
    due, count = first, 1
    if job.period is not None:
        passed = (now - first) // job.period
        due, count = first + passed * job.period, 1 + passed
    else:
        while (following := _after(job, due, now)) is not None and following <= now:
            due, count = following, count + 1
    late = now - due
    is_in_time = job.late_max is None or late <= job.late_max
    return Firing(job, first, due, count, late, is_in_time or job.missed is WhenMissed.RUN_ONCE)
