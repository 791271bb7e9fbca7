"""Keeps a journal small: deletes old rows, shrinks it, and copies it elsewhere.

`journal.keep` says what is old, and a run deletes that at the close of each day; if none came to
one, at the next start outside trading hours. Outside a run, a journal can be pruned, shrunk or
copied to another database: that takes the writer's lease, so that no bot writes meanwhile, and it
never waits for a running bot. Pruning is written as a short run of its own, with heads like any
other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.settings.model import KeepSettings
from bot.domain.entry import PRUNED_NOTE, Note
from bot.domain.hours import Hours
from bot.domain.message import Noted
from bot.journal.database.engines import database_errors, file_of, is_sqlite, writing_engine
from bot.journal.database.schema import check, migrate
from bot.journal.errors import Corrupt, JournalError, NeedsMigration, NotOwner
from bot.journal.journal import Journal
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import PRUNING
from bot.journal.upkeep.copying import Saved, copy_rows, remove, require_empty, saved_in
from bot.journal.upkeep.retention import Pruned
from bot.journal.upkeep.verify import VerifyReport, heads_now, verify
from bot.journal.writing.heads import FILE, HeadsKeeper, append_line, label_of
from bot.journal.writing.lease import Lease, acquire, lock
from bot.journal.writing.thread import in_time
from bot.runtime.damage import doubts_about
from bot.runtime.journal_file import this_process

PASSES_A_CLOSE: Final = 40
"""How often a table is continued at one close, each time for some thousands of rows."""
DONE_BEFORE: Final = timedelta(minutes=2)
"""How long before the opening it has to begin at a start, to be done by then."""
BACKUPS_S: Final = 10.0
"""How long the folder of backups may take to answer; it may be on another machine."""
TO_BACK_UP: Final = "Now and then: bot journal backup"
BY_THE_OWNER: Final = (
    "as the owner, while no bot runs: BOT_JOURNAL__URL=… bot journal prune --backup FILE"
)
_ANOTHER: Final = (
    "a bot of another version writes this journal, and nothing was changed. First: bot stop"
)
PASSES_MAX: Final = 10_000
"""How often a table is continued, each time for some thousands of rows."""


class Retention:
    """At the close of a day, deletes what is too old, and reports it on one line.

    With a folder of `backups`, only what is in one of them.
    """

    def __init__(
        self,
        journal: Journal,
        keep: KeepSettings,
        post: Callable[[Noted], object],
        backups: Path | None = None,
    ) -> None:
        self._journal = journal
        self._keep = keep
        self._post = post
        self._backups = backups

    async def at_close(self, at: datetime) -> None:
        """Delete what is due. If the journal cannot be written, it is tried again at the next
        close.
        """
        try:
            saved = None
            if (folder := self._backups) is not None:
                saved = await in_time(lambda: saved_in(folder, self._journal.url), BACKUPS_S)
            before = cuts(self._keep, at)
            done = await prune(self._journal, before, at=at, passes=PASSES_A_CLOSE, saved=saved)
        except NotOwner as error:
            self._say(at, f"old rows stay, for {error}: {BY_THE_OWNER}")
        except (JournalError, OSError, TimeoutError) as error:
            why = str(error) or f"{self._backups} does not answer"
            self._say(at, f"old rows stay until the next close: {why}")
        else:
            for text in self._told(done):
                self._say(at, text)

    async def at_start(self, at: datetime, hours: Hours | None) -> None:
        """Make up for the close of an earlier day that no run has come to, unless orders are taken
        now or soon, or the journal is in question. `hours` are those under way, else the next ones.
        """
        if hours is not None and hours.opens <= at + DONE_BEFORE:
            return
        try:
            is_in_question = await self._journal.is_in_question()
        except JournalError as error:
            self._say(at, f"old rows stay until the next close: {error}")
            return
        if not is_in_question:
            await self.at_close(at)

    def _told(self, done: Sequence[Pruned]) -> Iterator[str]:
        deleted = [f"{each.deleted:,} rows of {each.table}" for each in done if each.deleted]
        if deleted:
            more = "; more at the next close" if any(each.has_more for each in done) else ""
            yield f"deleted by journal.keep: {', '.join(deleted)}{more}"
        unsaved = [f"{each.unsaved:,} rows of {each.table}" for each in done if each.unsaved]
        if unsaved:
            rows = ", ".join(unsaved)
            yield f"{rows} are due and stay: no backup in {self._backups} holds them. {TO_BACK_UP}"

    def _say(self, at: datetime, text: str) -> None:
        self._post(Noted(at, Note(at, PRUNED_NOTE, text)))


async def prune(
    journal: Journal,
    before: Mapping[str, datetime],
    *,
    at: datetime,
    passes: int,
    saved: Saved | None = None,
) -> list[Pruned]:
    """Delete what may go from each table, in at most so many batches of some thousands of rows."""
    done = []
    for name, cut in before.items():
        ends = None if saved is None else saved.get(name, ())
        found = Pruned(name, 0, 0)
        for _ in range(passes):
            part = await journal.prune(name, before=cut, at=at, saved=ends)
            found = replace(part, deleted=found.deleted + part.deleted, size=found.size + part.size)
            if not part.has_more:
                break
        done.append(found)
    return done


def cuts(keep: KeepSettings, now: datetime) -> dict[str, datetime]:
    """Return the time before which each table's rows are deleted; tables kept for
    ever are omitted.
    """
    days = {
        "decisions": keep.decisions,
        "order_results": keep.order_results,
        "account_snapshots": keep.account_snapshots,
        "notes": keep.notes,
    }
    return {name: now - timedelta(days=count) for name, count in days.items() if count}


async def prune_alone(
    loaded: Loaded, before: Mapping[str, datetime], version: str, report: Callable[[str], None]
) -> list[Pruned]:
    """Delete what may go, table by table, while no bot runs. Raises LeaseHeld, OperatorMistake for
    a journal that a start would hold, and what a journal raises.
    """
    require_undoubted(loaded, "nothing was deleted")
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
            finally:  # a run without an end counts as killed, and a few of those halt the next one
                await journal.end_run(run_id, PRUNING, at=now)
        finally:
            await journal.close()
        return done


def migrate_alone(url: str) -> None:
    """Create a journal or bring it up to date, while no bot runs; one that is up to date is left
    alone. Raises LeaseHeld, OperatorMistake for a bot whose program is another one, and what
    `migrate` raises.
    """
    with ExitStack() as stack:
        if not is_sqlite(url) or file_of(url).exists():
            if check(url).is_current:
                return
            try:
                stack.callback(lock(url))
            except NeedsMigration as error:
                raise OperatorMistake.of("E-DB-004", _ANOTHER, ExitCode.NOT_RUNNING) from error
        migrate(url)


def shrink(url: str) -> int:
    """Return unused SQLite space to the disk; return how many bytes."""
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
    """Copy a journal into a new one, completely or not at all, and verify it.

    Raises LeaseHeld while a bot writes either, Contradicted if the target is not empty,
    OperatorMistake if a start would hold the journal, the copy is not whole or its heads can't be
    kept, and what a journal raises.
    """
    source = loaded.journal_url
    is_new = is_sqlite(target) and not file_of(target).exists()
    with lease_of(source), ExitStack() as undo:
        if not (found := verify(source)).is_whole:
            raise Corrupt(found.problems[0])
        require_undoubted(loaded, "nothing was copied")
        if is_new:
            undo.callback(remove, target)
        if is_new or check(target).found is None:
            migrate(target)
        require_empty(target)
        with lease_of(target):
            _keep_heads(loaded, target)  # it may fail, and a commit can't be undone
            copy_rows(source, target, step)
        if not (copied := verify(target)).is_whole:
            text = (
                f"the copy is not whole: {copied.problems[0]}. Do not set journal.url to it: copy "
                "again into an empty database"
            )
            raise OperatorMistake.of("E-JNL-001", text, ExitCode.DIFFERS)
        undo.pop_all()
    return copied


def require_undoubted(loaded: Loaded, undone: str) -> None:
    """Raise OperatorMistake for a journal that the next start would hold, as an older copy: upkeep
    stores its heads, and by them that start would take it for the newest one.
    """
    if doubts := doubts_about(loaded.journal_url, loaded.state_dir):
        text = (
            f"{undone}, as the next start would hold this journal: {doubts[0]}. Put the right one "
            "back; or start the bot on this one, which sends nothing until you have compared it "
            "(bot reconcile) and accepted it: bot reconcile --accept JOURNAL --reason TEXT"
        )
        raise OperatorMistake.of("E-JNL-002", text, ExitCode.DIFFERS)


def _keep_heads(loaded: Loaded, target: str) -> None:
    """The copy has its own name and the same heads, so store them beside those of the original."""
    now, file = heads_now(loaded.journal_url, SystemClock().now()), loaded.state_dir / FILE
    try:
        append_line(file, replace(now, journal=label_of(target), is_last=True).line)
    except OSError as error:
        text = (
            f"nothing was copied: the heads of the copy can't be kept in {file} "
            f"({error.strerror or error}). See whose that file is, and the room on its disk"
        )
        raise OperatorMistake.of("E-JNL-005", text, ExitCode.USAGE) from error


@contextmanager
def lease_of(url: str) -> Iterator[Lease]:
    lease = acquire(url, this_process())
    try:
        yield lease
    finally:
        lease.release()
