"""The writer's thread: queued work is stored in one transaction, in call order.

Each caller gets its own verdict: if a joint transaction fails, each write is done alone. A
cancelled caller does not cancel its work. A thread blocked by the database delays neither others
nor the end of the process; the same goes for other blocking work (`in_time`).
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from bot.clock import monotonic_s
from bot.journal.errors import Unreachable
from bot.journal.writing.aside import begin
from bot.journal.writing.storing import Store, Verdicts, Write

ENTRIES_MAX: Final = 1_024
"""A transaction accepts no more writes once it has this many entries."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """Something queued: a write, or other work, which is done alone."""

    done: asyncio.Future[Any]
    write: Write | None
    work: Callable[[], object] | None = None
    is_last: bool = False


async def in_time(work: Callable[[], T], timeout_s: float | None = None) -> T:
    """Run blocking work on a separate thread. On TimeoutError the thread is abandoned, and delays
    neither others nor the end of the process. Raises OSError if no thread can be created.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(value)

    begin(run)
    async with asyncio.timeout(timeout_s):
        return await asyncio.wrap_future(done)


class WriterThread:
    """Runs a store's work on its own thread; call the public methods on the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._waiting: deque[float] = deque()
        self._is_closed = False
        self._is_away = False
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def write(self, write: Write) -> asyncio.Future[Verdicts]:
        """Queue a write after all earlier work."""
        return self._put(Job(asyncio.get_running_loop().create_future(), write))

    def do(self, work: Callable[[], T], *, is_last: bool = False) -> asyncio.Future[T]:
        """Queue other work after all earlier work."""
        return self._put(Job(asyncio.get_running_loop().create_future(), None, work, is_last))

    def stalled_s(self) -> float:
        """How long the oldest unfinished work has been waiting; 0 without any."""
        with suppress(IndexError):  # the thread may finish it in between
            return monotonic_s() - self._waiting[0]
        return 0.0

    def is_away(self) -> bool:
        """Whether the database has not answered the last work, or some is waiting for it now: it
        gives up on what hangs and waits for the next, and in between nothing does.
        """
        return self._is_away or bool(self._waiting)

    def join(self, timeout_s: float) -> None:
        """Wait for the last queued work."""
        self._thread.join(timeout_s)

    def _put(self, job: Job) -> asyncio.Future[Any]:
        assert not self._is_closed, "the journal is closed"
        self._is_closed = job.is_last
        self._waiting.append(monotonic_s())
        self._queue.put(job)
        if self._thread.ident is None:
            self._thread.start()
        return job.done

    # --------------------------------------------------------------------------- on the thread

    def _run(self) -> None:
        is_last, ahead = False, None
        while not is_last:
            job = ahead or self._queue.get()
            ahead, is_last = None, job.is_last
            if job.write is None:
                self._hand_over([job], [self._outcome(job)])
                continue
            jobs, writes, size = [job], [job.write], job.write.size
            while size < ENTRIES_MAX and not self._queue.empty():
                ahead = self._queue.get()
                if ahead.write is None:
                    break
                jobs.append(ahead)
                writes.append(ahead.write)
                size += ahead.write.size
                ahead = None
            self._hand_over(jobs, self._outcomes(writes))

    def _outcome(self, job: Job) -> object:
        assert job.work is not None, "a job is a write or work"
        try:
            return job.work()
        except BaseException as error:
            return error

    def _outcomes(self, writes: Sequence[Write]) -> Sequence[Verdicts | BaseException]:
        """Return each write's result or exception."""
        try:
            return self._store.store(writes)
        except BaseException as error:
            failed = error
        if len(writes) == 1 or not self._store.has_begun():
            return [failed] * len(writes)
        outcomes: list[Verdicts | BaseException] = []
        for write in writes:
            outcomes.extend(self._outcomes([write]))
            # the database cannot be reached, so the others would fail too
            if not self._store.has_begun():
                break
        return outcomes + outcomes[-1:] * (len(writes) - len(outcomes))

    def _hand_over(self, jobs: Sequence[Job], outcomes: Sequence[object]) -> None:
        self._is_away = isinstance(outcomes[-1], Unreachable)
        for _ in jobs:
            self._waiting.popleft()
        with suppress(RuntimeError):  # the loop is closed, so nobody waits any more
            jobs[0].done.get_loop().call_soon_threadsafe(_finish, jobs, outcomes)


def _finish(jobs: Sequence[Job], outcomes: Sequence[object]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.done.cancelled():
            continue
        if isinstance(outcome, BaseException):
            job.done.set_exception(outcome)
        else:
            job.done.set_result(outcome)
