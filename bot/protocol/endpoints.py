"""The calls of the broker's API as a table, and the exact text of a request's target.

Source: broker open API 0.2.0-preview.3, all its sections, and the earlier market paths that public
clients still call. The tier follows method and path: only GETs of market data are tier 1 and need
no signature. What a call takes is in `parameters.py`, what it answers in `calls.py`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from bot.protocol.errors import UnusableTarget


class Tier(IntEnum):
    """What a call must carry: ONE the API key, TWO the signing headers as well."""

    ONE = 1
    TWO = 2


class Lane(StrEnum):
    """Who goes first when the request budget is short, in this order."""

    CANCEL = "CANCEL"
    BOOK = "BOOK"
    PLACE = "PLACE"
    ORDER_POLL = "ORDER_POLL"
    QUOTE = "QUOTE"
    OTHER = "OTHER"


class Shape(Enum):
    """What stands under the payload key. EITHER: one of two shapes, or a shape not shown."""

    OBJECT = "object"
    ARRAY = "array"
    EITHER = "object or array"
    PERHAPS = "object, array or null"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call. `path` has `{snake_case}` holes; `payload_key` None puts the fields at top level.

    `is_write` marks the order writes: they need a device id and a 2FA token, and are never retried.
    """

    name: str
    method: str
    path: str
    tier: Tier
    payload_key: str | None
    lane: Lane
    is_write: bool = False
    shape: Shape = Shape.OBJECT


_ORDERS: Final = "/trading/oa/sub-accounts/{sub_account_id}/orders"
_BOOK: Final = "/trading/v1/accounts/{sub_account_id}/order-book"
_STOCK: Final = "/market/quotes/stocks/{symbol}"
_TWO_FACTOR: Final = "/auth/v1/openapi/2fa"
_ONE, _TWO = Tier

USER: Final = Endpoint("user", "GET", "/users/v1/users/me", _TWO, "data", Lane.OTHER)
SUB_ACCOUNTS: Final = Endpoint(
    "sub_accounts",
    "GET",
    "/users/v1/users/{user_id}/sub-accounts",
    _TWO,
    "result",
    Lane.OTHER,
    shape=Shape.ARRAY,
)
PLACE_ORDER: Final = Endpoint(
    "place_order", "POST", _ORDERS, _TWO, "result", Lane.PLACE, is_write=True, shape=Shape.ARRAY
)
AMEND_ORDER: Final = Endpoint(
    "amend_order",
    "PUT",
    _ORDERS + "/{order_id}",
    _TWO,
    "result",
    Lane.PLACE,
    is_write=True,
    shape=Shape.ARRAY,
)
CANCEL_ORDER: Final = Endpoint(
    "cancel_order",
    "DELETE",
    _ORDERS + "/{order_id}",
    _TWO,
    "result",
    Lane.CANCEL,
    is_write=True,
    shape=Shape.ARRAY,
)
TODAYS_ORDERS: Final = Endpoint(
    "todays_orders", "GET", _BOOK, _TWO, "result", Lane.BOOK, shape=Shape.ARRAY
)
ORDER_DETAIL: Final = Endpoint(
    "order_detail", "GET", _BOOK + "/{order_id}", _TWO, "data", Lane.ORDER_POLL
)
PORTFOLIO: Final = Endpoint(
    "portfolio",
    "GET",
    "/trading/v2/sub-accounts/{sub_account_id}/portfolio",
    _TWO,
    "data",
    Lane.OTHER,
)
SUMMARY: Final = Endpoint(
    "summary", "GET", "/trading/accounts/{sub_account_id}/summary", _TWO, "result", Lane.OTHER
)
AVAILABLE_TRADE: Final = Endpoint(
    "available_trade",
    "GET",
    "/trading/v2/accounts/{sub_account_id}/available-trade",
    _TWO,
    "result",
    Lane.OTHER,
)
MARKET_PHASE: Final = Endpoint(
    "market_phase", "GET", "/trading/market/session", _ONE, "result", Lane.QUOTE
)
STOCK_QUOTE: Final = Endpoint("stock_quote", "GET", _STOCK, _ONE, "data", Lane.QUOTE)
STOCK_DEPTH: Final = Endpoint(
    "stock_depth", "GET", _STOCK + "/order-book", _ONE, "data", Lane.QUOTE
)
REQUEST_OTP: Final = Endpoint(
    "request_otp", "POST", _TWO_FACTOR + "/request", _TWO, None, Lane.PLACE
)
VERIFY_OTP: Final = Endpoint("verify_otp", "POST", _TWO_FACTOR + "/verify", _TWO, None, Lane.PLACE)
REVOKE_TOKEN: Final = Endpoint(
    "revoke_token", "POST", _TWO_FACTOR + "/revoke", _TWO, None, Lane.PLACE
)


def _object(name: str, path: str, lane: Lane = Lane.OTHER) -> Endpoint:
    """Make a tier 1 read of one object."""
    return Endpoint(name, "GET", path, Tier.ONE, "data", lane)


def _array(name: str, path: str, lane: Lane = Lane.OTHER, *, key: str = "data") -> Endpoint:
    """Make a tier 1 read of a list."""
    return Endpoint(name, "GET", path, Tier.ONE, key, lane, shape=Shape.ARRAY)


def _unshown(name: str, path: str) -> Endpoint:
    """Make a tier 1 read of a shape that no source shows."""
    return Endpoint(name, "GET", path, Tier.ONE, "data", Lane.OTHER, shape=Shape.EITHER)


def _account(name: str, path: str, key: str, shape: Shape = Shape.OBJECT) -> Endpoint:
    return Endpoint(name, "GET", path, Tier.TWO, key, Lane.OTHER, shape=shape)


_BOOTSTRAP_AND_ORDERS: Final = (
    USER,
    SUB_ACCOUNTS,
    PLACE_ORDER,
    AMEND_ORDER,
    CANCEL_ORDER,
    REQUEST_OTP,
    VERIFY_OTP,
    REVOKE_TOKEN,
)

_ACCOUNT_DATA: Final = (
    TODAYS_ORDERS,
    ORDER_DETAIL,
    PORTFOLIO,
    SUMMARY,
    AVAILABLE_TRADE,
    MARKET_PHASE,
    _account("assets_summary", "/users/v3/users/{user_id}/assets/summary", "data"),
    _account(
        "user_rights", "/trading/v5/account/{sub_account_id}/user-rights", "result", Shape.ARRAY
    ),
    _account("pnl_today", "/trading/pnl-today/{user_id}", "data"),
    _account("order_history", "/trading/sub-accounts/{sub_account_id}/orders", "result"),
)

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
"""The eight kinds of the unified quotes: first word of a call's name, and step of its path."""

_QUOTES: Final = "/market/quotes"
_DEALERS: Final = _QUOTES + "/commodities/{symbol}/dealer-products"

_UNIFIED_QUOTES: Final = (
    *(_array(f"{kind}_catalogue", f"{_QUOTES}/{step}") for kind, step in QUOTE_KINDS.items()),
    STOCK_QUOTE,
    *(
        _object(f"{kind}_quote", f"{_QUOTES}/{step}/{{symbol}}", Lane.QUOTE)
        for kind, step in QUOTE_KINDS.items()
        if kind != "stock"
    ),
    *(
        _object(f"{kind}_history", f"{_QUOTES}/{step}/{{symbol}}/history")
        for kind, step in QUOTE_KINDS.items()
    ),
    STOCK_DEPTH,
    _object("bond_depth", _QUOTES + "/bonds/{symbol}/order-book", Lane.QUOTE),
    _object("etf_depth", _QUOTES + "/etfs/{symbol}/order-book", Lane.QUOTE),
    _object("stock_depth_history", _STOCK + "/order-book/history"),
    _array("dealer_products", _DEALERS),
    _object("dealer_product", _DEALERS + "/{code}"),
    _object("dealer_product_history", _DEALERS + "/{code}/history"),
)

_INDICES: Final = (
    _array("index_realtime", "/market/index-realtime", Lane.QUOTE, key="result"),
    _unshown("index_list", "/market/indices"),
    _unshown("index_breadth", "/market/indices/{symbol}/breadth"),
    _unshown("index_constituents", "/market/indices/{symbol}/constituents"),
    _unshown("index_foreign", "/market/indices/{symbol}/trading/foreign"),
    _unshown("index_foreign_history", "/market/indices/{symbol}/trading/foreign/history"),
)

_SECTORS: Final = (
    _unshown("sector_list", "/market/sectors"),
    _unshown("sector_breadth", "/market/sectors/{slug}/breadth"),
    _unshown("sector_constituents", "/market/sectors/{slug}/constituents"),
    _unshown("sector_performance", "/market/sectors/{slug}/performance"),
    _unshown("sector_performance_history", "/market/sectors/{slug}/performance/history"),
    _unshown("sector_foreign", "/market/sectors/{slug}/trading/foreign"),
    _unshown("sector_foreign_history", "/market/sectors/{slug}/trading/foreign/history"),
)

_OF_STOCK: Final = "/market/stocks/{symbol}"

_STOCK_STATISTICS: Final = (
    _object("screener", "/market/stocks"),
    _object("stock_profile", _OF_STOCK + "/profile"),
    _object("stock_listing", _OF_STOCK + "/listing"),
    _object("stock_ownership", _OF_STOCK + "/ownership"),
    _object("stock_foreign_room", _OF_STOCK + "/ownership/foreign-room"),
    _object("stock_foreign_room_history", _OF_STOCK + "/ownership/foreign-room/history"),
    _object("stock_technicals", _OF_STOCK + "/technicals"),
    _object("stock_trading", _OF_STOCK + "/trading"),
    _object("stock_trading_history", _OF_STOCK + "/trading/history"),
    _object("stock_foreign", _OF_STOCK + "/trading/foreign"),
    _object("stock_foreign_history", _OF_STOCK + "/trading/foreign/history"),
    _object("stock_proprietary", _OF_STOCK + "/trading/proprietary"),
    _object("stock_proprietary_history", _OF_STOCK + "/trading/proprietary/history"),
    _object("stock_orders", _OF_STOCK + "/trading/orders"),
    _object("stock_orders_history", _OF_STOCK + "/trading/orders/history"),
    _unshown("stock_events", _OF_STOCK + "/events"),
    _unshown("stock_insider", _OF_STOCK + "/trading/insider"),
    _unshown("stock_analyst_reports", _OF_STOCK + "/analyst-reports"),
)

_NEWS_AND_FINANCIALS: Final = (
    _object("market_news", "/market/market-news"),
    _object("market_news_item", "/market/market-news/{news_id}"),
    _array("macro_indicators", "/market/macro/indicators"),
    _object("macro_indicator", "/market/macro/indicators/{indicator}"),
    _object("economic_calendar", "/market/calendar"),
    _object("bank_rates", "/market/financial-data/bank-interest-rates"),
    _array("financial_analysis", "/market/company-financial/analysis"),
    _object("financial_overview", "/market/company-financial/overview"),
    _array("financial_statement", "/market/v2/financial-statement/statement"),
    replace(
        _object("recommendation_reports", "/market/recommendation-reports/{symbol}"),
        shape=Shape.PERHAPS,
    ),
)

_FUND: Final = "/fund-trading/public/fund-certificates"

_FUNDS: Final = (
    _array("fund_certificates", _FUND),
    _array("fund_companies", "/fund-trading/public/fund-companies"),
    _object("fund_nav_histories", _FUND + "/{fund_name}/nav-histories"),
    _array("fund_suggestions", _FUND + "/{fund_name}/suggestions"),
    _unshown("fund_portfolio", _FUND + "/{fund_name}/portfolio"),
    _unshown("fund_asset_allocation", _FUND + "/{fund_name}/asset-allocation"),
    _unshown("fund_sector_allocation", _FUND + "/{fund_name}/sector-allocation"),
    _array("fund_top_aum", _FUND + "/top-aum"),
    _array("fund_top_investor", _FUND + "/top-investor"),
    _array("fund_top_flow", _FUND + "/top-fund-flow"),
    _array("fund_top_holdings", _FUND + "/top-holding-symbols"),
    _array("fund_benchmark_growth", _FUND + "/benchmark/growth"),
    _array("fund_benchmark_nav", _FUND + "/benchmark/nav"),
    _unshown("fund_benchmark_operation", _FUND + "/benchmark/operation"),
)

_EARLIER: Final = "/market/financial-data"

_EARLIER_PATHS: Final = (
    Endpoint(
        "earlier_stock_realtime",
        "GET",
        "/market/stock-realtime",
        Tier.ONE,
        "result",
        Lane.QUOTE,
        shape=Shape.EITHER,
    ),
    _object("earlier_price_chart", "/market/price-histories-chart"),
    _array("earlier_news", "/market/news", key="result"),
    _array("earlier_financial_data", _EARLIER),
    _array("earlier_gold", _EARLIER + "/gold"),
    _array("earlier_silver", _EARLIER + "/silver"),
    _unshown("earlier_gold_chart", _EARLIER + "/gold-chart"),
    _unshown("earlier_silver_chart", _EARLIER + "/silver-chart"),
    _array("earlier_gold_providers", _EARLIER + "/gold-providers"),
    _array("earlier_metal_providers", _EARLIER + "/metal-providers"),
    _array("earlier_trending_cryptos", _EARLIER + "/cryptos/top-trending"),
    _array("earlier_macro", _EARLIER + "/macro"),
    _array("earlier_trading_economics", _EARLIER + "/trading-economics"),
    _array("earlier_market", _EARLIER + "/market"),
    _array("earlier_calendar", _EARLIER + "/economic-calendar-events"),
    _object("earlier_global_news", _EARLIER + "/global-news"),
)

ENDPOINTS: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        endpoint.name: endpoint
        for endpoint in (
            *_BOOTSTRAP_AND_ORDERS,
            *_ACCOUNT_DATA,
            *_UNIFIED_QUOTES,
            *_INDICES,
            *_SECTORS,
            *_STOCK_STATISTICS,
            *_NEWS_AND_FINANCIALS,
            *_FUNDS,
            *_EARLIER_PATHS,
        )
    }
)
"""Every call by its name."""

_OPEN_PATHS: Final = (
    "/market/",
    "/trading/market/",
    "/trading/securities/",
    "/fund-trading/public/",
)
_HOLE: Final = re.compile(r"\{(\w+)\}")
_DOT_SEGMENTS: Final = frozenset({"", ".", ".."})


def tier_of(method: str, path: str) -> Tier:
    """Return the tier of any method and path, also of those that are no call (section 2.1)."""
    return Tier.ONE if method == "GET" and path.startswith(_OPEN_PATHS) else Tier.TWO


def build_target(
    endpoint: Endpoint,
    path_values: Mapping[str, str] | None = None,
    query: Sequence[tuple[str, str]] = (),
) -> str:
    """Return path and query, percent-encoded, exactly as they must be signed and sent.

    No `?` stands there without a query; a comma or a space of a value is encoded. A value that is
    empty or a dot segment raises UnusableTarget; a hole without a value is our bug (KeyError).
    """
    values = path_values or {}
    path = _HOLE.sub(lambda hole: _encoded(endpoint, hole[1], values[hole[1]]), endpoint.path)
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    return f"{path}?{pairs}" if pairs else path


def path_parameters(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the names of the holes in a path, in their order."""
    return tuple(_HOLE.findall(endpoint.path))


def _encoded(endpoint: Endpoint, name: str, value: str) -> str:
    if value in _DOT_SEGMENTS:
        raise UnusableTarget(endpoint.name, name)
    return quote(value, safe="")
