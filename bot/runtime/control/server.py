"""The bot's end of the control socket, which exists exactly while a bot runs.

Only its own user and root are answered.
"""

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from bot.journal.thread import in_time
from bot.runtime.control.socket import (
    FOLDER,
    LINE_MAX,
    SAFER,
    SOCKET,
    Handler,
    Reply,
    control_folder,
    has_hung_up,
    peer_of,
    refused,
)
from bot.runtime.state_dir import make_state_dir

REMOVE_S: Final = 1.0
"""How long the end of a run waits for a disk to remove the socket."""
_ROOT: Final = 0
_GIVEN_UP: Final = refused("E-CTL-003", "who asked has given up; nothing was done")
_NOT_YOURS: Final = refused("E-CTL-004", "this bot answers its own user only")


class ControlServer:
    """Serves the handlers by the request's word `do`; every reply carries its `sender`."""

    def __init__(self, state_dir: Path, handlers: Mapping[str, Handler], sender: Reply) -> None:
        self._state_dir = state_dir
        self._handlers = handlers
        self._sender = sender
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; a socket left by a killed bot is replaced (the lease has proved that it is
        dead). Raises OperatorMistake where the folder is not ours alone.
        """
        make_state_dir(self._state_dir)
        (self._state_dir / FOLDER).mkdir(mode=0o700, exist_ok=True)
        with control_folder(self._state_dir) as folder:
            (folder / SOCKET).unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX)
            try:
                listening.bind(str(folder / SOCKET))
                (folder / SOCKET).chmod(0o600)
            except OSError:
                listening.close()
                raise
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=LINE_MAX)

    def serve(self, handlers: Mapping[str, Handler], sender: Reply) -> None:
        """Answer by other handlers from now on: those of a bot that has started."""
        self._handlers, self._sender = handlers, sender

    async def stop(self) -> None:
        """Listen no more and remove the socket; once, for the next one there is another's. One that
        its disk keeps is replaced by the next start.
        """
        if self._server is not None:
            self._server.close()
            self._server = None
            removing = partial((self._state_dir / FOLDER / SOCKET).unlink, missing_ok=True)
            with suppress(OSError):  # a disk that hangs (TimeoutError) or takes nothing any more
                await in_time(removing, REMOVE_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            connection = writer.get_extra_info("socket")
            is_ours = peer_of(connection)[1] in {os.geteuid(), _ROOT}
            reply = _NOT_YOURS
            if is_ours:
                reply = {**await self._reply_to(line, connection), **self._sender}
            writer.write(json.dumps(reply, ensure_ascii=False, default=str).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            return  # the asker hung up, or the bot ends: asyncio 3.11 reports a cancelled one
        finally:
            writer.close()

    async def _reply_to(self, line: bytes, connection: socket.socket) -> Reply:
        try:
            request = json.loads(line)
            handler = self._handlers[request["do"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return refused("E-CTL-001", "not a request this bot knows")
        if has_hung_up(connection):
            if request["do"] not in SAFER:
                return _GIVEN_UP
            request = {**request, "flatten": False}
        return await handler(request)
