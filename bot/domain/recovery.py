"""What the journal knows when the bot starts: the state from which the engine continues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.account import AccountSnapshot, Break, Moved
from bot.domain.entry import AttemptStarted, Fill, Numbers, OrderUpdated, RunState
from bot.domain.errors import Fault
from bot.domain.order import Intent, RowFigures, SendState
from bot.domain.quote import LastClose

RECENT_BUYS: Final = 20
"""How many of a strategy's last buys make up its usual size."""


LATE_ROWS: Final = timedelta(days=7)
"""A row of a place that was lost may turn up so long after its day."""

UNCHECKED: Final = "it could not be checked"
"""How `Recovery.damage` begins of a journal that a start could not check in time."""
MAY_BE: Final = "may be "
"""So the note of an external order begins that may be one of ours: an open question's, or several's
that the broker could not distinguish.
"""

PLACES_JUDGED: Final = 5
"""So many of the day's last orders say how the broker answers them."""


def questions_in(note: str) -> Sequence[str]:
    """Return the intents of which the note of an external order says that it may be one."""
    return note.removeprefix(MAY_BE).split(", ") if note.startswith(MAY_BE) else ()


@dataclass(frozen=True, slots=True)
class PlaceSeen:
    """How one order was answered: `is_lost` without an answer that proves anything."""

    at: datetime
    is_lost: bool
    latency_ms: int


@dataclass(frozen=True, slots=True)
class StoredIntent:
    """An intent, its send state, and its order's id; while that is unknown, its POST.

    `proof` is the evidence for its final state, if that needed one. `day_ids`, of a place that an
    earlier day has lost: the ids of that day's orders that are known to be others, and of rows that
    a person was told of.
    """

    intent: Intent
    state: SendState
    order_id: str | None
    attempt: AttemptStarted | None
    proof: str = ""
    day_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredAmend:
    """An amendment without a verdict: what was requested, and its PUT. `order_id` is the order's
    first id, `old` the value that was to change, `outcome` that of the answer if one arrived.
    """

    order_id: str
    attempt: AttemptStarted
    outcome: str | None
    limit_price: int | None
    quantity: int | None
    old: int | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoredChanges:
    """What amendments have made of an order: `quantities` and `prices` are what they asked for.

    Of the time before its newest id was first shown: `matched` is what was executed, in shares and
    VND; `matched_before` is the same of each later id before that one, oldest first; `had_ended`:
    it had ended, and works on under that id; then `total` is the quantity that its last amendment
    asked for, None if that changed the price.
    """

    quantities: tuple[int, ...] = ()
    total: int | None = None
    matched: tuple[int, int] = (0, 0)
    had_ended: bool = False
    prices: tuple[int, ...] = ()
    matched_before: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RecoveredStrategy:
    """A strategy's own shares and cost per symbol, from its fills; today's counters and result."""

    positions: Mapping[str, tuple[int, int]]
    """symbol -> (shares, cost in VND of those shares)"""
    orders_today: int
    realised_today: int
    fees_today: int
    state: str
    """on, paused or disabled"""
    state_reason: str = ""
    state_by: str = ""
    state_since: datetime | None = None
    """When it was last switched; None: never."""
    recent_buys: tuple[int, ...] = ()
    """What its last buys of any day were worth, oldest first."""
    refused: tuple[datetime, ...] = ()
    """When the broker refused today's orders for reasons in the orders themselves, oldest first."""
    refused_in_a_row: int = 0
    """How many of these came last in a row, without an accepted order since."""
    held_in: frozenset[str] = frozenset()
    """The accounts on which its shares were traded."""


@dataclass(frozen=True, slots=True)
class StoredFlatten:
    """An unfinished halt that sells: `since` is when a person asked for it. `left_out`: strategies
    and symbols whose sales a person has cancelled. `is_allowed`: no other halt has come.
    """

    reason: str
    by: str
    since: datetime
    left_out: frozenset[tuple[str, str]] = frozenset()
    is_allowed: bool = False


@dataclass(frozen=True, slots=True)
class StoredFault:
    """A fault in the bot that no person has cleared with a resume yet."""

    at: datetime
    where: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Recovery:
    """Everything the engine needs to continue as if it had never stopped."""

    trading_date: date
    next_intent_number: int = 1
    next_fill_number: int = 1
    run_state: RunState = RunState.RUNNING
    run_state_reason: str = ""
    run_state_by: str = ""
    intents: tuple[StoredIntent, ...] = ()
    """Unresolved intents of any day, those of late whose day ended without a row of them, and all
    of today's.
    """
    orders: tuple[OrderUpdated, ...] = ()
    """Today's orders and every order that has not ended, own and external, each in its latest
    state. A broker may give out the id of an earlier day's order again.
    """
    traded_elsewhere: tuple[OrderUpdated, ...] = ()
    """Ended external orders of earlier days, as far back as a settlement over Tet may take, counted
    from the figures in `bases` where those are older: what of them has not settled yet still comes.
    """
    amends: tuple[StoredAmend, ...] = ()
    later_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """order id -> the ids that amendments have given the order since, oldest first"""
    changes: Mapping[str, StoredChanges] = field(default_factory=dict)
    """order id -> what amendments have made of today's order"""
    rows: Mapping[str, tuple[RowFigures, ...]] = field(default_factory=dict)
    """order id -> the rows of today's order that were journalled, under its newest id"""
    strategies: Mapping[str, RecoveredStrategy] = field(default_factory=dict)
    recent_fills: tuple[tuple[date, Fill], ...] = ()
    """With their trading dates, as far back as external orders."""
    bases: tuple[AccountSnapshot, ...] = ()
    """The broker's figures for each account when they last agreed with ours, or were accepted."""
    account_reads: tuple[AccountSnapshot, ...] = ()
    """What was read of the accounts since then, oldest first: of equal cash the newest."""
    in_bases: Mapping[str, Moved] = field(default_factory=dict)
    """order made elsewhere -> what of it is included in those figures"""
    breaks: tuple[Break, ...] = ()
    """Differences that nobody has accepted yet; they hold the start."""
    next_break_number: int = 1
    damage: tuple[str, ...] = ()
    """What is wrong with the journal itself; empty: it is intact."""
    crashes: int = 0
    """How many runs in a row, begun shortly before this one, never ended: they were killed."""
    killed_since: datetime | None = None
    """When the run before this one began, if it has no end."""
    halted_symbols: Mapping[str, str] = field(default_factory=dict)
    """symbol -> why no order goes out in it until an operator resumes"""
    halted_scopes: Mapping[str, str] = field(default_factory=dict)
    """The same for an account (`account:…`), and for trust in nonces (`fence:`)"""
    reduced: Mapping[str, str] = field(default_factory=dict)
    """account -> why it takes no entries today"""
    recent_requests: tuple[tuple[str, datetime], ...] = ()
    """Account and time of today's latest order requests: places, changes and cancels."""
    recent_sales: tuple[tuple[str, datetime], ...] = ()
    """The same for the sales among the places."""
    places_seen: tuple[PlaceSeen, ...] = ()
    """How the day's last orders were answered, the oldest first."""
    limits: Numbers = field(default_factory=dict)
    """Every limit of the last run, by its name; empty: none known."""
    last_start: Numbers = field(default_factory=dict)
    """What the last start has noted: who made it, with which files and key; empty: none has."""
    broken: frozenset[str] = frozenset()
    """The strategies that this run leaves out as their files are broken, and tells of by itself."""
    started_by: str = ""
    """Who started this run; empty: nobody, the journal is only being read."""
    closes: tuple[LastClose, ...] = ()
    """The last price that this bot saw of each symbol on the last day on which it saw the close."""
    book_accepted_on: date = date.min
    """The last day on which a person let buys out although the day order book was an earlier one's.
    """
    cancels: Mapping[str, str] = field(default_factory=dict)
    """today's intent -> why its order is to be cancelled; most of these orders have ended"""
    knowing_cancels: frozenset[str] = frozenset()
    """Those of these intents whose order was known to be perhaps somebody else's when it was to be
    cancelled.
    """
    flatten: StoredFlatten | None = None
    faults: tuple[StoredFault, ...] = ()
    """Faults behind the halt that continues, oldest first."""
