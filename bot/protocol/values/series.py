"""Histories and depth.

Times of bars are Unix seconds at the bar's start on the wire; every series is ascending here,
whatever the order sent. The price scale of a stock's history is not stated; by analogy it is VND,
so code that trades on it first compares its last close with the live quote (a factor of 1000 is the
likely error). Whether bars are adjusted for corporate actions is not documented either. Volumes are
units. Source: broker open API 0.2.0-preview.3, unified quotes.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from bot.protocol.fields import (
    Number,
    NumberOrNone,
    Shares,
    Stamp,
    StampOrNone,
    Symbol,
    Text,
    UnixSeconds,
    Vnd,
    decimal_or_none,
)
from bot.protocol.shaped import SPARSE

T = TypeVar("T")


def _sorted_by(field: str, *, reverse: bool = False) -> AfterValidator:
    return AfterValidator(
        lambda found: tuple(sorted(found, key=attrgetter(field), reverse=reverse))
    )


# ----------------------------------------------------------------------------------- histories

_Start = Annotated[UnixSeconds, Field(alias="t")]
Series = Annotated[tuple[T, ...], _sorted_by("start"), Field(alias="series")]
"""Oldest first."""


@dataclass(frozen=True, slots=True)
class PriceBar:
    """One bar. A series of closes alone has None elsewhere; a bar without trades has no volume."""

    start: _Start
    open: Annotated[NumberOrNone, Field(alias="o")] = None
    high: Annotated[NumberOrNone, Field(alias="h")] = None
    low: Annotated[NumberOrNone, Field(alias="l")] = None
    close: Annotated[NumberOrNone, Field(alias="c")] = None
    volume: Annotated[NumberOrNone, Field(alias="v")] = None


@dataclass(frozen=True, slots=True)
class BondBar(PriceBar):
    """One bar of a bond: prices, or of a yield-only bond `yield_percent` alone."""

    yield_percent: Annotated[NumberOrNone, Field(alias="yield")] = None


@dataclass(frozen=True, slots=True)
class NavPoint:
    """The net asset value of one unit of a fund."""

    start: _Start
    nav: Number


@dataclass(frozen=True, slots=True)
class DealerPoint:
    start: _Start
    price: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """The bars of a stock, ETF, currency pair, coin or commodity. `resolution` as requested."""

    symbol: Symbol
    bars: Series[PriceBar]
    currency: Text = ""
    resolution: Text = ""


@dataclass(frozen=True, slots=True)
class IndexHistory:
    """The bars of an index, in points; closes only for a foreign index."""

    symbol: Symbol
    bars: Series[PriceBar]
    resolution: Text = ""


@dataclass(frozen=True, slots=True)
class BondHistory:
    symbol: Symbol
    bars: Series[Annotated[BondBar, SPARSE]]
    currency: Text | None = None
    resolution: Text = ""


@dataclass(frozen=True, slots=True)
class FundHistory:
    """The net asset values of a fund, one per valuation day."""

    symbol: Symbol
    points: Series[NavPoint]
    currency: Text = ""


@dataclass(frozen=True, slots=True)
class DealerHistory:
    code: Text
    points: Series[DealerPoint]
    symbol: Text = ""
    currency: Text = ""


# --------------------------------------------------------------------------------------- depth


def _priced(levels: object) -> object:
    """Drop levels of an auction, which have price 0 or no price."""
    if not isinstance(levels, list):
        return levels
    return [
        level
        for level in levels
        if not isinstance(level, dict) or decimal_or_none(level.get("price", 0)) != 0
    ]


@dataclass(frozen=True, slots=True)
class PriceLevel:
    """One price, in full VND, and the units that wait there."""

    price: Vnd
    volume: Shares = 0


_Levels = Annotated[tuple[PriceLevel, ...], BeforeValidator(_priced)]
Bids = Annotated[_Levels, _sorted_by("price", reverse=True)]
Asks = Annotated[_Levels, _sorted_by("price")]


@dataclass(frozen=True, slots=True)
class ListedDepth:
    """The depth of a stock, bond or ETF: best first, levels without a price left out.

    Trading reads a stock's depth with `decode_depth`, into the domain's own value.
    """

    symbol: Symbol
    bids: Bids
    asks: Asks
    currency: Text = ""
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class DepthSnapshot:
    """The depth at one moment; `remain_…` are the units waiting on a side, as counted by the
    broker.
    """

    taken_at: Stamp
    bids: Bids = ()
    asks: Asks = ()
    remain_bid: Shares | None = None
    remain_ask: Shares | None = None


@dataclass(frozen=True, slots=True)
class DepthHistory:
    """The depth of a stock today, one snapshot every five minutes; none outside trading hours."""

    symbol: Symbol
    entries: Annotated[tuple[DepthSnapshot, ...], _sorted_by("taken_at")] = ()
    currency: Text = ""
