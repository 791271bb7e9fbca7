"""Everything that writes the wire, in one place to import from.

The sandbox's encoders return a payload ready for `envelope.seal`; the client's return the bytes
of a request body, serialised once, to be hashed and sent. Keys are exactly the document's.
"""

from bot.protocol.accounts import encode_available_trade, encode_portfolio, encode_summary
from bot.protocol.bodies import encode_amend, encode_cancel, encode_place
from bot.protocol.day_order_book import RowDetail, encode_order_row, encode_todays_orders
from bot.protocol.market import encode_market_phase
from bot.protocol.orders import encode_order_result, encode_order_results
from bot.protocol.quotes import encode_depth, encode_quote
from bot.protocol.two_factor import (
    encode_otp_request,
    encode_otp_ticket,
    encode_otp_verification,
    encode_revocation,
    encode_two_factor_token,
)
from bot.protocol.users import encode_sub_accounts, encode_user

__all__ = [
    "RowDetail",
    "encode_amend",
    "encode_available_trade",
    "encode_cancel",
    "encode_depth",
    "encode_market_phase",
    "encode_order_result",
    "encode_order_results",
    "encode_order_row",
    "encode_otp_request",
    "encode_otp_ticket",
    "encode_otp_verification",
    "encode_place",
    "encode_portfolio",
    "encode_quote",
    "encode_revocation",
    "encode_sub_accounts",
    "encode_summary",
    "encode_todays_orders",
    "encode_two_factor_token",
    "encode_user",
]
