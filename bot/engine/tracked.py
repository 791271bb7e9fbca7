"""What the engine remembers of each thing that is under way."""

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from bot.domain.account import AccountSnapshot, Break
from bot.domain.entry import OrderUpdated
from bot.domain.errors import Fault
from bot.domain.instrument import Phase
from bot.domain.operations import AmendAsked
from bot.domain.order import (
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    Intent,
    OrderState,
    SendState,
    Side,
)
from bot.domain.plan import Limits, StrategyPlan
from bot.domain.recovery import RECENT_BUYS
from bot.engine.exposure import DayTrade
from bot.engine.shown import Shown
from bot.engine.usage import OF_LATE, Recent
from bot.strategy import Context, Request, Strategy

BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Position:
    """Shares and what they cost, in VND without fees."""

    shares: int = 0
    cost: int = 0

    def take(self, side: Side, quantity: int, amount: int) -> int:
        """Put a fill in; return what a sale has realised before fee and tax, 0 for a buy.

        By average cost: the cost of the shares sold is their share of the whole cost, rounded down;
        what rounding leaves stays with the rest, and the last share takes all that is left.
        """
        if side is Side.BUY:
            self.shares += quantity
            self.cost += amount
            return 0
        known = min(quantity, self.shares)
        cost = self.cost * known // self.shares if known > 0 else 0
        self.shares -= quantity
        self.cost -= cost
        return amount - cost


@dataclass(frozen=True, slots=True)
class BackOff:
    """When something is asked next, at growing distances."""

    due: datetime
    step: int = 0

    def advanced(self, now: datetime, distances: Sequence[timedelta]) -> "BackOff":
        """Return one that waits a distance longer; the last one repeats."""
        step = min(self.step + 1, len(distances) - 1)
        return BackOff(now + distances[step], step)


_set: Final = object.__setattr__


class Watched:
    """A thing that tells its index of every assignment to one of its `WATCHED` fields.

    `number` is its place in the order of appearance. A thing that no index keeps tells nobody.
    """

    __slots__ = ("number", "watch")
    WATCHED: ClassVar[frozenset[str]] = frozenset()
    number: int
    watch: Callable[[str], None] | None

    def __setattr__(self, name: str, value: object) -> None:
        _set(self, name, value)
        if name in self.WATCHED:
            watch = getattr(self, "watch", None)
            if watch is not None:
                watch(name)


@dataclass(frozen=True, slots=True)
class Basis:
    """How things were for its strategy when an order was held for a token."""

    at: datetime
    last: int | None
    phase: Phase
    shares: int


@dataclass(slots=True)
class TrackedIntent(Watched):
    """An intent and what became of its one POST. `order_state` counts until an order row exists.

    `known_ids` are the ids of every row seen before its bytes left: none of them can be its own.
    `burn` is what its nonce has shown, in words, `is_fenced` that it was unused; `doubt` is why
    nobody knows what became of it, told of at `alert_due`; its nonce is asked after again at
    `burn_due`.
    """

    WATCHED = frozenset({"state", "order_id", "poll"})

    intent: Intent
    state: SendState
    order_state: OrderState = OrderState.INITIALIZED
    order_id: str | None = None
    sent_at: datetime | None = None
    known_ids: Container[str] = frozenset()
    absent_reads: int = 0
    refusal_code: str = ""
    held_until: datetime | None = None
    basis: Basis | None = None
    taken_back: str = ""
    is_waiting_to_resume: bool = False
    poll: BackOff | None = None
    alert_due: datetime | None = None
    burn_due: datetime | None = None
    burn: str = ""
    is_fenced: bool = False
    doubt: str = ""

    @property
    def name(self) -> str:
        """What it is called in words."""
        return self.intent.intent_id

    @property
    def is_unresolved(self) -> bool:
        """True while its POST may have reached, or may still reach, the broker."""
        return self.state in UNRESOLVED_SENDS

    @property
    def reserves_in_full(self) -> bool:
        """True while its whole size must be counted as an open order."""
        return self.is_unresolved or self.state is SendState.READY


class AmendStage(StrEnum):
    """How far an amendment is: row being read, PUT sent, its effect looked for, over."""

    READING = "reading"
    SENT = "sent"
    CONFIRMING = "confirming"
    OVER = "over"


class AmendVerdict(StrEnum):
    """What became of an amendment; all but BLOCKED are read from a row.

    BLOCKED: not sent. REFUSED: the broker said no. NOT_DONE: it can no longer arrive. DIFFERS: the
    row shows neither the old value nor the new one. ENDED: the order was over before it.
    """

    DONE = "DONE"
    BLOCKED = "BLOCKED"
    REFUSED = "REFUSED"
    NOT_DONE = "NOT_DONE"
    DIFFERS = "DIFFERS"
    ENDED = "ENDED"


@dataclass(slots=True)
class TrackedAmend(Watched):
    """An amendment of one field, followed until a row shows what became of it.

    `old` is the value in the row that was read before the PUT. Rows asked for before `since` say
    nothing; `hopeless_at` is when the PUT can no longer arrive, None while its answer is awaited,
    `renamed_until` when the row of a new id can no longer be late. `keeps_id`: it is known under
    which id the order works on. `attempt_id` names its PUT, once something came of it.
    """

    WATCHED = frozenset({"stage"})

    ask: AmendAsked
    old: int
    due: datetime
    since: datetime
    stage: AmendStage = AmendStage.READING
    step: int = 0
    hopeless_at: datetime | None = None
    renamed_until: datetime | None = None
    is_refused: bool = False
    keeps_id: bool = False
    attempt_id: str = ""
    code: str = ""
    verdict: AmendVerdict | None = None
    text: str = ""

    @property
    def name(self) -> str:
        """The order that it changes, by the broker's id."""
        return self.ask.order_id

    @property
    def is_of_price(self) -> bool:
        """True for a new price, False for a new total quantity."""
        return self.ask.limit_price is not None

    @property
    def new(self) -> int:
        """The value that is asked for; an ask that got this far has exactly one."""
        return self.ask.limit_price or self.ask.quantity or 0


@dataclass(slots=True)
class TrackedOrder(Watched):
    """An order that the broker has given an id, ours or not.

    `requested_at` is the request start of the newest row merged, `look` when it is asked for by its
    id. `change` is an amendment whose PUT may take effect: until its verdict the order counts with
    the larger of both values. `also_open` are shares that work under another id of it.
    """

    WATCHED = frozenset({"row", "expires_at", "poll", "change", "also_open", "look"})

    row: OrderUpdated
    requested_at: datetime = BEGINNING
    may_cancel: bool | None = None
    expires_at: datetime | None = None
    poll: BackOff | None = None
    change: TrackedAmend | None = None
    also_open: int = 0
    look: BackOff | None = None
    shown: Shown = field(default_factory=Shown)

    @property
    def name(self) -> str:
        """What it is called in words: by our own id, where it is ours."""
        return self.row.intent_id or self.row.order_id

    @property
    def is_open(self) -> bool:
        """True until the order has ended."""
        return self.row.state not in TERMINAL_STATES

    @property
    def is_own(self) -> bool:
        """True for an order of this bot."""
        return self.row.intent_id is not None

    def may_be_renamed(self, asked_at: datetime) -> bool:
        """True while a PUT may have given it another id: its old row may show it cancelled."""
        change = self.change
        if change is None or change.is_refused or change.keeps_id:
            return False
        return change.renamed_until is None or asked_at < change.renamed_until

    @property
    def open_quantity(self) -> int:
        """Shares that may still trade."""
        quantity = self.row.quantity
        if self.change is not None and not self.change.is_of_price:
            quantity = max(quantity, self.change.old, self.change.new)
        open_here = max(0, quantity - self.row.executed_quantity)
        return open_here + self.also_open if self.is_open else 0

    @property
    def prices(self) -> tuple[int | None, ...]:
        """Every price at which it may work, the lowest first; None: at the market."""
        if self.change is None or not self.change.is_of_price or self.row.price is None:
            return (self.row.price,)
        return tuple(sorted({self.row.price, self.change.old, self.change.new}))


@dataclass(slots=True)
class Instance:
    """One instance of a strategy at its symbol. `bars_needed` is 0 once it has its history."""

    symbol: str
    strategy: Strategy
    context: Context
    woken_at: dict[str, datetime] = field(default_factory=dict)
    bars_needed: int = 0
    has_started: bool = False


@dataclass(slots=True)
class StrategyState:
    """A strategy with its instances, its switch and its counters of the day.

    `limits` are the tighter of its file's and the bot's; `refusals` the broker's, in a row;
    `repeats` the orders of today that were filled on a side of a symbol since it was last switched
    on; `days` what it has traded today; `recent_buys` what its last buys were worth; `refused_rows`
    the sides and codes of a limit's refusals that have rows, today and since a symbol's last order.
    """

    plan: StrategyPlan
    limits: Limits
    instances: dict[str, Instance]
    state: str = "on"
    state_by: str = ""
    state_reason: str = ""
    faults: int = 0
    refusals: int = 0
    refused_of_late: Recent = field(default_factory=lambda: Recent(OF_LATE))
    orders_today: int = 0
    realised_today: int = 0
    fees_today: int = 0
    refused_rows: dict[str, set[tuple[Side, str]]] = field(default_factory=dict)
    repeats: dict[tuple[str, Side], int] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    days: dict[str, DayTrade] = field(default_factory=dict)
    recent_buys: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_BUYS))

    def position(self, symbol: str) -> Position:
        """Return the own position in a symbol; an empty one, kept nowhere, when there is none."""
        return self.positions.get(symbol, Position())


@dataclass(slots=True)
class TrackedFault:
    """A kind of fault since the last resume, by its first one; one of before is told again."""

    at: datetime
    where: str
    fault: Fault
    count: int = 1
    is_of_before: bool = False


@dataclass(frozen=True, slots=True)
class HookCall:
    """A hook of an instance that is due; it is called when the event's state has settled.

    `round`: 1 for an event's own, 2 for one that came of those, and so on.
    """

    strategy: StrategyState
    instance: Instance
    hook: str
    argument: object | None
    round: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Money and shares that a fill moves: paid and given at once, received when it settles."""

    at: datetime
    account: str
    symbol: str
    cash_out: int
    cash_in: int
    shares_out: int
    shares_in: int
    settles_at: datetime


@dataclass(frozen=True, slots=True)
class WaitingClose:
    """A close that waits until sales may go out again."""

    strategy: str
    symbol: str
    request: Request
    why: str
    since: datetime
    due: datetime


@dataclass(slots=True)
class Reconciling:
    """What the comparison of journal and broker has found, and waits for.

    `breaks` are differences that nobody has accepted yet, `met` those whose order came later;
    `look_again_at`: orders and account are read once more; `closing_since`: the day has ended.
    """

    breaks: dict[str, Break] = field(default_factory=dict)
    next_number: int = 1
    met: set[str] = field(default_factory=set)
    look_again_at: datetime | None = None
    closing_since: datetime | None = None


@dataclass(slots=True)
class AccountLedger:
    """Our own numbers of one account: the broker's at the base, our fills since.

    `coming` are fills of before the base that settle after it; `doubts` are what reads have shown
    otherwise, by symbol (None: cash) and kind, since when: each waits for a read that agrees.
    `is_new`: the journal does not know yet that these numbers count.
    """

    base: AccountSnapshot
    flows: list[Flow] = field(default_factory=list)
    coming: list[Flow] = field(default_factory=list)
    doubts: dict[tuple[str | None, str], tuple[int, datetime]] = field(default_factory=dict)
    is_new: bool = False
