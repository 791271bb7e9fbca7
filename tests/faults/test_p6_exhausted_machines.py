"""P6: no more descriptors, no more memory: the bot lives on or ends cleanly; nothing is lost or
doubled.
"""

import resource
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.processes import BotProcess
from tests.scenarios.test_kill import _ledger_orders

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

DEADLINE_S = 150.0
LINES = 12
"""It may print so many more lines, its halt among them, before it is stopped; fewer if it ends."""
MOST = 4_096


def _demo(state: Path, *arguments: str) -> BotProcess:
    return BotProcess("demo", "--state-dir", str(state), *arguments, BOT_SANDBOX__PORT="0")


@pytest.mark.one_strike
@pytest.mark.parametrize("lacks", ["descriptors", pytest.param("memory", marks=pytest.mark.long)])
def test_a_bot_on_an_exhausted_machine_loses_and_doubles_nothing(
    lacks: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    demo = _demo(state, "--speed", "600")
    for line in demo.stdout:
        if "ORDER " in line:
            break

    if lacks == "memory":  # it keeps what it has, but there is no room for another thread
        pages = int(Path(f"/proc/{demo.pid}/statm").read_text().split()[0])
        room = pages * resource.getpagesize() // 2
        resource.prlimit(demo.pid, resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    else:
        in_use = len(list(Path(f"/proc/{demo.pid}/fd").iterdir()))
        resource.prlimit(demo.pid, resource.RLIMIT_NOFILE, (in_use, MOST))
    for _ in range(LINES):
        demo.stdout.readline()
    demo.send_signal(signal.SIGTERM)
    demo.communicate(timeout=DEADLINE_S)
    ended_by = demo.returncode
    last = _demo(state, "--speed", "600", "--for", "1s")
    out, err = last.communicate(timeout=DEADLINE_S)

    assert ended_by is not None
    assert ended_by >= 0, "no signal had to end it"
    assert (last.returncode, "Traceback" in out + err) == (0, False), err
    with closing(sqlite3.connect(state / "journal.db")) as journal:
        posts = journal.execute("select intent_id from attempts where verb = 'POST'").fetchall()
        ours = journal.execute("select order_id from orders").fetchall()
    assert max(Counter(posts).values()) == 1
    assert {order_id for (order_id,) in ours} == _ledger_orders(state)
