"""The phase of an exchange, which the broker calls its session.

Source: broker open API 0.2.0-preview.3, market session.
"""

from typing import Any

from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import Wire, Word
from bot.protocol.shaped import decoded
from bot.protocol.values.border import MarketPhase


class _MarketPhase(Wire):
    exchange: Word
    exchange_session: Word
    available_order_types: list[Any] | None = None


def decode_market_phase(payload: Payload) -> MarketPhase:
    """Return phase and order types. A phase that we do not know is CLOSED (see MarketPhase)."""
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
    """Return the `result` of the market session; types stand in the order of their enumeration."""
    available = phase.available or frozenset()
    return {
        "exchange": phase.exchange,
        "exchange_session": phase.stated,
        "available_order_types": [kind.value for kind in OrderType if kind in available],
    }
