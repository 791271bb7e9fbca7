"""`bot doctor`: a table or JSON of what it found, and an exit code that a script can use."""

import json
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from tests.cli.stage import Ran, call
from tests.staging import QUIET
from tests.story import once, write_project


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_project(tmp_path, scenario=QUIET, strategies=[once()])


def doctor(config: Path, *arguments: str) -> Ran:
    return call("doctor", "-c", str(config), *arguments)


def test_a_bot_that_could_run_is_told_so(config: Path) -> None:
    ran = doctor(config)

    assert (ran.code, ran.err) == (ExitCode.DONE, "nothing stands in the way of a run\n")
    assert "ok      strategies" in ran.out


def test_a_row_that_fails_ends_it_with_1_and_the_fix_below(config: Path) -> None:
    state = config.parent / "state"
    state.chmod(0o755)

    ran = doctor(config, "--offline")

    assert ran.code == ExitCode.BUG
    assert ran.out.splitlines()[-1] == f"fail state folder: chmod 700 {state}"


def test_json_has_a_row_for_each_thing_and_says_what_was_not_asked(config: Path) -> None:
    ran = doctor(config, "--offline", "--json")

    found = json.loads(ran.out)
    assert found["ok"] is True
    assert found["bot"]["mode"] == "sandbox"
    assert {row["name"]: row["found"] for row in found["rows"]}["broker"] == "offline"


def test_a_configuration_that_is_wrong_is_a_row_too(config: Path) -> None:
    config.write_text("mode: sometimes\n")

    ran = doctor(config, "--json")

    [row] = json.loads(ran.out)["rows"]
    assert ran.code == ExitCode.BUG
    assert (row["name"], row["verdict"]) == ("config", "fail")
    assert row["fix"] == "bot config check shows each place"
    assert "bot.yaml:1:7: E-CFG-" in row["found"]
