"""Work that may block, on a thread of its own, and who waits for it."""

import asyncio
import threading

import pytest

from bot.journal.thread import in_time

TURNS = 6
"""More rounds of the loop than an answer takes from its thread to who waits for it."""


@pytest.mark.parametrize("turns", range(TURNS))
async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(turns: int) -> None:
    may_end = threading.Event()
    waiting = asyncio.create_task(in_time(may_end.wait, 60))
    before = set(threading.enumerate())
    await asyncio.sleep(0)

    (thread,) = set(threading.enumerate()) - before
    may_end.set()
    thread.join()  # its answer is on the way to the loop
    for _ in range(turns):
        await asyncio.sleep(0)
    was_over = waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})

    assert waiting.cancelled() or was_over
