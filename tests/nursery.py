"""Forks processes of `bot`: this module, run as a program, imports the command line once for all.

It receives commands over the socket that is its standard input, one JSON object per message, and
answers with one number: a process id, or the exit code of a finished process (negative for a
signal). When the socket is closed, it ends together with everything it has started.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from bot.cli.main import leave, main, walk
from bot.config.rulebook import load_rulebook

MESSAGE_MAX: Final = 1 << 17
STREAMS: Final = 2
_LATER: Final = (
    "alembic.command",
    "bot.runtime.worlds.sandbox",
    "pydantic_settings",
    "bot.sandbox.library.library",
    "uvicorn.protocols.http.h11_impl",
)
"""What a bot imports only when it needs it."""


def _serve(channel: socket.socket) -> None:
    """Carry out commands until the socket is closed."""
    started: set[int] = set()
    while True:
        message, streams, _, _ = socket.recv_fds(channel, MESSAGE_MAX, STREAMS)
        if not message:
            break
        asked = json.loads(message)
        if "over" in asked:
            started.discard(asked["over"])
            answer = os.waitstatus_to_exitcode(os.waitpid(asked["over"], 0)[1])
        else:
            answer = _fork(channel, streams, **asked)
            started.add(answer)
        channel.send(str(answer).encode())
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork(
    channel: socket.socket,
    streams: Sequence[int],
    *,
    arguments: Sequence[str],
    environment: dict[str, str],
) -> int:
    """Start `bot` with arguments; in the new process, end with it."""
    pid = os.fork()
    if pid == 0:
        channel.close()
        os.environ.clear()
        os.environ.update(environment)
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
        # As by nohup where that is asked for, and never because the tests themselves run by it.
        is_ignored = "NOHUP" in environment
        signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    for stream in streams:
        os.close(stream)
    if pid:
        return pid
    try:
        main(arguments)
    except SystemExit as ended:
        leave(ended)


if __name__ == "__main__":
    list(walk())
    load_rulebook()
    for name in _LATER:
        import_module(name)
    talk = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    _serve(talk)
