"""The brake: the last check before an order is sent, which stops it when nothing else can.

    bot halt · a file `HALT` in the state directory · SIGUSR1   ─►   the brake is on   ─►   halted

A halt has to work even if the journal hangs, the engine has not started, or a strategy keeps the
loop busy. So the brake needs none of them: one bit in memory and one file, checked just before an
order's first byte. Orders already decided are not sent either. The engine learns of it a moment
later, journals the halt and cancels; the file keeps the halt across a kill.

Anything named `HALT` counts, in upper or lower case, whatever it is or contains; its text, if any,
is the reason. Removing the file does not end the halt. A person resumes, with a reason, and that
removes it.

While a halt sells, a file `FLATTEN` beside it allows the sales and names the `HALT` it belongs to.
Only the bot creates it; anything that halts removes it first, from outside too, and a `HALT` that
is touched or rewritten is a new halt. So a plain halt stops the selling even if the bot hangs or is
dead.
"""

import asyncio
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from bot.clock import monotonic_s
from bot.config.private_files import sync_names
from bot.domain.visible import visible
from bot.journal.writing.aside import begin
from bot.runtime.early_signal import EarlySignal

FLAG: Final = "HALT"
"""The file's name, in the state directory."""
SALES: Final = "FLATTEN"
"""Name of the file that allows the sales of a halt."""
HALTED: Final = "HALTED"
"""Prefix of the reason for an order not sent because of a halt."""
BY_FILE: Final = "operator"
BY_SIGNAL: Final = "signal"
SIGUSR1: Final = "SIGUSR1"
LOOK_EVERY_S: Final = 0.25
DISK_S: Final = 1.5
"""How long the disk may take to store or end a halt before a person is told."""
_NO_DISK: Final = f"the disk did not answer within {DISK_S:g} s"
OVERTAKEN: Final = "another halt came meanwhile"
REASON_MAX: Final = 200
"""Characters of a reason."""
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

T = TypeVar("T")
Marks = frozenset[tuple[str, int, int]]
"""Files by name, inode and time of last change: another one is another halt."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """Why the brake is on, and who put it on."""

    reason: str
    by: str


def raise_flag(state_dir: Path, reason: str) -> str:
    """Create the private file, synced to disk; return why that failed, or an empty text. An
    existing one stays unchanged, but no longer allows sales. Blocks for as long as the disk takes.
    """
    path, descriptor = state_dir / FLAG, None
    why = _remove_sales(state_dir)
    try:
        with suppress(FileExistsError):
            descriptor = os.open(path, _CREATE, 0o600)
    except OSError as error:
        return f"{path} can't be made: {error.strerror}"
    try:
        if descriptor is not None:
            with suppress(OSError):  # on a full disk it is empty, and counts all the same
                os.write(descriptor, f"{visible(reason, REASON_MAX)}\n".encode())
            os.fsync(descriptor)
        sync_names(state_dir)
    except OSError as error:
        return why or f"{path} may not survive a power cut: {error.strerror}"
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return why


def within(seconds: float, raising: Callable[[], str], state_dir: Path) -> str:
    """Raise the flag, but wait only so long for a disk that hangs: the bot itself still has to be
    asked. Return why it failed, or an empty text.
    """
    found = [f"{state_dir / FLAG} is not on its disk after {seconds:g} s; the bot is asked to halt"]
    try:
        begin(lambda: found.append(raising())).wait(seconds)
    except OSError:  # no thread available: a disk that hangs as well is the smaller danger
        return raising()
    return found[-1]


def keep_early(state_dir: Path) -> bool:
    """Keep a halt by a signal that no brake has heard; return whether it is kept for certain."""
    return not within(DISK_S, partial(raise_flag, state_dir, SIGUSR1), state_dir)


def stop_sales(state_dir: Path) -> str:
    """Allow no more sales of a halt; return why that failed, or an empty text. Blocks for as long
    as the disk takes.
    """
    if why := _remove_sales(state_dir):
        return why
    try:
        sync_names(state_dir)
    except FileNotFoundError:
        return ""  # without its folder no file comes back
    except OSError as error:
        return f"{state_dir / SALES} may be back after a power cut: {error.strerror}"
    return ""


def _remove_sales(state_dir: Path) -> str:
    try:
        (state_dir / SALES).unlink(missing_ok=True)
    except OSError as error:
        return f"{state_dir / SALES} can't be removed, and the bot may sell: {error.strerror}"
    return ""


def flags_in(state_dir: Path) -> list[Path]:
    """Return the entries named `HALT`, in any case. Raises OSError, but not if the folder is
    missing.
    """
    try:
        # Called before every order: a Path for each file there would take most of the time.
        names = os.listdir(state_dir)  # noqa: PTH208
    except FileNotFoundError:
        return []
    return sorted([state_dir / name for name in names if name.upper() == FLAG])


def lower_flag(state_dir: Path) -> str:
    """Remove the file; return why that failed, or an empty text."""
    path = state_dir
    try:
        for path in flags_in(state_dir):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        return f"{path} can't be removed: {error.strerror}. Remove it by hand, then resume again"
    return stop_sales(state_dir)


def is_raised(state_dir: Path) -> bool:
    """Return whether the file exists; True also if that cannot be seen."""
    return reason_of_flag(state_dir) is not None


def is_in_place(state_dir: Path) -> bool:
    """Return whether the file exists for certain; False also if that cannot be seen."""
    try:
        return bool(flags_in(state_dir))
    except OSError:
        return False


def reason_of_flag(state_dir: Path) -> str | None:
    """Return the file's text, or a description of it; None without one.

    If it cannot even be looked at, it counts as present: a delayed order costs less than one too
    many.
    """
    try:
        found = flags_in(state_dir)
        kind = found[0].lstat().st_mode if found else 0
    except FileNotFoundError:  # removed between two looks
        return None
    except OSError as error:
        return f"{state_dir} can't be looked at: {error.strerror}"
    if not found:
        return None
    name, text = found[0].name, ""
    if stat.S_ISREG(kind):
        try:
            with os.fdopen(os.open(found[0], _READ), "rb") as file:
                text = file.read(4 * REASON_MAX).decode(errors="replace")
        except OSError as error:
            return f"the file {name}, which can't be read: {error.strerror}"
    said = visible(" ".join(text.split()), REASON_MAX)
    if said and name != FLAG:
        return f"{said} (the file {name})"
    return said or f"the file {name}"


def _marks_of(state_dir: Path) -> Marks:
    """Return which `HALT` entries exist now; empty if that cannot be seen."""
    with suppress(OSError):
        looks = [(path.name, path.lstat()) for path in flags_in(state_dir)]
        return frozenset((name, one.st_ino, one.st_mtime_ns) for name, one in looks)
    return frozenset()


def _marked(marks: Marks) -> str:
    return "".join(f"{name} {number} {changed}\n" for name, number, changed in sorted(marks))


def _sales_in(state_dir: Path) -> str | None:
    """Return the halt that may sell, as the bot has noted it; None if none may."""
    with suppress(OSError, ValueError):
        return (state_dir / SALES).read_text("ascii")
    return None


class Brake:
    """The brake of one run. `on_pulled` is called for each new halt from outside: the first one,
    and each that ends the sales of an earlier one.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._pulled: Pulled | None = None
        self._kept: threading.Event | None = None
        self._is_ending = False
        self._seen: Marks = frozenset()
        self._sells = self._is_noted(_marks_of(state_dir))
        self.on_pulled: Callable[[Pulled], object] = lambda _: None

    @property
    def is_on(self) -> bool:
        """Whether it is on; any thread may ask."""
        return self._pulled is not None or is_raised(self._state_dir)

    @property
    def sells(self) -> bool:
        """Whether the sales requested with the halt may pass it."""
        return self._sells and os.path.lexists(self._state_dir / SALES)

    def _is_noted(self, marks: Marks) -> bool:
        """Return whether this very halt is the one that may sell."""
        noted = _sales_in(self._state_dir)
        return bool(noted) and noted == _marked(marks)

    def objection(self) -> str | None:
        """Return why no order may be sent; None if it may. Takes microseconds, and is never out of
        date for longer.
        """
        pulled = self.look()
        return f"{HALTED}: {pulled.reason}" if pulled is not None else None

    def look(self) -> Pulled | None:
        """Check memory and file whether the brake is on; report it if that is new."""
        if self._pulled is None:
            if (reason := reason_of_flag(self._state_dir)) is not None:
                self._seen = _marks_of(self._state_dir)
                self._sells = self._sells and self._is_noted(self._seen)
                self._pulled = Pulled(reason, BY_FILE)
                self._tell()
        elif self._sells and (self._kept is None or self._kept.is_set()):
            marks = _marks_of(self._state_dir)
            if marks - self._seen or not self.sells:
                self._seen, reason = marks, reason_of_flag(self._state_dir)
                self._pulled = self.pull(reason or f"the file {SALES} was removed", BY_FILE)
                self._tell()
        return self._pulled

    def before(
        self, gate: Callable[[T], str | None], spares: Callable[[T], bool] = lambda _: False
    ) -> Callable[[T], str | None]:
        """Return the same gate with the brake before it, except for what it `spares`: the sales
        that a person has requested with the halt itself.
        """

        def ask(asked: T) -> str | None:
            why = self.objection()
            return why if why and not (spares(asked) and self.sells) else gate(asked)

        return ask

    def pull(self, reason: str, by: str) -> Pulled:
        """Put it on, in memory at once, and allow no sales; a separate thread, which no disk can
        delay us by, writes the file.
        """
        self._pulled, self._sells = Pulled(reason, by), False
        if self._kept is None or self._kept.is_set():
            try:
                self._kept = begin(partial(self._keep, reason))
            except OSError:  # no thread available: a disk that hangs as well is the smaller danger
                self._keep(reason)
        return self._pulled

    def _keep(self, reason: str) -> None:
        raise_flag(self._state_dir, reason)
        self._seen = _marks_of(self._state_dir)

    def allow_sales(self, halt: Pulled) -> str:
        """Allow the sales that a person has requested with a halt; return why that failed, or an
        empty text. Blocks for as long as the disk takes.
        """
        if not self._is_kept():
            return _NO_DISK
        try:
            with os.fdopen(os.open(self._state_dir / SALES, _CREATE, 0o600), "w") as file:
                file.write(_marked(self._seen))
                file.flush()
                os.fsync(file.fileno())
            sync_names(self._state_dir)
        except OSError as error:
            _remove_sales(self._state_dir)
            return f"{self._state_dir / SALES} can't be made: {error.strerror}"
        if self._pulled is not halt:
            return stop_sales(self._state_dir) or OVERTAKEN
        self._sells = True
        return ""

    def release(self) -> str:
        """Take it off; return why that failed, or an empty text: on failure it is still on. Blocks
        for as long as the disk takes; a caller that has given up by then was told that it stays on,
        and it does.
        """
        self._is_ending = True
        try:
            return self._end()
        finally:
            self._is_ending = False

    def _end(self) -> str:
        began, pulled = monotonic_s(), self._pulled
        if not self._is_kept():
            return _NO_DISK
        if why := lower_flag(self._state_dir):
            return why
        is_late = monotonic_s() - began > DISK_S
        if is_late or self._pulled is not pulled:
            raise_flag(self._state_dir, pulled.reason if pulled is not None else "")
            return _NO_DISK if is_late else OVERTAKEN
        self._pulled, self._sells = None, False
        return ""

    def _is_kept(self) -> bool:
        """Wait, within limits, until the file of the last halt exists."""
        return self._kept is None or self._kept.wait(DISK_S)

    def _tell(self) -> None:
        if self._pulled is not None:
            self.on_pulled(self._pulled)

    async def watch(self) -> None:
        """Check for the file, for ever."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Put it on at SIGUSR1, at once: between two steps of whatever runs, even a hook that never
        returns. (An asyncio handler would wait for the loop.) One that came earlier counts as well.
        """
        loop = asyncio.get_running_loop()

        def handle(_number: int, _frame: FrameType | None) -> None:
            if self._pulled is not None and not self._sells and not self._is_ending:
                return
            self.pull(SIGUSR1, BY_SIGNAL)
            loop.call_soon_threadsafe(self._tell)

        before = signal.signal(signal.SIGUSR1, handle)
        if isinstance(before, EarlySignal) and before.take():
            signal.raise_signal(signal.SIGUSR1)
        try:
            yield
        finally:
            signal.signal(signal.SIGUSR1, before)
