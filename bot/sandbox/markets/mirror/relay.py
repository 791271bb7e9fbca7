"""What of a real broker a mirrored sandbox may ask: its market data, by GET, and nothing else.

The table holds the calls that need the API key only (broker open API 0.2.0-preview.3, tiers): no
account, no order, no second factor is among them. Whoever relays looks a call up here first.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from bot.protocol.answer import Answer, NoAnswer
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, Tier
from bot.sandbox.errors import NotRelayed

RELAYED: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        name: endpoint
        for name, endpoint in ENDPOINTS.items()
        if endpoint.method == "GET" and endpoint.tier is Tier.ONE and not endpoint.is_write
    }
)
"""Every read of market data, by its name."""

Relay = Callable[[Endpoint, str], Awaitable[Answer | NoAnswer]]
"""Asks the real broker one read of the table, by endpoint and exact target."""


def relayed(endpoint: Endpoint) -> Endpoint:
    """Return the table's own endpoint of that name; raises NotRelayed for any other call."""
    found = RELAYED.get(endpoint.name)
    if found is None or found != endpoint:
        raise NotRelayed(endpoint.method, endpoint.path)
    return found
