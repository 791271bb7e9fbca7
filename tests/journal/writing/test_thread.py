"""Work that may block, on a thread of its own, and who waits for it."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import pytest

from bot.journal.writing.thread import in_time

TURNS = 6
"""More rounds of the loop than an answer takes from its thread to whoever waits for it."""


def _threads_once(is_so: Callable[[set[int]], bool]) -> set[int]:
    """Block the loop for a while; return the threads that there are then."""
    while not is_so(now := set(sys._current_frames())):
        time.sleep(0.001)
    return now


@pytest.mark.parametrize("turns", range(TURNS))
async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(turns: int) -> None:
    may_end = threading.Event()
    waiting = asyncio.create_task(in_time(may_end.wait, 60))
    before = set(sys._current_frames())
    await asyncio.sleep(0)
    begun = _threads_once(lambda now: bool(now - before)) - before

    may_end.set()
    _threads_once(lambda now: not begun & now)  # its answer is on the way to the loop
    for _ in range(turns):
        await asyncio.sleep(0)
    was_over = waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})

    assert waiting.cancelled() or was_over
