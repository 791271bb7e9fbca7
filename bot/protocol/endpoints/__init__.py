"""The calls of the broker's API as a table: one row each, with its parameters and its answer.

A new call is a row in one of these modules, a type in `protocol/values/` and an answer in
`sandbox/library/`; the client, `bot api`, the sandbox's checks and the conformance run all follow
the row. Names and words are those of the wire. The tier is determined by method and path: only GETs
of market data are tier 1 and need no signature. Source: broker open API 0.2.0-preview.3, all its
sections, and the earlier market paths that public clients still call.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.quotes import QUOTES
from bot.protocol.endpoints.reference import REFERENCE
from bot.protocol.endpoints.trading import TRADING

ENDPOINTS: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {row.name: row for row in (*TRADING, *QUOTES, *REFERENCE)}
)
"""Every call by its name, in the order of the document."""
