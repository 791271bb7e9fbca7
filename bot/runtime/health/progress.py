"""Whether the bot gets on with its work, which is more than being alive.

It does while something is finished between two looks: an event went through the engine and its
rows into the journal, or the journal answered (a refusal is an answer: then the bot is degraded,
and says so). Where nothing is waiting to be done, the journal is asked whether it is there. So a
loop that spins, a journal that hangs with work before it, and a strategy that does not come back
are all found out: none of them finishes anything.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.clock import boottime_s
from bot.journal.errors import JournalError

PROBE_S: Final = 2.0
"""How long the journal of a bot without work may take to answer."""


@dataclass(frozen=True, slots=True)
class Work:
    """What can be counted of the bot's work.

    `finished`: events handled and answers of the journal so far; `waiting`: events that wait or are
    being stored; `probe` asks the journal.
    """

    finished: Callable[[], int]
    waiting: Callable[[], int]
    probe: Callable[[], Awaitable[None]]


class Progress:
    """Looks, now and then, whether anything was finished since the last look."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.probe_s = PROBE_S
        self._finished = -1
        self._probing: asyncio.Task[None] | None = None
        self.seen_s = boottime_s()
        """When it last got on."""
        self.objection = ""
        """Why it does not get on, in words; empty while it does."""

    async def look(self) -> bool:
        """Look once; say whether it gets on."""
        finished, waiting = self._work.finished(), self._work.waiting()
        if finished != self._finished:
            self.objection = ""
        elif waiting:
            events = f"{waiting:,} event{'s wait' if waiting > 1 else ' waits'}"
            self.objection = f"{events} and nothing is finished"
        elif await self._is_answered():
            self.objection = ""
        else:
            self.objection = "the journal does not answer"
        self._finished = finished
        if not self.objection:
            self.seen_s = boottime_s()
        return not self.objection

    async def _is_answered(self) -> bool:
        """Ask the journal. One that hangs has one question of ours before it, and no more."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())
        await asyncio.wait({self._probing}, timeout=self.probe_s)
        return self._probing.done()

    async def _probe(self) -> None:
        with suppress(JournalError):  # what a refusal means is seen to where something is written
            await self._work.probe()
