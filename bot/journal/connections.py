"""The writer's connection: statements compiled once from the tables, run on the driver's cursor.

What is put waits until something is asked for or `flush` is called, so that statements which
follow one another go together: on SQLite as one `executemany`, on PostgreSQL in one round trip.
Each has to touch exactly one row for each set of values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.visitors import cloned_traverse

from bot.journal.encoding import Plain
from bot.journal.engines import BEGIN_WRITING
from bot.journal.errors import WrittenByAnother
from bot.journal.tables import chains

if TYPE_CHECKING:
    import sqlite3

    import psycopg

TOGETHER_MAX: Final = 24
"""How many rows go in one statement of PostgreSQL."""

Values = tuple[Plain, ...]
Statement = sa.Select[Any] | sa.CompoundSelect[Any] | sa.Insert | sa.Update


def given(name: str) -> sa.BindParameter[Any]:
    """A parameter of a compiled statement; it is always given, and missed by its name."""
    return sa.bindparam(name, required=False)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement in the driver's words, with the names of its parameters in their order.

    `fixed` are parameters that the compiler itself has put in.
    """

    text: str
    names: tuple[str, ...]
    fixed: Mapping[str, Plain]
    table: str
    is_update: bool

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
        self._errors = _AsSqlalchemys(engine.dialect)
        with self._errors:
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
        with self._errors:
            return self._ask(compiled.text, compiled.bound(values))

    def flush(self) -> None:
        """Run what was put. Raises WrittenByAnother when a row was not as it was left."""
        steps, self._steps = self._steps, []
        if not steps:
            return
        with self._errors:
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
        with self._errors:
            self._pooled.commit()

    def rollback(self) -> None:
        """Take the transaction back, or let go of a connection that can't any more."""
        self._steps = []
        try:
            with self._errors:
                self._pooled.rollback()
        except DBAPIError:
            self.is_lost = True
            with suppress(DBAPIError), self._errors:
                self._pooled.invalidate()

    def release(self) -> None:
        """Give the connection back to those it was taken from."""
        self._pooled.close()

    def _compile(self, statement: Statement) -> Compiled:
        # Values that never differ become part of the text: SQLite plans anew for each given one
        # that a partial index depends on.
        fixed = cloned_traverse(statement, {}, {"bindparam": _fix})
        made = fixed.compile(dialect=self._wording, compile_kwargs={"render_postcompile": True})
        left = {name: value for name, value in made.params.items() if value is not None}
        self._compiled[statement] = Compiled(
            text=str(made),
            names=tuple(made.positiontup or ()),
            fixed=left,
            table=str(statement.table) if isinstance(statement, sa.Insert | sa.Update) else "",
            is_update=isinstance(statement, sa.Update),
        )
        return self._compiled[statement]


def _fix(parameter: sa.BindParameter[Any]) -> None:
    parameter.literal_execute = parameter.value is not None


class _AsSqlalchemys:
    """What the driver raises inside becomes what SQLAlchemy would raise. May be entered again."""

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
        raw: sqlite3.Connection = self._pooled.driver_connection  # type: ignore[assignment]
        self._cursor = raw.cursor()

    def begin(self) -> None:
        with self._errors:
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
    """PostgreSQL: what goes together goes in one round trip; the driver begins by itself.

    Few rows go as one statement, `WITH a AS (INSERT …), b AS (UPDATE …) SELECT …`, many through the
    driver's pipeline, which costs more to begin with and less a row. The parts of one statement
    don't see each other: a row of the same table is changed in the next.
    """

    PARAMSTYLE = "format"

    def begin(self) -> None:
        pass

    @property
    def _raw(self) -> "psycopg.Connection[Values]":
        return self._pooled.driver_connection  # type: ignore[return-value]

    def _ask(self, text: str, values: Values) -> Sequence[Values]:
        return self._raw.execute(text, values, prepare=True).fetchall()

    def _run(self, steps: Sequence[Step]) -> list[int]:
        if sum(len(step.times) for step in steps) > TOGETHER_MAX:
            return self._run_through_pipeline(steps)
        counts, together = [0] * len(steps), Together()
        for number, step in enumerate(steps):
            for values in step.times:
                if not together.takes(step.statement):
                    together.run(self._raw, counts)
                    together = Together()
                together.add(number, step.statement, values)
        together.run(self._raw, counts)
        return counts

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


class Together:
    """Changes that go as one statement."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._texts: list[str] = []
        self._counts: list[str] = []
        self._values: list[Plain] = []
        self._tables: set[str] = set()

    def takes(self, statement: Compiled) -> bool:
        """Whether no row that it changes is touched before; each row of `chains` moves once."""
        table = statement.table
        return not statement.is_update or table == chains.name or table not in self._tables

    def add(self, number: int, statement: Compiled, values: Values) -> None:
        """Add one change, of the step `number`."""
        at = len(self._numbers)
        self._texts.append(f"c{at} AS ({statement.text} RETURNING 1)")
        self._counts.append(f"(SELECT count(*) FROM c{at})")  # noqa: S608 (our own names)
        self._numbers.append(number)
        self._values.extend(values)
        self._tables.add(statement.table)

    def run(self, raw: "psycopg.Connection[Values]", counts: list[int]) -> None:
        """Run them and add to each step how many rows it touched."""
        if not self._texts:
            return
        text = f"WITH {', '.join(self._texts)} SELECT {', '.join(self._counts)}"
        [found] = raw.execute(text, self._values, prepare=True).fetchall()
        for number, count in zip(self._numbers, found, strict=True):
            counts[number] += int(count or 0)


def _dialect_of(engine: sa.Engine) -> Callable[..., sa.Dialect]:
    return type(engine.dialect)


def connect(engine: sa.Engine) -> WriterConnection:
    """Take the writer's connection."""
    kind = SqliteConnection if engine.dialect.name == "sqlite" else PostgresConnection
    return kind(engine)
