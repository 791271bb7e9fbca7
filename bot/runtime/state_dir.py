"""The private state directory, created when a bot first needs it, and the token in it.

There are only five codes a day, so a restart should not need another: the 2FA token is stored in a
private file, with its end, until it is dropped. The file holds the token in clear text, as the
systemd unit's own state does; it is worthless after midnight.
"""

import errno
import json
import os
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.config.private_files import replace_private, sync_names
from bot.config.problems import ExitCode, OperatorMistake
from bot.journal.writing.aside import begin
from bot.protocol.secret import Secret

LEDGER: Final = "sandbox.jsonl"
"""The embedded broker's ledger, beside the journal. The bot never reads it."""
SECOND_FACTOR: Final = "two-factor.json"
_OF_ITS_UNIT: Final = (
    "A service may write only to the folders that its unit names: after a change of state_dir, "
    "once more bot service install"
)
DISK_S: Final = 0.5
"""How long a running bot waits for the disk to keep or forget a token: nothing else is done then.
"""


def make_state_dir(path: Path) -> None:
    """Create the folder if needed. Raises OperatorMistake, whatever prevents it; also where it is
    there and can't be written to, as in a service whose unit names another.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if isinstance(error, FileExistsError):
            reason = "it exists and is not a folder"
        text = (
            f"{path}: this folder, for journal and state, cannot be made ({reason}). Check "
            "permissions and free space there, or choose another: --state-dir DIR, or state_dir in "
            "bot.yaml"
        )
        if error.errno == errno.EROFS:
            text += f". {_OF_ITS_UNIT}"
        raise OperatorMistake.of("E-SYS-001", text, ExitCode.DATABASE) from error


def keep_token(state_dir: Path, token: Secret, until: datetime) -> None:
    """Write the token, mode 0600, atomically replacing an earlier one; it outlives a cut of the
    power.

    Raises OSError, and then leaves nothing half written.
    """
    kept = {"token": token.reveal(), "until": until.isoformat()}
    replace_private(state_dir / SECOND_FACTOR, json.dumps(kept).encode())


def kept_token(state_dir: Path, now: datetime) -> tuple[Secret, datetime] | None:
    """Return the stored token and its end; None without one, or if it has ended or is
    unreadable.
    """
    path = state_dir / SECOND_FACTOR
    try:
        if path.is_symlink() or path.stat().st_mode & 0o077:
            return None
        kept = json.loads(path.read_text())
        token, until = Secret(str(kept["token"])), datetime.fromisoformat(kept["until"])
        return (token, until) if now <= until else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_token(state_dir: Path) -> None:
    """Remove the stored token, if there is one, so that no cut of the power brings it back. Raises
    OSError.
    """
    (state_dir / SECOND_FACTOR).unlink(missing_ok=True)
    sync_names(state_dir)


class TokenDisk:
    """Keeps and forgets a token on separate threads, one after another: a disk that hangs must hold
    up neither cancels nor a halt.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        """Set when all that was asked for is done."""
        self.done.set()

    def do(self, work: Callable[[], None]) -> None:
        """Raises OSError if it failed, or is not done in time: then when the disk answers."""
        failures, before = list[OSError](), self.done

        def in_order() -> None:
            before.wait()
            try:
                work()
            except OSError as error:
                failures.append(error)

        self.done = begin(in_order)
        if not self.done.wait(DISK_S):
            raise TimeoutError("its disk does not answer")
        if failures:
            raise failures[0]
