"""Paper mode as a story: the whole bot, its paper broker, and a second sandbox that stands for the
real one, all on one stepped clock.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.clock import SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.protocol.secret import Secret
from bot.runtime.activity import OneAtATime, Post, Tasks
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.timetable.schedule import Fire, Job, Report, Timetable
from bot.runtime.worlds.environment import STEPPED, Access, Driver, EnvironmentSpec
from bot.runtime.worlds.paper import PaperEnvironment
from bot.runtime.worlds.stepped import SteppedMarket, SteppedWaiter
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from tests.story import Shown, Story

ENVIRONMENT = {"BOT_BROKER__API_KEY": "ak_test_real", "BOT_BROKER__API_SECRET": "0" * 64}


@dataclass
class RealBroker:
    """The sandbox that stands for the real broker, and the clock that everybody shares."""

    sandbox: Sandbox
    clock: SimulatedClock
    ledger: Path
    requests: list[tuple[str, str]] = field(default_factory=list)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Record the request, and answer."""
        self.requests.append((scope["method"], scope["path"]))
        await self.sandbox.app(scope, receive, send)

    @property
    def access(self) -> Access:
        given = self.sandbox.credentials
        key, secret = Secret(given.api_key), Secret(given.api_secret)
        return Access("http://127.0.0.1:1", key, secret, self.app)

    def inputs(self) -> list[str]:
        """Return the kinds of lines in its own ledger made by requests."""
        kinds = [str(line["kind"]) for line in read_ledger(self.ledger)]
        return [kind for kind in kinds if kind not in {"head", "time"}]


def real_broker(script: Scenario, folder: Path, at: datetime | None = None) -> RealBroker:
    """Open the second sandbox at the start of its scenario."""
    clock = SimulatedClock(at or script.starts_at)
    ledger = folder / "real.jsonl"
    sandbox = Sandbox(script, load_rulebook(), clock=clock, wire=clock, ledger=ledger)
    return RealBroker(sandbox, clock, ledger)


class Both:
    """The two sandboxes as one thing that moves with the clock."""

    def __init__(self, sandboxes: Sequence[Sandbox]) -> None:
        self._sandboxes = sandboxes

    def next_due(self) -> datetime:
        return min(due for each in self._sandboxes if (due := each.next_due()) is not None)

    def advance(self, to: datetime) -> None:
        for each in self._sandboxes:
            each.advance(to)


class SteppedPaper(PaperEnvironment):
    """The paper environment on the second sandbox's stepped clock."""

    def __init__(self, spec: EnvironmentSpec, real: RealBroker) -> None:
        super().__init__(spec, real.access)
        self._second = real
        self._activity = spec.activity
        turn = OneAtATime()
        self._stepped = SteppedWaiter(real.clock, spec.activity, turn)
        self.market = self.wire = real.clock
        self.pace = STEPPED
        self.waiter, self.turn, self.max_concurrent = self._stepped, turn, 1
        self._tasks = Tasks(spec.activity, turn, spec.on_bug)

    def drive(self, jobs: Sequence[Job], on_due: Fire, _: Report) -> Driver:
        now = self._second.clock.now()
        return SteppedMarket(
            clock=self._second.clock,
            activity=self._activity,
            waiter=self._stepped,
            market=Both([self._second.sandbox]),
            timetable=Timetable([*jobs, self._watch_job()], now),
            on_due=on_due,
            speed=math.inf,
            is_code_out=self._second.sandbox.is_code_out,
        )

    async def watch_time(self, _post: Post) -> None:
        pass

    async def pause(self, span: timedelta) -> None:
        await self.waiter.sleep_until(self.market.now() + span)


async def tell_paper(
    config: Path,
    real: RealBroker,
    *,
    minutes: float,
    make: type[SteppedPaper] = SteppedPaper,
    **options: Any,
) -> Story:
    """Run a project in paper mode for some minutes of market time."""
    loaded = load_settings(config, environment=ENVIRONMENT)
    shown = Shown()
    run_options = RunOptions(run_for=timedelta(minutes=minutes), **options)
    try:
        end = await run_bot(loaded, run_options, shown, make=lambda spec: make(spec, real))
    finally:
        real.sandbox.close()
    return Story(end, shown, loaded)
