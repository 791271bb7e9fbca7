"""A demo's own files: resumed when it was cut off, moved away when it was over.

One earlier demo is kept, as `journal.1.db`, `sandbox.1.jsonl` and so on, until the next one is
over. Its 2FA token is not: a new sandbox counts its tokens from one again, and would take an old
one for one of its own.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bot.journal.heads import FILE, OLDER
from bot.runtime.state_dir import LEDGER, forget_token, make_state_dir
from bot.sandbox.house.ledger import is_finished, read_ledger

BARS: Final = "bars-sandbox.csv"
EX_DATES: Final = "ex-dates-sandbox.csv"
_FILES: Final = (
    *("journal.db", "journal.db-wal", "journal.db-shm", FILE, OLDER, LEDGER),
    *(BARS, EX_DATES),
)


class NotAlone(Exception):
    """Another demo of this state directory is running or starting."""


@contextmanager
def alone(state_dir: Path) -> Iterator[None]:
    """Be the only demo of a state directory: files are moved there before a lease is taken.

    The lock is on the directory itself and ends with the process. Raises NotAlone, and
    OperatorMistake where the directory cannot be made.
    """
    make_state_dir(state_dir)
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotAlone(str(state_dir)) from error
        yield
    finally:
        os.close(folder)


def make_room(state_dir: Path, *, seed: int) -> bool:
    """Move a demo that is over, or of another seed, out of the way; True when one is resumed.

    A demo whose start came to nothing is not resumed.
    """
    lines = read_ledger(state_dir / LEDGER)
    has_begun = any(line.get("kind") != "start" for line in lines)
    is_over = has_begun and is_finished(state_dir / LEDGER)
    if has_begun and not is_over and lines[0].get("seed") == seed:
        return True
    forget_token(state_dir)
    for name in _FILES:
        path = state_dir / name
        head, dot, tail = name.partition(".")
        kept = state_dir / f"{head}.1{dot}{tail}"
        kept.unlink(missing_ok=True)
        if path.exists():
            path.rename(kept)
    return False
