"""Keeps the memory of this process to itself: it holds the broker's secret and the day's token.

No core is written when it dies, and on Linux no other process of the same user may read its memory
or attach to it (root may). What is refused is left as it is: the bot runs without it.
"""

import ctypes
import resource
import sys
from contextlib import suppress
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def forbid_dumps() -> None:
    """Forbid both, once, at the start of a process."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
