"""The engine's memory of each intent, order, amendment and cancel under way."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from bot.domain.entry import OrderUpdated
from bot.domain.instrument import Phase
from bot.domain.operations import AmendAsked
from bot.domain.order import (
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    Intent,
    OrderState,
    RowFigures,
    SendState,
    Side,
    UnreadRow,
)
from bot.engine.settings import LONG_AGO

_RESERVING: Final = UNRESOLVED_SENDS | {SendState.READY}


@dataclass(frozen=True, slots=True)
class BackOff:
    """When something is requested next, at growing intervals."""

    due: datetime
    step: int = 0

    def advanced(self, now: datetime, distances: Sequence[timedelta]) -> "BackOff":
        """Return the next, longer back-off; the last step repeats."""
        step = min(self.step + 1, len(distances) - 1)
        return BackOff(now + distances[step], step)


_set: Final = object.__setattr__


class Watched:
    """Notifies its index of every assignment to one of its `WATCHED` fields.

    `number` is its place in the order of appearance. Without an index it notifies nobody.
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
    """The market and signal of a strategy at the time an order was held for a token."""

    at: datetime
    last: int | None
    phase: Phase
    shares: int


@dataclass(slots=True)
class TrackedIntent(Watched):
    """An intent and what became of its one POST. `order_state` counts until an order row exists.

    `known_ids` are the ids of every row seen before its bytes left: none of them can be its own.
    `burn` is its nonce's result in words, `is_fenced`: it was unused; `doubt` is why its outcome is
    unknown, reported at `alert_due`; its nonce is tried again at `burn_due`. `may_be_anothers`: its
    row was found by its looks, and then its nonce was unused or a row was another's. `rows_told`:
    if its day is over, the ids of that day's other orders, as far as they are known, and of rows
    that a person was told of. `taken_by_hand`: a person, or a halt by a loss, has ended it on its
    way, with this code and reason, so it waits for no token.
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
    may_be_anothers: bool = False
    doubt: str = ""
    rows_told: frozenset[str] = frozenset()
    taken_by_hand: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """Its name in words."""
        return self.intent.intent_id

    @property
    def is_unresolved(self) -> bool:
        """True while its POST may have reached, or may still reach, the broker."""
        return self.state in UNRESOLVED_SENDS

    @property
    def reserves_in_full(self) -> bool:
        """True while its whole size must be counted as an open order."""
        return self.state in _RESERVING


class AmendStage(StrEnum):
    """The progress of an amendment: row being read, PUT sent, effect awaited, over."""

    READING = "reading"
    SENT = "sent"
    CONFIRMING = "confirming"
    OVER = "over"


class AmendVerdict(StrEnum):
    """The result of an amendment; all but BLOCKED are read from a row.

    BLOCKED: not sent. REFUSED: by the broker. NOT_DONE: it can no longer arrive. DIFFERS: the row
    shows neither the old value nor the new one. ENDED: the order had ended before.
    """

    DONE = "DONE"
    BLOCKED = "BLOCKED"
    REFUSED = "REFUSED"
    NOT_DONE = "NOT_DONE"
    DIFFERS = "DIFFERS"
    ENDED = "ENDED"


@dataclass(slots=True)
class TrackedAmend(Watched):
    """An amendment of one field, followed until a row shows its result.

    `old` is the value in the row that was read before the PUT. Rows requested before `since` do not
    count; from `hopeless_at` on the old value is the verdict, None while the answer is awaited,
    `renamed_until` when the row of a new id can no longer be late, `listed_at` when the newest day
    order book that would have shown one was requested, `unread_before` its rows before the PUT that
    could not be read: none is the new id's. `keeps_id`: its id is known from now on; `named`: by
    its answer. `attempt_id` names its PUT once that has a result; `code` says why `is_unanswered`.
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
    listed_at: datetime = LONG_AGO
    unread_before: tuple[UnreadRow, ...] = ()
    is_refused: bool = False
    keeps_id: bool = False
    named: str = ""
    is_unanswered: bool = False
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
        """The requested value; a request that got this far has exactly one."""
        return self.ask.limit_price or self.ask.quantity or 0


ROWS_REMEMBERED: Final = 20_000
"""Different rows of one order; most show five to ten in their life, one of 500,000 shares that
trades in lots of 100 at most some thousands.
"""


@dataclass(slots=True)
class Shown:
    """The memory by which rows of one order are judged.

    `totals` are the quantities that the order may have: what was ordered, and what our own
    amendments asked for. `doubt` says why its newest row is not accepted as its own, empty if it
    is: until a row matches it again nothing is bought in its symbol. `doubted` is the quantity in
    such a row, which a person may confirm, 0 for none. `another` says how the newest row of an
    external order is about another order, empty if it is not.

    `rows` are the different rows taken, oldest first, `taken_at` is when the newest came.
    `old_since` is since when every newer row goes back behind it; `back` is the first of those not
    seen before, with its request time; `at_work`: what the newest shows open though it had ended.

    `listed_at` is when the newest day order book with it was requested, or the first without it;
    `is_missing`: this is long ago. `absent_looks` counts how often in a row its id was not known.
    `lives`: it had ended here and continues under a new id, so no row of it goes back.
    `is_corrected`: its rows go back, and a second look has confirmed it. `has_ended`: its newest
    row shows its end, which is only that of its known ids while it may have got another one.
    `awaited`: the shares that its place's answer shows as traded, until a row shows them.
    """

    totals: set[int] = field(default_factory=set)
    doubt: str = ""
    doubted: int = 0
    another: str = ""
    rows: dict[RowFigures, None] = field(default_factory=dict)
    taken_at: datetime | None = None
    old_since: datetime | None = None
    back: tuple[RowFigures, datetime] | None = None
    at_work: int = 0
    listed_at: datetime | None = None
    is_missing: bool = False
    absent_looks: int = 0
    lives: bool = False
    is_corrected: bool = False
    has_ended: bool = False
    awaited: int = 0

    def go_on(self, now: datetime) -> None:
        """A row continues from what the earlier ones have shown."""
        self.taken_at, self.old_since, self.back, self.is_corrected = now, None, None, False

    def correct(self, figures: RowFigures) -> None:
        """A second look has confirmed a row that goes back: it is no news from now on."""
        self.back, self.is_corrected = None, True
        self.remember(figures)

    def remember(self, figures: RowFigures) -> None:
        """Remember the contents of a taken row; of too many the oldest is dropped."""
        self.rows.setdefault(figures)
        if len(self.rows) > ROWS_REMEMBERED:
            del self.rows[next(iter(self.rows))]


@dataclass(slots=True)
class TrackedOrder(Watched):
    """An order with a broker id, ours or not.

    `requested_at` is the request time of the newest merged row, `look` when it is read by its id.
    `change` is an amendment whose PUT may take effect: until its verdict the order counts with the
    larger of both values. `also_open` are shares working under another id of it. `asked` are the
    prices that we gave it, normally one, none for an external order: a row may show another one,
    and then it counts at both.
    """

    WATCHED = frozenset({"row", "expires_at", "poll", "change", "also_open", "look", "asked"})

    row: OrderUpdated
    requested_at: datetime = LONG_AGO
    may_cancel: bool | None = None
    expires_at: datetime | None = None
    poll: BackOff | None = None
    change: TrackedAmend | None = None
    asked: tuple[int, ...] = ()
    also_open: int = 0
    look: BackOff | None = None
    shown: Shown = field(default_factory=Shown)

    @property
    def name(self) -> str:
        """Its name in words, with our own id if it is ours."""
        return self.row.intent_id or self.row.order_id

    @property
    def is_open(self) -> bool:
        """True until the order has ended."""
        return self.row.state not in TERMINAL_STATES

    @property
    def is_own(self) -> bool:
        """True for an order of this bot."""
        return self.row.intent_id is not None

    @property
    def may_be_renamed(self) -> bool:
        """True while a PUT may have given it another id, which only the day order book can show:
        its old row may show it as cancelled.
        """
        change = self.change
        if change is None or change.is_refused or change.keeps_id:
            return False
        until = change.renamed_until
        return until is None or change.listed_at < until

    @property
    def may_be_elsewhere(self) -> bool:
        """True if it works under an id that no day order book has shown, or not at all."""
        return self.shown.has_ended and self.may_be_renamed and not self.also_open

    def holds_sales(self, now: datetime) -> bool:
        """Return whether nothing else of its symbol is sold meanwhile: a buy that may be elsewhere
        holds nothing back once its new id should have been listed.
        """
        until = self.change.renamed_until if self.change is not None else None
        is_overdue = self.may_be_elsewhere and until is not None and now >= until
        return not (is_overdue and self.row.side is Side.BUY)

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
        """Every price at which it may work, lowest first; None: at the market."""
        price, change = self.row.price, self.change
        if price is None:
            return (None,)
        if change is not None and change.is_of_price:
            return tuple(sorted({price, change.old, change.new, *self.asked}))
        if self.asked in ((), (price,)):
            return (price,)
        return tuple(sorted({price, *self.asked}))

    @property
    def prices_given(self) -> tuple[int | None, ...]:
        """Every price that it may have from us, whatever a row shows; None: at the market."""
        change = self.change
        given = (change.new,) if change is not None and change.is_of_price else ()
        return (*self.asked, *given) if self.asked else (self.row.price,)

    @property
    def has_strange_price(self) -> bool:
        """True if its newest row shows a price that nobody asked for here."""
        return self.is_open and self.is_own and self.row.price not in self.prices_given


class CancelStage(StrEnum):
    """The progress of a cancel: wanted, row being read, DELETE sent, end awaited."""

    WANTED = "wanted"
    READING = "reading"
    SENT = "sent"
    CONFIRMING = "confirming"


class Hindrance(StrEnum):
    """Why an order to be cancelled is still open, as far as known."""

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

    `since` is when it was requested, or when a rule stopped holding it back. `tries` counts the
    DELETEs that reached the broker; `waits` what only lengthens the interval since the last of
    them: a read, a DELETE not sent. `detail` is the refusal's text. `is_knowing`: the order was in
    doubt when it was requested, so by a person or a halt.
    """

    order_id: str
    reason: str
    since: datetime
    due: datetime
    is_knowing: bool = False
    stage: CancelStage = CancelStage.WANTED
    tries: int = 0
    waits: int = 0
    looked_at: datetime = LONG_AGO
    sent_at: datetime = LONG_AGO
    queued_until: datetime | None = None
    hindrance: Hindrance | None = None
    detail: str = ""
