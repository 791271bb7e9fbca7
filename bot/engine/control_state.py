"""The engine's state of what holds orders back: gate, tokens, faults, the machine.

Also the memory of the invariants, and standing alerts (`Standing`).
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.entry import Numbers, RunState
from bot.domain.errors import Fault
from bot.domain.operations import CodesCounted
from bot.domain.order import Side
from bot.domain.recovery import PLACES_JUDGED, PlaceSeen
from bot.engine.settings import LONG_AGO

PRIORITY: Final = (
    RunState.STOPPING,
    RunState.HALTED,
    RunState.STARTING,
    RunState.NEEDS_2FA,
    RunState.DEGRADED,
    RunState.PAUSED,
)
"""What closes the gate, strongest first."""
LASTING: Final = (RunState.HALTED, RunState.PAUSED)
"""States that a restart does not end, stronger one first."""
BY_ENGINE: Final = "engine"
"""Author of a cause set by the engine's own fault: open orders stay, then and at a restart."""
BY_CLOCK: Final = "clock"
"""Author of a cause set because our clock was too far from the broker's."""
BY_BROKER: Final = "broker"
"""Author of a cause set because no read worked."""
BY_JOURNAL: Final = "database"
"""Author of a cause set because nothing could be written."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the gate is closed, who closed it, and since when it has been.

    An operator may omit the reason. `code` is the broker's word for a missing token.
    """

    reason: str
    by: str
    code: str = ""
    since: datetime | None = None


@dataclass(slots=True)
class TokenQuestion:
    """A person is asked for a 2FA token, `times` since it was needed, or since this morning.

    `due` is when they are asked again; None if no calendar says so.
    """

    code: str
    since: datetime
    asked_at: datetime
    times: int = 0
    due: datetime | None = None


@dataclass(slots=True)
class TokenEnding:
    """A token ends while it is needed: when its last write can be sent, and when a person is told
    next, after being told so many `times`.
    """

    at: datetime
    due: datetime
    times: int = 0


@dataclass(slots=True)
class Flattening:
    """What a person wants sold after a halt. By strategy and symbol: `left` is why something is
    still held, `due` when to check again, `last_held` the last quantity, `sales` how many were sent
    since that decreased. `intents` are all sales, which alone pass the halt; `left_out` are those
    of which a person has cancelled a sale; `taken_back`: intents whose orders ended as cancelled
    although we had not asked for that.
    """

    reason: str
    by: str
    since: datetime
    left: dict[tuple[str, str], str] = field(default_factory=dict)
    due: dict[tuple[str, str], datetime] = field(default_factory=dict)
    sales: dict[tuple[str, str], int] = field(default_factory=dict)
    last_held: dict[tuple[str, str], int] = field(default_factory=dict)
    left_out: set[tuple[str, str]] = field(default_factory=set)
    intents: set[str] = field(default_factory=set)
    taken_back: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Gate:
    """What holds orders back: the causes, and `state`, that of the strongest one.

    `kept` is the state with which a restart would begin, `missed` counts signals refused for lack
    of a token. `codes_counted` is how many codes could still be mailed. `troubles` are the reasons
    for DEGRADED, by author. `skew` is our clock's error, if worth mentioning. `cancel_when_seen`
    is, by intent, why its order is cancelled when it turns up, or works again after its end, or
    does not leave at all; `knowing_cancels` are those as in `Recovery`.
    """

    troubles: dict[str, str] = field(default_factory=dict)
    causes: dict[RunState, Cause] = field(
        default_factory=lambda: {RunState.STARTING: Cause("reading the day order book", "bot")}
    )
    state: RunState = RunState.STARTING
    kept: RunState = RunState.RUNNING
    reason: str = "reading the day order book"
    since: datetime | None = None
    token_until: datetime | None = None
    is_unproven: bool = False
    question: TokenQuestion | None = None
    ending: TokenEnding | None = None
    codes_counted: CodesCounted | None = None
    missed: int = 0
    has_stopped: bool = False
    journal_lost: list[datetime] = field(default_factory=list)
    cancel_when_seen: dict[str, str] = field(default_factory=dict)
    knowing_cancels: set[str] = field(default_factory=set)
    flattening: Flattening | None = None
    skew: timedelta | None = None

    @property
    def is_asleep(self) -> bool:
        """Whether no strategy is woken; in the other states their signals are processed and
        refused.
        """
        return self.state in {RunState.STOPPING, RunState.HALTED, RunState.STARTING}

    @property
    def lacks_token(self) -> bool:
        """Whether no write can succeed, neither an order nor a cancel."""
        return RunState.NEEDS_2FA in self.causes


@dataclass(slots=True)
class TrackedFault:
    """A kind of fault since the last resume, by its first occurrence; earlier ones are reported
    again.
    """

    at: datetime
    where: str
    fault: Fault
    count: int = 1
    is_of_before: bool = False


@dataclass(slots=True)
class PlaceAnswers:
    """How the day's last orders were answered, the newest last; `since`: when they became bad."""

    last: deque[PlaceSeen] = field(default_factory=lambda: deque(maxlen=PLACES_JUDGED))
    since: datetime | None = None


@dataclass(slots=True)
class OldBooks:
    """By account, which earlier day the newest day order book is of, where it is one; buys go out
    all the same on a day on which a person has `accepted` that.
    """

    days: dict[str, date] = field(default_factory=dict)
    accepted_on: date = date.min


SENT_MAX: Final = 64
"""How many of the last orders are remembered: more than can be sent within a second."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A standing alert: the sentence in English, and the code and facts for other languages."""

    code: str
    text: str
    facts: Numbers


@dataclass(slots=True)
class Checked:
    """The memory of the invariants: the number of the last intent to be sent, the executed quantity
    of each order, when everything was checked, the last orders to be sent, and approved ones that
    were held back and have to be ended.
    """

    last_number: int = 0
    executed: dict[tuple[date, str], int] = field(default_factory=dict)
    looked_at: datetime = LONG_AGO
    sent: deque[tuple[datetime, Side]] = field(default_factory=lambda: deque(maxlen=SENT_MAX))
    held_back: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Standstill:
    """The bot stood still until `ended_at`: what it has read since; `due` is when it asks again."""

    ended_at: datetime
    due: datetime
    has_orders: bool = False
    has_account: bool = False


@dataclass(slots=True)
class MachineTime:
    """By how much the machine's wall clock was set, a standstill that is not over yet, and the room
    on the journal's disk if it is low.
    """

    wall_is_ahead_by: timedelta = timedelta()
    standstill: Standstill | None = None
    disk_free: int | None = None


@dataclass(slots=True)
class FailingReads:
    """One kind of read: what fails now, and why. `told` of that was in one of so many `alerts`; the
    rest is `due` then. `again` is when the engine itself asks, where nobody polls.
    """

    details: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    alerts: int = 0
    due: datetime | None = None
    again: datetime | None = None
