"""Seeded stories of one order that is amended again and again, judged by the ledger.

Eighteen modes: the id stays, or is new and its count goes on or begins at zero; the order is
matched or not, also while a PUT is on its way; answers to PUTs are heard, or lost on either way, or
so and the order's rows come late, short and twice. Each is told to its end or with kills, and with
`AMEND_SEEDS=7 pytest …`, or `0-199`, both. S12 of the failure catalogue counts the PUTs.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bot.config.scenario_file import load_scenario
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from bot.runtime.state_dir import LEDGER
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from bot.sandbox.house.ledger import begun_at, resumed_at
from tests.by_hand import Ask, tell_by_hand
from tests.faults.strikes import STRIKES, times
from tests.simulation.simulate import in_child
from tests.simulation.weather import BadReads, Lost
from tests.simulation.world import KILLED, Trap
from tests.story import InProcessEnvironment, once, write_project

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

IDS: Mapping[str, Mapping[str, str]] = {
    "inplace": {"modify_id": "same"},
    "carried": {"modify_id": "new", "modify_executed": "carried"},
    "restarts": {"modify_id": "new", "modify_executed": "restarts"},
}
MODES = list(itertools.product(IDS, ("matched", "unmatched"), ("heard", "lost", "bad reads")))
MINUTES = 6
"""Until the last lost PUT is settled: 50 s in which it may arrive, 60 s of the book's lag."""
MINUTES_MORE = 4
"""After a kill: the strategy orders once more, and by then that order has ended and been seen."""
ASKS = 6
KILLS_MAX = 3
POINTS_MAX = 260
ON_ITS_WAY_S = (0, 0, 2, 7)
NEAR, FAR = 27_000, 25_500


PUTS = 3
"""At least so many has a story, one with another."""

Mode = tuple[str, str, str]
_IN_FULL = times("S12", 0) // (2 * len(MODES) * PUTS)
_ASKED = os.environ.get("AMEND_SEEDS", f"0-{_IN_FULL}" * bool(_IN_FULL))


def _stories() -> Iterator[tuple[int, Mode, bool]]:
    """Give the seeds asked for in every mode, whole and killed; unasked, one of both in turn."""
    first, _, last = (_ASKED or "0").partition("-")
    for seed in range(int(first), int(last or first) + 1):
        for number, mode in enumerate(MODES):
            if not _ASKED and (number // 6 + number // 3 + number % 3) % 2:
                continue  # every other mode, each pair of words in one; `make prove` has them all
            for is_killed in (False, True) if _ASKED else (number % 4 != 0,):
                yield seed, mode, is_killed


class Amended(InProcessEnvironment):
    """The sandbox behind a line that spoils answers, and a trap."""

    def __init__(self, spec: EnvironmentSpec, dice: Random, trap: Trap, answers: str) -> None:
        script = load_scenario(spec.loaded.settings.sandbox.scenario, spec.loaded.base_dir)
        super().__init__(*wake_sandbox(spec, script), spec)
        self._dice, self._trap, self._answers = dice, trap, answers

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        app = access.app
        assert app is not None
        if self._answers == "bad reads":
            app = BadReads(app, self._clock, Random(self._dice.random()))
        return replace(access, app=self._trap.around(self._losing(app)))

    def _losing(self, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def losing(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
            if scope.get("method") != "PUT":
                await app(scope, receive, send)
                return
            fate = (
                self._dice.choice(["heard", "lost", "never"])
                if self._answers != "heard"
                else "heard"
            )
            self._pass_time()
            if fate != "never":
                await app(scope, receive, send if fate == "heard" else _to_nobody)
            self._pass_time()
            if fate != "heard":
                raise Lost(str(scope["path"]))

        return losing

    def _pass_time(self) -> None:
        """Let the market move while a PUT is on its way: the stepped clock would stand."""
        to = self._clock.now() + timedelta(seconds=self._dice.choice(ON_ITS_WAY_S))
        self._clock.advance_to(to)
        self._played.advance(to)


async def _to_nobody(_message: object) -> None:
    pass


def _project(folder: Path, seed: int, ids: str, matching: str) -> tuple[Path, list[Ask]]:
    dice, is_near = Random(f"amends {seed} {ids} {matching}"), matching == "matched"
    base = NEAR if is_near else FAR
    symbol = {"symbol": "HPG", "exchange": "HOSE", "reference": NEAR, "level_volume": 200}
    scenario = {
        "day": "2026-11-19",
        "start": "09:20:00",
        "symbols": [symbol],
        "quota": "PRO",
        "seed": seed,
        "accounts": [{"id": "0009000011", "cash": 900_000_000}],
        "switches": {**IDS[ids], "partial_status": dice.choice(["SENT", "MATCHED"])},
    }
    order = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "150s"}
    strategy = once(params={"price": base, "shares": 500}, order=order)
    config = write_project(
        folder, scenario=scenario, strategies=[strategy], risk={"allow_amend": True}
    )
    asks = []
    for _ in range(ASKS):
        change: dict[str, object] = {"limit": base + 50 * dice.randint(-4, 4)}
        if dice.random() < 0.5:
            change = {"quantity": 100 * dice.randint(2, 12)}
        request = {"do": "modify", "order_id": "L-0001", **change}
        asks.append(Ask(timedelta(seconds=dice.randint(8, 140)), request))
    return config, asks


def _tell(config: Path, asks: list[Ask], trap: Trap, dice: Random, answers: str) -> None:
    """Tell the story on from where it was cut off; what was asked until then was heard or not."""
    trap.watch_commits()
    ledger = config.parent / "state" / LEDGER
    begun = begun_at(ledger)
    past = (resumed_at(ledger) or begun) - begun if begun else timedelta()
    left = [Ask(one.after - past, one.request) for one in asks if one.after > past]
    minutes = max(MINUTES, past / timedelta(minutes=1) + MINUTES_MORE)

    def make(spec: EnvironmentSpec) -> Amended:
        return Amended(spec, dice, trap, answers)

    asyncio.run(tell_by_hand(config, *left, minutes=minutes, place_in=make, may_fault=True))


def _wrong(outcome: StoryResult) -> list[str]:
    """Everything that breaks a promise, and an order that is not as the broker has it."""
    found = list(faults_in(outcome))
    for row in outcome.rows("select * from orders"):
        truth = outcome.orders[row["order_id"]]
        ours, theirs = (row["quantity"], row["price"]), (truth["quantity"], truth["price"])
        found += [f"{row['order_id']} is {ours}, in the ledger {theirs}"] * (ours != theirs)
    halts = outcome.rows("select scope, reason from halts where to_state = 'HALTED'")
    return found + [f"{one['scope']} halted: {one['reason']}" for one in halts]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("seed", "told_as", "is_killed"), list(_stories()))
def test_an_order_that_is_amended_counts_as_the_brokers_ledger(
    tmp_path: Path,
    seed: int,
    told_as: Mode,
    is_killed: bool,
    record_property: Callable[[str, object], None],
) -> None:
    ids, matching, answers = told_as
    config, asks = _project(tmp_path, seed, ids, matching)
    mode = f"{seed} {ids} {matching} {answers}"
    dice, code = Random(f"kills {mode}"), KILLED
    points = [dice.randint(1, POINTS_MAX) for _ in range(dice.randint(1, KILLS_MAX))]
    for part, at in enumerate([*(points if is_killed else []), 0]):
        line, trap = Random(f"line {mode} {part}"), Trap(at)
        code = in_child(partial(_tell, config, asks, trap, line, answers))
        assert code in {KILLED, 0} if at else code == 0
        if code == 0:
            break

    outcome = outcome_of(tmp_path / "state")
    assert _wrong(outcome) == []
    puts = outcome.rows("select * from attempts where verb = 'PUT'")
    assert is_killed or puts
    record_property(STRIKES, len(puts))
