"""Jobs and deadlines come when they are due, whatever the wall does, by either clock."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import pytest

from bot.broker.budget import RequestBudget
from bot.clock import Clock, ScaledClock, SimulatedClock, SteadyClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.domain.entry import Note
from bot.domain.message import Event, Noted
from bot.protocol.secret import Secret
from bot.runtime.inbox import BY_URGENCY
from bot.runtime.timetable.schedule import Firing, Job, Timetable, every
from bot.runtime.watches import QuotaWatch
from bot.runtime.worlds.environment import Access
from bot.runtime.worlds.system import (
    BLOCKED,
    ClockDriver,
    ServedEnvironment,
    SystemEnvironment,
    read_market_clock,
)
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.staging import scenario

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
SPEED = 1_000.0
SERVED_FROM = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)


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


def test_with_a_real_clock_the_urgent_goes_first_and_no_decision_waits_longer_than_a_second() -> (
    None
):
    """How soon a pause gets its turn is in `test_live.py`."""
    access = Access("http://127.0.0.1:1", Secret(""), Secret(""))

    pace = SystemEnvironment(access).pace

    assert (pace.ranking, pace.reads_ahead) == (BY_URGENCY, True)
    assert pace.lazy_s <= 1
    assert pace.hold_s <= 0.1, "a market poll is not put off for a hanging order"


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


@pytest.mark.parametrize("moved_to_s", [40, None], ids=["postponed", "withdrawn"])
async def test_a_deadline_that_moves_away_wakes_nobody_at_the_old_time(
    moved_to_s: int | None,
) -> None:
    """The job comes after the old deadline and the last one after the new one."""
    clock = quick(SystemClock())
    fired, stopping = list[str](), asyncio.Event()
    later = None if moved_to_s is None else START + timedelta(seconds=moved_to_s)

    def engine(due: datetime) -> None:
        assert later is not None
        assert due >= later
        fired.append("engine")

    def last(_due: datetime) -> None:
        stopping.set()

    hour = timedelta(hours=1)
    jobs = [
        Job("job", every(hour, start=START + timedelta(seconds=30)), partial(note, fired, "job")),
        Job("last", every(hour, start=START + timedelta(seconds=50)), last),
    ]
    driver = ClockDriver(clock, Timetable(jobs, START), engine, lambda *_: None, speed=SPEED)
    driver.wake_at(START + timedelta(seconds=20))
    running = asyncio.create_task(driver.run(stopping))
    await asyncio.sleep(0)

    driver.wake_at(later)
    await asyncio.wait_for(running, 30)

    assert fired == (["job"] if later is None else ["job", "engine"])


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


@pytest.mark.wire
async def test_a_served_sandbox_tells_its_market_time_and_speed() -> None:
    wire = SystemClock()
    market = ScaledClock(wire, start=SERVED_FROM, speed=60)
    played = Sandbox(
        scenario().model_copy(update={"speed": 60.0}), load_rulebook(), clock=market, wire=wire
    )

    async with serve(played) as base_url:
        told = await read_market_clock(base_url, wire)

    assert told is not None
    clock, speed = told
    assert speed == 60
    assert abs(clock.now() - market.now()) < timedelta(seconds=30)


def test_a_wait_at_sixty_times_the_speed_is_told_as_long_as_the_market_is_held() -> None:
    told: list[Event] = []
    environment = ServedEnvironment(Access("http://127.0.0.1:1", Secret("key"), Secret("secret")))
    environment.quota_speed = 60.0

    until = environment.waiter.now() + timedelta(seconds=10)
    budget = RequestBudget(per_minute=60, waiter=environment.waiter, jitter=Random(1))
    QuotaWatch(environment, told.append).note_wait(budget, until, 3, "stock_quote")

    [noted] = told
    assert isinstance(noted, Noted)
    assert isinstance(noted.entry, Note)
    opens_at = datetime.fromisoformat(str(noted.entry.numbers["until"]))
    assert 599 < (opens_at - noted.at).total_seconds() <= 600


def test_the_end_of_a_limit_is_told_once_and_only_if_the_limit_was() -> None:
    told: list[Event] = []
    environment = ServedEnvironment(Access("http://127.0.0.1:1", Secret("key"), Secret("secret")))
    watch, at = QuotaWatch(environment, told.append), environment.waiter.now()
    budget = RequestBudget(per_minute=60, waiter=environment.waiter, jitter=Random(1))

    watch.note_over()
    until = budget.note_limit(at + timedelta(seconds=60), "stock_quote", tries=1)
    watch.note_wait(budget, until, 3, "stock_quote")
    for _ in range(2):
        watch.note_over()

    entries = [each.entry for each in told if isinstance(each, Noted)]
    assert [each.kind for each in entries if isinstance(each, Note)] == ["LIMIT", "ALERT", "RESUME"]
