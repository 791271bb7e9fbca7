"""The journal as the bot writes it: one thread, one transaction for each write, durable on return.

Whatever a write raises, nothing of it is stored, with one exception: `OutcomeUnknown` (the
connection was lost during the commit and the database can't be asked). Writing the same entries
again is right in both cases: the journal first finds out whether they are there.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Final, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from bot.clock import monotonic_s
from bot.domain.entry import Entry
from bot.domain.recovery import Recovery
from bot.journal.batch import COUNTER, Batch, lock_heads, read_heads
from bot.journal.encoding import Plain, instant_text, json_text
from bot.journal.engines import (
    database_errors,
    file_of,
    is_sqlite,
    make_private_file,
    reason_of,
    unreachable,
    writing_engine,
)
from bot.journal.errors import JournalError, OutcomeUnknown, Unreachable
from bot.journal.heads import Heads, HeadsKeeper, plain_heads
from bot.journal.recovering import read_recovery
from bot.journal.schema import require_schema
from bot.journal.sends import Send, reason_against, require_epoch
from bot.journal.tables import runs

SETTLE_TRIES: Final = 3
"""How often a new connection is tried to learn what became of a commit."""

DONE_MAX: Final = 16
"""How many writes are remembered that were done although their caller got an error."""

T = TypeVar("T")
Verdicts = tuple[str | None, ...]
"""Of each send, why it may not leave, or None."""


@dataclass(frozen=True, slots=True)
class Write:
    """What a caller wants stored together."""

    entries: tuple[Entry, ...]
    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit with an unknown outcome: what it stored, and the counter before and after it."""

    write: Write
    verdicts: Verdicts
    before: int
    after: int


class Journal:
    """The one writer of a journal. All methods but `open` run on its thread."""

    def __init__(
        self, url: str, engine: sa.Engine, epoch: int | None, keeper: HeadsKeeper | None
    ) -> None:
        self._url = url
        self._engine = engine
        self._epoch = epoch
        self._keeper = keeper
        self._run: int | None = None
        self._doubt: Doubt | None = None
        self._done: deque[tuple[Write, Verdicts]] = deque(maxlen=DONE_MAX)
        self._waiting: deque[float] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")

    @classmethod
    def open(cls, url: str, *, epoch: int | None = None, keeper: HeadsKeeper | None = None) -> Self:
        """Connect, and check that the schema is right.

        With `epoch` (of the lease) every write asserts that the lease is still ours. `keeper` is
        shown where the chains end, from the start of a run on. Raises Unreachable, NeedsMigration,
        UnusableUrl or Corrupt.
        """
        if is_sqlite(url):
            if not file_of(url).is_file():
                raise Unreachable("no such file", database=str(file_of(url)))
            make_private_file(file_of(url))
        engine = writing_engine(url)
        with ExitStack() as undo:
            undo.callback(engine.dispose)
            with database_errors(url), engine.connect() as connection:
                require_schema(connection)
            undo.pop_all()
        return cls(url, engine, epoch, keeper)

    async def write(self, entries: Sequence[Entry], sends: Sequence[Send] = ()) -> Verdicts:
        """Store all entries, and in order each send that may leave, in one transaction.

        Returns for every send why it may not leave (then nothing of it is stored), or None: it is
        stored. All of it survives a power cut once this returns. Raises Unreachable, Contradicted,
        Corrupt, or LeaseLost: then nothing is stored, and nothing may be sent.
        """
        wanted = Write(tuple(entries), tuple(sends))
        if not (wanted.entries or wanted.sends):
            return ()
        return await self._on_thread(partial(self._store, wanted))

    def stalled_s(self) -> float:
        """How long the oldest unfinished work has been waiting for the database; 0 with none."""
        return monotonic_s() - self._waiting[0] if self._waiting else 0.0

    async def recover(self, trading_date: date) -> Recovery:
        """Read everything that the engine goes on from."""

        def read() -> Recovery:
            with database_errors(self._url), self._engine.connect() as connection:
                return read_recovery(connection, trading_date)

        return await self._on_thread(read)

    async def start_run(self, *, at: datetime, mode: str, version: str, config_sha256: str) -> int:
        """Record that a run begins; returns its number, counted over the life of the journal.

        Where heads are kept, its row has those that it finds: an older copy of the journal, from
        which a run goes on, is known by them.
        """
        facts: dict[str, Plain] = {
            "mode": mode,
            "version": version,
            "config_sha256": config_sha256,
            "started_at": instant_text(at),
            "epoch": self._epoch,
        }

        def start(connection: sa.Connection) -> int:
            heads = {}
            if self._keeper is not None:
                heads["heads"] = json_text(plain_heads(lock_heads(connection)))
            last = connection.execute(sa.select(sa.func.max(runs.c.run_id))).scalar() or 0
            self._run = int(last) + 1
            batch = Batch(connection)
            batch.add_sealed(runs, {"run_id": self._run, **facts, **heads})
            batch.finish()
            return self._run

        return await self._on_thread(partial(self._change, start))

    async def end_run(self, run_id: int, reason: str, *, at: datetime) -> None:
        """Record that a run ended, and why. A run that was killed has no end."""

        def end(connection: sa.Connection) -> None:
            batch = Batch(connection)
            ended = {"ended_at": instant_text(at), "end_reason": reason}
            batch.change(runs, {"run_id": run_id}, ended)
            batch.finish()

        await self._on_thread(partial(self._change, end))

    async def close(self) -> None:
        """Finish what is queued and let go of the database."""
        await self._on_thread(self._end)
        self._thread.shutdown()

    async def _on_thread(self, work: Callable[[], T]) -> T:
        """Run on the writer thread; a caller that is cancelled does not cut the work off."""
        done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._waiting.append(monotonic_s())
        done.add_done_callback(self._finish)
        return await asyncio.shield(done)

    def _finish(self, done: asyncio.Future[T]) -> None:
        self._waiting.popleft()
        # Nobody waits for a failure any more when the caller has been cancelled.
        if not done.cancelled():
            done.exception()

    # --------------------------------------------------------------------------- on the thread

    def _store(self, write: Write) -> Verdicts:
        with database_errors(self._url):
            try:
                return self._transact(write)
            except DBAPIError as error:
                if self._doubt is None:
                    raise
                return self._settle(write, error)

    def _transact(self, write: Write) -> Verdicts:
        with self._engine.connect() as connection:
            transaction = connection.begin()
            if (stored := self._stored_already(connection, write)) is not None:
                return stored
            self._require_lease(connection)
            batch = Batch(connection)
            before = batch.last_seq
            batch.store(write.entries)
            verdicts = []
            for send in write.sends:
                verdicts.append(reason_against(connection, send))
                if verdicts[-1] is None:
                    batch.store(send.entries)
            batch.finish()
            done = tuple(verdicts)
            if batch.last_seq == before:
                return done
            self._doubt = Doubt(write, done, before, batch.last_seq)
            transaction.commit()
            self._doubt = None
        self._show(batch.heads)
        return done

    def _settle(self, write: Write, error: DBAPIError) -> Verdicts:
        """Learn on a new connection what became of a commit; return if `write` is stored."""
        reason = reason_of(error)
        for _ in range(SETTLE_TRIES):
            try:
                with self._engine.begin() as connection:
                    stored = self._stored_already(connection, write)
            except DBAPIError as again:
                reason = reason_of(again)
                continue
            if stored is not None:
                return stored
            raise unreachable(self._url, f"the commit failed: {reason}") from error
        lost = unreachable(self._url, reason)
        raise OutcomeUnknown(
            reason, database=lost.database, host=lost.host, port=lost.port, user=lost.user
        ) from error

    def _stored_already(self, connection: sa.Connection, write: Write) -> Verdicts | None:
        """The verdicts of a write that was in doubt and was done.

        The doubt ends here, whoever writes next; what was done is remembered until it comes again.
        """
        if self._doubt is not None:
            doubt, last = self._doubt, lock_heads(connection)[COUNTER].last_seq
            assert last in {doubt.before, doubt.after}, "only this writer moves the counter"
            self._doubt = None
            if last == doubt.after:
                self._done.append((doubt.write, doubt.verdicts))
        for done in self._done:
            if done[0] == write:
                self._done.remove(done)
                return done[1]
        return None

    def _change(self, change: Callable[[sa.Connection], T]) -> T:
        with database_errors(self._url), self._engine.begin() as connection:
            self._require_lease(connection)
            done, heads = change(connection), read_heads(connection)
        self._show(heads)
        return done

    def _require_lease(self, connection: sa.Connection) -> None:
        if self._epoch is not None:
            require_epoch(connection, self._epoch)

    def _show(self, heads: Heads) -> None:
        """Let the keeper see where the chains end after a commit."""
        if self._keeper is not None and self._run is not None:
            self._keeper.see(self._run, self._epoch, heads)

    def _end(self) -> None:
        """Let go; before, keep the last heads, if they can be read and the lease is still ours."""
        if self._keeper is not None:
            is_last = False
            with suppress(JournalError):
                self._change(lambda _: None)
                is_last = True
            self._keeper.close(is_last=is_last)
        self._engine.dispose()
