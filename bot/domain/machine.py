"""What happens to the machine that the bot runs on, as events of the engine."""

from dataclasses import dataclass
from datetime import datetime, timedelta


def clock_words(offset: timedelta) -> str:
    """Say how wrong our clock is; `offset` is what has to be added to it."""
    seconds = round(offset.total_seconds())
    return f"our clock is {abs(seconds)} s {'behind' if seconds > 0 else 'ahead of'} the broker's"


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The machine's wall clock was set: it is `ahead` of ours now, behind if negative; zero: no
    longer. Our own has not moved.
    """

    at: datetime
    ahead: timedelta


@dataclass(frozen=True, slots=True)
class DiskSeen:
    """There is little room on the journal's disk, or enough again."""

    at: datetime
    free_bytes: int


@dataclass(frozen=True, slots=True)
class StoodStill:
    """The machine was suspended, or the process was stopped, for so long until now."""

    at: datetime
    span: timedelta
