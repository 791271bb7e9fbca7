"""The halt and a kill, with real processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.clock import monotonic_s
from bot.config.shipped import DEMO, shipped
from bot.drill import killing
from bot.drill.exercise import OutOfTime, Row
from bot.drill.killing import AFTER_KILLS_S, halt_once, kill_often
from bot.drill.project import project_of

Play = Callable[..., Row]

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(300), pytest.mark.long]


def test_a_killed_bot_loses_nothing_and_a_halted_one_stays_halted(tmp_path: Path) -> None:
    project = project_of(shipped(DEMO), tmp_path, 7)

    halted = halt_once(project, tmp_path / "halt", lambda _: None)
    killed = kill_often(project, tmp_path / "kills", lambda _: None, kills=1)

    assert (halted.problems, killed.problems) == ([], [])
    assert "still halted" in halted.did


def test_kills_that_take_too_long_end_and_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "KILLS_S_MAX", 0.0)
    project = project_of(shipped(DEMO), tmp_path, 7)

    row = kill_often(project, tmp_path / "kills", lambda _: None)

    assert any("0 of 20 kills took 0 s, and no more were made" in each for each in row.problems)


@pytest.mark.parametrize("play", [halt_once, kill_often])
def test_the_time_of_the_drill_ends_what_waits_for_a_bot(tmp_path: Path, play: Play) -> None:
    project, started = project_of(shipped(DEMO), tmp_path, 7), monotonic_s()

    with pytest.raises(OutOfTime):
        play(project, tmp_path / "cut", lambda _: None, started + 2)

    assert monotonic_s() - started < 15


def test_kills_leave_time_to_settle_and_for_the_halt(tmp_path: Path) -> None:
    project, started = project_of(shipped(DEMO), tmp_path, 7), monotonic_s()

    row = kill_often(project, tmp_path / "kills", lambda _: None, started + AFTER_KILLS_S)

    assert any("0 of 20 kills took 0 s, and no more were made" in each for each in row.problems)
    assert monotonic_s() - started < AFTER_KILLS_S
