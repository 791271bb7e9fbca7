"""What the journal knows when the bot starts: the state that the engine continues from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from bot.domain.account import AccountSnapshot, Break, Moved
from bot.domain.entry import AttemptStarted, Fill, Numbers, OrderUpdated, RunState
from bot.domain.errors import Fault
from bot.domain.order import Intent, SendState
from bot.domain.quote import LastClose

RECENT_BUYS: Final = 20
"""So many of a strategy's buys are its habit."""


@dataclass(frozen=True, slots=True)
class StoredIntent:
    """An intent, its send state, its order's id once known, and until then its POST.

    `proof` is that of its end, where it needed one.
    """

    intent: Intent
    state: SendState
    order_id: str | None
    attempt: AttemptStarted | None
    proof: str = ""


@dataclass(frozen=True, slots=True)
class StoredAmend:
    """An amendment without a verdict: what was asked, and its PUT. `order_id` is the order's first
    id, `old` the value that was to change, `outcome` that of the answer where one was heard.
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
class RecoveredStrategy:
    """A strategy's own shares and cost per symbol, from its fills; today's counts and result."""

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
    """What its last buys of any day were worth, the oldest first."""
    refused: tuple[datetime, ...] = ()
    """When the broker has refused orders of today for a reason of theirs, the oldest first."""
    refused_in_a_row: int = 0
    """How many of these no accepted order has followed."""


@dataclass(frozen=True, slots=True)
class StoredFlatten:
    """A halt that sells and was not through: `since` when a person wants that. `left_out`:
    strategies and symbols whose sales a person has cancelled. `is_allowed`: no other halt has come.
    """

    reason: str
    by: str
    since: datetime
    left_out: frozenset[tuple[str, str]] = frozenset()
    is_allowed: bool = False


@dataclass(frozen=True, slots=True)
class StoredFault:
    """A fault of ours that no person has answered with a resume yet."""

    at: datetime
    where: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Recovery:
    """Everything the engine needs to go on as if it had never stopped."""

    trading_date: date
    next_intent_number: int = 1
    next_fill_number: int = 1
    run_state: RunState = RunState.RUNNING
    run_state_reason: str = ""
    run_state_by: str = ""
    intents: tuple[StoredIntent, ...] = ()
    """Unresolved ones of any day, and all of today's."""
    orders: tuple[OrderUpdated, ...] = ()
    """Today's orders and every one not terminal, newest state each, own and external."""
    amends: tuple[StoredAmend, ...] = ()
    later_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """order id -> the ids that amendments have given today's order since, the oldest first"""
    strategies: Mapping[str, RecoveredStrategy] = field(default_factory=dict)
    recent_fills: tuple[tuple[date, Fill], ...] = ()
    """With their trading dates, of as many days back as a settlement over Tet may take."""
    bases: tuple[AccountSnapshot, ...] = ()
    """The broker's numbers of each account when they last agreed with ours, or were accepted."""
    in_bases: Mapping[str, Moved] = field(default_factory=dict)
    """order made elsewhere -> what of it is in those numbers"""
    breaks: tuple[Break, ...] = ()
    """Differences that nobody has accepted yet; they hold the start."""
    next_break_number: int = 1
    damage: tuple[str, ...] = ()
    """What is wrong with the journal itself; it holds the start like a break."""
    crashes: int = 0
    """How many runs in a row, begun shortly before this one, have no end: they were killed."""
    halted_symbols: Mapping[str, str] = field(default_factory=dict)
    """symbol -> why no order goes out in it until an operator resumes"""
    halted_scopes: Mapping[str, str] = field(default_factory=dict)
    """The same of an account (`account:…`), and of trust in nonces (`fence:`)"""
    reduced: Mapping[str, str] = field(default_factory=dict)
    """account -> why it takes no entries today"""
    recent_requests: tuple[tuple[str, datetime], ...] = ()
    """Account and instant of the last order requests of the day: places, changes and cancels."""
    recent_sales: tuple[tuple[str, datetime], ...] = ()
    """The same of the sales among the places."""
    limits: Numbers = field(default_factory=dict)
    """Every limit of the last run, by its name; empty: none is known."""
    started_by: str = ""
    """Who has started this run; empty: nobody, something is only looked at."""
    closes: tuple[LastClose, ...] = ()
    """What this bot saw last of each symbol on the last day on which it saw its close."""
    cancels: Mapping[str, str] = field(default_factory=dict)
    """intent of today -> why its order is to be cancelled; most of these have ended"""
    flatten: StoredFlatten | None = None
    faults: tuple[StoredFault, ...] = ()
    """Those of the halt that is gone on with, the oldest first."""
