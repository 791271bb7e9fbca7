"""What the bot watches while it trades: disk, machine time, its own hooks, and the quota.

Each of them posts what it finds, most after checking repeatedly; none of them decides anything.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Final

from bot.broker.budget import RequestBudget
from bot.broker.calls import REFUSED_KEY_PAUSE, KeyBreaker, Proof
from bot.clock import SteadyClock, boottime_s
from bot.config.strategies.invoke import Interrupted, file_of, invoke, is_inside
from bot.domain.entry import Note, Number
from bot.domain.local_time import clock_of
from bot.domain.message import Noted
from bot.domain.operations import ClockStepped, DiskSeen, StoodStill
from bot.engine.control_state import Standing
from bot.engine.health import LOW_BYTES
from bot.engine.settings import StrategyFault
from bot.journal.writing.aside import begin
from bot.journal.writing.thread import in_time
from bot.runtime.activity import Post
from bot.runtime.surroundings import Surroundings
from bot.runtime.worlds.environment import Environment
from bot.strategy import Strategy

LOOK_S: Final = 10.0
ANSWER_S: Final = 5.0
"""How long the disk may take to answer; one that hangs is detected by the journal's own watch."""
CLOCK_LOOK_S: Final = 0.5
STEP_MAX: Final = timedelta(seconds=2)
"""A wall clock further off than this has been set."""
STILL_MAX_S: Final = 5.0
"""How long a signal may wait for its order: decisions made before a longer standstill are too old,
and a shorter one is just a slow machine.
"""
HOOK_LOOK_S: Final = 0.25
HOOK_S_MAX: Final = 4.0
"""How long a hook may take. A person knows of one that hangs within 5 s."""
HALTED_S_MAX: Final = 0.75
"""The same while a halt waits for it, which it does for no longer than a second."""
HALT_ANSWER_S: Final = 0.05
"""How long a check waits for the answer whether a halt waits: that needs a disk."""
END_S: Final = 1.0
"""How long the end waits for the last check."""
TOLD_FROM: Final = timedelta(seconds=45)
"""Shorter limits are a line on the screen; longer ones are an alert."""
SHOWN_FROM: Final = timedelta(seconds=5)
"""A wait as short as this is not worth a line of the status."""
_LONG_TERM: Final = "the broker still limits us after its own reset: a long-term limit"
_SIGNAL: Final = signal.SIGVTALRM
"""Used between our own threads: nobody else sends it."""


class DiskWatch:
    """Checks how much room there is on the fullest of the disks that hold some folders.

    It posts `DiskSeen` at each check while there is little, and once when there is more again.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        post: Post,
        now: Callable[[], datetime],
        free_bytes: Callable[[Path], int] | None = None,
    ) -> None:
        self._folders = folders
        self._post = post
        self._now = now
        self._free_bytes = free_bytes or free_on
        self._was_low = False

    async def run(self) -> None:
        """Check repeatedly, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Check once. A disk that does not answer is ignored."""
        with suppress(TimeoutError, OSError):
            free = await in_time(lambda: min(map(self._free_bytes, self._folders)), ANSWER_S)
            is_low = free < LOW_BYTES
            if is_low or self._was_low:
                self._post(DiskSeen(self._now(), free))
            self._was_low = is_low


def free_on(folder: Path) -> int:
    """Return the bytes that an unprivileged user can still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class TimeWatch:
    """Notices when the wall clock was set and when the bot stood still, and posts each once.

    Neither does harm by itself: the bot uses a clock that handles both (`bot.clock`). But a person
    with two clocks has to know which one the bot uses, and after a standstill market, orders and
    account are no longer as the bot believes. `now` is market time.
    """

    def __init__(
        self,
        clock: SteadyClock,
        post: Post,
        now: Callable[[], datetime],
        elapsed_s: Callable[[], float] = boottime_s,
    ) -> None:
        self._clock = clock
        self._post = post
        self._now = now
        self._elapsed_s = elapsed_s
        self._looked_s = elapsed_s()
        self._told = timedelta()

    async def run(self) -> None:
        """Check repeatedly, for ever."""
        while True:
            await asyncio.sleep(CLOCK_LOOK_S)
            self.look()

    def look(self) -> None:
        """Report what has happened since the last check."""
        looked_s, self._looked_s = self._looked_s, self._elapsed_s()
        still_s = self._looked_s - looked_s - CLOCK_LOOK_S
        if still_s > STILL_MAX_S:
            self._post(StoodStill(self._now(), timedelta(seconds=still_s)))
        ahead = self._clock.wall_is_ahead_by()
        if abs(ahead - self._told) > STEP_MAX:
            self._told = ahead if abs(ahead) > STEP_MAX else timedelta()
            self._post(ClockStepped(self._now(), self._told))


class HookWatch:
    """Calls hooks, one at a time, and interrupts those that do not return, so that halts, cancels
    and the other strategies continue. `is_urgent` returns whether a halt is waiting.

    A separate thread watches the hook being called. If it finds the same one at too many checks in
    a row, it sends a signal whose handler raises `Interrupted` inside the hook, and nowhere else:
    not in the engine, which may be in the middle of something, and not in the next hook. Checks are
    counted, not seconds, since a process that was stopped for a while has no slow hook. A hook that
    catches even that, with a bare `except:`, is interrupted at each further check, and `tell` gets
    its name, and an empty text when it has returned. Only C code that never returns to Python
    cannot be reached: then `bot halt` blocks from outside.

    What a hook has changed of the whole process is put back after it, and is a fault of it.
    """

    def __init__(
        self,
        is_urgent: Callable[[], bool],
        hook_s_max: float = HOOK_S_MAX,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._is_urgent = is_urgent
        self._hook_s_max = hook_s_max
        self._tell = tell
        self._called: tuple[Strategy, str] | None = None
        self._condemned: tuple[Strategy, str] | None = None
        self._asked: threading.Event | None = None
        self._has_halt = False
        self._around: Surroundings | None = None
        self._over = threading.Event()

    def invoke(
        self, strategy: Strategy, hook: str, argument: object | None
    ) -> StrategyFault | None:
        """Call a hook, within its time limit."""
        if self._around is None:
            return invoke(strategy, hook, argument)
        self._around.enter()
        self._called = strategy, hook
        try:
            return invoke(strategy, hook, argument, self._around.put_back)
        finally:
            self._called = None
            self._around.leave()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch the hooks called by this (the main) thread."""
        before = signal.signal(_SIGNAL, self._interrupt)
        self._around = Surroundings()
        looking = threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="hooks", daemon=True
        )
        looking.start()
        try:
            yield
        finally:
            self._over.set()
            looking.join(END_S)
            self._around.close()
            self._around = None
            signal.signal(_SIGNAL, before)

    def _look(self, main: int) -> None:
        seen, looks, told = None, 0, False
        while not self._over.wait(HOOK_LOOK_S):
            called = self._called
            looks = looks + 1 if called is seen else 0
            seen = called
            if not looks:
                self._has_halt = False
            if told and not looks:
                self._tell_aside("")
                told = False
            seconds = looks * HOOK_LOOK_S
            is_long = seconds >= self._hook_s_max or (
                called is not None and seconds >= HALTED_S_MAX and self._is_halt_waiting()
            )
            if called is not None and is_long and not self._over.is_set():
                is_stubborn, self._condemned = self._condemned is called, called
                signal.pthread_kill(main, _SIGNAL)
                if is_stubborn and not told:
                    self._tell_aside(_stubborn(called, seconds))
                    told = True
        if told:
            self._tell_aside("")

    def _is_halt_waiting(self) -> bool:
        """Ask in a thread of its own: the watch must not be blind while a disk hangs. The answer of
        a slow one counts at the next look.
        """

        def ask() -> None:
            self._has_halt = self._is_urgent()

        if self._asked is None or self._asked.is_set():
            try:
                self._asked = begin(ask)
            except OSError:  # no thread can be created: a disk that hangs as well is rarer
                ask()
        if self._asked is not None:
            self._asked.wait(HALT_ANSWER_S)
        return self._has_halt

    def _tell_aside(self, words: str) -> None:
        """Tell in a thread of its own: the watch must not wait for a disk or a screen, nor end with
        them.
        """

        def tell() -> None:
            with suppress(OSError, ValueError):  # a full disk, a screen that is gone
                self._tell(words)

        with suppress(OSError):  # no thread can be created
            begin(tell)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if self._condemned is self._called and is_inside(frame):
            raise Interrupted


def _stubborn(called: tuple[Strategy, str], seconds: float) -> str:
    """Name a hook that goes on although it was interrupted."""
    strategy, hook = called
    return (
        f"{hook} of {type(strategy).__name__} ({file_of(strategy)}) has not returned for "
        f"{seconds:.0f} s, although it was interrupted. The bot does nothing else meanwhile: no "
        "order leaves, no cancel, no read. If that lasts: bot halt, then end this process and mend "
        "the file"
    )


_UNSEEN: Final = (
    "Fills and ends of orders are not seen meanwhile. Look in the broker's app for what is open, "
    "and whether the key was changed or revoked there; and at the clock: bot doctor"
)
_REFUSED: Final = {
    Proof.KEY: ("our key", "nothing is read and no order is sent", _UNSEEN),
    Proof.SIGNATURE: (
        "what we sign",
        "neither orders nor the account are read and no order is sent",
        _UNSEEN,
    ),
    Proof.ORDERS: (
        "our orders",
        "no order and no change is sent",
        "Reads go on. Look in the broker's app what this key may do; check the clock: bot doctor",
    ),
}
"""What is refused, what the bot does not do, and what to look at."""


class QuotaWatch:
    """Reports that requests wait for the broker's quota, and since when the broker limits us.

    A 429 ends at its reset. One that lasts or keeps returning makes a bot blind and slow, although
    what it reads is correct: quotes arrive late, and so do the ends of orders. It stays in the
    alerts of `bot status` while it lasts.

    The budget's clock need not be the market's, nor run at its pace; messages use market time.
    """

    def __init__(self, environment: Environment, post: Post) -> None:
        self._environment = environment
        self._post = post
        self._told: datetime | None = None
        """The beginning of the limit that the last alert reported."""

    def note_wait(self, budget: RequestBudget, until: datetime, waiting: int, call: str) -> None:
        """Journal and show that requests wait for the broker's quota; raise an alert if the wait is
        long.
        """
        now, since = self._environment.market.now(), budget.limited_since
        opens_at = _in_market(self._environment, until, now)
        numbers: dict[str, Number] = {
            "until": opens_at.isoformat(),
            "waiting": waiting,
            "call": call,
        }
        text = _LONG_TERM if budget.is_degraded else "the broker's request quota is used up"
        self._post(Noted(now, Note(now, "LIMIT", text, numbers)))
        if since is not None and since != self._told and budget.closed_until - since >= TOLD_FROM:
            self._told = since
            for each in limited(self._environment, budget):
                facts: dict[str, Number] = {"alert": each.code, **each.facts}
                self._post(Noted(now, Note(now, "ALERT", each.text, facts)))

    def note_over(self) -> None:
        """Journal and show that a limit which was an alert is over."""
        if self._told is not None:
            self._told = None
            now = self._environment.market.now()
            text = "the broker no longer limits us: a whole minute without a 429"
            self._post(Noted(now, Note(now, "RESUME", text)))


def limited(environment: Environment, budget: RequestBudget) -> Iterator[Standing]:
    """Yield the alert that holds while the broker limits us."""
    since, until = budget.limited_since, budget.closed_until
    if since is None or until - since < SHOWN_FROM:
        return
    now = environment.market.now()
    since, until = _in_market(environment, since, now), _in_market(environment, until, now)
    since_words, until_words = clock_of(since), clock_of(until)
    text = (
        f"since {since_words} the broker has answered 429: the request quota is used up. Nothing "
        f"leaves before its reset, the last one at {until_words}, not even a cancel; then cancels "
        "go first, and reads one after another: quotes, fills and ends of orders are seen late. If "
        "it goes on, find out who else uses this key, and compare broker.requests_per_minute with "
        "what your key may ask"
    )
    yield Standing("RATE_LIMITED", text, {"since": since.isoformat(), "until": until.isoformat()})


def refused(breaker: KeyBreaker) -> Iterator[Standing]:
    """Yield the alert that holds while calls are kept back because the broker refuses our key."""
    if (barred := breaker.barred()) is None:
        return
    proof, _ = barred
    what, does, look = _REFUSED[proof]
    text = (
        f"the broker has refused {what} twice in a row (401): {does} for "
        f"{REFUSED_KEY_PAUSE.seconds // 60} minutes, then one call tries; cancels go on. {look}"
    )
    yield Standing("KEY_REFUSED", text, {"proof": proof.name})


def tell_refused(environment: Environment, breaker: KeyBreaker, post: Post) -> None:
    """Journal and show that calls are kept back from now on."""
    now = environment.market.now()
    for each in refused(breaker):
        facts: dict[str, Number] = {"alert": each.code, **each.facts}
        post(Noted(now, Note(now, "ALERT", each.text, facts)))


def _in_market(environment: Environment, at: datetime, now: datetime) -> datetime:
    """Return when an instant of the quota's clock is in market time, which is `now`."""
    return now + (at - environment.waiter.now()) * environment.quota_speed


def tell_accepted(environment: Environment, post: Post) -> None:
    """Journal and show that a call which was kept back is accepted again."""
    now = environment.market.now()
    text = "the broker accepts again what it has refused (401): nothing is kept back for it"
    post(Noted(now, Note(now, "RESUME", text)))
