"""Facts that the journal stores: frozen, complete, and free of secrets.

The engine makes most of them, the order manager the two about an attempt. The journal writes all
entries of one event in one transaction before the event's commands are carried out. A run's lines
on screen are rendered from these entries, so screen and journal agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Final

from bot.domain.account import AccountSnapshot
from bot.domain.instrument import Exchange
from bot.domain.order import Intent, OrderState, SendState, Side

Number = int | float | str | bool | None
Numbers = Mapping[str, Number]
CODE_NOTE: Final = "CODE"
"""Kind of the note written at every start: who started the bot and which code runs."""
CLOSE_NOTE: Final = "CLOSE"
"""Kind of the note that keeps a symbol's last price of the day, for the next start."""
LIMITS_NOTE: Final = "LIMITS"
"""Kind of the note that holds every limit of a run, for the next start to compare."""
FAULT_NOTE: Final = "FAULT"
"""Kind of the note on a fault in the bot; a start reads those that no resume has cleared."""
FLATTEN_NOTE: Final = "FLATTEN"
"""Kind of the note on the progress of a halt that sells; a start continues from the latest one."""
PRUNED_NOTE: Final = "PRUNED"
"""Kind of the note that signs where a pruned table begins, and of what a close deleted."""
DAY_NOTE: Final = "DAY"
"""Kind of the note that sums up a finished trading day."""
RECONCILE_NOTE: Final = "RECONCILE"
EXPLAINED: Final = "met"
"""In a note on a comparison with the broker: the break that a row has explained since."""
HOLDS_NOTE: Final = "HOLDS"
WORKS_ON_NOTE: Final = "OPEN"
OFF_NOTE: Final = "OFF"
"""Kind of the note of a start on a strategy that an earlier run has left off."""
KILLED_NOTE: Final = "KILLED"
"""Kind of the note of a start on the run before it, if that has no end."""
PULSE_NOTE: Final = "PULSE"
LAST_PRICE: Final = "last "
"""In notes of these kinds, this prefix and a symbol form the key of a held symbol's last price."""
MISSED_NOTE: Final = "MISSED"
LATE_NOTE: Final = "SCHEDULE"
"""Kind of the note on timetable runs that were late or missed."""

NOTICE_NOTE: Final = "NOTICE"
"""Kind of the note on a notice: whether the channel accepted it."""
MUTE_NOTE: Final = "MUTE"
"""Kind of the note on muted notices: until when. A start continues with the latest one."""
RESUME_NOTE: Final = "RESUME"
BOOK_ACCEPTED: Final = "book_accepted"
"""In a note of a resume: the day on which buys go out although the day order book is an earlier
one's.
"""
IN_DOUBT: Final = "in_doubt"
"""In a decision to cancel: it was known already that the order may be somebody else's."""


class Verdict(StrEnum):
    """What became of a strategy's request, or of a chance to make one."""

    PASSED = "PASSED"
    SKIPPED = "SKIPPED"
    BLOCKED = "BLOCKED"
    WATCHED = "WATCHED"
    HELD = "HELD"
    EXPIRED = "EXPIRED"
    FAILED = "FAILED"


class RunState(StrEnum):
    """The one word for the bot's state, the same wherever it is shown."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    REDUCING = "REDUCING"
    PAUSED = "PAUSED"
    NEEDS_2FA = "NEEDS_2FA"
    DEGRADED = "DEGRADED"
    HALTED = "HALTED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a request: its code, whether it passed, and the numbers it compared."""

    code: str
    passed: bool
    numbers: Numbers
    text: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One request of a strategy, or its skip with a reason, with everything it was judged by.

    `request_id` is our id (`L-0001`) when the request got as far as an order; `saw` is the quote or
    depth at that moment; `checks` lists every check tried, in order; when BLOCKED the last one is
    the one that failed.
    """

    at: datetime
    strategy: str
    symbol: str
    verdict: Verdict
    code: str
    why: str
    numbers: Numbers = field(default_factory=dict)
    saw: Numbers = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()
    request_id: str | None = None
    side: Side | None = None
    quantity: int | None = None
    order_type: str | None = None
    price: int | None = None


@dataclass(frozen=True, slots=True)
class IntentRecorded:
    """A new intent, READY to be sent (or DENIED, stored so that a refused order has a row too).

    `reason` is why it was denied.
    """

    at: datetime
    intent: Intent
    state: SendState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IntentMoved:
    """The send state of an intent changed. `proof` is the evidence for a NOT_PLACED verdict."""

    at: datetime
    intent_id: str
    from_state: SendState
    to_state: SendState
    reason: str
    proof: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """One HTTP order request, signed and about to be sent. It is committed before its first byte
    leaves.

    `verb` is POST, PUT or DELETE; `known_ids` are the ids in the day order book known at that time:
    as written only those that no attempt stored earlier has (none for a DELETE), as read for a
    start all of them. `signed_ms` is wire time; `boottime_ns` with `boot_id` measures the nonce
    window over restarts.
    """

    at: datetime
    attempt_id: str
    intent_id: str
    verb: str
    target: str
    order_id: str | None
    nonce: str
    signed_ms: int
    boot_id: str
    boottime_ns: int
    body_sha256: str
    body: str
    known_ids: tuple[str, ...]
    epoch: int


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """The outcome of an attempt: ACCEPTED, REFUSED, NOT_SENT or UNKNOWN; `raw` is redacted."""

    at: datetime
    attempt_id: str
    intent_id: str
    outcome: str
    http_status: int | None
    code: str | None
    reason: str
    raw: str
    latency_ms: int


@dataclass(frozen=True, slots=True)
class OrderResultSeen:
    """One raw element of a `result[]`. `source` is place, amend, cancel, book (the day's) or
    detail.
    """

    at: datetime
    source: str
    order_id: str
    intent_id: str | None
    attempt_id: str | None
    raw: str


@dataclass(frozen=True, slots=True)
class OrderUpdated:
    """The latest known state of an order: its row in `orders`. `intent_id` None: an
    external order.
    """

    at: datetime
    order_id: str
    account: str
    trading_date: date
    intent_id: str | None
    strategy: str | None
    symbol: str
    exchange: Exchange | None
    side: Side
    quantity: int
    order_type: str
    price: int | None
    state: OrderState
    broker_status: str = ""
    executed_quantity: int = 0
    executed_amount: int = 0
    cancelled_quantity: int = 0
    fee: int = 0
    tax: int = 0
    code: str | None = None
    reason: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """One state move of an order, append-only and hash-chained. `broker_status` is raw."""

    at: datetime
    intent_id: str | None
    order_id: str | None
    from_state: OrderState | None
    to_state: OrderState
    broker_status: str | None
    source: str
    executed_quantity: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fill:
    """Growth of an order's executed quantity. `amount` is exact VND; `price` is its floored
    average.

    `fee` and `tax` are computed by the rulebook until the broker's statement corrects them.
    `position` is the strategy's own position in the symbol after this fill.
    """

    at: datetime
    fill_id: str
    order_id: str
    intent_id: str | None
    strategy: str | None
    account: str
    symbol: str
    side: Side
    quantity: int
    price: int
    amount: int
    fee: int
    tax: int
    order_quantity: int
    order_executed: int
    broker_status: str
    position: int
    realised: int
    """Of a sale, against the strategy's average cost, before fee and tax; 0 for a buy."""


AUTH_TYPED: Final = "TYPED"
AUTH_TAKEN: Final = "TAKEN"
AUTH_DROPPED: Final = "DROPPED"
"""Further 2FA states, kept for reading the day's story; they make no line on screen."""


@dataclass(frozen=True, slots=True)
class AuthEvent:
    """A step of two-factor authentication: needed, ready, refused, code asked. It never holds the
    code or the token.
    """

    at: datetime
    kind: str
    code: str
    detail: str
    intent_id: str | None = None


ACCOUNT_SCOPE: Final = "account:"
FENCE_SCOPE: Final = "fence:"
ENTRIES_SCOPE: Final = "entries:"
"""Prefix of the scopes of halts that stop entries."""
REDUCED_SCOPE: Final = f"{ENTRIES_SCOPE}all"
"""Scope of a halt of entries on every account, made by a person. Like one account's halt it makes
the bot REDUCING; that word is only shown, the journal stores the scopes.
"""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The bot's one-word state changed; `by` is who or what did it (operator, 2fa, limit, broker,
    journal).

    `scope` is `all` for the state that is shown; `operator` for a pause, a halt or the end of one
    while a stronger state is shown; `symbol:HPG` for one symbol, `account:…` for an account's
    orders, `fence:nonces` for trust in nonces. All of them survive a restart.
    """

    at: datetime
    from_state: RunState
    to_state: RunState
    reason: str
    by: str
    scope: str = "all"


@dataclass(frozen=True, slots=True)
class StrategySwitched:
    """A strategy was paused, resumed or disabled. `state` is on, paused, disabled or warming."""

    at: datetime
    strategy: str
    state: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class AccountSeen:
    """The broker's figures for the account, as read when reconciling."""

    at: datetime
    snapshot: AccountSnapshot


@dataclass(frozen=True, slots=True)
class Note:
    """Something other than an order that is worth a line and a row: a phase change, a rate limit,
    an alert, drift.

    `kind` is one upper-case word (PHASE, LIMIT, ALERT, BROKER, FEED, RECONCILE, PULSE …).
    """

    at: datetime
    kind: str
    text: str
    numbers: Numbers = field(default_factory=dict)
    symbol: str | None = None


Entry = (
    Decision
    | IntentRecorded
    | IntentMoved
    | AttemptStarted
    | AttemptFinished
    | OrderResultSeen
    | OrderUpdated
    | Transition
    | Fill
    | AuthEvent
    | StateChanged
    | StrategySwitched
    | AccountSeen
    | Note
)
ONLY_SELLS: Final = "only sells until tomorrow"
"""How the reason of a strategy begins that its own loss of the day has paused."""
