"""One bot writes a journal at a time. A second is refused at once and learns who is first.

SQLite: an exclusive lock on a file beside the journal; PostgreSQL: an advisory lock on a connection
of its own. The system releases both when the process dies, however it dies; PostgreSQL on another
machine does so within half a minute of the death of the holder's. Each holder gets a new epoch,
which every transaction of the journal asserts under a lock on its row: a holder that lost the lease
stores nothing more, and what is not stored is not sent.

On PostgreSQL a stalled holder can keep its lock, for example if its process is stopped or the
network is cut. So it renews the lease with its transactions, at least every `BEAT_S`; if it has not
for `LEASE_LIFE_S`, a waiting bot takes the lease over (`Watch`, `take`). Which clock judges what:

- `until_ms` is written and compared by the database's clock alone. Clocks of two machines are never
  compared.
- That clock may be set ahead, so the waiting bot must also have seen the same `until_ms` for
  LEASE_LIFE_S by its own steady clock, without interruption.
- The holder judges its own age by its steady clock, which counts suspension, from before the
  renewal was asked for: it always thinks the lease shorter than the database does.

The takeover is the moment at which the epoch is raised, in one UPDATE that names the epoch and the
`until_ms` seen. It waits for a pending transaction of the old holder, which the server ends if it
stays idle (`IDLE_MAX_MS`). Before the takeover only the old holder can store an order, after it
only the new one. An order stored before the takeover but not sent yet is not sent after it: its
transaction found, or made, a renewal at most BEAT_S old; the takeover comes at least LEASE_LIFE_S
after that; and a place or an amendment is sent at most 15 s after it was signed, which is before
its transaction. 2 s + 15 s are less than 20 s; the rest allows for uneven clocks. A cancel has no
such age limit: once it is known that somebody waits, it is sent only while the last renewal is
younger than LEASE_LIFE_S. A process that is stopped between its last look at the clock and the
system call may still send afterwards: the attempt is in the journal without an answer, and the new
holder has used up its nonce by then.

A free lock is taken at once, as by any start: its holder has ended, or the server has ended its
connection. If the holder is still alive, it finds the new epoch within BEAT_S and ends; what it had
stored but not sent is a lost order for the new holder, as after a kill. If nobody took the lock
first, its holder misses it within BEAT_S and takes it again. A server that restarts frees every
lock, so a waiting bot that was cut off itself gives the holder GRACE_S for that.

From a stall to the takeover it takes at most LEASE_LIFE_S and two checks, so the new holder sends
within 25 s of it.
"""

import math
import os
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from time import sleep
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from bot.journal.database.engines import (
    NO_RIGHT,
    database_errors,
    file_of,
    is_sqlite,
    lock_engine,
    make_private_file,
    one_transaction,
    sqlite_code,
    unreachable,
)
from bot.journal.database.schema import reading_current, require_schema
from bot.journal.database.tables import lease, runs
from bot.journal.errors import Holder, LeaseHeld

NAME: Final = "writer"
SUFFIX: Final = ".lease"
LOCK: Final = 0x766E_626F_7401
"""Key of the advisory lock in a journal's PostgreSQL database."""
WATCH: Final = LOCK + 1
"""Key of the shared lock held by everybody who waits for the lease, so that the holder can tell."""
BEAT_S: Final = 2.0
"""The holder renews the lease at least this often."""
LEASE_LIFE_S: Final = 20.0
"""How long it holds without renewal: longer than a signed order may still be sent."""
LET_GO_S: Final = 0.25
"""How long a PostgreSQL server may take to release the lock after its connection was closed."""
_AS_LONG_AS_HELD: Final = sa.text(
    "SELECT set_config(name, value, false) FROM pg_settings JOIN (VALUES"
    " ('idle_session_timeout', '0'), ('tcp_user_timeout', '30000'), ('tcp_keepalives_idle', '10'),"
    " ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '4')"
    ") AS wanted (which, value) ON name = which"
)
"""For a connection with a lock, on which nothing may be asked for long: the server ends it 20 to
30 s after the machine of its client has gone, which by itself it notices after two hours, and never
before LEASE_LIFE_S. An older PostgreSQL does not know all of these.
"""
_TRIES: Final = 5
_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})

NOW_MS: Final = sa.literal_column(
    "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)", sa.BigInteger()
)
"""The PostgreSQL server's clock, also within a transaction."""
UNTIL_MS: Final = NOW_MS + sa.literal_column(str(round(LEASE_LIFE_S * 1000)))
RENEW: Final = lease.update().where(lease.c.name == NAME).values(until_ms=UNTIL_MS)
"""For a transaction that has found its own epoch."""


class Lease:
    """The right to write, until `release` is called or the process ends."""

    def __init__(self, url: str, epoch: int, let_go: Callable[[], None]) -> None:
        self.epoch = epoch
        self._url = url
        self._let_go: Callable[[], None] | None = let_go
        self._turn = threading.Lock()

    def release(self) -> None:
        """Let others take it."""
        self._swap(None)

    def lock_again(self) -> None:
        """Take the lock that PostgreSQL has dropped with its connection, unless released meanwhile.
        It gives no right: whether the lease is still ours is told by its epoch.

        Raises LeaseHeld if another has the lock, and Unreachable.
        """
        let_go = _lock_database(self._url)
        if not self._swap(let_go):
            let_go()

    def _swap(self, new: Callable[[], None] | None) -> bool:
        """Let go of the lock for a new one, or for good; False if that was done before."""
        with self._turn:
            let_go = self._let_go
            if let_go is None:
                return False
            self._let_go = new
        let_go()
        return True


def acquire(url: str, holder: Holder, *, seen: int | None = None) -> Lease:
    """Take the lease at once, or raise LeaseHeld. Also raises Unreachable and NeedsMigration.

    With `seen`, only if that is still its epoch, so that nobody has taken it in between.
    """
    let_go = lock(url)
    with ExitStack() as undo:
        undo.callback(let_go)
        with one_transaction(url) as connection:
            require_schema(connection)
            mine = lease.c.name == NAME
            old = connection.execute(sa.select(lease.c.epoch).where(mine).with_for_update())
            before: int = old.scalar_one()
            if seen is not None and before != seen:
                raise LeaseHeld(holder_of(connection))
            taken = held_by(holder, is_renewed=not is_sqlite(url))
            connection.execute(lease.update().where(mine).values(epoch=before + 1, **taken))
        undo.pop_all()
    return Lease(url, before + 1, let_go)


def lock(url: str) -> Callable[[], None]:
    """Take the lock alone, which needs no table, and return what lets go; raises as `acquire`."""
    return _lock_file(url) if is_sqlite(url) else _lock_database(url)


def rows_of(key: int) -> str:
    """Select the rows of `pg_locks` about an advisory lock of this database."""
    ours = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    its = f"classid = {key >> 32} AND objid = {key & 0xFFFF_FFFF} AND objsubid = 1"
    return f"locktype = 'advisory' AND granted AND {its} AND {ours}"


def count_of(key: int) -> sa.Select[int]:
    """Return how many hold an advisory lock of this database."""
    rows = sa.text("pg_locks")
    return sa.select(sa.func.count()).select_from(rows).where(sa.text(rows_of(key)))


def held_by(holder: Holder, *, is_renewed: bool) -> dict[str, object]:
    """Parse the row's information about its holder."""
    name = {"pid": holder.pid, "host": holder.host, "since": holder.since.isoformat()}
    return {**name, "until_ms": UNTIL_MS if is_renewed else None}


def holder_of(connection: sa.Connection) -> Holder | None:
    """Return who took the lease last."""
    row = connection.execute(sa.select(lease).where(lease.c.name == NAME)).one()
    return holder_in(row.pid, row.host, row.since)


def holder_in(pid: int | None, host: str, since: str) -> Holder | None:
    """Return the holder named in a row of the lease; None before the first one."""
    return None if pid is None else Holder(pid, host, datetime.fromisoformat(since))


def writer_of(url: str) -> Holder | None:
    """Return who writes a journal now, as far as that shows without taking the lease from anybody:
    by its process on this machine, or by the database's own lock. Raises Unreachable.
    """
    with reading_current(url) as stored:
        holder = holder_of(stored)
        if not is_sqlite(url):
            return holder if stored.scalar(count_of(LOCK)) else None
    is_here = holder is not None and holder.host == socket.gethostname()
    return holder if holder is not None and is_here and _is_alive(holder.pid) else None


def has_begun(url: str) -> bool:
    """Return whether whoever took the lease last has begun a run since. Raises Unreachable."""
    with reading_current(url) as stored:
        epoch = sa.select(lease.c.epoch).where(lease.c.name == NAME).scalar_subquery()
        begun = sa.select(runs.c.run_id).where(runs.c.epoch == epoch)
        return stored.scalar(begun) is not None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _lock_file(url: str) -> Callable[[], None]:
    journal = file_of(url)
    path = journal.with_name(journal.name + SUFFIX)
    make_private_file(path)
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=MEMORY")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        connection.close()
        if sqlite_code(error) not in _LOCKED:
            raise unreachable(url, f"{path}: {error}") from error
        with reading_current(url) as stored:
            raise LeaseHeld(holder_of(stored)) from error
    return connection.close


def _lock_connection(url: str) -> sa.Connection:
    connection = lock_engine(url).connect().execution_options(isolation_level="AUTOCOMMIT")
    with ExitStack() as undo:
        undo.callback(connection.close)
        connection.execute(_AS_LONG_AS_HELD)
        undo.pop_all()
    return connection


def _lock_database(url: str) -> Callable[[], None]:
    with database_errors(url):
        connection = _lock_connection(url)
        ours, tries = sa.select(sa.func.pg_try_advisory_lock(LOCK)), _TRIES
        while not (is_ours := connection.execute(ours).scalar_one()) and tries:
            sleep(LET_GO_S / _TRIES)
            tries -= 1
    if not is_ours:
        connection.close()
        with reading_current(url) as stored:
            over = sa.select(NOW_MS - lease.c.until_ms).where(lease.c.name == NAME)
            over_ms = stored.scalar(over.where(lease.c.until_ms <= NOW_MS))
            silent_s = None if over_ms is None else round(LEASE_LIFE_S + over_ms / 1000)
            raise LeaseHeld(holder_of(stored), silent_s=silent_s)
    return connection.close


LOCK_WAIT_S: Final = 5
"""How long the old holder's lock may take to be released after its connection was ended."""
GRACE_S: Final = 3 * BEAT_S
"""A waiter that could not check assumes that the holder could not renew either, nor hold its lock,
and gives it this long to do so.
"""
_TIMED_OUT: Final = "55P03"
"""SQLSTATE lock_not_available."""
_LOOK: Final = sa.select(
    lease, NOW_MS.label("now_ms"), count_of(LOCK).scalar_subquery().label("holders")
).where(lease.c.name == NAME)
_TERMINATE: Final = (
    sa.select(sa.func.pg_terminate_backend(sa.literal_column("pid")))
    .select_from(sa.text("pg_locks"))
    .where(sa.text(rows_of(LOCK)))
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a check. `until_ms` and `now_ms` are the database's time.

    `until_ms` is None if the holder's program does not renew its lease.
    """

    epoch: int
    until_ms: int | None
    now_ms: int
    holder: Holder | None
    is_free: bool

    @property
    def silent_s(self) -> float | None:
        """How long ago the holder renewed its lease."""
        if self.until_ms is None:
            return None
        return LEASE_LIFE_S - (self.until_ms - self.now_ms) / 1000


class Watch:
    """Checks the lease on a separate connection, which shows the holder that somebody waits."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: sa.Connection | None = None

    def look(self) -> Seen:
        """Raises Unreachable, and NeedsMigration for another program's journal."""
        connection, self._connection = self._connection, None
        with database_errors(self._url), ExitStack() as undo:
            if connection is None:
                connection = _lock_connection(self._url)
                undo.callback(connection.close)
                require_schema(connection)
                connection.execute(sa.select(sa.func.pg_advisory_lock_shared(WATCH)))
            undo.callback(connection.close)
            row = connection.execute(_LOOK).one()
            undo.pop_all()
        self._connection = connection
        holder = holder_in(row.pid, row.host, row.since)
        return Seen(row.epoch, row.until_ms, row.now_ms, holder, is_free=row.holders == 0)

    def close(self) -> None:
        """Close the connection, so that the holder no longer sees us waiting."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()


@dataclass(slots=True)
class Patience:
    """Measures by a steady clock how long the same renewal has been the last, and how long ago a
    check has failed.
    """

    _last: tuple[int, int | None] | None = None
    _since_s: float = 0.0
    _blind_s: float = -math.inf

    def is_over(self, seen: Seen, now_s: float) -> bool:
        """Process a check; return whether the holder has let go of the lock, or has stalled."""
        if (seen.epoch, seen.until_ms) != self._last:
            self._last, self._since_s = (seen.epoch, seen.until_ms), now_s
        could_renew = now_s - self._blind_s >= GRACE_S
        if seen.is_free:
            return could_renew
        if seen.until_ms is None or seen.now_ms < seen.until_ms:
            return False
        return now_s - self._since_s >= LEASE_LIFE_S and could_renew

    def saw_nothing(self, now_s: float) -> None:
        """A check has failed."""
        self._blind_s = now_s


def take(url: str, holder: Holder, seen: Seen) -> Lease:
    """Take a lease that was seen free, or whose holder has stalled.

    Raises LeaseHeld if something has happened since, and what `acquire` raises.
    """
    if seen.is_free:
        return acquire(url, holder, seen=seen.epoch)
    with one_transaction(url) as connection:
        require_schema(connection)
        as_seen = lease.c.name == NAME, lease.c.epoch == seen.epoch
        is_over = lease.c.until_ms == seen.until_ms, lease.c.until_ms <= NOW_MS
        taken = held_by(holder, is_renewed=True)
        change = lease.update().where(*as_seen, *is_over).values(epoch=seen.epoch + 1, **taken)
        if connection.execute(change).rowcount != 1:
            raise LeaseHeld(holder_of(connection))
    return _locked(url, seen.epoch + 1)


def _locked(url: str, epoch: int) -> Lease:
    """End the old holder's connection and take its lock, so that others are refused at once.

    If the database does not allow that, the epoch is enough: the old holder stores nothing. But
    once it dies, a `bot run` elsewhere is not refused.
    """
    with database_errors(url):
        connection = _lock_connection(url)
        try:
            connection.execute(_TERMINATE)
            connection.execute(sa.text(f"SET lock_timeout = '{LOCK_WAIT_S}s'"))
            connection.execute(sa.select(sa.func.pg_advisory_lock(LOCK)))
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in {NO_RIGHT, _TIMED_OUT}:
                connection.close()
                raise
    return Lease(url, epoch, connection.close)
