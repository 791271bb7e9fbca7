"""The writer's connection: statements compiled once from the tables, run on the driver's cursor.

Changes that are put wait until a query or a `flush`, so that consecutive statements go together: on
SQLite as one `executemany`, on PostgreSQL in one round trip. Each has to touch exactly one row per
set of values.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.visitors import cloned_traverse

from bot.journal.database.encoding import Plain
from bot.journal.database.engines import BEGIN_WRITING
from bot.journal.database.open_files import OpenFiles
from bot.journal.database.statements import (
    Compiled,
    Statement,
    Step,
    Together,
    Values,
    as_one,
    reader_of,
)
from bot.journal.errors import NotOwner, WrittenByAnother

if TYPE_CHECKING:
    import sqlite3

    import psycopg
    from psycopg.pq.abc import PGresult

TOGETHER_MAX: Final = 24
"""How many rows go into one statement of PostgreSQL."""

COMPILED_MAX: Final = 256
"""How many statements stay compiled; one that is built anew each time counts each time."""

PREPARED_MAX: Final = 256
"""How many prepared statements PostgreSQL keeps for the writer."""
_OWNS: Final = """\
SELECT CASE WHEN pg_has_role(relowner, 'USAGE') THEN 1 ELSE 0 END, current_user
FROM pg_class WHERE oid = %s::regclass"""
WHOLE: Final = frozenset({20, 21, 23})
"""PostgreSQL's type numbers of whole numbers; everything else is read as text."""


class WriterConnection(ABC):
    """A connection of the one writer. Raises DBAPIError as SQLAlchemy itself would."""

    def __init__(self, engine: sa.Engine) -> None:
        self._errors = _AsSqlalchemys(engine.dialect)
        with self._errors:
            self._pooled = engine.raw_connection()
        self._wording = _dialect_of(engine)(paramstyle=self.PARAMSTYLE)
        self._compiled: dict[Statement, Compiled] = {}
        self._waiting: list[tuple[Compiled, list[Mapping[str, Plain]]]] = []
        self.is_lost = False
        self.flushed = 0
        """How often pending changes were run."""

    PARAMSTYLE: str

    def put(self, statement: Statement, values: Mapping[str, Plain]) -> None:
        """Queue a change with its present values; it runs at the latest before the next query."""
        compiled = self._compiled.get(statement) or self._compile(statement)
        if not self._waiting or self._waiting[-1][0] is not compiled:
            self._waiting.append((compiled, []))
        self._waiting[-1][1].append(values)

    def rows(self, statement: Statement, values: Mapping[str, Plain]) -> Sequence[Values]:
        """Run a query, after all pending changes."""
        self.flush()
        compiled = self._compiled.get(statement) or self._compile(statement)
        with self._errors:
            return self._ask(compiled.text, compiled.bound(values))

    def flush(self) -> None:
        """Run the pending changes. Raises WrittenByAnother if a row was not as it was left."""
        if not self._waiting:
            return
        steps = [Step(what, list(map(what.bound, times))) for what, times in self._waiting]
        self._waiting = []
        self.flushed += 1
        with self._errors:
            counts = self._run(steps)
        for step, count in zip(steps, counts, strict=True):
            if count != len(step.times):
                raise WrittenByAnother(
                    f"{step.statement.text.split(' SET ')[0]}: a row had changed"
                )

    def delete(self, table: sa.Table, going: sa.ColumnElement[bool]) -> None:
        """Delete rows of a table whose trigger refuses that; the trigger is restored before the
        commit.

        Raises NotOwner.
        """
        self.flush()
        made = table.delete().where(going)
        text = made.compile(dialect=self._wording, compile_kwargs={"literal_binds": True})
        with self._errors:
            self._delete(table.name, str(text))

    @abstractmethod
    def _delete(self, table: str, text: str) -> None: ...

    @abstractmethod
    def begin(self, question: Statement) -> Sequence[Values]:
        """Begin a transaction, which locks out every other writer, and run queries that take no
        values.
        """

    @abstractmethod
    def _ask(self, text: str, values: Values) -> Sequence[Values]: ...

    @abstractmethod
    def _run(self, steps: Sequence[Step]) -> list[int]:
        """Run each step and count the rows it touched."""

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _take_back(self) -> None: ...

    def commit(self) -> None:
        """Make the transaction durable."""
        assert not self._waiting, "everything is flushed before a commit"
        with self._errors:
            self._commit()

    def rollback(self) -> None:
        """Roll the transaction back, or drop a connection that no longer can."""
        self._waiting = []
        try:
            with self._errors:
                self._take_back()
        except DBAPIError:
            self.is_lost = True
            with suppress(DBAPIError), self._errors:
                self._pooled.invalidate()

    def release(self) -> None:
        """Return the connection to its owner."""
        self._pooled.close()

    def _compile(self, statement: Statement) -> Compiled:
        # Values that never differ become part of the text: SQLite replans for each given value that
        # a partial index depends on.
        fixed = cloned_traverse(statement, {}, {"bindparam": _fix})
        made = fixed.compile(dialect=self._wording, compile_kwargs={"render_postcompile": True})
        left = {name: value for name, value in made.params.items() if value is not None}
        if len(self._compiled) >= COMPILED_MAX:
            del self._compiled[next(iter(self._compiled))]
        names = tuple(made.positiontup or ())
        self._compiled[statement] = Compiled(
            text=str(made),
            names=names,
            fixed=left,
            table=str(statement.table) if isinstance(statement, sa.Insert | sa.Update) else "",
            is_update=isinstance(statement, sa.Update),
            read=reader_of(names),
        )
        return self._compiled[statement]


def _fix(parameter: sa.BindParameter[Any]) -> None:
    parameter.literal_execute = parameter.value is not None


class _AsSqlalchemys:
    """Turns the driver's exceptions into SQLAlchemy's. Re-entrant."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._driver: type[Exception] = dialect.loaded_dbapi.Error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._driver):
            raise DBAPIError.instance(
                None, None, error, self._driver, hide_parameters=True, dialect=self._dialect
            ) from error


class SqliteConnection(WriterConnection):
    """SQLite: one statement after the other."""

    PARAMSTYLE = "qmark"

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._raw: sqlite3.Connection = self._pooled.driver_connection  # type: ignore[assignment]
        self._cursor = self._raw.cursor()

    def begin(self, question: Statement) -> Sequence[Values]:
        files: OpenFiles | None = self._pooled.info.get("files")
        with self._errors:
            if files is not None:
                files.require_in_place()
            self._cursor.execute(BEGIN_WRITING)
        found = self.rows(question, {})
        if files is None:  # the first transaction creates the log
            self._pooled.info["files"] = OpenFiles(self._raw)
        return found

    def release(self) -> None:
        self._cursor.close()  # while the cursor is open, so is the file
        super().release()

    def _commit(self) -> None:
        self._raw.commit()

    def _take_back(self) -> None:
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


class PostgresConnection(WriterConnection):
    """PostgreSQL: statements that go together take one round trip.

    Few rows go as one statement, `WITH a AS (INSERT …), b AS (UPDATE …) SELECT …`, many through the
    driver's pipeline, which costs more to begin with and less a row. The parts of one statement do
    not see each other, so a second change to the same table goes into the next one. Apart from the
    pipeline, libpq is called directly: the driver's own overhead costs more than the server's work.
    The thread waits in C there, and lets the others run.
    """

    PARAMSTYLE = "format"

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        from psycopg.errors import error_from_result
        from psycopg.pq import ExecStatus

        self._good = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
        self._error_of = error_from_result
        self._encoding = self._raw.info.encoding
        self._prepared: dict[tuple[str, ...], bytes] = {}
        self._numbers: Iterator[int] = self._pooled.info.setdefault("plans", itertools.count())

    def begin(self, question: Statement) -> Sequence[Values]:
        compiled = self._compiled.get(question) or self._compile(question)
        assert not compiled.names, "what is said with BEGIN has no values"
        with self._errors:
            name = self._prepared.get((compiled.text,)) or self._prepare((compiled.text,))
            return self._rows_of(self._say(b"BEGIN; EXECUTE " + name))

    def _commit(self) -> None:
        done = self._say(b"COMMIT")
        assert done.command_status == b"COMMIT", "a failed transaction is rolled back"

    def release(self) -> None:
        """Drop the prepared statements: the next user of the connection does not know them."""
        with suppress(DBAPIError), self._errors:
            for name in self._prepared.values():
                self._say(b"DEALLOCATE " + name)
        super().release()

    def _take_back(self) -> None:
        # the driver's own rollback may make the server forget prepared statements
        self._say(b"ROLLBACK")

    def _delete(self, table: str, text: str) -> None:
        [[is_owner, role]] = self._ask(_OWNS, (table,))
        if not is_owner:
            raise NotOwner(str(role), table)
        trigger = f"TRIGGER {table}_no_delete"
        off, on = (f"ALTER TABLE {table} {word} {trigger}" for word in ("DISABLE", "ENABLE"))
        for command in (off, text, on):
            self._say(command.replace("%%", "%").encode(self._encoding))

    @property
    def _raw(self) -> "psycopg.Connection[Values]":
        return self._pooled.driver_connection  # type: ignore[return-value]

    def _ask(self, text: str, values: Values) -> Sequence[Values]:
        return self._execute((text,), values)

    def _run(self, steps: Sequence[Step]) -> list[int]:
        if sum(len(step.times) for step in steps) > TOGETHER_MAX:
            return self._run_through_pipeline(steps)
        counts, together = [0] * len(steps), Together()
        for number, step in enumerate(steps):
            for values in step.times:
                if not together.takes(step.statement):
                    self._run_together(together, counts)
                    together = Together()
                together.add(number, step.statement, values)
        self._run_together(together, counts)
        return counts

    def _run_together(self, together: "Together", counts: list[int]) -> None:
        """Run changes as one statement and add to each step how many rows it touched."""
        [found] = self._execute(tuple(together.texts), together.values)
        for number, count in zip(together.numbers, found, strict=True):
            counts[number] += int(count or 0)

    def _run_through_pipeline(self, steps: Sequence[Step]) -> list[int]:
        with self._raw.pipeline():
            done = [
                [
                    self._raw.execute(step.statement.text, values, prepare=True)
                    for values in step.times
                ]
                for step in steps
            ]
        return [sum(cursor.rowcount for cursor in cursors) for cursors in done]

    # ----------------------------------------------------------------------------- calls to libpq

    def _execute(self, texts: tuple[str, ...], values: Sequence[Plain]) -> Sequence[Values]:
        """Run a query, or several changes as one statement that counts the rows of each."""
        encoding = self._encoding
        told = [None if value is None else str(value).encode(encoding) for value in values]
        name = self._prepared.get(texts) or self._prepare(texts)
        done = self._raw.pgconn.exec_prepared(name, told)  # type: ignore[arg-type]  # None is NULL
        return self._rows_of(self._checked(done))

    def _rows_of(self, result: "PGresult") -> Sequence[Values]:
        reads = [int if result.ftype(at) in WHOLE else self._text for at in range(result.nfields)]
        return [
            tuple(
                None if (stored := result.get_value(row, at)) is None else read(stored)
                for at, read in enumerate(reads)
            )
            for row in range(result.ntuples)
        ]

    def _text(self, stored: bytes) -> str:
        return stored.decode(self._encoding)

    def _prepare(self, texts: tuple[str, ...]) -> bytes:
        """Have the server prepare a statement, once for all its executions."""
        if len(self._prepared) >= PREPARED_MAX:
            self._say(b"DEALLOCATE " + self._prepared.pop(next(iter(self._prepared))))
        name = f"journal_{next(self._numbers)}".encode()
        text = as_one(texts)
        assert "%%" not in text, "a sign of percent would be doubled"
        parts = text.split("%s")
        whole = parts[0] + "".join(f"${at}{part}" for at, part in enumerate(parts[1:], 1))
        self._checked(self._raw.pgconn.prepare(name, whole.encode(self._encoding)))
        self._prepared[texts] = name
        return name

    def _say(self, command: bytes) -> "PGresult":
        return self._checked(self._raw.pgconn.exec_(command))

    def _checked(self, result: "PGresult") -> "PGresult":
        if result.status not in self._good:
            raise self._error_of(result, self._encoding)
        return result


def _dialect_of(engine: sa.Engine) -> Callable[..., sa.Dialect]:
    return type(engine.dialect)


def connect(engine: sa.Engine) -> WriterConnection:
    """Take the writer's connection."""
    kind = SqliteConnection if engine.dialect.name == "sqlite" else PostgresConnection
    return kind(engine)
