"""How far a run has come, and the one place where anything that goes wrong is caught.

A failure that reaches the supervisor is a bug of ours, or a mistake of the operator found while
starting: the run ends at once, nothing more is sent, and the next start recovers. Crash-only.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from signal import Signals
from typing import TypeVar

from bot.runtime.activity import LET_END_S
from bot.runtime.leaving import not_ignored

T = TypeVar("T")


@contextmanager
def on_signals(numbers: Sequence[Signals], act: Callable[[Signals], object]) -> Iterator[None]:
    """Call `act` with each of these signals that comes, instead of ending the process."""
    loop, numbers = asyncio.get_running_loop(), not_ignored(numbers)
    for number in numbers:
        loop.add_signal_handler(number, act, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class Supervisor:
    """Events that the parts of a run wait for, and the failure that ended it, if one did."""

    def __init__(self) -> None:
        self.is_up = asyncio.Event()
        self.stopping = asyncio.Event()
        self.stopped = asyncio.Event()
        self.failure: BaseException | None = None
        self._ends_s = math.inf

    async def guard(self, work: Awaitable[None]) -> None:
        """Await `work`; whatever it raises ends the run, also a cancellation that nobody asked for:
        without it the run would stop trading, and nobody would know.
        """
        try:
            await work
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            stray = RuntimeError("work was cancelled, but not by the bot")
            stray.__cause__ = cancelled
            self.fail(stray)
        except BaseException as failure:
            self.fail(failure)

    async def unless_stopped(self, work: Coroutine[object, object, T]) -> T | None:
        """Await `work`, but no longer than until the run is to end; None then: it is cut off, and
        left where it is if it does not go.
        """
        doing, ending = asyncio.ensure_future(work), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            doing.cancel()
            ending.cancel()
            await asyncio.wait({doing, ending}, timeout=LET_END_S)

    def fail(self, failure: BaseException) -> None:
        """End the run at once; the first failure is the one that counts."""
        if self.failure is None:
            self.failure = failure
        self.end()

    def end_within(self, seconds: float) -> None:
        """Stop moving after `seconds` of the wall clock, settled or not: a stop never hangs."""
        loop = asyncio.get_running_loop()
        self._ends_s = min(self._ends_s, loop.time() + seconds)
        loop.call_later(seconds, self.stopping.set)

    def left_s(self) -> float:
        """How much of the time of a stop is left; for ever while none has been asked for."""
        return max(self._ends_s - asyncio.get_running_loop().time(), 0.0)

    def end(self) -> None:
        """Say that everything that had to be settled is settled."""
        self.stopping.set()
        self.stopped.set()

    def raise_failure(self) -> None:
        """Raise what ended the run, unless it ended well."""
        if self.failure is not None:
            raise self.failure
