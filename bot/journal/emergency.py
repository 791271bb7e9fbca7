"""What must not wait for a database that does not answer: a file of fsynced lines beside it.

A halt takes effect whatever the database does, and the cancels that it sends leave once their
attempts are here (order safety: nothing leaves before it is on a disk). Orders never do: they need
the journal's own checks. When the journal takes writes again it gets the same entries in their
order, and the file goes. After a kill the next start writes what the journal lacks.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import sqlalchemy as sa

from bot.domain.entry import (
    AttemptFinished,
    AttemptStarted,
    Entry,
    StateChanged,
    StrategySwitched,
)
from bot.journal import tables
from bot.journal.batch import Batch
from bot.journal.connections import given
from bot.journal.encoding import Plain, instant_text, made
from bot.journal.rows import row_of

FILE: Final = "emergency.jsonl"
"""The name of the file, in a bot's state directory."""
BYTES_MAX: Final = 4_194_304
"""Some thousands of cancels; a file that would grow beyond takes no more."""
KINDS: Final[dict[str, type[Entry]]] = {
    kind.__name__: kind
    for kind in (AttemptStarted, AttemptFinished, StateChanged, StrategySwitched)
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
        self.path = folder / FILE

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries; they survive a power cut once this returns. It blocks for as long as the
        disk takes. Raises OSError; then nothing that follows from them may be done.
        """
        lines = [_line_of(entry) for entry in entries if type(entry).__name__ in KINDS]
        data = ("\n" + "".join(lines)).encode()  # the line before may have been cut off
        is_new = not self.path.exists()
        descriptor = os.open(self.path, _FLAGS, 0o600)
        try:
            if os.fstat(descriptor).st_size + len(data) > BYTES_MAX:
                raise OSError(f"{self.path} holds {BYTES_MAX:,} bytes, and takes no more")
            if os.write(descriptor, data) < len(data):
                raise OSError(f"{self.path}: no space left")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _sync_folder(self.path.parent)

    def read(self) -> Kept:
        """Return what is in the file; nothing when there is none. Raises OSError."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return Kept((), 0)
        lines = text.split("\n")  # a text in an entry may hold other ends of lines
        found = [_entry_of(line) for line in lines if line]
        entries = tuple(entry for entry in found if entry is not None)
        return Kept(entries, len(found) - len(entries))

    def forget(self) -> None:
        """Remove the file: the journal has all of it."""
        with suppress(FileNotFoundError):
            self.path.unlink()
            _sync_folder(self.path.parent)


def take_over(batch: Batch, entries: Sequence[Entry]) -> int:
    """Store the entries that the journal lacks, in their order; return how many that were.

    A line was written before its entry could be, or beside it: both may hold it. An answer whose
    attempt never came in is left out: its order is found in the day order book.
    """
    count = 0
    for entry in entries:
        asked, values = _question(entry)
        stored = batch.connection.rows(asked, values)
        is_lost = isinstance(entry, AttemptFinished) and not stored
        if is_lost or (stored and stored[0][0] is not None):
            continue
        batch.store([entry])
        count += 1
    return count


_ATTEMPTS: Final = tables.attempts
_HALTS: Final = tables.halts
_ITS_ATTEMPT: Final = _ATTEMPTS.c.attempt_id == given("attempt")
_STARTED: Final = sa.select(_ATTEMPTS.c.seq).where(_ITS_ATTEMPT)
_FINISHED: Final = sa.select(_ATTEMPTS.c.outcome).where(_ITS_ATTEMPT)
_CHANGED: Final = sa.select(_HALTS.c.seq).where(
    _HALTS.c.at == given("at"),
    _HALTS.c.scope == given("its_scope"),
    _HALTS.c.to_state == given("its_state"),
)


def _question(entry: Entry) -> tuple[sa.Select[Any], Mapping[str, Plain]]:
    """What is asked to know whether an entry is stored: a row that is not null says so."""
    match entry:
        case AttemptStarted():
            return _STARTED, {"attempt": entry.attempt_id}
        case AttemptFinished():
            return _FINISHED, {"attempt": entry.attempt_id}
        case StateChanged():
            scope, state = entry.scope, str(entry.to_state)
        case StrategySwitched():
            scope, state = f"strategy:{entry.strategy}", entry.state
        case _:
            raise AssertionError(f"{type(entry).__name__} is never kept")
    return _CHANGED, {"at": instant_text(entry.at), "its_scope": scope, "its_state": state}


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
