"""The bot's end of the control socket, and the handlers used until the engine exists.

The socket exists exactly while a bot runs. Only its own user and root are answered. Before the
engine exists, the socket reports the state and accepts a halt in every start, and a stop while the
bot waits.
"""

import asyncio
import json
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.account import Break
from bot.domain.entry import RunState, StateChanged
from bot.domain.operations import Action, OperatorActed
from bot.journal.writing.thread import in_time
from bot.runtime.brake import Brake, Pulled
from bot.runtime.commits import Commits
from bot.runtime.control.socket import (
    FOLDER,
    LINE_MAX,
    SAFER,
    SOCKET,
    STUCK,
    Handler,
    Reply,
    Request,
    announce,
    control_folder,
    has_hung_up,
    peer_of,
    refused,
)
from bot.runtime.state_dir import make_state_dir

REMOVE_S: Final = 1.0
"""How long the end of a run waits for a disk to remove the socket."""
LOOK_S: Final = 1.0
"""How often a running bot looks for its socket: one that somebody tidied away is made again."""
_ROOT: Final = 0
_LEAVE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GIVEN_UP: Final = refused("E-CTL-003", "who asked has given up; nothing was done")
_NOT_YOURS: Final = refused("E-CTL-004", "this bot answers its own user only")
_NOT_YET: Final = (
    "the bot is STARTING and sends nothing yet; ask again when it runs: bot status --wait RUNNING"
)


class ControlServer:
    """Serves the handlers by the request's word `do`; every reply carries its `sender`."""

    def __init__(self, state_dir: Path, handlers: Mapping[str, Handler], sender: Reply) -> None:
        self._state_dir = state_dir
        self._handlers = handlers
        self._sender = sender
        self._server: asyncio.Server | None = None
        self._watching: asyncio.Task[None] | None = None
        self._announced: socket.socket | None = None
        self._inode = 0
        """Of our socket."""

    async def start(self) -> None:
        """Listen; a socket left by a killed bot is replaced (the lease has proved it dead). Raises
        OperatorMistake if the folder is not ours alone.
        """
        await self._listen()
        self._announced = announce(self._state_dir)
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Listen again where the socket is gone: a bot without one would be said not to run. What
        is there in its place is another bot's.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(OSError, OperatorMistake):
                if await in_time(self._found, REMOVE_S) is None and self._server is not None:
                    self._server.close()
                    await self._listen()

    def _found(self) -> int | None:
        """The inode of the socket that is there; None: there is none."""
        try:
            return (self._state_dir / FOLDER / SOCKET).lstat().st_ino
        except FileNotFoundError:
            return None

    def _remove(self) -> None:
        if self._found() == self._inode:
            (self._state_dir / FOLDER / SOCKET).unlink(missing_ok=True)

    async def _listen(self) -> None:
        make_state_dir(self._state_dir)
        (self._state_dir / FOLDER).mkdir(mode=0o700, exist_ok=True)
        with control_folder(self._state_dir) as folder:
            (folder / SOCKET).unlink(missing_ok=True)
            (folder / STUCK).unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX)
            try:
                listening.bind(str(folder / SOCKET))
                (folder / SOCKET).chmod(0o600)
                self._inode = (folder / SOCKET).lstat().st_ino
            except OSError:
                listening.close()
                raise
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=LINE_MAX)

    def serve(self, handlers: Mapping[str, Handler], sender: Reply) -> None:
        """Use other handlers from now on: those of a started bot."""
        self._handlers, self._sender = handlers, sender

    async def stop(self) -> None:
        """Listen no more and remove the socket, unless another's is there. One that its disk keeps
        is replaced by the next start.
        """
        if self._announced is not None:
            self._announced.close()
            self._announced = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):  # a disk that hangs (TimeoutError) or takes nothing any more
                await in_time(self._remove, REMOVE_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            connection = writer.get_extra_info("socket")
            is_ours = peer_of(connection)[1] in {os.geteuid(), _ROOT}
            reply = _NOT_YOURS
            if is_ours:
                reply = {**await self._reply_to(line, connection), **self._sender}
            writer.write(_encoded(reply))
            await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            return  # the client hung up, or the bot ends: asyncio 3.11 reports a cancelled one
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


def _encoded(reply: Reply) -> bytes:
    """Return the line of a reply, in ASCII: text from outside may hold what UTF-8 can't. A client
    that got no line would take the bot for dead, so a reply that can't be written becomes one that
    says so.
    """
    try:
        said = json.dumps(reply, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"the bot runs, but its answer can't be written ({type(error).__name__}: {error})"
        said = json.dumps(refused("E-CTL-006", text))
    return said.encode() + b"\n"


def leave_word(state_dir: Path, words: str) -> None:
    """Leave word for whoever asks a bot that can't answer; without words, take it back. Any thread
    may, and where the disk refuses, nobody is told less than without it.
    """
    path = state_dir / FOLDER / STUCK
    with suppress(OSError):
        path.unlink(missing_ok=True)
        if words:
            with os.fdopen(os.open(path, _LEAVE, 0o600), "w", encoding="utf-8") as file:
                file.write(words)


def tell_stuck(loaded: Loaded, say: Callable[[str], object], words: str) -> None:
    """Tell of a hook that does not return, while the loop can't; without words, it has returned."""
    leave_word(loaded.state_dir, words)
    if words:
        say(words)


@dataclass(slots=True)
class EarlyHalt:
    """A halt requested before the engine exists, over the socket or by the brake: one over the
    socket is journalled at once, so that this start, or the next, begins with it. `asked` is for an
    engine that has already read the journal.
    """

    commits: Commits
    now: Callable[[], datetime]
    brake: Brake
    asked: OperatorActed | None = None

    def __post_init__(self) -> None:
        self.brake.on_pulled = self._hear
        if (pulled := self.brake.look()) is not None:
            self._hear(pulled)

    def _hear(self, pulled: Pulled) -> None:
        self.asked = OperatorActed(self.now(), Action.HALT, pulled.reason, pulled.by)

    async def take(self, request: Request) -> Reply:
        """Take the halt, even if the journal cannot be written."""
        reason, by = str(request.get("reason") or ""), str(request.get("by") or "operator")
        self.brake.pull(reason, by)
        self._hear(Pulled(reason, by))
        states = RunState.STARTING, RunState.HALTED
        row = StateChanged(self.now(), *states, reason, by, scope="operator")
        await self.commits.protect(row)  # whatever prevents this ends the run, so the halt holds
        return {"ok": True}

    def hand_over(self, ask: Callable[[OperatorActed], object]) -> None:
        """The engine exists: pass it this halt, by the clock known since then, and from then on
        each that the brake sees.
        """

        def tell(pulled: Pulled) -> None:
            ask(OperatorActed(self.now(), Action.HALT, pulled.reason, pulled.by))

        self.brake.on_pulled = tell
        if self.asked is not None:
            ask(replace(self.asked, at=self.now()))


def handlers_of(
    fields: Mapping[str, object],
    *,
    halt: EarlyHalt | None = None,
    why: Callable[[], str] = lambda: "",
    refusal: Callable[[], str] = lambda: _NOT_YET,
    stop: Callable[[str, str], None] | None = None,
    breaks: Sequence[Break] = (),
) -> Mapping[str, Handler]:
    """Return the handlers used until the engine exists: the state, with `why` the start takes so
    long and the `breaks` that will hold it; the halt, if there is a journal; and a `stop` while
    waiting for the broker or (a standby) the journal. Everything else is refused, with `refusal`.
    """
    held = [
        f"{each.break_id} holds the start until it is accepted ({each.text})" for each in breaks
    ]

    async def status(_: Request) -> Reply:
        state = RunState.STARTING
        reason = why() or "reading the journal and the broker; nothing is sent yet"
        reason = "; ".join((reason, *held))
        if halt is not None:
            halt.brake.look()
        if halt is not None and halt.asked is not None:
            state = RunState.HALTED
            reason = "; ".join(filter(None, (halt.asked.reason, reason)))
        return {"ok": True, "status": {"state": state, "reason": reason, **fields}}

    async def end(request: Request) -> Reply:
        assert stop is not None
        stop(str(request.get("reason") or "stopped"), str(request.get("by") or "operator"))
        return {"ok": True}

    async def not_yet(_: Request) -> Reply:
        return refused("E-CTL-005", refusal())

    handlers: dict[str, Handler] = defaultdict(lambda: not_yet, status=status)
    if halt is not None:
        handlers["halt"] = halt.take
    if stop is not None:
        handlers["stop"] = end
    return handlers
