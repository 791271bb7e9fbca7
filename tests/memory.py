"""A file system in memory for what the tests write: no test cuts the power, so none needs a disk.

What a kill leaves behind is the same on both, and so is all that a program asks of its files. But
a disk is waited for at each commit.
"""

import os
import shutil
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
"""Where most systems have one. In a container it is often small, and nothing may be run from it."""
SPACE_MIN: Final = 512 * 1024 * 1024
"""Bytes that must be free: a run leaves under 100 MB, and pytest keeps the last three runs."""


def roomy_memory() -> Path | None:
    """The file system in memory, where there is one that serves as a disk would."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return None
    runs_programs = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return MEMORY if runs_programs and shutil.disk_usage(MEMORY).free >= SPACE_MIN else None
