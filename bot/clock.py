"""Where time is read. No other module of the project may ask the system what time it is.

Two kinds of time (design section 4). *Market time* moves phases, quotes, matching and the engine,
and may be simulated; *wire time* is what signatures, nonces, quotas and tokens are judged by. In
live both are the system's clock.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time, aware and in UTC."""

    def now(self) -> datetime:
        """Return the present instant."""
        ...


class SystemClock:
    """The machine's own clock."""

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


def monotonic_s() -> float:
    """Seconds that never jump, for durations and deadlines."""
    return time.monotonic()


def performance_s() -> float:
    """Seconds of the finest clock, for measuring how long something took."""
    return time.perf_counter()


def boottime_ns() -> int:
    """Nanoseconds since boot, suspend included; the nonce window is measured by it over
    restarts.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boottime_s() -> float:
    """Seconds since boot, suspend included: how long something took or is ago. Nothing steps it."""
    return boottime_ns() / 1e9


def boot_id() -> str:
    """Identify this boot of the machine; boottimes of two boots cannot be compared."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def wire_ms(instant: datetime) -> int:
    """Unix milliseconds of an instant."""
    return round(instant.timestamp() * 1000)
