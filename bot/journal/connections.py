"""The writer's connection: statements compiled once from the tables, run on the driver's cursor.

What is put waits until something is asked for or `flush` is called, so that statements which
follow one another go together: on SQLite as one `executemany`, on PostgreSQL in one round trip.
Each has to touch exactly one row for each set of values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from bot.journal.encoding import Plain
from bot.journal.engines import BEGIN_WRITING
from bot.journal.errors import WrittenByAnother

if TYPE_CHECKING:
    import sqlite3

    import psycopg

Values = tuple[Plain, ...]
Statement = sa.Select[Any] | sa.CompoundSelect[Any] | sa.Insert | sa.Update


def given(name: str) -> sa.BindParameter[Any]:
    """A parameter of a compiled statement; it is always given, and missed by its name."""
    return sa.bindparam(name, required=False)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement in the driver's words, with the names of its parameters in their order.

    `fixed` are those whose values stand in the statement.
    """

    text: str
    names: tuple[str, ...]
    fixed: Mapping[str, Plain]

    def bound(self, values: Mapping[str, Plain]) -> Values:
        """The parameters in their order. Raises KeyError for one that is not given."""
        if self.fixed:
            values = {**self.fixed, **values}
        return tuple(map(values.__getitem__, self.names))


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that waits, with the values of each time that it is to be run."""

    statement: Compiled
    times: list[Values] = field(default_factory=list)


class WriterConnection(ABC):
    """A connection of the one writer. Raises DBAPIError as SQLAlchemy's own would."""

    def __init__(self, engine: sa.Engine) -> None:
        self._dialect = engine.dialect
        with self._errors():
            self._pooled = engine.raw_connection()
        self._wording = _dialect_of(engine)(paramstyle=self.PARAMSTYLE)
        self._compiled: dict[Statement, Compiled] = {}
        self._steps: list[Step] = []
        self.is_lost = False

    PARAMSTYLE: str

    def put(self, statement: Statement, values: Mapping[str, Plain]) -> None:
        """Run a change, at the latest when something is asked for."""
        compiled = self._compiled.get(statement) or self._compile(statement)
        if not self._steps or self._steps[-1].statement is not compiled:
            self._steps.append(Step(compiled))
        self._steps[-1].times.append(compiled.bound(values))

    def rows(self, statement: Statement, values: Mapping[str, Plain]) -> Sequence[Values]:
        """Ask, after all that was put."""
        self.flush()
        compiled = self._compiled.get(statement) or self._compile(statement)
        with self._errors():
            return self._ask(compiled.text, compiled.bound(values))

    def flush(self) -> None:
        """Run what was put. Raises WrittenByAnother when a row was not as it was left."""
        steps, self._steps = self._steps, []
        if not steps:
            return
        with self._errors():
            counts = self._run(steps)
        for step, count in zip(steps, counts, strict=True):
            if count != len(step.times):
                raise WrittenByAnother(
                    f"{step.statement.text.split(' SET ')[0]}: a row had changed"
                )

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction, which locks out every other writer."""

    @abstractmethod
    def _ask(self, text: str, values: Values) -> Sequence[Values]: ...

    @abstractmethod
    def _run(self, steps: Sequence[Step]) -> list[int]:
        """Run each step and count the rows that it touched."""

    def commit(self) -> None:
        """Make the transaction durable."""
        assert not self._steps, "everything is flushed before a commit"
        with self._errors():
            self._pooled.commit()

    def rollback(self) -> None:
        """Take the transaction back, or let go of a connection that can't any more."""
        self._steps = []
        try:
            with self._errors():
                self._pooled.rollback()
        except DBAPIError:
            self.is_lost = True
            with suppress(DBAPIError), self._errors():
                self._pooled.invalidate()

    def release(self) -> None:
        """Give the connection back to those it was taken from."""
        self._pooled.close()

    def _compile(self, statement: Statement) -> Compiled:
        made = statement.compile(dialect=self._wording, compile_kwargs={"render_postcompile": True})
        names = tuple(made.positiontup or ())
        fixed = {name: value for name, value in made.params.items() if value is not None}
        self._compiled[statement] = Compiled(str(made), names, fixed)
        return self._compiled[statement]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        driver = self._dialect.loaded_dbapi.Error
        try:
            yield
        except driver as error:
            raise DBAPIError.instance(
                None, None, error, driver, hide_parameters=True, dialect=self._dialect
            ) from error


class SqliteConnection(WriterConnection):
    """SQLite: one statement after the other."""

    PARAMSTYLE = "qmark"

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        raw: sqlite3.Connection = self._pooled.driver_connection  # type: ignore[assignment]
        self._cursor = raw.cursor()

    def begin(self) -> None:
        with self._errors():
            self._cursor.execute(BEGIN_WRITING)

    def release(self) -> None:
        self._cursor.close()  # while it is open, so is the file
        super().release()

    def _ask(self, text: str, values: Values) -> Sequence[Values]:
        return self._cursor.execute(text, values).fetchall()

    def _run(self, steps: Sequence[Step]) -> list[int]:
        counts = []
        for step in steps:
            self._cursor.executemany(step.statement.text, step.times)
            counts.append(self._cursor.rowcount)
        return counts


class PostgresConnection(WriterConnection):
    """PostgreSQL: what goes together goes in one round trip; the driver begins by itself."""

    PARAMSTYLE = "format"

    def begin(self) -> None:
        pass

    @property
    def _raw(self) -> "psycopg.Connection[Values]":
        return self._pooled.driver_connection  # type: ignore[return-value]

    def _ask(self, text: str, values: Values) -> Sequence[Values]:
        with self._raw.pipeline():
            return self._raw.execute(text, values, prepare=True).fetchall()

    def _run(self, steps: Sequence[Step]) -> list[int]:
        with self._raw.pipeline():
            done = [
                [
                    self._raw.execute(step.statement.text, values, prepare=True)
                    for values in step.times
                ]
                for step in steps
            ]
        return [sum(cursor.rowcount for cursor in cursors) for cursors in done]


def _dialect_of(engine: sa.Engine) -> Callable[..., sa.Dialect]:
    return type(engine.dialect)


def connect(engine: sa.Engine) -> WriterConnection:
    """Take the writer's connection."""
    kind = SqliteConnection if engine.dialect.name == "sqlite" else PostgresConnection
    return kind(engine)
