"""The end of a run that has one, and of one that has none."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast

from bot.clock import Clock, SimulatedClock
from bot.domain.message import Action, OperatorActed
from bot.runtime.activity import Activity, AllAtOnce, Tasks
from bot.runtime.company import Company, RunOptions
from bot.runtime.daemon import Staff
from bot.runtime.inbox import Inbox
from bot.runtime.supervisor import Supervisor
from bot.runtime.world import World
from tests.staging import START


@dataclass
class Still:
    """A world whose time passes when somebody pauses."""

    market: Clock = field(default_factory=lambda: SimulatedClock(START))
    story_start: datetime | None = None
    pauses: list[timedelta] = field(default_factory=list)

    async def pause(self, span: timedelta) -> None:
        self.pauses.append(span)

    def finish(self) -> None:
        """Nothing is played here."""


async def _around(options: RunOptions) -> tuple[Inbox, Still]:
    """Let a run of no work go on for a while; return what it was told, and its world."""
    world, supervisor, activity = Still(), Supervisor(), Activity()
    inbox, tasks = Inbox(activity), Tasks(activity, AllAtOnce(), supervisor.fail)
    staff = cast("Staff", SimpleNamespace(inbox=inbox, tasks=tasks))

    await Company(options, cast("World", world), supervisor).around(asyncio.sleep(0.01), staff)
    return inbox, world


async def test_a_run_of_an_hour_is_asked_to_stop_when_the_hour_is_over() -> None:
    inbox, world = await _around(RunOptions(run_for=timedelta(hours=1)))

    assert inbox.has_more
    asked = await inbox.take()
    assert isinstance(asked, OperatorActed)
    assert (asked.action, asked.reason) == (Action.STOP, "the hour is over")
    assert world.pauses == [timedelta(hours=1)]


async def test_a_run_without_an_end_is_never_asked_to_stop() -> None:
    inbox, world = await _around(RunOptions())

    assert not inbox.has_more
    assert world.pauses == []
