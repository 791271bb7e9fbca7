"""The world of one simulated run: the sandbox behind its faults, a clock that is off, a person who
acts, a stranger who trades by hand, and a trap that kills the process.
"""

import asyncio
import gc
import json
import math
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import Pool

from bot.broker.link import AsgiApp
from bot.clock import SimulatedClock
from bot.config.scenario_file import load_scenario
from bot.domain.operations import ClockStepped, StoodStill
from bot.drill.environment import Late
from bot.engine import indicators
from bot.engine.state import State
from bot.runtime.activity import AllAtOnce, Post
from bot.runtime.control.socket import SOCKET, control_folder
from bot.runtime.inbox import BY_URGENCY
from bot.runtime.state_dir import LEDGER
from bot.runtime.timetable.schedule import Fire, Job, Report, Timetable
from bot.runtime.worlds.environment import STEPPED, Access, Driver, EnvironmentSpec
from bot.runtime.worlds.stepped import SteppedMarket, SteppedWaiter
from bot.sandbox.house.ledger import resumed_at
from bot.sandbox.library.library import Library
from bot.sandbox.sandbox import Sandbox
from tests.by_hand import place_elsewhere
from tests.engine.plain_scan import require_equal
from tests.simulation.machine import Disk
from tests.simulation.plan import (
    DISK_HANGS,
    SKEW_S_MAX,
    STOOD_STILL,
    STRANGER,
    WALL_STEPPED,
    Act,
    Plan,
)
from tests.story import InProcessEnvironment

KILLED: Final = 137
DETOUR_MAX: Final = 12
LOADED_LATE: Final = (Library, indicators)
"""What a run loads when it first asks for it: here once, instead of in every child."""
BY_HAND: Final = "by_hand.jsonl"
"""The ids of the orders that a stranger placed, a line each."""
STRUCK: Final = "struck.txt"
"""What struck that is no rule of the sandbox, a line each time."""

WALL: Final = "wall.txt"
"""By how many seconds the wall clock was set, a line each time."""


scenario_of = lru_cache(maxsize=4)(load_scenario)
"""Reads a scenario; it is the same in all runs of a story."""


def skew_of(plan: Plan, state_dir: Path) -> timedelta:
    """Return how far the bot's clock is off when a run begins, after all that was set before.

    An hour is more than any run here could work with: by the next start somebody has seen it.
    """
    steps = Path(state_dir, WALL).read_text().split() if Path(state_dir, WALL).exists() else ()
    begun = 0 if "skew" in plan.left_out else plan.skew.total_seconds()
    kept = (each for each in map(int, steps) if abs(each) < SKEW_S_MAX)
    off = begun + sum(kept)
    return timedelta(seconds=max(-SKEW_S_MAX, min(SKEW_S_MAX, off)))


@dataclass
class Trap:
    """Kills the process at its `at`th step; never when `at` is 0."""

    at: int
    steps: int = 0

    def step(self, *_: object) -> None:
        self.steps += 1
        if self.steps == self.at:
            os._exit(KILLED)

    def watch_commits(self) -> None:
        """Step before each commit, and after it when its connection comes back."""
        sa.event.listen(sa.Engine, "commit", self.step)
        sa.event.listen(Pool, "checkin", self.step)

    def around(self, app: AsgiApp) -> AsgiApp:
        """Step before and after each request."""

        async def stepping(*call: object) -> None:
            self.step()
            await app(*call)
            self.step()

        return stepping


class Scanned:
    """A driver that compares the engine's index with a plain scan after every event.

    A run hands its engine to nobody; in a child that has one run it is the one State there is.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._states: list[State] = []

    def wake_at(self, instant: datetime | None) -> None:
        """The loop says so when it has carried out what came of an event."""
        if not self._states:
            # All objects would be too many: a tuple that the journal's thread is making breaks.
            self._states = [one for one in gc.get_referrers(State) if isinstance(one, State)]
            assert self._states, "an object refers to its class"
        for state in self._states:
            require_equal(state)
        self._driver.wake_at(instant)

    async def run(self, stopping: asyncio.Event) -> None:
        await self._driver.run(stopping)


class Simulated(InProcessEnvironment):
    """The environment of one run. `Simulated.around` a plan and a trap gives what makes it."""

    def __init__(
        self, spec: EnvironmentSpec, plan: Plan, trap: Trap, dice: Random, down: timedelta
    ) -> None:
        settings, self._plan, self._trap, self._dice = spec.loaded.settings, plan, trap, dice
        script = scenario_of(settings.sandbox.scenario, spec.loaded.base_dir)
        ledger = spec.loaded.state_dir / LEDGER
        theirs = SimulatedClock((resumed_at(ledger) or script.starts_at) + down)
        sandbox = Sandbox(script, spec.rulebook, clock=theirs, wire=theirs, ledger=ledger)
        skew = skew_of(plan, spec.loaded.state_dir)
        ours = SimulatedClock(theirs.now() + skew)
        super().__init__(sandbox, ours, spec)
        self._late = Late(sandbox, theirs, skew)
        self.has_machines_time = bool(skew)
        self.story_start = script.starts_at + skew
        if plan.is_crowded:
            self._stepped = SteppedWaiter(ours, spec.activity, AllAtOnce())
            self.turn, self.waiter, self.max_concurrent = AllAtOnce(), self._stepped, None
            # As in live, too, what is urgent overtakes; a batch is one hook, or all that waits.
            self.pace = replace(STEPPED, ranking=BY_URGENCY, slice_s=dice.choice([0, math.inf]))
        self._people = People(self, spec, plan, self._late)

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        assert access.app is not None
        stack.push_async_callback(self._people.leave)
        self._people.come()
        app = self._winding(access.app) if self._plan.is_crowded else access.app
        return replace(access, app=self._trap.around(app))

    def drive(self, jobs: Sequence[Job], on_due: Fire, _report: Report) -> Driver:
        market = SteppedMarket(
            clock=self._clock,
            activity=self._activity,
            waiter=self._stepped,
            market=self._late,
            timetable=Timetable(jobs, self._clock.now()),
            on_due=on_due,
            speed=math.inf,
            is_code_out=self._sandbox.is_code_out,
        )
        return Scanned(market) if self._plan.is_scanned else market

    async def watch_time(self, post: Post) -> None:
        """What the machine's time does is in the plan."""
        self._people.post = post

    def _winding(self, app: AsgiApp) -> AsgiApp:
        """Answers go ways of different length, so that they overtake one another."""

        async def winding(*call: object) -> None:
            for _ in range(self._dice.randint(0, DETOUR_MAX)):
                await asyncio.sleep(0)
            await app(*call)
            for _ in range(self._dice.randint(0, DETOUR_MAX)):
                await asyncio.sleep(0)

        return winding


@dataclass
class People:
    """Whoever acts on a run from outside, each at a time of the story."""

    environment: Simulated
    spec: EnvironmentSpec
    plan: Plan
    late: Late
    post: Post | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def come(self) -> None:
        """Have everybody wait for the time to act; what is past was done by an earlier run."""
        start = self.environment.market.now()
        for number, act in enumerate(self.plan.acts):
            at = self.plan.at(act.at_s)
            if at > start and f"a{number}" not in self.plan.left_out:
                self.tasks.append(asyncio.create_task(self._wait(at, act)))

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _wait(self, at: datetime, act: Act) -> None:
        """Act while the stepped clock stands: what is asked counts as under way."""
        environment, activity = self.environment, self.spec.activity
        await environment.turn.take()
        activity.begin()
        try:
            await environment.waiter.sleep_until(at)
            await self._act(act)
        finally:
            environment.turn.give_back()
            activity.end()

    async def _act(self, act: Act) -> None:
        do: Callable[[Mapping[str, Any]], Any] = getattr(self, f"_{act.name}", self._plainly)
        facts = act.facts if do != self._plainly else {"do": act.name}
        await do(facts)

    async def _plainly(self, facts: Mapping[str, Any]) -> None:
        await self._ask({"reason": "in the plan", **facts})

    async def _pause_and_cancel(self, _: Mapping[str, Any]) -> None:
        await self._ask({"do": "pause", "reason": "in the plan", "cancel_open": True})

    async def _cancel_all(self, _: Mapping[str, Any]) -> None:
        await self._ask({"do": "cancel", "all": True})

    async def _cancel_newest(self, _: Mapping[str, Any]) -> None:
        if (order := await self._newest()) is not None:
            await self._ask({"do": "cancel", "order_id": order["order_id"]})

    async def _amend_newest(self, facts: Mapping[str, Any]) -> None:
        if (order := await self._newest()) is not None:
            quantity = int(str(order["quantity"])) + facts["by"]
            await self._ask({"do": "modify", "order_id": order["order_id"], "quantity": quantity})

    async def _newest(self) -> Mapping[str, Any] | None:
        found = (await self._ask({"do": "status"})).get("status")
        orders = found.get("open_orders", []) if isinstance(found, dict) else []
        ours = [order for order in orders if order["intent_id"] is not None]
        return ours[-1] if ours else None

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask at the control socket; a bot that has none yet, or none any more, is not asked."""
        try:
            with control_folder(self.spec.loaded.state_dir) as folder:
                reader, writer = await asyncio.open_unix_connection(str(folder / SOCKET))
        except OSError:
            return {}
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        found = json.loads(line or b"{}")
        return found if isinstance(found, dict) else {}

    # ------------------------------------------------------------------------ strangers, machine

    async def _manual(self, facts: Mapping[str, Any]) -> None:
        """Somebody places an order in the broker's own app."""
        self.place_by_hand(facts["symbol"], facts["side"], facts["quantity"], facts["limit"])

    async def _twin(self, _: Mapping[str, Any]) -> None:
        """Somebody places the very order whose answer the bot has lost, or its newest one."""
        query = (
            "select symbol, side, quantity, limit_price from intents where limit_price is not null "
            "order by state in ('UNKNOWN', 'FRESH', 'REACHED') desc, seq desc limit 1"
        )
        with closing(sqlite3.connect(self.spec.loaded.state_dir / "journal.db")) as connection:
            found = connection.execute(query).fetchone()
        if found is not None:
            self.place_by_hand(*found)

    def place_by_hand(self, symbol: str, side: str, quantity: int, limit: int) -> None:
        order_id = place_elsewhere(self.late.sandbox, symbol, side, quantity, limit)
        if order_id is not None:
            self._note(BY_HAND, json.dumps(order_id))
            self._strike(STRANGER)

    async def _disk_hangs(self, facts: Mapping[str, Any]) -> None:
        """The database takes what it is given and answers nothing, for so long."""
        Disk.hangs_until = asyncio.get_running_loop().time() + facts["seconds"]
        if facts["seconds"] > self.spec.loaded.settings.journal.write_timeout_s:
            self._strike(DISK_HANGS)

    async def _stood_still(self, facts: Mapping[str, Any]) -> None:
        """The machine was suspended: time went on without us."""
        span = timedelta(seconds=facts["seconds"])
        to = self.environment.market.now() + span
        self.environment._clock.advance_to(to)
        self.late.advance(to)
        self._tell(StoodStill(to, span))
        self._strike(STOOD_STILL)

    async def _wall_stepped(self, facts: Mapping[str, Any]) -> None:
        """Somebody set the wall clock. A run has read it once; the next one reads what it is."""
        ahead = timedelta(seconds=facts["seconds"])
        self._note(WALL, str(facts["seconds"]))
        self._tell(ClockStepped(self.environment.market.now(), ahead))
        self._strike(WALL_STEPPED)

    def _strike(self, kind: str) -> None:
        self._note(STRUCK, kind)

    def _note(self, name: str, text: str) -> None:
        with Path(self.spec.loaded.state_dir, name).open("a") as file:
            file.write(f"{text}\n")

    def _tell(self, event: ClockStepped | StoodStill) -> None:
        if self.post is not None:
            self.post(event)
