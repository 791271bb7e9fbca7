"""Facts that the journal remembers. Frozen, complete, and safe to store: no entry carries a secret.

The engine makes most of them, the order manager the two about an attempt. The journal writes all
entries that one event caused in one transaction, then the commands of that event are carried out.
The lines of a run on a screen are these entries in words, so screen and journal agree.
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
"""The kind of a note of every start: who began it, with which code."""
CLOSE_NOTE: Final = "CLOSE"
"""The kind of a note that keeps the last price of a symbol's day: read at the next start."""
LIMITS_NOTE: Final = "LIMITS"
"""The kind of a note that holds every limit of a run, for the next start to compare."""
FAULT_NOTE: Final = "FAULT"
"""The kind of a note on a fault of ours: a start knows of those that no resume has answered."""
FLATTEN_NOTE: Final = "FLATTEN"
"""The kind of a note on how far a halt is that sells: a start goes on from the newest of them."""
DAY_NOTE: Final = "DAY"
"""The kind of the note that sums a trading day up when it is over."""
HOLDS_NOTE: Final = "HOLDS"
PULSE_NOTE: Final = "PULSE"
LAST_PRICE: Final = "last "
"""Notes of these kinds keep the last price of what is held, each under this and its symbol."""
MISSED_NOTE: Final = "MISSED"
LATE_NOTE: Final = "SCHEDULE"
"""The kind of a note on runs of the timetable that came too late, or not at all."""

NOTICE_NOTE: Final = "NOTICE"
"""The kind of a note on a message to a person who is away: whether its service took it."""
MUTE_NOTE: Final = "MUTE"
"""The kind of a note on how long a person keeps notices back: a start goes on with the newest."""


class Verdict(StrEnum):
    """What became of a strategy's request, or of its chance to make one."""

    PASSED = "PASSED"
    SKIPPED = "SKIPPED"
    BLOCKED = "BLOCKED"
    WATCHED = "WATCHED"
    HELD = "HELD"
    EXPIRED = "EXPIRED"
    FAILED = "FAILED"


class RunState(StrEnum):
    """The one word for how the bot is, the same everywhere it is shown."""

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
    """One request of a strategy, or its reasoned no, with everything it was judged by.

    `request_id` is our id (`L-0001`) when the request got as far as an order; `saw` is the quote or
    depth at that moment; `checks` holds every check tried, in order, the last one failed when
    BLOCKED.
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
    """A new intent, READY to be sent (or DENIED: kept so that a refused order has a row too).

    `reason` is why it was denied.
    """

    at: datetime
    intent: Intent
    state: SendState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IntentMoved:
    """The send state of an intent changed. `proof` says why a NOT_PLACED verdict is one."""

    at: datetime
    intent_id: str
    from_state: SendState
    to_state: SendState
    reason: str
    proof: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """One HTTP order request, signed and about to be sent. Committed before its first byte leaves.

    `verb` is POST, PUT or DELETE; `known_ids` are the order ids of the day order book known then;
    `signed_ms` is wire time; `boottime_ns` with `boot_id` measures the nonce window over restarts.
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
    """What came of an attempt: ACCEPTED, REFUSED, NOT_SENT or UNKNOWN; `raw` is redacted."""

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
    """One raw element of a `result[]`. `source`: place, amend, cancel, book (the day's), detail."""

    at: datetime
    source: str
    order_id: str
    intent_id: str | None
    attempt_id: str | None
    raw: str


@dataclass(frozen=True, slots=True)
class OrderUpdated:
    """An order as we know it now: its row in `orders`. `intent_id` None: it is not ours."""

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
    """One move of an order. Append-only and hash-chained by the journal. `broker_status` is raw."""

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

    `fee` and `tax` are ours, computed by the rulebook, until the broker's statement says otherwise.
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
    """Of a sale against the strategy's average cost, before fee and tax; 0 for a buy."""


AUTH_TYPED: Final = "TYPED"
AUTH_TAKEN: Final = "TAKEN"
AUTH_DROPPED: Final = "DROPPED"
"""What else is kept of the second factor, for who looks at a day's story; no line of a run."""


@dataclass(frozen=True, slots=True)
class AuthEvent:
    """The second factor: needed, ready, refused, code asked. Never the code or the token."""

    at: datetime
    kind: str
    code: str
    detail: str
    intent_id: str | None = None


ACCOUNT_SCOPE: Final = "account:"
FENCE_SCOPE: Final = "fence:"
ENTRIES_SCOPE: Final = "entries:"
"""What the scopes of these halts begin with."""
REDUCED_SCOPE: Final = f"{ENTRIES_SCOPE}all"
"""Of every account: a person has stopped all entries. It makes the bot REDUCING, as an account's
does; that word is shown, and only its scopes are journalled.
"""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The bot's one-word state moved; `by` is who or what did it (operator, 2fa, limit, broker,
    journal).

    `scope` is `all` for the state that is shown; `operator` for a pause, a halt or their end while
    a stronger state is shown; `symbol:HPG` for one symbol, `account:…` for an account's orders,
    `fence:nonces` for trust in nonces. A restart keeps them all.
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
    """The broker's numbers of the account, as read at a reconcile."""

    at: datetime
    snapshot: AccountSnapshot


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a line and a row that is no order: a phase change, a rate limit, an alert,
    drift.

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
