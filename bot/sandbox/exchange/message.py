"""The exchange's messages: the orders and listings it takes, its refusals, and its events, in the
order in which they happened.

Order types are the exchange's own (MTL, MAK, MOK): the broker's gateway translates MP, FAK and FOK
before it submits.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Final, TypeVar, dataclass_transform

from bot.domain.instrument import Exchange, Instrument, Lot, Phase
from bot.domain.order import OrderType, Side
from bot.domain.venue import Band

Kind = TypeVar("Kind")
CROWD: Final = ""
"""Owner of the simulated market's orders: many investors, so rules on a single one do not apply."""


@dataclass_transform(frozen_default=True)
def fact(kind: type[Kind]) -> type[Kind]:
    """Make a value class that type checkers treat as frozen and that is quick to create.

    A frozen dataclass sets each field through `object.__setattr__`, which takes three to seven
    times as long: too long for objects created with every order.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)


@dataclass(frozen=True, slots=True)
class Listing:
    """An instrument as it starts a day: its reference, and whether the wide band applies.

    The instrument's status says how it trades: by which timetable, with which band, or not at all;
    the two flags add what no code says. `is_first_day` is the first trading day and the day trading
    resumes: no odd lots until a round-lot price exists. `band` None: the rulebook's.

    A covered warrant names its `underlying` and `ratio`, how many warrants buy one share: its band
    follows the share's while that is listed too; else it must have its own band.
    """

    instrument: Instrument
    reference: int
    is_special: bool = False
    is_first_day: bool = False
    band: Band | None = None
    underlying: str | None = None
    ratio: Fraction | None = None


@fact
class NewOrder:
    """An order as it arrives. `price` is None for types without one.

    `order_id` is the caller's and never used twice; `owner` is a sub-account or CROWD.
    """

    order_id: str
    owner: str
    symbol: str
    side: Side
    quantity: int
    order_type: OrderType
    price: int | None


@dataclass(frozen=True, slots=True)
class LiveOrder:
    """A working order. `quantity` is its total, `remaining` its open part.

    `order_type` is LO and `price` is set once an MTL remainder rests; a PLO shows the day's close.
    """

    order_id: str
    owner: str
    symbol: str
    side: Side
    order_type: OrderType
    price: int | None
    quantity: int
    remaining: int
    lot: Lot


class Refusal(StrEnum):
    """Why the exchange or the account refuses an order, amendment or cancel.

    Members up to SELLABLE are in the order in which a new order is checked; the first that fails is
    the answer.
    """

    UNKNOWN_SYMBOL = "UNKNOWN_SYMBOL"
    NOT_TRADING = "NOT_TRADING"
    HALTED = "HALTED"
    ORDER_TYPE = "ORDER_TYPE"
    NO_CLOSE = "NO_CLOSE"
    QUANTITY = "QUANTITY"
    TOO_LARGE = "TOO_LARGE"
    ODD_LOT_BAN = "ODD_LOT_BAN"
    PRICE_MISSING = "PRICE_MISSING"
    PRICE_UNWANTED = "PRICE_UNWANTED"
    OFF_TICK = "OFF_TICK"
    OUTSIDE_BAND = "OUTSIDE_BAND"
    OPPOSITE_ORDER = "OPPOSITE_ORDER"
    BUYING_POWER = "BUYING_POWER"
    SELLABLE = "SELLABLE"

    NOT_OPEN = "NOT_OPEN"
    CHANGE_NOT_NOW = "CHANGE_NOT_NOW"
    TWO_FIELDS = "TWO_FIELDS"
    NOTHING_CHANGED = "NOTHING_CHANGED"
    BELOW_EXECUTED = "BELOW_EXECUTED"
    LOT_CHANGED = "LOT_CHANGED"


class CancelCause(StrEnum):
    """Why an open part was removed early."""

    REQUESTED = "REQUESTED"
    NO_OPPOSITE = "NO_OPPOSITE"
    REMAINDER_KILLED = "REMAINDER_KILLED"
    NOT_WHOLE = "NOT_WHOLE"


@fact
class OrderAccepted:
    """The order is in; its trades, if any, follow."""

    at: datetime
    order_id: str


@fact
class OrderRefused:
    at: datetime
    order_id: str
    reason: Refusal


@fact
class ChangeRefused:
    """An amendment or a cancel was refused; the order is unchanged."""

    at: datetime
    order_id: str
    reason: Refusal


@fact
class Traded:
    """Two orders met. `is_auction` also for the after-hours batch."""

    at: datetime
    symbol: str
    lot: Lot
    price: int
    quantity: int
    buy_order_id: str
    sell_order_id: str
    is_auction: bool


@fact
class OrderCancelled:
    """`quantity` open shares were removed; the order has ended."""

    at: datetime
    order_id: str
    quantity: int
    cause: CancelCause


@fact
class OrderLapsed:
    """The order expired with its auction, its last LO phase or the day. `quantity` was open."""

    at: datetime
    order_id: str
    quantity: int


@fact
class OrderRepriced:
    """The remainder of an MTL order rests from now on as an LO at `price`."""

    at: datetime
    order_id: str
    price: int
    order_type: OrderType = OrderType.LO


@fact
class OrderAmended:
    """The order's price and total quantity from now on; trades at the new price, if any, follow."""

    at: datetime
    order_id: str
    price: int
    quantity: int
    remaining: int


@fact
class PhaseMoved:
    """An exchange entered a phase. Events that ended the previous phase come before this."""

    at: datetime
    exchange: Exchange
    phase: Phase


@fact
class Uncrossed:
    """A call auction of one book ended; its trades follow. `price` is None if nothing traded."""

    at: datetime
    symbol: str
    lot: Lot
    price: int | None
    volume: int


VenueEvent = (
    OrderAccepted
    | OrderRefused
    | ChangeRefused
    | Traded
    | OrderCancelled
    | OrderLapsed
    | OrderRepriced
    | OrderAmended
    | PhaseMoved
    | Uncrossed
)
