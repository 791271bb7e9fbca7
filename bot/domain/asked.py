"""What a person asks of a running bot: events of the engine, judged before anything changes.

Like all events they carry `at`, market time, UTC; `by` is who asks (operator, cli, a strategy).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Action(StrEnum):
    """What an operator may do to the bot."""

    PAUSE = "pause"
    RESUME = "resume"
    HALT = "halt"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class OperatorActed:
    """An operator's command to the bot, or to one `strategy`; a resume also to one `symbol`, and a
    pause to `entries_only`. A halt may `flatten` too: sell what the strategies hold.
    """

    at: datetime
    action: Action
    reason: str
    by: str
    strategy: str | None = None
    symbol: str | None = None
    cancel_open: bool = False
    entries_only: bool = False
    flatten: bool = False


@dataclass(frozen=True, slots=True)
class AmendAsked:
    """Somebody asks to change one field of an order; `quantity` is the new total."""

    at: datetime
    order_id: str
    limit_price: int | None
    quantity: int | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody asks to cancel an order, or all that are open: `order_id` None."""

    at: datetime
    order_id: str | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class VerdictAsked:
    """Somebody says what became of an order that nobody knows about: the broker's order of that id,
    or `order_id` None: it was never placed.
    """

    at: datetime
    intent_id: str
    order_id: str | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class BreakAccepted:
    """Somebody has looked at a difference between journal and broker, and lets it stand."""

    at: datetime
    break_id: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class ReconcileAsked:
    """Somebody wants orders and account read, merged and compared now."""

    at: datetime
    by: str


Asked = OperatorActed | AmendAsked | CancelAsked | VerdictAsked | BreakAccepted | ReconcileAsked
