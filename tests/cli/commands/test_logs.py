"""`bot logs`: the newest lines, by level, over the file that was put aside, and those to come."""

import json
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from tests.cli.stage import CONFIG, Ran, call


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "bot.yaml"
    path.write_text(CONFIG)
    (tmp_path / "state").mkdir()
    return path


def line(number: int, level: str = "info", **facts: object) -> str:
    time = f"2026-11-19T02:30:{number:02}.000+00:00"
    return json.dumps({"time": time, "level": level, "event": "alert", **facts}) + "\n"


def logs(config: Path, *arguments: str) -> Ran:
    return call("logs", "-c", str(config), *arguments)


def test_the_newest_lines_are_shown_also_of_the_file_before(config: Path) -> None:
    (config.parent / "state/bot.log.1").write_text(line(1, text="a") + line(2, text="b"))
    (config.parent / "state/bot.log").write_text(line(3, text="c\x1b[2J") + '{"cut": ')

    ran = logs(config, "-n", "2")

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.splitlines() == [
        "11-19 09:30:02 info    alert text=b",
        "11-19 09:30:03 info    alert text=c\\x1b[2J",
    ]


def test_a_level_leaves_out_what_is_less(config: Path) -> None:
    (config.parent / "state/bot.log").write_text(line(1) + line(2, "error") + line(3, "warning"))

    ran = logs(config, "--level", "warning", "--json")

    assert [each["level"] for each in json.loads(ran.out)["lines"]] == ["error", "warning"]


def test_what_is_written_later_is_followed_and_json_is_a_line_each(config: Path) -> None:
    (config.parent / "state/bot.log").write_text(line(1) + line(2))

    ran = logs(config, "-f", "--json", "--looks", "1", "-n", "1")

    assert [json.loads(each)["time"][17:19] for each in ran.out.splitlines()] == ["02"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", ExitCode.NOT_RUNNING), ("log: {level: 'off'}\n", ExitCode.CONFIG)],
)
def test_without_a_log_it_says_what_to_do(config: Path, text: str, code: ExitCode) -> None:
    config.write_text(CONFIG + text)

    ran = logs(config)

    assert ran.code == code
    assert "E-LOG-001" in ran.err
