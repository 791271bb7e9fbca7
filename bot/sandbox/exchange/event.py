"""What happened at the exchange: facts, in the order in which they happened."""

from datetime import datetime
from enum import StrEnum

from bot.domain.instrument import Exchange, Lot, Phase
from bot.domain.order import OrderType
from bot.sandbox.exchange.order import Refusal, fact


class CancelCause(StrEnum):
    """Why an open part was taken out before its time was over."""

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
    """An amendment or a cancel was not taken; the order is unchanged."""

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
    """`quantity` shares were open and are gone; the order has ended."""

    at: datetime
    order_id: str
    quantity: int
    cause: CancelCause


@fact
class OrderLapsed:
    """The order's time is over: its auction, its last LO phase or the day. `quantity` was open."""

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
    """An exchange entered a phase. What the phase before ended with came ahead of this."""

    at: datetime
    exchange: Exchange
    phase: Phase


@fact
class Uncrossed:
    """A call auction of one book ended; its trades follow. `price` is None when nothing met."""

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
