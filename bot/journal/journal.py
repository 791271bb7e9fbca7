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
from bot.journal.sends import require_epoch, require_may_send
from bot.journal.tables import runs

SETTLE_TRIES: Final = 3
"""How often a new connection is tried to learn what became of a commit."""

DONE_MAX: Final = 16
"""How many writes are remembered that were done although their caller got an error."""

T = TypeVar("T")
Check = Callable[[sa.Connection], None]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit with an unknown outcome: its entries, and the counter before and after it."""

    entries: tuple[Entry, ...]
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
        self._done: deque[tuple[Entry, ...]] = deque(maxlen=DONE_MAX)
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

    async def write(self, entries: Sequence[Entry]) -> None:
        """Store all entries in one transaction; they survive a power cut once this returns.

        Raises Unreachable, Contradicted, Corrupt, or LeaseLost.
        """
        if entries:
            await self._on_thread(partial(self._store, tuple(entries)))

    async def begin_attempt(
        self, entries: Sequence[Entry], *, epoch: int, fingerprint: str
    ) -> None:
        """Store an attempt and what goes with it, if it may be sent; see `sends` for when.

        Raises SendForbidden, and what `write` raises: then nothing may be sent.
        """

        def check(connection: sa.Connection) -> None:
            require_epoch(connection, epoch)
            require_may_send(connection, entries, fingerprint)

        await self._on_thread(partial(self._store, tuple(entries), check))

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
            batch = Batch(connection, ())
            batch.add_sealed(runs, {"run_id": self._run, **facts, **heads})
            batch.store()
            return self._run

        return await self._on_thread(partial(self._change, start))

    async def end_run(self, run_id: int, reason: str, *, at: datetime) -> None:
        """Record that a run ended, and why. A run that was killed has no end."""

        def end(connection: sa.Connection) -> None:
            batch = Batch(connection, ())
            ended = {"ended_at": instant_text(at), "end_reason": reason}
            batch.change(runs, {"run_id": run_id}, ended)
            batch.store()

        await self._on_thread(partial(self._change, end))

    async def close(self) -> None:
        """Finish what is queued and let go of the database."""
        await self._on_thread(self._end)
        self._thread.shutdown()

    async def _on_thread(self, work: Callable[[], T]) -> T:
        """Run on the writer thread; a caller that is cancelled does not cut the work off."""
        done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        # Nobody waits for a failure any more when the caller has been cancelled.
        done.add_done_callback(lambda it: None if it.cancelled() else it.exception())
        return await asyncio.shield(done)

    # --------------------------------------------------------------------------- on the thread

    def _store(self, entries: tuple[Entry, ...], check: Check | None = None) -> None:
        with database_errors(self._url):
            try:
                self._transact(entries, check)
            except DBAPIError as error:
                if self._doubt is None:
                    raise
                self._settle(entries, error)

    def _transact(self, entries: tuple[Entry, ...], check: Check | None) -> None:
        with self._engine.connect() as connection:
            transaction = connection.begin()
            if self._is_stored_already(connection, entries):
                return
            self._require_lease(connection)
            if check is not None:
                check(connection)
            batch = Batch(connection, entries)
            before = batch.last_seq
            batch.store()
            self._doubt = Doubt(entries, before, batch.last_seq)
            transaction.commit()
            self._doubt = None
        self._show(batch.heads)

    def _settle(self, entries: tuple[Entry, ...], error: DBAPIError) -> None:
        """Learn on a new connection what became of a commit; return if `entries` are stored."""
        reason = reason_of(error)
        for _ in range(SETTLE_TRIES):
            try:
                with self._engine.begin() as connection:
                    is_done = self._is_stored_already(connection, entries)
            except DBAPIError as again:
                reason = reason_of(again)
                continue
            if is_done:
                return
            raise unreachable(self._url, f"the commit failed: {reason}") from error
        lost = unreachable(self._url, reason)
        raise OutcomeUnknown(
            reason, database=lost.database, host=lost.host, port=lost.port, user=lost.user
        ) from error

    def _is_stored_already(self, connection: sa.Connection, entries: tuple[Entry, ...]) -> bool:
        """Whether `entries` are a commit that was in doubt and was done.

        The doubt ends here, whoever writes next; what was done is remembered until it comes again.
        """
        if self._doubt is not None:
            doubt, last = self._doubt, lock_heads(connection)[COUNTER].last_seq
            assert last in {doubt.before, doubt.after}, "only this writer moves the counter"
            self._doubt = None
            if last == doubt.after:
                self._done.append(doubt.entries)
        if entries not in self._done:
            return False
        self._done.remove(entries)
        return True

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
