"""How values are shown: local times, orders, durations, rejections. Pure."""

from datetime import timedelta
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from bot.domain.entry import Decision, OrderUpdated
from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.order import type_word
from bot.domain.visible import visible

if TYPE_CHECKING:
    from bot.journal.reading.values import OrderRow

LINE_MAX: Final = 100
LINES_MAX: Final = 8
SIGNALLED: Final = "signal"
"""The actor if it was a signal: its name is the reason."""
BY_OPERATOR: Final = "operator"
"""The actor if it was a person: the reason is in their own words."""
_ACTORS: Final = {BY_OPERATOR: "by you", "journal": "as before the restart"}
PHRASES: Final = {
    "biên độ": "price outside the day's band",
    "bước giá": "price off the tick",
    "sức mua": "more than the buying power",
    "chứng khoán được bán": "more shares than can be sold",
    "đóng cửa": "the market is closed",
    "ngược chiều": "you have an order on the other side",
}
"""Phrases in the broker's reason that say what was wrong: they say more than the code."""
CODES: Final = {
    "-400116": "more than the buying or selling power",
    "QMAX_EXCEED": "more than the buying or selling power",
    "-900017": "invalid price or lot",
    "-10011": "invalid price or lot",
    "INVALID_PRICE_LOT": "invalid price or lot",
    "-700106": "invalid price or quantity",
    "-700104": "invalid quantity",
    "-700105": "invalid quantity",
    "-700114": "odd lots must be LIMIT orders",
    "-300025": "not in this market session",
    "-100113": "order type not accepted in this session",
    "INVALID_ORDER_TYPE_FOR_THIS_SESSION": "order type not accepted in this session",
    "-400099": "the symbol may not be traded here",
    "-700069": "the symbol is restricted or halted",
    "CAN_NOT_PLACE_ORDER_ON_HALTED_SYMBOL": "the symbol is restricted or halted",
    "-701111": "only the unmatched part was changed",
    "MUST_PUBLISH_TRADE_INFO": "the trade must be disclosed first",
}
"""A code covers several reasons, and the list is open. Source: broker open API 0.2.0-preview.3,
order-level codes."""


def span_of(span: timedelta) -> str:
    """`45s`, `8m`, `5h02`; seconds are dropped from a minute on."""
    seconds = int(span.total_seconds())
    if seconds < 60:
        return f"{seconds}s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}h{minutes:02}" if hours else f"{minutes}m"


def phase_of(phase: str) -> str:
    """`continuous` for PROGRESS, in the words of a run."""
    return PHASE_WORDS[Phase(phase)]


def order_words(
    *,
    side: str | None,
    quantity: int | None,
    symbol: str,
    order_type: str | None = None,
    price: int | None = None,
) -> str:
    """`BUY 100 FPT LIMIT 132,000`, as far as known."""
    parts = (
        side,
        f"{quantity:,}" if quantity is not None else None,
        symbol,
        type_word(order_type or ""),
        f"{price:,}" if price is not None else None,
    )
    return " ".join(filter(None, parts))


def order_in(entry: "Decision | OrderUpdated | OrderRow") -> str:
    """The complete order that a decision or a row is about."""
    return order_words(
        side=entry.side,
        quantity=entry.quantity,
        symbol=entry.symbol,
        order_type=entry.order_type,
        price=entry.price,
    )


def by_words(by: str, reason: str) -> str:
    """The actor and the reason: `by you: lunch`, `by SIGUSR1`; for the bot's own actions only the
    reason.
    """
    if by == SIGNALLED:
        return f"by {reason}"
    if (who := _ACTORS.get(by)) is None:
        return reason
    return f"{who}: {reason}" if reason else who


def known_reason(code: str | None, reason: str | None) -> str:
    """Why the broker rejected an order; empty if neither its text nor its code is known."""
    text = (reason or "").casefold()
    by_phrase = (words for phrase, words in PHRASES.items() if phrase in text)
    return next(by_phrase, CODES.get(code or "", ""))


def rejection_words(code: str | None, reason: str | None) -> str:
    """`price outside the day's band (-900017)`: what was wrong, then the broker's code."""
    words = known_reason(code, reason)
    return f"{words} ({code})" if words and code else words or code or "no code given"


def folded(line: str, *, indent: int, limit: int = LINE_MAX) -> list[str]:
    """Fold a line to `limit` columns, with continuation lines indented; it is cut after 800
    characters.

    Only a word longer than a line is split. Text from outside is made visible before it is
    measured.
    """
    line = visible(line)
    if len(line) <= limit:
        return [line]
    return wrap(
        line,
        limit,
        subsequent_indent=" " * indent,
        max_lines=ceil(LINES_MAX * LINE_MAX / limit),
        placeholder=" …",
        break_on_hyphens=False,
    )


def counted(count: int, one: str, many: str = "") -> str:
    """`1 order`, `2 orders`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
