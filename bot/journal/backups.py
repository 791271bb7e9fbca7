"""What the backups in a folder hold of a journal, so that nothing is deleted that none of them has.

A backup holds a row where its chain goes on behind the row and ends in a row of ours: the hash
there covers all before it. What else lies in the folder, copies of another journal too, holds none.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bot.journal.batch import Head, read_heads
from bot.journal.engines import reading
from bot.journal.errors import JournalError

LOOKED_AT_MAX: Final = 10
"""How many files of a folder are looked at, the newest first."""

Saved = Mapping[str, Sequence[Head]]
"""For each chain, where it ends in each backup."""


def backups_in(folder: Path) -> list[Path]:
    """The newest files that may be backups, newest first. Raises OSError."""
    found = [(each.stat().st_mtime_ns, each) for each in folder.iterdir() if each.suffix == ".db"]
    return [each for _, each in sorted(found, reverse=True)[:LOOKED_AT_MAX]]


def saved_in(folder: Path) -> Saved:
    """Read where the chains end in the backups of a folder. Raises OSError."""
    found: dict[str, list[Head]] = {}
    for file in backups_in(folder):
        try:
            with reading(f"sqlite:///{file}") as connection:
                heads = read_heads(connection)
        except JournalError:  # no journal, or a broken one: it holds nothing
            continue
        for name, head in heads.items():
            found.setdefault(name, []).append(head)
    return found
