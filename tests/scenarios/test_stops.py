"""Ends of a run: after a failure nothing is decided or sent, and every stop comes to an end."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.domain.entry import Decision, Entry, IntentMoved, Note, Verdict
from bot.domain.order import SendState
from bot.domain.recovery import Recovery
from bot.journal.database.engines import file_of
from bot.journal.errors import Holder
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.lease import acquire
from bot.runtime.activity import Post
from bot.runtime.control.socket import NoBotRunning, ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.supervisor import FAILED
from bot.runtime.worlds.environment import EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from bot.sandbox.house.ledger import read_ledger
from tests.faults.hanging import played_in_real_time
from tests.simulation.simulate import in_child
from tests.staging import QUIET, scenario
from tests.story import InProcessEnvironment, Shown, Story, in_process, once, tell, write_project

SHS = {"name": "second", "symbols": ["SHS"], "params": {"price": 19_000}}


class OurBug(BaseException):
    """Something that nobody foresaw."""


@dataclass
class Breaking(Shown):
    """A screen that breaks at the first order that passes its checks, after its commit."""

    is_broken: bool = False

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        if isinstance(entry, Decision) and entry.verdict is Verdict.PASSED and not self.is_broken:
            self.is_broken = True
            raise OurBug


async def test_after_a_failure_nothing_is_decided_or_sent(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(), once(**SHS)])
    loaded, shown = load_settings(config), Breaking()

    with pytest.raises(OurBug):
        await run_bot(loaded, RunOptions(run_for=timedelta(minutes=2)), shown, make=in_process)

    story = Story(None, shown, loaded)  # type: ignore[arg-type]
    assert story.broker_orders() == {}
    passed = [each for each in shown.all(Decision) if each.verdict is Verdict.PASSED]
    assert len(passed) == 1
    again = await tell(config, minutes=3)
    [never] = [move for move in again.shown.all(IntentMoved) if move.intent_id == "L-0001"][-1:]
    assert never.to_state is SendState.NOT_PLACED
    assert len(again.posts()) == len(again.broker_orders()) + 1


@dataclass
class BreakingLater(Shown):
    """A screen that breaks a moment after two orders have passed their checks."""

    passed: list[datetime] = field(default_factory=list)

    def entry(self, entry: Entry) -> None:
        if len(self.passed) == 2 and entry.at > self.passed[1] + timedelta(milliseconds=200):
            raise OurBug
        super().entry(entry)
        if isinstance(entry, Decision) and entry.verdict is Verdict.PASSED:
            self.passed.append(entry.at)


SLOW_POST = {
    "match": {"verb": "POST", "path": "*/orders", "times": 0},
    "point": "after_apply",
    "action": {"do": "delay", "seconds": 1.5},
}


@pytest.mark.wire
async def test_an_order_that_waits_for_its_turn_as_a_failure_ends_the_run_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In real time: the answer of the first one gives the second its turn."""
    often = {"quote": "1s"}
    strategies = [once(wake=often), once(**SHS, wake=often)]
    script, one = scenario(faults=[SLOW_POST]), {"max_in_flight": 1}
    async with played_in_real_time(tmp_path, script) as (played, broker, secrets):
        for name, secret in secrets.items():
            monkeypatch.setenv(name, secret)
        config = write_project(
            tmp_path, scenario="quiet", strategies=strategies, broker=broker, risk=one
        )
        loaded, shown = load_settings(config), BreakingLater()
        signing_in = asyncio.create_task(_sign_in(loaded.state_dir, played.credentials.otp_code))

        with pytest.raises(OurBug):
            await run_bot(loaded, RunOptions(), shown)

        await signing_in
        lines = read_ledger(tmp_path / "ledger")
    [placed] = {line["symbol"] for line in lines if line["kind"] == "order"}
    kept = EmergencyJournal(loaded.state_dir).read().entries
    moved = {each.intent_id: each for each in kept if isinstance(each, IntentMoved)}
    assert placed == "HPG"
    assert (moved["L-0002"].to_state, moved["L-0002"].reason) == (SendState.NOT_SENT, FAILED)


async def _sign_in(state_dir: Path, code: str) -> None:
    """Give a bot its token once it is asking for one."""
    is_asking = False
    while not is_asking:
        await asyncio.sleep(0.02)
        with suppress(NoBotRunning):
            status: Any = (await asyncio.to_thread(ask, state_dir, {"do": "status"})).get("status")
            is_asking = status is not None and status["state"] == "NEEDS_2FA"
    await asyncio.to_thread(ask, state_dir, {"do": "otp_request"})
    await asyncio.to_thread(ask, state_dir, {"do": "otp_submit", "code": code})


@dataclass
class Stopping(Shown):
    """Somebody ends the bot when the row of its run has just been written."""

    def recovered(self, recovery: Recovery) -> None:
        super().recovered(recovery)
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_whose_start_is_ended_by_a_signal_has_its_end_in_the_journal(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    options = RunOptions(run_for=timedelta(minutes=1))

    def run() -> None:
        asyncio.run(run_bot(load_settings(config), options, Stopping(), make=in_process))

    code = in_child(run)

    assert code == 0
    with closing(sqlite3.connect(tmp_path / "state" / "journal.db")) as journal:
        [(ended_at, reason)] = journal.execute("select ended_at, end_reason from runs").fetchall()
    assert (bool(ended_at), reason) == (True, "SIGTERM")


class Deaf(InProcessEnvironment):
    """The first time, its watch of the machine's clock does not hear that it is to end."""

    async def watch_time(self, _post: Post) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3_600)
        await asyncio.sleep(3_600)


async def test_a_watch_that_does_not_end_holds_up_no_stop(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    loaded, shown = load_settings(config), Shown()

    def deaf(spec: EnvironmentSpec) -> Deaf:
        script = load_scenario(loaded.settings.sandbox.scenario, loaded.base_dir)
        return Deaf(*wake_sandbox(spec, script), spec)

    end = await run_bot(loaded, RunOptions(run_for=timedelta(minutes=1)), shown, make=deaf)

    assert end.reason == "1 min are over"
    assert shown.troubles == ["1 of the bot's own watches did not end"]


def _expiring(**changes: object) -> Mapping[str, object]:
    order = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"}
    return once(params={"price": 26_000}, order=order, **changes)


async def test_a_stop_ends_although_no_row_shows_the_end_of_its_cancel(tmp_path: Path) -> None:
    blind = {"verb": "GET", "path": "*/order-book*", "at": "09:20:30", "times": 0}
    deaf = {"match": blind, "action": {"do": "rst"}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [deaf]}, strategies=[_expiring()])
    started = time.monotonic()

    story = await tell(config, minutes=2, stop_grace_s=0.5)

    assert time.monotonic() - started < 60
    assert [order["status"] for order in story.broker_orders().values()] == ["CANCELLED"]
    [left] = [
        one for one in story.shown.all(Note) if one.numbers.get("alert") == "STOP_LEAVES_OPEN"
    ]
    assert "ORD10000001 (L-0001, BUY 100 HPG at 26,000) is still open" in left.text


@dataclass
class Robbed(Shown):
    """A screen that shows the market when another bot takes the journal's lease."""

    url: str = ""

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        if isinstance(entry, Note) and entry.kind == "QUOTE":
            file_of(self.url).with_name("journal.db.lease").unlink()
            acquire(self.url, Holder(1, "elsewhere", entry.at)).release()


async def test_a_bot_whose_journal_another_has_taken_over_ends_as_an_operators_matter(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    loaded = load_settings(config)
    shown = Robbed(url=loaded.journal_url)

    with pytest.raises(OperatorMistake) as ended:
        await run_bot(loaded, RunOptions(run_for=timedelta(minutes=2)), shown, make=in_process)

    assert ended.value.exit_code == ExitCode.NOT_RUNNING
    assert "another bot has taken this journal over (lease 2, ours was 1)" in str(ended.value)
    assert "bug" not in str(ended.value)
    assert Story(None, shown, loaded).posts() == []  # type: ignore[arg-type]
