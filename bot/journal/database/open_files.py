"""Checks that the files of a SQLite journal's writer are still where it opened them.

A file that is removed or replaced continues to exist for the process that has it open. The bot
would keep writing what no command and no later start could read. So the files are checked before
each transaction. The contents of a lost one are copied beside its place while they can still be
read.

A deleted log (`-wal`, `-shm`) does no harm: its contents go into the journal's file, and the next
connection creates a new one.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

LOGS: Final = ("-wal", "-shm")
RESCUED: Final = "{0.stem}.rescued-{1}{0.suffix}"
"""The name of such a copy, from the journal's path and a number."""
RESCUED_MAX: Final = 20
"""With this many copies no more are made."""

Identity = tuple[int, int]


class OpenFiles:
    """The files a connection has open; created in its first transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        [(_, _, name)] = connection.execute("PRAGMA database_list").fetchall()
        self._connection = connection
        self._path = Path(name)
        self._names = (name, *(name + end for end in LOGS))
        self._file = _identity(name)
        self._logs = self._find_logs()
        self._told = ""
        """What was said about the missing file."""

    def require_in_place(self) -> None:
        """Raise what the driver would if it noticed. A connection that lost its log is closed."""
        found = _identity(self._names[0])
        if found != self._file:
            self._told = self._told or self._save(found)
            raise sqlite3.OperationalError(self._told)
        self._told = ""
        if self._find_logs() != self._logs:
            if self._empty_log():  # else a reader is in the way, for a moment
                self._connection.close()
            raise sqlite3.OperationalError("its log was removed while the bot had it open")

    def _empty_log(self) -> bool:
        """Write what the lost log holds into the file; False while another connection needs it.

        It must be one that nobody reads from any more: the next connection would go on in a new
        log where the old one's index ends, and such a log is no log after a crash.
        """
        [(wait_ms,)] = self._connection.execute("PRAGMA busy_timeout")
        self._connection.execute("PRAGMA busy_timeout=0")
        try:
            # Pages and done are -1 where another connection is writing them back just now.
            [(is_busy, pages, done)] = self._connection.execute("PRAGMA wal_checkpoint(RESTART)")
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={wait_ms:d}")
        return not is_busy and pages == done

    def _find_logs(self) -> tuple[Identity | None, ...]:
        return tuple(map(_identity, self._names[1:]))

    def _save(self, found: Identity | None) -> str:
        """Copy the contents of the lost file; return what happened, and what to do about it."""
        done = "removed" if found is None else "replaced"
        text = f"it was {done} while the bot had it open: put it back"
        try:
            copy = self._copy()
        except (OSError, sqlite3.Error):
            return text
        logs = "move any -wal and -shm that are left away"
        return f"{text}, or stop the bot, {logs}, put {copy} in its place and start it again"

    def _copy(self) -> Path:
        copy = self._new_file()
        try:
            with closing(sqlite3.connect(copy)) as target:
                self._connection.backup(target)
        except sqlite3.Error:
            copy.unlink(missing_ok=True)  # a full disk must not leave half a journal
            raise
        return copy

    def _new_file(self) -> Path:
        for number in range(1, RESCUED_MAX + 1):
            copy = self._path.with_name(RESCUED.format(self._path, number))
            with suppress(FileExistsError):
                os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return copy
        raise FileExistsError(f"{self._path} has {RESCUED_MAX} copies")


def _identity(name: str) -> Identity | None:
    try:
        # Asked before every transaction: a Path for each would take most of the time.
        found = os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino
