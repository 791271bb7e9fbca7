"""The screener, and statistics of one stock: who owns it, who traded it, its indicators.

Amounts and values are VND, volumes shares, every `…_pct` and `…_percent` percent (0 to 100, not a
fraction). Prices are whole VND, but for `Technicals`, whose closes are thousands of VND. Histories
come newest first and stay so. Source: broker open API 0.2.0-preview.3, screener and per-stock
statistics.
"""

from dataclasses import dataclass, field
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from bot.protocol.fields import (
    CountOrNone,
    Day,
    DayOrNone,
    Number,
    NumberOrNone,
    Numbers,
    SharesOrNone,
    StampOrNone,
    Symbol,
    Text,
    VndOrNone,
    Word,
)
from bot.protocol.shaped import SPARSE, Rest

T = TypeVar("T")

_OfDay = Annotated[Day, Field(alias="date")]
_MaybeDay = Annotated[DayOrNone, Field(alias="date")]
_From = Annotated[DayOrNone, Field(alias="from")]
_To = Annotated[DayOrNone, Field(alias="to")]

# ------------------------------------------------------------------------------------ screener


@dataclass(frozen=True, slots=True)
class SectorName:
    """A sector; `slug` is what the screener's filter takes."""

    slug: Text
    name: Text = ""


@dataclass(frozen=True, slots=True)
class ScreenedStock:
    """One stock of the screener: the fields that were chosen, and those sorted or filtered by.

    None: not known, or not requested. `price` and `market_cap` are VND, `eps` VND a share; `ma50`
    and `ma200` are VND with fractions.
    """

    symbol: Text = ""
    exchange: Text = ""
    name: Text = ""
    sector: SectorName | None = None
    price: VndOrNone = None
    change_percent: NumberOrNone = None
    market_cap: VndOrNone = None
    shares_outstanding: SharesOrNone = None
    pe: NumberOrNone = None
    pb: NumberOrNone = None
    eps: NumberOrNone = None
    volume: SharesOrNone = None
    value: VndOrNone = None
    ma50: NumberOrNone = None
    ma200: NumberOrNone = None
    foreign_net_value: VndOrNone = None
    foreign_net_volume: SharesOrNone = None
    foreign_buy_value: VndOrNone = None
    foreign_sell_value: VndOrNone = None
    foreign_room_available: SharesOrNone = None
    foreign_room_available_pct: NumberOrNone = None
    proprietary_net_value: VndOrNone = None
    proprietary_net_volume: SharesOrNone = None
    proprietary_buy_value: VndOrNone = None
    proprietary_sell_value: VndOrNone = None


@dataclass(frozen=True, slots=True)
class Screen:
    """A page of the screener: of a window up to now, or of the closed trading day `day`."""

    items: tuple[ScreenedStock, ...] = ()
    total: CountOrNone = None
    page: CountOrNone = None
    page_size: CountOrNone = None
    window: Text | None = None
    day: _MaybeDay = None
    updated_at: StampOrNone = None


# ----------------------------------------------------------------------------- who and how many


@dataclass(frozen=True, slots=True)
class SectorStep:
    """A sector of the classification; level 1 is the widest."""

    slug: Text
    name: Text = ""
    level: CountOrNone = None


@dataclass(frozen=True, slots=True)
class Profile:
    symbol: Symbol
    name_vn: Text = ""
    name_en: Text | None = None
    sector: tuple[SectorStep, ...] = ()
    about: Text | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Where and since when the stock is listed, and its share counts; the reference price of the
    first day is VND.
    """

    symbol: Symbol
    exchange: Text = ""
    listing_date: DayOrNone = None
    listing_reference_price: VndOrNone = None
    listed_shares: SharesOrNone = None
    outstanding_shares: SharesOrNone = None
    treasury_shares: SharesOrNone = None
    free_float: SharesOrNone = None
    free_float_pct: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class Stake:
    """Shares of one group of owners, and their part of all shares."""

    volume: SharesOrNone = None
    pct: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class OwnershipStructure:
    state: Stake | None = None
    foreign: Stake | None = None
    other: Stake | None = None


@dataclass(frozen=True, slots=True)
class Shareholder:
    name: Text
    type: Text = ""
    volume: SharesOrNone = None
    pct: NumberOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class RoomLimit:
    """How much foreigners may hold, and how much of that is free."""

    max_pct: NumberOrNone = None
    max_volume: SharesOrNone = None
    available: SharesOrNone = None


@dataclass(frozen=True, slots=True)
class Ownership:
    symbol: Symbol
    structure: OwnershipStructure | None = None
    major_shareholders: tuple[Shareholder, ...] = ()
    foreign_room: RoomLimit | None = None


@dataclass(frozen=True, slots=True)
class ForeignRoom:
    """The foreign room of a day: owned and available are together the maximum."""

    symbol: Symbol
    day: _OfDay
    max_pct: NumberOrNone = None
    max_volume: SharesOrNone = None
    owned: SharesOrNone = None
    available: SharesOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class ForeignRoomDay:
    day: _OfDay
    max_pct: NumberOrNone = None
    max_volume: SharesOrNone = None
    owned: SharesOrNone = None
    available: SharesOrNone = None


@dataclass(frozen=True, slots=True)
class ForeignRoomHistory:
    items: tuple[ForeignRoomDay, ...] = ()
    symbol: Word = ""
    total: CountOrNone = None
    page: CountOrNone = None
    page_size: CountOrNone = None
    resolution: Text = ""
    start: _From = None
    end: _To = None
    updated_at: StampOrNone = None


# ---------------------------------------------------------------------------------- technicals


@dataclass(frozen=True, slots=True)
class Close:
    """A closing price in **thousands of VND**: 25.5 is 25,500 VND."""

    day: _OfDay
    close: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class IndicatorPoint:
    """An indicator on one day, by line: `value`, or `macd_line` and so on. Lines that follow a
    price are thousands of VND. `direction` (UP, DOWN) is that of SUPERTREND and PSAR.
    """

    day: _OfDay
    direction: Text | None = None
    lines: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Indicator:
    """The points of one indicator; none, and a `note`, if there are too few trading days."""

    indicator: Text
    params: tuple[Number, ...] = ()
    display_name: Text = ""
    points: Annotated[
        tuple[Annotated[IndicatorPoint, SPARSE, Rest("lines")], ...], Field(alias="data")
    ] = ()
    note: Text | None = None


@dataclass(frozen=True, slots=True)
class Technicals:
    """Closing prices and indicators, in thousands of VND."""

    symbol: Symbol
    prices: tuple[Close, ...] = ()
    indicators: tuple[Indicator, ...] = ()
    resolution: Text = ""
    start: _From = None
    end: _To = None


# ------------------------------------------------------------------------------------- trading


@dataclass(frozen=True, slots=True)
class DailyHistory(Generic[T]):
    """What was traded, day by day."""

    days: Annotated[tuple[T, ...], Field(alias="data")] = ()
    symbol: Word = ""
    resolution: Text = ""


@dataclass(frozen=True, slots=True)
class Turnover:
    """Shares and VND."""

    volume: SharesOrNone = None
    value: VndOrNone = None


@dataclass(frozen=True, slots=True)
class Turnovers:
    """All, matched in the order book, and negotiated (put through)."""

    total: Turnover | None = None
    matched: Turnover | None = None
    put_through: Turnover | None = None


@dataclass(frozen=True, slots=True)
class Trading:
    symbol: Word = ""
    day: _MaybeDay = None
    total: Turnover | None = None
    matched: Turnover | None = None
    put_through: Turnover | None = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class TradingDay:
    day: _OfDay
    total: Turnover | None = None
    matched: Turnover | None = None
    put_through: Turnover | None = None


@dataclass(frozen=True, slots=True)
class GroupTrading:
    """What foreigners, or brokers for themselves, bought and sold on a day; `net` is bought less
    sold.
    """

    symbol: Word = ""
    day: _MaybeDay = None
    buy: Turnovers | None = None
    sell: Turnovers | None = None
    net: Turnovers | None = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class GroupTradingDay:
    day: _OfDay
    buy: Turnovers | None = None
    sell: Turnovers | None = None
    net: Turnovers | None = None


TradingHistory = DailyHistory[TradingDay]
GroupTradingHistory = DailyHistory[GroupTradingDay]


@dataclass(frozen=True, slots=True)
class OrderFlow:
    """Matched orders of one side, by the aggressor's side: their number and shares."""

    order_count: CountOrNone = None
    volume: SharesOrNone = None
    avg_volume_per_order: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class OrderStatistics:
    """The matched orders of a day; available after its close."""

    symbol: Word = ""
    day: _MaybeDay = None
    buy: OrderFlow | None = None
    sell: OrderFlow | None = None
    net_volume: SharesOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class OrderStatisticsDay:
    """One day of the history of matched orders. The document leaves its fields out: they are those
    of a single day, by analogy.
    """

    day: _OfDay
    buy: OrderFlow | None = None
    sell: OrderFlow | None = None
    net_volume: SharesOrNone = None


@dataclass(frozen=True, slots=True)
class OrderStatisticsHistory:
    """The matched orders day by day, from 2021-01-01 at the earliest."""

    items: tuple[OrderStatisticsDay, ...] = ()
    symbol: Word = ""
