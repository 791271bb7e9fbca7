"""Whoever edits a strategy while it runs is told that the bot goes on with what it read."""

import asyncio
import json
from pathlib import Path

import pytest

from bot.cli.commands.status import lines_of
from bot.config.settings.load import load_settings
from bot.config.strategies.load import load_strategies
from bot.config.strategies.source_files import Hashes, changed_files, hashes_of
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply, Request
from tests.cli.commands.test_status import RUNNING
from tests.cli.stage import call

PYTHON = "from bot import Strategy\n\n\nclass Mine(Strategy):\n    def on_bar(self, bar): ...\n"
FILE = "name: mine\nuse: mine\nsymbols: [FPT]\nwake: {bar: 1m}\norder: {size: {shares: 100}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "mine.py").write_text(PYTHON)
    (tmp_path / "strategies" / "mine.yaml").write_text(FILE)
    (tmp_path / "bot.yaml").write_text("mode: sandbox\nstate_dir: var\n")
    return tmp_path


def loaded_from(folder: Path) -> Hashes:
    return hashes_of(load_strategies(load_settings(folder / "bot.yaml", environment={})))["mine"]


def test_nothing_has_changed_of_what_was_just_read(folder: Path) -> None:
    (folder / "strategies" / "mine.yaml").write_text("\ufeff" + FILE, "utf-8")

    assert changed_files(loaded_from(folder)) == []


@pytest.mark.parametrize("name", ["mine.yaml", "mine.py"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_file_that_was_edited_or_removed_since_is_named(
    folder: Path, name: str, is_gone: bool
) -> None:
    hashes = loaded_from(folder)
    file = folder / "strategies" / name

    if is_gone:
        file.unlink()
    else:
        file.write_text(file.read_text() + "# later\n")

    assert changed_files(hashes) == [str(file)]


def test_status_shows_a_strategy_whose_file_has_changed(folder: Path) -> None:
    row = {"name": "mine", "state": "on", "files": loaded_from(folder)}
    before = list(lines_of({**RUNNING, "strategies": [row]}, "mybot (sandbox)"))
    (folder / "strategies" / "mine.yaml").write_text(FILE.replace("100", "200"))

    after = list(lines_of({**RUNNING, "strategies": [row]}, "mybot (sandbox)"))

    file = f"{folder}/strategies/mine.yaml"
    text = f"{file} changed since the start: restart the bot to pick up the change"
    assert "strategies  mine on" in before
    assert f"strategies  mine on · {text}" in after


@pytest.mark.parametrize("edited", ["bot.yaml", "rules.yaml"])
async def test_status_and_limits_name_settings_that_were_edited_since(
    folder: Path, edited: str
) -> None:
    (folder / "rules.yaml").write_text("closed: []\n")
    (folder / "bot.yaml").write_text("state_dir: var\nmarket_rules: rules.yaml\n")
    files = load_settings(folder / "bot.yaml", environment={}).files
    running = {**RUNNING, "files": files, "limits": []}
    before = list(lines_of(running, "mybot (sandbox)"))

    async def status(_: Request) -> Reply:
        return {"ok": True, "status": running}

    server = ControlServer(folder / "var", {"status": status}, {})
    await server.start()
    silent = await asyncio.to_thread(call, "limits", "-c", str(folder / "bot.yaml"))
    (folder / edited).write_text((folder / edited).read_text() + "# later\n")
    limits = await asyncio.to_thread(call, "limits", "-c", str(folder / "bot.yaml"))
    await server.stop()
    after = list(lines_of(running, "mybot (sandbox)"))

    text = f"{folder}/{edited} changed since the start: restart the bot to pick up the change"
    assert [line for line in after if line not in before] == [f"settings    {text}"]
    assert "changed since the start" not in silent.err
    assert text in limits.err


async def test_the_list_of_strategies_shows_what_has_changed_since_the_bot_started(
    folder: Path,
) -> None:
    row = {"name": "mine", "files": loaded_from(folder)}

    async def status(_: Request) -> Reply:
        return {"ok": True, "status": {"strategies": [row]}}

    config = str(folder / "bot.yaml")
    alone = await asyncio.to_thread(call, "strategy", "list", "-c", config, "--json")
    server = ControlServer(folder / "var", {"status": status}, {})
    await server.start()
    (folder / "strategies" / "mine.py").write_text(PYTHON + "# later\n")
    shown = await asyncio.to_thread(call, "strategy", "list", "-c", config)
    told = await asyncio.to_thread(call, "strategy", "list", "-c", config, "--json")
    await server.stop()

    file = f"{folder}/strategies/mine.py"
    assert json.loads(alone.out)["changed_since_start"] is None
    assert (
        f"\nmine: {file} changed since the start: restart the bot to pick up the change\n"
        in shown.out
    )
    assert json.loads(told.out)["changed_since_start"] == {"mine": [file]}
