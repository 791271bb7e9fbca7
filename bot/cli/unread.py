"""Output that nobody reads: a terminal stopped by Ctrl-S or by marking text, a pager that waits.

A write there blocks until somebody reads on, and the bot with it: no poll, no cancel, no halt. So a
line that would block is left out and counted; the journal has everything.

Or its reader is gone: a pager that was quit, a `tee` that Ctrl-C has ended too.
"""

import fcntl
import os
import select
import termios
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, TextIO

STDOUT, STDERR = 1, 2
PATIENCE_S: Final = 1.0
"""How long the first line waits: a reader may just be slow."""
_INT: Final = 4


class Unread:
    """What is left out of the output. `count`: lines since the last one that was read."""

    def __init__(self) -> None:
        self.count = 0

    def has_room(self, streams: Iterable[int], size: int, lines: int) -> bool:
        """Return whether so many bytes can be written without blocking; else count the lines."""
        patience_s = 0.0 if self.count else PATIENCE_S
        if all(_has_room(each, size, patience_s) for each in streams):
            return True
        self.count += lines
        return False


def leave_broken_pipes(outputs: Iterable[TextIO]) -> None:
    """Discard what goes to a pipe without a reader from here on, and what waits to go there."""
    for output in outputs:
        with suppress(OSError, ValueError):  # no file, or closed by a plug-in
            looking = select.poll()
            looking.register(output.fileno(), 0)
            if looking.poll(0):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, output.fileno())
                os.close(nowhere)


def _has_room(stream: int, size: int, patience_s: float) -> bool:
    waiting = select.poll()
    waiting.register(stream, select.POLLOUT)
    if not waiting.poll(patience_s * 1_000):
        return False
    if size <= select.PIPE_BUF:
        return True
    try:
        capacity = fcntl.fcntl(stream, fcntl.F_GETPIPE_SZ)
        kept = int.from_bytes(fcntl.ioctl(stream, termios.FIONREAD, bytes(_INT)), "little")
    except OSError:
        return True  # no pipe: a terminal or a file takes what it is given
    # A pipe counts in pages, and each of its writes may leave a part of one unused.
    return kept == 0 or 2 * kept + size <= capacity
