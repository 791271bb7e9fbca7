"""kill -9 in the middle of a demo, and again: it goes on, and every intent is at most one order."""

import json
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.processes import BotProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

DEADLINE_S = 150.0


def _demo(state: Path, *arguments: str) -> BotProcess:
    return BotProcess("demo", "--state-dir", str(state), *arguments, BOT_SANDBOX__PORT="0")


def _kill_after(demo: BotProcess, word: str) -> None:
    """Wait for a line with `word`, then kill the process as a power cut would."""
    give_up = time.monotonic() + DEADLINE_S
    for line in demo.stdout:
        if word in line or time.monotonic() > give_up:
            break
    demo.send_signal(signal.SIGKILL)
    demo.communicate()


def _ledger_orders(state: Path) -> set[str]:
    lines = (json.loads(text) for text in (state / "sandbox.jsonl").read_text().splitlines())
    return {line["order"] for line in lines if line["kind"] == "order"}


def test_a_killed_demo_goes_on_and_doubles_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for word in ("ORDER ", "FILL ", "PULSE "):
        _kill_after(_demo(state, "--speed", "240"), word)

    last = _demo(state, "--speed", "600", "--for", "1s")
    out, err = last.communicate(timeout=DEADLINE_S)

    assert last.returncode == 0, err
    assert "Traceback" not in out + err
    with closing(sqlite3.connect(state / "journal.db")) as journal:
        posts = journal.execute("select intent_id from attempts where verb = 'POST'").fetchall()
        ours = journal.execute("select order_id from orders").fetchall()
        runs = journal.execute("select count(*) from runs").fetchone()
    assert max(Counter(posts).values()) == 1, "one POST per intent, ever"
    assert {order_id for (order_id,) in ours} == _ledger_orders(state)
    assert runs == (4,)


def test_a_second_bot_on_the_same_journal_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = _demo(state, "--speed", "60")
    first.stdout.readline()

    second = _demo(state, "--speed", "max", "--for", "1s")
    try:
        _, told = second.communicate(timeout=DEADLINE_S)
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=DEADLINE_S)

    assert second.returncode == 10
    assert "already running" in told


def test_sigterm_ends_a_run_cleanly(tmp_path: Path) -> None:
    demo = _demo(tmp_path / "state", "--speed", "60")
    demo.stdout.readline()

    demo.send_signal(signal.SIGTERM)
    out, err = demo.communicate(timeout=DEADLINE_S)

    assert (demo.returncode, "STOP" in out, "Traceback" in err) == (0, True, False)
