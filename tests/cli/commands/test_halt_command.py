"""What `bot halt` says about the open orders."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.cli.commands import halt as halt_command
from bot.cli.commands.halt import NOT_YET, how_many_open, what_is_sold
from bot.cli.main import INTERRUPTED
from bot.cli.target import Fields
from bot.config.problems import ExitCode
from bot.runtime.brake import is_raised, reason_of_flag
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import FOLDER, SOCKET, Reply, Request, refused
from tests.cli.stage import CONFIG, Ran, call

SOMEBODY_ELSE = 65_534
OPEN = {"order_id": "ORD10000008", "intent_id": "L-0008"}


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is there to be asked, and has not got all day."""
    monkeypatch.setattr(halt_command, "is_attended", lambda _: True)
    monkeypatch.setattr(halt_command, "NAME_S", 0.2)
    monkeypatch.setattr(halt_command, "PATIENCE_S", 0.3)


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    """The configuration of a bot that has a state directory and has not run."""
    (tmp_path / "state").mkdir(mode=0o700)
    config = tmp_path / "bot.yaml"
    config.write_text(CONFIG)
    return config


@contextmanager
def hanging(state_dir: Path) -> Iterator[None]:
    """A bot that listens and never answers."""
    (state_dir / FOLDER).mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(state_dir / FOLDER / SOCKET))
        listening.listen(8)
        yield


@pytest.mark.usefixtures("terminal")
def test_who_halts_on_a_terminal_between_two_starts_is_asked_and_has_blocked_the_next(
    idle: Path,
) -> None:
    ran = call("halt", "--reason", "enough", "-c", str(idle), stdin="y\n")

    assert ran.code == ExitCode.NOT_RUNNING
    assert f"No bot answers on {idle.parent / 'state'}. Put a HALT file there all" in ran.err
    assert "A HALT file is in place now: the next start will be HALTED" in ran.err
    assert reason_of_flag(idle.parent / "state") == "enough"


@pytest.mark.usefixtures("terminal")
def test_who_halts_a_hanging_bot_on_a_terminal_is_asked_and_has_blocked_it(idle: Path) -> None:
    with hanging(idle.parent / "state"):
        ran = call("halt", "--reason", "enough", "-c", str(idle), stdin="y\n")

    assert ran.code == ExitCode.TIMED_OUT
    assert "did not answer in time; nothing was changed\nNo bot answers on" in ran.err
    assert "E-RUN-011 the bot on" in ran.err
    assert "The HALT file is in place, so no new order goes out" in ran.err
    assert reason_of_flag(idle.parent / "state") == "enough"


@pytest.mark.usefixtures("terminal")
def test_a_configuration_that_broke_does_not_keep_a_terminal_from_halting(idle: Path) -> None:
    idle.write_text("mode: sandbox\nstate_dir: state\nriks: {}\n")

    ran = call("halt", "-c", str(idle), stdin="y\n")

    assert ran.code == ExitCode.NOT_RUNNING
    assert "unknown key 'riks'" in ran.err
    assert is_raised(idle.parent / "state")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("answer", ["n\n", ""])
def test_who_does_not_mean_it_hears_that_nothing_was_halted_and_what_to_type(
    answer: str, idle: Path
) -> None:
    with hanging(idle.parent / "state"):
        ran = call("halt", "-c", str(idle), stdin=answer)

    assert ran.code == INTERRUPTED
    assert ran.err.splitlines()[-1] == (
        "NOTHING WAS HALTED: a bot running there goes on trading. To halt without a question: bot "
        "halt --yes"
    )
    assert not is_raised(idle.parent / "state")


def test_a_halt_where_no_bot_ever_ran_says_that_nothing_was_halted(idle: Path) -> None:
    (idle.parent / "state").rmdir()

    ran = call("halt", "--yes", "-c", str(idle))

    assert ran.code == ExitCode.NOT_RUNNING
    assert "NOTHING WAS HALTED: a bot running there goes on trading. Name its state" in ran.err
    assert "bot halt --yes --state-dir DIR" in ran.err


def test_a_halt_that_a_hanging_bot_has_not_heard_and_no_file_holds_says_so(
    idle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halt_command, "PATIENCE_S", 0.3)
    monkeypatch.setattr(halt_command, "raise_flag", lambda *_: "the disk is full")

    with hanging(idle.parent / "state"):
        ran = call("halt", "--yes", "-c", str(idle))

    assert ran.code == ExitCode.TIMED_OUT
    assert "the disk is full\nNOTHING WAS HALTED: a bot running there" in ran.err
    assert "kill -USR1 PID" in ran.err
    assert "the bot will still do the 'halt' once it responds again" in ran.err
    assert "in place" not in ran.err


def test_a_demo_that_hangs_is_halted_without_being_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    demo = tmp_path / "vnbot" / "demo"
    demo.mkdir(mode=0o700, parents=True)

    monkeypatch.setattr(halt_command, "PATIENCE_S", 0.3)
    with chdir(tmp_path), hanging(demo):
        ran = call("halt", "--yes", environment=places)

    assert ran.code == ExitCode.TIMED_OUT
    assert is_raised(demo), ran.err


def test_a_bot_that_is_still_starting_is_not_said_to_have_no_order_open():
    assert how_many_open(Fields({"state": "HALTED"})) == (
        "the broker has not been read yet; whatever is open there will be cancelled once it is"
    )
    assert how_many_open(Fields({"open_orders": []})) == "0 orders open"
    assert how_many_open(Fields({"open_orders": [{"order_id": "ORD1"}]})) == "1 order open"


def test_what_a_flatten_would_sell_leaves_out_what_only_watches_or_does_not_run():
    found = Fields(
        strategies=[{"name": "one", "mode": "trade"}, {"name": "other", "mode": "watch"}],
        positions=[
            {"strategy": "one", "symbol": "HPG", "shares": 1_300},
            {"strategy": "other", "symbol": "FPT", "shares": 100},
        ],
        unloaded=[{"strategy": "broken", "symbol": "VNM", "shares": 400}],
    )

    left = ["100 FPT of other, which only watches", "400 VNM of broken, which is not running"]
    assert what_is_sold(found) == (["1,300 HPG"], left)


def test_a_halt_beside_a_dead_bot_blocks_its_next_start_and_names_what_is_open(
    config: Path,
) -> None:
    (config.parent / "state").mkdir(mode=0o700, exist_ok=True)

    ran = call("halt", "--yes", "--reason", "enough", "-c", str(config))

    assert ran.code == ExitCode.NOT_RUNNING
    lost = "L-0008 BUY 300 HPG LIMIT 27,000, 0 filled, UNKNOWN"
    assert ran.out.splitlines() == [f"open, according to the journal: {lost}"]
    assert "the next start will be HALTED, cancel what it finds open and sell nothing" in ran.err
    assert reason_of_flag(config.parent / "state") == "enough"


def test_a_halt_beside_a_dead_bot_and_a_broken_configuration_says_that_it_holds(
    tmp_path: Path,
) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\nstate_dir: state\nriks: {}\n")
    (tmp_path / "state").mkdir(mode=0o700)

    ran = call("halt", "--yes", "-c", str(tmp_path / "bot.yaml"))

    assert ran.code == ExitCode.NOT_RUNNING
    assert "unknown key 'riks'" in ran.err
    assert "A HALT file is in place now: the next start will be HALTED" in ran.err
    assert is_raised(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
@pytest.mark.parametrize(
    ("closed", "why"),
    [
        ("state/control", "state/control belongs to user root: run this as that user. Nothing was"),
        ("state", "state belongs to user root: run this as that user. Nothing was sent"),
        ("", "bot.yaml: E-CFG-001 cannot read this file: permission denied"),
    ],
)
def test_a_halt_by_another_user_says_that_nothing_was_halted(closed: str, why: str) -> None:
    words = ["halt", "--yes", "-c"]
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "bot.yaml").write_text("mode: sandbox\nstate_dir: state\n", "utf-8")
        (folder / "state" / FOLDER).mkdir(mode=0o755, parents=True)
        folder.chmod(0o755)
        call(*words, str(folder / "bot.yaml"))  # imports what somebody else may not read
        (folder / "state" / "HALT").unlink()
        (folder / closed).chmod(0o700)
        os.seteuid(SOMEBODY_ELSE)
        try:
            ran = call(*words, str(folder / "bot.yaml"))
        finally:
            os.seteuid(0)

        assert ran.code == (ExitCode.DATABASE if closed else ExitCode.CONFIG)
        assert str(folder / why) in ran.err
        assert "NOTHING WAS HALTED: a bot running there goes on trading. Name its" in ran.err
        assert not is_raised(folder / "state")


def test_a_halt_at_a_control_folder_open_to_others_says_that_the_file_holds(config: Path) -> None:
    control = config.parent / "state" / FOLDER
    control.mkdir(mode=0o700, parents=True, exist_ok=True)
    control.chmod(0o755)

    ran = call("halt", "--yes", "-c", str(config))

    control.chmod(0o700)
    assert ran.code == ExitCode.DATABASE
    assert f"Do: chmod 700 {control}. Nothing was sent. But a HALT file is in place now" in ran.err
    assert ran.out.startswith("open, according to the journal: L-0008 BUY 300 HPG")


async def test_a_halt_at_a_bot_that_only_waits_says_what_the_file_does(config: Path) -> None:
    state_dir = config.parent / "state"

    async def not_yet(_: Request) -> Reply:
        return refused(NOT_YET, "another one holds the journal")

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    server = ControlServer(state_dir, {"halt": not_yet}, {"bot": bot})
    await server.start()

    ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))

    await server.stop()
    assert ran.code == ExitCode.REFUSED
    assert "another one holds the journal. A HALT file is in place now: if this bot" in ran.err
    assert is_raised(state_dir)


@pytest.mark.parametrize("looks", [1, 4])
async def test_a_bot_that_ends_before_its_cancels_are_done_is_not_said_to_be_halted(
    config: Path, looks: int
) -> None:
    state_dir, seen = config.parent / "state", list[Request]()

    async def halt(_: Request) -> Reply:
        return {"ok": True}

    async def status(request: Request) -> Reply:
        seen.append(request)
        if len(seen) == looks:
            ends.append(asyncio.create_task(server.stop()))
        token = {"until": "2026-11-19T16:59:59+00:00"}
        facts = {"state": "HALTED", "open_orders": [OPEN], "two_factor": token}
        return {"ok": True, "status": facts}

    ends = list[asyncio.Task[None]]()
    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    server = ControlServer(state_dir, {"halt": halt, "status": status}, {"bot": bot})
    await server.start()

    ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))

    assert ran.code == ExitCode.NOT_RUNNING
    lost = "L-0008 BUY 300 HPG LIMIT 27,000, 0 filled, UNKNOWN"
    assert f"open, according to the journal: {lost}" in ran.out
    assert "the bot has ended before it was done: no bot is running on" in ran.err
    assert "open orders stay open at the broker" in ran.err


async def halted_at(config: Path, status: Callable[[Request], Awaitable[Reply]]) -> Ran:
    """Halt a bot that takes every halt and answers `status` like this."""

    async def halt(_: Request) -> Reply:
        return {"ok": True}

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    server = ControlServer(config.parent / "state", {"halt": halt, "status": status}, {"bot": bot})
    await server.start()
    ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))
    await server.stop()
    return ran


async def test_a_halt_that_was_accepted_is_not_said_to_have_changed_nothing(
    idle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halt_command, "PATIENCE_S", 0.3)

    async def status(_: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    ran = await halted_at(idle, status)

    assert ran.code == ExitCode.TIMED_OUT
    assert "in time; 'halt' was accepted, but its result is not known: bot status" in ran.err
    assert "nothing was changed" not in ran.err


async def test_a_halt_of_a_bot_that_has_not_read_the_broker_yet_is_not_done(idle: Path) -> None:
    async def status(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "HALTED", "reason": "enough"}}

    ran = await halted_at(idle, status)

    assert ran.code == ExitCode.TIMED_OUT
    assert "the broker has not been read yet" in ran.out


async def test_a_flatten_at_a_bot_that_is_starting_does_not_say_that_nothing_is_held(
    config: Path,
) -> None:
    async def status(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "HALTED", "reason": "enough"}}

    async def halt(_: Request) -> Reply:
        return {"ok": True}

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    handlers = {"status": status, "halt": halt}
    server = ControlServer(config.parent / "state", handlers, {"bot": bot})
    await server.start()

    ran = await asyncio.to_thread(call, "halt", "--flatten", "--yes", "-c", str(config))

    await server.stop()
    assert ran.code == ExitCode.REFUSED
    assert (
        "sells nothing: it is still starting and does not know yet what its strategies hold"
        in ran.err
    )
    assert "nothing to sell" not in ran.err


async def test_orders_that_a_halt_ended_are_counted_where_the_journal_does_not_tell_of_them(
    config: Path,
) -> None:
    looks = list[Request]()

    async def halt(_: Request) -> Reply:
        return {"ok": True}

    async def status(request: Request) -> Reply:
        looks.append(request)
        facts = {"state": "HALTED", "open_orders": [OPEN] if len(looks) == 1 else []}
        return {"ok": True, "status": facts}

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    handlers = {"status": status, "halt": halt}
    server = ControlServer(config.parent / "state", handlers, {"bot": bot})
    await server.start()

    ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))

    await server.stop()
    assert "HALTED : 1 over" in ran.out
    assert "nothing was open" not in ran.out
    assert "E-DB" in ran.out + ran.err


async def test_a_halt_is_not_done_while_an_order_is_being_sent(
    idle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no list of open orders yet, and may be open any moment."""
    monkeypatch.setattr(halt_command, "CANCELS_S", 0.2)

    async def status(_: Request) -> Reply:
        facts = {"state": "HALTED", "reason": "enough", "open_orders": [], "sending": ["L-0008"]}
        return {"ok": True, "status": facts}

    ran = await halted_at(idle, status)

    assert ran.code == ExitCode.TIMED_OUT
    assert ran.out == (
        "HALTED mybot (live), 0 orders open, 1 being sent: enough\n"
        "HALTED : 1 being sent\n"
        "L-0008 BEING SENT: it has no answer yet; if the broker takes it, it is cancelled: bot "
        "orders\n"
    )


async def test_an_open_order_without_a_cancel_is_not_said_to_have_one_behind_it(idle: Path) -> None:
    async def status(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "HALTED", "open_orders": [OPEN], "cancels": []}}

    ran = await halted_at(idle, status)

    assert ran.code == ExitCode.TIMED_OUT
    assert ran.out.splitlines()[-1] == (
        "ORD10000008 STILL OPEN: no cancel of it is under way. Do: bot cancel ORD10000008"
    )


async def test_an_order_that_was_being_sent_when_the_halt_came_is_told_with_its_end(
    config: Path,
) -> None:
    looks = list[Request]()

    async def status(request: Request) -> Reply:
        looks.append(request)
        sending = ["L-0001"] if len(looks) < 3 else []
        return {"ok": True, "status": {"state": "HALTED", "open_orders": [], "sending": sending}}

    ran = await halted_at(config, status)

    assert ran.code == ExitCode.DONE
    assert ran.out.splitlines()[1:] == [
        "HALTED : 1 filled",
        "ORD10000001 FILLED: 100 filled, 0 cancelled",
    ]


async def test_the_sales_of_a_flatten_are_no_orders_that_the_halt_left_open(config: Path) -> None:
    begun = list[Request]()

    async def halt(request: Request) -> Reply:
        begun.extend([request] if request.get("flatten") else [])
        return {"ok": True}

    async def status(_: Request) -> Reply:
        held = {"strategy": "s", "symbol": "HPG", "shares": 300}
        flatten = {"code": "FLATTEN", "text": "selling 300 HPG"}
        now = {"open_orders": [OPEN], "standing": [flatten]} if begun else {"open_orders": []}
        return {"ok": True, "status": {"state": "HALTED", "positions": [held], **now}}

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    server = ControlServer(config.parent / "state", {"halt": halt, "status": status}, {"bot": bot})
    await server.start()

    ran = await asyncio.to_thread(call, "halt", "--flatten", "--yes", "-c", str(config))

    await server.stop()
    assert ran.code == ExitCode.DONE
    assert ran.out.splitlines()[1:] == ["selling 300 HPG"]


@pytest.mark.parametrize("words", [["pause"], ["resume"], ["resume", "HPG"]])
async def test_what_a_bot_took_just_before_its_end_is_not_said_to_hold(
    words: list[str], config: Path
) -> None:
    ends = list[asyncio.Task[None]]()

    async def take(_: Request) -> Reply:
        ends.append(asyncio.create_task(server.stop()))
        return {"ok": True}

    async def status(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "RUNNING"}}

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    handlers = {"status": status, "pause": take, "resume": take}
    server = ControlServer(config.parent / "state", handlers, {"bot": bot})
    await server.start()

    ran = await asyncio.to_thread(call, *words, "--reason", "x", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.NOT_RUNNING, "")
    assert "the bot has ended before it was done: no bot is running on" in ran.err


def test_a_halt_whose_state_folder_is_nobodys_says_that_nothing_was_halted(
    tmp_path: Path,
) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text("mode: sandbox\nstate_dir: ~nobody-of-this-name/state\n")

    ran = call("halt", "--yes", "-c", str(config))

    assert ran.code == ExitCode.CONFIG
    assert ran.err.startswith("NOTHING WAS HALTED")
    assert "there is no user 'nobody-of-this-name' here" in ran.err
