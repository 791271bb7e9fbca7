"""What a start finds of the time before it: jobs that were due while no bot was running, and a day
whose last comparison was begun and not finished.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from bot.domain.calendar import TradingCalendar
from bot.domain.entry import Note
from bot.domain.local_time import local_date
from bot.journal.reading.events import is_day_open, last_moment
from bot.runtime.timetable.feeds import DAY_END_JOB, at_day_end
from bot.runtime.timetable.notes import DOWN, missed_note
from bot.runtime.timetable.schedule import Firing, Job

UNFINISHED: Final = "the bot stopped before it was done"


@dataclass(frozen=True, slots=True)
class Gap:
    """`since`: when the journal was last written before this run, None: never. `open_end`: when the
    last comparison was due that a run before this one has begun and none has finished, if any.
    """

    since: datetime | None = None
    open_end: datetime | None = None

    def not_compared(self, today: date) -> date | None:
        """Return the earlier day that nothing can compare any more."""
        day = local_date(self.open_end) if self.open_end is not None else today
        return day if day < today else None

    def missed(
        self, jobs: Iterable[Job], today: date, now: datetime
    ) -> Iterator[tuple[Firing, Note]]:
        """Yield what has to be told of, with its note."""
        for job in jobs:
            firing, why = job.passed_while_down(self.since, now) if self.since else None, DOWN
            end = self.open_end if job.name == DAY_END_JOB else None
            if end is not None and end <= now and local_date(end) == today:
                firing = Firing(job, end, end, 1, now - end, is_run=True, is_down=True)
                why = UNFINISHED
            if firing is not None:
                yield firing, missed_note(firing, why, now)


def gap_before(url: str, calendar: TradingCalendar) -> Gap:
    """Read it from the journal. Raises Unreachable or NeedsMigration."""
    last = last_moment(url)
    end = at_day_end(calendar).last_until(last) if last is not None else None
    if last is None or end is None or not is_day_open(url, end, last):
        return Gap(last)
    return Gap(last, end)
