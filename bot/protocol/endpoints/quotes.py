"""Unified quotes, indices, sectors, screener and per-stock statistics: reads of market data.

Source: broker open API 0.2.0-preview.3, sections 4.4 to 4.7.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bot.protocol import words
from bot.protocol.endpoints.endpoint import (
    DAILY,
    DATE,
    DAYS,
    PAGES,
    RESOLUTION,
    SECONDS,
    WINDOW,
    Lane,
    read,
)
from bot.protocol.endpoints.trading import STOCK_DEPTH, STOCK_QUOTE
from bot.protocol.query import AtMostOne, Kind, LiveOnly, Parameter

# ------------------------------------------------------------------------- unified quotes (4.4)

QUOTE_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "stock": "stocks",
        "index": "indices",
        "forex": "forex",
        "crypto": "cryptos",
        "commodity": "commodities",
        "fund": "funds",
        "bond": "bonds",
        "etf": "etfs",
    }
)
"""The eight kinds of the unified quotes: first word of a call's name, and its path segment."""

_QUOTES: Final = "/market/quotes"
_DEALERS: Final = _QUOTES + "/commodities/{symbol}/dealer-products"
# For each kind: catalogue item, quote, history, and the history's parameters besides a period.
_KINDS: Final = {
    "stock": ("CatalogueItem", "ListedQuote", "PriceHistory", (RESOLUTION,)),
    "index": ("CatalogueItem", "IndexQuote", "IndexHistory", (DAILY,)),
    "forex": ("CatalogueItem", "ForexQuote", "PriceHistory", (DAILY,)),
    "crypto": ("CatalogueItem", "AssetQuote", "PriceHistory", (DAILY,)),
    "commodity": ("CommodityItem", "AssetQuote", "PriceHistory", (DAILY,)),
    "fund": ("FundItem", "FundQuote", "FundHistory", ()),
    "bond": ("BondItem", "BondQuote", "BondHistory", (RESOLUTION,)),
    "etf": ("EtfItem", "ListedQuote", "PriceHistory", (RESOLUTION,)),
}


_UNIFIED_QUOTES: Final = (
    *(
        read(f"{kind}_catalogue", f"{_QUOTES}/{step}", f"*quotes.{_KINDS[kind][0]}")
        for kind, step in QUOTE_KINDS.items()
    ),
    STOCK_QUOTE,
    *(
        read(
            f"{kind}_quote",
            f"{_QUOTES}/{step}/{{symbol}}",
            f"quotes.{_KINDS[kind][1]}",
            lane=Lane.QUOTE,
        )
        for kind, step in QUOTE_KINDS.items()
        if kind != "stock"
    ),
    *(
        read(
            f"{kind}_history",
            f"{_QUOTES}/{step}/{{symbol}}/history",
            f"series.{_KINDS[kind][2]}",
            *SECONDS,
            *_KINDS[kind][3],
        )
        for kind, step in QUOTE_KINDS.items()
    ),
    STOCK_DEPTH,
    read(
        "bond_depth", _QUOTES + "/bonds/{symbol}/order-book", "series.ListedDepth", lane=Lane.QUOTE
    ),
    read("etf_depth", _QUOTES + "/etfs/{symbol}/order-book", "series.ListedDepth", lane=Lane.QUOTE),
    read("stock_depth_history", STOCK_DEPTH.path + "/history", "series.DepthHistory"),
    read("dealer_products", _DEALERS, "*quotes.DealerItem"),
    read("dealer_product", _DEALERS + "/{code}", "quotes.DealerQuote"),
    read("dealer_product_history", _DEALERS + "/{code}/history", "series.DealerHistory", *SECONDS),
)

# ------------- indices (4.5) and sectors (4.6); parameters but the first by analogy with a stock's

_INDEX: Final = "/market/indices/{symbol}"
_SECTOR: Final = "/market/sectors/{slug}"

_INDICES_AND_SECTORS: Final = (
    read(
        "index_realtime",
        "/market/index-realtime",
        "*quotes.IndexNow",
        Parameter("index", is_list=True, is_required=True),
        lane=Lane.QUOTE,
        key="result",
    ),
    read("index_list", "/market/indices", ""),
    read("index_breadth", _INDEX + "/breadth", ""),
    read("index_constituents", _INDEX + "/constituents", ""),
    read("index_foreign", _INDEX + "/trading/foreign", "", DATE),
    read("index_foreign_history", _INDEX + "/trading/foreign/history", "", *DAYS, DAILY),
    read("sector_list", "/market/sectors", ""),
    read("sector_breadth", _SECTOR + "/breadth", ""),
    read("sector_constituents", _SECTOR + "/constituents", ""),
    read("sector_performance", _SECTOR + "/performance", "", WINDOW),
    read("sector_performance_history", _SECTOR + "/performance/history", "", *DAYS, DAILY),
    read("sector_foreign", _SECTOR + "/trading/foreign", "", DATE),
    read("sector_foreign_history", _SECTOR + "/trading/foreign/history", "", *DAYS, DAILY),
)

# ------------------------------------------------------ screener and per-stock statistics (4.7)

_ONE: Final = "/market/stocks/{symbol}"
_ROOM: Final = _ONE + "/ownership/foreign-room"
_TRADING: Final = _ONE + "/trading"

_STOCK_STATISTICS: Final = (
    read(
        "screener",
        "/market/stocks",
        "stocks.Screen",
        Parameter("exchange", values=words.STOCK_EXCHANGES),
        Parameter("index", values=words.SCREENER_INDICES),
        Parameter("sector", values=words.SECTORS),
        WINDOW,
        DATE,
        Parameter("sort", values=words.SORT_KEYS),
        Parameter(
            "fields", values=words.SCREENER_FIELDS, default=words.DEFAULT_FIELDS, is_list=True
        ),
        *PAGES,
        *(
            # A price may also be bounded by an average.
            Parameter(
                f"{field}_{bound}",
                Kind.NUMBER,
                values=words.MOVING_AVERAGES if field == "price" else (),
            )
            for field in words.SCREENED_FIELDS
            for bound in ("gt", "lt")
        ),
        rules=(AtMostOne(("window", "date")), LiveOnly(words.LIVE_FIELDS)),
    ),
    read("stock_profile", _ONE + "/profile", "stocks.Profile"),
    read("stock_listing", _ONE + "/listing", "stocks.Listing"),
    read("stock_ownership", _ONE + "/ownership", "stocks.Ownership"),
    read("stock_foreign_room", _ROOM, "stocks.ForeignRoom"),
    read(
        "stock_foreign_room_history",
        _ROOM + "/history",
        "stocks.ForeignRoomHistory",
        *DAYS,
        DAILY,
        *PAGES,
    ),
    read(
        "stock_technicals",
        _ONE + "/technicals",
        "stocks.Technicals",
        Parameter(
            "indicators",
            Kind.INDICATOR,
            values=words.INDICATORS,
            default=words.DEFAULT_INDICATORS,
            is_list=True,
            items_max=20,
        ),
        *DAYS,
    ),
    read("stock_trading", _TRADING, "stocks.Trading", DATE),
    read("stock_trading_history", _TRADING + "/history", "stocks.TradingHistory", *DAYS, DAILY),
    *(
        row
        for group in ("foreign", "proprietary")
        for row in (
            read(f"stock_{group}", f"{_TRADING}/{group}", "stocks.GroupTrading", DATE),
            read(
                f"stock_{group}_history",
                f"{_TRADING}/{group}/history",
                "stocks.GroupTradingHistory",
                *DAYS,
                DAILY,
            ),
        )
    ),
    read("stock_orders", _TRADING + "/orders", "stocks.OrderStatistics", DATE),
    read(
        "stock_orders_history", _TRADING + "/orders/history", "stocks.OrderStatisticsHistory", *DAYS
    ),
    read("stock_events", _ONE + "/events", ""),
    read("stock_insider", _TRADING + "/insider", ""),
    read("stock_analyst_reports", _ONE + "/analyst-reports", ""),
)

QUOTES: Final = (*_UNIFIED_QUOTES, *_INDICES_AND_SECTORS, *_STOCK_STATISTICS)
