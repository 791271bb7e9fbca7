"""Seeded storms: a busy bot in bad weather, killed and started again, judged by the ledger.

Each seed decides the weather, the wishes and the points at which the process dies (`_exit`, before
or after any commit or any request). A failure prints its seed: `STORM_SEEDS=7 pytest …` tells that
one again, `STORM_SEEDS=0-200` many.
"""

import asyncio
import math
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest

from bot.broker.link import AsgiApp
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.drill.oracle import faults_in, outcome_of
from bot.runtime.activity import AllAtOnce
from bot.runtime.inbox import BY_URGENCY
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.timetable.schedule import Fire, Job, Report
from bot.runtime.worlds.environment import STEPPED, Access, Driver, EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from bot.runtime.worlds.stepped import SteppedWaiter
from tests.simulation.simulate import in_child
from tests.simulation.traders import write_plugins
from tests.simulation.weather import Weather
from tests.simulation.world import DETOUR_MAX, KILLED, Scanned, Trap
from tests.story import InProcessEnvironment, Shown, write_project

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

BAD_MINUTES, MINUTES = 4, 10
POINTS_MAX = 260
CROWDED = 0.5
"""How often requests overlap as they do in live, instead of taking turns."""
OVER = datetime(2026, 11, 19, 2, 25, tzinfo=UTC)
"""From then on (09:25 local) no strategy acts."""


def _seeds() -> list[int]:
    asked = os.environ.get("STORM_SEEDS", "0")
    first, _, last = asked.partition("-")
    return list(range(int(first), int(last or first) + 1))


class Stormy(InProcessEnvironment):
    """The sandbox behind weather and a trap."""

    def __init__(self, spec: EnvironmentSpec, trap: Trap, dice: Random) -> None:
        script = load_scenario(spec.loaded.settings.sandbox.scenario, spec.loaded.base_dir)
        sandbox, clock = wake_sandbox(spec, script)
        super().__init__(sandbox, clock, spec)
        self._trap, self._dice = trap, dice
        if dice.random() < CROWDED:
            self._stepped = SteppedWaiter(clock, spec.activity, AllAtOnce())
            self.turn, self.waiter, self.max_concurrent = AllAtOnce(), self._stepped, None
            # As in live, too, what is urgent overtakes; a batch is one hook, or all that waits.
            self.pace = replace(STEPPED, ranking=BY_URGENCY, slice_s=dice.choice([0, math.inf]))
        self._fine_from = script.starts_at + timedelta(minutes=BAD_MINUTES)

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        assert access.app is not None
        weather = Weather(access.app, self.market, self._fine_from, self._dice)
        return replace(access, app=self._trap.around(self._winding(weather)))

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        return Scanned(super().drive(jobs, on_due, report))

    def _winding(self, app: AsgiApp) -> AsgiApp:
        """Answers go ways of different length, so that they overtake one another."""

        async def winding(*call: object) -> None:
            for _ in range(self._dice.randint(0, DETOUR_MAX)):
                await asyncio.sleep(0)
            await app(*call)
            for _ in range(self._dice.randint(0, DETOUR_MAX)):
                await asyncio.sleep(0)

        return winding


def _project(folder: Path, seed: int) -> Path:
    dice = Random(f"scenario {seed}")
    faults: list[dict[str, object]] = [
        {
            "match": {"verb": "POST", "path": "*/orders", "prob": 0.1, "until": "09:24:00"},
            "action": action,
        }
        for action in dice.sample(_ACTIONS, 3)
    ]
    symbols = [
        {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "level_volume": 300},
        {"symbol": "SHS", "exchange": "HNX", "reference": 18_500, "level_volume": 300},
    ]
    scenario = {
        "day": "2026-11-19",
        "start": "09:20:00",
        "symbols": symbols,
        "quota": "PRO",
        "seed": seed,
        "faults": faults,
        "accounts": [{"id": "0009000011", "cash": 900_000_000, "holdings": {"HPG": 2_000}}],
        "switches": {"partial_status": dice.choice(["SENT", "MATCHED"])},
    }
    config = write_project(folder, scenario=scenario, strategies=[_strategy(seed)])
    write_plugins(folder)
    return config


_ACTIONS: list[dict[str, object]] = [
    {"do": "reject", "code": "-900017"},
    {"do": "hide_row", "seconds": 40},
    {"do": "status", "status": 503},
    {"do": "status", "status": 400, "code": "BAD"},
    {"do": "too_many", "reset_s": 7},
    {"do": "truncate", "length": 60},
    {"do": "drop_2fa"},
    {"do": "fin"},
]


def _strategy(seed: int) -> dict[str, object]:
    is_eager = seed % 2 == 1
    more = {"bar": "1m", "depth": "15s", "session": True, "timer": ["09:22:30"]}
    return {
        "name": "busy",
        "use": "strategies/eager.py:Eager" if is_eager else "busy",
        "symbols": ["HPG", "SHS"],
        "params": {"seed": seed, "until": round(OVER.timestamp())},
        "wake": {"quote": "10s", **(more if is_eager else {})},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "45s"},
        "limits": {"max_order_value": 500_000_000},
        "on_2fa": "hold 60s",
    }


def _run(config: Path, trap: Trap, dice: Random) -> None:
    trap.watch_commits()
    options = RunOptions(run_for=timedelta(minutes=MINUTES), answer_otp_after=timedelta(seconds=20))

    def make(spec: EnvironmentSpec) -> Stormy:
        return Stormy(spec, trap, dice)

    asyncio.run(run_bot(load_settings(config), options, Shown(), make=make))


@pytest.mark.parametrize("seed", _seeds())
def test_no_order_is_lost_and_none_is_doubled(tmp_path: Path, seed: int) -> None:
    config, dice = _project(tmp_path, seed), Random(f"storm {seed}")
    for part in range(dice.randint(0, 3)):
        trap, weather = Trap(dice.randint(1, POINTS_MAX)), Random(f"weather {seed} {part}")
        code = in_child(partial(_run, config, trap, weather))
        assert code in {KILLED, 0}, f"seed {seed}, part {part}"
        if code == 0:
            break
    else:
        code = in_child(lambda: _run(config, Trap(0), Random(f"weather {seed} last")))
        assert code == 0, f"seed {seed}, last part"

    outcome = outcome_of(tmp_path / "state")

    assert not faults_in(outcome), f"seed {seed}"
    assert outcome.rows("select * from intents"), f"seed {seed} wished for nothing"
