"""A process that is done ends, whatever is left in it, and what it knows stays with it."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot import __version__
from bot.config.problems import ExitCode
from bot.runtime.process import LEAVE_S
from tests.processes import ROOT, BotProcess
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("hangup_is_heard"),
]
WAIT_S = 60.0
BY_SIGTERM = "stopped by SIGTERM while it was starting\n"
NOBODY_READS: str | None = None
GONE_S = 30.0
"""From what ends a run to the end of its process."""
HANGS_AS_IT_IS_IMPORTED = """
import pathlib, time
pathlib.Path({mark!r}).touch()
time.sleep(60)
"""
THREAD = """
import threading, time
from bot import Strategy


class Left(Strategy):
    def on_start(self):
        threading.Thread(target=time.sleep, args=(600,), name="my-feed").start()
"""
TASK = """
import asyncio
from bot import Strategy


async def stay():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass


class Left(Strategy):
    def on_start(self):
        self.mine = asyncio.get_event_loop().create_task(stay())
"""
TOLD = """
import ctypes, resource
from bot.cli.main import main
try:
    main(["version"])
except SystemExit:
    print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


LATE = """
import atexit, os, sys
from bot.__main__ import enter


class Late:
    def __del__(self):
        os.write(1, b"taken apart")


sys.late = Late()
sys.argv[1:] = {words}
atexit.register(print, "at the end")
enter()
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["version"], 0, f"vnbot {__version__}\nat the end\n".encode()),
        (["orders", "-x"], 2, b"at the end\n"),
    ],
)
def test_a_process_ends_without_taking_the_interpreter_apart(
    words: list[str], code: int, said: bytes
) -> None:
    """A thread may still wait in C for a database that hangs, and use what would be gone."""
    script = LATE.format(words=words)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (code, said)


def running(folder: Path, plug_in: str = "") -> BotProcess:
    """A bot that trades, with a strategy of that code."""
    strategies = [once(name="left", use="left", params={})] if plug_in else [once()]
    sandbox = {"scenario": "story.yaml", "speed": 5, "port": 0}
    config = write_project(folder, scenario=QUIET, strategies=strategies, sandbox=sandbox)
    if plug_in:
        (folder / "strategies" / "left.py").write_text(plug_in)
    bot = BotProcess("run", "-c", str(config))
    for line in iter(bot.stdout.readline, ""):
        if " RUNNING " in line:
            return bot
    raise AssertionError(bot.communicate()[1])


def ended(bot: BotProcess) -> tuple[float, int | None, str]:
    """How long it took to end, its exit code, and what it said on stderr."""
    began_s = time.monotonic()
    _, err = bot.communicate(WAIT_S)
    return time.monotonic() - began_s, bot.returncode, err


@pytest.mark.parametrize(
    ("words", "number", "code", "said"),
    [
        (["run"], signal.SIGTERM, ExitCode.DONE, BY_SIGTERM),
        (["run"], signal.SIGHUP, ExitCode.DONE, NOBODY_READS),
        (["demo"], signal.SIGINT, ExitCode.DONE, "stopped by Ctrl-C while it was starting\n"),
        (["demo", "-q"], signal.SIGTERM, ExitCode.DONE, ""),
        (["status"], signal.SIGINT, 130, ""),
        (["halt", "--reason", "run"], signal.SIGINT, 130, ""),
        (["-c", "bot.yaml", "run"], signal.SIGTERM, ExitCode.DONE, BY_SIGTERM),
    ],
)
def test_a_signal_ends_it_in_words_also_before_anything_is_imported(
    words: list[str], number: signal.Signals, code: int, said: str | None, tmp_path: Path
) -> None:
    mark = tmp_path / "hangs"
    (tmp_path / "click.py").write_text(HANGS_AS_IT_IS_IMPORTED.format(mark=str(mark)))
    path = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    bot = subprocess.Popen(
        [sys.executable, "-P", "-m", "bot", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=path,
        text=True,
    )
    give_up = time.monotonic() + WAIT_S
    while not mark.exists() and time.monotonic() < give_up:
        time.sleep(0.002)

    assert bot.stderr is not None
    if said is NOBODY_READS:
        bot.stderr.close()
    bot.send_signal(number)
    out, err = bot.communicate(timeout=WAIT_S)

    assert (bot.returncode, out, err or "") == (code, "", said or "")


@pytest.mark.parametrize(
    ("plug_in", "left"), [(THREAD, "threads that do not end (my-feed)"), (TASK, "tasks")]
)
def test_what_a_plug_in_has_begun_keeps_no_process_that_is_over(
    plug_in: str, left: str, tmp_path: Path
) -> None:
    bot = running(tmp_path, plug_in)

    bot.send_signal(signal.SIGTERM)
    took_s, code, err = ended(bot)

    assert (code, took_s < LEAVE_S + GONE_S) == (ExitCode.DONE, True), (took_s, err)
    assert f"ended without waiting for {left}" in err


def test_last_words_that_nobody_takes_keep_no_process_either() -> None:
    hangs = (
        "import threading, time; from bot.runtime.process import leave_within; "
        "leave_within(0.01, 7, threading.Event(), lambda _: time.sleep(600)); time.sleep(600)"
    )

    bot = subprocess.run([sys.executable, "-c", hangs], check=False, timeout=WAIT_S, cwd=ROOT)

    assert bot.returncode == ExitCode.DATABASE


def test_a_journal_that_another_took_ends_the_process_at_once(tmp_path: Path) -> None:
    bot = running(tmp_path)

    with sqlite3.connect(tmp_path / "state" / "journal.db", timeout=5) as journal:
        journal.execute("UPDATE lease SET epoch = epoch + 1, pid = 1, host = 'elsewhere'")
    journal.close()
    took_s, code, err = ended(bot)

    assert (code, took_s < GONE_S) == (ExitCode.NOT_RUNNING, True), (took_s, err)
    assert "Traceback" not in err


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PR_SET_DUMPABLE")
def test_a_command_s_memory_is_neither_dumped_nor_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOLD], capture_output=True, text=True, check=True, timeout=150
    )

    assert done.stdout.splitlines()[-1] == "(0, 0) 0"
