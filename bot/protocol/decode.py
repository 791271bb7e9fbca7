"""Everything that reads the wire, in one place to import from: an opened payload becomes a value.

Each raises MalformedAnswer naming the call and the field. The request bodies, read by the sandbox,
raise MalformedRequest. The families live in files of their own beside their encoders. These are
what trading needs; `calls.py` reads and writes every call of the API.
"""

from bot.protocol.accounts import decode_available_trade, decode_portfolio, decode_summary
from bot.protocol.bodies import decode_amend, decode_cancel, decode_place
from bot.protocol.day_order_book import decode_order_row, decode_todays_orders
from bot.protocol.market import decode_market_phase
from bot.protocol.orders import decode_order_results
from bot.protocol.quotes import decode_depth, decode_quote
from bot.protocol.two_factor import (
    decode_otp_request,
    decode_otp_ticket,
    decode_otp_verification,
    decode_revocation,
    decode_two_factor_token,
)
from bot.protocol.users import decode_sub_accounts, decode_user

__all__ = [
    "decode_amend",
    "decode_available_trade",
    "decode_cancel",
    "decode_depth",
    "decode_market_phase",
    "decode_order_results",
    "decode_order_row",
    "decode_otp_request",
    "decode_otp_ticket",
    "decode_otp_verification",
    "decode_place",
    "decode_portfolio",
    "decode_quote",
    "decode_revocation",
    "decode_sub_accounts",
    "decode_summary",
    "decode_todays_orders",
    "decode_two_factor_token",
    "decode_user",
]
