"""What is under way, and who may run next.

The stepped market clock may move only when nothing is under way: no event waits, no command runs,
no request is in flight, no row is being written. `Activity` counts that. `Tasks` runs the engine's
commands; in the stepped market they take turns in the order in which they were started, so that
answers enter in request-start order and the same seed gives the same story on any machine.
`TimeSlice` limits a turn on the shared asyncio loop.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from bot.clock import monotonic_s
from bot.domain.message import Event

TURNS_MAX: Final = 8
"""Iterations of asyncio's loop in which a request at the control socket is accepted
and answered.
"""

FIRST_STEPS: Final = 2
"""Iterations in which a write that nothing holds up sends its bytes: one begins its task, and one
the exchange with a broker in this process.
"""

LET_END_S: Final = 2.0
"""How long cancelled tasks may take to end, so that a stop never waits for ever."""

Post = Callable[[Event], None]


class Turn(Protocol):
    """Who may run now."""

    async def take(self) -> None: ...
    def give_back(self) -> None: ...


class AllAtOnce:
    """All run at the same time: live, where the network decides the order."""

    async def take(self) -> None: ...
    def give_back(self) -> None: ...


class OneAtATime:
    """Serves in order of arrival, as asyncio's lock is fair; used by the stepped market."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        await self._lock.acquire()

    def give_back(self) -> None:
        self._lock.release()


class TimeSlice:
    """Limits how long uninterrupted work may hold the loop: after `seconds` the others get their
    turn.

    On a stepped clock there is no limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Start a new slice: the others have just had their turn."""
        self._ends_s = monotonic_s() + self._seconds

    def is_over(self) -> bool:
        """Whether it is the others' turn."""
        return monotonic_s() >= self._ends_s

    async def give_way(self) -> None:
        """Let the others run once the slice is over; then start a new one."""
        if self.is_over():
            for _ in range(TURNS_MAX):
                await asyncio.sleep(0)
            self.begin()

    async def let_begin(self) -> None:
        """Let a write that was just started take its first steps, whatever is left of the slice."""
        if self._seconds < math.inf:
            for _ in range(FIRST_STEPS):
                await asyncio.sleep(0)


class RightOfWay:
    """Gives orders under way priority: market polls, and market data already read, wait for them,
    at most `hold_s`.

    Decision, commit and send of an order, and the handling of its answer, share one processor with
    whatever a poll brings in; a poll loses nothing by starting a moment later.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._orders = 0
        self._is_free = asyncio.Event()
        self._held_until_s: float | None = None

    def begin(self) -> None:
        """An order starts on its way."""
        self._orders += 1
        self._is_free.clear()

    def end(self) -> None:
        """The order has its answer."""
        self._orders -= 1
        if self._orders == 0:
            self._is_free.set()

    @property
    def is_taken(self) -> bool:
        """Whether an order is on its way."""
        return self._orders > 0

    def held_s(self) -> float:
        """Return how long market data already read must still wait; 0: it may be processed.

        Once it has waited `hold_s` it no longer waits until no order is on its way, so neither a
        send that hangs nor order upon order holds it longer.
        """
        if not self._orders:
            self._held_until_s = None
            return 0
        now_s = monotonic_s()
        if self._held_until_s is None:
            self._held_until_s = now_s + self._hold_s
        return max(0, self._held_until_s - now_s)

    async def clear(self) -> None:
        """Wait until no order is on its way, but not longer than a poll can afford."""
        if self._orders and self._hold_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._hold_s):
                    await self._is_free.wait()


class Activity:
    """A counter of things under way with a gate that opens at zero."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """True when nothing is under way."""
        return self._count == 0

    def begin(self) -> None:
        """Count one more thing."""
        self._count += 1
        self._idle.clear()

    def end(self) -> None:
        """Count one thing less."""
        assert self._count > 0, "something ended that never began"
        self._count -= 1
        if self._count == 0:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await self._idle.wait()


class Tasks:
    """Runs coroutines in the background, counted and in turn. A failure is a bug and goes to
    `on_bug`.
    """

    def __init__(
        self, activity: Activity, turn: Turn, on_bug: Callable[[BaseException], None]
    ) -> None:
        self._activity = activity
        self._turn = turn
        self._on_bug = on_bug
        self._running: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """How many are under way."""
        return len(self._running)

    def spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Start `work`; it counts as under way from this moment."""
        self._activity.begin()
        task = asyncio.create_task(self._run(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._finish)
        return task

    @asynccontextmanager
    async def part(self) -> AsyncIterator[None]:
        """Run something in the foreground like a task: counted, and in turn."""
        self._activity.begin()
        try:
            await self._turn.take()
            try:
                yield
            finally:
                self._turn.give_back()
        finally:
            self._activity.end()

    async def _run(self, work: Coroutine[object, object, None]) -> None:
        try:
            await self._turn.take()
        except asyncio.CancelledError:
            work.close()
            raise
        try:
            await work
        finally:
            self._turn.give_back()

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._activity.end()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_bug(error)

    async def ended(self, names: tuple[str, ...], timeout_s: float) -> None:
        """Wait for what is under way by a name that begins with one of these."""
        if named := {task for task in self._running if task.get_name().startswith(names)}:
            await asyncio.wait(named, timeout=timeout_s)

    async def drain(self, timeout_s: float) -> int:
        """Wait for everything under way, then cancel the rest; return how many were cancelled."""
        if not self._running:
            return 0
        _, late = await asyncio.wait(set(self._running), timeout=timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=LET_END_S)
        return len(late)
