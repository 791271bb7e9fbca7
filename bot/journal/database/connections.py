"""Takes the writer's connection to either kind of database.

A file of SQLite's that is removed or replaced continues to exist for the process that has it open.
The bot would keep writing what no command and no later start could read. So the files are checked
before each transaction. The contents of a lost one are copied beside its place while they can still
be read. A deleted log (`-wal`, `-shm`) does no harm: its contents go into the journal's file, and
the next connection creates a new one.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from bot.journal.database.engines import BEGIN_WRITING
from bot.journal.database.statements import Statement, Step, Values
from bot.journal.database.writer_connection import WriterConnection

LOGS: Final = ("-wal", "-shm")
RESCUED: Final = "{0.stem}.rescued-{1}{0.suffix}"
"""The name of such a copy, from the journal's path and a number."""
RESCUED_MAX: Final = 20
"""With this many copies no more are made."""

Identity = tuple[int, int]


def connect(engine: sa.Engine) -> WriterConnection:
    """Take the writer's connection."""
    if engine.dialect.name == "sqlite":
        return SqliteConnection(engine)
    from bot.journal.database.postgres_connection import PostgresConnection  # not needed on SQLite

    return PostgresConnection(engine)


class SqliteConnection(WriterConnection):
    """SQLite: one statement after the other.

    A cursor keeps its last statement, and with that the files of a connection that was closed. If
    its log is a lost one and it ends after all others, SQLite writes that log's old pages into the
    journal. So the cursor is closed before the connection can be.
    """

    PARAMSTYLE = "qmark"

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._raw: sqlite3.Connection = self._pooled.driver_connection  # type: ignore[assignment]
        self._cursor = self._raw.cursor()

    def begin(self, question: Statement) -> Sequence[Values]:
        files: OpenFiles | None = self._pooled.info.get("files")
        with self._errors:
            self._cursor.close()
            if files is not None:
                files.require_in_place()
            self._cursor = self._raw.cursor()
            self._cursor.execute(BEGIN_WRITING)
        found = self.rows(question, {})
        if files is None:  # the first transaction creates the log
            self._pooled.info["files"] = OpenFiles(self._raw)
        return found

    def begin_at_last(self) -> None:
        pass  # nothing is: there is no round trip to save

    def release(self) -> None:
        self._cursor.close()
        super().release()

    def _commit(self) -> None:
        self._raw.commit()

    def _take_back(self) -> None:
        self._cursor.close()
        self._raw.rollback()

    def _delete(self, table: str, text: str) -> None:
        name = f"{table}_no_delete"
        asked = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"
        [[trigger]] = self._cursor.execute(asked, (name,)).fetchall()
        for command in (f"DROP TRIGGER {name}", text, trigger):
            self._cursor.execute(command)

    def _ask(self, text: str, values: Values) -> Sequence[Values]:
        return self._cursor.execute(text, values).fetchall()

    def _run(self, steps: Sequence[Step]) -> list[int]:
        counts = []
        for step in steps:
            self._cursor.executemany(step.statement.text, step.times)
            counts.append(self._cursor.rowcount)
        return counts


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
