"""Some seeds of the simulation, and that it is one; many: make simulate SEEDS=200."""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.journal.writing.thread import in_time
from bot.runtime.state_dir import LEDGER
from tests.sandbox.client import ready
from tests.simulation import simulate
from tests.simulation.machine import MachineLoop, run_on_machine
from tests.simulation.plan import LASTING_FAULTS, OF_READS, SHORT_FAULTS, Plan, plan_of
from tests.simulation.simulate import (
    LASTING_MIN,
    SETTLES,
    STRUCK_MIN,
    Result,
    _live,
    _project,
    _told_secrets,
    in_child,
    report,
    run_plan,
    run_seed,
    run_twice,
    seeds_of,
    shrink,
)
from tests.simulation.world import KILLED, WALL, skew_of

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

ALIKE = 23
"""A story with a kill in it, in a crowd."""


@pytest.mark.parametrize("seed", [23])
def test_a_story_of_faults_that_stay_breaks_no_promise(seed: int) -> None:
    result = run_seed(seed)

    assert not result.faults, f"make simulate SEED={seed}\n" + "\n".join(result.faults)
    assert result.intents
    assert result.parts >= STRUCK_MIN
    assert result.lasting >= LASTING_MIN


@pytest.mark.long
def test_the_same_seed_is_the_same_story() -> None:
    assert not run_twice(plan_of(ALIKE)).faults


def test_timers_of_one_instant_end_in_the_order_in_which_they_were_set() -> None:
    came: list[int] = []

    async def set_them(loop: MachineLoop) -> None:
        timers = [loop.call_at(2_000.0, came.append, number) for number in range(40)]
        for timer in timers[::2]:
            timer.cancel()
        await asyncio.sleep(1_001)

    with asyncio.Runner(loop_factory=MachineLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, MachineLoop)
        runner.run(set_them(loop))

    assert came == list(range(1, 40, 2))


def test_an_answer_from_a_thread_comes_in_the_same_turn_however_long_it_takes() -> None:
    async def turns_before(work: Callable[[], None]) -> list[str]:
        came = list[str]()

        async def ask() -> None:
            await in_time(work, 5)
            came.append("the answer")

        async def take_turns() -> None:
            for _ in range(5):
                await asyncio.sleep(0)
                came.append("a turn")

        await asyncio.gather(ask(), take_turns())
        return came

    async def twice() -> None:
        soon, late = await turns_before(lambda: None), await turns_before(lambda: time.sleep(0.05))
        assert soon == late
        assert soon[-1] == "a turn"

    assert in_child(lambda: run_on_machine(twice())) == 0


def test_a_story_that_goes_another_way_the_second_time_is_named_with_its_first_other_row() -> None:
    told = iter([("a", ["x", "y", "v"]), ("b", ["x", "z", "y"]), ("c", ["x"]), ("c", ["x"])])

    def tell(_) -> Result:
        digest, lines = next(told)
        return replace(NOTHING, digest=digest, lines=lines)

    [found] = run_twice(plan_of(0), tell).faults
    assert found == "told again its hash is b, not a; only then z; only before v"
    assert run_twice(plan_of(0), tell).faults == []


def test_a_story_has_twenty_faults_and_five_that_last() -> None:
    for seed in range(50):
        plan = plan_of(seed)
        assert len(plan.faults) == SHORT_FAULTS + OF_READS + LASTING_FAULTS >= STRUCK_MIN
        assert sum(fault.lasts for fault in plan.faults) == LASTING_FAULTS >= LASTING_MIN


async def test_every_field_that_a_fault_sets_is_one_of_the_answer_s() -> None:
    sets = {
        (fault.rule["match"]["path"], name)
        for seed in range(200)
        for fault in plan_of(seed).faults
        for name in fault.rule["action"].get("fields", ())
    }
    broker = await ready()

    for path, name in sets:
        assert name in await broker.get(path), f"{path} has no field {name!r}"
    assert len(sets) == 2


@pytest.mark.parametrize(
    ("steps", "off_s"),
    [
        pytest.param((), 4, id="nobody set it"),
        pytest.param((-14, 3), -7, id="set twice"),
        pytest.param((9, 9), 19, id="never further off than a run can work with"),
        pytest.param((3_600, -3_600, 9), 13, id="an hour is noticed"),
    ],
)
def test_a_run_begins_with_the_wall_clock_as_it_was_set(
    tmp_path: Path, steps: Sequence[int], off_s: int
) -> None:
    plan = replace(plan_of(0), skew=timedelta(seconds=4))
    (tmp_path / WALL).write_text("".join(f"{each}\n" for each in steps))

    assert skew_of(plan, tmp_path) == timedelta(seconds=off_s)


def test_a_child_that_hangs_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "STORY_S_MAX", 0.1)

    assert in_child(lambda: time.sleep(60)) == 1


def test_a_start_after_the_end_of_a_story_still_has_time_to_read_what_happened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lives = list[tuple[int, timedelta]]()

    def dies(work: partial[None]) -> int:
        _, _, _, (_, down_s), length = work.args
        lives.append((down_s, length))
        return KILLED if len(lives) < 4 else 0

    monkeypatch.setattr(simulate, "in_child", dies)
    plan = plan_of(ALIKE)
    list(_live(tmp_path, plan))

    assert lives[0] == (0, plan.day.length)
    for (_, before), (down_s, length) in pairwise(lives):
        killed_at_the_end_and_up_again = before + timedelta(seconds=down_s)
        assert down_s > 0
        assert length - killed_at_the_end_and_up_again == SETTLES


def test_a_story_without_a_journal_is_a_failure_and_ends_no_night(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulate, "_run", lambda *_: os._exit(9))

    assert run_plan(plan_of(0)).faults == ["run 1 ended with 9: "]


def test_what_is_left_out_changes_nothing_about_the_rest() -> None:
    plan = plan_of(ALIKE)

    smaller = plan.without(["f2", "a0"])

    rules, left = plan.rules(), smaller.rules()
    assert left[2]["match"] == {"path": "/nowhere"}
    assert [rule for n, rule in enumerate(left) if n != 2] == rules[:2] + rules[3:]


def test_a_failure_shrinks_to_what_it_needs() -> None:
    def needs_two(plan) -> Result:
        fails = not {"f3", "k0"} & plan.left_out
        return replace(NOTHING, found=["two at once"] if fails else [])

    plan = replace(plan_of(0), kills=(5,))

    small = shrink(plan, needs_two)

    assert [part for part in small.parts if part not in small.left_out] == ["f3", "k0"]


def test_one_that_takes_long_is_shrunk_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, told = 0.0, list[int]()
    monkeypatch.setattr(simulate, "time", SimpleNamespace(monotonic=lambda: now_s))

    def fails(plan: Plan) -> Result:
        nonlocal now_s
        told.append(len(plan.left_out))
        now_s += 2
        return replace(NOTHING, found=["all by itself"])

    small = shrink(plan_of(0), fails, within_s=1)

    assert [len(small.left_out)] == told
    assert shrink(plan_of(0), fails, within_s=0) == plan_of(0)


def test_a_failure_and_its_command_are_told_before_it_is_shrunk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shrinking(plan: Plan) -> Plan:
        before = capsys.readouterr().out
        assert before.count("  again: make simulate SEED=7") == 2
        assert "  two at once" in before
        return plan.without(["f3"])

    def results() -> Iterator[Result]:
        yield replace(NOTHING, seed=7, found=["two at once"])
        shown = capsys.readouterr().out
        assert shown.splitlines()[:2] == [
            "seed 7 FAILED: two at once",
            "  again: make simulate SEED=7",
        ]
        sys.stdout.write(shown)

    monkeypatch.setattr(simulate, "shrink", shrinking)

    assert report(results(), of=1) == 1
    assert "again: make simulate SEED=7 LEFT_OUT='f3'" in capsys.readouterr().out


def test_a_secret_that_the_bot_has_written_is_found(tmp_path: Path) -> None:
    config = _project(tmp_path, plan_of(0))
    script = load_scenario(load_settings(config).settings.sandbox.scenario, tmp_path)
    (tmp_path / "state" / LEDGER).write_text(script.secret_text)
    before = list(_told_secrets(config))

    (tmp_path / "state" / "journal.db").write_bytes(b"x" + script.secret_text.encode())
    (tmp_path / "words.txt").write_text(f"key {script.key_text}")

    assert before == []
    assert sorted(_told_secrets(config)) == [
        "a secret is in journal.db",
        "a secret is in words.txt",
    ]


def test_seeds_are_a_number_or_a_span() -> None:
    assert (seeds_of("3"), seeds_of("40-42")) == (range(3), range(40, 43))


NOTHING = Result(
    seed=0,
    found=(),
    digest="",
    struck=Counter(),
    parts=0,
    lasting=0,
    market_s=0.0,
    cpu_s=0.0,
    kills=0,
    starts=0,
    intents=0,
)
