"""`bot demo` without a terminal, five minutes of market time, twice on one state directory."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from scripts.demo_picture import NO_BREAK, PICTURE, picture, shown
from tests.cli.stage import call
from tests.processes import BotProcess

pytestmark = [pytest.mark.process, pytest.mark.long]
ROOT = Path(__file__).resolve().parents[3]
LINE = re.compile(r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9] [A-Z0-9]+ ")
LATENCY = re.compile(r"\(\d+ ms\)")
RUN_S_MAX = 150


COMMAND = ("demo", "--speed", "600", "--for", "0.5s", "--state-dir")
SETTINGS = {"BOT_SANDBOX__PORT": "0", "FORCE_COLOR": "", "COLUMNS": "100"}

Ended = subprocess.CompletedProcess[str]


def from_nothing(state_dir: Path) -> Ended:
    """Run a demo as a user's shell does."""
    return subprocess.run(
        [sys.executable, "-m", "bot", *COMMAND, str(state_dir)],
        cwd=ROOT,
        env={**os.environ, **SETTINGS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


def in_next_process(state_dir: Path) -> Ended:
    """Run a demo in one more process."""
    demo = BotProcess(*COMMAND, str(state_dir), **SETTINGS)
    out, err = demo.communicate(RUN_S_MAX)
    return Ended((), demo.poll() or 0, out, err)


def lines_of(out: str) -> list[str]:
    return [LATENCY.sub("(ms)", line) for line in out.splitlines() if LINE.match(line)]


@dataclass(frozen=True)
class Twice:
    """Where two demos ran, one after the other, and what they said."""

    state_dir: Path
    first: Ended
    second: Ended


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    """A demo that was over, and the next one."""
    folder = tmp_path_factory.mktemp("demo")
    return Twice(folder, from_nothing(folder), in_next_process(folder))


def test_a_demo_ends_by_itself_and_the_next_starts_from_nothing(ran: Twice) -> None:
    for each in (ran.first, ran.second):
        assert each.returncode == ExitCode.DONE, each.stderr
        assert "(new)" in each.stderr
        assert "chain verified" in each.stdout


def test_two_demos_of_one_seed_tell_the_same_lines(ran: Twice) -> None:
    assert lines_of(ran.first.stdout) == lines_of(ran.second.stdout)


def test_a_demo_shows_an_order_from_its_reason_to_its_end(ran: Twice) -> None:
    kinds = {line.split()[1] for line in lines_of(ran.first.stdout)}

    assert {"SESSION", "SKIP", "DECIDE", "CHECK", "ORDER", "PARTIAL", "CANCEL", "DEMO"} <= kinds


def test_the_picture_shows_what_a_demo_says(ran: Twice) -> None:
    drawn = re.findall(
        r"<text.*?>(.*)</text>", re.sub("</?tspan.*?>", "", PICTURE.read_text("utf-8"))
    )

    told = shown(ran.first.stdout)
    said = told[: next(number for number, line in enumerate(told) if " CANCEL " in line)]

    assert [unescape(line).replace(NO_BREAK, " ") for line in drawn[1 : len(said) + 1]] == said
    assert f"&lt;a{NO_BREAK}&amp;" in picture(["<a &"])


def test_what_a_demo_leaves_open_is_told_once(ran: Twice) -> None:
    lines = ran.first.stdout.splitlines()

    [money] = [line for line in lines if line.startswith("      P&L ")]
    holds = [line for line in lines if " HOLDS " in line]
    assert len(holds) == (" unrealised" in money)
    assert not any(line.startswith("      Open ") for line in lines)


def test_without_a_terminal_nothing_is_animated_or_wide(ran: Twice) -> None:
    assert max(len(line) for line in ran.first.stdout.splitlines()) <= 100
    assert "\x1b" not in ran.first.stdout + ran.first.stderr


def test_a_demo_says_where_its_journal_is_and_commands_find_it(ran: Twice) -> None:
    assert f"              {ran.state_dir / 'journal.db'}" in ran.first.stdout.splitlines()

    orders = call("orders", "--state-dir", str(ran.state_dir), "-q")

    assert orders.code == ExitCode.DONE
    assert "ORD10000001" in orders.out
