"""The vocabulary of the whole machine: events go into the engine, commands come out.

    quote ─► QuoteReceived ─► Engine.handle ─► Record(Decision), Record(IntentRecorded), PlaceOrder
    answer ─► PlaceAnswered ─► Engine.handle ─► Record(Transition), ReadTodaysOrders
    day order book ─► TodaysOrdersRead ─► Engine.handle ─► Record(Fill), … ─► Strategy.on_fill

Events, the first part, are facts in the past tense and carry `at` (market time, UTC), the only time
that the engine knows; those about running the bot are in `domain/operations.py`. Commands are
imperatives. Both are frozen, and nothing else goes into or out of the engine.
"""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from bot.domain.account import AccountSnapshot, ShareholderRight
from bot.domain.entry import AttemptFinished, Entry
from bot.domain.errors import Fault
from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.operations import OperationsEvent
from bot.domain.order import Intent, OrderReport, OrderType, UnreadRow
from bot.domain.outcome import Outcome, Resolution
from bot.domain.quote import Bar, BarsRead, ClosesRead, Depth, KeepBar, KeepExDate, Quote, ReadBars
from bot.domain.recovery import Recovery


@dataclass(frozen=True, slots=True)
class Recovered:
    """The journal has been read and the engine continues from it. First event of every run."""

    at: datetime
    recovery: Recovery


@dataclass(frozen=True, slots=True)
class InstrumentsRead:
    """The exchange of each symbol today, as the broker lists it."""

    at: datetime
    instruments: tuple[Instrument, ...]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Order history, day order book and account of a day are read and merged; trading may begin."""

    at: datetime


@dataclass(frozen=True, slots=True)
class QuoteReceived:
    """A quote was polled; `at` is when it was requested, `answered_at` when it arrived."""

    at: datetime
    quote: Quote
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DepthReceived:
    """A depth was polled; times as in `QuoteReceived`."""

    at: datetime
    depth: Depth
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BarClosed:
    """A whole bar of a history (live ones are built from quotes). `warm_up`: it wakes nobody."""

    at: datetime
    bar: Bar
    warm_up: bool = False


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The phase of an exchange, and the order types the broker lists for it (None: not asked)."""

    at: datetime
    exchange: Exchange
    phase: Phase
    available: frozenset[OrderType] | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A time of day that a strategy asked for (local to the exchange) has come."""

    at: datetime
    strategy: str
    timer: time


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed and nothing else happened: the engine looks at its deadlines."""

    at: datetime


@dataclass(frozen=True, slots=True)
class TradingDayStarted:
    """A new trading date begins; nothing is sent before it is `Reconciled`."""

    at: datetime
    trading_date: date


@dataclass(frozen=True, slots=True)
class AccountRead:
    """The broker's cash and holdings; once a day also the `rights`."""

    at: datetime
    snapshot: AccountSnapshot
    rights: tuple[ShareholderRight, ...] | None = None


@dataclass(frozen=True, slots=True)
class TodaysOrdersRead:
    """The day order book requested at `requested_at`, complete except for rows `set_aside`."""

    at: datetime
    account: str
    reports: tuple[OrderReport, ...]
    requested_at: datetime
    set_aside: tuple[UnreadRow, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderRead:
    """The row of one order, read by id. None: not known (yet), or `is_unreadable`."""

    at: datetime
    order_id: str
    report: OrderReport | None
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class SendStarted:
    """The attempt of an intent is committed and its bytes are leaving."""

    at: datetime
    intent_id: str


@dataclass(frozen=True, slots=True)
class PlaceAnswered:
    """The one POST of an intent has its outcome. `finished` None: no attempt was made."""

    at: datetime
    intent_id: str
    outcome: Outcome
    finished: AttemptFinished | None


@dataclass(frozen=True, slots=True)
class CancelAnswered:
    """A DELETE was answered. The verdict comes from a row, never from this answer."""

    at: datetime
    order_id: str
    outcome: Outcome
    finished: AttemptFinished | None


@dataclass(frozen=True, slots=True)
class AmendAnswered:
    """A PUT was answered. The verdict comes from the detail row. `asked_at`: as in the command."""

    at: datetime
    order_id: str
    outcome: Outcome
    finished: AttemptFinished | None
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NonceBurnt:
    """The nonce of a POST (or of a PUT, by its attempt's id) was tried with harmless reads, and
    proved unused or reached, or the test was given up.
    """

    at: datetime
    intent_id: str
    resolution: Resolution
    detail: str
    is_proved: bool = True


@dataclass(frozen=True, slots=True)
class TwoFactorReady:
    """A token is available. `until` is its end in wire time, `ends_at` in market time."""

    at: datetime
    until: datetime
    by: str
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TwoFactorMissing:
    """There is no usable token (never had one, or it ended). `is_needed`: a write was held back for
    lack of one.
    """

    at: datetime
    code: str
    detail: str
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class BrokerHealthChanged:
    """Reads fail or work again; `detail` says which and why."""

    at: datetime
    is_healthy: bool
    detail: str


@dataclass(frozen=True, slots=True)
class JournalHealthChanged(BrokerHealthChanged):
    """The journal is out of reach or answers again; `detail` says why, or how long it was away."""


@dataclass(frozen=True, slots=True)
class ReadHealthChanged(BrokerHealthChanged):
    """One kind of read, in words like `the quote`, keeps failing or works again; `about` is its
    symbol or exchange, empty if it has none. `is_resting`: it is not asked for any more.
    """

    kind: str
    about: str
    is_resting: bool = False


@dataclass(frozen=True, slots=True)
class ClockOffsetChanged:
    """The broker's time minus ours has become worth a warning, large enough to stop orders, or fine
    again.
    """

    at: datetime
    offset: timedelta


@dataclass(frozen=True, slots=True)
class FaultFound:
    """Something outside the engine raised; `where` names it. Entries are halted."""

    at: datetime
    where: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Noted:
    """A shell has something to journal and show that affects no decision."""

    at: datetime
    entry: Entry


Seen = QuoteReceived | DepthReceived | ClosesRead | BarClosed | BarsRead | PhaseChanged
Answered = SendStarted | PlaceAnswered | CancelAnswered | AmendAnswered | NonceBurnt
Event = (
    Recovered
    | InstrumentsRead
    | Reconciled
    | TimerFired
    | TimePassed
    | TradingDayStarted
    | AccountRead
    | TodaysOrdersRead
    | OrderRead
    | TwoFactorReady
    | TwoFactorMissing
    | BrokerHealthChanged
    | JournalHealthChanged
    | ReadHealthChanged
    | ClockOffsetChanged
    | FaultFound
    | Noted
    | Seen
    | Answered
    | OperationsEvent
)

# ----------------------------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class Record:
    """Journal this. All records of one event share one transaction, committed before other
    commands.
    """

    entry: Entry


@dataclass(frozen=True, slots=True)
class PlaceOrder:
    """Send the intent's one POST."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class CancelOrder:
    """Send a DELETE for the unmatched part. The engine has checked in its row that it may be
    cancelled.
    """

    order_id: str
    intent_id: str
    account: str
    reason: str


@dataclass(frozen=True, slots=True)
class AmendOrder:
    """Send a PUT that changes exactly one field; the other is None. `asked_at` marks its answer."""

    order_id: str
    intent_id: str
    account: str
    limit_price: int | None
    quantity: int | None
    reason: str
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BurnNonce:
    """Sign a harmless read with the nonce of an unknown POST, or of a PUT by its attempt's id."""

    intent_id: str


@dataclass(frozen=True, slots=True)
class ReadTodaysOrders:
    """Poll the day order book."""

    why: str


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """Poll one order's detail row."""

    order_id: str
    why: str


@dataclass(frozen=True, slots=True)
class ReadOrderToCancel(ReadOrder):
    """Poll one order's detail row at once: a cancel is waiting for it."""


@dataclass(frozen=True, slots=True)
class ReadAccount:
    """Poll cash and holdings; for a second look at a difference the corporate actions, too."""

    why: str
    is_second_look: bool = False


@dataclass(frozen=True, slots=True)
class DropToken:
    """Forget the 2FA token, which the broker refused at that time; not one that came after it."""

    code: str
    refused_at: datetime


@dataclass(frozen=True, slots=True)
class StopRunning:
    """Everything that had to be settled is settled; the shell may end."""

    reason: str


Command = (
    Record
    | PlaceOrder
    | CancelOrder
    | AmendOrder
    | BurnNonce
    | ReadTodaysOrders
    | ReadOrder
    | ReadAccount
    | ReadBars
    | KeepBar
    | KeepExDate
    | DropToken
    | StopRunning
)
