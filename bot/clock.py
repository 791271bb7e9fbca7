"""Where time is read. No other module of the project may ask the system what time it is.

Two kinds of time (design section 4). *Market time* moves phases, quotes, matching and the engine,
and may be simulated; *wire time* is what signatures, nonces, quotas and tokens are judged by.

A wall clock may be set, by a person or by NTP, and then everything that is reckoned with it is
wrong: set back ten minutes, the next poll is due in ten minutes, and a quote read before counts as
fresh until then; set ahead, every order has outlived its signal. So a real run reads the wall once.
Its one clock, market and wire, is a `SteadyClock`: the wall at the start, and since then what
CLOCK_BOOTTIME counts, which nothing steps and which goes on while the machine is suspended. Every
duration that is the difference of two of its instants is right, whatever the wall does. That it may
be off is another matter: the broker's `Date` tells by how much (`broker/clock_offset.py`), which
corrects signatures and in the end keeps orders back. Only a restart reads the wall again: a clock
that goes back in a running engine would make it wait, and one that jumps would skip what is due.

On the stepped clock of a simulation both are that clock.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time, aware and in UTC."""

    def now(self) -> datetime:
        """Return the present instant."""
        ...


class SystemClock:
    """The machine's own clock: for stamps, never for how long something took."""

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
    """Market time that runs `speed` times as fast as the `wire` clock from a common start."""

    def __init__(self, wire: Clock, *, start: datetime, speed: float) -> None:
        self._wire = wire
        self._start = start.astimezone(UTC)
        self._wire_start = wire.now()
        self._speed = speed

    def now(self) -> datetime:
        """Return the scaled instant."""
        return self._start + (self._wire.now() - self._wire_start) * self._speed


def boottime_ns() -> int:
    """Nanoseconds since boot, suspend included; the nonce window is measured by it over
    restarts.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boottime_s() -> float:
    """Seconds since boot, suspend included: how long something took or is ago. Nothing steps it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """What the wall said when it was made, and the time that has passed since: it never steps."""

    def __init__(
        self, wall: Clock | None = None, elapsed_s: Callable[[], float] = boottime_s
    ) -> None:
        self._wall = wall or SystemClock()
        self._elapsed_s = elapsed_s
        self._start, self._start_s = self._wall.now(), elapsed_s()

    def now(self) -> datetime:
        """Return the instant; it only ever goes on."""
        return self._start + timedelta(seconds=self._elapsed_s() - self._start_s)

    def wall_is_ahead_by(self) -> timedelta:
        """Return by how much the wall has been set since: negative when it was set back."""
        return self._wall.now() - self.now()


def monotonic_s() -> float:
    """Seconds that never jump, for durations and deadlines."""
    return time.monotonic()


def suspended_s() -> float:
    """Seconds that the machine has been suspended since its boot: only the difference of two
    readings says something.
    """
    return boottime_s() - monotonic_s()


def performance_s() -> float:
    """Seconds of the finest clock, for measuring how long something took."""
    return time.perf_counter()


def boot_id() -> str:
    """Identify this boot of the machine; boottimes of two boots cannot be compared."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def wire_ms(instant: datetime) -> int:
    """Unix milliseconds of an instant."""
    return round(instant.timestamp() * 1000)
