"""The connection under a request, for faults that drop it.

`serve` puts the transport into the request's scope. In process there is none: dropping the
connection then raises ConnectionCut out of the application.
"""

import asyncio
import socket
import struct
from typing import Final, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bot.sandbox.errors import ConnectionCut

TRANSPORT: Final = "vnbot.transport"
_LINGER_ZERO: Final = struct.pack("ii", 1, 0)
_TURNS_TO_CLOSE: Final = 3

Ending = Literal["rst", "fin"]


async def cut(scope: Scope, ending: Ending) -> None:
    """Drop the connection: hard (`rst`), or politely after what was written (`fin`)."""
    transport = scope.get("extensions", {}).get(TRANSPORT)
    if transport is None:
        raise ConnectionCut(f"the scenario cut this connection ({ending})")
    if ending == "rst":
        under = transport.get_extra_info("socket")
        under.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        transport.abort()
    else:
        transport.close()
    for _ in range(_TURNS_TO_CLOSE):
        await asyncio.sleep(0)


class Nothing(Response):
    """No answer at all: the connection is dropped."""

    def __init__(self, ending: Ending) -> None:
        super().__init__()
        self._ending: Ending = ending

    async def __call__(self, scope: Scope, _: Receive, __: Send) -> None:
        await cut(scope, self._ending)


class Truncated(Response):
    """An answer that ends after `length` bytes of its body, whatever its Content-Length says."""

    def __init__(self, whole: Response, length: int) -> None:
        super().__init__(whole.body, whole.status_code)
        self.raw_headers = whole.raw_headers
        self._length = length

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        part = bytes(self.body)[: self._length]
        await send({"type": "http.response.body", "body": part, "more_body": True})
        await cut(scope, "fin")
