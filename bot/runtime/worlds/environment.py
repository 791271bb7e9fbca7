"""What the daemon stands in: which clock runs, who moves it, and which broker answers.

Worlds are chosen by the configuration and known to nobody below: the *served sandbox world* follows
the clock of a sandbox in another process; the *system world* has a broker at an address and the
machine's own time. The *sandbox world* (`sandbox_world.py`) embeds the broker and steps one market
clock for both; the *paper world* is in `paper/`. Everything else of the daemon is the same in all,
and a bot with real orders does not even import what plays a broker.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from bot.broker.budget import SystemWaiter, Waiter
from bot.broker.http import AsgiApp
from bot.clock import Clock, SystemClock, boottime_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.entry import Entry
from bot.domain.rulebook import Rulebook
from bot.protocol.secret import Secret
from bot.runtime.activity import Activity, AllAtOnce, Tasks, Turn
from bot.runtime.schedule import Fire, Job, Report, SystemTimetable, Timetable
from bot.runtime.worlds.paced import PacedDriver, read_market_clock


@dataclass(frozen=True, slots=True)
class Access:
    """Where the broker is and how to sign for it. With `app` it is played in this process."""

    base_url: str
    api_key: Secret
    api_secret: Secret
    app: AsgiApp | None = None


Mark = Callable[[Entry], Entry]


def as_it_is(entry: Entry) -> Entry:
    """Mark nothing: a broker that we do not play has no scenario."""
    return entry


Elapsed = Callable[[], float]


class Driver(Protocol):
    """Moves or follows the clock, fires the jobs and the engine's deadlines."""

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`."""
        ...

    async def run(self, stopping: asyncio.Event) -> None:
        """Drive until `stopping` is set."""
        ...


class Environment(Protocol):
    """See the module."""

    market: Clock
    wire: Clock
    waiter: Waiter
    turn: Turn
    max_concurrent: int | None
    quota_speed: float
    """Market seconds in a second of the clock by which the broker counts requests."""
    elapsed_s: Elapsed
    """By what the age of a read is measured: nothing steps it, and no speed scales it."""
    mailed_code: Secret | None
    """The one-time code of a broker that we play ourselves."""
    story_start: datetime | None
    """When the story of an embedded sandbox began, also when it is resumed."""
    mark: Mark
    """Says of an entry that the scenario of a broker that we play forced it."""

    async def open(self, stack: AsyncExitStack, /) -> Access:
        """Make the broker reachable; what has to be closed again goes on the stack."""
        ...

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report, /) -> Driver:
        """Make the driver of these jobs."""
        ...

    async def pause(self, span: timedelta) -> None:
        """Let a span of market time pass."""
        ...

    def finish(self) -> None:
        """The story is over: a sandbox begins anew at its next start."""
        ...


class SystemEnvironment:
    """The machine's time and a broker at an address."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.market: Clock = SystemClock()
        self.wire: Clock = self.market
        self.waiter: Waiter = SystemWaiter(self.market)
        self.turn: Turn = AllAtOnce()
        self.max_concurrent: int | None = None
        self.quota_speed = 1.0
        self.elapsed_s: Elapsed = boottime_s
        self.mailed_code: Secret | None = None
        self.story_start: datetime | None = None
        self.mark: Mark = as_it_is

    async def open(self, _stack: AsyncExitStack) -> Access:
        """The broker is there already."""
        return self._access

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        """Let APScheduler fire the jobs."""
        return SystemDriver(SystemTimetable(jobs, on_due, report))

    async def pause(self, span: timedelta) -> None:
        """Let a span of time pass."""
        await self.waiter.sleep_until(self.market.now() + span)

    def finish(self) -> None:
        """A real broker's day ends without us."""


class SystemDriver:
    """APScheduler between its start and its stop."""

    def __init__(self, timetable: SystemTimetable) -> None:
        self._timetable = timetable

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`."""
        self._timetable.wake_at(instant)

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire until `stopping` is set."""
        self._timetable.start()
        try:
            await stopping.wait()
        finally:
            await self._timetable.stop()


class ServedEnvironment:
    """A sandbox that another process serves: its market time, and the machine's as wire time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.quota_speed = 1.0
        self.wire: Clock = SystemClock()
        self.market: Clock = self.wire
        self.waiter: Waiter = SystemWaiter(self.wire)
        self.turn: Turn = AllAtOnce()
        self.max_concurrent: int | None = None
        self.elapsed_s: Elapsed = boottime_s
        self.mailed_code: Secret | None = None
        self.story_start: datetime | None = None
        self.mark: Mark = as_it_is

    async def open(self, _stack: AsyncExitStack) -> Access:
        """Learn how its market time runs. Raises BrokerError."""
        told = await read_market_clock(self._access.base_url, self.wire)
        if told is not None:
            self.market, self.quota_speed = told
        return self._access

    def drive(self, jobs: Sequence[Job], on_due: Fire, _report: Report) -> Driver:
        """Follow its clock."""
        timetable = Timetable(jobs, self.market.now())
        return PacedDriver(self.market, timetable, on_due, speed=self.quota_speed)

    async def pause(self, span: timedelta) -> None:
        """Let a span of its market time pass."""
        await asyncio.sleep(span.total_seconds() / self.quota_speed)

    def finish(self) -> None:
        """Its day goes on without us."""


@asynccontextmanager
async def standing_still(environment: Environment, tasks: Tasks) -> AsyncIterator[None]:
    """Hold the turn, and with it a stepped clock, while everything is read for the first time.

    The clock moves only when a request has to wait for the rate limit, so that the wait can end.
    """
    done = asyncio.Event()
    driver = environment.drive((), lambda _: None, lambda _, __: None)
    driving = asyncio.create_task(driver.run(done))
    try:
        async with tasks.part():
            yield
            done.set()
    finally:
        done.set()
        await driving


LEDGER: Final = "sandbox.jsonl"
"""The embedded broker's own memory, beside the journal. The bot never reads it."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What a world is made of besides its settings. `symbols` are what the strategies trade."""

    loaded: Loaded
    rulebook: Rulebook
    activity: Activity
    symbols: frozenset[str]
    on_bug: Callable[[BaseException], None]


def ledger_path(state_dir: Path) -> Path:
    """Where the embedded sandbox keeps its ledger."""
    return state_dir / LEDGER


def access_of(loaded: Loaded) -> Access:
    """Return the configured broker. Raises OperatorMistake without an address, key or secret."""
    broker = loaded.settings.broker
    if broker.base_url is None:
        text = (
            "there is no broker to ask: broker.base_url is not set, and the one of mode sandbox is "
            "there only while the bot runs. Set it in bot.yaml, or start one: bot paper serve"
        )
        raise OperatorMistake.of("E-CFG-043", text, ExitCode.CONFIG)
    if broker.api_key is None or broker.api_secret is None:
        raise OperatorMistake.of(
            "E-SEC-001",
            "no API key or secret. Put them in BOT_BROKER__API_KEY and BOT_BROKER__API_SECRET, in "
            "a 0600 file, or in systemd credentials. Without an account: bot demo",
            ExitCode.SECRET,
        )
    return Access(broker.base_url, broker.api_key, broker.api_secret)
