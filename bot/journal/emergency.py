"""What must not wait for a database that does not answer: a file of fsynced lines beside it.

A halt takes effect whatever the database does, and the cancels that it sends leave once their
attempts are here (order safety: nothing leaves before it is on a disk). Orders never do: they need
the journal's own checks. When the journal takes writes again it gets the same entries in their
order, and the file goes. After a kill the next start writes what the journal lacks.
"""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import sqlalchemy as sa

from bot.domain.entry import AttemptFinished, AttemptStarted, Entry, StateChanged
from bot.journal import tables
from bot.journal.encoding import instant_text, made
from bot.journal.rows import row_of

FILE: Final = "emergency.jsonl"
"""The name of the file, in a bot's state directory."""
BYTES_MAX: Final = 4_194_304
"""Some thousands of cancels; a file that would grow beyond takes no more."""
KINDS: Final[dict[str, type[Entry]]] = {
    kind.__name__: kind for kind in (AttemptStarted, AttemptFinished, StateChanged)
}
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file holds, oldest first. `unreadable` counts lines that are damaged or cut off."""

    entries: tuple[Entry, ...]
    unreadable: int


class EmergencyJournal:
    """Keeps entries of KINDS in a bot's state directory."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries; they survive a power cut once this returns. It blocks for as long as the
        disk takes. Raises OSError; then nothing that follows from them may be done.
        """
        lines = [_line_of(entry) for entry in entries if type(entry).__name__ in KINDS]
        data = ("\n" + "".join(lines)).encode()  # the line before may have been cut off
        is_new = not self._path.exists()
        descriptor = os.open(self._path, _FLAGS, 0o600)
        try:
            if os.fstat(descriptor).st_size + len(data) > BYTES_MAX:
                raise OSError(f"{self._path} holds {BYTES_MAX:,} bytes, and takes no more")
            if os.write(descriptor, data) < len(data):
                raise OSError(f"{self._path}: no space left")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _sync_folder(self._path.parent)

    def read(self) -> Kept:
        """Return what is in the file; nothing when there is none. Raises OSError."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return Kept((), 0)
        found = [_entry_of(line) for line in lines if line]
        entries = tuple(entry for entry in found if entry is not None)
        return Kept(entries, len(found) - len(entries))

    def forget(self) -> None:
        """Remove the file: the journal has all of it."""
        with suppress(FileNotFoundError):
            self._path.unlink()
            _sync_folder(self._path.parent)


def missing(connection: sa.Connection, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that the journal lacks, in their order; writing them twice is no harm.

    A line was written before its entry could be, or beside it: both may hold it.
    """
    return [entry for entry in entries if not _is_stored(connection, entry)]


def _is_stored(connection: sa.Connection, entry: Entry) -> bool:
    attempts, halts = tables.attempts, tables.halts
    match entry:
        case AttemptStarted():
            asked = sa.select(attempts.c.seq).where(attempts.c.attempt_id == entry.attempt_id)
        case AttemptFinished():
            asked = sa.select(attempts.c.seq).where(
                attempts.c.attempt_id == entry.attempt_id, attempts.c.outcome.is_not(None)
            )
        case StateChanged():
            asked = sa.select(halts.c.seq).where(
                halts.c.at == instant_text(entry.at),
                halts.c.scope == entry.scope,
                halts.c.to_state == entry.to_state,
            )
        case _:
            raise AssertionError(f"{type(entry).__name__} is never kept")
    return connection.execute(asked).first() is not None


def _line_of(entry: Entry) -> str:
    text = json.dumps([type(entry).__name__, row_of(entry)], ensure_ascii=False)
    return f"{crc32(text.encode()):08x} {text}\n"


def _entry_of(line: str) -> Entry | None:
    """Read a line; None when it is damaged: what its checksum is about was not written whole."""
    checksum, _, text = line.partition(" ")
    if checksum != f"{crc32(text.encode()):08x}":
        return None
    kind, row = json.loads(text)
    return made(KINDS[kind], row) if kind in KINDS else None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
