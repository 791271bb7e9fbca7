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
"""Bytes that must be free for the files of a story, or of a server."""
OF_A_RUN: Final = 2 * 1024 * 1024 * 1024
"""For those of a whole run of the tests: it leaves 1.1 GB, as every bot keeps a spare of 1 MB, its
servers take 0.3 GB, and pytest keeps the last three runs.
"""


def roomy_memory(space_min: int = SPACE_MIN) -> Path | None:
    """The file system in memory, where there is one that serves as a disk would."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return None
    runs_programs = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return MEMORY if runs_programs and shutil.disk_usage(MEMORY).free >= space_min else None
