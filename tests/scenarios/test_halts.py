"""Halts: by the file HALT what was decided does not leave; a changed order is reached."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from bot.config.settings.load import load_settings
from bot.domain.entry import Decision, Entry, IntentMoved, RunState, StateChanged, Verdict
from bot.runtime.brake import FLAG
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.by_hand import Ask, tell_by_hand
from tests.staging import QUIET
from tests.story import Shown, Story, in_process, once, tell, write_project


@dataclass
class Halting(Shown):
    """A screen that sees an order pass its checks, and somebody touch the file before it leaves."""

    flag: Path = Path()

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        if isinstance(entry, Decision) and entry.verdict is Verdict.PASSED:
            self.flag.touch()


async def test_an_order_that_is_decided_and_stored_does_not_leave_after_the_file_is_there(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    loaded = load_settings(config)
    shown = Halting(flag=loaded.state_dir / FLAG)

    end = await run_bot(loaded, RunOptions(run_for=timedelta(minutes=2)), shown, make=in_process)

    story = Story(end, shown, loaded)
    assert story.broker_orders() == {}
    last = shown.all(IntentMoved)[-1]
    assert (last.intent_id, last.reason) == ("L-0001", "HALTED: the file HALT")
    [halted] = [one for one in shown.all(StateChanged) if one.to_state is RunState.HALTED]
    assert (halted.reason, halted.by) == ("the file HALT", "operator")
    again = await tell(config, minutes=2)
    assert again.broker_orders() == {}
    states = [one.to_state for one in again.shown.all(StateChanged) if one.scope == "all"]
    assert states == [RunState.HALTED, RunState.STOPPING]


async def test_a_start_beside_the_file_is_halted_and_cancels_what_is_open(tmp_path: Path) -> None:
    working = once(params={"price": 26_000})
    config = write_project(tmp_path, scenario=QUIET, strategies=[working])
    first = await tell(config, minutes=2)
    assert [order["status"] for order in first.broker_orders().values()] == ["SENT"]
    (first.loaded.state_dir / FLAG).write_text("wrong prices")

    again = await tell(config, minutes=2)

    assert [order["status"] for order in again.broker_orders().values()] == ["CANCELLED"]
    [halted] = [one for one in again.shown.all(StateChanged) if one.to_state is RunState.HALTED]
    assert (halted.reason, halted.by) == ("wrong prices", "operator")
    assert (first.loaded.state_dir / FLAG).exists()


@pytest.mark.parametrize("path", ["/trading/*/order-book", "/trading/*/portfolio"])
async def test_a_start_beside_the_file_cancels_what_is_open_whatever_cannot_be_read(
    tmp_path: Path, path: str
) -> None:
    dead = {
        "match": {"verb": "GET", "path": path, "at": "09:21:59", "times": 0},
        "action": {"do": "status", "status": 500},
    }
    working = once(params={"price": 26_000})
    config = write_project(tmp_path, scenario={**QUIET, "faults": [dead]}, strategies=[working])
    first = await tell(config, minutes=2)
    assert [order["status"] for order in first.broker_orders().values()] == ["SENT"]
    (first.loaded.state_dir / FLAG).write_text("wrong prices")

    again = await tell(config, minutes=2)

    assert [order["status"] for order in again.broker_orders().values()] == ["CANCELLED"]


@pytest.mark.parametrize("counts", ["carried", "restarts"])
async def test_a_halt_reaches_a_changed_order_whose_new_id_only_the_answer_has_named(
    tmp_path: Path, counts: str
) -> None:
    """The list of the day's orders is dead from before the change on."""
    match = {"verb": "GET", "path": "/trading/*/order-book", "at": "09:20:15", "times": 0}
    script = {
        **QUIET,
        "switches": {"modify_id": "new", "modify_executed": counts},
        "faults": [{"match": match, "action": {"do": "status", "status": 500}}],
    }
    strategies, risk = [once(params={"price": 26_000, "shares": 300})], {"allow_amend": True}
    config = write_project(tmp_path, scenario=script, strategies=strategies, risk=risk)
    change = {"do": "modify", "order_id": "L-0001", "quantity": 400}
    halt = {"do": "halt", "reason": "wrong prices", "by": "operator"}

    told = await tell_by_hand(
        config, Ask(timedelta(seconds=20), change), Ask(timedelta(seconds=90), halt), minutes=4
    )

    [order] = told.story.broker_orders().values()
    assert order["status"] == "CANCELLED"
    assert [verb for verb, _ in told.story.attempts()] == ["POST", "PUT", "DELETE"]
