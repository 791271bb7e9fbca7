"""A bot whose `state_dir` was changed in bot.yaml while it runs is not taken for stopped."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.cli.commands import halt as halt_command
from bot.config.problems import ExitCode
from bot.config.settings.places import remember_run
from bot.runtime.brake import is_raised, reason_of_flag
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply, Request, announce, announced, ask
from bot.runtime.state_dir import make_state_dir
from tests.cli.stage import CONFIG, call

Handler = Callable[[Request], Awaitable[Reply]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "bot.yaml"
    path.write_text(CONFIG.replace("state_dir: state", "state_dir: moved"))
    return path


@asynccontextmanager
async def running(config: Path, state_dir: Path, **handlers: Handler) -> AsyncIterator[list[str]]:
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


async def test_a_halt_names_the_others_where_several_run(config: Path) -> None:
    one, two = config.parent / "one", config.parent / "two"

    async with running(config, one) as asked, running(config, two) as unasked:
        ran = await asyncio.to_thread(call, "halt", "--yes", "-c", str(config))

    assert ("halt" in asked, "halt" in unasked) == (True, False)
    assert f"and one on {two}. Halt that one too: bot halt --yes --state-dir {two}\n" in ran.err


async def test_a_folder_that_a_person_names_is_meant(config: Path) -> None:
    old, empty = config.parent / "state", config.parent / "empty"
    words = ("halt", "--yes", "--state-dir", str(empty), "-c", str(config))

    async with running(config, old) as asked:
        ran = await asyncio.to_thread(call, *words)
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
