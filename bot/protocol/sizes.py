"""How large an answer of each call may be: in bytes, in values, in rows.

What is larger is refused before it is read, so that no answer costs more time or memory than the
largest that a broker has a reason to send: a day order book of thousands of orders, years of bars.
What is for a moment is read at once, in a few milliseconds at most; all else is for a thread.
Figures by `bench/hostile.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.errors import MalformedAnswer

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Size:
    """`values`: commas and opening brackets, which are at least the values that JSON can hold."""

    bytes_max: int
    values_max: int


FOR_A_MOMENT: Final = Size(16 * KIB, 1_000)
"""What may be read where everything else waits for it: a quote, a depth, a few orders."""
SMALL: Final = Size(64 * KIB, 5_000)
"""One object: a quote has 17 values, the row of an order 45, ten levels a side 43."""
MEDIUM: Final = Size(MIB, 50_000)
"""A portfolio of 1,000 symbols."""
LARGE: Final = Size(4 * MIB, 150_000)
"""A day order book of 3,000 orders, bars of 5 minutes of a year and a half, a catalogue of 50,000.
"""

ROWS_MAX: Final = 3_000
"""Orders of a day order book."""
LEVELS_MAX: Final = 100
"""Prices on one side of a depth; the exchanges show three to ten."""

_SMALL: Final = frozenset(
    {"user", "market_phase", "summary", "available_trade", "order_detail", "assets_summary"}
    | {"pnl_today", "place_order", "amend_order", "cancel_order"}
    | {"request_otp", "verify_otp", "revoke_token"}
)


def size_of(endpoint: Endpoint) -> Size:
    """Return how large an answer of a call may be."""
    return _SIZES[endpoint.name]


def is_for_a_moment(body: bytes) -> bool:
    """Tell whether a body may be read at once, whatever call it answers."""
    if len(body) <= FOR_A_MOMENT.values_max:  # a value has a byte at least
        return True
    is_short = len(body) <= FOR_A_MOMENT.bytes_max
    return is_short and _values_in(body) <= FOR_A_MOMENT.values_max


def check_size(endpoint: Endpoint, body: bytes) -> None:
    """Raise MalformedAnswer when an answer is larger than one of its call has a reason to be."""
    size = _SIZES[endpoint.name]
    if len(body) <= size.values_max:
        return
    if len(body) > size.bytes_max:
        wanted = f"wanted at most {size.bytes_max:,} bytes, found {len(body):,}"
        raise MalformedAnswer(endpoint.name, wanted)
    if (found := _values_in(body)) > size.values_max:
        wanted = f"wanted at most {size.values_max:,} values, found {found:,}"
        raise MalformedAnswer(endpoint.name, wanted)


def _values_in(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


_SIZES: Final[Mapping[str, Size]] = {
    **dict.fromkeys(ENDPOINTS, LARGE),
    **dict.fromkeys(("sub_accounts", "portfolio", "index_realtime"), MEDIUM),
    **dict.fromkeys((name for name in ENDPOINTS if name.endswith(("_quote", "_depth"))), SMALL),
    **dict.fromkeys(_SMALL, SMALL),
}
