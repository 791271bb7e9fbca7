"""Looks how much room the disk of the state directory has; tells the engine while it is little."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.domain.operations import DiskSeen
from bot.engine.health import LOW_BYTES
from bot.journal.thread import in_time
from bot.runtime.activity import Post

LOOK_S: Final = 10.0
ANSWER_S: Final = 5.0
"""How long a disk may take to say so: one that hangs is found out by the journal's own watch."""


class DiskWatch:
    """Posts `DiskSeen` at each look while there is little room, and once when there is more."""

    def __init__(
        self,
        folder: Path,
        post: Post,
        now: Callable[[], datetime],
        free_bytes: Callable[[Path], int] | None = None,
    ) -> None:
        self._folder = folder
        self._post = post
        self._now = now
        self._free_bytes = free_bytes or free_on
        self._was_low = False

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once. A disk that gives no answer says nothing."""
        with suppress(TimeoutError, OSError):
            free = await in_time(lambda: self._free_bytes(self._folder), ANSWER_S)
            is_low = free < LOW_BYTES
            if is_low or self._was_low:
                self._post(DiskSeen(self._now(), free))
            self._was_low = is_low


def free_on(folder: Path) -> int:
    """Return the bytes that somebody without privileges may still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
