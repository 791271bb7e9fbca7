"""How a command line reaches the running bot: a socket in a private folder.

One JSON object per line in, one out. Commands such as `bot status`, `pause` and `otp` use it;
`server.py` has its other end. Codes and tokens pass through it and are never stored or logged, so
each side verifies the other: folder and process must belong to one user. The folder is opened once
and accessed by its descriptor, so that nobody can swap it meanwhile, and a state directory may have
a path of any length (a socket's own path holds 107 bytes).

A client of a stopped or hanging bot gives up at some time and closes its end. When the bot moves
again, it does not carry out such a request unless it only makes things safer.
"""

import json
import os
import select
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bot.config.private_files import name_of
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.visible import visible

Request = Mapping[str, object]
Reply = Mapping[str, object]
Handler = Callable[[Request], Awaitable[Reply]]


def refused(code: str, message: str) -> Reply:
    """Return a reply that says why something was not done."""
    return {"ok": False, "code": code, "message": message}


LINE_MAX: Final = 1 << 20
STUCK_MAX: Final = 1_000
WHOLE_MAX: Final = 10**12
"""Upper limit of a number of VND or of shares in a request, as for a strategy: a larger one is a
mistake, and fits no database.
"""
REPLY_MAX: Final = 1 << 26
"""More than the largest broker answer that a bot passes on."""
ASK_TIMEOUT_S: Final = 30.0
SILENT_S: Final = 1.5
"""After this long without an answer the client is told that there is none yet."""
SAFER: Final = frozenset({"halt", "pause"})
"""What a bot does even if the client has given up; but it sells nothing for such a request."""
AT_THE_BROKER: Final = frozenset({"otp_request", "otp_submit", "otp_revoke"})
"""Changes whose answer waits for the broker: one that the bot has read is done even if the client
gives up meanwhile.
"""
FOLDER: Final = "control"
SOCKET: Final = "socket"
STUCK: Final = "stuck"
"""Beside the socket while a hook keeps the bot from answering: which one."""
_ANNOUNCED: Final = "vnbot:"
"""Before a state directory in the name of a socket in the system's memory. It needs no folder that
a service may write to, and ends with its process.
"""
_NAMES: Final = Path("/proc/net/unix")
_OTHERS: Final = 0o077
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as SO_PEERCRED gives them."""


class NoBotRunning(Exception):
    """Nothing answers at the control socket of this state directory."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(f"no bot is running on {state_dir}")
        self.state_dir = state_dir


@contextmanager
def control_folder(state_dir: Path) -> Iterator[Path]:
    """Open the folder of the control socket; yield a path to it that stays the same folder.

    Raises OSError, and OperatorMistake for a folder that is not its owner's alone.
    """
    folder = state_dir / FOLDER
    if folder.is_symlink():
        raise not_ours(f"{folder} is a link, and could lead to somebody else's bot. Remove it")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise not_ours(_run_as(folder, found.st_uid))
        if found.st_mode & _OTHERS:
            mode = found.st_mode & 0o777
            raise not_ours(f"{folder} is open to others (mode {mode:04o}). Do: chmod 700 {folder}")
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _run_as(folder: Path, owner: int) -> str:
    return f"{folder} belongs to user {name_of(owner)}: run this as that user"


def _whose(path: Path) -> str:
    """Return which folder on the way to a path keeps this user out, if another one owns it."""
    for folder in path.parents:
        try:
            owner = folder.stat().st_uid
        except PermissionError:
            continue
        return "" if owner == os.geteuid() else _run_as(folder, owner)
    return ""


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process at the other end, and its user."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(packed)
    return int(process), int(user)


def has_hung_up(connection: socket.socket) -> bool:
    """Return whether the client is gone and nobody waits for the answer."""
    looking = select.poll()
    looking.register(connection.fileno(), 0)  # a closed connection is always reported
    return bool(looking.poll(0))


def not_ours(text: str) -> OperatorMistake:
    """Say why nothing was sent or answered."""
    return OperatorMistake.of("E-CTL-004", f"{text}. Nothing was sent", ExitCode.DATABASE)


def stuck_words(state_dir: Path) -> str:
    """Return what a bot that can't answer has left there; empty if nothing."""
    try:
        text = (state_dir / FOLDER / STUCK).read_text("utf-8", errors="replace")
    except OSError:
        return ""
    return visible(text, STUCK_MAX)


def _listens(folder: Path) -> bool:
    """Return whether a bot listens at the control socket: the first thing that a dying one ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SILENT_S)
        try:
            connection.connect(str(folder / SOCKET))
        except (BlockingIOError, TimeoutError):
            return True
        except OSError:
            return False
    return True


def announce(state_dir: Path) -> socket.socket:
    """Make a bot's state directory known as long as the socket is open, but for one whose path is
    longer than its name may be. Nobody is answered there.
    """
    named = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        named.bind(b"\0" + os.fsencode(f"{_ANNOUNCED}{state_dir}"))
    return named


def announced() -> tuple[Path, ...]:
    """Return the state directories that are known so. Anybody may name one: see who runs there."""
    try:
        lines = os.fsdecode(_NAMES.read_bytes()).splitlines()
    except OSError:
        return ()
    found = (line.partition(f" @{_ANNOUNCED}")[2] for line in lines)
    return tuple(Path(each) for each in sorted({*found} - {""}))


def is_there(state_dir: Path) -> bool:
    """Return whether a bot runs there, also one that does not answer. Raises OperatorMistake if its
    folder is not its owner's alone.
    """
    try:
        with control_folder(state_dir) as folder:
            return _listens(folder)
    except OSError:
        return False


def ask(
    state_dir: Path,
    request: Request,
    *,
    timeout_s: float = ASK_TIMEOUT_S,
    on_silence: Callable[[int], object] = lambda _: None,
) -> dict[str, object]:
    """Send one request to the running bot and return its reply; call `on_silence` with the process
    that does not answer at once.

    Raises NoBotRunning, TimeoutError, OperatorMistake if it is not certainly ours, the request is
    too long or it gives no answer, and PermissionError for a folder of this user's own.
    """
    path = state_dir / FOLDER / SOCKET
    # Bytes of a command line that are no UTF-8 arrive as surrogates, and leave as question marks.
    said = json.dumps(dict(request), ensure_ascii=False).encode(errors="replace") + b"\n"
    if len(said) > LINE_MAX:
        text = f"the bot takes at most {LINE_MAX:,} bytes at once, and this is {len(said):,}"
        raise OperatorMistake.of("E-CTL-001", f"{text}. Nothing was sent", ExitCode.USAGE)
    try:
        with control_folder(state_dir) as folder, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(folder / SOCKET))
            process, user = peer_of(connection)
            if user != os.geteuid():
                raise not_ours(f"a process of user {name_of(user)}, not yours, listens at {path}")
            connection.sendall(said)
            if timeout_s > SILENT_S and not select.select([connection], [], [], SILENT_S)[0]:
                on_silence(process)
                connection.settimeout(timeout_s - SILENT_S)
            with connection.makefile("rb") as stream:
                line = stream.readline(REPLY_MAX)
            if not line.endswith(b"\n") and _listens(folder):
                text = f"the bot on {state_dir} runs, but gave no answer to '{request['do']}'"
                raise OperatorMistake.of("E-CTL-006", text, ExitCode.REFUSED)
    except BlockingIOError as error:
        raise TimeoutError("too many requests wait for the bot") from error
    except (FileNotFoundError, NotADirectoryError, ConnectionError) as error:
        raise NoBotRunning(state_dir) from error
    except PermissionError as error:
        if theirs := _whose(path):
            raise not_ours(theirs) from error
        raise PermissionError(error.errno, error.strerror, str(path)) from error
    if not line.endswith(b"\n"):
        raise NoBotRunning(state_dir)
    reply: dict[str, object] = json.loads(line)
    return reply
