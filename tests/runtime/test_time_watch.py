"""A wall that is set and a bot that stood still are told, once each."""

from datetime import timedelta

from bot.clock import SteadyClock
from bot.domain.message import Event
from bot.domain.operations import ClockStepped, StoodStill
from bot.runtime.time_watch import LOOK_S, TimeWatch
from tests.test_clock import START, Machine


class Watched:
    """A machine with a watch on it."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.told: list[Event] = []
        clock = SteadyClock(self.machine, self.machine.elapsed_s)
        self.watch = TimeWatch(clock, self.told.append, clock.now, self.machine.elapsed_s)

    def look(self, after_s: float = LOOK_S) -> None:
        self.machine.pass_by(after_s)
        self.watch.look()


def test_a_set_wall_is_told_once_and_again_when_it_is_set_right() -> None:
    watched = Watched()

    watched.machine.at += timedelta(minutes=5)
    watched.look()
    watched.look()
    watched.machine.at -= timedelta(minutes=5)
    watched.look()

    assert watched.told == [
        ClockStepped(START + timedelta(seconds=LOOK_S), timedelta(minutes=5)),
        ClockStepped(START + timedelta(seconds=3 * LOOK_S), timedelta()),
    ]


def test_two_seconds_are_no_step() -> None:
    watched = Watched()

    watched.machine.at += timedelta(seconds=2)
    watched.look()

    assert watched.told == []


def test_a_standstill_is_told_with_its_length() -> None:
    watched = Watched()

    watched.look(LOOK_S + 5)
    watched.look(LOOK_S + 600)
    watched.look()

    at = START + timedelta(seconds=2 * LOOK_S + 605)
    assert watched.told == [StoodStill(at, timedelta(seconds=600))]
