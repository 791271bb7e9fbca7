"""The clock of a real run: it takes the wall's word once, and counts by itself from then on."""

import inspect
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.clock import SteadyClock, boottime_s, suspended_s
from tests.crash.standstills import ASLEEP, LIBRARY, compiled

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


def test_a_steady_clock_counts_suspension_unless_told_otherwise() -> None:
    counter = inspect.signature(SteadyClock).parameters["elapsed_s"]

    assert counter.default is boottime_s


RUN = """
import os, struct
from pathlib import Path
from bot.protocol.secret import Secret
from bot.runtime.worlds.environment import Access
from bot.runtime.worlds.system import SystemEnvironment
run = SystemEnvironment(Access("http://127.0.0.1:1", Secret(""), Secret("")))
clocks = [lambda: run.wire.now().timestamp(), lambda: run.market.now().timestamp(), run.elapsed_s]
began = [read() for read in clocks]
Path(os.environ["ASLEEP"]).write_bytes(struct.pack("q", 3_600 * 10**9))
print(*(read() - before for read, before in zip(clocks, began)))
"""


@pytest.mark.process
def test_the_clocks_of_a_real_run_have_gone_on_after_the_machine_slept(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("a sleep of the machine wants a C compiler")
    asleep = tmp_path / "asleep"
    asleep.write_bytes(bytes(8))
    environment = {**os.environ, LIBRARY: str(compiled(tmp_path)), ASLEEP: str(asleep)}

    ran = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, check=True, capture_output=True, text=True
    )

    assert [float(each) for each in ran.stdout.split()] == pytest.approx([SLEPT_S] * 3, abs=5)
