import json
import shlex
from pathlib import Path

import pytest

from bot.cli.main import run
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.config.strategies.model import schema_text
from bot.runtime.start.broker import matching_accounts
from bot.sandbox.api.reads import sub_accounts

Capture = pytest.CaptureFixture[str]


def next_steps(capsys: Capture) -> list[list[str]]:
    out = capsys.readouterr().out
    return [shlex.split(line) for line in out.splitlines() if line.startswith("  bot ")]


@pytest.mark.parametrize("template", ["sma", "depth", "blank"])
def test_what_is_written_passes_every_check_it_prints(
    capsys: Capture, tmp_path: Path, template: str
) -> None:
    folder = tmp_path / "my bot"

    assert run(["init", str(folder), "--template", template]) == 0

    steps = next_steps(capsys)
    assert [step[1:-1] for step in steps] == [
        ["strategy", "check"],
        ["config", "check", "-c"],
        ["run", "-c"],
    ]
    assert all(Path(step[-1]).is_file() for step in steps)
    assert [run(step[1:]) for step in steps[:2]] == [0, 0]


def test_four_files_are_written_and_the_journal_stays_in_the_folder(
    capsys: Capture, tmp_path: Path
) -> None:
    folder = tmp_path / "mybot"

    run(["init", str(folder)])
    run(["config", "path", "journal", "-c", str(folder / "bot.yaml")])

    assert capsys.readouterr().out.splitlines()[-1] == f"{folder}/var/journal.db"
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert files == [
        ".bot/strategy.schema.json",
        ".gitignore",
        "bot.yaml",
        "strategies/sma-fpt.yaml",
    ]
    assert (folder / ".bot/strategy.schema.json").read_text("utf-8") == schema_text()
    first = (folder / "strategies/sma-fpt.yaml").read_text("utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../.bot/strategy.schema.json"
    assert "secrets.yaml" in (folder / ".gitignore").read_text("utf-8")


def test_another_state_dir_is_enough_for_another_mode(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "mybot"
    run(["init", str(folder)])
    config = folder / "bot.yaml"
    text = config.read_text("utf-8")
    config.write_text(text.replace("state_dir: var ", "state_dir: var-paper ", 1), "utf-8")

    run(["config", "path", "journal", "-c", str(config)])

    assert capsys.readouterr().out.splitlines()[-1] == f"{folder}/var-paper/journal.db"


def test_nothing_is_written_over(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mine\n", "utf-8")

    code = run(["init", str(tmp_path)])

    assert code == 3
    assert "bot.yaml: E-CFG-046 already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bot.yaml"]


def test_what_cannot_be_written_whole_leaves_nothing(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "strategies").write_text("")  # a folder goes there

    assert run(["init", str(tmp_path)]) == 3

    assert "cannot write this file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["strategies"]


def test_the_word_sqlite_means_a_file_in_the_folder(tmp_path: Path) -> None:
    plain, named = tmp_path / "plain", tmp_path / "named"

    assert run(["init", str(plain)]) == 0
    assert run(["init", str(named), "--db", "sqlite"]) == 0
    assert (named / "bot.yaml").read_text() == (plain / "bot.yaml").read_text()


def test_another_database_is_written_into_the_configuration(
    capsys: Capture, tmp_path: Path
) -> None:
    folder = tmp_path / "mybot"

    code = run(["init", str(folder), "--db", "postgresql+psycopg://bot@db.local/bot", "--json"])

    assert code == 0
    assert len(json.loads(capsys.readouterr().out)["next"]) == 3
    run(["config", "path", "journal", "-c", str(folder / "bot.yaml")])
    assert capsys.readouterr().out == "postgresql+psycopg://bot@db.local/bot\n"


def test_a_database_that_is_none_is_told(capsys: Capture, tmp_path: Path) -> None:
    code = run(["init", str(tmp_path / "mybot"), "--db", "mysql://x"])

    assert code == 2
    assert "sqlite:///FILE.db or postgresql+psycopg://user@host/name" in capsys.readouterr().err
    assert not (tmp_path / "mybot").exists()


def test_a_folder_that_cannot_be_written_is_no_traceback(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    code = run(["init", str(tmp_path / "file" / "mybot")])

    assert code == 3
    assert "Traceback" not in capsys.readouterr().err


def test_a_password_is_written_nowhere(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "mybot"

    code = run(["init", str(folder), "--db", "postgresql+psycopg://bot:hunter2@db.local/bot"])

    told = capsys.readouterr().err
    assert code == 2
    assert "~/.pgpass" in told
    assert "hunter2" not in told
    assert not folder.exists()


def test_its_account_is_one_also_where_a_routing_account_is_of_the_same_type(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "mybot"
    run(["init", str(folder)])

    wanted = load_settings(folder / "bot.yaml", environment={}).settings.broker.account

    listed = sub_accounts(load_scenario("quiet", Path()))
    assert [each.extended_id[-2:] for each in listed] == [".1", ".6", ".4"]
    assert [each.extended_id[-2:] for each in matching_accounts(listed, wanted)] == [".1"]
