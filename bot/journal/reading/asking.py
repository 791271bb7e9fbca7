"""Runs a person's own SQL query, which cannot change anything and is limited in time.

SQLite: the file is opened read-only, and only operations that a SELECT needs are allowed.
PostgreSQL: a read-only transaction, one statement, which has to be a query.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from bot.clock import monotonic_s
from bot.journal.database.engines import is_sqlite
from bot.journal.database.schema import reading_current
from bot.journal.errors import JournalError

if TYPE_CHECKING:
    import psycopg

ASK_TIMEOUT_S: Final = 30.0
LOOK_EVERY: Final = 20_000
"""After so many SQLite steps the time limit is checked."""
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)

Value = int | float | str | None


class Unanswered(JournalError):
    """The database did not accept the query: its own message."""


@dataclass(frozen=True, slots=True)
class Answer:
    """At most so many rows; `has_more`: there were more."""

    names: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    has_more: bool


def ask(url: str, query: str, *, limit: int, timeout_s: float = ASK_TIMEOUT_S) -> Answer:
    """Run a query on a journal. Raises Unanswered, Unreachable or NeedsMigration."""
    with reading_current(url) as connection:
        raw = connection.connection.driver_connection
        if is_sqlite(url):
            assert isinstance(raw, sqlite3.Connection), "a journal in a file"
            return _ask_sqlite(raw, query, limit, timeout_s)
        return _ask_postgres(raw, query, limit)  # type: ignore[arg-type]


def _ask_sqlite(raw: sqlite3.Connection, query: str, limit: int, timeout_s: float) -> Answer:
    ends_s = monotonic_s() + timeout_s

    def allow(action: int, *_what: object) -> int:
        return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

    raw.set_authorizer(allow)
    raw.set_progress_handler(lambda: monotonic_s() > ends_s, LOOK_EVERY)
    try:
        cursor = raw.execute(query)
        rows = list(islice(cursor, limit + 1))
    except (sqlite3.Error, sqlite3.Warning) as error:
        words = f"it took longer than {timeout_s:g} s" if monotonic_s() > ends_s else str(error)
        raise Unanswered(words) from error
    finally:
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)
    names = tuple(column[0] for column in cursor.description or ())
    return _answer(names, [tuple(map(_plain, row)) for row in rows], limit)


def _ask_postgres(raw: "psycopg.Connection[tuple[object, ...]]", query: str, limit: int) -> Answer:
    from psycopg import Error
    from psycopg.pq import ExecStatus

    pgconn, encoding = raw.pgconn, raw.info.encoding
    text = f"DECLARE asked NO SCROLL CURSOR FOR {query.strip().rstrip(';')}"
    done = pgconn.exec_params(text.encode(encoding), [])  # a single statement, of no other kind
    if done.status != ExecStatus.COMMAND_OK:
        raise Unanswered(done.error_message.decode(encoding, "replace").strip().split("\n")[0])
    try:
        cursor = raw.execute(f"FETCH {int(limit) + 1} FROM asked".encode())
        rows = cursor.fetchall()
    except Error as error:
        raise Unanswered(str(error).strip().split("\n")[0]) from error
    names = tuple(column.name for column in cursor.description or ())
    return _answer(names, [tuple(map(_plain, row)) for row in rows], limit)


def _answer(names: tuple[str, ...], rows: list[tuple[Value, ...]], limit: int) -> Answer:
    return Answer(names, rows[:limit], has_more=len(rows) > limit)


def _plain(value: object) -> Value:
    """A value for display; sums are whole numbers, anything else becomes its text."""
    if value is None or isinstance(value, int | float | str):
        return value
    text = str(value)
    return int(text) if text.lstrip("-").isdigit() else text
