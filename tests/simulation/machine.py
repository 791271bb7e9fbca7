"""A simulated machine: its time, its threads and its journal's disk.

Waiting on asyncio's timers takes no time: if nothing is left to do, the machine's clock advances to
the next timer. `bot/clock.py` reads this clock. The journal's work is done between two steps of the
loop instead of on a thread, and a disk that hangs is work that is done later; whatever else has a
thread (`in_time`, `begin`) is done at once. So one seed is one story, and ten seconds of a deadline
cost nothing.
"""

import asyncio
import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappush
from typing import Any, Final, TypeVar

import bot.clock
import bot.journal.journal
import bot.journal.writing.thread
import bot.runtime.daemon
import bot.runtime.health.onlookers
from bot.clock import monotonic_s
from bot.journal.writing.storing import Store
from bot.journal.writing.thread import ENTRIES_MAX, Job, WriterThread
from bot.runtime import brake, supervisor, watches
from bot.runtime.health.process_log import LogWatch
from bot.runtime.history.warming.kept import KeptBars, append

BOOTED_S: Final = 1_000.0
WAIT_FOR_THREADS_S: Final = 0.002
IDLE_MAX: Final = 400
RUN_S_MAX: Final = 50_000.0
"""Only who waits for the wall moves this clock: a run with more of it goes round in circles."""
STUCK: Final = 4
"""The code of a process in which everything waits."""
ASIDE: Final = (bot.journal.writing.thread, brake, supervisor)
"""What begins threads that have an answer to give: `in_time` is in the first of them."""
BACKGROUND: Final = frozenset({"MainThread", "heads", "hooks", "log", "recorder"})
"""Threads that nobody waits for. Any other has an answer to give: until then no time passes."""

T = TypeVar("T")


class _Timer(asyncio.TimerHandle):
    """A timer that comes after those of the same instant that were set before it."""

    __slots__ = ("number",)
    number: int
    _scheduled: bool

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self.number) < (other.when(), other.number)


class MachineLoop(asyncio.SelectorEventLoop):
    """The loop, whose time is the machine's."""

    _scheduled: list[_Timer]
    """asyncio's own heap, in which the order of timers of one instant is nobody's promise."""

    def __init__(self) -> None:
        self.seconds = BOOTED_S
        self._timers = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.seconds

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer; of those due at one instant the first that was set comes first."""
        timer = _Timer(when, callback, args, self, context)
        self._timers += 1
        timer.number = self._timers
        heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def run_in_executor(
        self, _: object, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """Do it at once: there are no other threads to do it meanwhile."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 (whoever waits gets it)
            done.set_exception(error)
        return done


class _Selector(selectors.DefaultSelector):
    """Never sleeps: with nothing to do, the machine's clock goes on."""

    def __init__(self, loop: MachineLoop) -> None:
        super().__init__()
        self._loop = loop
        self._idle = 0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            self._idle = 0
            return found
        others = {thread.name for thread in threading.enumerate()} - BACKGROUND
        if others or timeout is None:
            self._idle += not others
            if self._idle > IDLE_MAX:
                self._tell_who_waits()
            return super().select(WAIT_FOR_THREADS_S)
        self._loop.seconds += timeout
        if self._loop.seconds > RUN_S_MAX:
            self._tell_who_waits()
        return found

    def _tell_who_waits(self) -> None:
        """End the process: no timer is set that would change anything, and nothing will come."""
        sys.stderr.write("everything waits, and nothing will come\n")
        for task in asyncio.all_tasks(self._loop):
            waiting: Any = task.get_coro()
            while waiting is not None and (frame := getattr(waiting, "cr_frame", None)):
                sys.stderr.write(f"  {frame.f_code.co_qualname} {frame.f_lineno}\n")
                waiting = waiting.cr_await
            sys.stderr.write(f"  for {waiting}\n")
        sys.stderr.flush()
        os._exit(STUCK)


class MachineTime:
    """Stands in for the module `time` in `bot/clock.py`."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, loop: MachineLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.seconds

    perf_counter = monotonic

    def clock_gettime(self, _: int) -> float:
        return self._loop.seconds

    def clock_gettime_ns(self, _: int) -> int:
        return round(self._loop.seconds * 1e9)


class Disk(WriterThread):
    """The journal's writer, without a thread. Until `hangs_until` (machine's time) nothing that it
    is asked for is done.
    """

    hangs_until = 0.0

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._jobs: deque[Job] = deque()
        self._is_due = False

    def _put(self, job: Job) -> asyncio.Future[Any]:
        assert not self._is_closed, "the journal is closed"
        self._is_closed = job.is_last
        self._waiting.append(monotonic_s())
        self._jobs.append(job)
        if not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), Disk.hangs_until), self._work)
        return job.done

    def _work(self) -> None:
        """Do what waits: writes that follow one another are one transaction."""
        loop = asyncio.get_running_loop()
        if loop.time() < Disk.hangs_until:
            loop.call_at(Disk.hangs_until, self._work)
            return
        self._is_due = False
        while self._jobs:
            job = self._jobs.popleft()
            if job.write is None:
                self._hand_over([job], [self._outcome(job)])
                continue
            jobs, writes, size = [job], [job.write], job.write.size
            while size < ENTRIES_MAX and self._jobs and self._jobs[0].write is not None:
                more = self._jobs.popleft()
                assert more.write is not None, "just looked at"
                jobs.append(more)
                writes.append(more.write)
                size += more.write.size
            self._hand_over(jobs, self._outcomes(writes))

    def join(self, timeout_s: float) -> None:
        """Return: there is no thread."""


class Bars(KeptBars):
    """The file of bars, without a thread: what closes together is in it at once."""

    def _write(self) -> None:
        text, self._is_due, self._lines = "".join(self._lines), False, []
        append(self._path, text, self._bytes_max)


class NoLogWatch(LogWatch):
    """The log has a thread of the real machine, for which this one's seconds are nothing."""

    def look(self) -> None:
        """See nothing."""


def begin_at_once(work: Callable[[], object]) -> threading.Event:
    """Do at once what would have a thread: nobody's turn may come before or after its answer by how
    soon that thread gets a core.
    """
    work()
    over = threading.Event()
    over.set()
    return over


def run_on_machine(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a machine of its own; only for a process that has nothing else to do."""
    with asyncio.Runner(loop_factory=MachineLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, MachineLoop)
        # The one seam of time, and the places where threads are made that outlive a call.
        setattr(bot.clock, "time", MachineTime(loop))  # noqa: B010
        setattr(bot.journal.journal, "WriterThread", Disk)  # noqa: B010
        setattr(bot.runtime.daemon, "KeptBars", Bars)  # noqa: B010
        setattr(bot.runtime.health.onlookers, "LogWatch", NoLogWatch)  # noqa: B010
        # A hook that gets no core for 5 s of the wall is none that hangs.
        setattr(watches, "HOOK_LOOK_S", threading.TIMEOUT_MAX)  # noqa: B010
        for module in ASIDE:
            setattr(module, "begin", begin_at_once)  # noqa: B010
        return runner.run(work)
