"""The environment with an embedded broker: how it is set up or resumed, and how its time runs.

An interrupted demo is resumed; a finished one is moved away. One earlier demo is kept, as
`journal.1.db`, `sandbox.1.jsonl` and so on, until the next one is over. Its 2FA token is not kept:
a new sandbox numbers its tokens from one again, and would accept an old one as its own.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bot.broker.budget import Waiter
from bot.clock import Clock, SimulatedClock, SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import Loaded
from bot.config.settings.places import DEFAULT
from bot.domain.entry import (
    AttemptFinished,
    AuthEvent,
    Entry,
    IntentMoved,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
    Transition,
)
from bot.domain.order import OrderState
from bot.domain.scripted import with_mark
from bot.journal.writing.heads import FILE, OLDER
from bot.protocol.secret import Secret
from bot.runtime.activity import Activity, OneAtATime, Post, Turn
from bot.runtime.state_dir import LEDGER, forget_token, make_state_dir
from bot.runtime.timetable.schedule import Fire, Job, Report, Timetable
from bot.runtime.worlds.environment import STEPPED, Access, Driver, Elapsed, EnvironmentSpec, Mark
from bot.runtime.worlds.stepped import SteppedMarket, SteppedWaiter
from bot.sandbox.errors import LedgerBroken, PortInUse
from bot.sandbox.house.house import Forced
from bot.sandbox.house.ledger import begun_at, is_finished, read_ledger, resumed_at
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from bot.sandbox.serve import free_port, is_free, last_morning, serve

_HOST: Final = "127.0.0.1"
_NO_ADDRESS: Final = "http://127.0.0.1:1"
"""An address at which nobody listens: the broker answers in this process."""
BARS: Final = "bars-sandbox.csv"
EX_DATES: Final = "ex-dates-sandbox.csv"
_FILES: Final = (
    *("journal.db", "journal.db-wal", "journal.db-shm", FILE, OLDER, LEDGER),
    *(BARS, EX_DATES),
)


class SandboxEnvironment:
    """The embedded broker, and one stepped clock: market and wire time for both sides."""

    def __init__(
        self,
        *,
        sandbox: Sandbox,
        clock: SimulatedClock,
        activity: Activity,
        port: int | None,
        speed: float,
    ) -> None:
        self._sandbox = sandbox
        self._clock = clock
        self._activity = activity
        self._port = port
        turn = OneAtATime()
        self._stepped = SteppedWaiter(clock, activity, turn)
        self.market: Clock = clock
        self.wire: Clock = clock
        self.waiter: Waiter = self._stepped
        self.turn: Turn = turn
        self.max_concurrent: int | None = 1
        self.pace = STEPPED
        self.has_machines_time = False
        self.quota_speed = 1.0
        self.elapsed_s: Elapsed = lambda: clock.now().timestamp()
        self.mailed_code: Secret | None = Secret(sandbox.credentials.otp_code)
        self.story_start: datetime | None = sandbox.scenario.starts_at
        self.mark: Mark = ScenarioMarks(sandbox.forced)
        self._speed = speed

    async def open(self, stack: AsyncExitStack) -> Access:
        """Serve the sandbox on loopback, or without a port answer in this process.

        Raises OperatorMistake if the port is taken.
        """
        stack.callback(self._sandbox.close)
        given = self._sandbox.credentials
        key, secret = Secret(given.api_key), Secret(given.api_secret)
        if self._port is None:
            return Access(_NO_ADDRESS, key, secret, self._sandbox.app)
        try:
            base_url = await stack.enter_async_context(serve(self._sandbox, _HOST, self._port))
        except PortInUse as error:
            raise _port_taken(error.port, "the default") from error
        return Access(base_url, key, secret)

    def drive(self, jobs: Sequence[Job], on_due: Fire, _report: Report) -> Driver:
        """Drive the shared clock; a job can be neither late nor overlapping there."""
        return SteppedMarket(
            clock=self._clock,
            activity=self._activity,
            waiter=self._stepped,
            market=self._sandbox,
            timetable=Timetable(jobs, self._clock.now()),
            on_due=on_due,
            speed=self._speed,
            is_code_out=self._sandbox.is_code_out,
        )

    async def watch_time(self, _post: Post) -> None:
        """Do nothing: only we move the stepped clock."""

    async def pause(self, span: timedelta) -> None:
        """Let the stepped clock advance for a span."""
        await self.waiter.sleep_until(self.market.now() + span)

    def finish(self) -> None:
        """Record it in the ledger."""
        self._sandbox.finish()


def settle_port(loaded: Loaded) -> Loaded:
    """Return the settings of an embedded sandbox with a usable port.

    Where the usual one is taken, or health.port is the same, and nobody chose it, that is any free
    one. Raises OperatorMistake for a chosen one that is taken.
    """
    sandbox, health = loaded.settings.sandbox, loaded.settings.health
    if not sandbox.port:
        return loaded
    if sandbox.port != health.port and is_free(_HOST, sandbox.port):
        return loaded
    origin = loaded.origin_of("sandbox.port")
    if origin != DEFAULT:
        raise _port_taken(sandbox.port, origin)
    free = sandbox.model_copy(update={"port": free_port(_HOST)})
    return replace(loaded, settings=loaded.settings.model_copy(update={"sandbox": free}))


def _port_taken(port: int, origin: str) -> OperatorMistake:
    text = (
        f"port {port} on this machine is taken by another program, or not ours to take; it is "
        f"sandbox.port ({origin}). Set another, 0 for any free one, or null for none. "
        "For this run alone: BOT_SANDBOX__PORT=0"
    )
    return OperatorMistake.of("E-NET-003", text)


def embedded(spec: EnvironmentSpec) -> SandboxEnvironment:
    """Make the environment of the configured scenario. Raises OperatorMistake."""
    settings = spec.loaded.settings
    scenario = load_scenario(settings.sandbox.scenario, spec.loaded.base_dir)
    sandbox, clock = wake_sandbox(spec, scenario)
    return SandboxEnvironment(
        sandbox=sandbox,
        clock=clock,
        activity=spec.activity,
        port=settings.sandbox.port,
        speed=settings.sandbox.speed,
    )


def wake_sandbox(spec: EnvironmentSpec, scenario: Scenario) -> tuple[Sandbox, SimulatedClock]:
    """Create the embedded broker and its clock, continuing where its ledger ends.

    A scenario without a day begins on the last trading day, and stays with that one.
    """
    ledger = spec.loaded.state_dir / LEDGER
    try:
        if scenario.day is None:
            try:
                begins = begun_at(ledger) or last_morning(SystemClock().now(), spec.rulebook)
            except ValueError as unknown:
                message = f"the scenario names no day, and {unknown}: give it a day"
                raise OperatorMistake.of("E-MKT-005", message) from unknown
            scenario = scenario.on(begins)
        clock = SimulatedClock(resumed_at(ledger) or scenario.starts_at)
        sandbox = Sandbox(
            scenario,
            spec.rulebook,
            clock=clock,
            wire=clock,
            seed=spec.loaded.settings.sandbox.seed,
            ledger=ledger,
        )
    except LedgerBroken as error:
        raise OperatorMistake.of("E-SBX-001", f"{ledger}: {error}", ExitCode.DATABASE) from error
    return sandbox, clock


class ScenarioMarks:
    """Marks what the scenario forced; called with each entry, in order."""

    def __init__(self, forced: Forced) -> None:
        self._forced = forced
        self._intents: set[str] = set()
        """Intents that a fault kept from being accepted."""

    def __call__(self, entry: Entry) -> Entry:
        """Return the entry, marked where the scenario forced it. Forced refusals and partial fills
        of orders would otherwise look like the bot's own.
        """
        is_forced = False
        match entry:
            case AttemptFinished():
                is_forced = self._forced.struck(entry.attempt_id)
                if is_forced and entry.outcome != "ACCEPTED":
                    self._intents.add(entry.intent_id)
            case IntentMoved():
                is_forced = entry.intent_id in self._intents
            case Transition(to_state=OrderState.PARTIALLY_FILLED):
                is_forced = self._is_shaped(entry.order_id)
            case Transition(to_state=OrderState.REJECTED) | OrderUpdated(state=OrderState.REJECTED):
                is_forced = self._is_shaped(entry.order_id) or entry.intent_id in self._intents
            case AuthEvent(kind="needed") | StateChanged(to_state=RunState.NEEDS_2FA):
                is_forced = self._forced.took_the_token
            case Note(kind="LIMIT"):
                is_forced = self._forced.limits(entry.at)
        return with_mark(entry, self._forced.scenario) if is_forced else entry

    def _is_shaped(self, order_id: str | None) -> bool:
        return order_id is not None and self._forced.shaped(order_id)


class NotAlone(Exception):
    """Another demo of this state directory is running or starting."""


@contextmanager
def alone(state_dir: Path) -> Iterator[None]:
    """Hold a lock as the only demo of a state directory: files are moved there before a lease is
    taken.

    The lock is on the directory itself and ends with the process. Raises NotAlone, and
    OperatorMistake if the directory cannot be created.
    """
    make_state_dir(state_dir)
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotAlone(str(state_dir)) from error
        yield
    finally:
        os.close(folder)


def make_room(state_dir: Path, *, seed: int) -> bool:
    """Move a finished demo, or one with another seed, out of the way; True if one is resumed.

    A demo whose start failed is not resumed.
    """
    lines = read_ledger(state_dir / LEDGER)
    has_begun = any(line.get("kind") != "start" for line in lines)
    is_over = has_begun and is_finished(state_dir / LEDGER)
    if has_begun and not is_over and lines[0].get("seed") == seed:
        return True
    forget_token(state_dir)
    for name in _FILES:
        path = state_dir / name
        head, dot, tail = name.partition(".")
        kept = state_dir / f"{head}.1{dot}{tail}"
        kept.unlink(missing_ok=True)
        if path.exists():
            path.rename(kept)
    return False
