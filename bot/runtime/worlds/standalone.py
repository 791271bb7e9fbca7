"""The sandbox broker alone on a socket, with a market clock that runs by itself.

Wire time is the machine's own clock, so that any client works with it at any speed.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Final

from pydantic import SecretStr
from uvicorn.loops.auto import auto_loop_factory

from bot.clock import Clock, ScaledClock, SimulatedClock, SystemClock
from bot.config.problems import OperatorMistake
from bot.config.rulebook import load_rulebook, on_later_rules
from bot.config.scenario_file import load_scenario
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.rulebook import Rulebook
from bot.runtime.supervisor import on_signals
from bot.sandbox.errors import PortInUse
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from bot.sandbox.serve import (
    credentials_line,
    engine_name,
    market_opening,
    market_start,
    run_free,
    serve,
)

LOOPBACK: Final = "127.0.0.1"
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class PaperPlan:
    """A command line's request; None leaves it to the scenario, or to the wall clock."""

    port: int
    scenario: str
    seed: int | None = None
    speed: float | None = None
    starts_at: datetime | None = None


Say = Callable[[str], None]


def serve_paper(plan: PaperPlan, announce: Say, remark: Say) -> None:
    """Serve until a signal. `announce` gets the JSON of address and credentials once it is bound,
    `remark` hints for the screen about the market and the server.

    Raises OperatorMistake for a bad scenario, or a port in use.
    """
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_serve(plan, announce, remark))


async def _serve(plan: PaperPlan, announce: Say, remark: Say) -> None:
    wire, rulebook = SystemClock(), load_rulebook()
    scenario, joined_at = _scenario(plan, wire, rulebook)
    if words := on_later_rules(rulebook, scenario.starts_at):
        remark(f"rules: {words}")
    clock = _MarketClock(joined_at)
    sandbox = Sandbox(
        scenario, rulebook, clock=clock, wire=wire, seed=plan.seed, speed=scenario.speed
    )
    sandbox.advance(joined_at)
    clock.run(wire, speed=scenario.speed)
    try:
        async with serve(sandbox, LOOPBACK, plan.port) as base_url:
            announce(credentials_line(sandbox, base_url))
            remark(f"served by {engine_name()}")
            market = asyncio.create_task(run_free(sandbox, clock))
            with on_signals(SIGNALS, lambda _: market.cancel()), suppress(asyncio.CancelledError):
                await market
    except PortInUse as error:
        text = f"{error}. Take another with --port, or 0 for a free one"
        raise OperatorMistake.of("E-NET-003", text) from error
    finally:
        sandbox.close()


class _MarketClock:
    """Market time that starts running once the market has been played up to it."""

    def __init__(self, start: datetime) -> None:
        self._clock: Clock = SimulatedClock(start)

    def now(self) -> datetime:
        return self._clock.now()

    def run(self, wire: Clock, *, speed: float) -> None:
        """Let it run by the wire clock from now on."""
        self._clock = ScaledClock(wire, start=self.now(), speed=speed)


def _scenario(plan: PaperPlan, wire: Clock, rulebook: Rulebook) -> tuple[Scenario, datetime]:
    """Return the scenario, and when its market is joined: the given time, its own start, or now.

    A market joined during or after its day is played from the day's opening on. If the file names
    the day, it begins as the file says.
    """
    scenario = with_key(load_scenario(plan.scenario, Path.cwd()))
    if plan.speed is not None:
        scenario = scenario.model_copy(update={"speed": plan.speed})
    if plan.starts_at is not None:
        _require_played(plan.starts_at, scenario, rulebook)
        joined_at = plan.starts_at
    elif scenario.day is not None:
        return scenario, scenario.starts_at
    else:
        try:
            joined_at = market_start(wire.now(), rulebook)
        except ValueError as unknown:
            message = f"{unknown}: use --now to say when the market starts"
            raise OperatorMistake.of("E-MKT-005", message) from unknown
    return scenario.on(market_opening(joined_at, rulebook)), joined_at


def _require_played(at: datetime, scenario: Scenario, rulebook: Rulebook) -> None:
    """Raise OperatorMistake for a day outside the calendar, which would be closed for ever, and for
    one on which the recording would never be played.
    """
    day, calendar = at.astimezone(EXCHANGE_TZ).date(), rulebook.calendar
    message = ""
    if not calendar.covers(day):
        message = f"the calendar covers {min(calendar.years)} to {max(calendar.years)}"
    elif scenario.recording.days and day != scenario.day:
        message = (
            f"the scenario replays what was recorded from {scenario.day}; "
            "give another time of that day, or change its day"
        )
    if message:
        raise OperatorMistake.of("E-MKT-005", f"--now {day}: {message}")


def with_key(scenario: Scenario) -> Scenario:
    """Set an unpredictable key and secret if the file sets none."""
    made = {"api_key": f"ak_test_{token_hex(12)}", "api_secret": token_hex(32)}
    missing = {name: SecretStr(text) for name, text in made.items() if not getattr(scenario, name)}
    return scenario.model_copy(update=missing)
