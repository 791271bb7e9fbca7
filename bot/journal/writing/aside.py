"""Runs work on a thread that never has to be waited for.

A separate module because the kill switch and every command import it, without the database.
"""

import _thread
import errno
import threading
from collections.abc import Callable


def begin(work: Callable[[], object]) -> threading.Event:
    """Run something on a separate thread, and return the event set when it is over.

    `threading.Thread.start` waits for the new thread's first sign of life, which never comes if it
    lacks the memory to start: the loop would be stuck for good, and with it a halt. Here nothing
    waits for it. Raises OSError if no thread can be created.
    """
    over = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            over.set()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error
    return over
