"""The values that readers of the journal use: frozen rows, whole VND and shares, instants aware and
in UTC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final, Generic, TypeVar

from bot.domain.entry import CheckResult, Numbers

STOPPED: Final = "STOPPED"
"""The verdict of a time in which nothing could be requested."""
LASTS: Final = datetime.max.replace(tzinfo=UTC)
"""The end of something that has not ended."""
PRUNING: Final = "journal pruned"
"""Reason of a run that only pruned the journal and was not a bot."""

_NEVER_PLACED: Final = {
    "EXPIRED_LOCAL": "expired",
    "NOT_SENT": "expired",
    "HELD": "held",
    "NOT_PLACED": "never placed",
    "EOD_ABSENT": "never placed",
}
"""The outcome of an intent without an order at the broker, by its send state."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows that are read while they are used: `count` of them, after `earlier` omitted ones."""

    count: int
    earlier: int
    rows: Iterator[R]


@dataclass(frozen=True, slots=True)
class OrderRow:
    """An order, a request that did not become one, or one that was never answered.

    `id` is the broker's id, else the local one. `status` is the broker's own word, or BLOCKED (it
    was refused here), EXPIRED (it was approved, but never sent) or UNKNOWN (the outcome is
    unknown). `average_price` is floored. `at` is when it was decided.
    """

    seq: int
    id: str
    local_id: str | None
    order_id: str | None
    at: datetime
    trading_date: date
    strategy: str | None
    account: str | None
    side: str | None
    symbol: str
    exchange: str | None
    quantity: int | None
    order_type: str | None
    price: int | None
    executed_quantity: int
    executed_amount: int
    average_price: int | None
    cancelled_quantity: int
    status: str
    state: str | None
    send_state: str | None
    fee: int
    tax: int
    code: str | None
    reason: str | None
    why: str | None
    note: str
    is_open: bool

    @property
    def was_sent(self) -> bool:
        """Whether it may have been sent."""
        return self.status != "BLOCKED" and self.send_state not in {"EXPIRED_LOCAL", "NOT_SENT"}

    @property
    def outcome(self) -> str:
        """How it ended: filled, partly, open, cancelled, rejected, expired, held, blocked,
        never placed, unknown.
        """
        if self.order_id is None and self.send_state in _NEVER_PLACED:
            return _NEVER_PLACED[self.send_state]
        if self.status in {"BLOCKED", "UNKNOWN"}:
            return self.status.lower()
        if self.state == "FILLED":
            return "filled"
        if self.executed_quantity > 0:
            return "partly"
        if self.is_open:
            return "open"
        return (self.state or self.status).lower()


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One event. `offset_s` counts from the first row; `detail` is raw or JSON.

    `word` is the verdict, verb, outcome, source, new state or kind that the row is about.

    `kind` is decided, checked, recorded, sent, answered, sending, moved, polled, result, filled,
    2fa, state, note or account.
    """

    seq: int
    at: datetime
    offset_s: float
    kind: str
    local_id: str | None
    order_id: str | None
    strategy: str | None
    symbol: str | None
    text: str
    detail: str | None
    word: str | None


@dataclass(frozen=True, slots=True)
class FillRow:
    """Growth of an order's executed quantity. `price` is the floored average of `amount`."""

    seq: int
    fill_id: str
    at: datetime
    trading_date: date
    order_id: str
    intent_id: str | None
    strategy: str | None
    account: str
    symbol: str
    side: str
    quantity: int
    price: int
    amount: int
    fee: int
    tax: int
    position: int
    realised: int
    broker_status: str


@dataclass(frozen=True, slots=True)
class PositionRow:
    """A strategy's position in a symbol by its fills; `average_price` is the floored cost."""

    strategy: str | None
    symbol: str
    quantity: int
    cost: int
    average_price: int | None
    realised: int
    fee: int
    tax: int


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A request of a strategy, or why there was none, with what it was judged by."""

    seq: int
    at: datetime
    strategy: str
    symbol: str
    verdict: str
    code: str
    why: str
    local_id: str | None
    order_id: str | None
    side: str | None
    quantity: int | None
    order_type: str | None
    price: int | None
    numbers: Numbers
    saw: Numbers
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """The parts of a decision that its reason needs, for reading very many."""

    at: datetime
    strategy: str
    symbol: str
    verdict: str
    code: str
    why: str
    numbers: Numbers
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class DecisionGroup:
    """Decisions equal except for their figures; `ranges` holds each figure's lowest and highest
    value.
    """

    first_at: datetime
    last_at: datetime
    strategy: str
    symbol: str
    verdict: str
    code: str
    count: int
    why: str
    ranges: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class AuthRow:
    """Something about 2FA."""

    seq: int
    at: datetime
    kind: str
    code: str
    detail: str
    intent_id: str | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run of the bot; a killed one has no end."""

    run_id: int
    started_at: datetime
    mode: str
    version: str
    config_sha256: str
    epoch: int | None
    ended_at: datetime | None
    end_reason: str | None


@dataclass(frozen=True, slots=True)
class ProfitRow:
    """A day's result of a strategy in a symbol; `net` is `realised` less fee and tax."""

    trading_date: date
    strategy: str | None
    symbol: str
    fills: int
    bought: int
    bought_amount: int
    sold: int
    sold_amount: int
    realised: int
    fee: int
    tax: int
    net: int


@dataclass(frozen=True, slots=True)
class MissedRow:
    """Runs of a timetable job that were missed or late: `count` of them, what was done `then`, and
    why they were missed.
    """

    at: datetime
    job: str
    first: datetime
    last: datetime
    count: int
    then: str
    why: str
    text: str
    is_missed: bool = True


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event: its `kind`, `what` in a word or two, its `code` if any, and what it was `about`: an
    intent, a scope or a symbol.
    """

    at: datetime
    kind: str
    what: str
    code: str
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The last trusted price of a symbol, and its time."""

    symbol: str
    last: int
    at: datetime


@dataclass(frozen=True, slots=True)
class DaySummary:
    """The figures of one trading day; `outcomes` counts orders by `OrderRow.outcome`."""

    trading_date: date
    orders: int
    outcomes: Mapping[str, int]
    decisions: Mapping[str, int]
    """Counts by verdict."""
    folded: int
    """How many of them have no row of their own: an equal one stands for them."""
    fills: int
    realised: int
    fee: int
    tax: int

    @property
    def net(self) -> int:
        """Realised result after fee and tax."""
        return self.realised - self.fee - self.tax


class What(StrEnum):
    """What can be exported."""

    ORDERS = "orders"
    FILLS = "fills"
    EVENTS = "events"
    DECISIONS = "decisions"


class Format(StrEnum):
    """The output format: CSV with a byte order mark (for spreadsheets), or JSON lines."""

    CSV = "csv"
    JSONL = "jsonl"
