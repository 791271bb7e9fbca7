"""How a process keeps its memory to itself, and how it ends when it is over and does not go.

It holds the broker's secret and the day's token. So no core is written when it dies, and on Linux
no other process of the same user may read its memory or attach to it (root may).

A run ends when its journal is closed. What a plug-in began may go on: a thread that Python waits
for, a task that will not be cancelled. Nothing of ours is open then, so it is left where it is.
A disk that hangs may keep a run from closing its files: all that matters is written by then, or
never will be, and the next start goes on as after a kill.
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

from bot.journal.aside import begin

_PR_SET_DUMPABLE: Final = 4
LEAVE_S: Final = 2.0
"""How long what is over may take to go."""
LET_GO_S: Final = 8.0
"""How long a run that is over may take to close what it has open: more than all its parts wait for
a disk that hangs. With what a stop waits for before, it is less than a service manager's patience.
"""
WORDS_S: Final = 1.0
"""How long the last words may take: what hangs may be the disk that they go to."""


def forbid_dumps() -> None:
    """Forbid dumps and other readers, once, at the start of a process.

    Where the system refuses that, the bot runs without.
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Return the signals that a process may listen for. Whoever has it begun by `nohup` wants it to
    outlive its terminal: then SIGHUP stays ignored.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [each for each in numbers if not (is_ignored and each is signal.SIGHUP)]


def leave_within(
    seconds: float, code: int, called_off: threading.Event, tell: Callable[[str], object]
) -> None:
    """End the process with `code` after so long, unless that is called off meanwhile."""

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
