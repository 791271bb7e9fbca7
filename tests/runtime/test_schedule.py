"""The timetable: triggers are APScheduler's, the walk is ours."""

from datetime import UTC, datetime, time, timedelta

from bot.config.rulebook import load_rulebook
from bot.domain.instrument import Exchange
from bot.runtime.schedule import (
    Fire,
    Job,
    PhaseTrigger,
    Timetable,
    daily_at,
    every,
)

START = datetime(2026, 11, 19, 2, 14, 55, tzinfo=UTC)  # 09:14:55 in Vietnam


def _walk(timetable: Timetable, until: datetime) -> None:
    while (due := timetable.next_due()) is not None and due <= until:
        timetable.fire_due(due)


def test_jobs_fire_at_their_times_and_in_the_order_given() -> None:
    fired: list[tuple[str, str]] = []

    def note(name: str) -> Fire:
        return lambda due: fired.append((name, f"{due:%H:%M:%S}"))

    timetable = Timetable(
        [
            Job("slow", every(timedelta(seconds=10), start=START), note("slow")),
            Job("quick", every(timedelta(seconds=5), start=START), note("quick")),
        ],
        START,
    )

    _walk(timetable, START + timedelta(seconds=10))

    assert fired == [
        ("slow", "02:14:55"),
        ("quick", "02:14:55"),
        ("quick", "02:15:00"),
        ("slow", "02:15:05"),
        ("quick", "02:15:05"),
    ]


def test_times_that_were_jumped_over_are_one_run() -> None:
    fired: list[datetime] = []
    timetable = Timetable(
        [Job("poll", every(timedelta(seconds=5), start=START), fired.append)], START
    )

    timetable.fire_due(START + timedelta(seconds=60))

    assert fired == [START]
    assert timetable.next_due() == START + timedelta(seconds=65)


def test_the_phase_trigger_fires_at_every_boundary_of_the_exchange() -> None:
    fired: list[str] = []
    trigger = PhaseTrigger(load_rulebook(), Exchange.HOSE)
    timetable = Timetable(
        [Job("phase", trigger, lambda due: fired.append(f"{due:%d %H:%M}"))], START
    )

    _walk(timetable, START + timedelta(days=1))

    assert fired == [
        "19 02:15",
        "19 04:30",
        "19 06:00",
        "19 07:30",
        "19 07:45",
        "19 08:00",
        "20 02:00",
    ]


def test_a_daily_time_is_local_and_leaves_out_weekends() -> None:
    fired: list[str] = []
    friday = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
    timetable = Timetable(
        [Job("timer", daily_at(time(14, 20)), lambda due: fired.append(f"{due:%a %H:%M}"))], friday
    )

    _walk(timetable, friday + timedelta(days=5))

    assert fired == ["Fri 07:20", "Mon 07:20", "Tue 07:20"]
