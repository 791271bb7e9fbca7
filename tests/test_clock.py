"""The clock of a real run: it takes the wall's word once, and counts by itself from then on."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bot.clock import SteadyClock

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)


@dataclass
class Machine:
    """A wall that can be set, and a counter that nothing sets."""

    at: datetime = START
    elapsed: float = 100.0

    def now(self) -> datetime:
        return self.at

    def elapsed_s(self) -> float:
        return self.elapsed

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.elapsed += seconds


def test_a_steady_clock_begins_with_the_wall_and_counts_suspension() -> None:
    machine = Machine()
    clock = SteadyClock(machine, machine.elapsed_s)

    machine.pass_by(3_600.5)

    assert clock.now() == START + timedelta(seconds=3_600.5)
    assert clock.wall_is_ahead_by() == timedelta()


def test_a_wall_that_is_set_moves_nothing_and_is_known() -> None:
    machine = Machine()
    clock = SteadyClock(machine, machine.elapsed_s)

    machine.at -= timedelta(minutes=10)
    machine.pass_by(1)

    assert clock.now() == START + timedelta(seconds=1)
    assert clock.wall_is_ahead_by() == timedelta(minutes=-10)
