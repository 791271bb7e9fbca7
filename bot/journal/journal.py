"""The journal as the bot writes it: one thread, whole transactions, durable on return.

If a write raises, nothing of it is stored, with one exception: `OutcomeUnknown` (the connection was
lost during the commit and the database cannot be asked). Writing the same entries again is right in
both cases: the journal first finds out whether they are stored.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from functools import partial
from typing import Final, Self

import sqlalchemy as sa

from bot.domain.entry import Entry
from bot.domain.order import RowFigures
from bot.domain.recovery import Recovery
from bot.journal.database import tables
from bot.journal.database.encoding import Plain, instant_text
from bot.journal.database.engines import (
    database_errors,
    file_of,
    is_sqlite,
    make_private_file,
    writing_engine,
)
from bot.journal.database.schema import require_schema
from bot.journal.errors import Unreachable
from bot.journal.reading.recovering import read_recovery
from bot.journal.reading.recovering_state import is_in_question
from bot.journal.upkeep.retention import Pruned, prune
from bot.journal.writing import taking_over
from bot.journal.writing.batch import Batch, Head
from bot.journal.writing.heads import HeadsKeeper
from bot.journal.writing.sends import Send
from bot.journal.writing.storing import Store, Verdicts, Write
from bot.journal.writing.thread import WriterThread

CLOSE_WAIT_S: Final = 10.0
"""How long the end of a run waits for queued work."""


class Journal:
    """The one writer of a journal. Its work is done on its thread, in call order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = WriterThread(store)

    @property
    def url(self) -> str:
        """Where it is."""
        return self._store.url

    @classmethod
    def open(cls, url: str, *, epoch: int | None = None, keeper: HeadsKeeper | None = None) -> Self:
        """Connect, and check that the schema is right.

        With `epoch` (of the lease) every write asserts that the lease is still ours. `keeper` is
        shown the ends of the chains, from the start of a run on. Raises Unreachable,
        NeedsMigration, UnusableUrl or Corrupt.
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
        return cls(Store(url, engine, epoch, keeper))

    async def write(self, entries: Sequence[Entry], sends: Sequence[Send] = ()) -> Verdicts:
        """Store all entries, and in order each send that may be made, in one transaction.

        Returns for every send why it may not be made (then nothing of it is stored), or None if it
        is stored. All of it survives a power cut once this returns. Raises Unreachable,
        Contradicted, Corrupt, LeaseLost or WrittenByAnother: then nothing is stored, and nothing
        may be sent. Other callers' writes may share the transaction, but not the verdicts.
        """
        if not (entries or sends):
            return ()
        return await self._thread.write(Write(tuple(entries), tuple(sends)))

    async def take_over(self, entries: Sequence[Entry]) -> int:
        """Store what an emergency journal has and this one lacks; return how many entries there
        were.

        Raises what `write` raises; repeating it with the same entries is safe.
        """
        taking = partial(taking_over.take_over, entries=tuple(entries))
        return await self._thread.do(partial(self._store.change, taking, entries))

    async def is_in_question(self) -> bool:
        """Return whether it was found damaged, or another's, and nobody has accepted that."""
        return await self._thread.do(partial(self._store.read, is_in_question))

    def keep_heads(self) -> None:
        """Go on keeping its heads: what was in question about it has been accepted."""
        self._store.keep_heads()

    async def probe(self) -> None:
        """Check that the database answers, after all queued work. Raises Unreachable."""
        ask = partial(self._store.read, lambda asked: asked.scalar(sa.select(1)))
        await self._thread.do(ask)

    def stalled_s(self) -> float:
        """How long the oldest unfinished work has been waiting for the database; 0 without any."""
        return self._thread.stalled_s()

    def is_away(self) -> bool:
        """Whether the database has not answered the last work, or some is waiting for it now."""
        return self._thread.is_away()

    async def beat(self) -> bool:
        """Renew the lease if another could take it; return whether its lock is still held. Raises
        what `write` raises.
        """
        return await self._thread.do(self._store.beat)

    def is_lease_doubtful(self) -> bool:
        """Whether another may have the lease, and write, by now."""
        return self._store.is_doubtful()

    def is_watched(self) -> bool:
        """Whether another bot waits for the lease, as far as was seen."""
        return self._store.is_watched

    async def recover(
        self, trading_date: date, figures_in: Callable[[str], RowFigures | None] | None = None
    ) -> Recovery:
        """Read everything from which the engine continues; `figures_in` reads a journalled row."""
        read = partial(read_recovery, trading_date=trading_date, figures_in=figures_in)
        return await self._thread.do(partial(self._store.read, read))

    async def start_run(self, *, at: datetime, mode: str, version: str, config_sha256: str) -> int:
        """Record that a run begins; returns its number, counted over the life of the journal.

        If heads are kept, its row stores those that it found: they reveal a run that continued from
        an older copy of the journal.
        """
        facts: dict[str, Plain] = {
            "mode": mode,
            "version": version,
            "config_sha256": config_sha256,
            "started_at": instant_text(at),
        }
        return await self._thread.do(partial(self._store.start_run, facts))

    async def end_run(self, run_id: int, reason: str, *, at: datetime) -> None:
        """Record that a run ended, and why. A run that was killed has no end."""
        ended: dict[str, Plain] = {"ended_at": instant_text(at), "end_reason": reason}

        def end(batch: Batch) -> None:
            batch.change(tables.runs, (run_id,), ended)

        await self._thread.do(partial(self._store.change, end))

    async def prune(
        self, name: str, *, before: datetime, at: datetime, saved: Sequence[Head] | None = None
    ) -> Pruned:
        """Delete the oldest deletable rows of a table, at most some thousands; with `saved`, the
        ends of its chain in the backups, only rows that those contain. Raises what `write` raises,
        and NotOwner.
        """
        pruning = partial(prune, name=name, before=before, at=at, saved=saved)
        return await self._thread.do(partial(self._store.change, pruning))

    async def close(self, timeout_s: float = CLOSE_WAIT_S) -> bool:
        """Finish queued work and release the database; False: that took too long.

        Work still queued then may or may not be stored.
        """
        last = self._thread.do(self._store.end, is_last=True)
        try:
            async with asyncio.timeout(timeout_s):
                await last
        except TimeoutError:
            return False
        self._thread.join(timeout_s)
        return True
