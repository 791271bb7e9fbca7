"""P1: the daemon dies at a random moment under load, and nothing is lost, doubled or miscounted."""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.crash import kills
from tests.crash.kills import JUDGED_FROM, READY_S_MAX, READY_S_WANTED, Tally, kill_often
from tests.faults.strikes import STRIKES

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
    ("ready_s", "count", "load", "code", "is_said"),
    [
        (READY_S_WANTED, JUDGED_FROM, 0.0, 0, False),
        (READY_S_WANTED + 0.1, JUDGED_FROM, 0.0, 0, True),
        (READY_S_MAX + 0.1, JUDGED_FROM, 0.0, 1, True),
        (READY_S_MAX + 0.1, JUDGED_FROM, 9_999.0, 0, True),
        (READY_S_MAX + 0.1, JUDGED_FROM - 1, 0.0, 0, False),
    ],
    ids=["as wanted", "slow", "too slow", "too slow on a busy machine", "too few to say"],
)
def test_a_run_of_fifty_fails_when_a_start_in_a_hundred_takes_twice_as_long_as_wanted(
    ready_s: float,
    count: int,
    load: float,
    code: int,
    is_said: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def killed(often: int, _seed: int, _journal: object, tally: Tally, _lose: object) -> None:
        tally.kills, tally.orders = often, 1
        tally.ready_s = [0.5, *[ready_s] * 2]

    monkeypatch.setattr(kills, "kill_often", killed)
    monkeypatch.setattr(os, "getloadavg", lambda: (load,) * 3)
    monkeypatch.setattr(sys, "argv", ["kills", str(count)])

    assert kills.main() == code
    assert ("SLOW: ready again p99" in capsys.readouterr().out) == is_said
