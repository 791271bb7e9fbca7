"""Work on a thread that nobody has to wait for, whatever holds it up.

A module of its own: a kill switch and every command import it, and none of them the database.
"""

import _thread
import errno
import threading
from collections.abc import Callable


def begin(work: Callable[[], object]) -> threading.Event:
    """Have something done aside, and return what is set when it is over.

    `threading.Thread.start` waits for the first word of its thread, and one that lacks the memory
    to begin never says it: the loop would stand still for good, deaf to a halt. Here it is waited
    for by nobody. Raises OSError where the machine has no thread to give.
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
