"""The machine's own time: jobs and deadlines come when they are due, whatever the wall does."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from bot.clock import Clock, ScaledClock, SimulatedClock, SteadyClock, SystemClock
from bot.runtime.schedule import Firing, Job, Timetable, every
from bot.runtime.worlds.system import BLOCKED, ClockDriver

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
SPEED = 1_000.0


def unreported(firings: Sequence[Firing], why: str) -> None:
    raise AssertionError(f"{firings} {why}")


def note(fired: list[str], name: str, _due: datetime) -> None:
    fired.append(name)


class Wall:
    """A wall clock that can be set."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at


def quick(clock: Clock) -> Clock:
    return ScaledClock(clock, start=START, speed=SPEED)


async def test_a_deadline_that_comes_nearer_fires_before_the_job_that_was_next() -> None:
    clock = quick(SystemClock())
    fired, stopping = list[str](), asyncio.Event()

    def engine(_due: datetime) -> None:
        fired.append("engine")
        stopping.set()

    hour = timedelta(hours=1)
    job = Job("job", every(hour, start=START + hour), lambda _: fired.append("job"))
    driver = ClockDriver(clock, Timetable([job], START), engine, unreported, speed=SPEED)
    running = asyncio.create_task(driver.run(stopping))
    await asyncio.sleep(0)

    driver.wake_at(START + timedelta(seconds=20))
    await asyncio.wait_for(running, 30)

    assert fired == ["engine"]


async def test_a_wall_that_is_set_back_delays_no_poll_and_no_deadline() -> None:
    wall = Wall()
    clock = quick(SteadyClock(wall))
    fired, stopping = list[str](), asyncio.Event()

    def poll(_due: datetime) -> None:
        fired.append("poll")
        if len(fired) > 2:
            stopping.set()

    often = Job("poll", every(timedelta(seconds=5), start=START + timedelta(seconds=5)), poll)
    timetable = Timetable([often], START)
    driver = ClockDriver(
        clock, timetable, lambda _: fired.append("engine"), unreported, speed=SPEED
    )

    wall.at -= timedelta(minutes=10)
    driver.wake_at(START + timedelta(seconds=1))
    await asyncio.wait_for(driver.run(stopping), 30)

    assert sorted(fired) == ["engine", "poll", "poll"]


async def test_a_stop_ends_a_driver_that_has_nothing_to_do() -> None:
    stopping = asyncio.Event()
    driver = ClockDriver(
        SimulatedClock(START), Timetable([], START), lambda _: None, unreported, speed=1.0
    )
    running = asyncio.create_task(driver.run(stopping))
    await asyncio.sleep(0)

    stopping.set()
    await asyncio.wait_for(running, 30)


async def test_jobs_that_come_too_late_are_told_with_their_count_and_fire_once_each() -> None:
    clock, fired, told = SimulatedClock(START), list[str](), list[tuple[str, int, str]]()
    stopping = asyncio.Event()
    jobs = [
        Job(name, every(timedelta(seconds=5), start=START), partial(note, fired, name))
        for name in ("quote VNM", "depth VNM")
    ]
    driver = ClockDriver(
        clock,
        Timetable(jobs, START),
        lambda _: stopping.set(),
        lambda late, why: told.extend((each.job.name, each.missed, why) for each in late),
        speed=1.0,
    )

    clock.advance_to(START + timedelta(seconds=62))
    driver.wake_at(START)
    await asyncio.wait_for(driver.run(stopping), 30)

    assert fired == ["quote VNM", "depth VNM"]
    assert told == [("quote VNM", 12, BLOCKED), ("depth VNM", 12, BLOCKED)]
