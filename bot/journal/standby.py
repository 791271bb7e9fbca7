"""Waits for the lease of a PostgreSQL journal, and takes it from a holder that has stalled.

It changes nothing while it waits. What a stall is, and why the old holder sends nothing once the
lease is taken from it: `lease.py`.
"""

import math
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from bot.journal.engines import (
    NO_RIGHT,
    database_errors,
    lock_engine,
    one_transaction,
)
from bot.journal.errors import Holder, LeaseHeld
from bot.journal.lease import (
    BEAT_S,
    LEASE_LIFE_S,
    LOCK,
    NAME,
    NOW_MS,
    WATCH,
    Lease,
    acquire,
    count_of,
    held_by,
    holder_in,
    holder_of,
    rows_of,
)
from bot.journal.schema import require_schema
from bot.journal.tables import lease

LOCK_WAIT_S: Final = 5
"""How long the old holder's lock may take to be free once its connection was ended."""
GRACE_S: Final = 3 * BEAT_S
"""Who could not look for a moment supposes that the holder could not renew either."""
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
    """What a look has found. `until_ms` and `now_ms` are the database's time.

    `until_ms` is None where the holder's program does not renew its lease.
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
    """Looks at the lease on a connection of its own, which shows the holder that somebody waits."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: sa.Connection | None = None

    def look(self) -> Seen:
        """Raises Unreachable, and NeedsMigration for another program's journal."""
        connection, self._connection = self._connection, None
        with database_errors(self._url), ExitStack() as undo:
            if connection is None:
                connection = lock_engine(self._url).connect()
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
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
        """Let go of the connection, and be seen no more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()


@dataclass(slots=True)
class Patience:
    """Knows by a steady clock how long the same renewal has been the last."""

    _last: tuple[int, int | None] | None = None
    _since_s: float = 0.0
    _blind_s: float = -math.inf

    def is_over(self, seen: Seen, now_s: float) -> bool:
        """Take in a look; return whether its holder has stalled."""
        if (seen.epoch, seen.until_ms) != self._last:
            self._last, self._since_s = (seen.epoch, seen.until_ms), now_s
        if seen.until_ms is None or seen.now_ms < seen.until_ms:
            return False
        return now_s - self._since_s >= LEASE_LIFE_S and now_s - self._blind_s >= GRACE_S

    def saw_nothing(self, now_s: float) -> None:
        """A look has failed."""
        self._blind_s = now_s


def take(url: str, holder: Holder, seen: Seen) -> Lease:
    """Take a lease that was seen free, or whose holder has stalled.

    Raises LeaseHeld where something has happened since, and what `acquire` raises.
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

    Where the database does not let us, the epoch is enough: the old one stores nothing. But once it
    dies, a `bot run` elsewhere is not refused.
    """
    with database_errors(url):
        connection = lock_engine(url).connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            connection.execute(_TERMINATE)
            connection.execute(sa.text(f"SET lock_timeout = '{LOCK_WAIT_S}s'"))
            connection.execute(sa.select(sa.func.pg_advisory_lock(LOCK)))
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in {NO_RIGHT, _TIMED_OUT}:
                connection.close()
                raise
    return Lease(epoch, connection.close)
