"""The sandbox's ledger: append-only JSON lines, written before each answer.

Every input that changed something is a line with its market time; replaying the lines with the same
scenario and seed rebuilds account, orders, OTP issuer and market exactly. Between them are lines
with the outcomes (`order`, `account`); a replay checks itself against these, and tests judge the
bot by them. The bot never reads this file, and it holds no key, code or token.

A line left half written by a kill is dropped at the next start: it was never answered.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.sandbox.errors import LedgerBroken

Line = Mapping[str, JsonValue]
UNWRITTEN_MAX: Final = 1 << 23
"""Bytes of lines kept while the disk refuses them."""
_CHUNK: Final = 1 << 20
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two lines of a ledger, and the digest of everything before it."""

    lines: int
    size: int
    sha256: str


START: Final = Mark(0, 0, sha256().hexdigest())


class Ledger:
    """Appends lines; without a path they are discarded."""

    def __init__(self, path: Path | None) -> None:
        self._file: FileIO | None = None
        self._unwritten = bytearray()
        self.lines = self._size = 0
        self._digest = sha256()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._count(path)
                os.truncate(path, self._size)
            appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = FileIO(os.open(path, appending, 0o600), "ab")

    def _count(self, path: Path) -> None:
        """Count the whole lines."""
        with path.open("rb") as file:
            torn = b""
            while part := file.read(_CHUNK):
                whole, end, torn = (torn + part).rpartition(b"\n")
                self._digest.update(whole + end)
                self.lines += whole.count(b"\n") + len(end)
                self._size += len(whole) + len(end)

    @property
    def is_kept(self) -> bool:
        """False if lines are discarded and need not be built."""
        return self._file is not None

    def mark(self) -> Mark:
        """Return the present end; everything before it is on disk when this returns."""
        self.record()
        return Mark(self.lines, self._size, self._digest.hexdigest())

    def record(self, *lines: Line) -> None:
        """Write lines; they are on disk when this returns. Raises OSError as `jot` does."""
        self.jot(*lines)
        if self._file is not None:
            os.fsync(self._file.fileno())

    def jot(self, *lines: Line) -> None:
        """Write lines without sync: they survive this process, but a power cut may lose them.

        What they say has happened: those that a full disk refuses are kept and written before the
        next ones. Raises OSError as long as any is left, LedgerBroken if they are too many.
        """
        if self._file is None:
            return
        added = "".join([_ENCODE(line) + "\n" for line in lines]).encode()
        if len(self._unwritten) + len(added) > UNWRITTEN_MAX:
            raise LedgerBroken("too many of its lines wait for a disk that refuses them")
        self._unwritten += added
        self._digest.update(added)
        self.lines += len(lines)
        self._size += len(added)
        while self._unwritten:
            del self._unwritten[: os.write(self._file.fileno(), self._unwritten)]

    def close(self) -> None:
        if self._file is not None:
            try:
                self.jot()
            finally:
                self._file.close()
                self._file = None


def digest_of(path: Path, size: int) -> str | None:
    """Return the digest of the first bytes of a ledger, None if it is shorter."""
    found = sha256()
    with path.open("rb") as file:
        while size and (part := file.read(min(size, _CHUNK))):
            found.update(part)
            size -= len(part)
    return None if size else found.hexdigest()


def read_ledger(path: Path, after: Mark = START) -> tuple[dict[str, JsonValue], ...]:
    """Return every whole line; raises LedgerBroken for a line that is not a JSON object."""
    return tuple(_lines(path, after)) if path.exists() else ()


def resumed_at(path: Path) -> datetime | None:
    """Return when a ledger ends, where a simulated clock has to start; None without a ledger."""
    lines = _from_the_end(path) if path.exists() else iter(())
    at = next((str(line["at"]) for line in lines if "at" in line), None)
    return datetime.fromisoformat(at) if at else None


def begun_at(path: Path) -> datetime | None:
    """Return when a ledger, and its scenario, began; None without a ledger."""
    head = next(_lines(path, START), None) if path.exists() else None
    return datetime.fromisoformat(str(head["at"])) if head else None


def is_finished(path: Path) -> bool:
    """Tell whether the ledger ends with the end of its scenario."""
    last = next(_from_the_end(path), None) if path.exists() else None
    return last is not None and last.get("kind") == "finished"


def _lines(path: Path, after: Mark) -> Iterator[dict[str, JsonValue]]:
    with path.open("rb") as file:
        file.seek(after.size)
        for number, text in enumerate(file, start=after.lines + 1):
            if text.endswith(b"\n"):
                yield _line(text, path, number)


def _from_the_end(path: Path) -> Iterator[dict[str, JsonValue]]:
    """Yield the whole lines, last first, reading no more of the file than needed."""
    with path.open("rb") as file:
        start, held = file.seek(0, os.SEEK_END), b""
        is_torn = True
        while start:
            end, start = start, max(0, start - _CHUNK)
            file.seek(start)
            first, *others = (file.read(end - start) + held).split(b"\n")
            for text in reversed(others):
                if not is_torn:
                    yield _line(text, path, None)
                is_torn = False
            held = first
        if held and not is_torn:
            yield _line(held, path, 1)


def _line(text: bytes, path: Path, number: int | None) -> dict[str, JsonValue]:
    place = path if number is None else f"{path}:{number}"
    try:
        line = json.loads(text)
    except ValueError as error:
        raise LedgerBroken(f"{place}: not JSON; start a new ledger") from error
    if not isinstance(line, dict):
        raise LedgerBroken(f"{place}: not a JSON object; start a new ledger")
    return line
