"""The live loop: one event at a time, in this order, always the same.

take an event ─► engine decides ─► its records are committed ─► they are shown ─► its commands start

Nothing is shown or sent before it is in the journal. While the journal can't be written the loop
waits and says so: no order leaves, nothing is forgotten, and it goes on by itself. What a command
raises while it is started is a fault, and the next event: the other commands are started.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from bot.domain.entry import Entry
from bot.domain.message import Command, FaultFound, Record
from bot.engine.engine import Engine, Guard
from bot.journal.errors import Unreachable
from bot.journal.journal import Journal
from bot.runtime.activity import TimeSlice
from bot.runtime.inbox import Inbox, Urgency
from bot.runtime.pulse import Trouble
from bot.runtime.worlds.environment import Mark

JOURNAL_RETRY_S: Final = 2.0

Show = Callable[[Entry], None]
CarryOut = Callable[[Command], object]


class LiveLoop:
    """Feeds the engine and carries its commands out. `wake_at` hears of its next deadline."""

    def __init__(
        self,
        *,
        engine: Engine,
        journal: Journal,
        inbox: Inbox,
        time_slice: TimeSlice,
        carry_out: CarryOut,
        guard: Guard,
        wake_at: Callable[[datetime | None], None],
        mark: Mark,
        show: Sequence[Show],
        trouble: Trouble,
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._inbox = inbox
        self._slice = time_slice
        self._at = datetime.min.replace(tzinfo=UTC)
        self._carry_out = carry_out
        self._guard = guard
        self._wake_at = wake_at
        self._mark = mark
        self._show = show
        self._trouble = trouble

    async def run(self, stopped: asyncio.Event) -> None:
        """Handle events until `stopped` is set (by the StopRunning command)."""
        while not stopped.is_set():
            if not (self._engine.is_behind or self._inbox.has_more):
                await self._inbox.arrival()
                self._slice.begin()
            await self.step()
            await self._slice.give_way()

    async def step(self) -> None:
        """Take one event all the way through, or hooks that the one before has left due."""
        event = self._inbox.take(Urgency.OPERATOR if self._engine.is_behind else Urgency.MARKET)
        try:
            if event is None:
                await self._carry(self._engine.go_on())
            else:
                self._at = event.at
                await self._carry(self._engine.handle(event))
        finally:
            if event is not None:
                self._inbox.done()

    async def _carry(self, commands: Sequence[Command]) -> None:
        entries = [self._mark(command.entry) for command in commands if isinstance(command, Record)]
        if entries:
            await self._commit(entries)
            self._slice.begin()
            for entry in entries:
                for show in self._show:
                    show(entry)
        for command in commands:
            if isinstance(command, Record):
                continue
            fault = self._guard(partial(self._carry_out, command))
            if fault is not None:
                self._inbox.post(FaultFound(self._at, type(command).__name__, fault))
        self._wake_at(self._engine.next_due())

    async def _commit(self, entries: Sequence[Entry]) -> None:
        while True:
            try:
                await self._journal.write(entries)
                self._trouble.end()
                return
            except Unreachable as error:
                self._trouble.begin(f"the journal can't be written, nothing is sent: {error}")
                await asyncio.sleep(JOURNAL_RETRY_S)
