"""The end of a run that has one, and of one that has none."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from bot.clock import Clock, SimulatedClock
from bot.domain.entry import RunState, StateChanged
from bot.domain.operations import Action, OperatorActed
from bot.runtime.activity import Activity, AllAtOnce, Tasks
from bot.runtime.control.operations import Operations
from bot.runtime.control.status import Facts
from bot.runtime.inbox import Inbox
from bot.runtime.parts import Parts
from bot.runtime.run_controls import RunControls, RunOptions
from bot.runtime.supervisor import Supervisor
from bot.runtime.worlds.environment import Environment
from tests.rows import every_row
from tests.staging import START


@dataclass
class Still:
    """An environment whose time passes when somebody pauses."""

    market: Clock = field(default_factory=lambda: SimulatedClock(START))
    story_start: datetime | None = None
    pauses: list[timedelta] = field(default_factory=list)

    async def pause(self, span: timedelta) -> None:
        self.pauses.append(span)

    def finish(self) -> None:
        """Nothing is played here."""


async def _around(options: RunOptions) -> tuple[Inbox, Still]:
    """Let a run without work go on for a while; return what it was told, and its environment."""
    environment, supervisor, activity = Still(), Supervisor(), Activity()
    inbox, tasks = Inbox(activity), Tasks(activity, AllAtOnce(), supervisor.fail)
    parts = cast("Parts", SimpleNamespace(inbox=inbox, tasks=tasks))

    await RunControls(options, cast("Environment", environment), supervisor).around(
        asyncio.sleep(0.01), parts
    )
    return inbox, environment


async def test_a_run_of_an_hour_is_asked_to_stop_when_the_hour_is_over() -> None:
    inbox, environment = await _around(RunOptions(run_for=timedelta(hours=1)))

    assert inbox.has_more
    asked = inbox.take()
    assert isinstance(asked, OperatorActed)
    assert (asked.action, asked.reason) == (Action.STOP, "the hour is over")
    assert environment.pauses == [timedelta(hours=1)]


@dataclass
class Passing(Still):
    """An environment in which a pause takes its time."""

    time: SimulatedClock = field(default_factory=lambda: SimulatedClock(START))
    mailed_code: str = "424242"

    async def pause(self, span: timedelta) -> None:
        self.time.advance_to(self.time.now() + span)


@dataclass
class LastSeconds:
    """A second factor whose token is needed anew, and ends two seconds later."""

    time: SimulatedClock
    given: list[str] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        return self.time.now() <= START + timedelta(seconds=2)

    async def request(self) -> None:
        self.given.append("asked for")

    async def submit(self, code: str, _way: str) -> None:
        self.given.append(code)


async def test_a_code_is_given_though_the_token_has_its_last_seconds_yet() -> None:
    environment, activity, supervisor = Passing(), Activity(), Supervisor()
    tasks, office = Tasks(activity, AllAtOnce(), supervisor.fail), LastSeconds(environment.time)
    parts = cast("Parts", SimpleNamespace(tasks=tasks, second_factor=office))
    options = RunOptions(answer_otp_after=timedelta(seconds=1))
    controls = RunControls(options, cast("Environment", environment), supervisor)

    async def lose_the_token() -> None:
        running, needed = RunState.RUNNING, RunState.NEEDS_2FA
        controls.see(StateChanged(START, running, needed, "needs 2FA", "2fa"))
        await asyncio.sleep(0.01)

    await controls.around(lose_the_token(), parts)

    assert office.given == ["asked for", "424242"]


async def test_a_run_without_an_end_is_never_asked_to_stop() -> None:
    inbox, environment = await _around(RunOptions())

    assert not inbox.has_more
    assert environment.pauses == []


@every_row(
    ("span", "told"),
    [
        (timedelta(hours=1), "the hour is over"),
        (timedelta(minutes=200), "3 h 20 are over"),
        (timedelta(minutes=5), "5 min are over"),
        (timedelta(seconds=30), "30 s are over"),
    ],
)
def test_the_end_of_a_demo_says_how_long_it_was(span: timedelta, told: str) -> None:
    inbox, _ = asyncio.run(_around(RunOptions(run_for=span)))
    asked = inbox.take()

    assert isinstance(asked, OperatorActed)
    assert asked.reason == told


@every_row(
    ("by", "reason", "told"),
    [
        ("operator", "bot stop", "bot stop"),
        ("operator", "", "bot stop"),
        ("operator", "lunch", "bot stop: lunch"),
        ("signal", "Ctrl-C", "stopped"),
    ],
)
def test_a_stop_over_the_socket_keeps_its_reason(by: str, reason: str, told: str) -> None:
    async def stopped() -> str:
        controls = RunControls(RunOptions(), cast("Environment", Still()), Supervisor())
        controls.see(StateChanged(START, RunState.RUNNING, RunState.STOPPING, reason, by))
        return controls.reason

    assert asyncio.run(stopped()) == told


# -------------------------------------------------------- a stop that can't be written


@every_row(
    ("noticed_s", "waits_for", "ends_s"),
    [
        (0, ("BUY 100 HPG",), 9),
        (0, (), 6),
        (2, (), 8),
        (5, ("BUY 100 HPG",), 9),
        (5, (), 9),
        (9.5, ("BUY 100 HPG",), 9.5),
    ],
)
async def test_a_stop_that_is_not_written_ends_in_time_from_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, noticed_s: float, waits_for: tuple[str, ...], ends_s: float
) -> None:
    loop, supervisor, tasks = asyncio.get_running_loop(), Supervisor(), SimpleNamespace()
    controls = RunControls(RunOptions(), cast("Environment", Still()), supervisor)
    parts = SimpleNamespace(tasks=tasks, trouble=SimpleNamespace(begin=lambda _: None))
    monkeypatch.setattr("bot.runtime.run_controls.unanswered", lambda _: waits_for)
    await controls.around(asyncio.sleep(0), cast("Parts", parts))
    asked_at = loop.time()

    with monkeypatch.context() as later:
        controls.expect_end()
        later.setattr(loop, "time", lambda: asked_at + noticed_s)
        controls.go_ahead(StateChanged(START, RunState.RUNNING, RunState.STOPPING, "", "operator"))
        left_s = supervisor.left_s()

    assert noticed_s + left_s == pytest.approx(ends_s, abs=0.1)


@every_row(("strategy", "is_expected"), [(None, True), ("sma", False)])
async def test_the_time_of_a_stop_counts_from_the_ask(
    strategy: str | None, is_expected: bool
) -> None:
    told, inbox = list[str](), Inbox(Activity())
    parts = SimpleNamespace(inbox=inbox, environment=Still())
    operations = Operations(cast("Parts", parts), cast("Facts", None), lambda: told.append("ends"))

    reply = await operations.act(Action.STOP, {"strategy": strategy})

    assert reply == {"ok": True}
    assert (told == ["ends"]) is is_expected
