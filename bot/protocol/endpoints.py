"""The calls of the broker's API as a table, and the exact text of a request's target.

Source: broker open API 0.2.0-preview.3, sections bootstrap, order execution, account data, unified
quotes, market session and OTP exchange. The tier follows method and path: only GETs of market data
are tier 1 and need no signature.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """What stands under the payload key."""

    OBJECT = "object"
    ARRAY = "array"


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
    "request_otp", "POST", _TWO_FACTOR + "/request", _TWO, None, Lane.OTHER
)
VERIFY_OTP: Final = Endpoint("verify_otp", "POST", _TWO_FACTOR + "/verify", _TWO, None, Lane.OTHER)
REVOKE_TOKEN: Final = Endpoint(
    "revoke_token", "POST", _TWO_FACTOR + "/revoke", _TWO, None, Lane.OTHER
)

ENDPOINTS: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        endpoint.name: endpoint
        for endpoint in (
            USER,
            SUB_ACCOUNTS,
            PLACE_ORDER,
            AMEND_ORDER,
            CANCEL_ORDER,
            TODAYS_ORDERS,
            ORDER_DETAIL,
            PORTFOLIO,
            SUMMARY,
            AVAILABLE_TRADE,
            MARKET_PHASE,
            STOCK_QUOTE,
            STOCK_DEPTH,
            REQUEST_OTP,
            VERIFY_OTP,
            REVOKE_TOKEN,
        )
    }
)
"""Every call by its name."""

_HOLE: Final = re.compile(r"\{(\w+)\}")
_DOT_SEGMENTS: Final = frozenset({"", ".", ".."})


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


def _encoded(endpoint: Endpoint, name: str, value: str) -> str:
    if value in _DOT_SEGMENTS:
        raise UnusableTarget(endpoint.name, name)
    return quote(value, safe="")
