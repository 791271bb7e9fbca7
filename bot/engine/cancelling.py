"""What the engine remembers of a cancel under way, and why the order is still open; and of what it
sells after a halt.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from bot.engine.tracked import BEGINNING


class CancelStage(StrEnum):
    """How far a cancel is: wanted, row being read, DELETE sent, its end looked for."""

    WANTED = "wanted"
    READING = "reading"
    SENT = "sent"
    CONFIRMING = "confirming"


class Hindrance(StrEnum):
    """Why an order that is to be cancelled is still open, as far as it is known."""

    TWO_FACTOR = "TWO_FACTOR"
    PHASE = "PHASE"
    FORBIDDEN = "FORBIDDEN"
    NOT_SENT = "NOT_SENT"
    QUOTA = "QUOTA"
    NO_ANSWER = "NO_ANSWER"
    REFUSED = "REFUSED"
    NOT_SHOWN = "NOT_SHOWN"


@dataclass(slots=True)
class TrackedCancel:
    """A cancel of an order, followed until a row shows its end.

    `since` is when it was asked for, or when what held it back by rule was over. `tries` counts the
    DELETEs that reached the broker's door; `waits` what only makes the distance grow since the last
    of them: a look, a DELETE that was not sent. `detail` is the word of whoever said no.
    """

    order_id: str
    reason: str
    since: datetime
    due: datetime
    stage: CancelStage = CancelStage.WANTED
    tries: int = 0
    waits: int = 0
    looked_at: datetime = BEGINNING
    sent_at: datetime = BEGINNING
    queued_until: datetime | None = None
    hindrance: Hindrance | None = None
    detail: str = ""
    is_told: bool = False


@dataclass(slots=True)
class Flattening:
    """What a person wants sold after a halt. By strategy and symbol: `left` says why something is
    still held, `due` when that is looked at again, `last_held` how much that was at last, `sales`
    how many went out since it became less. `intents` are all sales, which alone pass the halt;
    `left_out` is what a person has cancelled a sale of; `taken_back`: intents whose orders ended as
    cancelled, and we had not asked for that.
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
