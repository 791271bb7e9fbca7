"""Earlier bars from the bot's own store, which `bot data` fills: the last source to be asked."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from bot.config.problems import OperatorMistake
from bot.domain.bar_grid import DAY, span_of, widened
from bot.domain.bar_news import WentEx
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.rulebook import Rulebook
from bot.journal.thread import in_time
from bot.runtime.history.warming.broker_bars import filled, first_of
from bot.runtime.history.warming.warm_up import Earlier, UnusableHistory

FOLDER: Final = "data"
"""Of the store, in the state directory."""
READ_S: Final = 10.0
CLOSE_WITHIN: Final = timedelta(days=14)
"""Longer than any closure of the exchanges: an older close is none of the day before."""


@dataclass(frozen=True, slots=True)
class StoredBars:
    """Reads the store in a folder, if there is one; a thread does, so that nothing waits for it."""

    folder: Path
    rulebook: Rulebook

    @property
    def name(self) -> str:
        return "the store"

    def asks(self, _width: timedelta) -> bool:
        return False

    def give_again(self, symbols: Collection[str]) -> None:
        """Each read looks anew."""

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        """Return the newest bars, made of the widest ones that make them. Raises UnusableHistory
        for a store that can't be read.
        """
        if not self.folder.is_dir():
            return None
        try:
            return await in_time(partial(self._read, instrument, width, count, now), READ_S)
        except OperatorMistake as error:
            first, *others = error.problems
            more = f"; {len(others):,} more: bot data check {instrument.symbol}" if others else ""
            raise UnusableHistory(f"{first.head}{more}") from error
        except (OSError, TimeoutError) as error:
            raise UnusableHistory(f"{self.folder.name} can't be read: {error}") from error

    async def went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        """Return what the daily files of the store say of ex-dates, where the close before is
        there too. Raises OSError, TimeoutError, UnusableHistory.
        """
        if not self.folder.is_dir():
            return ()
        try:
            return await in_time(partial(self._went_ex, symbol, days), READ_S)
        except OperatorMistake as error:
            raise UnusableHistory(error.problems[0].head) from error

    def _went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        from bot.runtime.history.store.archive import Archive
        from bot.runtime.history.store.store import open_bars

        if not Archive(self.folder).widths():
            return ()
        source, found = open_bars(self.folder), list[WentEx]()
        for day, frame in source.frames(symbol, min(days), max(days)).items():
            since = day - CLOSE_WITHIN
            chunks = list(source.chunks(symbol, since, day - DAY))
            if day in days and frame.ex_ratio is not None and chunks:
                close = int(chunks[-1].close[-1])
                found.append(WentEx(symbol, day, close, round(close * frame.ex_ratio)))
        return found

    def _read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        # NumPy and perhaps polars: only where there is a store.
        from bot.runtime.history.store.archive import Archive
        from bot.runtime.history.store.store import bar_files, open_bars, symbol_of, width_name

        archive, symbol = Archive(self.folder), instrument.symbol
        # A symbol's own files alone: a damaged one costs no other symbol anything.
        files = {
            step: file
            for step in archive.widths()
            for file in bar_files(self.folder / "bars" / width_name(step))
            if width % step == timedelta(0) and symbol_of(file) == symbol
        }
        if not files:
            return None
        step = max(files)
        name = width_name(step)
        if any(e.is_adjusted for e in archive.ranges() if (e.width, e.symbol) == (name, symbol)):
            raise UnusableHistory("its prices are adjusted, those of today are as quoted")
        source = open_bars(files[step], width=step)
        span = source.span(symbol)
        if span is None:
            return None
        first = max(span[0], first_of(now, width, count).astimezone(EXCHANGE_TZ).date())
        chunks = source.chunks(symbol, first, now.astimezone(EXCHANGE_TZ).date())
        bars = [bar for chunk in chunks for bar in chunk.bars() if bar.start <= now]
        gaps: list[str] = []
        if step < DAY:
            bars, gaps = filled(self.rulebook, instrument, bars, step)
        made = [bar for bar in widened(bars, width) if span_of(bar.start, width)[1] <= now]
        return Earlier(tuple(made[-count:]), gaps=tuple(gaps))
