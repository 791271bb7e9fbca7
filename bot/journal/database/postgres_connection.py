"""The writer's connection to PostgreSQL: statements that go together take one round trip."""

import itertools
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from bot.journal.database.encoding import Plain
from bot.journal.database.statements import Statement, Step, Together, Values, as_one
from bot.journal.database.writer_connection import WriterConnection
from bot.journal.errors import NotOwner

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

TOGETHER_MAX: Final = 24
"""How many rows go into one statement."""
PREPARED_MAX: Final = 256
"""How many prepared statements the server keeps for the writer."""
READS_OF_A_BEGIN: Final = 7
"""Three results, each with its end, and the end of all."""
_OWNS: Final = """\
SELECT CASE WHEN pg_has_role(relowner, 'USAGE') THEN 1 ELSE 0 END, current_user
FROM pg_class WHERE oid = %s::regclass"""
WHOLE: Final = frozenset({20, 21, 23})
"""The type numbers of whole numbers; everything else is read as text."""


class PostgresConnection(WriterConnection):
    """PostgreSQL: statements that go together take one round trip.

    Few rows go as one statement, `WITH a AS (INSERT …), b AS (UPDATE …) SELECT …`, many through the
    driver's pipeline, which costs more to begin with and less a row. The parts of one statement do
    not see each other, so a second change to the same table goes into the next one. A transaction
    begun later begins in the round trip of its first statement, so that a usual one takes two: the
    second is its COMMIT, which is only sent when all that came before was found right. Apart from
    the pipeline, libpq is called directly: the driver's own overhead costs more than the server's
    work. The thread waits in C there, and lets the others run.
    """

    PARAMSTYLE = "format"

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        from psycopg import OperationalError
        from psycopg.errors import error_from_result
        from psycopg.pq import ExecStatus

        self._ended, self._lost = ExecStatus.PIPELINE_SYNC, OperationalError
        self._first: tuple[Statement, Callable[[Sequence[Values]], object]] | None = None
        """What a transaction that has not begun yet begins with."""
        self._good = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
        self._error_of = error_from_result
        self._encoding = self._raw.info.encoding
        self._prepared: dict[tuple[str, ...], bytes] = {}
        self._numbers: Iterator[int] = self._pooled.info.setdefault("plans", itertools.count())

    def begin(self, question: Statement) -> Sequence[Values]:
        with self._errors:
            return self._rows_of(self._say(b"BEGIN; EXECUTE " + self._name_of(question)))

    def begin_later(self, question: Statement, judge: Callable[[Sequence[Values]], object]) -> None:
        self._first = question, judge

    def begin_at_last(self) -> None:
        if self._first is not None:
            (question, judge), self._first = self._first, None
            judge(self.begin(question))

    def _commit(self) -> None:
        self.begin_at_last()
        done = self._say(b"COMMIT")
        assert done.command_status == b"COMMIT", "a failed transaction is rolled back"

    def release(self) -> None:
        """Drop the prepared statements: the next user of the connection does not know them."""
        with suppress(DBAPIError), self._errors:
            for name in self._prepared.values():
                self._say(b"DEALLOCATE " + name)
        super().release()

    def _take_back(self) -> None:
        if self._first is not None:  # it has not begun
            self._first = None
            return
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
            self.begin_at_last()
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
        name = self._prepared_name(texts)
        if self._first is not None:
            return self._rows_of(self._begin_with(name, told))
        done = self._raw.pgconn.exec_prepared(name, told)  # type: ignore[arg-type]  # None is NULL
        return self._rows_of(self._checked(done))

    def _begin_with(self, name: bytes, told: Sequence[bytes | None]) -> "PGresult":
        """Begin in the round trip of the first statement; return the result of that.

        If the server's answers end early, the connection stays in the pipeline, in which no
        rollback is possible: so it is dropped.
        """
        assert self._first is not None, "something was left for later"
        (question, judge), self._first = self._first, None
        asked, server = self._name_of(question), self._raw.pgconn
        server.enter_pipeline_mode()
        server.send_query_params(b"BEGIN", None)
        server.send_query_prepared(asked, None)
        server.send_query_prepared(name, told)
        server.pipeline_sync()
        read = [self._next_result() for _ in range(READS_OF_A_BEGIN)]
        found = [result for result in read if result is not None]
        begun, left, done, end = [*found, *[None] * 4][:4]
        if end is not None and end.status == self._ended:
            server.exit_pipeline_mode()
        self._checked(begun)
        judge(self._rows_of(self._checked(left)))
        return self._checked(done)

    def _next_result(self) -> "PGresult | None":
        """Send what waits to be sent, and read one result; None ends those of a statement."""
        server, socket = self._raw.pgconn, select.poll()
        while (is_left := server.flush()) or server.is_busy():
            socket.register(server.socket, select.POLLIN | (select.POLLOUT if is_left else 0))
            socket.poll()  # libpq's own wait would hold up all threads
            server.consume_input()
        return server.get_result()

    def _name_of(self, question: Statement) -> bytes:
        """Return the prepared name of a query that takes no values."""
        compiled = self._compiled.get(question) or self._compile(question)
        assert not compiled.names, "what is said with BEGIN has no values"
        return self._prepared_name((compiled.text,))

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

    def _prepared_name(self, texts: tuple[str, ...]) -> bytes:
        """Return the name of a prepared statement. It is now the last one to be dropped: two are
        named before either runs.
        """
        name = self._prepared.pop(texts, None)
        if name is None:
            return self._prepare(texts)
        self._prepared[texts] = name
        return name

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

    def _checked(self, result: "PGresult | None") -> "PGresult":
        if result is None:
            raise self._lost("the server's answers ended early")
        if result.status not in self._good:
            raise self._error_of(result, self._encoding)
        return result
