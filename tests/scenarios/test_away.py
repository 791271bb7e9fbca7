"""A broker that is away at a start: the bot waits where orders may be open, and says so."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.domain.entry import Entry, IntentRecorded, Note, OrderUpdated
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState
from bot.runtime.control.socket import NoBotRunning, ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunEnd, RunOptions
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from tests.notice_server import notice_server
from tests.staging import QUIET
from tests.story import ONCE, InProcessEnvironment, Shown, once, tell, write_project

RESTING = once(params={"price": 26_000})
FOR_EVER = 10**9
PATIENCE_S = 30.0
PACED = {"scenario": "story.yaml", "speed": 20, "port": 0}
"""Slow enough that it is still the same morning when a slow machine has answered."""
OFF_BY_ONE = {
    "match": {"verb": "GET", "path": "*/summary", "at": "09:24", "until": "15:00", "times": 0},
    "action": {"do": "set_fields", "fields": {"ci_balance": 99_999_999}},
}


class Away(InProcessEnvironment):
    """An environment whose broker answers neither of the first `silent` requests to a path.

    `meanwhile` are the paths that it is asked for until it answers.
    """

    silent = 0
    until: datetime | None = None
    """Instead of `silent`: the market time until which it answers none."""
    path = ""
    meanwhile: list[str]

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        app, asked = access.app, 0
        assert app is not None

        async def dead(scope: Mapping[str, Any], *rest: Any) -> None:
            nonlocal asked
            asked += self.path in scope["path"]
            if self.until is not None:
                self.silent = asked if self.market.now() < self.until else 0
            if asked <= self.silent:
                self.meanwhile.append(scope["path"])
            if self.path in scope["path"] and asked <= self.silent:
                raise ConnectionResetError
            await app(scope, *rest)

        return replace(access, app=dead)


@dataclass
class Listening(Shown):
    """A screen that says when it was told of its first entry, of trouble and of an order's end."""

    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    has_trouble: asyncio.Event = field(default_factory=asyncio.Event)
    has_cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        self.has_begun.set()
        if isinstance(entry, OrderUpdated) and entry.state is OrderState.CANCELLED:
            self.has_cancelled.set()

    def trouble(self, text: str) -> None:
        super().trouble(text)
        self.has_trouble.set()


def _run(
    config: Path,
    shown: Shown,
    path: str,
    silent: int,
    meanwhile: list[str] | None = None,
    *,
    is_service: bool = False,
    days: int = 0,
) -> "asyncio.Task[RunEnd]":
    loaded = load_settings(config)

    def make(spec: EnvironmentSpec) -> Away:
        script = load_scenario("story.yaml", spec.loaded.base_dir)
        environment = Away(*wake_sandbox(spec, script), spec)
        environment.silent, environment.path = silent, path
        environment.meanwhile = [] if meanwhile is None else meanwhile
        return environment

    # Waits take no real time: a run that is to be asked and stopped must not be over before.
    run_for = timedelta(days=days) or timedelta(minutes=3)
    options = RunOptions(run_for=run_for, stop_grace_s=1, is_service=is_service)
    return asyncio.create_task(run_bot(loaded, options, shown, make=make))


async def _with_an_open_order(folder: Path) -> Path:
    config = write_project(folder, scenario=QUIET, strategies=[RESTING])
    told = await tell(config, minutes=1)
    assert [order["status"] for order in told.broker_orders().values()] == ["SENT"]
    return config


@pytest.mark.parametrize("path", ["/users/me", "/portfolio", "/order-book"])
async def test_a_broker_that_is_away_at_a_start_is_waited_for_while_an_order_is_open(
    tmp_path: Path, path: str
) -> None:
    config, shown = await _with_an_open_order(tmp_path), Shown()

    end = await _run(config, shown, path, silent=9)

    assert end.reason == "3 min are over"
    asked_again = [text for text in shown.troubles if "asks again in" in text]
    assert asked_again
    assert "The bot stays" in asked_again[0]
    shown.require_no_fault()


async def test_a_broker_that_is_away_at_a_start_ends_a_bot_without_open_work_at_once(
    tmp_path: Path,
) -> None:
    config, shown = write_project(tmp_path, scenario=QUIET, strategies=[RESTING]), Shown()

    with pytest.raises(OperatorMistake) as ended:
        await _run(config, shown, "/users/me", FOR_EVER)

    assert ended.value.exit_code == ExitCode.UNREACHABLE
    assert shown.troubles == []


async def test_a_service_waits_for_a_broker_that_is_away_at_its_start(tmp_path: Path) -> None:
    config, shown = write_project(tmp_path, scenario=QUIET, strategies=[RESTING]), Shown()

    end = await _run(config, shown, "/users/me", silent=9, is_service=True)

    assert end.reason == "3 min are over"
    assert "The bot stays and asks again in 1 s" in shown.troubles[0]


async def _with_a_timer(
    folder: Path, path: str, until: datetime, span: timedelta, *, at: str, start: str
) -> Shown:
    """Run a service that buys at a time of day, and whose broker does not answer a path before."""
    timed = once(wake={"timer": [at]}, params={"price": 26_500})
    config = write_project(folder, scenario={**QUIET, "start": start}, strategies=[timed])
    plug_in = folder / "strategies" / "once.py"
    plug_in.write_text(ONCE.replace("def on_quote(self, quote)", "def on_timer(self, timer)"))
    loaded, shown = load_settings(config), Shown()

    def make(spec: EnvironmentSpec) -> Away:
        environment = Away(*wake_sandbox(spec, load_scenario("story.yaml", folder)), spec)
        environment.path, environment.meanwhile, environment.until = path, [], until
        return environment

    options = RunOptions(run_for=span, is_service=True, answer_otp_after=timedelta(seconds=5))
    await run_bot(loaded, options, shown, make=make)
    shown.require_no_fault()
    return shown


async def test_a_start_that_waits_overnight_trades_on_the_day_on_which_its_broker_is_back(
    tmp_path: Path,
) -> None:
    until = datetime(2026, 11, 20, 9, 5, tzinfo=EXCHANGE_TZ)
    span, times = timedelta(hours=9, minutes=35), {"at": "09:20", "start": "23:50:00"}

    shown = await _with_a_timer(tmp_path, "/order-book", until, span, **times)

    [recorded] = shown.all(IntentRecorded)
    assert recorded.intent.trading_date == until.date()
    ours = {(row.intent_id, row.trading_date) for row in shown.all(OrderUpdated)}
    assert ours == {(recorded.intent.intent_id, until.date())}, "none of ours is another's"


@pytest.mark.parametrize("path", ["/order-book", "/users/me"])
@pytest.mark.parametrize(("at", "is_missed"), [("09:20", True), ("09:30", True), ("09:45", False)])
async def test_a_timer_that_passes_while_a_first_start_waits_is_told(
    tmp_path: Path, path: str, at: str, *, is_missed: bool
) -> None:
    until, span = datetime(2026, 11, 19, 9, 40, tzinfo=EXCHANGE_TZ), timedelta(minutes=30)

    shown = await _with_a_timer(tmp_path, path, until, span, at=at, start="09:20:00")

    told = [note.numbers["job"] for note in shown.all(Note) if note.kind == "MISSED"]
    assert told == [f"timer once {at}:00"] * is_missed
    assert len(shown.all(IntentRecorded)) == (not is_missed)


async def test_a_timer_of_the_moment_of_a_first_start_is_run_and_not_missed(
    tmp_path: Path,
) -> None:
    begins, span = datetime(2026, 11, 19, 9, 20, tzinfo=EXCHANGE_TZ), timedelta(minutes=5)

    shown = await _with_a_timer(tmp_path, "/", begins, span, at="09:20", start="09:20:00")

    assert [note for note in shown.all(Note) if note.kind == "MISSED"] == []
    assert len(shown.all(IntentRecorded)) == 1


async def test_no_quote_is_waited_for_while_an_order_is_open(tmp_path: Path) -> None:
    config, shown = await _with_an_open_order(tmp_path), Shown()

    end = await _run(config, shown, "/quotes/stocks/", silent=9)

    assert end.reason == "3 min are over"
    assert shown.troubles[0].startswith("HPG has no quote (")
    shown.require_no_fault()


async def test_what_is_open_is_followed_while_a_start_waits_for_its_broker(tmp_path: Path) -> None:
    config, meanwhile = await _with_an_open_order(tmp_path), list[str]()

    await _run(config, Shown(), "/portfolio", 30, meanwhile)

    books = [path for path in meanwhile if path.endswith("/order-book")]
    assert len(books) > 10


@pytest.mark.parametrize("path", ["/users/me", "/portfolio", "/order-book"])
async def test_while_the_broker_is_away_the_bot_tells_its_state_and_can_be_stopped(
    tmp_path: Path, path: str
) -> None:
    config, shown = await _with_an_open_order(tmp_path), Listening()
    state_dir = load_settings(config).state_dir
    run = _run(config, shown, path, FOR_EVER, days=300)

    await asyncio.wait_for(shown.has_trouble.wait(), PATIENCE_S)
    status = await _answer(state_dir, {"do": "status"})
    paused = await _answer(state_dir, {"do": "pause", "reason": "x"})
    stopped = await _answer(state_dir, {"do": "stop", "reason": "no broker", "by": "me"})
    await asyncio.wait_for(run, PATIENCE_S)

    told = status["status"]
    assert isinstance(told, dict)
    assert told["state"] == "STARTING"
    assert paused["ok"] is (path != "/users/me")
    assert stopped["ok"]
    with pytest.raises(NoBotRunning):
        ask(state_dir, {"do": "status"})


@pytest.mark.wire
async def test_a_killed_run_is_told_while_the_next_start_waits_for_its_broker(
    tmp_path: Path,
) -> None:
    pytest.importorskip("apprise")
    config, shown = await _with_an_open_order(tmp_path), Listening()
    state_dir = load_settings(config).state_dir
    with notice_server() as service:
        notify = {"urls": [service.url]}
        write_project(tmp_path, scenario=QUIET, strategies=[RESTING], notify=notify)
        before = asyncio.all_tasks()
        run = _run(config, shown, "/users/me", 0, days=300)
        await asyncio.wait_for(shown.has_begun.wait(), PATIENCE_S)
        run.cancel()
        await asyncio.wait({run}, timeout=PATIENCE_S)
        # What a killed process leaves ends with it; here it must not outlive the run.
        left = asyncio.all_tasks() - before
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        shown = Listening()
        run = _run(config, shown, "/users/me", FOR_EVER, days=300)
        await asyncio.wait_for(shown.has_trouble.wait(), PATIENCE_S)
        await asyncio.to_thread(_until, lambda: "after a crash" in " ".join(service.titles))
        await _answer(state_dir, {"do": "stop", "reason": "no broker", "by": "me"})
        await asyncio.wait_for(run, PATIENCE_S)


def _until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.01)


async def test_a_break_of_an_earlier_run_is_named_while_the_broker_is_away(tmp_path: Path) -> None:
    scenario, watching = {**QUIET, "faults": [OFF_BY_ONE]}, once(mode="watch")
    config = write_project(tmp_path, scenario=scenario, strategies=[watching])
    await tell(config, minutes=7)
    state_dir, shown = load_settings(config).state_dir, Listening()
    run = _run(config, shown, "/users/me", FOR_EVER, is_service=True, days=300)

    await asyncio.wait_for(shown.has_trouble.wait(), PATIENCE_S)
    status = await _answer(state_dir, {"do": "status"})
    await _answer(state_dir, {"do": "stop", "reason": "no broker", "by": "me"})
    await asyncio.wait_for(run, PATIENCE_S)

    reason = str(status["status"]["reason"])  # type: ignore[index]
    assert reason.startswith("the broker does not answer (")
    assert "; B-0001 holds the start until it is accepted (cash: expected 100,000,000," in reason


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_halt_while_the_broker_is_away_cancels_what_is_open_when_it_is_back(
    tmp_path: Path,
    is_killed: bool,
) -> None:
    config, shown = await _with_an_open_order(tmp_path), Listening()
    write_project(tmp_path, scenario=QUIET, strategies=[RESTING], sandbox=PACED)
    state_dir = load_settings(config).state_dir
    run = _run(config, shown, "/users/me", FOR_EVER if is_killed else 3, days=300)

    await asyncio.wait_for(shown.has_trouble.wait(), PATIENCE_S)
    halted = await _answer(state_dir, {"do": "halt", "reason": "wrong prices", "by": "me"})
    status = await _answer(state_dir, {"do": "status"})
    if is_killed:
        run.cancel()
        await asyncio.wait({run}, timeout=PATIENCE_S)
        run = _run(config, shown, "/users/me", 0, days=300)
    await asyncio.wait_for(shown.has_cancelled.wait(), PATIENCE_S)
    await _answer(state_dir, {"do": "stop", "reason": "", "by": "me"})
    await asyncio.wait_for(run, PATIENCE_S)

    told = status["status"]
    assert isinstance(told, dict)
    assert halted["ok"]
    assert told["state"] == "HALTED"
    assert str(told["reason"]).startswith("wrong prices")
    ends = {row.state for row in shown.all(OrderUpdated)}
    assert ends >= {OrderState.CANCELLED}
    assert OrderState.FILLED not in ends
    assert not shown.all(IntentRecorded)


async def _answer(state_dir: Path, request: Mapping[str, object]) -> Mapping[str, object]:
    return await asyncio.to_thread(ask, state_dir, request)
