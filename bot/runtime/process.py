"""Protects the process's memory, and ends a process that does not exit by itself.

It holds the broker's secret and the day's token. So no core dump is written, and on Linux no other
process of the same user may read its memory or attach to it (root may).

A run ends when its journal is closed. Something that a plug-in started may continue: a thread that
Python waits for, a task that resists cancellation. Nothing of ours is open then, so it is
abandoned. A hanging disk may keep a run from closing its files: everything that matters is written
by then, or never will be, and the next start continues as after a kill.
"""

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from bot.journal.writing.aside import begin

_PR_SET_DUMPABLE: Final = 4
LEAVE_S: Final = 2.0
"""How long a finished process may take to exit."""
LET_GO_S: Final = 8.0
"""How long a finished run may take to close what it has open: more than all its parts wait for a
hanging disk. Together with what a stop waits for before, it is less than a service manager's
patience.
"""
WORDS_S: Final = 1.0
"""How long the last output may take: it may go to the disk that hangs."""


def forbid_dumps() -> None:
    """Forbid dumps and other readers, once, at the start of a process.

    If the system refuses that, the bot runs without it.
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Return the signals that a process may handle. Started with `nohup`, it is meant to outlive
    its terminal: then SIGHUP stays ignored.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [each for each in numbers if not (is_ignored and each is signal.SIGHUP)]


def leave_within(
    seconds: float, code: int, called_off: threading.Event, tell: Callable[[str], object]
) -> None:
    """End the process with `code` after this time, unless cancelled before."""

    def wait() -> None:
        if called_off.wait(seconds):
            return
        left = [each.name for each in threading.enumerate() if not each.daemon]
        threads = ", ".join(name for name in left if name != threading.main_thread().name)
        what = f"threads that do not end ({threads})" if threads else "tasks that do not end"
        text = f"ended without waiting for {what}: a plug-in of yours may have begun them"

        def say() -> None:
            with suppress(OSError, ValueError):  # closed, or nobody reads
                tell(text)
                sys.stdout.flush()

        with suppress(OSError):
            begin(say).wait(WORDS_S)
        os._exit(code)

    with suppress(OSError):
        begin(wait)
