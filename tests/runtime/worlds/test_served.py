"""The market time of a sandbox in another process."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.clock import ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.domain.entry import Note
from bot.domain.message import Event, Noted
from bot.protocol.secret import Secret
from bot.runtime.assemble import note_wait
from bot.runtime.worlds.environment import Access
from bot.runtime.worlds.served import ServedEnvironment, read_market_clock
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.staging import scenario

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)


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
