"""The connection under a request, for faults that drop it, hold it or feed it byte by byte.

`serve` puts the transport into the request's scope. In process there is none: dropping the
connection then raises ConnectionCut out of the application.
"""

import asyncio
import gzip
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice, repeat
from typing import Final, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bot.sandbox.errors import ConnectionCut
from bot.sandbox.faults.script import Action, Cut, FaultPoint, Trickle, Truncate, Wait

TRANSPORT: Final = "vnbot.transport"
_LINGER_ZERO: Final = struct.pack("ii", 1, 0)
_TURNS_TO_CLOSE: Final = 3
_DRIPS_PER_S_MAX: Final = 10
_CHUNK: Final = 64 * 1024
_BOMB_MEMBER: Final = 16 * 2**20
_BOMB_MEMBERS: Final = 64
_IN_PROCESS_MAX: Final = 32 * 2**20
"""Without a wire the response is collected in memory: this exceeds every client's limit."""

Ending = Literal["rst", "fin"]
Sleep = Callable[[float], Awaitable[None]]


async def cut(scope: Scope, ending: Ending) -> None:
    """Drop the connection: hard (`rst`), or in an orderly way after what was written (`fin`)."""
    transport = _transport(scope)
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


def _transport(scope: Scope) -> asyncio.WriteTransport | None:
    found: asyncio.WriteTransport | None = scope.get("extensions", {}).get(TRANSPORT)
    return found


def _is_gone(scope: Scope) -> bool:
    transport = _transport(scope)
    return transport is not None and transport.is_closing()


class NoResponse(Response):
    """No answer at all: the connection is dropped."""

    def __init__(self, ending: Ending) -> None:
        super().__init__()
        self._ending: Ending = ending

    async def __call__(self, scope: Scope, _: Receive, __: Send) -> None:
        await cut(scope, self._ending)


class _Dropped(Exception):
    """The connection has been dropped: nothing more may be sent."""


class FaultyResponse(Response):
    """A response disturbed on its way out, as `plan` says for each point."""

    def __init__(self, whole: Response, plan: Mapping[FaultPoint, Action], sleep: Sleep) -> None:
        super().__init__(whole.body, whole.status_code)
        self.raw_headers = whole.raw_headers
        self._plan = plan
        self._sleep = sleep

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        try:
            rest = await self._at(FaultPoint.HEADERS_SENT, bytes(self.body), scope, send)
            action = self._plan.get(FaultPoint.MID_BODY)
            if action is not None and rest:
                half = action.length if isinstance(action, Truncate) else len(rest) // 2
                await _send_part(send, rest[:half])
                rest = await self._at(FaultPoint.MID_BODY, rest[half:], scope, send)
            await send({"type": "http.response.body", "body": rest})
            await self._at(FaultPoint.AFTER_BODY, b"", scope, send)
        except _Dropped:
            return

    async def _at(self, point: FaultPoint, rest: bytes, scope: Scope, send: Send) -> bytes:
        """Do what is due at this point and return what is left to send."""
        ending: Ending | None = None
        match self._plan.get(point):
            case Cut() as action:
                ending = action.do
            case Truncate():
                ending = "fin"
            case Wait() as action:
                await self._sleep(action.seconds)
                ending = "fin" if action.do == "hang" else None
            case Trickle() as action:
                for drop, pause_s in _drops(action, rest):
                    if _is_gone(scope):
                        raise _Dropped
                    await _send_part(send, drop)
                    await self._sleep(pause_s)
                return b""
            case _:
                pass
        if ending is not None:
            await cut(scope, ending)
            raise _Dropped
        return rest


class SlowResponse(Response):
    """A whole response, head and body, at some bytes a second; then the connection is dropped."""

    def __init__(self, whole: Response, action: Trickle, sleep: Sleep) -> None:
        super().__init__(whole.body, whole.status_code)
        self.raw_headers = whole.raw_headers
        self._action = action
        self._sleep = sleep

    async def __call__(self, scope: Scope, _: Receive, __: Send) -> None:
        transport = _transport(scope)
        headers = b"".join(name + b": " + value + b"\r\n" for name, value in self.raw_headers)
        raw = b"HTTP/1.1 %d Dripped\r\n%b\r\n%b" % (self.status_code, headers, bytes(self.body))
        for drop, pause_s in _drops(self._action, raw):
            if transport is not None and not transport.is_closing():
                transport.write(drop)
            elif transport is not None:
                return
            await self._sleep(pause_s)
        await cut(scope, "fin")


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


def _drops(action: Trickle, body: bytes) -> Iterator[tuple[bytes, float]]:
    size = max(1, round(action.bytes_per_s / _DRIPS_PER_S_MAX))
    for start in range(0, len(body), size):
        yield body[start : start + size], size / action.bytes_per_s


class LongResponse(Response):
    """A response generated while it is sent, longer than anybody should read; stops with the
    client.
    """

    def __init__(self, chunks: Iterable[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self.headers.update(headers)
        self._chunks = chunks

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        sent, sent_max = 0, _IN_PROCESS_MAX if _transport(scope) is None else None
        for chunk in self._chunks:
            if _is_gone(scope) or (sent_max is not None and sent >= sent_max):
                break
            await _send_part(send, chunk)
            sent += len(chunk)
        else:
            await send({"type": "http.response.body"})


def huge(length: int) -> LongResponse:
    """Return an answer of `length` bytes that begins like a valid one."""
    start, filling = b'{"error_code":"0","data":"'[:length], b"x" * _CHUNK
    whole, rest = divmod(length - len(start), _CHUNK)
    chunks = (
        chunk for part in ([start], repeat(filling, whole), [filling[:rest]]) for chunk in part
    )
    return LongResponse(chunks, {"content-type": "application/json", "content-length": str(length)})


def gzip_bomb() -> LongResponse:
    """Return a response of a megabyte of gzip that unpacks to a gigabyte."""
    member = _bomb_member()
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    headers["content-length"] = str(len(member) * _BOMB_MEMBERS)
    return LongResponse(islice(repeat(member), _BOMB_MEMBERS), headers)


@cache
def _bomb_member() -> bytes:
    """Gzip allows many members one after another; each unpacks to 16 MB."""
    return gzip.compress(bytes(_BOMB_MEMBER), mtime=0)
