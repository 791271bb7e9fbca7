"""A signal that comes while a bot starts ends it as one that comes later does."""

import signal
import time
from pathlib import Path

import pytest

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
