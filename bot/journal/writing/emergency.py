"""Stores what must not wait for an unresponsive database, as fsynced lines in a file beside it.

A halt takes effect whatever the database does, and its cancels are sent once their attempts are
here (order safety: nothing is sent before it is on disk). A cancel that waits for its time is kept
too: it is to go out whatever happens meanwhile. The broker's answers are kept too, with
everything that follows for their orders: if the database missed an acceptance, the next start has
to know it without asking. So are the notes from which a start goes on with a flatten and with the
breaks. Orders are never sent on the strength of this file: they need the
journal's own checks. When the journal accepts writes again it gets the same entries in order, and
the file is removed. After a kill the next start writes what the journal lacks.

A full disk must not prevent this, so space is reserved at the start of a run: `emergency.spare` is
a megabyte of zeros, and becomes the file when there is something to store.
"""

import itertools
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.domain.entry import Entry
from bot.journal.writing.emergency_lines import entries_of, line_of, must_survive

FILE: Final = "emergency.jsonl"
"""The name of the file, in a bot's state directory."""
SPARE: Final = "emergency.spare"
"""The file's name while there is nothing to store: the reserved space."""
UNREAD: Final = "emergency.jsonl.unread"
"""Beside it: the lines that could not be read, for a person."""
SPARE_BYTES: Final = 1_048_576
BYTES_MAX: Final = 8_388_608
"""Some thousands of cancels with their answers; beyond this size the file accepts no more.
Unreadable lines take the place of earlier ones there.
"""
TURN_S: Final = 1.0
"""How long work on the file waits for what its disk still holds up. Less than any caller waits, so
none of it begins after its caller has given up.
"""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Kept:
    """The contents of a file, oldest first. `unreadable` counts lines that are damaged,
    truncated, or no entries; `lines` has the entries of each of the others.
    """

    entries: tuple[Entry, ...]
    unreadable: int
    lines: tuple[tuple[Entry, ...], ...] = field(default=(), compare=False)


class EmergencyJournal:
    """Stores entries that must survive, in a bot's state directory. It has one writer, whose
    threads take turns: one that hangs, and was given up, must not remove what is kept meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.unread = folder / UNREAD
        self._spare = folder / SPARE
        self._end: int | None = None
        """Where the last line ends; None if not determined yet."""
        self._turn = threading.RLock()
        self.is_anothers = False
        """Whether what is there from before may be another journal's: then it stays."""

    def reserve(self) -> None:
        """Reserve the space that a full disk would not give. Old contents are discarded: they have
        been taken over. Raises OSError.
        """
        with self._in_turn():
            self.forget()
            with suppress(FileNotFoundError):
                if self._spare.stat().st_size == SPARE_BYTES:
                    return
            descriptor = os.open(self._spare, _FLAGS | os.O_TRUNC, 0o600)
            try:
                _write(descriptor, bytes(SPARE_BYTES), 0)
                os.fsync(descriptor)
            except OSError:
                self._spare.unlink()
                raise
            finally:
                os.close(descriptor)
            _sync_folder(self._spare.parent)

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries, all or none; they survive a power cut once this returns. Blocks for as long
        as the disk takes. Raises OSError; then nothing that relies on them may be done.
        """
        lasting = [entry for entry in entries if must_survive(entry)]
        data = f"\n{line_of(lasting)}".encode()  # the previous line may be truncated
        with self._in_turn():
            if not self.path.exists():
                self._end = 0
                with suppress(FileNotFoundError):
                    self._spare.rename(self.path)
            descriptor = os.open(self.path, _FLAGS, 0o600)
            try:
                if self._end is None:
                    self._end = len(self.path.read_bytes().rstrip(b"\0"))
                if self._end + len(data) > BYTES_MAX:
                    raise OSError(f"{self.path} holds {BYTES_MAX:,} bytes, and takes no more")
                _write(descriptor, data, self._end)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._end += len(data)
            _sync_folder(self.path.parent)  # also if the first line failed before its name was safe

    def read(self) -> Kept:
        """Return the contents of the file; empty if there is none. Raises OSError."""
        found = [_parsed(line) for line in self._lines()]
        readable = [tuple(entries) for entries in found if entries is not None]
        entries = tuple(itertools.chain.from_iterable(readable))
        return Kept(entries, len(found) - len(readable), tuple(readable))

    def set_aside(self, refused: Collection[Sequence[Entry]] = ()) -> None:
        """Copy the unreadable lines, and those that the journal has `refused`, to where they stay
        when the file is removed. Raises OSError.
        """
        with self._in_turn():
            lines = [line for line in self._lines() if _parsed(line) is None]
            lines += [line_of(entries).strip().encode() for entries in refused]
            data = b"".join(b"\n%s\n" % line for line in lines)
            descriptor = os.open(self.unread, _FLAGS, 0o600)
            try:
                end = os.fstat(descriptor).st_size
                if end + len(data) > BYTES_MAX:
                    os.ftruncate(descriptor, 0)
                    end = 0
                _write(descriptor, data, end)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _sync_folder(self.unread.parent)

    def _lines(self) -> list[bytes]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        # Text in an entry may contain other line separators.
        return [line for line in data.replace(b"\0", b"").split(b"\n") if line]

    def forget(self) -> None:
        """Remove the file, as the journal has all of it; keep its space if it had some reserved.
        What may be another journal's stays, with what has been added since.
        """
        if self.is_anothers:
            return
        with self._in_turn():
            with suppress(FileNotFoundError):
                if self.path.stat().st_size != SPARE_BYTES:
                    self.path.unlink()
                else:
                    descriptor = os.open(self.path, _FLAGS, 0o600)
                    try:
                        _write(descriptor, bytes(SPARE_BYTES), 0)
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
                    self.path.rename(self._spare)
                _sync_folder(self.path.parent)
            self._end = None

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=TURN_S):
            raise OSError(f"the disk of {self.path} has not finished an earlier change")
        try:
            yield
        finally:
            self._turn.release()


def _write(descriptor: int, data: bytes, start: int) -> None:
    if os.pwrite(descriptor, data, start) < len(data):
        raise OSError("no space left")


def _parsed(line: bytes) -> list[Entry] | None:
    return entries_of(line.decode("utf-8", errors="replace"))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
