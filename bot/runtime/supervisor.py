"""The progress of a run, what hinders it, and the place where failures are caught.

A failure that reaches the supervisor is a bug of ours, a journal that refuses what it is given, or
a mistake of the operator found while starting: the run ends, no more orders are sent, what the
broker still answers within seconds is kept beside the journal, and the next start recovers.
Crash-only.

The engine's steps, and what a shell does for the engine, run under the `FaultGuard`: an exception
there becomes a `Fault`, and the run continues. The traceback of each kind of fault is kept in a
private file in the state directory. Failures that the run cannot survive, such as a broken journal
or an operator's mistake, are left to the supervisor.
"""

import asyncio
import errno
import math
import os
import platform
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from signal import Signals
from typing import Any, Final, TypeVar

from bot import __version__
from bot.clock import SystemClock
from bot.config.problems import OperatorMistake
from bot.config.strategies.invoke import words_of
from bot.domain.entry import Entry
from bot.domain.errors import OF_THE_JOURNAL, Fault, InvariantBroken
from bot.domain.visible import visible
from bot.journal.errors import JournalError
from bot.journal.writing.aside import begin
from bot.protocol.secret import redact
from bot.runtime.activity import LET_END_S
from bot.runtime.control.socket import Handler, Reply, Request, refused
from bot.runtime.hush import trace_of
from bot.runtime.process import not_ignored

T = TypeVar("T")
REPORT_S: Final = 0.5
"""How long a disk may take for a report: the loop that trades may be waiting."""
REPORTS_MAX: Final = 20
"""At most this many kinds of faults get a file in one run; the journal has every
kind's traceback.
"""
NO_MORE_FILES: Final = (
    "this process may open no more files: what asks it, such as bot status, gets no answer, and "
    "what it needs may fail. Raise the limit before the start: ulimit -n 4096, or LimitNOFILE=4096 "
    "in the unit"
)
FAILED: Final = "a failure has ended the run"
"""Why an order is not sent any more."""
LINE_MAX: Final = 10_000
"""Characters in a report's line."""


@contextmanager
def on_signals(numbers: Sequence[Signals], act: Callable[[Signals], object]) -> Iterator[None]:
    """Call `act` for each of these signals, instead of ending the process."""
    loop, numbers = asyncio.get_running_loop(), not_ignored(numbers)
    for number in numbers:
        loop.add_signal_handler(number, act, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def tell_once_of_files(say: Callable[[str], object]) -> None:
    """Have the running loop say it once if no more files can be opened. asyncio has a traceback for
    each attempt to accept a connection, thousands a second, and another one for each of those that
    it would repeat after the socket was closed.
    """
    has_told = False

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal has_told
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            if not has_told:
                has_told = True
                say(NO_MORE_FILES)
            return
        is_repeated = isinstance(error, ValueError) and "_start_serving" in context["message"]
        if not (has_told and is_repeated):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)


class Supervisor:
    """Events that the parts of a run wait for, and the failure that ended it, if any."""

    def __init__(self) -> None:
        self.is_up = asyncio.Event()
        self.stopping = asyncio.Event()
        self.stopped = asyncio.Event()
        self.failure: BaseException | None = None
        self._ends_s = math.inf

    async def guard(self, work: Awaitable[None]) -> None:
        """Await `work`; anything it raises ends the run, even a cancellation that nobody requested:
        without it the run would stop trading unnoticed.
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
        """Await `work`, but only until the run is to end; then cut it off, return None, and abandon
        it if it does not end.
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
        """End the run at once; only the first failure counts."""
        if self.failure is None:
            self.failure = failure
        self.end()

    def before(self, gate: Callable[[T], str | None]) -> Callable[[T], str | None]:
        """Return the same gate, closed for good by a failure."""
        return lambda asked: gate(asked) if self.failure is None else FAILED

    def end_within(self, seconds: float) -> None:
        """End after `seconds` of the wall clock, settled or not: a stop never hangs."""
        loop = asyncio.get_running_loop()
        self._ends_s = min(self._ends_s, loop.time() + seconds)
        loop.call_later(seconds, self.stopping.set)

    def left_s(self) -> float:
        """How much of a stop's time is left; infinite if none was requested."""
        return max(self._ends_s - asyncio.get_running_loop().time(), 0.0)

    def end(self) -> None:
        """Report that everything that had to be settled is settled."""
        self.stopping.set()
        self.stopped.set()

    def raise_failure(self) -> None:
        """Raise what ended the run, unless it ended well."""
        if self.failure is not None:
            raise self.failure


class FaultGuard:
    """Runs steps, catches what they raise, and keeps a report of each kind."""

    def __init__(
        self, state_dir: Path, hide: Callable[[str], str] = redact, report_s: float = REPORT_S
    ) -> None:
        self._folder: Path | None = state_dir / "bugs"
        self._hide, self._report_s = hide, report_s
        self._reports: dict[str, str] = {}
        self.dump: Callable[[], str] = str
        """Returns the state that a broken invariant is reported with: the engine's, once there is
        one.
        """

    def guard(self, step: Callable[[], object]) -> Fault | None:
        """Run a step; return what it raised."""
        try:
            step()
        except Exception as error:
            return self.fault_of(error)
        return None

    def screen(
        self, show: Callable[[Entry], None], report: Callable[[Fault], None]
    ) -> Callable[[Entry], None]:
        """Return what shows an entry, and reports bugs in that: the entry is already journalled.

        A pipe without a reader ends the run; a screen itself handles a full disk or a closed
        window.
        """

        def shown(entry: Entry) -> None:
            try:
                show(entry)
            except OSError:
                raise
            except Exception as error:
                report(self.fault_of(error))

        return shown

    def handler(self, handler: Handler) -> Handler:
        """Return a handler of the control socket that answers even after a fault."""

        async def answer(request: Request) -> Reply:
            try:
                return await handler(request)
            except Exception as error:
                fault = self.fault_of(error)
            kept = f" Report: {fault.report}" if fault.report else ""
            text = f"the bot runs, but met a bug of its own ({fault.error}).{kept}"
            return refused("E-CTL-006", text)

        return answer

    def fault_of(self, error: BaseException) -> Fault:
        """Describe an exception; the first one of its kind gets a report."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        invariant = ""
        if isinstance(error, InvariantBroken):
            invariant = error.code
            self._add_state(error)
        kind = f"invariant {invariant}" if invariant else f"{type(error).__name__} at {place}"
        trace = self._hide(trace_of(error))
        if kind not in self._reports and len(self._reports) < REPORTS_MAX and self._folder:
            try:
                kept = keep_report(self._folder, "fault", trace, self._report_s)
                self._reports[kind] = str(kept or "")
            except TimeoutError:
                self._folder = None  # no other fault of this run waits for it
        return Fault(
            kind, self._hide(words_of(error)), trace, self._reports.get(kind, ""), invariant
        )

    def _add_state(self, broken: InvariantBroken) -> None:
        """Whoever finds an invariant broken: what the engine believed then is reported with it."""
        if not getattr(broken, "__notes__", ()):
            try:
                state = self.dump()
            except Exception as error:
                state = f"the state cannot be shown: {words_of(error)}"
            broken.add_note(state)


def ends_the_run(error: BaseException) -> bool:
    """Return whether the run cannot continue after `error`: journal, operator, or system."""
    if isinstance(error, InvariantBroken):
        return error.code == OF_THE_JOURNAL
    return not isinstance(error, Exception) or isinstance(error, JournalError | OperatorMistake)


def keep_report(folder: Path, name: str, text: str, within_s: float = REPORT_S) -> Path | None:
    """Write a report of a bug and return its path; None if it cannot be written.

    Raises TimeoutError if the disk hangs; the report may appear later.
    """
    now = SystemClock().now()
    path = folder / f"{name}-{now:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.txt"
    head = f"vnbot {__version__} · python {platform.python_version()} · {sys.platform}\n\n"
    kept = list[Path]()

    def write() -> None:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(head + "\n".join(visible(line, LINE_MAX) for line in text.splitlines()))
            kept.append(path)

    try:
        written = begin(write)
    except OSError:  # no thread can be created
        return None
    if not written.wait(within_s):
        raise TimeoutError(f"{folder} does not answer")
    return kept[0] if kept else None


class Trouble:
    """What keeps the bot from its work at this moment, and since when: `bot status` shows it first.

    It is kept only in memory, as it may be the journal itself that cannot be written.
    """

    def __init__(self, now: Callable[[], datetime], show: Callable[[str], None]) -> None:
        self._now = now
        self._show = show
        self.text = ""
        """Empty if nothing is wrong."""
        self.since: datetime | None = None

    def begin(self, text: str) -> None:
        """Say what is wrong; it may be repeated, and in other words, until it is over."""
        self.since = self.since or self._now()
        self.text = text
        self._show(text)

    def end(self, text: str) -> None:
        """It is over, in words."""
        self.text, self.since = "", None
        self._show(text)
