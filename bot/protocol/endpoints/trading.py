"""The calls that trading needs: bootstrap, orders, 2FA, account, market phase, quote and depth.

Source: broker open API 0.2.0-preview.3, sections 4.1 to 4.4.
"""

from typing import Final

from bot.protocol import words
from bot.protocol.endpoints.endpoint import (
    CACHED,
    PAGE,
    SYMBOL,
    UNCACHED,
    Lane,
    Shape,
    read,
    signed,
    two_factor,
    write,
)
from bot.protocol.query import Kind, Parameter

_ORDERS: Final = "/trading/oa/sub-accounts/{sub_account_id}/orders"
_DAY_ORDER_BOOK: Final = "/trading/v1/accounts/{sub_account_id}/order-book"
_STOCK: Final = "/market/quotes/stocks/{symbol}"

USER: Final = signed("user", "/users/v1/users/me", key="data")
SUB_ACCOUNTS: Final = signed(
    "sub_accounts", "/users/v1/users/{user_id}/sub-accounts", shape=Shape.ARRAY
)
PLACE_ORDER: Final = write("place_order", "POST", _ORDERS)
AMEND_ORDER: Final = write("amend_order", "PUT", _ORDERS + "/{order_id}")
CANCEL_ORDER: Final = write("cancel_order", "DELETE", _ORDERS + "/{order_id}", Lane.CANCEL)
REQUEST_OTP: Final = two_factor("request_otp", "request")
VERIFY_OTP: Final = two_factor("verify_otp", "verify")
REVOKE_TOKEN: Final = two_factor("revoke_token", "revoke")
TODAYS_ORDERS: Final = signed(
    "todays_orders", _DAY_ORDER_BOOK, UNCACHED, shape=Shape.ARRAY, lane=Lane.BOOK
)
ORDER_DETAIL: Final = signed(
    "order_detail", _DAY_ORDER_BOOK + "/{order_id}", UNCACHED, key="data", lane=Lane.ORDER_POLL
)
PORTFOLIO: Final = signed(
    "portfolio",
    "/trading/v2/sub-accounts/{sub_account_id}/portfolio",
    UNCACHED,
    key="data",
    lane=Lane.ORDER_POLL,
)
SUMMARY: Final = signed(
    "summary", "/trading/accounts/{sub_account_id}/summary", lane=Lane.ORDER_POLL
)
AVAILABLE_TRADE: Final = signed(
    "available_trade",
    "/trading/v2/accounts/{sub_account_id}/available-trade",
    Parameter("orderSide", values=words.SIDES, is_required=True),
    SYMBOL,
    Parameter("quotePrice", Kind.WHOLE, is_required=True, minimum=0),
)
USER_RIGHTS: Final = signed(
    "user_rights",
    "/trading/v5/account/{sub_account_id}/user-rights",
    Parameter("fromDate", Kind.DAY),
    Parameter("toDate", Kind.DAY),
    Parameter("catType", values=(words.ALL, *words.RIGHT_TYPES), default="ALL", is_list=True),
    Parameter("isCom", default="ALL"),
    Parameter("symbol", default="ALL"),
    Parameter("status", values=words.RIGHT_QUERY_STATUSES, default="ALL", is_list=True),
    answers="*account.UserRight",
    shape=Shape.ARRAY,
)
ORDER_HISTORY: Final = signed(
    "order_history",
    "/trading/sub-accounts/{sub_account_id}/orders",
    Parameter("fromDate", Kind.DAY, is_required=True),
    Parameter("toDate", Kind.DAY, is_required=True),
    PAGE,
    Parameter("orderStatus", default="ALL"),
    Parameter("symbol", default="ALL"),
    answers="account.OrderHistory",
)
MARKET_PHASE: Final = read(
    "market_phase",
    "/trading/market/session",
    "",
    Parameter("exchange", values=words.EXCHANGES, is_required=True),
    key="result",
    lane=Lane.QUOTE,
    shape=Shape.OBJECT,
)
STOCK_QUOTE: Final = read("stock_quote", _STOCK, "quotes.ListedQuote", lane=Lane.QUOTE)
STOCK_DEPTH: Final = read(
    "stock_depth", _STOCK + "/order-book", "series.ListedDepth", lane=Lane.QUOTE
)

TRADING: Final = (
    USER,
    SUB_ACCOUNTS,
    PLACE_ORDER,
    AMEND_ORDER,
    CANCEL_ORDER,
    REQUEST_OTP,
    VERIFY_OTP,
    REVOKE_TOKEN,
    TODAYS_ORDERS,
    ORDER_DETAIL,
    PORTFOLIO,
    SUMMARY,
    AVAILABLE_TRADE,
    MARKET_PHASE,
    signed(
        "assets_summary",
        "/users/v3/users/{user_id}/assets/summary",
        CACHED,
        key="data",
        answers="account.AssetsSummary",
    ),
    USER_RIGHTS,
    signed(
        "pnl_today",
        "/trading/pnl-today/{user_id}",
        Parameter("sub-account-id", default="ALL"),
        key="data",
        answers="account.PnlToday",
    ),
    ORDER_HISTORY,
)
"""In the order of the document; stock quote and depth are listed among the quotes."""
