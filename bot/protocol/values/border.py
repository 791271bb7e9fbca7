"""What the broker says that is no word of trading: frozen values of this border.

Money and prices are whole VND, quantities shares, instants UTC.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

from bot.domain.account import Holding
from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType, Side
from bot.protocol.secret import Secret


@dataclass(frozen=True, slots=True)
class User:
    """The owner of the API key."""

    user_id: int


@dataclass(frozen=True, slots=True)
class MarketPhase:
    """The phase of an exchange and the order types that the broker lists for it.

    `stated` is the broker's own word. One that is none of ours counts as CLOSED: nothing is sent in
    a phase that we do not know. `available` is None when the broker lists nothing at all; types
    that we do not know are left out.
    """

    exchange: Exchange
    phase: Phase
    available: frozenset[OrderType] | None
    stated: str


@dataclass(frozen=True, slots=True)
class AvailableTrade:
    """What may be bought and sold at the price that was asked for.

    `buying_power` (`pp0`) is VND and `sellable` (`trade`) shares; the broker's leveraged power and
    largest quantity are of uncertain meaning, and nothing may depend on them.
    """

    buying_power: int
    sellable: int
    leveraged_power: int = 0
    quantity_max: int = 0
    balance: int = 0
    cash_pending: int = 0
    mortgage: int = 0


@dataclass(frozen=True, slots=True)
class PortfolioRow:
    """All that the broker says of the shares of one symbol.

    `total` counts what is available, blocked or pledged, receiving, waiting in sell orders
    (`in_sell_orders`) and being withdrawn. `cost_price` is an average, rounded half up.
    `reference_price` is the day's reference, `close_price` the latest.
    """

    symbol: str
    total: int
    available: int
    sub_account_id: str = ""
    depository_number: str = ""
    securities_type: str = "STOCK"
    blocked: int = 0
    mortgage: int = 0
    depository_mortgage: int = 0
    restricted: int = 0
    receiving_right: int = 0
    receiving_t0: int = 0
    receiving_t1: int = 0
    receiving_t2: int = 0
    sending_t0: int = 0
    sending_t1: int = 0
    sending_t2: int = 0
    in_sell_orders: int = 0
    withdraw: int = 0
    cost_price: int = 0
    reference_price: int = 0
    close_price: int = 0
    is_sellable: bool = True

    @property
    def holding(self) -> Holding:
        """The row in the words of trading."""
        receiving = self.receiving_right + self.receiving_t0 + self.receiving_t1 + self.receiving_t2
        return Holding(self.symbol, self.total, self.available, receiving, self.cost_price)


@dataclass(frozen=True, slots=True)
class Portfolio:
    """The shares of one sub-account. `is_snapshot`: prices are not live, no signals."""

    is_snapshot: bool
    rows: tuple[PortfolioRow, ...]

    @property
    def holdings(self) -> Mapping[str, Holding]:
        """Symbol to holding."""
        return MappingProxyType({row.symbol: row.holding for row in self.rows})


@dataclass(frozen=True, slots=True)
class AccountSummary:
    """The money of one sub-account, in VND.

    `balance` is `cash` and term deposits; `secured` is held for today's buys; `receiving_t1` to
    `t3` is sale money due. For net assets the broker's assets summary is the better source: this
    figure leaves sale money due out. None: the broker left it out, and nothing tells it.
    """

    cash: int | None
    balance: int | None
    net_asset_value: int | None
    withdrawable: int = 0
    term_deposit: int = 0
    securities: int = 0
    secured: int = 0
    receiving_t1: int = 0
    receiving_t2: int = 0
    receiving_t3: int = 0
    receiving: int = 0
    dividends_due: int = 0
    debt: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class OtpTicket:
    """A one-time code is on its way. The ticket lives five minutes and takes three tries."""

    ticket_id: str
    masked_destination: str


@dataclass(frozen=True, slots=True)
class TwoFactorToken:
    """What lets order writes through, opaque, until `expires_at` (wire time)."""

    token: Secret
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class OtpVerification:
    """A client's one-time code for a ticket."""

    ticket_id: str
    code: Secret


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """The body of a place, as the server reads it. `limit_price` is None unless the type is LO."""

    sub_account: str | None
    side: Side
    symbol: str
    quantity: int
    order_type: OrderType
    limit_price: int | None
    stock_type: str = "STOCK"


@dataclass(frozen=True, slots=True)
class AmendRequest:
    """The body of a modify: at least one of the two is there."""

    quantity: int | None
    limit_price: int | None


JsonValue: TypeAlias = (
    bool | int | str | Decimal | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
)
"""What JSON can say, read strictly: fractions are Decimals."""


@dataclass(frozen=True, slots=True)
class Unshaped:
    """The payload of a call whose shape no source shows: the envelope was checked, nothing else.

    It is what the broker sent, to be read and not to be changed.
    """

    payload: JsonValue
