"""The writer's connection: statements compiled once from the tables, run on the driver's cursor.

Changes that are put wait until a query or a `flush`, so that consecutive statements go together: on
SQLite as one `executemany`, on PostgreSQL in one round trip. Each has to touch exactly one row per
set of values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.visitors import cloned_traverse

from bot.journal.database.encoding import Plain
from bot.journal.database.statements import (
    Compiled,
    Statement,
    Step,
    Values,
    reader_of,
)
from bot.journal.errors import WrittenByAnother

COMPILED_MAX: Final = 256
"""How many statements stay compiled; one that is built anew each time counts each time."""


class WriterConnection(ABC):
    """A connection of the one writer. Raises DBAPIError as SQLAlchemy itself would."""

    def __init__(self, engine: sa.Engine) -> None:
        self._errors = _AsSqlalchemys(engine.dialect)
        with self._errors:
            self._pooled = engine.raw_connection()
        dialect: Callable[..., sa.Dialect] = type(engine.dialect)
        self._wording = dialect(paramstyle=self.PARAMSTYLE)
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

    def begin_later(self, question: Statement, judge: Callable[[Sequence[Values]], object]) -> None:
        """Begin a transaction at the latest with its first statement. `judge` gets the rows of the
        question before anything else is known of the transaction; what it raises is raised there.
        """
        judge(self.begin(question))

    @abstractmethod
    def begin_at_last(self) -> None:
        """Begin now if that was left for later."""

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
