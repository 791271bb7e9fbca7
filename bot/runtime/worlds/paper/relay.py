"""Asks the real broker for market data on behalf of the paper broker: reads only, by construction.

Nothing here can write: the method is GET, the call is one of the sandbox's table of market reads,
and there is no two-factor token, device id or body to send.
"""

from typing import Final

from bot.broker.broker import connect
from bot.broker.link import Bounds, HttpRequest, Traffic
from bot.broker.signer import Credentials, Signer
from bot.clock import Clock
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.envelope import Answer, NoAnswer, size_of
from bot.runtime.worlds.environment import Access
from bot.sandbox.mirror_watch import relayed

LOOK_S_MAX: Final = 3.0
"""An order, with a deadline of 10 s, is taken after up to three looks."""


class MarketRelay:
    """One connection to the real broker, with the real key. Raises ForbiddenAddress."""

    def __init__(self, access: Access, device_id: str, wire: Clock) -> None:
        self._link = connect(access.base_url, traffic=Traffic(), app=access.app)
        self._signer = Signer(Credentials(access.api_key, access.api_secret, device_id), wire)

    async def __call__(self, endpoint: Endpoint, target: str) -> Answer | NoAnswer:
        """Send one read, signed with the real key. Raises NotRelayed unless it is market data."""
        signed = self._signer.sign_read(relayed(endpoint), target)
        bounds = Bounds(LOOK_S_MAX, size_of(endpoint).bytes_max)
        return await self._link.exchange(HttpRequest("GET", target, signed.headers), bounds)

    async def close(self) -> None:
        """Wait for what is under way and close the connection."""
        await self._link.close()
