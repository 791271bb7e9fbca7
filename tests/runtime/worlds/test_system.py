"""The machine's own time: jobs and deadlines come when they are due, whatever the wall does."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from bot.clock import Clock, ScaledClock, SimulatedClock, SteadyClock, SystemClock
from bot.runtime.schedule import Job, Timetable, every
from bot.runtime.worlds.system import ClockDriver

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
SPEED = 1_000.0


def unreported(job: str, trouble: str) -> None:
    raise AssertionError(f"{job} {trouble}")


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


async def test_jobs_and_a_deadline_that_comes_nearer_fire_in_time() -> None:
    clock = quick(SystemClock())
    fired, stopping = list[str](), asyncio.Event()

    def job(_due: datetime) -> None:
        fired.append("job")
        stopping.set()

    minute = every(timedelta(seconds=60), start=START + timedelta(seconds=60))
    timetable = Timetable([Job("job", minute, job)], START)
    driver = ClockDriver(
        clock, timetable, lambda _: fired.append("engine"), unreported, speed=SPEED
    )
    running = asyncio.create_task(driver.run(stopping))
    await asyncio.sleep(0)

    driver.wake_at(START + timedelta(seconds=20))
    await asyncio.wait_for(running, 5)

    assert fired == ["engine", "job"]


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
    await asyncio.wait_for(driver.run(stopping), 5)

    assert fired == ["engine", "poll", "poll"]


async def test_a_stop_ends_a_driver_that_has_nothing_to_do() -> None:
    stopping = asyncio.Event()
    driver = ClockDriver(
        SimulatedClock(START), Timetable([], START), lambda _: None, unreported, speed=1.0
    )
    running = asyncio.create_task(driver.run(stopping))
    await asyncio.sleep(0)

    stopping.set()
    await asyncio.wait_for(running, 1)


async def test_jobs_that_come_too_late_are_told_in_one_line_and_fire_once_each() -> None:
    clock, fired, told = SimulatedClock(START), list[str](), list[str]()
    stopping = asyncio.Event()
    jobs = [
        Job(name, every(timedelta(seconds=5), start=START), partial(note, fired, name))
        for name in ("quote VNM", "depth VNM")
    ]
    driver = ClockDriver(
        clock,
        Timetable(jobs, START),
        lambda _: stopping.set(),
        lambda job, trouble: told.append(f"{job} {trouble}"),
        speed=1.0,
    )

    clock.advance_to(START + timedelta(seconds=62))
    driver.wake_at(START)
    await asyncio.wait_for(driver.run(stopping), 1)

    assert fired == ["quote VNM", "depth VNM"]
    assert told == ["depth VNM and 1 others came 62.0 s late"]
