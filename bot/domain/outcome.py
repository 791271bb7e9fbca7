"""What we know after an order write: accepted, refused, not sent, or unknown.

Refused and not sent are certain, unknown is not; an unknown write is never sent again.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bot.domain.order import OrderResult


class Resolution(StrEnum):
    """What a nonce burn proved about an unknown POST (`order-safety.md`, section 5)."""

    FRESH = "FRESH"
    REACHED = "REACHED"


TWO_FACTOR_CODES: Final = frozenset(
    {
        "OTP_SESSION_REQUIRED",
        "OTP_SESSION_EXPIRED",
        "OTP_SESSION_INVALID",
        "OTP_SESSION_REVOKED",
    }
)
"""The four codes that close the gate for writes (broker API, section 3)."""
ORDER_WORDS: Final = frozenset(
    {
        "QMAX_EXCEED",
        "INVALID_PRICE_LOT",
        "INVALID_ORDER_TYPE_FOR_THIS_SESSION",
        "CAN_NOT_PLACE_ORDER_ON_HALTED_SYMBOL",
        "MUST_PUBLISH_TRADE_INFO",
    }
)
"""The order-level codes that are words (broker API, section 6.2). `FAILED` is not among them: it
says nothing of the order.
"""
_UNAUTHORISED: Final = frozenset({401, 403})
"""The document has 403 for those codes; they say the same under a 401."""

LACKS_2FA: Final = "TWO_FACTOR"
"""Prefix of the reason when a write was not sent only because a 2FA token was missing."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The broker has the order (or applied the change); `result` echoes what was sent."""

    result: OrderResult


@dataclass(frozen=True, slots=True)
class Refused:
    """Definitely not done. `code` is an order-level code, an `error_code`, or the HTTP status as
    text.

    `result` is the row when the refusal came inside an HTTP 200. `retry_after_s` is set on a 429.
    `is_of_old_token`: the refusal says nothing about the 2FA token we hold now.
    """

    code: str
    reason: str
    http_status: int
    result: OrderResult | None = None
    retry_after_s: float | None = None
    is_of_old_token: bool = False

    @property
    def needs_two_factor(self) -> bool:
        """True when the same request would pass with a fresh 2FA token."""
        return self.http_status in _UNAUTHORISED and self.code in TWO_FACTOR_CODES


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the request was written."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may or may not have been carried out. Only the day order book can tell. `result`
    is that of an answer to a change which names another id.
    """

    reason: str
    http_status: int | None = None
    result: OrderResult | None = field(default=None, compare=False)


Outcome = Accepted | Refused | NotSent | Unknown
