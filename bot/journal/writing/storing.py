"""The transactions of the writer, on its thread: several writes in each, all of them or none.

Between two transactions the store caches what the last one left (`batch.Memory`); under the lease
nobody else writes, and a transaction that finds anything else fails. A commit with an unknown
outcome is in doubt until the next transaction has checked.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from bot.clock import boottime_s
from bot.domain.entry import Entry
from bot.domain.errors import InvariantBroken, require
from bot.journal.database import tables
from bot.journal.database.connections import connect
from bot.journal.database.encoding import Plain, json_text
from bot.journal.database.engines import database_errors, is_sqlite, reason_of, unreachable
from bot.journal.database.statements import Values
from bot.journal.database.writer_connection import WriterConnection
from bot.journal.errors import JournalError, LeaseLost, OlderCopy, OutcomeUnknown, WrittenByAnother
from bot.journal.writing.batch import COUNTER, Batch, Head, Memory, lock_heads
from bot.journal.writing.heads import HeadsKeeper, accepts_damage, plain_heads
from bot.journal.writing.lease import (
    BEAT_S,
    LEASE_LIFE_S,
    LOCK,
    NAME,
    RENEW,
    WATCH,
    count_of,
    holder_in,
)
from bot.journal.writing.sends import Send

SETTLE_TRIES: Final = 3
"""How often a new connection is tried to find out what became of a commit."""

DONE_MAX: Final = 4_096
"""How many writes are remembered that were done although their caller got an error."""

_LEFT: Final = (
    sa.select(tables.lease.c.epoch, tables.chains.c.last_seq)
    .where(tables.lease.c.name == NAME, tables.chains.c.name == COUNTER)
    .with_for_update()
)

_HOLDER: Final = sa.select(tables.lease.c.pid, tables.lease.c.host, tables.lease.c.since).where(
    tables.lease.c.name == NAME
)
_LOCKS: Final = sa.select(count_of(WATCH).scalar_subquery(), count_of(LOCK).scalar_subquery())
_LAST_RUN: Final = sa.select(sa.func.max(tables.runs.c.run_id))

T = TypeVar("T")
Verdicts = tuple[str | None, ...]
"""For each send, why it may not be made, or None."""


@dataclass(frozen=True, slots=True)
class Write:
    """Entries and sends that a caller wants stored together."""

    entries: tuple[Entry, ...]
    sends: tuple[Send, ...]

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.entries) + sum(len(send.entries) for send in self.sends)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit with an unknown outcome: what it stored, and the counter before and after it."""

    done: tuple[tuple[Write, Verdicts], ...]
    before: int
    after: int


class _Undo:
    """Undoes its block on failure. Re-entrant."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._undo()


class Store:
    """The writer's side of the database. It runs on the writer's thread only."""

    def __init__(
        self, url: str, engine: sa.Engine, epoch: int | None, keeper: HeadsKeeper | None
    ) -> None:
        self.url = url
        self._engine = engine
        self._epoch = epoch
        self._keeper = keeper
        self._connection: WriterConnection | None = None
        self._memory: Memory | None = None
        self._doubt: Doubt | None = None
        self._done: deque[tuple[Write, Verdicts]] = deque(maxlen=DONE_MAX)
        self._met: list[tuple[Write, Verdicts]] = []
        """Members of `_done` repeated among the present writes."""
        self._reached = 0
        """The last entry that is known to have been stored, on whichever connection."""
        self._run: int | None = None
        self._found: dict[str, Head] | None = None
        """The ends of the chains before our first entry."""
        self._has_begun = self._is_judged = False
        self._undo = _Undo(self._take_back)
        self._is_renewed = epoch is not None and not is_sqlite(url)
        self._renewed_s = boottime_s() - BEAT_S
        """When the last renewal of the lease was requested, by the clock that counts suspension."""
        self.is_watched = False
        """Whether another bot waits for the lease, as last seen."""

    def has_begun(self) -> bool:
        """Whether the last transaction got as far as its writes."""
        return self._has_begun

    def store(self, writes: Sequence[Write]) -> list[Verdicts]:
        """Store writes in one transaction, in order; returns the verdicts of each.

        Raises Unreachable, Contradicted, Corrupt, LeaseLost or WrittenByAnother: then nothing is
        stored. Raises OutcomeUnknown if that cannot be determined: the same writes must be
        repeated.
        """

        def put(batch: Batch) -> list[Verdicts]:
            self._met, left = [], batch.last_seq
            verdicts = [self._put(batch, write) for write in writes]
            renewed_s = self._renew(batch)
            batch.finish()
            if batch.has_changed:
                done = tuple(zip(writes, verdicts, strict=True))
                self._doubt = Doubt(done, left, batch.last_seq)
            batch.connection.commit()
            self._doubt = None
            self._reached, self._renewed_s = batch.last_seq, renewed_s
            return verdicts

        self._met = []
        with database_errors(self.url):
            try:
                verdicts = self._in_transaction(put)
            except DBAPIError as error:
                if self._doubt is None or not self._has_begun:
                    if any(map(self._may_be_stored, writes)):
                        raise self._unknown(reason_of(error)) from error
                    raise
                verdicts = self._settle(writes, error)
        for met in self._met:  # their callers learn of them now, and not before
            self._done.remove(met)
        self._show([entry for write in writes for entry in write.entries])
        return verdicts

    def change(self, change: Callable[[Batch], T], entries: Sequence[Entry] = ()) -> T:
        """Make a change other than `store`'s, in its own transaction; `entries` are in it."""

        def make(batch: Batch) -> T:
            done = change(batch)
            renewed_s = self._renew(batch)
            batch.finish()
            batch.connection.commit()
            self._reached, self._renewed_s = batch.last_seq, renewed_s
            return done

        with database_errors(self.url):
            done = self._in_transaction(make)
        self._show(entries)
        return done

    def beat(self) -> bool:
        """Renew the lease unless that was just done, and check whether somebody waits for it.
        Return whether its lock is still held.
        """
        if not self._is_renewed:
            return True

        def look(batch: Batch) -> tuple[bool, bool]:
            [[watchers, holders]] = batch.connection.rows(_LOCKS, {})
            return bool(watchers), bool(holders)

        self.is_watched, is_locked = self.change(look)
        return is_locked

    def is_doubtful(self) -> bool:
        """Whether another may have the lease by now: somebody waits for it, and we could not renew
        it in time. May be called from any thread.
        """
        return self.is_watched and boottime_s() - self._renewed_s >= LEASE_LIFE_S

    def read(self, read: Callable[[sa.Connection], T]) -> T:
        """Read what is stored."""
        if self._connection is not None:
            self._connection.release()
            self._connection = None
        with database_errors(self.url), self._engine.connect() as connection:
            return read(connection)

    def start_run(self, facts: Mapping[str, Plain]) -> int:
        """Store the row of a new run, with the heads that it has found: what it took over from an
        emergency journal since is its own. From here on heads are kept.
        """

        def start(batch: Batch) -> int:
            heads = {}
            if self._keeper is not None:
                heads["heads"] = json_text(plain_heads(self._found or batch.heads))
            [[last]] = batch.connection.rows(_LAST_RUN, {})
            self._run = int(last or 0) + 1
            row = {"run_id": self._run, **facts, "epoch": self._epoch, **heads}
            batch.add_sealed(tables.runs, row)
            return self._run

        return self.change(start)

    def keep_heads(self) -> None:
        """Let a keeper that was paused go on."""
        if self._keeper is not None:
            self._keeper.resume()

    def end(self) -> None:
        """Release the database; before that, keep the last heads if they can be read and the lease
        is still ours.
        """
        if self._keeper is not None:
            is_last = False
            with suppress(JournalError, InvariantBroken):
                self.change(lambda _: None)
                is_last = True
            self._keeper.close(is_last=is_last)
        if self._connection is not None:
            self._connection.release()
        self._engine.dispose()

    # -------------------------------------------------------------------------- one transaction

    def _renew(self, batch: Batch) -> float:
        """Renew the lease in a transaction if due; return when it was last done."""
        now_s = boottime_s()
        if not self._is_renewed or now_s - self._renewed_s < BEAT_S:
            return self._renewed_s
        batch.connection.put(RENEW, {})
        return now_s

    def _put(self, batch: Batch, write: Write) -> Verdicts:
        for done in self._done:
            if done[0] == write and not any(done is met for met in self._met):
                self._met.append(done)
                return done[1]
        batch.store(write.entries)
        verdicts = []
        for send in write.sends:
            verdicts.append(batch.reason_against(send))
            if verdicts[-1] is None:
                batch.store(send.entries)
        return tuple(verdicts)

    def _may_be_stored(self, write: Write) -> bool:
        """Return whether a commit of it was done, or is in doubt."""
        doubtful = () if self._doubt is None else self._doubt.done
        return any(done[0] == write for done in (*self._done, *doubtful))

    def _in_transaction(self, work: Callable[[Batch], T]) -> T:
        """Do work that ends with a commit; do it again if it was never known to have begun, as on a
        connection that was lost since the last one: then nothing of it can be stored.
        """
        try:
            with self._transaction() as batch:
                try:
                    return work(batch)
                except (JournalError, InvariantBroken):
                    batch.connection.begin_at_last()  # our memory is wrong if another has written
                    raise
        except DBAPIError:
            if self._is_judged or not self._has_begun:
                raise
        with self._transaction() as batch:  # without a memory it begins at once
            return work(batch)

    @contextmanager
    def _transaction(self) -> Iterator[Batch]:
        """Yield a transaction that its caller has to commit; else it is rolled back."""
        self._has_begun = self._is_judged = False
        batch = self._begin_as_it_is() or self._begin(connect(self._engine))
        self._has_begun = True
        with self._undo:
            yield batch

    def _begin_as_it_is(self) -> Batch | None:
        """Begin on the existing connection; None if it has been lost."""
        connection = self._connection
        if connection is None:
            return None
        try:
            return self._begin(connection)
        except DBAPIError:
            if not connection.is_lost:
                raise
            return None

    def _begin(self, connection: WriterConnection) -> Batch:
        """Begin where the last transaction ended, or at the stored heads. If we know where it ended
        and only we may write, the database may tell with the first statement whether that is so.
        """
        self._connection = connection
        with self._undo:
            epoch = self._epoch
            left = None if self._memory is None else self._memory.last_seq
            if left is None or epoch is None or self._doubt is not None:
                epoch = self._judge(left, connection.begin(_LEFT))
            else:
                connection.begin_later(_LEFT, partial(self._judge, left))
            if self._memory is None:
                self._memory = Memory(lock_heads(connection))
                if self._found is None:
                    self._found = dict(self._memory.heads)
        return Batch(connection, self._memory, epoch)

    def _judge(self, left: int | None, rows: Sequence[Values]) -> int:
        """Judge who has the lease and which entry is the last, if we left it at `left`; return the
        epoch of the lease.
        """
        [[epoch, last]] = rows
        if self._epoch is not None and epoch != self._epoch:
            assert self._connection is not None, "it has begun on one"
            [[pid, host, since]] = self._connection.rows(_HOLDER, {})
            holder = holder_in(None if pid is None else int(pid), str(host), str(since))
            raise LeaseLost(stored=int(epoch or 0), ours=self._epoch, holder=holder)
        self._is_judged = True
        if self._epoch is not None and int(last or 0) < self._reached:
            raise OlderCopy(last=int(last or 0), reached=self._reached)
        if (doubt := self._doubt) is not None:
            found = f"entry {last} is the last after {doubt.before} or {doubt.after}"
            found += ", so the run ends, and the next one starts halted"
            require(last in {doubt.before, doubt.after}, "I17", found)  # if not, the doubt stays
            self._doubt = None
            if last == doubt.after:
                self._done.extend(doubt.done)
        self._reached = int(last or 0)
        if left is not None and left != last:
            if self._epoch is not None:
                text = f"entry {last} is the last, and {left} is what we wrote"
                raise WrittenByAnother(f"another program has written this journal: {text}")
            self._memory = None  # without a lease there may be other writers
        return int(epoch or 0)

    def _take_back(self) -> None:
        self._memory = None
        if self._connection is not None:
            self._connection.rollback()
            if self._connection.is_lost:
                self._connection = None

    def _settle(self, writes: Sequence[Write], error: DBAPIError) -> list[Verdicts]:
        """Find out on a new connection what became of a commit; return whether
        `writes` are stored.
        """
        reason = reason_of(error)
        for _ in range(SETTLE_TRIES):
            try:
                with self._transaction() as batch:
                    batch.connection.commit()
            except DBAPIError as again:
                reason = reason_of(again)
                continue
            if not self._done or self._done[-1][0] is not writes[-1]:
                raise unreachable(self.url, f"the commit failed: {reason}") from error
            return [self._done.pop()[1] for _ in writes][::-1]
        raise self._unknown(reason) from error

    def _unknown(self, reason: str) -> OutcomeUnknown:
        lost = unreachable(self.url, reason)
        return OutcomeUnknown(
            reason, database=lost.database, host=lost.host, port=lost.port, user=lost.user
        )

    def _show(self, entries: Sequence[Entry]) -> None:
        """Show the keeper the ends of the chains after a commit of these entries."""
        if self._keeper is not None and self._run is not None and self._memory is not None:
            self._keeper.see(self._run, self._epoch, dict(self._memory.heads))
            if self._keeper.is_paused and accepts_damage(entries):
                self._keeper.resume()
