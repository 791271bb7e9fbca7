"""The sandbox's own memory: append-only JSON lines, written before each answer.

Every input that changed something is a line with its market time: replaying them over the same
scenario and seed rebuilds account, orders, OTP issuer and market exactly. Lines of what came of the
inputs (`order`, `account`) are between them; a replay checks itself against those, and tests judge
the bot by them. The bot never reads this file, and it holds no key, code or token.

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
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Ledger:
    """Appends lines. Without a path it forgets them at once."""

    def __init__(self, path: Path | None) -> None:
        self._file: BufferedWriter | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                content = path.read_bytes()
                whole = content.rfind(b"\n") + 1
                if whole < len(content):
                    os.truncate(path, whole)
            appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = os.fdopen(os.open(path, appending, 0o600), "ab")

    @property
    def is_kept(self) -> bool:
        """False when lines are forgotten at once and need not be built."""
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
        if self._file is not None:
            self._file.close()
            self._file = None


def read_ledger(path: Path) -> tuple[dict[str, JsonValue], ...]:
    """Return every whole line; raises LedgerBroken for a line that is not a JSON object."""
    return tuple(_lines(path)) if path.exists() else ()


def resumed_at(path: Path) -> datetime | None:
    """Return when a ledger ends, where a simulated clock must start; None without a ledger."""
    instants = [str(line["at"]) for line in read_ledger(path) if "at" in line]
    return datetime.fromisoformat(instants[-1]) if instants else None


def begun_at(path: Path) -> datetime | None:
    """Return when a ledger, and its scenario, began; None without a ledger."""
    head = next(_lines(path), None) if path.exists() else None
    return datetime.fromisoformat(str(head["at"])) if head else None


def is_finished(path: Path) -> bool:
    """Tell whether the ledger ends with the end of its scenario."""
    lines = read_ledger(path)
    return bool(lines) and lines[-1].get("kind") == "finished"


def _lines(path: Path) -> Iterator[dict[str, JsonValue]]:
    whole, _, _torn = path.read_bytes().rpartition(b"\n")
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise LedgerBroken(f"{path}:{number}: not JSON; start a new ledger") from error
        if not isinstance(line, dict):
            raise LedgerBroken(f"{path}:{number}: not a JSON object; start a new ledger")
        yield line
