"""Answers of earlier market paths, which public client tools still call but the bot does not.

Prices are full VND unless a field says otherwise, `change_percent` percent. Source: the broker's
public command-line client and its notes (March to May 2026).
"""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, WrapSerializer

from bot.protocol.fields import Count, CountOrNone, Named, Number, NumberOrNone, Text


@dataclass(frozen=True, slots=True)
class StockNow:
    """The price board of a stock: three levels a side, foreign trading, ratios.

    `created_at` is a Unix time, of unstated unit.
    """

    symbol: Named
    price: NumberOrNone = None
    close: NumberOrNone = None
    open: NumberOrNone = None
    high: NumberOrNone = None
    low: NumberOrNone = None
    average: NumberOrNone = None
    reference: NumberOrNone = None
    ceiling: NumberOrNone = None
    floor: NumberOrNone = None
    change: NumberOrNone = None
    change_percent: Annotated[NumberOrNone, Field(alias="changePercent")] = None
    volume: NumberOrNone = None
    total_volume: Annotated[NumberOrNone, Field(alias="totalVolume")] = None
    total_value: Annotated[NumberOrNone, Field(alias="totalValue")] = None
    buy_price_1: Annotated[NumberOrNone, Field(alias="buyPrice1")] = None
    buy_price_2: Annotated[NumberOrNone, Field(alias="buyPrice2")] = None
    buy_price_3: Annotated[NumberOrNone, Field(alias="buyPrice3")] = None
    buy_volume_1: Annotated[NumberOrNone, Field(alias="buyVol1")] = None
    buy_volume_2: Annotated[NumberOrNone, Field(alias="buyVol2")] = None
    buy_volume_3: Annotated[NumberOrNone, Field(alias="buyVol3")] = None
    sell_price_1: Annotated[NumberOrNone, Field(alias="sellPrice1")] = None
    sell_price_2: Annotated[NumberOrNone, Field(alias="sellPrice2")] = None
    sell_price_3: Annotated[NumberOrNone, Field(alias="sellPrice3")] = None
    sell_volume_1: Annotated[NumberOrNone, Field(alias="sellVol1")] = None
    sell_volume_2: Annotated[NumberOrNone, Field(alias="sellVol2")] = None
    sell_volume_3: Annotated[NumberOrNone, Field(alias="sellVol3")] = None
    foreign_bought: Annotated[NumberOrNone, Field(alias="foreignBought")] = None
    foreign_sold: Annotated[NumberOrNone, Field(alias="foreignSold")] = None
    foreign_remain: Annotated[NumberOrNone, Field(alias="foreignRemain")] = None
    remain_bid: Annotated[NumberOrNone, Field(alias="remainBid")] = None
    remain_ask: Annotated[NumberOrNone, Field(alias="remainAsk")] = None
    stock_type: Annotated[Text, Field(alias="stockType")] = ""
    exchange: Text = ""
    name: Text = ""
    created_at: Annotated[NumberOrNone, Field(alias="createdAt")] = None
    pe: NumberOrNone = None
    pb: NumberOrNone = None
    roe: NumberOrNone = None
    market_cap: Annotated[NumberOrNone, Field(alias="marketCap")] = None
    symbol_status: Annotated[Text | None, Field(alias="symbolStatus")] = None


@dataclass(frozen=True, slots=True)
class StockBoard:
    """The requested stocks; `is_single` if asked by `symbol`, which answers an object."""

    stocks: tuple[StockNow, ...] = ()
    is_single: bool = False


def _either(value: object) -> object:
    if isinstance(value, dict):
        return {"stocks": [value], "is_single": True}
    return {"stocks": value} if isinstance(value, list) else value


def _as_asked(board: StockBoard, write: SerializerFunctionWrapHandler) -> Any:
    stocks = write(board)["stocks"]
    return stocks[0] if board.is_single else stocks


EitherBoard = Annotated[StockBoard, BeforeValidator(_either), WrapSerializer(_as_asked)]


@dataclass(frozen=True, slots=True)
class PriceChart:
    """Bars by column, all of one length; times are Unix seconds."""

    symbol: Text
    resolution: Text = ""
    time: tuple[Count, ...] = ()
    open: tuple[Number, ...] = ()
    close: tuple[Number, ...] = ()
    high: tuple[Number, ...] = ()
    low: tuple[Number, ...] = ()
    volume: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class StockEvent:
    """A corporate event. `created` is `DD/MM - HH:mm`; dates are the broker's texts."""

    stock: Text
    id: CountOrNone = None
    path: Text | None = None
    title: Text | None = None
    body: Text | None = None
    created: Annotated[Text, Field(alias="createdDate")] = ""
    action_date: Annotated[Text | None, Field(alias="actionDate")] = None
    ex_date: Annotated[Text | None, Field(alias="gdkhqDate")] = None
    event_type: Annotated[Text | None, Field(alias="eventType")] = None
    event_type_name: Annotated[Text | None, Field(alias="eventTypeName")] = None
    url: Text | None = None


@dataclass(frozen=True, slots=True)
class AssetFigure:
    """One figure of the overview: `value`, or buy and sell, or both currencies, by its group."""

    name: Text = ""
    value: NumberOrNone = None
    buy_value: NumberOrNone = None
    sell_value: NumberOrNone = None
    usd_value: NumberOrNone = None
    vnd_value: NumberOrNone = None
    change_percent: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class AssetGroup:
    """GOLD, SILVER, CRYPTO, BANK_INTEREST_RATE or USD_EXCHANGE_RATE, and its figures."""

    financial_type: Text
    name: Text = ""
    values: tuple[AssetFigure, ...] = ()
    last_updated: Text = ""


@dataclass(frozen=True, slots=True)
class MetalPrice:
    """What a dealer pays and asks for gold or silver, VND."""

    index: Text
    name: Text = ""
    short_name: Text = ""
    buy_value: NumberOrNone = None
    sell_value: NumberOrNone = None
    usd_value: NumberOrNone = None
    vnd_value: NumberOrNone = None
    date: Text = ""
    provider: Text = ""
    provider_icon: Text | None = None
    updated_at: Text = ""
    change_percent: NumberOrNone = None
    buy_value_change_percent: NumberOrNone = None
    sell_value_change_percent: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class TrendingCrypto:
    """A coin; price and market capitalisation in US dollars."""

    symbol: Text
    name: Text = ""
    icon_url: Text = ""
    price: NumberOrNone = None
    formatted_price: Text = ""
    percent_change_1h: NumberOrNone = None
    percent_change_24h: NumberOrNone = None
    percent_change_7d: NumberOrNone = None
    percent_change_30d: NumberOrNone = None
    market_cap: NumberOrNone = None
    last_30d_chart: Text = ""


@dataclass(frozen=True, slots=True)
class MacroDatum:
    """A macro figure of a month (`YYYY-MM`)."""

    type: Text
    country: Text = ""
    month: Text = ""
    value: NumberOrNone = None
    date: Text | None = None


@dataclass(frozen=True, slots=True)
class EconomicDatum:
    """An economic indicator of a country in a month."""

    indicator: Text
    country: Text = ""
    category: Text = ""
    last_value: Annotated[NumberOrNone, Field(alias="lastValue")] = None
    previous_value: Annotated[NumberOrNone, Field(alias="previousValue")] = None
    year: CountOrNone = None
    month: CountOrNone = None
    unit: Text = ""


@dataclass(frozen=True, slots=True)
class MarketDatum:
    """A close of a foreign index, share, commodity or pair, in its own unit."""

    type: Text
    country: Text = ""
    date: Text = ""
    year: CountOrNone = None
    month: CountOrNone = None
    value: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class EconomicEvent:
    """An economic event; figures are texts with their percent sign. `impact` is 1 to 3."""

    id: CountOrNone = None
    date: Text = ""
    country: Text = ""
    event: Text = ""
    actual: Text = ""
    previous: Text = ""
    consensus: Text = ""
    forecast: Text = ""
    impact: CountOrNone = None
    category: Text = ""


@dataclass(frozen=True, slots=True)
class GlobalArticle:
    id: Count
    title: Text = ""
    url: Text = ""
    description: Text | None = None
    provider: Text | None = None
    published_at: Text = ""
    category: Text = ""


@dataclass(frozen=True, slots=True)
class GlobalNewsPage:
    """A page of the global news, which has no `page_size`."""

    results: tuple[GlobalArticle, ...] = ()
    page_total: CountOrNone = None
    total: CountOrNone = None
    current_page: CountOrNone = None
    next_page: CountOrNone = None
    previous_page: CountOrNone = None
