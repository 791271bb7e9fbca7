"""One bot writes a journal at a time. A second is refused at once and learns who is first.

SQLite: an exclusive lock on a file beside the journal; PostgreSQL: an advisory lock on a connection
of its own. Both are let go by the system when the process dies, however it dies. Each holder gets a
new epoch, which the journal asserts before an order is sent: one who lost the lease sends no more.
"""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from bot.journal.engines import (
    database_errors,
    file_of,
    is_sqlite,
    lock_engine,
    make_private_file,
    one_transaction,
    sqlite_code,
    unreachable,
)
from bot.journal.errors import Holder, LeaseHeld
from bot.journal.schema import reading_current, require_schema
from bot.journal.tables import lease

NAME: Final = "writer"
SUFFIX: Final = ".lease"
LOCK: Final = 0x766E_626F_7401
"""Key of the advisory lock in a journal's PostgreSQL database."""
_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write, until `release` is called or the process ends."""

    epoch: int
    release: Callable[[], None]


def acquire(url: str, holder: Holder) -> Lease:
    """Take the lease at once, or raise LeaseHeld. Also raises Unreachable and NeedsMigration."""
    let_go = _lock_file(url) if is_sqlite(url) else _lock_database(url)
    with ExitStack() as undo:
        undo.callback(let_go)
        with one_transaction(url) as connection:
            require_schema(connection)
            mine = lease.c.name == NAME
            old = connection.execute(sa.select(lease.c.epoch).where(mine).with_for_update())
            epoch: int = old.scalar_one() + 1
            name = {"pid": holder.pid, "host": holder.host, "since": holder.since.isoformat()}
            connection.execute(lease.update().where(mine).values(epoch=epoch, **name))
        undo.pop_all()
    return Lease(epoch, let_go)


def holder_of(connection: sa.Connection) -> Holder | None:
    """Who took the lease last."""
    row = connection.execute(sa.select(lease).where(lease.c.name == NAME)).one()
    if row.pid is None:
        return None
    return Holder(row.pid, row.host, datetime.fromisoformat(row.since))


def _lock_file(url: str) -> Callable[[], None]:
    journal = file_of(url)
    path = journal.with_name(journal.name + SUFFIX)
    make_private_file(path)
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=MEMORY")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if sqlite_code(error) not in _LOCKED:
            raise unreachable(url, str(error)) from error
        with reading_current(url) as stored:
            raise LeaseHeld(holder_of(stored)) from error
    return connection.close


def _lock_database(url: str) -> Callable[[], None]:
    with database_errors(url):
        connection = lock_engine(url).connect().execution_options(isolation_level="AUTOCOMMIT")
        is_ours = connection.execute(sa.select(sa.func.pg_try_advisory_lock(LOCK))).scalar_one()
    if not is_ours:
        connection.close()
        with reading_current(url) as stored:
            raise LeaseHeld(holder_of(stored))
    return connection.close
