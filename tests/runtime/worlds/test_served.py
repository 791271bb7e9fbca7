"""A clock that runs by itself: jobs and deadlines fire when their time has come."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bot.clock import ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.domain.entry import Note
from bot.domain.message import Event, Noted
from bot.protocol.secret import Secret
from bot.runtime.assemble import note_wait
from bot.runtime.schedule import Job, Timetable, every
from bot.runtime.worlds.environment import Access
from bot.runtime.worlds.served import PacedDriver, ServedEnvironment, read_market_clock
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.staging import scenario

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
SPEED = 1_000.0


async def test_jobs_and_a_deadline_that_comes_nearer_fire_in_time() -> None:
    clock = ScaledClock(SystemClock(), start=START, speed=SPEED)
    fired, stopping = list[str](), asyncio.Event()

    def job(_due: datetime) -> None:
        fired.append("job")
        stopping.set()

    minute = every(timedelta(seconds=60), start=START + timedelta(seconds=60))
    timetable = Timetable([Job("job", minute, job)], START)
    driver = PacedDriver(clock, timetable, lambda _: fired.append("engine"), speed=SPEED)
    running = asyncio.create_task(driver.run(stopping))
    await asyncio.sleep(0)

    driver.wake_at(START + timedelta(seconds=20))
    await asyncio.wait_for(running, 5)

    assert fired == ["engine", "job"]


@pytest.mark.wire
async def test_a_served_sandbox_tells_its_market_time_and_speed() -> None:
    wire = SystemClock()
    market = ScaledClock(wire, start=START, speed=60)
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
    note_wait(environment, told.append, lambda: False, until, 3, "stock_quote")

    [noted] = told
    assert isinstance(noted, Noted)
    assert isinstance(noted.entry, Note)
    opens_at = datetime.fromisoformat(str(noted.entry.numbers["until"]))
    assert 599 < (opens_at - noted.at).total_seconds() <= 600
