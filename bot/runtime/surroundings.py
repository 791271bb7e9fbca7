"""What the whole process shares, kept as the bot needs it while strategies' hooks are called.

A hook may change what every part of the process relies on: the handlers of signals, the standard
streams, the current folder, functions of the standard library. Those listed here are compared after
each hook and put back, and the change counts as a fault of its strategy. The list is no wall: a
plug-in is trusted code, and what it does beside the list, or from a thread of its own, stays.

A hook that forks would have a copy of the bot, with its connections, its journal and its token but
without its threads. So the copy ends at once. Other programs may be started; they are no copies.
"""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

from bot.clock import READ_BY

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGVTALRM")
)
FUNCTIONS: Final[tuple[tuple[ModuleType, tuple[str, ...]], ...]] = (
    READ_BY,
    (sys, ("stdin", "stdout", "stderr")),
    (socket, ("socket", "socketpair", "getaddrinfo", "create_connection")),
)
"""By module, what the bot and its libraries look up there at each use."""
_STREAMS: Final = (0, 1, 2)
_ABOVE: Final = 100
"""Copies of the streams have larger descriptors than this."""


class _Forks:
    """Forks of this process. There is one: Python does not forget what it is to call there."""

    def __init__(self) -> None:
        self.count = 0
        self.is_in_hook = False
        os.register_at_fork(after_in_parent=self._note, after_in_child=self._end_copy)

    def _note(self) -> None:
        self.count += 1

    def _end_copy(self) -> None:
        if self.is_in_hook:
            os._exit(os.EX_SOFTWARE)  # not as if it had done what it was forked for


_FORKS: Final = _Forks()


class Surroundings:
    """As they are when a hook is entered, in the main thread; the standard streams as they are when
    it is made, of which it keeps copies that `close` lets go of.
    """

    def __init__(self) -> None:
        self._streams = [(number, _identity(number), _copy(number)) for number in _STREAMS]
        self._wakeup = -1
        self._take()

    def enter(self) -> None:
        """A hook is about to be called: what changes from here on is its doing."""
        self._take()
        _FORKS.is_in_hook = True

    def _take(self) -> None:
        self._forks = _FORKS.count
        self._handlers = [(number, signal.getsignal(number)) for number in SIGNALS]
        self._find_wakeup()
        self._functions = [
            (module.__name__, vars(module), name, vars(module)[name])
            for module, names in FUNCTIONS
            for name in names
        ]
        self._folder = _folder()

    def _find_wakeup(self) -> None:
        """Python tells the descriptor only in exchange for another: put in what it was the last
        time, as a signal that comes while there is none is never heard by the loop.
        """
        found = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        if found != self._wakeup:
            self._wakeup = found
            signal.set_wakeup_fd(found, warn_on_full_buffer=False)

    def leave(self) -> None:
        """No hook is being called any more."""
        _FORKS.is_in_hook = False

    def put_back(self) -> str:
        """The hook is over: put back what it has changed, and return that in words, empty if it has
        changed nothing.
        """
        self.leave()
        done = "forked the bot's process" if _FORKS.count > self._forks else ""
        if changed := [*self._changed()]:
            text = f"changed {', '.join(changed)}, of the whole process, which was put back"
            done = f"{done} and {text}" if done else text
        return done

    def _changed(self) -> Iterator[str]:
        for number, handler in self._handlers:
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
                yield f"the handler of {number.name}"
        if signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False) != self._wakeup:
            yield "the descriptor that signals wake"
        for module, values, name, value in self._functions:
            if values.get(name) is not value:
                values[name] = value
                yield f"{module}.{name}"
        for number, identity, copy in self._streams:
            if copy is not None and _identity(number) != identity:
                os.dup2(copy, number)
                yield f"the stream {number}"
        if self._folder and _folder() != self._folder:
            with suppress(OSError):
                os.chdir(self._folder)
            yield "the current folder"

    def close(self) -> None:
        """Close the copies of the streams."""
        for _, _, copy in self._streams:
            if copy is not None:
                os.close(copy)


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return which file a descriptor is open on; None: on none."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _copy(descriptor: int) -> int | None:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    except OSError:
        return None


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""
