"""Bars and ex-dates that earlier runs have seen, each in a file of the state directory.

Each bar is a line, appended when it closes by a separate thread: no order waits for it, and a file
that cannot be written only costs the next start its bars. A killed process loses the bar that was
forming. Truncated or damaged lines are skipped; the older part of a large file is cut off.

The broker says when a symbol goes ex but not by how much. A bot that runs on that day sees it in
the reference; a later run has it from here. Each ex-date is a short line with a checksum: a damaged
digit would put all earlier closes on a wrong level.
"""

import asyncio
import os
import re
import threading
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from bot.domain.instrument import Instrument
from bot.domain.local_time import day_and_clock_of
from bot.domain.quote import Bar, WentEx, span_of
from bot.domain.rulebook import Rulebook
from bot.engine.market import BAR_PHASES
from bot.journal.writing.aside import begin
from bot.journal.writing.thread import in_time
from bot.runtime.history.warming.warm_up import Earlier, UnusableHistory

OWNERS: Final = 0o600
BYTES_MAX: Final = 4_000_000
"""About 70,000 bars: 50 symbols by the minute for a week. A file of twice that is cut."""
WAITING_MAX: Final = 10_000
"""Lines waiting for the disk; further ones are dropped."""
READ_S: Final = 10.0
CLOSE_S: Final = 0.5
EX_DATES_BYTES_MAX: Final = 1_000_000
"""Some 30,000 ex-dates: more than all symbols have in ten years."""
_LINE: Final = re.compile(r"([^,]*)((?:,[0-9]{1,15}){7})\n")
"""Symbol, seconds, start, open, high, low, close, volume."""
_CELLS: Final = 5
"""Cells in a line with an ex-date."""
_START_MAX: Final = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp())
_Found = dict[tuple[str, int], dict[datetime, Bar]]
"""By symbol and seconds."""


class KeptBars:
    """A source, and the file it reads; call `keep` on the loop only."""

    name = "what earlier runs kept"

    def __init__(self, path: Path, rulebook: Rulebook, *, bytes_max: int = BYTES_MAX) -> None:
        self._path, self._bytes_max = path, bytes_max
        self._rulebook = rulebook
        self._found: _Found | None = None
        self._given: dict[tuple[str, int], int] = {}
        """How many bars of each series were handed out; given bars are not held."""
        self._again: set[tuple[str, int]] = set()
        self._lines: list[str] = []
        self._is_due = False
        self._written: threading.Event | None = None

    def keep(self, bar: Bar) -> None:
        """Queue a bar to be written with the others that close at the same time."""
        if len(self._lines) < WAITING_MAX:
            prices = f"{bar.open},{bar.high},{bar.low},{bar.close},{bar.volume}"
            start = int(bar.start.timestamp())
            self._lines.append(f"{bar.symbol},{bar.seconds},{start},{prices}\n")
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def close(self) -> None:
        """Write what is queued, without waiting for a disk that hangs."""
        for _ in range(2):
            if self._written is not None:
                self._written.wait(CLOSE_S)
            self._write()

    def _write(self) -> None:
        """Write what is queued, unless the disk is still busy; then it goes with the next bar."""
        self._is_due = False
        if self._lines and (self._written is None or self._written.is_set()):
            writing = partial(append, self._path, "".join(self._lines), self._bytes_max)
            with suppress(OSError):  # no thread available: with the next bar
                self._written, self._lines = begin(writing), []

    # ------------------------------------------------------------------------------------- reading

    def asks(self, _width: timedelta) -> bool:
        return False

    def give_again(self, symbols: Collection[str]) -> None:
        """Have the series of symbols read from the file once more."""
        self._again |= {key for key in self._given if key[0] in symbols}

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        """Return the newest bars before now: of a series once, and again if more are wanted or
        `give_again` was called; gaps between them are named.
        """
        key = instrument.symbol, round(width.total_seconds())
        is_more = count > self._given.get(key, count)
        self._given[key] = max(count, self._given.get(key, 0))
        if self._found is None or is_more or key in self._again:
            wanted = {*self._again, key}
            try:
                read = await in_time(partial(_read_file, self._path, self._bytes_max), READ_S)
            except (OSError, TimeoutError) as error:
                self._found = {}
                return Earlier((), gaps=(f"{self._path.name} can't be read: {error}",))
            self._found = {
                each: read[each] for each in read if each not in self._given or each in wanted
            }
            self._again -= wanted
        found = self._found.pop(key, {})
        starts = sorted(start for start in found if span_of(start, width)[1] <= now)
        bars = [found[start] for start in starts[-count:]]
        gaps = []  # the stretches of trading without a bar, from the first one until now
        for start, until in pairwise([*(bar.start for bar in bars), span_of(now, width)[0]]):
            began = self._first_traded(instrument, span_of(start, width)[1], until, width)
            if began is not None:
                gaps.append(f"gap {_when(began)} to {_when(until)}")
        return Earlier(tuple(bars), gaps=tuple(gaps))

    def _first_traded(
        self, instrument: Instrument, at: datetime, until: datetime, width: timedelta
    ) -> datetime | None:
        """Return the first start of a bar that quotes form, from an instant until
        before another.
        """
        exchange, rules = instrument.exchange, self._rulebook
        while at < until:
            end, change = span_of(at, width)[1], rules.next_phase_change(exchange, at)
            is_traded = change.at < end and change.phase in BAR_PHASES
            if is_traded or rules.phase_at(exchange, at) in BAR_PHASES:
                return at
            at = max(end, span_of(change.at, width)[0])
        return None


def append(path: Path, text: str, bytes_max: int) -> None:
    """Append lines to a private file; if the disk fails, the next start lacks these bars."""
    with suppress(OSError):
        with path.open("a", encoding="ascii") as file:
            os.fchmod(file.fileno(), OWNERS)  # also for a file made by an earlier release
            file.write(text)
            size = file.tell()
        if size > 2 * bytes_max:
            _cut(path, bytes_max)


def _cut(path: Path, bytes_max: int) -> None:
    new = path.with_suffix(".new")
    new.touch(OWNERS)
    new.write_bytes(_tail(path, bytes_max // 2))
    new.replace(path)


def _tail(path: Path, length: int) -> bytes:
    """Return the last whole lines of a file, up to so many bytes."""
    with path.open("rb") as file:
        before = max(0, file.seek(0, os.SEEK_END) - length)
        file.seek(before)
        read = file.read(length)
    return read.partition(b"\n")[2] if before else read


def _read_file(path: Path, bytes_max: int) -> _Found:
    """Read the whole file, and trim it if it has grown long."""
    if not path.exists():
        return {}
    if path.stat().st_size > bytes_max:
        _cut(path, bytes_max)
    found: _Found = {}
    for line in _tail(path, 2 * bytes_max).decode("ascii", "replace").splitlines(keepends=True):
        if (cells := _LINE.fullmatch(line)) is None:
            continue
        symbol, (seconds, start, opened, high, low, close, volume) = (
            cells[1],
            map(int, cells[2][1:].split(",")),
        )
        if start < _START_MAX and 0 < low <= min(opened, close) <= max(opened, close) <= high:
            at = datetime.fromtimestamp(start, UTC)
            bar = Bar(symbol, at, seconds, opened, high, low, close, volume)
            found.setdefault((symbol, seconds), {})[at] = bar
    return found


def _when(at: datetime) -> str:
    return day_and_clock_of(at).removesuffix(":00")


class KeptExDates:
    """The file of ex-dates, and its writer. Truncated or damaged lines are ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    async def keep(self, seen: WentEx) -> None:
        """Write one, once; if the disk fails, later runs lack the bars before it."""
        with suppress(TimeoutError, OSError):
            await in_time(partial(self._write, seen), READ_S)

    async def went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        """Return what was seen of a symbol on these days; nothing for a day whose lines contradict
        each other. Raises OSError, TimeoutError; UnusableHistory if nothing is known of these days
        and damaged lines may have been theirs.
        """
        every, damaged = await in_time(self._read, READ_S)
        found = set(every)
        seen = [each for each in found if each.symbol == symbol and each.day in days]
        lines = Counter(each.day for each in seen)
        if damaged and not seen:
            raise UnusableHistory(f"{self._path.name}: {damaged:,} of its lines damaged")
        return sorted((each for each in seen if lines[each.day] == 1), key=lambda each: each.day)

    async def days_of(self, symbol: str) -> frozenset[date]:
        """Return the ex-dates of a symbol that were seen; empty if the disk does not answer."""
        with suppress(OSError, TimeoutError):
            every, _ = await in_time(self._read, READ_S)
            return frozenset(each.day for each in every if each.symbol == symbol)
        return frozenset()

    def _write(self, seen: WentEx) -> None:
        with self._lock, suppress(OSError):
            if seen not in self._read()[0]:
                line = line_of(seen)
                is_torn = self._path.exists() and not self._path.read_bytes().endswith(b"\n")
                append(self._path, "\n" + line if is_torn else line, EX_DATES_BYTES_MAX)

    def _read(self) -> tuple[list[WentEx], int]:
        """Return the contents of whole lines, and how many are damaged."""
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
