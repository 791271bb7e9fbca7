"""What is on the wire now. Reads and writes share one count, by which a stepped clock stands still.

Every request is a task of its own under a shield: a caller that goes away never cuts off a request,
so the answer to an order is never thrown away and no connection is lost from the pool (cancelling
an httpx request leaks its place there: httpcore issue 1093). With `max_concurrent=1` requests start
and finish strictly in the order in which they were asked for.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeVar

Result = TypeVar("Result")


class Traffic:
    """Counts requests from the moment they are made to the moment their answer is complete."""

    def __init__(self, *, max_concurrent: int | None = None) -> None:
        self._turn: AbstractAsyncContextManager[object] = (
            nullcontext() if max_concurrent is None else asyncio.Semaphore(max_concurrent)
        )
        self._under_way: set[asyncio.Task[object]] = set()

    @property
    def in_flight(self) -> int:
        """Requests made and not yet answered, those in the line included."""
        return len(self._under_way)

    @property
    def is_idle(self) -> bool:
        """True when no request is under way."""
        return not self._under_way

    async def carry(self, request: Coroutine[object, object, Result]) -> Result:
        """Run one request to its end, in turn, even when the caller is cancelled meanwhile."""
        task = asyncio.create_task(self._in_turn(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _in_turn(self, request: Coroutine[object, object, Result]) -> Result:
        async with self._turn:
            return await request

    async def drain(self) -> None:
        """Wait until nothing is under way; every request has a deadline of its own."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))
