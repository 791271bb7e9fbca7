"""Our clock is off the broker's: told from 5 s, no order from the limit on, and good again."""

from datetime import timedelta

import pytest

from bot.domain.entry import Note, RunState
from bot.domain.message import ClockOffsetChanged
from tests.engine.stage import Stage


def _off(stage: Stage, seconds: float) -> None:
    stage.handle(ClockOffsetChanged(stage.now, timedelta(seconds=seconds)))


@pytest.mark.parametrize(
    ("seconds", "state", "is_shown"),
    [
        (4.9, RunState.RUNNING, False),
        (5, RunState.RUNNING, True),
        (-19.9, RunState.RUNNING, True),
        (20, RunState.DEGRADED, True),
        (-20, RunState.DEGRADED, True),
    ],
)
def test_a_clock_is_told_of_from_five_seconds_and_stops_orders_at_its_limit(
    seconds: float, state: RunState, is_shown: bool
) -> None:
    stage = Stage()

    _off(stage, seconds)

    status = stage.engine.status()
    assert status.state is state
    assert bool(status.alerts) is is_shown
    told = [note for note in stage.all(Note) if note.kind == "ALERT"]
    assert [note.numbers["alert"] for note in told] == ["CLOCK_OFFSET"] * is_shown


def test_a_clock_that_is_good_again_opens_the_gate_and_leaves_the_status() -> None:
    stage = Stage()
    _off(stage, 25)
    assert stage.engine.status().reason == "our clock is 25 s behind the broker's"

    _off(stage, 3)

    assert (stage.engine.status().state, stage.engine.status().alerts) == (RunState.RUNNING, ())
    assert stage.last(Note).text == "our clock agrees with the broker's again"


def test_a_clock_below_the_limit_again_is_still_told_of() -> None:
    stage = Stage()
    _off(stage, -25)

    _off(stage, -15)
    status = stage.engine.status()

    assert status.state is RunState.RUNNING
    text = (
        "our clock is 15 s ahead of the broker's: orders still go on (from 20 s on none is sent). "
        "Set the clock of this machine, find out why it is not synchronised, and restart the bot"
    )
    assert status.alerts == (text,)
