"""Quote and depth of a stock, and the phase of an exchange, which the broker calls its session.

Prices are full VND. The document types them as numbers that may be fractional, but a share's price
is not an average: a fraction of a VND is malformed. Source: broker open API 0.2.0-preview.3,
unified quotes and market session.

An answer in the common form is parsed directly (`read_quote`, `read_depth`); for any other they
return None and the models decide.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import MAXYEAR, UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.protocol.envelope import LEVELS_MAX, Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import (
    NotNegative,
    Positive,
    PriceOrNone,
    ShownInstant,
    Symbol,
    Wire,
    Word,
    local_text,
    with_lists,
)
from bot.protocol.shaped import decoded
from bot.protocol.strict_json import INTEGER_MAX
from bot.protocol.values.border import MarketPhase

CURRENCY: Final = "VND"
_EXCHANGES: Final[Mapping[str, Exchange]] = dict(Exchange.__members__)
_PRICES: Final = ("reference", "ceiling", "floor", "open", "high", "low")
_QUOTE_NAMES: Final = frozenset(
    {"symbol", "name", "exchange", "currency", "price", *_PRICES}
    | {"change", "change_percent", "volume", "updated_at"}
)
_DEPTH_NAMES: Final = frozenset({"symbol", "currency", "bids", "asks", "updated_at"})
_BY_PRICE: Final = attrgetter("price")
_LEVELS_REMEMBERED: Final = 4_096
"""Cached levels: a level often stays unchanged from one poll to the next."""


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
    volume: NotNegative | None = None
    updated_at: ShownInstant | None = None


class _Level(Wire):
    """A level of the opening or closing auction may have price 0 or no price."""

    price: PriceOrNone = None
    volume: NotNegative = 0


class _Depth(Wire):
    symbol: Symbol
    bids: list[_Level]
    asks: list[_Level]
    updated_at: ShownInstant | None = None


def decode_quote(payload: Payload) -> Quote:
    """Return the quote of a stock. A price of 0 among the optional ones is None.

    An exchange other than ours is malformed: the bot does not trade there.
    """
    return read_quote(payload.value) or validate_quote(payload)


def read_quote(value: object) -> Quote | None:
    """Return the quote of an answer in the common form, None for any other answer."""
    if type(value) is not dict or not value.keys() <= _QUOTE_NAMES:
        return None
    symbol, exchange, last = value.get("symbol"), value.get("exchange"), value.get("price")
    volume, updated_at = value.get("volume"), _utc_or_none(value.get("updated_at"))
    prices = [value.get(name) for name in _PRICES]
    for price in prices:
        if price is not None and not (type(price) is int and 0 <= price <= INTEGER_MAX):
            return None
    if not (
        type(symbol) is str
        and (symbol := symbol.strip().upper())
        and type(exchange) is str
        and (ours := _EXCHANGES.get(exchange.strip().upper())) is not None
        and type(last) is int
        and 0 < last <= INTEGER_MAX
        and (volume is None or (type(volume) is int and 0 <= volume <= INTEGER_MAX))
        and updated_at is not None
    ):
        return None
    reference, ceiling, floor, opened, high, low = [price or None for price in prices]
    return Quote(
        symbol, ours, last, reference, ceiling, floor, opened, high, low, volume, updated_at
    )


def _utc_or_none(stated: object) -> datetime | None:
    if type(stated) is not str:
        return None
    try:
        instant = datetime.fromisoformat(stated)
        if instant.year == MAXYEAR:
            return None  # it may have no local time: the model looks
        return instant.astimezone(UTC) if instant.tzinfo else None
    except (ValueError, OverflowError):
        return None


def validate_quote(payload: Payload) -> Quote:
    """Like `decode_quote`, through the model of a quote."""
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
    """Return the depth, best first whatever the order sent, leaving out levels without a price."""
    return read_depth(payload.value) or validate_depth(payload)


def read_depth(value: object) -> Depth | None:
    """Return the depth of an answer in the common form, None for any other answer."""
    if type(value) is not dict or not value.keys() <= _DEPTH_NAMES:
        return None
    symbol, updated_at = value.get("symbol"), _utc_or_none(value.get("updated_at"))
    if type(symbol) is not str or not (symbol := symbol.strip().upper()) or updated_at is None:
        return None
    sides: list[list[DepthLevel]] = []
    for sent in (value.get("bids"), value.get("asks")):
        if type(sent) is not list or len(sent) > LEVELS_MAX:
            return None
        side = []
        for level in sent:
            if type(level) is not dict or len(level) != 2:
                return None
            price, volume = level.get("price"), level.get("volume")
            if not (
                type(price) is int
                and 0 <= price <= INTEGER_MAX
                and type(volume) is int
                and 0 <= volume <= INTEGER_MAX
            ):
                return None
            if price:
                side.append(_level(price, volume))
        sides.append(side)
    bids, asks = sides
    bids.sort(key=_BY_PRICE, reverse=True)
    asks.sort(key=_BY_PRICE)
    return Depth(symbol, tuple(bids), tuple(asks), updated_at)


_level: Final = lru_cache(_LEVELS_REMEMBERED)(DepthLevel)


def validate_depth(payload: Payload) -> Depth:
    """Like `decode_depth`, through the model of a depth.

    Levels are counted before any is parsed: a thousand would take tens of milliseconds.
    """
    sides = payload.value if isinstance(payload.value, dict) else {}
    for side in (sides.get("bids"), sides.get("asks")):
        if isinstance(side, list) and len(side) > LEVELS_MAX:
            wanted = f"wanted at most {LEVELS_MAX} levels a side, found {len(side):,}"
            raise MalformedAnswer(payload.call, wanted, payload.raw)
    found = decoded(_Depth, with_lists(payload, ("bids", "asks")))
    return Depth(
        symbol=found.symbol,
        bids=tuple(sorted(_levels(found.bids), key=_BY_PRICE, reverse=True)),
        asks=tuple(sorted(_levels(found.asks), key=_BY_PRICE)),
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


class _MarketPhase(Wire):
    exchange: Word
    exchange_session: Word
    available_order_types: list[Any] | None = None


def decode_market_phase(payload: Payload) -> MarketPhase:
    """Return phase and order types. An unknown phase is CLOSED (see MarketPhase)."""
    found = decoded(_MarketPhase, payload)
    if found.exchange not in Exchange.__members__:
        raise MalformedAnswer(payload.call, "exchange: none of those traded here", payload.raw)
    stated, listed = found.exchange_session, found.available_order_types
    names = {name.strip().upper() for name in listed or () if isinstance(name, str)}
    known = frozenset(kind for kind in OrderType if kind.value in names)
    return MarketPhase(
        exchange=Exchange(found.exchange),
        phase=Phase(stated) if stated in Phase.__members__ else Phase.CLOSED,
        available=None if listed is None else known,
        stated=stated,
    )


def encode_market_phase(phase: MarketPhase) -> dict[str, object]:
    """Return the `result` of the market session; types are in the order of their enumeration."""
    available = phase.available or frozenset()
    return {
        "exchange": phase.exchange,
        "exchange_session": phase.stated,
        "available_order_types": [kind.value for kind in OrderType if kind in available],
    }
