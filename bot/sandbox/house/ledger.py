"""The sandbox's own memory: append-only JSON lines, written before each answer.

Every input that changed something is a line with its market time: replaying them over the same
scenario and seed rebuilds account, orders, OTP desk and market exactly. Lines of what came of the
inputs (`order`, `account`) are between them; a replay compares itself with those, and tests
judge the bot by them. The bot never reads this file, and no key, code or token is in it.

A line that a kill left half written is dropped at the next start: no answer ever followed it.
"""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import BufferedWriter
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.sandbox.errors import LedgerBroken

Line = Mapping[str, JsonValue]
_APPENDING: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Ledger:
    """Appends lines. Without a path it forgets them at once."""

    def __init__(self, path: Path | None) -> None:
        self._file: BufferedWriter | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _drop_torn_tail(path)
            self._file = os.fdopen(os.open(path, _APPENDING, 0o600), "ab")

    @property
    def is_kept(self) -> bool:
        """False when lines are forgotten at once, and need not be made."""
        return self._file is not None

    def record(self, *lines: Line) -> None:
        """Write lines; they are on the disk when this returns."""
        self.jot(*lines)
        if self._file is not None:
            os.fsync(self._file.fileno())

    def jot(self, *lines: Line) -> None:
        """Write lines that outlive this process; only a power cut may lose them."""
        if self._file is not None and lines:
            self._file.write("".join(_ENCODE(line) + "\n" for line in lines).encode())
            self._file.flush()

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_ledger(path: Path) -> tuple[dict[str, JsonValue], ...]:
    """Return every whole line; raises LedgerBroken where one in the middle is no JSON object."""
    return tuple(_lines(path)) if path.exists() else ()


def resumed_at(path: Path) -> datetime | None:
    """Market time at which a ledger ends: where a simulated clock must start. None: no ledger."""
    instants = [str(line["at"]) for line in read_ledger(path) if "at" in line]
    return datetime.fromisoformat(instants[-1]) if instants else None


def begun_at(path: Path) -> datetime | None:
    """Market time at which a ledger begins, and its scenario began. None: no ledger."""
    head = next(_lines(path), None) if path.exists() else None
    return datetime.fromisoformat(str(head["at"])) if head else None


def is_finished(path: Path) -> bool:
    """Tell whether the last thing a ledger says is that its scenario was over."""
    lines = read_ledger(path)
    return bool(lines) and lines[-1].get("kind") == "finished"


def _lines(path: Path) -> Iterator[dict[str, JsonValue]]:
    whole, _, _torn = path.read_bytes().rpartition(b"\n")
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise LedgerBroken(
                f"{path}:{number}: this line is no JSON; start a new ledger"
            ) from error
        if not isinstance(line, dict):
            raise LedgerBroken(f"{path}:{number}: this line is no JSON object; start a new ledger")
        yield line


def _drop_torn_tail(path: Path) -> None:
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
