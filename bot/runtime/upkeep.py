"""What is done to a journal beside a run: pruning it, copying it to another database.

Either takes the lease of the one writer, so that no bot writes meanwhile; a bot that runs is never
waited for. What pruning writes is a short run of its own: heads are kept of it like of any other.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Final

from bot.clock import SystemClock
from bot.config.settings.load import Loaded
from bot.journal.copying import copy_heads, copy_rows, remove, require_empty
from bot.journal.engines import database_errors, file_of, is_sqlite, writing_engine
from bot.journal.errors import Corrupt, NotOwner
from bot.journal.heads import FILE, HeadsKeeper, KeptHeads, append_line
from bot.journal.journal import Journal
from bot.journal.lease import Lease, acquire
from bot.journal.reader import JournalReader
from bot.journal.retention import Pruned
from bot.journal.schema import check, migrate
from bot.journal.values import PRUNING
from bot.journal.verify import VerifyReport, heads_now, verify
from bot.runtime.opening import this_process
from bot.runtime.retention import prune

PASSES_MAX: Final = 10_000
"""How often a table is gone on with, each time for some thousands of rows."""


async def prune_alone(
    loaded: Loaded, before: Mapping[str, datetime], version: str, report: Callable[[str], None]
) -> list[Pruned]:
    """Delete what may go, table by table, while no bot runs. Raises LeaseHeld and what a journal
    does.
    """
    url, now = loaded.journal_url, SystemClock().now()
    with JournalReader(url) as reader:
        modes = [run.mode for run in reader.runs()]
    with lease_of(url) as lease:
        keeper = HeadsKeeper(loaded.state_dir, url, SystemClock(), report)
        journal = Journal.open(url, epoch=lease.epoch, keeper=keeper)
        try:
            mode = modes[-1] if modes else loaded.settings.mode
            facts = {"mode": mode, "version": version, "config_sha256": loaded.sha256}
            run_id = await journal.start_run(at=now, **facts)
            try:
                done = await prune(journal, before, at=now, passes=PASSES_MAX)
            except NotOwner:
                await journal.end_run(run_id, PRUNING, at=now)
                raise
            await journal.end_run(run_id, PRUNING, at=now)
        finally:
            await journal.close()
        return done


def shrink(url: str) -> int:
    """Give what SQLite has no more use for back to the disk; return by how many bytes."""
    if not is_sqlite(url):
        return 0
    before, engine = file_of(url).stat().st_size, writing_engine(url)
    try:
        with database_errors(url), engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None, "a connection of the driver's"
            raw.rollback()
            raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        engine.dispose()
    return before - file_of(url).stat().st_size


def copy_to(loaded: Loaded, target: str, step: Callable[[int], object]) -> VerifyReport:
    """Copy a journal into a new one, whole or not at all, and check it.

    Raises LeaseHeld while a bot writes either, Contradicted where the other one is not empty, and
    what a journal does.
    """
    source = loaded.journal_url
    is_new = is_sqlite(target) and not file_of(target).exists()
    with lease_of(source), ExitStack() as undo:
        if not (found := verify(source)).is_whole:
            raise Corrupt(found.problems[0])
        if is_new:
            undo.callback(remove, target)
        if is_new or check(target).found is None:
            migrate(target)
        require_empty(target)
        with lease_of(target):
            copy_rows(source, target, step)
        _keep_heads(loaded, target)
        undo.pop_all()
    return verify(target)


def _keep_heads(loaded: Loaded, target: str) -> None:
    """The copy has a name of its own: its heads belong beside those of the journal before."""
    run, epoch = copy_heads(target)
    now = heads_now(target, SystemClock().now())
    kept = KeptHeads(now.at, now.journal, run, epoch, now.heads, is_last=True)
    append_line(loaded.state_dir / FILE, kept.line)


@contextmanager
def lease_of(url: str) -> Iterator[Lease]:
    lease = acquire(url, this_process())
    try:
        yield lease
    finally:
        lease.release()
