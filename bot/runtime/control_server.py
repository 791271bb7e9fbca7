"""The bot's end of the control socket, which exists exactly while a bot runs."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from bot.runtime.control import LINE_MAX, Handler, Reply, socket_path


class ControlServer:
    """Serves the handlers by the request's word `do`; every reply carries its `sender`."""

    def __init__(self, state_dir: Path, handlers: Mapping[str, Handler], sender: Reply) -> None:
        self._path = socket_path(state_dir)
        self._handlers = handlers
        self._sender = sender
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; a socket left by a killed bot is replaced (the lease has proved that it is
        dead).
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LINE_MAX)
        self._path.chmod(0o600)

    async def stop(self) -> None:
        """Listen no more and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            reply = {**await self._reply(line), **self._sender}
            writer.write(json.dumps(reply, ensure_ascii=False, default=str).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            return  # the asker hung up, or the bot ends: asyncio 3.11 reports a cancelled one
        finally:
            writer.close()

    async def _reply(self, line: bytes) -> Reply:
        try:
            request = json.loads(line)
            handler = self._handlers[request["do"]]
        except (ValueError, KeyError, TypeError):
            return {"ok": False, "code": "E-CTL-001", "message": "not a request this bot knows"}
        return await handler(request)
