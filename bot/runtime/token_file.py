"""The 2FA token over a restart: a file for its owner only, with the token's end, gone when dropped.

A code costs one of five a day, so a restart should not need another. The file holds the token in
the clear, as the systemd unit's own state does; it is worth nothing after midnight.
"""

import json
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.protocol.secret import Secret

NAME: Final = "two-factor.json"


def keep_token(state_dir: Path, token: Secret, until: datetime) -> None:
    """Write the token, mode 0600, replacing an earlier one as a whole.

    Raises OSError, and then leaves nothing half written.
    """
    new = state_dir / f"{NAME}.new"
    try:
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"token": token.reveal(), "until": until.isoformat()}, file)
        new.replace(state_dir / NAME)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def kept_token(state_dir: Path, now: datetime) -> tuple[Secret, datetime] | None:
    """Return the kept token and its end; None without one, or where it is over or unreadable."""
    path = state_dir / NAME
    try:
        if path.is_symlink() or path.stat().st_mode & 0o077:
            return None
        kept = json.loads(path.read_text())
        token, until = Secret(str(kept["token"])), datetime.fromisoformat(kept["until"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (token, until) if now <= until else None


def forget_token(state_dir: Path) -> None:
    """Remove the file."""
    (state_dir / NAME).unlink(missing_ok=True)
