"""`bot drill`: the table, its exit code, and what it leaves alone."""

import json
from pathlib import Path

import pytest

from bot.cli.main import run
from bot.config.problems import ExitCode
from tests.story import once, write_project

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


def a_live_bot(folder: Path) -> Path:
    """A configuration whose broker, key and journal nobody may open."""
    legal = {"automation_allowed_by_broker": "2026-11-02, letter of the broker"}
    broker = {"base_url": "https://broker.invalid", "secrets_file": "none.yaml"}
    config = write_project(
        folder,
        scenario="quiet",
        strategies=[once()],
        journal_url="postgresql+psycopg://bot@db.invalid/bot",
        mode="live",
        legal=legal,
        broker=broker,
    )
    (folder / "none.yaml").write_text("not to be read")
    return config


def test_a_live_bot_is_drilled_without_its_broker_its_key_and_its_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, kept = a_live_bot(tmp_path / "bot"), tmp_path / "kept"
    before = sorted(tmp_path.rglob("*"))

    code = run(["drill", "-c", str(config), "--only", "answer-lost", "--json", "--keep", str(kept)])

    told = json.loads(capsys.readouterr().out)
    assert (code, told["passed"], told["exercises"][0]["problems"]) == (ExitCode.DONE, True, [])
    assert (
        sorted(each for each in tmp_path.rglob("*") if kept not in (each, *each.parents)) == before
    )
    assert kept.stat().st_mode & 0o077 == 0


def test_an_unknown_exercise_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["drill", "--only", "answer-lots"])

    assert code == ExitCode.USAGE
    assert "available: answer-lost, request-lost" in capsys.readouterr().err
