"""Takes the writer's connection to either kind of database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from bot.journal.database.engines import BEGIN_WRITING
from bot.journal.database.open_files import OpenFiles
from bot.journal.database.statements import Statement, Step, Values
from bot.journal.database.writer_connection import WriterConnection

if TYPE_CHECKING:
    import sqlite3


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
