"""The timetable: triggers are APScheduler's, the walk is ours."""

import asyncio
from datetime import UTC, datetime, time, timedelta
from functools import partial

import pytest
from apscheduler.triggers.date import DateTrigger

from bot.clock import SimulatedClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.runtime.schedule import (
    Alarm,
    Fire,
    Job,
    PhaseTrigger,
    SystemTimetable,
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


async def test_the_system_timetable_fires_jobs_and_the_engines_deadline_on_the_loop() -> None:
    fired: list[str] = []
    now = SystemClock().now()
    timetable = SystemTimetable(
        [Job("poll", every(timedelta(hours=1), start=now), lambda _: fired.append("poll"), 1)],
        on_due=lambda _: fired.append("due"),
        report=lambda name, what: fired.append(f"{name} {what}"),
    )

    timetable.start()
    timetable.wake_at(SystemClock().now())
    await asyncio.sleep(0.02)
    await timetable.stop()

    assert "due" in fired
    assert all(word in {"due", "poll"} for word in fired)


SOON_S = 0.001


async def _turns(spans: int = 5) -> None:
    await asyncio.sleep(spans * SOON_S)


async def test_an_alarm_rings_once_and_not_before_its_instant() -> None:
    clock, fired = SimulatedClock(START), list[datetime]()
    alarm = Alarm(clock, fired.append, look_again_s=SOON_S)

    alarm.set(START + timedelta(seconds=1))
    await _turns()
    early = list(fired)
    clock.advance_to(START + timedelta(seconds=2))
    await _turns()
    await _turns()

    assert (early, fired) == ([], [START + timedelta(seconds=2)])


async def test_an_alarm_hears_of_a_clock_that_was_stepped_far_ahead() -> None:
    clock, fired = SimulatedClock(START), list[datetime]()
    alarm = Alarm(clock, fired.append, look_again_s=SOON_S)
    alarm.set(START + timedelta(hours=8))

    clock.advance_to(START + timedelta(hours=9))
    await _turns()

    assert fired == [START + timedelta(hours=9)]


async def test_an_alarm_rings_at_the_newest_instant_alone_and_at_none_not_at_all() -> None:
    clock, fired = SimulatedClock(START), list[datetime]()
    moved = Alarm(clock, fired.append, look_again_s=SOON_S)
    silenced = Alarm(clock, fired.append, look_again_s=SOON_S)
    moved.set(START + timedelta(seconds=1))
    silenced.set(START + timedelta(seconds=1))

    moved.set(START + timedelta(seconds=9))
    silenced.set(None)
    clock.advance_to(START + timedelta(seconds=5))
    await _turns()

    assert fired == []


async def test_an_alarm_that_has_rung_can_be_set_to_the_same_instant_again() -> None:
    fired = list[datetime]()
    alarm = Alarm(SimulatedClock(START), fired.append, look_again_s=SOON_S)
    alarm.set(START)
    await _turns()

    alarm.set(START)
    await _turns()

    assert fired == [START, START]


async def test_an_alarm_that_has_ended_never_rings_again() -> None:
    fired = list[datetime]()
    alarm = Alarm(SimulatedClock(START), fired.append, look_again_s=SOON_S)

    alarm.end()
    alarm.set(START)
    await _turns()

    assert fired == []


def _note(fired: list[str], name: str, _: datetime) -> None:
    fired.append(name)


@pytest.mark.parametrize("rounds", range(5))
async def test_jobs_that_fire_while_the_timetable_stops_end_without_a_word(
    caplog: pytest.LogCaptureFixture, rounds: int
) -> None:
    fired: list[str] = []
    told: list[tuple[str, str]] = []
    start = SystemClock().now() + timedelta(milliseconds=20)
    names = [f"depth {symbol}" for symbol in ("VNM", "HPG", "SHS")]
    timetable = SystemTimetable(
        [
            Job(name, every(timedelta(hours=1), start=start), partial(_note, fired, name))
            for name in names
        ],
        lambda _: None,
        lambda job, trouble: told.append((job, trouble)),
    )
    timetable.start()
    for _ in range(3):
        await asyncio.sleep(0)
    while SystemClock().now() <= start:
        pass
    for _ in range(rounds):
        await asyncio.sleep(0)

    await timetable.stop()

    assert (told, caplog.text) == ([], "")
    assert sorted(fired) in ([], sorted(names))


async def test_a_job_that_comes_too_late_is_told_once_and_by_its_name(
    capfd: pytest.CaptureFixture[str],
) -> None:
    told: list[tuple[str, str]] = []
    start = SystemClock().now() - timedelta(seconds=5)
    timetable = SystemTimetable(
        [Job("depth VNM", DateTrigger(start, timezone=EXCHANGE_TZ), print, 1)],
        lambda _: None,
        lambda job, trouble: told.append((job, trouble)),
    )

    timetable.start()
    for _ in range(5):
        await asyncio.sleep(0)
    await timetable.stop()

    assert told == [("depth VNM", "missed its time")]
    assert capfd.readouterr().err == ""
