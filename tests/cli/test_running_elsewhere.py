"""A bot whose `state_dir` was changed in bot.yaml while it runs is not taken for stopped."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, chdir, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.commands import halt as halt_command
from bot.cli.commands.run import require_none_beside
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_without_secrets
from bot.config.settings.places import remember_run
from bot.journal.writing.heads import FILE, KeptHeads, append_line
from bot.runtime.brake import is_raised, reason_of_flag
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import FOLDER, SOCKET, Reply, Request, announce, announced, ask
from bot.runtime.run_controls import RunOptions
from bot.runtime.start.opening import begin_state
from bot.runtime.state_dir import make_state_dir
from tests.cli.stage import CONFIG, call

MOVED = CONFIG.replace("state_dir: state", "state_dir: moved")
PAPER = "mode: paper\nbroker: {base_url: 'http://127.0.0.1:9'}\nstate_dir: moved\n"
KEYS = {"BOT_BROKER__API_KEY": "k" * 32, "BOT_BROKER__API_SECRET": "s" * 32}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "bot.yaml"
    path.write_text(MOVED)
    return path


@asynccontextmanager
async def running(config: Path, state_dir: Path) -> AsyncIterator[list[str]]:
    """Run a bot there, and yield what it was asked to do."""
    asked = list[str]()

    async def answer(request: Request) -> Reply:
        asked.append(str(request["do"]))
        return {"ok": True, "status": {"state": "HALTED", "open_orders": []}}

    make_state_dir(state_dir)
    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    remember_run(state_dir, config, os.environ, bot, "en")
    server = ControlServer(state_dir, {"halt": answer, "status": answer}, {"bot": bot})
    await server.start()
    try:
        yield asked
        # Who has only looked whether it is there is answered before.
        await asyncio.to_thread(ask, state_dir, {"do": "status"})
    finally:
        await server.stop()


@pytest.mark.parametrize("words", ["stop", "status", "pause --reason lunch", "otp"])
async def test_a_bot_that_runs_on_another_folder_is_named_instead_of_a_start(
    config: Path, words: str
) -> None:
    old, new = config.parent / "state", config.parent / "moved"

    async with running(config, old):
        ran = await asyncio.to_thread(call, *words.split(), "-c", str(config))

    assert ran.code == ExitCode.NOT_RUNNING
    assert ran.err == (
        f"E-RUN-001 no bot is running on {new}, but one of this configuration is running on {old}: "
        "it was started with that state_dir. If you mean it, repeat the command with --state-dir "
        f"{old}\n"
    )


@pytest.mark.parametrize("answer", ["", "y\n"])
async def test_a_halt_reaches_it_and_holds_the_next_start_here_too(
    config: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(halt_command, "is_attended", lambda _: bool(answer))
    old, new = config.parent / "state", config.parent / "moved"
    new.mkdir(mode=0o700)
    words = ("halt", *(() if answer else ("--yes",)), "--reason", "prices", "-c", str(config))

    async with running(config, old) as asked:
        ran = await asyncio.to_thread(call, *words, stdin=answer)

    assert (ran.code, "halt" in asked) == (ExitCode.DONE, True)
    assert ran.out.startswith("HALTED mybot (live)")
    told = f"no bot is running on {new}, but one of this configuration is running on {old}"
    assert ran.err.count(f"{told}, so that one is halted\nthe HALT file on {new} stays") == 1
    assert ran.err.lower().count(f"{told.lower()}. halt that one: ") == bool(answer)
    assert [reason_of_flag(each) for each in (old, new)] == ["prices", "prices"]


async def test_a_halt_that_reaches_another_bot_says_that_the_one_of_this_folder_has_ended(
    config: Path,
) -> None:
    other, here = config.parent / "try", config.parent / "moved"
    make_state_dir(here)
    ours = {"name": "mybot", "mode": "live", "config": str(config)}
    remember_run(here, config, os.environ, ours, "en")

    async with running(config, other) as asked:
        ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))

    assert (ran.code, "halt" in asked, is_raised(here)) == (ExitCode.NOT_RUNNING, True, True)
    assert ran.out.startswith("HALTED mybot (live), 0 orders open\n")
    assert f"E-RUN-001 no bot is running on {here}. A HALT file is in place now" in ran.err
    assert "E-DB" in ran.err, "which orders of it are open was looked up"


async def test_a_halt_names_the_others_where_several_run(config: Path) -> None:
    one, two = config.parent / "one", config.parent / "two"

    async with running(config, one) as asked, running(config, two) as unasked:
        ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))

    assert ("halt" in asked, "halt" in unasked) == (True, False)
    assert f"and one on {two}. Halt that one too: bot halt --yes --state-dir {two}\n" in ran.err


@pytest.mark.parametrize("variable", ["", "BOT_STATE_DIR", "bot_state_dir"])
async def test_a_folder_that_a_person_names_is_meant(config: Path, variable: str) -> None:
    old, empty = config.parent / "state", config.parent / "empty"
    words = ("halt", "--yes", *(() if variable else ("--state-dir", str(empty))), "-c", str(config))
    environment = {variable: str(empty)} if variable else {}

    async with running(config, old) as asked:
        ran = await asyncio.to_thread(call, *words, environment=environment)
        was_asked = [*asked]

    assert (ran.code, was_asked, is_raised(old)) == (ExitCode.NOT_RUNNING, [], False)
    assert f"is running on {old}: it was started with that state_dir" in ran.err


async def test_a_bot_of_another_configuration_is_not_named(config: Path) -> None:
    other = config.parent / "other.yaml"
    other.write_text(CONFIG)

    async with running(other, config.parent / "state"):
        ran = await asyncio.to_thread(call, "stop", "-c", str(config))

    assert ran.err.endswith("/moved. Start one: bot run (or bot demo)\n")


async def test_a_folder_is_known_as_long_as_its_bot_runs(config: Path) -> None:
    folder, far = config.parent / "state", config.parent / ("far" * 40)

    async with running(config, folder), running(config, far):
        during = announced()
    after = announced()

    assert (folder in during, far in during, folder in after) == (True, False, False)


async def test_a_name_that_somebody_has_taken_for_a_folder_without_a_bot_counts_for_nothing(
    config: Path,
) -> None:
    old = config.parent / "state"
    async with running(config, old):
        pass
    with announce(old):
        ran = await asyncio.to_thread(call, "stop", "-c", str(config))
        assert old in announced()

    assert ran.err.endswith("/moved. Start one: bot run (or bot demo)\n")


@contextmanager
def busy(config: Path, state_dir: Path, mode: str, journal: str) -> Iterator[None]:
    """A bot that runs there, and listens."""
    make_state_dir(state_dir / FOLDER)
    bot = {"name": "mybot", "mode": mode, "config": str(config)}
    remember_run(state_dir, config, os.environ, bot, "en", journal)
    with announce(state_dir), socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(state_dir / FOLDER / SOCKET))
        listening.listen(8)
        yield


@pytest.mark.parametrize(
    ("is_dry_run", "account", "is_apart"),
    [(False, {}, False), (True, {}, True), (False, {"BOT_BROKER__ACCOUNT": ".2"}, True)],
)
def test_beside_a_bot_that_sends_nothing_to_this_account_starts_one(
    config: Path, is_dry_run: bool, account: Mapping[str, str], is_apart: bool
) -> None:
    config.write_text(PAPER)
    loaded = load_without_secrets(config, environment={})
    elsewhere = {"state_dir": "try", "journal.url": "postgresql://bot@127.0.0.1/try"}
    other = load_without_secrets(config, overrides=elsewhere, environment=account)

    with busy(config, other.state_dir, "paper", ""):
        begin_state(other, RunOptions(dry_run=is_dry_run))
        beside = nullcontext() if is_apart else pytest.raises(OperatorMistake, match="beside it")
        with beside:
            require_none_beside(loaded)


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_second_bot_of_one_configuration_does_not_start_but_to_send_nothing(
    config: Path, flags: Sequence[str]
) -> None:
    config.write_text(PAPER)
    old, new = config.parent / "state", config.parent / "moved"
    words = ("run", *flags, "--only", "nobody", "--no-input", "-c", str(config))

    with busy(config, old, "paper", f"sqlite:///{old}/journal.db"):
        ran = call(*words, environment=KEYS)

    refused = (
        f"E-RUN-004 a bot of this configuration is already running on {old}, and this one, on "
        f"{new}, would send its own orders beside it, to the same account. First: bot stop "
        f"--state-dir {old}. Two bots need two configurations\n"
    )
    assert (ran.err == refused, refused in ran.err) == (not flags, not flags)
    assert ran.code == (ExitCode.CONFIG if flags else ExitCode.NOT_RUNNING), ran.err


def test_nor_does_one_on_another_database(config: Path) -> None:
    config.write_text(f"{PAPER}journal: {{url: 'postgresql://bot@127.0.0.1/new'}}\n")
    loaded, old = load_without_secrets(config, environment={}), config.parent / "state"

    with busy(config, old, "paper", ""):
        for database in ("new", "old"):
            label = f"127.0.0.1:5432/{database}"
            append_line(old / FILE, KeptHeads(datetime.now(UTC), label, 1, 1, {}).line)
            if database == "new":
                require_none_beside(loaded)
        with pytest.raises(OperatorMistake, match="would send its own orders beside it"):
            require_none_beside(loaded)


@pytest.mark.parametrize(
    ("text", "environment", "mode", "journal"),
    [
        pytest.param(PAPER, {}, "live", "", id="of another mode"),
        pytest.param(MOVED, {}, "sandbox", "", id="whose brokers are their own"),
        pytest.param(
            f"{PAPER}journal: {{url: 'sqlite:////tmp/one.db'}}\n",
            *({}, "paper", "sqlite:////tmp/one.db"),
            id="of one file, which its lease keeps",
        ),
        pytest.param(
            f"{PAPER}journal: {{url: 'postgresql://bot@127.0.0.1/bot'}}\n",
            *({}, "paper", ""),
            id="of one database, where a standby may wait",
        ),
        pytest.param(
            PAPER, {"BOT_BROKER__ACCOUNT": ".2"}, "paper", "", id="of an account in the environment"
        ),
    ],
)
def test_beside_a_bot_starts_one(
    config: Path, text: str, environment: Mapping[str, str], mode: str, journal: str
) -> None:
    config.write_text(text)

    with busy(config, config.parent / "state", mode, journal):
        require_none_beside(load_without_secrets(config, environment=environment))


@pytest.mark.parametrize(
    ("flags", "environment", "origin"),
    [
        (("--state-dir", "old"), {}, "command line"),
        ((), {"BOT_STATE_DIR": "old"}, "environment variable BOT_STATE_DIR"),
        ((), {}, None),
    ],
)
def test_a_start_says_that_a_flag_or_a_variable_hides_the_folder_of_the_file(
    config: Path, flags: Sequence[str], environment: Mapping[str, str], origin: str | None
) -> None:
    named, old = config.parent / "moved", config.parent / "old"
    words = ("run", *flags, "--only", "nobody", "--no-input", "-c", str(config))

    with chdir(config.parent):
        ran = call(*words, environment=environment)

    told = f"its state_dir is {old}, from the {origin}. That hides {named}, which {config} names: "
    assert (told in ran.err, "That hides" in ran.err) == (bool(origin), bool(origin)), ran.err
