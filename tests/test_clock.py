"""The clock of a real run: it takes the wall's word once, and counts by itself from then on."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from bot.clock import SteadyClock, suspended_s

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


SLEPT_S = 3_600
AS_AFTER_A_SLEEP = ("unshare", "-U", "-r", "-T", "--boottime", str(SLEPT_S))
"""A namespace in which the two clocks differ as on a machine that was suspended for an hour."""
READ = (
    "from bot import clock; began = clock.monotonic_s();"
    "print(clock.boottime_s() - began, clock.boottime_ns() / 1e9 - began, clock.suspended_s())"
)


@pytest.mark.process
def test_durations_count_the_time_in_which_the_machine_was_suspended() -> None:
    has_unshare = shutil.which("unshare") is not None
    if not has_unshare or subprocess.run([*AS_AFTER_A_SLEEP, "true"], check=False).returncode:
        pytest.skip("time of its own wants unshare and user namespaces")

    ran = subprocess.run(
        [*AS_AFTER_A_SLEEP, sys.executable, "-c", READ], check=True, capture_output=True, text=True
    )

    wanted = suspended_s() + SLEPT_S
    assert [float(each) for each in ran.stdout.split()] == pytest.approx([wanted] * 3, abs=5)
