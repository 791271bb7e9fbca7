"""Tells when the log of the process is not written: its disk hangs, is full, or refuses.

The log itself waits for nobody and can't say so. The alert goes to the screen, the journal and the
channels of notices; it ends when a line was written again.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from bot.domain.entry import Note, Numbers
from bot.domain.message import Noted
from bot.engine.watched import Standing
from bot.runtime.activity import Post
from bot.runtime.health.process_log import ProcessLog

LOOK_S: Final = 1.0
SILENT_MAX_S: Final = 10.0
"""So long a line may be on its way to the file, or the lines after one that was refused."""


class LogWatch:
    """Looks at a log again and again."""

    def __init__(self, log: ProcessLog, silent_max_s: float = SILENT_MAX_S) -> None:
        self._log = log
        self._silent_max_s = silent_max_s
        self._post: Post | None = None
        self.alerts: tuple[Standing, ...] = ()

    def follow(self, post: Post, now: Callable[[], datetime]) -> None:
        """Tell it there from now on; `now` is market time."""
        self._post, self._now = post, now

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Look once; before there is somebody to tell it to, it waits."""
        is_silent = self._log.silent_s() > self._silent_max_s
        if self._post is None or is_silent == bool(self.alerts):
            return
        at, file, detail = self._now(), str(self._log.file), self._log.refused or "no answer"
        if is_silent:
            text = (
                f"the log {file} can't be written ({detail}): lines will be missing in it. Trading "
                "goes on, and the journal has what happens. Look at the disk"
            )
            facts: Numbers = {"file": file, "detail": detail}
            self.alerts = (Standing("LOG_UNWRITTEN", text, facts),)
            self._post(Noted(at, Note(at, "ALERT", text, {"alert": "LOG_UNWRITTEN", **facts})))
        else:
            self.alerts = ()
            self._post(Noted(at, Note(at, "RESUME", f"the log {file} is written again", {})))
