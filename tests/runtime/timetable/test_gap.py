"""What a start makes up for, of the time before it."""

from datetime import date, datetime, timedelta

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.local_time import local_date
from bot.runtime.timetable.feeds import DAY_END_JOB, at_day_end
from bot.runtime.timetable.gap import Gap
from bot.runtime.timetable.schedule import Job

END = datetime.fromisoformat("2026-11-19T15:15+07:00")
DAY, WRITTEN = local_date(END), END + timedelta(seconds=40)
JOB = Job(DAY_END_JOB, at_day_end(load_rulebook().calendar), lambda _: None)


def _missed(gap: Gap, now: datetime, today: date = DAY) -> list[tuple[str, bool]]:
    return [
        (f"{firing.due:%d %H:%M}: {note.numbers['why']}", firing.is_run)
        for firing, note in gap.missed([JOB], today, now)
    ]


@pytest.mark.parametrize("hours", [1, 9], ids=["that day", "a start that took past midnight"])
def test_a_day_that_was_left_open_is_ended_by_a_start_of_that_day(hours: int) -> None:
    told = _missed(Gap(WRITTEN, END), END + timedelta(hours=hours))

    assert told == [("19 15:15: the bot stopped before it was done", True)]


def test_a_day_that_was_closed_is_not_ended_again() -> None:
    assert _missed(Gap(WRITTEN), END + timedelta(hours=1)) == []


def test_an_earlier_day_is_named_and_not_ended_late() -> None:
    gap, later = Gap(WRITTEN, END), DAY + timedelta(days=1)

    assert [gap.not_compared(day) for day in (DAY, later)] == [None, DAY]
    assert Gap(WRITTEN).not_compared(later) is None
    assert _missed(gap, END + timedelta(hours=18), later) == []


def test_a_market_that_is_played_again_from_the_morning_leaves_its_end_to_the_timetable() -> None:
    assert _missed(Gap(WRITTEN, END), END - timedelta(hours=6)) == []
