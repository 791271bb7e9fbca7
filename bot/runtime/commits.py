"""The one place where the bot waits for its journal.

A commit may end in doubt: the connection was lost, and whether the database has it is not known.
It is asked until that is known, since what follows depends on it. A send whose commit was in doubt
does not leave, even when it turns out to be stored: its bytes were signed too long ago.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.domain.entry import Entry
from bot.journal.errors import OutcomeUnknown
from bot.journal.journal import Journal
from bot.journal.sends import Send

DOUBT_TRIES: Final = 3_000
DOUBT_PAUSE_S: Final = 0.1
"""How long a commit may stay in doubt: after that the run ends."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of an attempt's commit. With a `reason` nothing is sent, stored or not."""

    is_stored: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a write: the doubt that it was in, if it was, and each of its sends."""

    doubt: str
    sends: tuple[Committed, ...]


class Commits:
    """Writes to the journal, and comes back when it is known what is stored."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def write(self, entries: Sequence[Entry], sends: Sequence[Send] = ()) -> Stored:
        """Store all entries and what may leave of the sends in one transaction.

        Raises what the journal does: then nothing is stored. OutcomeUnknown only when the doubt
        lasts for minutes.
        """
        doubt: OutcomeUnknown | None = None
        for _ in range(DOUBT_TRIES):
            try:
                verdicts = await self._journal.write(entries, sends)
            except OutcomeUnknown as unknown:
                doubt = unknown
                await asyncio.sleep(DOUBT_PAUSE_S)
            else:
                why = str(doubt) if doubt else ""
                return Stored(why, tuple(Committed(no is None, no or why) for no in verdicts))
        assert doubt is not None, "only a doubt is tried again"
        raise doubt
