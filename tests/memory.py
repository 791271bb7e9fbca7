"""A file system in memory for the tests' files: no test cuts the power, so none needs a disk.

A kill leaves the same on both, and files behave the same. But a disk makes every commit wait.
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
