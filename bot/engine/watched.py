"""What the engine remembers of itself and of its machine, beside the orders it has under way."""

from collections import deque
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.entry import Numbers
from bot.domain.order import Side
from bot.engine.tracked import BEGINNING

SENT_MAX: Final = 64
"""So many of the last orders are remembered: more than may leave within a second."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What stays wrong now: the sentence in English, and what another language says it from."""

    code: str
    text: str
    facts: Numbers


@dataclass(slots=True)
class Checked:
    """What the invariants remember: the number of the last intent that was to leave, the executed
    quantity of each order, when everything was looked at, and the last orders that were to leave.
    """

    last_number: int = 0
    executed: dict[tuple[date, str], int] = field(default_factory=dict)
    looked_at: datetime = BEGINNING
    sent: deque[tuple[datetime, Side]] = field(default_factory=lambda: deque(maxlen=SENT_MAX))


@dataclass(slots=True)
class Standstill:
    """The bot stood still until `ended_at`. What it has read since; `due` is when it asks again."""

    ended_at: datetime
    due: datetime
    has_orders: bool = False
    has_account: bool = False


@dataclass(slots=True)
class MachineTime:
    """By how much the machine's wall clock was set, a standstill that is not over yet, and the room
    on the journal's disk while it is little.
    """

    wall_is_ahead_by: timedelta = timedelta()
    standstill: Standstill | None = None
    disk_free: int | None = None
