"""What ends a run, and what does not."""

import asyncio
import math
from contextlib import suppress

from bot.runtime.supervisor import Supervisor


async def test_a_cancellation_that_nobody_asked_for_ends_the_run() -> None:
    async def stray() -> None:
        raise asyncio.CancelledError

    supervisor = Supervisor()

    await supervisor.guard(stray())

    assert supervisor.stopped.is_set()
    assert str(supervisor.failure) == "work was cancelled, but not by the bot"


async def test_work_that_the_bot_cancels_has_not_failed() -> None:
    supervisor = Supervisor()
    work = asyncio.create_task(supervisor.guard(asyncio.Event().wait()))  # type: ignore[arg-type]
    await asyncio.sleep(0)

    work.cancel()
    with suppress(asyncio.CancelledError):
        await work

    assert work.cancelled()
    assert supervisor.failure is None


async def test_the_time_of_a_stop_is_the_shortest_that_was_given() -> None:
    supervisor = Supervisor()
    assert supervisor.left_s() == math.inf

    for seconds in (1000, 500, 700):
        supervisor.end_within(seconds)

    assert 499 < supervisor.left_s() <= 500
    supervisor.end_within(0)
    assert supervisor.left_s() == 0


async def test_a_start_that_does_not_hear_of_the_stop_does_not_hold_it_up() -> None:
    supervisor, may_end = Supervisor(), asyncio.Event()

    async def deaf() -> None:
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()

    async with asyncio.timeout(30):
        starting = asyncio.create_task(supervisor.unless_stopped(deaf()))
        await asyncio.sleep(0)
        supervisor.end()
        await starting

    assert not may_end.is_set()
    may_end.set()
