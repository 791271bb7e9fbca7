"""The embedded broker of a drill: with its own clock, and scripted operator requests."""

import asyncio
import math
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

from bot.clock import SimulatedClock
from bot.config.problems import OperatorMistake
from bot.runtime.control.socket import NoBotRunning, ask
from bot.runtime.state_dir import LEDGER
from bot.runtime.timetable.schedule import Fire, Job, Report, Timetable
from bot.runtime.worlds.environment import Access, Driver, EnvironmentSpec
from bot.runtime.worlds.sandbox import SandboxEnvironment
from bot.runtime.worlds.stepped import SteppedMarket
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario

LOCK = "lock"
"""Not a request to the bot: another program locks the journal."""


@dataclass
class Late:
    """The sandbox on a clock that is `skew` behind the bot's."""

    sandbox: Sandbox
    clock: SimulatedClock
    skew: timedelta

    def next_due(self) -> datetime | None:
        """The next instant at which something happens in it, by the bot's clock."""
        due = self.sandbox.next_due()
        return None if due is None else due + self.skew

    def advance(self, to: datetime) -> None:
        """Process everything due up to `to` of the bot's clock."""
        to = max(to - self.skew, self.clock.now())
        self.clock.advance_to(to)
        self.sandbox.advance(to)


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody asks the bot, and how long after the start of the story."""

    after: timedelta
    request: Mapping[str, object]


@dataclass
class Asked:
    """The requests of a story, and the bot's answers: empty if it did not answer."""

    acts: Sequence[Act]
    replies: list[tuple[timedelta, Mapping[str, object]]] = field(default_factory=list)


class DrillEnvironment(SandboxEnvironment):
    """The sandbox in this process, as fast as the machine goes."""

    def __init__(
        self, spec: EnvironmentSpec, script: Scenario, skew: timedelta, asked: Asked
    ) -> None:
        theirs, ours = SimulatedClock(script.starts_at), SimulatedClock(script.starts_at + skew)
        ledger = spec.loaded.state_dir / LEDGER
        sandbox = Sandbox(script, spec.rulebook, clock=theirs, wire=theirs, ledger=ledger)
        super().__init__(
            sandbox=sandbox, clock=ours, activity=spec.activity, port=None, speed=math.inf
        )
        self.has_machines_time = bool(skew)
        self.story_start = script.starts_at + skew
        self._late = Late(sandbox, theirs, skew)
        self._spec, self._asked = spec, asked

    async def open(self, stack: AsyncExitStack) -> Access:
        """Answer in this process, and schedule the story's requests."""
        access = await super().open(stack)
        person = asyncio.create_task(self._act())

        async def leave() -> None:
            person.cancel()
            with suppress(asyncio.CancelledError):
                await person

        stack.push_async_callback(leave)
        return access

    def drive(self, jobs: Sequence[Job], on_due: Fire, _report: Report) -> Driver:
        """Advance both clocks."""
        return SteppedMarket(
            clock=self._clock,
            activity=self._activity,
            waiter=self._stepped,
            market=self._late,
            timetable=Timetable(jobs, self._clock.now()),
            on_due=on_due,
            speed=self._speed,
            is_code_out=self._sandbox.is_code_out,
        )

    async def _act(self) -> None:
        """Ask while the stepped clock stands: the request counts as under way."""
        assert self.story_start is not None
        state_dir = self._spec.loaded.state_dir
        await self.turn.take()
        self._activity.begin()
        try:
            for act in self._asked.acts:
                await self._stepped.sleep_until(self.story_start + act.after)
                reply: Mapping[str, object] = {}
                if LOCK in act.request:
                    await hold(state_dir / "journal.db", float(str(act.request[LOCK])))
                else:
                    with suppress(NoBotRunning, OperatorMistake, TimeoutError, OSError):
                        reply = await asyncio.to_thread(ask, state_dir, act.request)
                self._asked.replies.append((act.after, reply))
        finally:
            self.turn.give_back()
            self._activity.end()


async def hold(journal: Path, seconds: float) -> None:
    """Have another connection lock a journal for this long; return once it does."""
    holds, loop = Event(), asyncio.get_running_loop()

    def keep() -> None:
        with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            holds.set()
            Event().wait(seconds)
            connection.execute("rollback")

    loop.run_in_executor(None, keep)
    await loop.run_in_executor(None, holds.wait, seconds)
