"""The unified quotes of the eight kinds, each as a value, and an index in real time.

Prices are full units of `currency`, with no multiplier: VND for what is listed here. They are
Decimals, as the kinds include foreign shares, rates and coins. `change` is against `reference`, in
the unit of the price; `change_percent` and yields are percent (0.44 is 0.44 %). Volumes of listed
kinds are whole units. Values that are not published yet, or do not exist, are None.
Source: broker open API 0.2.0-preview.3, unified quotes.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from bot.protocol.fields import (
    Count,
    CountOrNone,
    Day,
    DayOrNone,
    Named,
    Number,
    NumberOrNone,
    SharesOrNone,
    StampOrNone,
    Symbol,
    Text,
    UnixMs,
    VndOrNone,
)

# ---------------------------------------------------------------------------------- catalogues


@dataclass(frozen=True, slots=True)
class CatalogueItem:
    """A stock, index, currency pair or coin. The exchange is in the quote."""

    symbol: Symbol
    name: Text = ""


@dataclass(frozen=True, slots=True)
class CommodityItem(CatalogueItem):
    """A commodity; `unit` is what its price is for, in the broker's words."""

    unit: Text = ""


@dataclass(frozen=True, slots=True)
class FundItem(CatalogueItem):
    """An open-end fund. `type` and `valuation_frequency` are the broker's words."""

    fund_company: Text = ""
    type: Text = ""
    valuation_frequency: Text = ""


@dataclass(frozen=True, slots=True)
class BondItem(CatalogueItem):
    """A bond. `type` is corporate or government; `coupon_rate` percent a year, paid
    `coupon_frequency` times.
    """

    issuer: Text = ""
    type: Text = ""
    face_value: NumberOrNone = None
    coupon_rate: NumberOrNone = None
    coupon_frequency: Count | None = None
    issue_date: DayOrNone = None
    maturity_date: DayOrNone = None


@dataclass(frozen=True, slots=True)
class EtfItem(CatalogueItem):
    """An exchange-traded fund and the index that it follows."""

    fund_company: Text = ""
    underlying_index: Text = ""


# -------------------------------------------------------------------------------------- quotes


@dataclass(frozen=True, slots=True)
class ListedQuote:
    """The quote of a stock or an ETF, foreign stocks included: those have no ceiling and floor.

    Trading reads the same answer with `decode_quote`, which takes nothing but our exchanges and
    whole VND.
    """

    symbol: Symbol
    price: Number
    name: Text = ""
    exchange: Text = ""
    currency: Text = ""
    open: NumberOrNone = None
    high: NumberOrNone = None
    low: NumberOrNone = None
    reference: NumberOrNone = None
    ceiling: NumberOrNone = None
    floor: NumberOrNone = None
    change: NumberOrNone = None
    change_percent: NumberOrNone = None
    volume: SharesOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class IndexQuote:
    """The value of an index, in points; `volume` is shares."""

    symbol: Symbol
    value: Number
    name: Text = ""
    open: NumberOrNone = None
    high: NumberOrNone = None
    low: NumberOrNone = None
    reference: NumberOrNone = None
    change: NumberOrNone = None
    change_percent: NumberOrNone = None
    volume: SharesOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class TwoWay:
    bid: NumberOrNone = None
    ask: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class ForexQuote:
    """A currency pair. Only USDVND has a real spread; there is never a volume."""

    symbol: Symbol
    bid: Number
    ask: Number
    name: Text = ""
    open: TwoWay | None = None
    high: TwoWay | None = None
    low: TwoWay | None = None
    reference: TwoWay | None = None
    change: TwoWay | None = None
    change_percent: TwoWay | None = None
    volume: NumberOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class AssetQuote:
    """The quote of a coin or a commodity; its volume may be fractional."""

    symbol: Symbol
    price: Number
    name: Text = ""
    currency: Text = ""
    open: NumberOrNone = None
    high: NumberOrNone = None
    low: NumberOrNone = None
    reference: NumberOrNone = None
    change: NumberOrNone = None
    change_percent: NumberOrNone = None
    volume: NumberOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class FundQuote:
    """The net asset value of one unit of a fund on `nav_date`; `total_nav` is the whole fund's."""

    symbol: Symbol
    nav: Number
    nav_date: Day
    name: Text = ""
    currency: Text = ""
    reference: NumberOrNone = None
    change: NumberOrNone = None
    change_percent: NumberOrNone = None
    total_nav: NumberOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class BondQuote:
    """The quote of a bond. VN10Y, US10Y, JP10Y and DE10Y have a yield (percent) and no price."""

    symbol: Symbol
    name: Text = ""
    exchange: Text = ""
    currency: Text | None = None
    price: NumberOrNone = None
    open: NumberOrNone = None
    high: NumberOrNone = None
    low: NumberOrNone = None
    reference: NumberOrNone = None
    change: NumberOrNone = None
    change_percent: NumberOrNone = None
    yield_percent: Annotated[NumberOrNone, Field(alias="yield")] = None
    volume: SharesOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class IndexNow:
    """An index, the counts of its stocks, and its day so far.

    `values`, `volumes` and `times` belong together by position; so do, for indices of the KRX
    system alone, the series of counts. `phase` is the broker's word for the exchange's phase.
    Values, changes and references are points. Field names by the broker's public command-line
    client.
    """

    index: Named
    value: Annotated[NumberOrNone, Field(alias="indexValue")] = None
    name: Text = ""
    change: NumberOrNone = None
    change_percent: Annotated[NumberOrNone, Field(alias="changePercent")] = None
    reference: NumberOrNone = None
    quantity: Annotated[SharesOrNone, Field(alias="allQuantity")] = None
    amount: Annotated[VndOrNone, Field(alias="allValue")] = None
    advances: CountOrNone = None
    declines: CountOrNone = None
    unchanged: Annotated[CountOrNone, Field(alias="nochanges")] = None
    ceiling: CountOrNone = None
    floor: CountOrNone = None
    values: tuple[Number, ...] = ()
    volumes: tuple[Number, ...] = ()
    times: tuple[UnixMs, ...] = ()
    advances_series: Annotated[tuple[Count, ...], Field(alias="advancesArr")] = ()
    declines_series: Annotated[tuple[Count, ...], Field(alias="declinesArr")] = ()
    unchanged_series: Annotated[tuple[Count, ...], Field(alias="nochangesArr")] = ()
    ceiling_series: Annotated[tuple[Count, ...], Field(alias="ceilings")] = ()
    floor_series: Annotated[tuple[Count, ...], Field(alias="floors")] = ()
    phase: Annotated[Text, Field(alias="sessionInExchange")] = ""


# --------------------------------------------------------------------------- commodity dealers


@dataclass(frozen=True, slots=True)
class DealerItem:
    code: Text
    name: Text = ""
    dealer: Text = ""


@dataclass(frozen=True, slots=True)
class DealerQuote:
    """What a dealer pays (`buy`) and asks (`sell`) for a product, in `currency`."""

    code: Text
    symbol: Text = ""
    name: Text = ""
    dealer: Text = ""
    currency: Text = ""
    buy: NumberOrNone = None
    sell: NumberOrNone = None
    updated_at: StampOrNone = None
