"""Each exit code of the table in the help, by a command that ends with it.

2FA (5), refused (8) and rejected (9) want a bot that runs: `commands/test_modify_and_cancel.py`.
"""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from click import Group

from bot.cli import messages
from bot.cli.commands.service import NO_RESTART
from bot.cli.main import walk
from bot.config.problems import ExitCode
from tests.cli.stage import CONFIG, call, make_project

ROOT: Final = Path(__file__).resolve().parents[2]
WITH_A_BOT: Final = {ExitCode.NEEDS_2FA, ExitCode.REFUSED, ExitCode.REJECTED}
Make = Callable[[Path], Path]


def settings(text: str = "") -> Make:
    def make(folder: Path) -> Path:
        (folder / "bot.yaml").write_text(CONFIG + text)
        return folder / "bot.yaml"

    return make


def a_row_that_no_program_wrote(folder: Path) -> Path:
    config = make_project(folder)
    with sqlite3.connect(folder / "journal.db") as journal:
        for (name,) in journal.execute("select name from sqlite_master where type = 'trigger'"):
            journal.execute(f"drop trigger {name}")
        journal.execute("update orders set trading_date = 'someday'")
        journal.execute("update fills set at = 'someday'")
    journal.close()
    return config


def a_dead_broker(folder: Path) -> Path:
    config = settings()(folder)
    config.write_text("mode: paper\nbroker: {base_url: 'http://127.0.0.1:9'}\nstate_dir: state\n")
    (folder / "secrets.yaml").write_text("api_key: k\napi_secret: s\n")
    (folder / "secrets.yaml").chmod(0o600)
    return config


def without_a_key(folder: Path) -> Path:
    config = a_dead_broker(folder)
    (folder / "secrets.yaml").unlink()
    return config


CASES: Final = [
    (ExitCode.DONE, "version", settings(), ""),
    (ExitCode.BUG, "fills", a_row_that_no_program_wrote, "this is a bug in vnbot"),
    (ExitCode.USAGE, "status --wait SLEEPY", settings(), "SLEEPY"),
    (ExitCode.CONFIG, "orders", settings("nonsense: 1\n"), "bot.yaml:4:1: E-CFG-"),
    (ExitCode.SECRET, "secret test", without_a_key, "E-SEC-"),
    (ExitCode.UNREACHABLE, "secret test", a_dead_broker, "E-NET-001"),
    (ExitCode.DATABASE, "orders", settings(), "E-DB-001"),
    (ExitCode.NOT_RUNNING, "pause", settings(), "E-RUN-001"),
    (ExitCode.TIMED_OUT, "status --wait RUNNING --timeout 0.1s", settings(), ""),
    (ExitCode.DIFFERS, "journal verify", a_row_that_no_program_wrote, "E-JNL-001"),
]


@pytest.mark.parametrize(("code", "words", "make", "said"), CASES, ids=lambda each: str(each)[:24])
def test_each_code_is_what_a_command_ends_with(
    code: ExitCode, words: str, make: Make, said: str, tmp_path: Path
) -> None:
    config = make(tmp_path)

    ran = call(*words.split(), "-c", str(config), environment={"XDG_STATE_HOME": str(tmp_path)})

    assert (ran.code, said in ran.err) == (code, True), ran.err


def test_the_help_names_each_code_and_no_other() -> None:
    told = {int(each) for each in re.findall(r"(?:^|\s)(\d+) [a-z2]", messages.EXIT_CODES)}

    assert told == {*ExitCode}
    assert {code for code, *_ in CASES} | WITH_A_BOT == {*ExitCode}


def test_what_the_page_says_is_not_started_again_is_what_the_unit_says() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith("| 2, 3, 4 |")]

    assert "**no**" in row
    assert NO_RESTART.split() == ["2", "3", "4"]
    stays = (ExitCode.USAGE, ExitCode.CONFIG, ExitCode.SECRET)
    assert " ".join(str(int(code)) for code in stays) == NO_RESTART


LEAVES: Final = [words for words, each in walk() if not isinstance(each, Group)]


@pytest.mark.parametrize("words", LEAVES)
def test_an_option_that_there_is_not_is_a_wrong_command_line_everywhere(words: str) -> None:
    assert call(*words.split()[1:], "--no-such-option").code == ExitCode.USAGE


READERS: Final = (
    *("status", "orders", "fills", "positions", "pnl", "balance", "decisions", "limits", "session"),
    *("order last", "journal verify", "journal head", "journal sql", "db check", "logs", "run"),
    *("pause", "resume", "halt --yes", "stop", "reconcile", "otp", "notify list", "secret list"),
    *("strategy list", "strategy check", "config check", "config show", "cancel --all"),
)


@pytest.mark.parametrize("words", READERS)
def test_a_wrong_key_in_the_configuration_is_exit_code_3_everywhere(
    words: str, tmp_path: Path
) -> None:
    config = settings("nonsense: 1\n")(tmp_path)

    ran = call(*words.split(), "-c", str(config))

    assert (ran.code, "bot.yaml:4:1: E-CFG-" in ran.err) == (ExitCode.CONFIG, True), ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["bot.yaml"], "nothing was made"
