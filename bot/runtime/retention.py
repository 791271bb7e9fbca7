"""What of a journal goes when it is old: `journal.keep`, at the close of each day."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bot.config.settings.model import KeepSettings
from bot.domain.entry import Note
from bot.domain.message import Noted
from bot.journal.copying import Saved, saved_in
from bot.journal.errors import JournalError, NotOwner
from bot.journal.journal import Journal
from bot.journal.retention import PRUNED, Pruned
from bot.journal.thread import in_time

PASSES_A_CLOSE: Final = 10
"""How often a table is gone on with at a close, each time for some thousands of rows."""
BACKUPS_S: Final = 10.0
"""How long the folder of backups may take to answer; it may lie on another machine."""
TO_BACK_UP: Final = "Now and then: bot journal backup"
BY_THE_OWNER: Final = (
    "as the owner, while no bot runs: BOT_JOURNAL__URL=… bot journal prune --backup FILE"
)


class Retention:
    """Deletes at the close of a day what is older than it may be, and says so in one line.

    With a folder of `backups`, only what one of those holds.
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
        """Delete what is due. A journal that can't be written is tried at the next close."""
        try:
            saved = None
            if (folder := self._backups) is not None:
                saved = await in_time(lambda: saved_in(folder), BACKUPS_S)
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
        self._post(Noted(at, Note(at, PRUNED, text)))


async def prune(
    journal: Journal,
    before: Mapping[str, datetime],
    *,
    at: datetime,
    passes: int,
    saved: Saved | None = None,
) -> list[Pruned]:
    """Delete what may go of each table, at most so many times some thousands of rows."""
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
    """Before when the rows of each table go; a table that keeps them for ever is left out."""
    days = {
        "decisions": keep.decisions,
        "order_results": keep.order_results,
        "account_snapshots": keep.account_snapshots,
        "notes": keep.notes,
    }
    return {name: now - timedelta(days=count) for name, count in days.items() if count}
