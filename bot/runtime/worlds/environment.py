"""What a run gets from outside: which clock runs, what moves it, and which broker answers.

The configuration selects an environment (`start/broker.py`), and nothing below knows which: the
*system* environment has a broker at an address and the machine's own time, the *served* one follows
the clock of a sandbox in another process, the *sandbox* one embeds the broker and steps one market
clock for both, and *paper* matches orders in this process on the real broker's market. Everything
else of the daemon is the same in all.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from bot.broker.budget import Waiter
from bot.broker.link import AsgiApp
from bot.clock import Clock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.entry import Entry
from bot.domain.rulebook import Rulebook
from bot.protocol.secret import Secret
from bot.runtime.activity import Activity, Post, Tasks, Turn
from bot.runtime.inbox import BY_ARRIVAL, BY_URGENCY, Ranking
from bot.runtime.timetable.schedule import Fire, Job, Report

Mark = Callable[[Entry], Entry]
Elapsed = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Access:
    """The broker's address and how to sign for it. With `app` it is simulated in this process."""

    base_url: str
    api_key: Secret
    api_secret: Secret
    app: AsgiApp | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What an environment is made of. `symbols` are what the strategies trade."""

    loaded: Loaded
    rulebook: Rulebook
    activity: Activity
    symbols: frozenset[str]
    on_bug: Callable[[BaseException], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How the live loop shares out a clock that runs by itself, or one that waits for it."""

    ranking: Ranking
    """Which of the waiting events goes first."""
    slice_s: float
    """How long work may hold the loop while others wait for it."""
    lazy_s: float
    """How long a decision without consequences may wait for its commit."""
    hold_s: float
    """How long a market poll, and market data already read, wait for an order on its way."""
    reads_ahead: bool
    """Whether the day order book is read for an order while its decision is being committed."""


STEPPED: Final = Pace(BY_ARRIVAL, slice_s=math.inf, lazy_s=0, hold_s=0, reads_ahead=False)
"""The clock waits for us: nothing is late, and everything has one order."""
REAL_TIME: Final = Pace(BY_URGENCY, slice_s=0.010, lazy_s=1.0, hold_s=0.1, reads_ahead=True)
"""An operator's command takes a few iterations of the loop to arrive, and must take effect within
100 ms.
"""


class Driver(Protocol):
    """Moves or follows the clock, and fires the jobs and the engine's deadlines."""

    def wake_at(self, instant: datetime | None) -> None:
        """Have the engine woken at `instant`."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Drive until `stopping` is set."""


class Environment(Protocol):
    """See the module."""

    market: Clock
    wire: Clock
    waiter: Waiter
    turn: Turn
    max_concurrent: int | None
    pace: Pace
    has_machines_time: bool
    """Whether market time is this machine's: then the broker's rows are off by its clock error."""
    quota_speed: float
    """Market seconds per second of the clock by which the broker counts requests."""
    elapsed_s: Elapsed
    """Measures the age of a read: never stepped, and not scaled by any speed."""
    mailed_code: Secret | None
    """The one-time code of a simulated broker."""
    story_start: datetime | None
    """When the story of an embedded sandbox began, even if it is resumed."""
    mark: Mark
    """Marks an entry that a simulated broker's scenario has forced."""

    async def open(self, stack: AsyncExitStack, /) -> Access:
        """Make the broker reachable; what has to be closed later goes on the stack."""

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report, /) -> Driver:
        """Make the driver of these jobs."""

    async def watch_time(self, post: Post, /) -> None:
        """Report steps and standstills of the machine's time, for ever; return at once if the time
        is our own.
        """

    async def pause(self, span: timedelta) -> None:
        """Wait for a span of market time."""

    def finish(self) -> None:
        """The story is over: a sandbox starts from the beginning next time."""


@asynccontextmanager
async def clock_held(
    environment: Environment, tasks: Tasks, on_due: Fire = lambda _: None
) -> AsyncIterator[Driver]:
    """Hold the turn, and with it a stepped clock, while everything is read for the first time.

    The clock moves only if a request has to wait for the rate limit, or is retried later, so that
    the wait can end; `on_due` wakes what has a deadline meanwhile.
    """
    done = asyncio.Event()
    driver = environment.drive((), on_due, lambda _, __: None)
    driving = asyncio.create_task(driver.run(done))
    try:
        async with tasks.part():
            yield driver
            done.set()
    finally:
        done.set()
        await driving


def access_of(loaded: Loaded) -> Access:
    """Return the configured broker. Raises OperatorMistake without an address, key or secret."""
    broker = loaded.settings.broker
    if broker.base_url is None:
        text = (
            "no broker to ask: broker.base_url is not set, and mode sandbox has one only while the "
            "bot runs. Set it in bot.yaml, or start one: bot paper serve"
        )
        raise OperatorMistake.of("E-CFG-043", text, ExitCode.CONFIG)
    if broker.api_key is None or broker.api_secret is None:
        keys = {"api-key": broker.api_key, "api-secret": broker.api_secret}
        missing = [name for name, found in keys.items() if found is None]
        raise OperatorMistake.of(
            "E-SEC-001",
            f"no {' and no '.join(missing)}. Put it in with: bot secret set {missing[0]} (or by "
            "systemd credentials; except in live mode, also by BOT_BROKER__API_KEY and "
            "BOT_BROKER__API_SECRET). Without an account: bot demo",
            ExitCode.SECRET,
        )
    return Access(broker.base_url, broker.api_key, broker.api_secret)
