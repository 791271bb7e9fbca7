"""A raw server on loopback that a test scripts byte by byte, and the clocks that tests wait on."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.clock import SimulatedClock

START = datetime(2026, 11, 19, 2, 14, 55, tzinfo=UTC)


class JumpingWaiter:
    """A waiter whose clock jumps to the instant waited for."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.waits: list[datetime] = []

    def now(self) -> datetime:
        return self.clock.now()

    async def sleep_until(self, instant: datetime) -> None:
        self.waits.append(instant)
        if instant > self.clock.now():
            self.clock.advance_to(instant)


@dataclass
class RawRequest:
    """A request with the bytes as they came over the wire."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode().split("\r\n")[1:]
        pairs = (line.split(": ", 1) for line in lines if line)
        return {name.lower(): value for name, value in pairs}


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, "RawServer"], Awaitable[None]]


@dataclass
class RawServer:
    """What the server has seen."""

    port: int = 0
    connections: int = 0
    requests: list[RawRequest] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def read(self, reader: asyncio.StreamReader) -> RawRequest:
        head = await reader.readuntil(b"\r\n\r\n")
        request = RawRequest(head, b"")
        request.body = await reader.readexactly(int(request.headers.get("content-length", "0")))
        self.requests.append(request)
        return request


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    """Serve every connection by `script` until the block ends."""
    seen = RawServer()
    open_tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        task = asyncio.current_task()
        assert task is not None
        open_tasks.add(task)
        try:
            await script(reader, writer, seen)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            open_tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in set(open_tasks):
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)


def reply(
    body: bytes = b"{}", *, status: str = "200 OK", headers: str = "", length: int | None = None
) -> bytes:
    """A complete HTTP/1.1 answer, unless `length` differs from the body's."""
    stated = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Length: {stated}\r\n{headers}\r\n"
    return head.encode() + body


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
