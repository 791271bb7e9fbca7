"""How a command line reaches the running bot: a socket file beside the journal, for its owner only.

One JSON object per line in, one out. The socket is what `bot status`, `pause`, `otp` and the like
talk to; `control_server.py` holds its other end. Codes and tokens pass through it and are never
kept or logged.
"""

import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

Request = Mapping[str, object]
Reply = Mapping[str, object]
Handler = Callable[[Request], Awaitable[Reply]]

LINE_MAX: Final = 1 << 20
ASK_TIMEOUT_S: Final = 30.0
_PATH_MAX: Final = 100
"""A socket path holds 107 bytes; longer ones move to a short directory of their own."""


class NoBotRunning(Exception):
    """Nothing answers at the control socket of this state directory."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(f"no bot is running on {state_dir}")
        self.state_dir = state_dir


def socket_path(state_dir: Path) -> Path:
    """Return where the control socket of a state directory is."""
    path = state_dir / "control.sock"
    if len(str(path).encode()) <= _PATH_MAX:
        return path
    short = sha256(str(state_dir.resolve()).encode()).hexdigest()[:16]
    return Path("/tmp") / f"vnbot-{short}" / "control.sock"  # noqa: S108 - made 0700 below


def ask(
    state_dir: Path, request: Request, *, timeout_s: float = ASK_TIMEOUT_S
) -> dict[str, object]:
    """Send one request to the running bot and return its reply.

    Raises NoBotRunning, TimeoutError, and PermissionError for the bot of somebody else.
    """
    path = socket_path(state_dir)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(dict(request)).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline(LINE_MAX)
        except (FileNotFoundError, NotADirectoryError, ConnectionError) as error:
            raise NoBotRunning(state_dir) from error
        except PermissionError as error:
            raise PermissionError(error.errno, error.strerror, str(path)) from error
    if not line:
        raise NoBotRunning(state_dir)
    reply: dict[str, object] = json.loads(line)
    return reply
