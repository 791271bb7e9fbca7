"""The only module that may read the system's time.

There are two kinds of time (design section 4). *Market time* drives phases, quotes, matching and
the engine, and may be simulated; signatures, nonces, quotas and tokens go by *wire time*.

A person or NTP may set the wall clock, which would spoil everything computed from it: set back ten
minutes, the next poll is due in ten minutes, and an earlier quote counts as fresh until then; set
ahead, every order has outlived its signal. So a real run reads the wall clock once. Its only clock,
for market and wire time, is a `SteadyClock`: the wall time at the start plus what CLOCK_BOOTTIME
has counted since, which is never stepped and also counts suspension. The difference of two of its
instants is always a correct duration. It may still be off: the broker's `Date` shows by how much
(`broker/clock_offset.py`), which corrects signatures and, if it is too much, blocks orders. Only a
restart reads the wall clock again: if the clock of a running engine went back, the engine would
wait, and if it jumped ahead, it would skip what was due.

In a simulation, market and wire time are both the stepped clock.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

READ_BY: Final = (
    time,
    (
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("clock_gettime", "clock_gettime_ns", "sleep"),
    ),
)
"""Where libraries read the time too: nobody may replace these (`runtime/surroundings.py`)."""


class Clock(Protocol):
    """A source of the present time, aware and in UTC."""

    def now(self) -> datetime:
        """Return the present instant."""
        ...


class SystemClock:
    """The machine's own clock: for timestamps, never for durations."""

    def now(self) -> datetime:
        """Return the system time in UTC."""
        return datetime.now(UTC)


class SimulatedClock:
    """A clock that stands still until it is moved, and never moves back."""

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        """Return the simulated instant."""
        return self._now

    def advance_to(self, instant: datetime) -> None:
        """Move to `instant`; an instant in the past raises ValueError."""
        if instant < self._now:
            raise ValueError(f"a clock never goes back: {instant} is before {self._now}")
        self._now = instant.astimezone(UTC)


class ScaledClock:
    """Market time that runs `speed` times as fast as the `wire` clock, from a common start."""

    def __init__(self, wire: Clock, *, start: datetime, speed: float) -> None:
        self._wire = wire
        self._start = start.astimezone(UTC)
        self._wire_start = wire.now()
        self._speed = speed

    def now(self) -> datetime:
        """Return the scaled instant."""
        return self._start + (self._wire.now() - self._wire_start) * self._speed


def boottime_ns() -> int:
    """Nanoseconds since boot, suspend included; it measures the nonce window across restarts."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boottime_s() -> float:
    """Seconds since boot, suspend included, for durations and ages. Never stepped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """The wall time at its creation plus the time passed since: it never steps."""

    def __init__(
        self, wall: Clock | None = None, elapsed_s: Callable[[], float] = boottime_s
    ) -> None:
        self._wall = wall or SystemClock()
        self._elapsed_s = elapsed_s
        self._start, self._start_s = self._wall.now(), elapsed_s()

    def now(self) -> datetime:
        """Return the instant; it never goes back."""
        return self._start + timedelta(seconds=self._elapsed_s() - self._start_s)

    def wall_is_ahead_by(self) -> timedelta:
        """Return by how much the wall clock has been set since; negative if it was set back."""
        return self._wall.now() - self.now()


def monotonic_s() -> float:
    """Seconds that never jump, for durations and deadlines."""
    return time.monotonic()


def suspended_s() -> float:
    """Seconds that the machine has been suspended since boot; only the difference of two readings
    means something.
    """
    return boottime_s() - monotonic_s()


def performance_s() -> float:
    """Seconds of the finest clock, for measuring durations."""
    return time.perf_counter()


def boot_id() -> str:
    """Return the id of this boot; boot times of two boots cannot be compared."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def wire_ms(instant: datetime) -> int:
    """Return an instant as Unix milliseconds."""
    return round(instant.timestamp() * 1000)
