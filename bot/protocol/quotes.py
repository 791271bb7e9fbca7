"""Quote and depth of a stock.

Prices are full VND. The document types them as numbers that may be fractional, but a share's price
is not an average: a fraction of a VND is malformed. Source: broker open API 0.2.0-preview.3,
unified quotes.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

from bot.domain.instrument import Exchange
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import (
    Instant,
    NotNegative,
    Positive,
    PriceOrNone,
    Symbol,
    Wire,
    Word,
    local_text,
)
from bot.protocol.shaped import decoded
from bot.protocol.sizes import LEVELS_MAX

CURRENCY: Final = "VND"


class _Quote(Wire):
    symbol: Symbol
    exchange: Word
    price: Positive
    reference: PriceOrNone = None
    ceiling: PriceOrNone = None
    floor: PriceOrNone = None
    open: PriceOrNone = None
    high: PriceOrNone = None
    low: PriceOrNone = None
    volume: NotNegative = 0
    updated_at: Instant | None = None


class _Level(Wire):
    """A level of the opening or closing auction may come with price 0, or with none."""

    price: PriceOrNone = None
    volume: NotNegative = 0


class _Depth(Wire):
    symbol: Symbol
    bids: list[_Level]
    asks: list[_Level]
    updated_at: Instant | None = None


def decode_quote(payload: Payload) -> Quote:
    """Return the quote of a stock. A price of 0 among the optional ones is None.

    Another exchange than ours is malformed: such a stock isn't traded here.
    """
    found = decoded(_Quote, payload)
    if found.exchange not in Exchange.__members__:
        raise MalformedAnswer(payload.call, "exchange: none of those traded here", payload.raw)
    return Quote(
        symbol=found.symbol,
        exchange=Exchange(found.exchange),
        last=found.price,
        reference=found.reference,
        ceiling=found.ceiling,
        floor=found.floor,
        open=found.open,
        high=found.high,
        low=found.low,
        volume=found.volume,
        updated_at=found.updated_at,
    )


def encode_quote(quote: Quote, *, name: str = "") -> dict[str, object]:
    """Return the `data` of a stock's quote. Change is against the reference, in VND and percent."""
    change = None if quote.reference is None else quote.last - quote.reference
    percent = None
    if change is not None and quote.reference:
        percent = round(change * 100 / quote.reference, 2)
    return {
        "symbol": quote.symbol,
        "name": name or quote.symbol,
        "exchange": quote.exchange,
        "currency": CURRENCY,
        "price": quote.last,
        "open": quote.open,
        "high": quote.high,
        "low": quote.low,
        "reference": quote.reference,
        "ceiling": quote.ceiling,
        "floor": quote.floor,
        "change": change,
        "change_percent": percent,
        "volume": quote.volume,
        "updated_at": _stamp(quote.updated_at),
    }


def decode_depth(payload: Payload) -> Depth:
    """Return the depth, best first whatever the order sent; levels without a price are left out.

    Levels are counted before anything is made of one: a thousand take tens of milliseconds.
    """
    sides = payload.value if isinstance(payload.value, dict) else {}
    for side in (sides.get("bids"), sides.get("asks")):
        if isinstance(side, list) and len(side) > LEVELS_MAX:
            wanted = f"wanted at most {LEVELS_MAX} levels a side, found {len(side):,}"
            raise MalformedAnswer(payload.call, wanted, payload.raw)
    found = decoded(_Depth, payload)
    return Depth(
        symbol=found.symbol,
        bids=tuple(sorted(_levels(found.bids), key=attrgetter("price"), reverse=True)),
        asks=tuple(sorted(_levels(found.asks), key=attrgetter("price"))),
        updated_at=found.updated_at,
    )


def _levels(sent: Iterable[_Level]) -> list[DepthLevel]:
    return [DepthLevel(level.price, level.volume) for level in sent if level.price is not None]


def encode_depth(depth: Depth) -> dict[str, object]:
    """Return the `data` of a stock's depth, best first."""
    return {
        "symbol": depth.symbol,
        "currency": CURRENCY,
        "bids": _encode_levels(depth.bids),
        "asks": _encode_levels(depth.asks),
        "updated_at": _stamp(depth.updated_at),
    }


def _encode_levels(levels: Sequence[DepthLevel]) -> list[dict[str, int]]:
    return [{"price": level.price, "volume": level.volume} for level in levels]


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else local_text(instant)
