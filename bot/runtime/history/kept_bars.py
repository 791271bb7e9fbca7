"""Bars that earlier runs have built from quotes: kept in a file of the state directory.

One line a bar, appended when it closes, on a thread of its own: no order waits for it, and a file
that can't be written costs the bars of the next start, nothing else. A process that is killed loses
the bar that was forming. A line cut short is left out; a file that has grown is cut to its newer
half at a start.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
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
from bot.journal.thread import in_time
from bot.runtime.history.warm_up import Earlier

BYTES_MAX: Final = 4_000_000
"""About 70,000 bars: 50 symbols by the minute for a week."""
WAITING_MAX: Final = 10_000
"""Lines that wait for a disk; more are left out."""
READ_S: Final = 10.0
CLOSE_S: Final = 0.5
GAPS_TOLD: Final = 3


class KeptBars:
    """A source, and the file it reads; `keep` belongs to the loop."""

    name = "what earlier runs kept"

    def __init__(self, path: Path, rulebook: Rulebook, *, bytes_max: int = BYTES_MAX) -> None:
        self._path, self._bytes_max = path, bytes_max
        self._rulebook = rulebook
        self._found: dict[tuple[str, int], dict[datetime, Bar]] | None = None
        self._lines: list[str] = []
        self._is_due = False
        self._writer: threading.Thread | None = None

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
            if self._writer is not None:
                self._writer.join(CLOSE_S)
            self._write()

    def _write(self) -> None:
        """Write what waits, unless the disk still has what came before: then with the next bar."""
        self._is_due = False
        if self._lines and not (self._writer is not None and self._writer.is_alive()):
            text, self._lines = "".join(self._lines), []
            writing = partial(append, self._path, text)
            self._writer = threading.Thread(target=writing, name="bars", daemon=True)
            self._writer.start()

    # ------------------------------------------------------------------------------------- reading

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        """Return the newest bars before now, each series once; what lacks between them is named."""
        if self._found is None:
            try:
                self._found = await in_time(
                    partial(_read_file, self._path, self._bytes_max), READ_S
                )
            except (OSError, TimeoutError) as error:
                self._found = {}
                return Earlier((), gaps=(f"{self._path.name} can't be read: {error}",))
        found = self._found.pop((instrument.symbol, round(width.total_seconds())), {})
        starts = sorted(start for start in found if span_of(start, width)[1] <= now)
        bars = [found[start] for start in starts[-count:]]
        return Earlier(tuple(bars), gaps=tuple(self._gaps(instrument, bars, width, now)))

    def _gaps(
        self, instrument: Instrument, bars: Sequence[Bar], width: timedelta, now: datetime
    ) -> Iterator[str]:
        """Name the stretches of trading without a bar, from the first one to the one of now."""
        known = {bar.start for bar in bars}
        began: datetime | None = None
        told = 0
        for start in self._expected(instrument, bars, width, now):
            if start not in known and start + width <= now:
                began = began or start
            elif began is not None:
                told += 1
                if told <= GAPS_TOLD:
                    yield f"gap {_when(began)} to {_when(start)}"
                began = None
        if told > GAPS_TOLD:
            yield f"{told - GAPS_TOLD:,} more gaps"

    def _expected(
        self, instrument: Instrument, bars: Sequence[Bar], width: timedelta, now: datetime
    ) -> Iterator[datetime]:
        """Yield the starts in trading phases, and of the bars, up to the one of now."""
        known = {bar.start for bar in bars}
        at = bars[0].start if bars else now
        exchange, rules = instrument.exchange, self._rulebook
        while at <= now:
            end, change = span_of(at, width)[1], rules.next_phase_change(exchange, at)
            trades = change.at < end and change.phase in BAR_PHASES
            if at in known or trades or rules.phase_at(exchange, at) in BAR_PHASES:
                yield at
                at = end
            else:
                at = max(end, span_of(change.at, width)[0])


def append(path: Path, text: str) -> None:
    """Append lines; a disk that does not take them costs the bars of the next start."""
    with suppress(OSError), path.open("a", encoding="ascii") as file:
        file.write(text)


def _read_file(path: Path, bytes_max: int) -> dict[tuple[str, int], dict[datetime, Bar]]:
    """Read all of it, and cut it when it has grown long."""
    if not path.exists():
        return {}
    text = path.read_text("ascii", "replace")
    if len(text) > bytes_max:
        text = text[-bytes_max // 2 :].partition("\n")[2]
        new = path.with_suffix(".new")
        new.write_text(text, "ascii")
        new.replace(path)
    found: dict[tuple[str, int], dict[datetime, Bar]] = {}
    for line in text.splitlines(keepends=True):
        symbol, *numbers = line.split(",")
        if line.endswith("\n") and len(numbers) == 7 and all(map(_is_number, numbers)):
            seconds, start, *prices, volume = map(int, numbers)
            opened, high, low, close = prices
            at = datetime.fromtimestamp(start, UTC)
            bar = Bar(symbol, at, seconds, opened, high, low, close, volume)
            found.setdefault((symbol, seconds), {})[at] = bar
    return found


def _is_number(text: str) -> bool:
    return text.strip().isdecimal()


def _when(at: datetime) -> str:
    return f"{at.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M:%S}".removesuffix(":00")
