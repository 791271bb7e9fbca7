"""What happens to the machine that the bot runs on, as events of the engine."""

from dataclasses import dataclass
from datetime import datetime, timedelta


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
