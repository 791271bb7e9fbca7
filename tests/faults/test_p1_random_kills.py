"""P1: the daemon dies at a random moment under load, and nothing is lost, doubled or miscounted."""

import math
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tests.crash import kills
from tests.crash.harness import Crashing
from tests.crash.kills import JUDGED_FROM, READY_S_MAX, READY_S_WANTED, Tally, kill_often
from tests.faults.strikes import STRIKES
from tests.proofs import NONCE_USED, PIECES_S

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

KILLS = 2


@pytest.mark.long  # fifty by tests.crash.kills, and in make test a killed demo
def test_a_bot_that_is_killed_again_and_again_loses_and_doubles_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    tally = Tally()

    kill_often(KILLS, 3, nullcontext(), tally)

    assert tally.kills >= KILLS
    assert tally.problems == []
    assert tally.orders > 0
    record_property(STRIKES, tally.kills)


@pytest.mark.long
@pytest.mark.postgres
def test_nor_does_one_with_its_journal_on_a_server(
    own_postgres_url: str, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()

    kill_often(KILLS, 4, nullcontext(own_postgres_url), tally)

    assert tally.kills >= KILLS
    assert tally.problems == []
    assert tally.orders > 0
    record_property(STRIKES, tally.kills)


@pytest.mark.parametrize(
    ("ready_s", "count", "load", "slower", "code", "is_said"),
    [
        (READY_S_WANTED, JUDGED_FROM, 0.0, 1.0, 0, False),
        (READY_S_WANTED + 0.1, JUDGED_FROM, 0.0, 1.0, 0, True),
        (READY_S_MAX + 0.1, JUDGED_FROM, 0.0, 1.0, 1, True),
        (READY_S_MAX + 0.1, JUDGED_FROM, 0.0, 0.5, 1, True),
        (READY_S_MAX + 0.1, JUDGED_FROM, 0.0, 1.1, 0, True),
        (1.1 * READY_S_MAX + 0.1, JUDGED_FROM, 0.0, 1.1, 1, True),
        (READY_S_MAX + 0.1, JUDGED_FROM, 9_999.0, 1.0, 0, True),
        (READY_S_MAX + 0.1, JUDGED_FROM - 1, 0.0, 1.0, 0, False),
    ],
    ids=[
        *("as wanted", "slow", "too slow", "too slow on a quick machine"),
        *("slow on a slow machine", "too slow for a slow machine"),
        *("too slow on a busy machine", "too few to say"),
    ],
)
def test_a_run_of_fifty_fails_when_a_start_in_a_hundred_takes_twice_as_long_as_wanted(
    ready_s: float,
    count: int,
    load: float,
    slower: float,
    code: int,
    is_said: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def killed(often: int, _seed: int, _journal: object, tally: Tally, _lose: object) -> None:
        tally.kills, tally.orders = often, 1
        tally.ready_s = [0.5, *[ready_s] * 2]
        tally.settled_s, tally.pieces = [0.1], [slower * PIECES_S]

    monkeypatch.setattr(kills, "kill_often", killed)
    monkeypatch.setattr(os, "getloadavg", lambda: (load,) * 3)
    monkeypatch.setattr(sys, "argv", ["kills", str(count)])

    assert kills.main() == code
    assert ("SLOW: ready again p99" in capsys.readouterr().out) == is_said


@pytest.mark.parametrize(
    ("settled_s", "code", "said"),
    [
        ([2.0] * 98 + [35.0] * 2, 0, ""),
        ([1.0] * 49 + [2.1] * 51, 0, "SLOW: settled or fenced p50 2.10 s; 2 s are wanted, over 4"),
        ([1.0] * 49 + [4.1] * 51, 1, "SLOW: settled or fenced p50 4.10 s"),
        ([1.0] * 98 + [70.1] * 2, 1, "SLOW: settled or fenced p99 70.10 s; 35 s are wanted"),
        ([1.0] * 98 + [math.inf] * 2, 1, "SLOW: settled or fenced p99 inf s"),
        ([], 1, "NOTHING SHOWN: no unknown sends"),
    ],
)
def test_so_does_one_whose_unknown_sends_stay_open_for_long(
    settled_s: Sequence[float],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def killed(often: int, _seed: int, _journal: object, tally: Tally, _lose: object) -> None:
        tally.kills, tally.orders, tally.ready_s = often, 1, [0.5]
        tally.settled_s += settled_s

    monkeypatch.setattr(kills, "kill_often", killed)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0,) * 3)
    monkeypatch.setattr(sys, "argv", ["kills", str(JUDGED_FROM)])

    assert kills.main() == code
    shown = capsys.readouterr().out
    assert said in shown
    assert ("SLOW" in shown) == said.startswith("SLOW")


def test_what_a_send_waits_while_no_bot_runs_does_not_count(tmp_path: Path) -> None:
    """At 20 times real time: unknown for 10 s, of which no bot ran for 7 s."""
    moves = (
        ("L-1", "SENDING", "09:30:00", ""),
        ("L-1", "UNKNOWN", "09:30:20", ""),
        ("L-2", "UNKNOWN", "09:31:00", ""),
        ("L-1", "REACHED", "09:33:40", f"{NONCE_USED} (scripted by scenario drill)"),
        ("L-1", "MATCHED", "09:50:00", ""),
        ("L-2", "REACHED", "09:33:40", "the nonce is older than 270 s"),
        ("L-3", "UNKNOWN", "09:40:00", ""),
        ("L-3", "MATCHED", "09:40:10", ""),
    )
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as journal:
        journal.execute("create table transitions (seq, machine, intent_id, to_state, at, note)")
        for number, (intent, state, at, note) in enumerate(moves):
            row = (number, "send", intent, state, f"2026-11-19T{at}+00:00", note)
            journal.execute("insert into transitions values (?, ?, ?, ?, ?, ?)", row)
    story = Placed(tmp_path)
    at_0930 = datetime.fromisoformat("2026-11-19T09:30:00+00:00").timestamp()
    story.downs = [
        (at_0930 - 5, at_0930 - 1),
        (at_0930 + 3, at_0930 + 10),
        (at_0930 + 50, math.inf),
    ]

    assert list(story.settled_s()) == [pytest.approx(3), math.inf, pytest.approx(0.5)]


class Placed(Crashing):
    """A story without processes, whose market and clock were one at 09:30."""

    def __init__(self, folder: Path) -> None:
        url, nothing = f"sqlite:///{folder / 'journal.db'}", cast("Any", None)
        super().__init__(folder, folder, nothing, {}, url)

    def _control(self, _: str) -> httpx.Response:
        at = "2026-11-19T09:30:00+00:00"
        return httpx.Response(200, json={"market": at, "wire": at, "speed": 20})
