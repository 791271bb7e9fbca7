"""The watched file: another program writes a code or a token there, and the bot takes it.

The file must be private (0600), regular, small and from today: yesterday's token, left there while
the bot was down, is never sent. It is read once and deleted, whatever it held. A file still being
written is waited for: only one that is unchanged between two checks, and not empty, is read.
"""

import asyncio
import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.journal.writing.thread import in_time
from bot.protocol.secret import Secret
from bot.runtime.activity import Tasks
from bot.runtime.second_factor import SecondFactor

NAME: Final = "otp"
"""Name in the state directory."""
LOOK_S: Final = 1.0
ANSWER_S: Final = 5.0
BYTES_MAX: Final = 4_200
"""A token has at most 4,096 characters."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
OBJECTIONS: Final = {
    "LINK": "it is a link",
    "NOT_A_FILE": "it is no plain file",
    "NOT_OURS": "it belongs to another user",
    "READABLE": "others may read or write it: chmod 600, and ask for a fresh code",
    "TOO_LARGE": "it is too large to be a code or a token",
    "OLD": "it is of an earlier day",
    "UNREADABLE": "it cannot be read",
    "NOT_DELETED": "it cannot be deleted",
}
"""Why a file is not used, by the word in the alert."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a check: the file's content, or why it is not used."""

    given: Secret | None = None
    objection: str = ""


class TokenFile:
    """Checks the file. `now` is the machine's own time, like that of its files."""

    def __init__(self, state_dir: Path, now: Callable[[], datetime]) -> None:
        self.path = state_dir / NAME
        self._now = now
        self._seen: tuple[int, int, int] | None = None
        self._refused: tuple[int, int, int] | None = None
        self._found: deque[Found] = deque()

    def look(self) -> Found | None:
        """Return what is there for the first time in its present form; None if nothing is new."""
        try:
            status = os.lstat(self.path)
        except OSError:
            self._seen = self._refused = None
            return None
        form = (status.st_ino, status.st_size, status.st_mtime_ns)
        is_settled, self._seen = form == self._seen, form
        if stat.S_ISREG(status.st_mode) and not status.st_size:
            return None  # a shell makes it before the program behind `>` has written anything
        if not is_settled or form == self._refused:
            return None
        found = self._read(status)
        if found.objection:
            self._refused = form
        return found

    def _read(self, before: os.stat_result) -> Found:
        """Read and delete it. A file that replaces it meanwhile is checked the next time."""
        if stat.S_ISLNK(before.st_mode):
            self._delete(before)
            return Found(objection="LINK")
        if not stat.S_ISREG(before.st_mode):
            return Found(objection="NOT_A_FILE")
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(self.path, flags), "rb") as file:
                status = os.fstat(file.fileno())
                objection = self._objection(status)
                held = b"" if objection else file.read(BYTES_MAX + 1)
        except OSError:
            return Found(objection="UNREADABLE")
        if objection == "NOT_OURS":
            return Found(objection=objection)
        is_deleted = self._delete(status)
        if objection:
            return Found(objection=objection)
        if not is_deleted:
            return Found(objection="NOT_DELETED")
        return Found(Secret(held.decode("utf-8-sig", "replace").strip()))

    def _objection(self, status: os.stat_result) -> str:
        if not stat.S_ISREG(status.st_mode):
            return "NOT_A_FILE"
        if status.st_uid != os.geteuid():
            return "NOT_OURS"
        if stat.S_IMODE(status.st_mode) & _OTHERS or status.st_nlink > 1:
            return "READABLE"
        if status.st_size > BYTES_MAX:
            return "TOO_LARGE"
        written = datetime.fromtimestamp(status.st_mtime, UTC).astimezone(EXCHANGE_TZ).date()
        return "OLD" if written < self._now().astimezone(EXCHANGE_TZ).date() else ""

    def _delete(self, status: os.stat_result) -> bool:
        with suppress(OSError):
            if os.lstat(self.path).st_ino == status.st_ino:
                self.path.unlink()
            return True
        return False

    async def watch(self, second_factor: SecondFactor, tasks: Tasks) -> None:
        """Check repeatedly, for ever, and pass what is found to 2FA."""
        while True:
            with suppress(TimeoutError, OSError):  # no answer, or no thread
                await in_time(self._look, ANSWER_S)
            while self._found:
                async with tasks.part():
                    await self.hand_over(self._found.popleft(), second_factor)
            await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        """Keep what is found: a disk may answer after the wait, and the file is gone then."""
        if (found := self.look()) is not None:
            self._found.append(found)

    async def hand_over(self, found: Found, second_factor: SecondFactor) -> None:
        """Use what was found, or report why not."""
        cause, why = found.objection, OBJECTIONS.get(found.objection, "")
        if found.given is not None:
            reply = await second_factor.give(found.given, f"the file {NAME}")
            cause, why = ("", "") if reply["ok"] else ("REFUSED", str(reply["message"]))
        if cause:
            second_factor.tell_of_file(cause, why, str(self.path))
