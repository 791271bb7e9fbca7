"""Bars that earlier runs have built from quotes: kept in a file of the state directory.

One line a bar, appended when it closes, on a thread of its own: no order waits for it, and a file
that can't be written costs the bars of the next start, nothing else. A process that is killed loses
the bar that was forming. A line cut short or damaged is left out; of a file that has grown the
older part is cut off.
"""

import asyncio
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from bot.domain.bar_grid import span_of
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.engine.market import BAR_PHASES
from bot.journal.aside import begin
from bot.journal.thread import in_time
from bot.runtime.history.warming.warm_up import Earlier

OWNERS: Final = 0o600
BYTES_MAX: Final = 4_000_000
"""About 70,000 bars: 50 symbols by the minute for a week. A file of twice that is cut."""
WAITING_MAX: Final = 10_000
"""Lines that wait for a disk; more are left out."""
READ_S: Final = 10.0
CLOSE_S: Final = 0.5
_DIGITS_MAX: Final = 15
_START_MAX: Final = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp())
_Found = dict[tuple[str, int], dict[datetime, Bar]]
"""By symbol and seconds."""


class KeptBars:
    """A source, and the file it reads; `keep` belongs to the loop."""

    name = "what earlier runs kept"

    def __init__(self, path: Path, rulebook: Rulebook, *, bytes_max: int = BYTES_MAX) -> None:
        self._path, self._bytes_max = path, bytes_max
        self._rulebook = rulebook
        self._found: _Found | None = None
        self._given: dict[tuple[str, int], int] = {}
        """How many bars of each series were asked for: what is given is not held."""
        self._again: set[tuple[str, int]] = set()
        self._lines: list[str] = []
        self._is_due = False
        self._written: threading.Event | None = None

    def keep(self, bar: Bar) -> None:
        """Have a bar written, with the others that close at the same time."""
        if len(self._lines) < WAITING_MAX:
            prices = f"{bar.open},{bar.high},{bar.low},{bar.close},{bar.volume}"
            start = int(bar.start.timestamp())
            self._lines.append(f"{bar.symbol},{bar.seconds},{start},{prices}\n")
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def close(self) -> None:
        """Write what waits; a disk that hangs is not waited for."""
        for _ in range(2):
            if self._written is not None:
                self._written.wait(CLOSE_S)
            self._write()

    def _write(self) -> None:
        """Write what waits, unless the disk still has what came before: then with the next bar."""
        self._is_due = False
        if self._lines and (self._written is None or self._written.is_set()):
            writing = partial(append, self._path, "".join(self._lines), self._bytes_max)
            with suppress(OSError):  # no thread to be had: with the next bar
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
        """Return the newest bars before now, of a series once, and again where more are wanted
        or `give_again` was called; what lacks between them is named.
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
        return Earlier(tuple(bars), gaps=tuple(self._gaps(instrument, bars, width, now)))

    def _gaps(
        self, instrument: Instrument, bars: Sequence[Bar], width: timedelta, now: datetime
    ) -> Iterator[str]:
        """Name the stretches of trading without a bar, from the first one to the one of now."""
        nexts = (*(bar.start for bar in bars[1:]), span_of(now, width)[0])
        for bar, until in zip(bars, nexts, strict=False):
            began = self._first_traded(instrument, span_of(bar.start, width)[1], until, width)
            if began is not None:
                yield f"gap {_when(began)} to {_when(until)}"

    def _first_traded(
        self, instrument: Instrument, at: datetime, until: datetime, width: timedelta
    ) -> datetime | None:
        """Return the first start of a bar that quotes form, from an instant to before another."""
        exchange, rules = instrument.exchange, self._rulebook
        while at < until:
            end, change = span_of(at, width)[1], rules.next_phase_change(exchange, at)
            is_traded = change.at < end and change.phase in BAR_PHASES
            if is_traded or rules.phase_at(exchange, at) in BAR_PHASES:
                return at
            at = max(end, span_of(change.at, width)[0])
        return None


def append(path: Path, text: str, bytes_max: int) -> None:
    """Append lines to a file for its owner alone; a disk that does not take them costs the bars of
    the next start.
    """
    with suppress(OSError):
        with path.open("a", encoding="ascii") as file:
            os.fchmod(file.fileno(), OWNERS)  # also one that an earlier release has made
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
    """Return the last whole lines of a file, of so many bytes at most."""
    with path.open("rb") as file:
        before = max(0, file.seek(0, os.SEEK_END) - length)
        file.seek(before)
        read = file.read(length)
    return read.partition(b"\n")[2] if before else read


def _read_file(path: Path, bytes_max: int) -> _Found:
    """Read all of it, and cut it when it has grown long."""
    if not path.exists():
        return {}
    if path.stat().st_size > bytes_max:
        _cut(path, bytes_max)
    found: _Found = {}
    for line in _tail(path, 2 * bytes_max).decode("ascii", "replace").splitlines(keepends=True):
        symbol, *cells = line.split(",")
        if not line.endswith("\n") or len(cells) != 7 or not all(map(_is_number, cells)):
            continue
        seconds, start, opened, high, low, close, volume = map(int, cells)
        if start < _START_MAX and 0 < low <= min(opened, close) <= max(opened, close) <= high:
            at = datetime.fromtimestamp(start, UTC)
            bar = Bar(symbol, at, seconds, opened, high, low, close, volume)
            found.setdefault((symbol, seconds), {})[at] = bar
    return found


def _is_number(text: str) -> bool:
    return text.strip().isdecimal() and len(text) <= _DIGITS_MAX + 1


def _when(at: datetime) -> str:
    return f"{at.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M:%S}".removesuffix(":00")
