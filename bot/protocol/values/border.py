"""The broker's values that are not trading terms, frozen.

Money and prices are whole VND, quantities shares, instants UTC.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, TypeAlias

from pydantic import Field

from bot.domain.account import Holding
from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType, Side
from bot.protocol.fields import Named, NotNegative, Shares, Symbol, Text, Vnd, Whole
from bot.protocol.secret import Secret


@dataclass(frozen=True, slots=True)
class User:
    user_id: NotNegative


@dataclass(frozen=True, slots=True)
class MarketPhase:
    """The phase of an exchange and the order types that the broker lists for it.

    `stated` is the broker's own word. An unknown one counts as CLOSED, so that nothing is sent in
    an unknown phase. `available` is None if the broker lists nothing at all; unknown types are left
    out.
    """

    exchange: Exchange
    phase: Phase
    available: frozenset[OrderType] | None
    stated: str


@dataclass(frozen=True, slots=True)
class AvailableTrade:
    """What may be bought and sold at the requested price.

    `buying_power` (`pp0`) is VND and `sellable` (`trade`) shares; the broker's leveraged power and
    largest quantity are of uncertain meaning, and nothing may depend on them.
    """

    buying_power: Annotated[Whole, Field(alias="pp0")]
    sellable: Annotated[NotNegative, Field(alias="trade")]
    leveraged_power: Annotated[Vnd, Field(alias="ppse")] = 0
    quantity_max: Annotated[Shares, Field(alias="maxqtty")] = 0
    balance: Vnd = 0
    cash_pending: Annotated[Vnd, Field(alias="cash_pending_send")] = 0
    mortgage: Vnd = 0


@dataclass(frozen=True, slots=True)
class PortfolioRow:
    """Everything the broker reports about the shares of one symbol.

    `total` counts what is available, blocked or pledged, receiving, waiting in sell orders
    (`in_sell_orders`) and being withdrawn. `cost_price` is an average, rounded half up.
    `reference_price` is the day's reference, `close_price` the latest. The shares that a holding
    counts are never fewer than none: there is no short selling.
    """

    symbol: Symbol
    total: NotNegative
    available: NotNegative
    sub_account_id: Text = ""
    depository_number: Annotated[Text, Field(alias="custodycd")] = ""
    securities_type: Text = "STOCK"
    blocked: Whole = 0
    mortgage: Whole = 0
    depository_mortgage: Annotated[Whole, Field(alias="vsd_mortgage")] = 0
    restricted: Annotated[Whole, Field(alias="restrict")] = 0
    receiving_right: NotNegative = 0
    receiving_t0: NotNegative = 0
    receiving_t1: NotNegative = 0
    receiving_t2: NotNegative = 0
    sending_t0: Whole = 0
    sending_t1: Whole = 0
    sending_t2: Whole = 0
    in_sell_orders: Annotated[Whole, Field(alias="matching_amount")] = 0
    withdraw: Whole = 0
    cost_price: Vnd = 0
    reference_price: Annotated[Vnd, Field(alias="basic_price")] = 0
    close_price: Vnd = 0
    is_sellable: bool = True

    @property
    def holding(self) -> Holding:
        """The row as a domain value."""
        receiving = self.receiving_right + self.receiving_t0 + self.receiving_t1 + self.receiving_t2
        return Holding(self.symbol, self.total, self.available, receiving, self.cost_price)


@dataclass(frozen=True, slots=True)
class Portfolio:
    """The shares of one sub-account. `is_snapshot`: prices are not live and no basis
    for signals.
    """

    rows: Annotated[tuple[PortfolioRow, ...], Field(alias="portfolio")]
    is_snapshot: bool = False

    @property
    def holdings(self) -> Mapping[str, Holding]:
        """Symbol to holding."""
        return MappingProxyType({row.symbol: row.holding for row in self.rows})


@dataclass(frozen=True, slots=True)
class AccountSummary:
    """The money of one sub-account, in VND.

    `balance` is `cash` and term deposits; `secured` is held for today's buys; `receiving_t1` to
    `t3` is sale money due. For net assets the broker's assets summary is the better source: this
    one excludes sale money due. None: the broker omitted the field. The money that orders go by is
    whole, and may be owed.
    """

    cash: Annotated[Whole | None, Field(alias="ci_balance")] = None
    balance: Whole | None = None
    net_asset_value: Vnd | None = None
    withdrawable: Annotated[Vnd, Field(alias="baldefovd")] = 0
    term_deposit: Annotated[Whole, Field(alias="td_balance")] = 0
    securities: Annotated[Vnd, Field(alias="securities_amt")] = 0
    secured: Annotated[Whole | None, Field(alias="secure_amt")] = None
    receiving_t1: Vnd = 0
    receiving_t2: Vnd = 0
    receiving_t3: Vnd = 0
    receiving: Annotated[Vnd, Field(alias="receiving_amt")] = 0
    dividends_due: Annotated[Vnd, Field(alias="ca_receiving")] = 0
    debt: Annotated[Vnd, Field(alias="total_debt_amt")] = 0
    held: Annotated[Vnd, Field(alias="hold_balance")] = 0


@dataclass(frozen=True, slots=True)
class OtpTicket:
    """A one-time code is on its way. The ticket is valid for five minutes and three tries."""

    ticket_id: Named
    masked_destination: Text = ""


@dataclass(frozen=True, slots=True)
class TwoFactorToken:
    """What lets order writes through, opaque, until `expires_at` (wire time)."""

    token: Secret
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class OtpVerification:
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
    """The body of a modify: at least one of the two is given."""

    quantity: int | None
    limit_price: int | None


JsonValue: TypeAlias = (
    bool | int | str | Decimal | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
)
"""Any JSON value, parsed strictly: fractions are Decimals."""


@dataclass(frozen=True, slots=True)
class Unshaped:
    """The payload of a call of undocumented shape: only the envelope was checked.

    It is what the broker sent; do not modify it.
    """

    payload: JsonValue
