"""What counts as progress, and what the service manager hears of it, over a real socket."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.domain.entry import ACCOUNT_SCOPE
from bot.domain.recovery import Recovery
from bot.journal.errors import Unreachable
from bot.runtime.health import heartbeat
from bot.runtime.health.heartbeat import Heartbeat, Progress, ServiceManager, Work, words_of
from bot.runtime.worlds.environment import REAL_TIME
from tests.engine.stage import ACCOUNT, DAY, Stage


class Bot:
    """A bot whose work is what a test says."""

    def __init__(self) -> None:
        self.finished = 0
        self.waiting = 0
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.refusal: Exception | None = None

    def progress(self) -> Progress:
        return Progress(Work(lambda: self.finished, lambda: self.waiting, self._probe))

    async def _probe(self) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.refusal is not None:
            raise self.refusal


async def test_a_loop_that_spins_with_work_before_it_does_not_get_on() -> None:
    bot = Bot()
    looks = bot.progress()
    await looks.look()
    looks.probe_s = 0.001
    bot.waiting = 1_200

    assert not await looks.look()

    assert looks.objection == "1,200 events wait and nothing is finished"
    assert bot.asked == 0


async def test_an_event_finished_is_progress_whatever_waits() -> None:
    bot = Bot()
    looks = bot.progress()
    looks.probe_s = 0.001
    bot.waiting = 5
    seen = []
    for finished in (1, 2, 2, 3):
        bot.finished = finished
        seen.append(await looks.look())

    assert seen == [True, True, False, True]
    assert looks.objection == ""


async def test_work_that_has_just_come_may_wait_for_its_commit() -> None:
    bot = Bot()
    looks = bot.progress()
    await looks.look()
    bot.waiting, looks.probe_s = 2, 60.0
    looking = asyncio.create_task(looks.look())
    await asyncio.sleep(0)
    bot.finished, bot.waiting = 2, 0

    assert await looking
    assert looks.objection == ""


async def test_work_that_waited_at_the_look_before_waits_no_longer() -> None:
    bot = Bot()
    looks = bot.progress()
    bot.finished, bot.waiting = 1, 2
    assert await looks.look(), "something was finished"
    looks.probe_s = 0.01
    await asyncio.sleep(0.01)

    with pytest.raises(StopIteration) as named:
        looks.look().send(None)

    assert named.value.value is False, "it is named at once: nothing is waited for"


def test_a_decision_that_waits_on_purpose_is_no_objection() -> None:
    assert REAL_TIME.lazy_s * 1.5 <= heartbeat.PROBE_S


async def test_a_bot_without_work_gets_on_while_its_journal_answers() -> None:
    bot = Bot()
    looks = bot.progress()

    assert [await looks.look() for _ in range(3)] == [True, True, True]
    assert bot.asked == 2, "the first look needs no answer"


async def test_a_journal_that_refuses_answers() -> None:
    bot = Bot()
    bot.refusal = Unreachable("refused", database="vnbot", host="db", port=5432)
    looks = bot.progress()

    assert [await looks.look() for _ in range(2)] == [True, True]


async def test_a_journal_that_hangs_is_asked_once_until_it_answers() -> None:
    bot = Bot()
    looks = bot.progress()
    await looks.look()
    bot.answers.clear()
    looks.probe_s = 0.001

    seen = [await looks.look() for _ in range(3)]
    asked, objection = bot.asked, looks.objection
    bot.answers.set()
    seen.append(await looks.look())

    assert seen == [False, False, False, True]
    assert (asked, objection) == (1, "the journal does not answer")


def test_a_probe_is_over_long_before_a_watchdog_bites() -> None:
    assert heartbeat.PROBE_S < 30 / 4


async def test_a_start_that_waits_for_its_broker_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LOOK_S", 0.001)
    bot = Bot()
    looks, beats = bot.progress(), Heartbeat(ServiceManager({}), asyncio.Event())
    beats.follow(looks, str)
    looks.seen_s = long_ago_s = looks.seen_s - 60

    beating = asyncio.create_task(beats.run())
    for _ in range(1_000):
        if not bot.asked:
            await asyncio.sleep(0.001)
    beating.cancel()

    assert looks.seen_s > long_ago_s + 50


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.settimeout(30)
        yield ours


def test_a_message_arrives_as_the_manager_reads_it(
    listening: socket.socket, tmp_path: Path
) -> None:
    listening.bind(str(tmp_path / "notify"))

    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}).tell("READY=1", "WATCHDOG=1")

    assert listening.recv(100) == b"READY=1\nWATCHDOG=1"


def test_an_abstract_socket_is_one_that_begins_with_an_at(listening: socket.socket) -> None:
    name = f"vnbot-{os.getpid()}"
    listening.bind(f"\0{name}")

    ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).tell("READY=1")

    assert listening.recv(100) == b"READY=1"


def test_a_text_from_outside_forges_no_message(listening: socket.socket, tmp_path: Path) -> None:
    listening.bind(str(tmp_path / "notify"))
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})

    manager.status("no room\nWATCHDOG=1")
    manager.status("no room\nWATCHDOG=1")
    manager.status("well")

    assert listening.recv(100) == b"STATUS=no room\\x0aWATCHDOG=1"
    assert listening.recv(100) == b"STATUS=well"


def test_a_manager_hears_why_no_order_leaves_a_bot_that_runs() -> None:
    kept = {f"{ACCOUNT_SCOPE}{ACCOUNT}": "API changed?"}

    well = words_of(Stage().engine.status(), "")
    halted = words_of(Stage(recovery=Recovery(DAY, halted_scopes=kept)).engine.status(), "")

    assert well == "running since 09:30"
    assert halted == "running, but no order is sent: API changed?"


@pytest.mark.parametrize(
    "environment", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "@nobody-listens"}]
)
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    assert not ServiceManager(environment).tell("READY=1")


def test_what_a_busy_manager_did_not_hear_is_told_again(
    listening: socket.socket, tmp_path: Path
) -> None:
    listening.bind(str(tmp_path / "notify"))
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    while manager.tell("WATCHDOG=1"):
        """Fill its queue."""
    manager.status("halted")
    listening.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while listening.recv(100):
            """Now it has time."""

    manager.status("halted")

    assert listening.recv(100) == b"STATUS=halted"


@pytest.mark.parametrize(
    ("environment", "span"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_watchdog_is_ours_only_when_it_says_so(environment: dict[str, str], span: float) -> None:
    assert ServiceManager(environment).watchdog_s == span
