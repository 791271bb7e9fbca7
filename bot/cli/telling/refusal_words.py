"""Why the broker rejected an order, in words for a trader.

Its own reason is Vietnamese text that any words may stand in; a phrase that is known says more than
the code, which covers several reasons. Source of the codes: broker open API 0.2.0-preview.3,
order-level codes; the list is open.
"""

from collections.abc import Mapping
from typing import Final

PHRASES: Final[Mapping[str, str]] = {
    "biên độ": "price outside the day's band",
    "bước giá": "price off the tick",
    "sức mua": "more than the buying power",
    "chứng khoán được bán": "more shares than can be sold",
    "đóng cửa": "the market is closed",
    "ngược chiều": "an order of the same owner is on the other side",
}
"""Parts of a reason that say what was wrong, in the words of Vietnam's exchanges."""
CODES: Final[Mapping[str, str]] = {
    "-400116": "more than the buying or selling power",
    "QMAX_EXCEED": "more than the buying or selling power",
    "-900017": "price or lot not valid",
    "-10011": "price or lot not valid",
    "INVALID_PRICE_LOT": "price or lot not valid",
    "-700106": "price or quantity not valid",
    "-700104": "quantity not valid",
    "-700105": "quantity not valid",
    "-700114": "an odd lot takes LIMIT orders only",
    "-300025": "not in this session of the market",
    "-100113": "the order type does not fit the session",
    "INVALID_ORDER_TYPE_FOR_THIS_SESSION": "the order type does not fit the session",
    "-400099": "the symbol may not be traded here",
    "-700069": "the symbol is restricted or halted",
    "CAN_NOT_PLACE_ORDER_ON_HALTED_SYMBOL": "the symbol is restricted or halted",
    "-701111": "only the unmatched part was changed",
    "MUST_PUBLISH_TRADE_INFO": "the trade has to be announced first",
}


def in_words(code: str | None, reason: str | None) -> str:
    """Return the words of a rejection, empty where neither its text nor its code is known."""
    told = (reason or "").casefold()
    by_phrase = (words for phrase, words in PHRASES.items() if phrase in told)
    return next(by_phrase, CODES.get(code or "", ""))
