"""A signal that comes while a bot starts ends it as one that comes later does."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.runtime.brake import reason_of_flag
from tests.processes import BotProcess
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
BEGUN_S = 120.0


def _wait_for_lease(folder: Path) -> None:
    give_up = time.monotonic() + BEGUN_S
    while not any(folder.rglob("journal.db.lease")) and time.monotonic() < give_up:
        time.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_is_a_clean_end_in_words_also_in_the_middle_of_a_start(
    tmp_path: Path, number: signal.Signals
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    bot = BotProcess("run", "-c", str(config))
    _wait_for_lease(tmp_path)

    bot.send_signal(number)
    _, err = bot.communicate()

    word = "Ctrl-C" if number is signal.SIGINT else number.name
    assert (bot.returncode, f"stopped by {word} " in err) == (0, True), err
    assert "Traceback" not in err
    [log] = tmp_path.rglob("bot.log")
    assert "stopped" in log.read_text("utf-8").splitlines()[-1]
    assert '"level": "error"' not in log.read_text("utf-8")


def test_what_nohup_ignores_stays_ignored_in_a_start_and_in_a_run(tmp_path: Path) -> None:
    sandbox = {"scenario": "story.yaml", "speed": 5, "port": 0}
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()], sandbox=sandbox)
    bot = BotProcess("run", "-c", str(config), NOHUP="1")
    _wait_for_lease(tmp_path)

    bot.send_signal(signal.SIGHUP)
    is_running = any(" RUNNING " in line for line in iter(bot.stdout.readline, ""))
    bot.send_signal(signal.SIGHUP)
    bot.send_signal(signal.SIGTERM)
    _, err = bot.communicate()

    assert is_running, err
    assert (bot.returncode, "stopped by SIGTERM" in err, "SIGHUP" in err) == (0, True, False), err


@pytest.mark.parametrize("is_at_the_lease", [False, True])
def test_sigusr1_in_the_middle_of_a_start_halts_what_has_begun(
    tmp_path: Path, is_at_the_lease: bool
) -> None:
    sandbox = {"scenario": "story.yaml", "speed": 5, "port": 0}
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()], sandbox=sandbox)
    bot = BotProcess("run", "-c", str(config))
    said, give_up = "", time.monotonic() + BEGUN_S
    while " run · " not in said and time.monotonic() < give_up:
        said += bot.said()
    if is_at_the_lease:
        _wait_for_lease(tmp_path)

    bot.send_signal(signal.SIGUSR1)
    shown = next((line for line in iter(bot.stdout.readline, "") if " HALTED " in line), "")
    bot.send_signal(signal.SIGTERM)
    _, err = bot.communicate()

    assert (bot.returncode, "by SIGUSR1" in shown) == (0, True), (shown, err)
    [flag] = tmp_path.rglob("HALT")
    assert reason_of_flag(flag.parent) == "SIGUSR1"


AS_IT_IMPORTS = """\
import os, signal, sys
class Early:
    def find_spec(self, name, path, target=None):
        if name == "bot.cli.main":
            os.kill(os.getpid(), signal.SIGUSR1)
sys.meta_path.insert(0, Early())
from bot.__main__ import enter
enter()
"""


def _early(config: Path) -> subprocess.CompletedProcess[str]:
    """A start that SIGUSR1 reaches as it imports."""
    command = [sys.executable, "-c", AS_IT_IMPORTS, "run", "-c", str(config)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=BEGUN_S)


def test_sigusr1_before_anything_is_imported_ends_no_run_and_is_told_if_it_is_lost(
    tmp_path: Path,
) -> None:
    ran = _early(tmp_path / "none.yaml")

    assert ran.returncode == ExitCode.CONFIG, ran.stderr
    assert "SIGUSR1 came, but the start ended before it could be kept" in ran.stderr


def test_a_start_that_fails_leaves_the_halt_to_the_next_one(tmp_path: Path) -> None:
    config, state = tmp_path / "bot.yaml", tmp_path / "state"
    config.write_text("mode: sandbox\nstate_dir: state\nstrategies: nothing/*.yaml\n")
    state.mkdir()

    ran = _early(config)

    assert ran.returncode == ExitCode.CONFIG, ran.stderr
    assert reason_of_flag(state) == "SIGUSR1"
    assert "SIGUSR1" not in ran.stderr
