"""A broker that knows our key and answers each call with 403."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def forbidding(code: str = "403", message: str = "Forbidden") -> AsyncIterator[str]:
    """Serve it; yield its address. It is no sandbox, so the clocks of one are not found there."""
    body = json.dumps({"error_code": code, "message": message}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\r\n\r\n")
        is_sandbox = b"sandbox" in line.partition(b"\r\n")[0]
        status, given = ("404 Not Found", b"") if is_sandbox else ("403 Forbidden", body)
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(given)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + given)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
