"""Writes the heads of a journal to a file while a bot runs: one line a minute, and one at the end.

It has a thread of its own, so that neither a commit nor the end of a run waits for this file's
disk. The first thing that goes wrong with the file is reported, once; the bot trades on.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Final

from bot.clock import Clock
from bot.journal.heads import FILE, LINE_START, OLDER, Heads, KeptHeads, label_of

PERIOD_S: Final = 60.0
"""At most one line in this time, but for the last."""
CLOSE_WAIT_S: Final = 2.0
"""How long the end of a run waits for the last line."""
FILE_BYTES_MAX: Final = 1_048_576
"""A file that would grow beyond is moved aside, in the place of the one before: about 600 lines
each. Older lines may go: the newest covers all that was written before it.
"""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HeadsKeeper:
    """Keeps the heads that it is shown. All methods return at once, but `close`."""

    def __init__(self, folder: Path, url: str, clock: Clock, report: Callable[[str], None]) -> None:
        self._path = folder / FILE
        self._journal = label_of(url)
        self._clock = clock
        self._report = report
        self._has_reported = False
        self._news = threading.Condition()
        self._newest: tuple[int, int | None, Heads] | None = None
        self._is_new = False
        self._is_closing = False
        self._is_last = False
        self._thread = threading.Thread(target=self._keep, name="heads", daemon=True)

    def see(self, run: int, epoch: int | None, heads: Heads) -> None:
        """Remember where the chains end after a commit."""
        with self._news:
            self._newest = (run, epoch, heads)
            if not self._is_new:
                self._is_new = True
                self._news.notify()
        if self._thread.ident is None:
            self._thread.start()

    def close(self, *, is_last: bool) -> None:
        """Write what is not written yet. `is_last`: what was seen last is the end of the run."""
        with self._news:
            self._is_closing, self._is_last = True, is_last
            self._news.notify()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_WAIT_S)

    # --------------------------------------------------------------------------- on the thread

    def _keep(self) -> None:
        is_closing = False
        while not is_closing:
            with self._news:
                self._news.wait_for(lambda: self._is_new or self._is_closing)
                is_closing, newest, is_last = self._is_closing, self._newest, self._is_last
                is_wanted, self._is_new = self._is_new or is_last, False
            if newest is not None and is_wanted:
                self._write(*newest, is_last=is_last)
            with self._news:
                self._news.wait_for(lambda: self._is_closing, PERIOD_S)

    def _write(self, run: int, epoch: int | None, heads: Heads, *, is_last: bool) -> None:
        kept = KeptHeads(self._clock.now(), self._journal, run, epoch, heads, is_last=is_last)
        try:
            append_line(self._path, kept.line)
        except OSError as error:
            if not self._has_reported:
                self._has_reported = True
                self._report(
                    f"the heads of the journal can't be kept in {self._path} "
                    f"({error.strerror or error}): bot journal verify has less to compare with. "
                    "Trading goes on"
                )


def append_line(path: Path, line: str) -> None:
    """Add a line that survives a power cut. Raises OSError, also for a file that is not ours."""
    data = f"{line}\n".encode()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened(path, _FLAGS) as file:
        found = os.fstat(file)
        begins = os.pread(file, len(LINE_START), 0) if stat.S_ISREG(found.st_mode) else b"?"
        if begins and begins != LINE_START:
            raise OSError("it holds something else; move that away")
        size = found.st_size
        if size + len(data) <= FILE_BYTES_MAX:
            if size and os.pread(file, 1, size - 1) != b"\n":
                data = b"\n" + data  # a power cut or a full disk cut the line before off
            _write_all(file, data)
            if size:
                return
        else:
            path.replace(path.with_name(OLDER))
            with _opened(path, _FLAGS) as new:
                _write_all(new, data)
    with _opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as folder:
        os.fsync(folder)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(file: int, data: bytes) -> None:
    if os.write(file, data) < len(data):
        raise OSError(ENOSPC, os.strerror(ENOSPC))
    os.fsync(file)
