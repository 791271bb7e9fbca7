"""What ex-dates made of closes, as the runs have seen it: kept in a file of the state directory.

The broker says when a symbol goes ex and not by how much. The bot that runs on that day sees it in
the reference; a later run has it from here. One short line an ex-date, written on a thread, with
its checksum: a damaged digit would put all earlier closes on a wrong level.
"""

import threading
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

from bot.domain.bar_news import WentEx
from bot.journal.thread import in_time
from bot.runtime.history.warming.kept_bars import append
from bot.runtime.history.warming.warm_up import UnusableHistory

BYTES_MAX: Final = 1_000_000
"""Some 30,000 ex-dates: more than all symbols have in ten years."""
TIMEOUT_S: Final = 10.0
_CELLS: Final = 5


class KeptExDates:
    """The file, and who writes it. A line that is cut short or damaged says nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    async def keep(self, seen: WentEx) -> None:
        """Write one, once; a disk that does not take it costs later runs the bars of before."""
        with suppress(TimeoutError):
            await in_time(partial(self._write, seen), TIMEOUT_S)

    async def went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        """Return what was seen of a symbol on these days; nothing of a day whose lines contradict
        each other. Raises OSError, TimeoutError; UnusableHistory where nothing is known of these
        days and lines are damaged, which may have been theirs.
        """
        every, damaged = await in_time(self._read, TIMEOUT_S)
        found = set(every)
        seen = [each for each in found if each.symbol == symbol and each.day in days]
        lines = Counter(each.day for each in seen)
        if damaged and not seen:
            raise UnusableHistory(f"{self._path.name}: {damaged:,} of its lines damaged")
        return sorted((each for each in seen if lines[each.day] == 1), key=lambda each: each.day)

    async def days_of(self, symbol: str) -> frozenset[date]:
        """Return the ex-dates of a symbol that were seen; none from a disk that does not answer."""
        with suppress(OSError, TimeoutError):
            every, _ = await in_time(self._read, TIMEOUT_S)
            return frozenset(each.day for each in every if each.symbol == symbol)
        return frozenset()

    def _write(self, seen: WentEx) -> None:
        with self._lock, suppress(OSError):
            if seen not in self._read()[0]:
                line = line_of(seen)
                is_torn = self._path.exists() and not self._path.read_bytes().endswith(b"\n")
                append(self._path, "\n" + line if is_torn else line, BYTES_MAX)

    def _read(self) -> tuple[list[WentEx], int]:
        """Return what whole lines say, and how many are not whole."""
        if not self._path.exists():
            return [], 0
        found, damaged = list[WentEx](), 0
        for line in self._path.read_text("ascii", "replace").splitlines(keepends=True):
            cells = line.rstrip("\n").split(",")
            read = None
            with suppress(ValueError):
                if line.endswith("\n") and len(cells) == _CELLS:
                    symbol, day, close, reference, _ = cells
                    read = WentEx(symbol, date.fromisoformat(day), int(close), int(reference))
            if read is not None and line == line_of(read) and min(read.close, read.reference) > 0:
                found.append(read)
            elif line.strip():
                damaged += 1
        return found, damaged


def line_of(seen: WentEx) -> str:
    """Return the line of an ex-date, with its checksum."""
    text = f"{seen.symbol},{seen.day},{seen.close},{seen.reference}"
    return f"{text},{zlib.crc32(text.encode()):08x}\n"
