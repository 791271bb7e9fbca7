"""Events about running the bot: what a person asks for, what happens to the machine, and the ends
of days.

Like all events they carry `at` (market time, UTC). A request is checked before anything changes;
`by` is who made it (operator, cli, a strategy).
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final

from bot.domain.order import OrderReport


class Action(StrEnum):
    """What an operator may do to the bot."""

    PAUSE = "pause"
    RESUME = "resume"
    HALT = "halt"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class OperatorActed:
    """An operator's command to the bot, or to one `strategy`; a resume may be limited to one
    `symbol`, a pause to `entries_only`. A halt may also `flatten`: sell what the strategies hold.
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
    """Someone asks to change one field of an order; `quantity` is the new total."""

    at: datetime
    order_id: str
    limit_price: int | None
    quantity: int | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Someone asks to cancel an order, or all open ones if `order_id` is None."""

    at: datetime
    order_id: str | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class VerdictAsked:
    """Someone says what became of an order whose outcome is unknown: it is the broker's order of
    that id, or (`order_id` None) it was never placed.
    """

    at: datetime
    intent_id: str
    order_id: str | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class BreakAccepted:
    """Someone has looked at a difference between journal and broker, and accepts it."""

    at: datetime
    break_id: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class ReconcileAsked:
    """Someone wants orders and account read, merged and compared now."""

    at: datetime
    by: str


@dataclass(frozen=True, slots=True)
class EarlierOrdersRead:
    """What the order history says about own orders that an earlier day left open, and what it shows
    that looks like a place whose outcome was lost.

    An order that it does not list, or that could not be read, has no report; `is_unread`: none of
    them could be.
    """

    at: datetime
    reports: tuple[OrderReport, ...]
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class TradingDayEnded:
    """The exchanges have closed: journal, day order book and account are compared one last time."""

    at: datetime
    trading_date: date


@dataclass(frozen=True, slots=True)
class CodesCounted:
    """How many 2FA codes the broker will still mail today, as far as this bot knows, out
    of `of`.
    """

    at: datetime
    left: int
    of: int


WARN_OFFSET: Final = timedelta(seconds=5)
"""A clock off by this much raises an alert: orders are still sent, but it may get worse."""


def clock_words(offset: timedelta) -> str:
    """Describe how wrong our clock is; `offset` is what has to be added to it. Whole seconds, so
    that what is below a limit is not told as the limit itself.
    """
    seconds = int(offset.total_seconds())
    return f"our clock is {abs(seconds)} s {'behind' if seconds > 0 else 'ahead of'} the broker's"


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The machine's wall clock was set: it is `ahead` of ours now, behind if negative, zero if they
    agree again. Our own clock has not moved.
    """

    at: datetime
    ahead: timedelta


@dataclass(frozen=True, slots=True)
class DiskSeen:
    """The journal's disk is low on space, or has enough again."""

    at: datetime
    free_bytes: int


@dataclass(frozen=True, slots=True)
class StoodStill:
    """The machine was suspended or the process stopped, for this long until now."""

    at: datetime
    span: timedelta


OperationsEvent = (
    OperatorActed
    | AmendAsked
    | CancelAsked
    | VerdictAsked
    | BreakAccepted
    | ReconcileAsked
    | EarlierOrdersRead
    | TradingDayEnded
    | CodesCounted
    | ClockStepped
    | DiskSeen
    | StoodStill
)
