"""The bot's own store of bars: one folder, and a manifest with the origin of each range.

    bars/<width>/<SYMBOL>.parquet    with polars when the symbol is first kept, else .csv.gz
    daily/days.csv.gz                reference, ceiling, floor and ex-ratio of days, as far as known
    manifest.json                    ranges: from where, when, adjusted or not

Each file is written beside the old one and renamed, bars before the manifest: after a kill there
may be bars that the manifest lacks, which repeating the import adds. That they are adjusted it says
before. There is one writer at a time. Existing bars are never replaced silently.
"""

import fcntl
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np

from bot.config.problems import ExitCode, OperatorMistake, shown_path
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.quote import width_name
from bot.runtime.history.bars import BarColumns, Column, DayFrame
from bot.runtime.history.store.bar_files import FIGURES, HeldBars, read_columns
from bot.runtime.history.store.bar_writing import write_bars, write_days, written_beside
from bot.runtime.history.store.day_files import DayFiles, DayRow, fuller
from bot.runtime.history.store.parquet_files import has_polars, read_parquet, write_parquet
from bot.runtime.history.store.store import (
    PARQUET,
    WIDTHS,
    OpenedBars,
    bar_files,
    day_of,
    open_bars,
    symbol_of,
)

MANIFEST: Final = "manifest.json"
DAYS: Final = "daily/days.csv.gz"
_LOCK: Final = ".lock"
_FORMAT: Final = 1
_NEXT_TO: Final = timedelta(days=1)
"""Ranges of one origin this close to each other are merged: no day lies between them."""
RANGES_MAX: Final = 1_000
"""Ranges of one symbol and width; older ones are dropped."""


class Origin(StrEnum):
    """Where bars came from."""

    BROKER = "broker"
    RECORDER = "recorder"
    IMPORT = "import"


class Overlap(StrEnum):
    """What to do if stored bars differ from new ones: refuse all, keep them, replace them."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class StoredRange:
    """Where the bars of a symbol from one local day to another came from, and when."""

    width: str
    symbol: str
    first: date
    last: date
    origin: Origin
    source: str
    at: datetime
    is_adjusted: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding bars: how many are new, existed already, and differ from
    existing ones.
    """

    new: int
    same: int
    differing: int
    first_difference: str = ""


class Archive:
    """The store in a folder, which may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def source(self, width: timedelta | None = None) -> OpenedBars:
        """Open what is stored. Raises OperatorMistake if there is nothing."""
        return open_bars(self.folder, width=width)

    def widths(self) -> list[timedelta]:
        """Return the widths of the stored bars, narrowest first."""
        found = [name for name in WIDTHS if bar_files(self.folder / "bars" / name)]
        return [timedelta(seconds=WIDTHS[name]) for name in found]

    def ranges(self) -> tuple[StoredRange, ...]:
        """Return the ranges in the manifest. Raises OperatorMistake if it cannot be read."""
        path = self.folder / MANIFEST
        try:
            found = json.loads(path.read_text("utf-8"))
            return tuple(
                StoredRange(
                    str(row["width"]),
                    str(row["symbol"]),
                    date.fromisoformat(row["first"]),
                    date.fromisoformat(row["last"]),
                    Origin(row["origin"]),
                    str(row["source"]),
                    datetime.fromisoformat(row["at"]),
                    bool(row["is_adjusted"]),
                )
                for row in found["ranges"]
            )
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = (
                f"{shown_path(path)} cannot be read ({error}); move it away: bars are kept, only "
            )
            text += "where they came from is forgotten"
            raise OperatorMistake.of("E-DATA-006", text, ExitCode.DATABASE) from error

    def stored(self, like: BarColumns) -> tuple[Path, BarColumns]:
        """Return the file for such bars, existing or not, and what is stored of the symbol."""
        folder = self.folder / "bars" / width_name(timedelta(seconds=like.seconds))
        files = [file for file in bar_files(folder) if symbol_of(file) == like.symbol]
        if not files:
            ending = PARQUET if has_polars() else ".csv.gz"
            return folder / f"{like.symbol}{ending}", _rows_at(like, np.empty(0, np.int64))
        read = read_parquet if files[0].suffix == PARQUET else read_columns
        return files[0], joined(read(files[0], like.symbol, like.seconds))

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """Yield the writer. Raises OperatorMistake while there is another one."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self.folder / _LOCK).open("a")
        except OSError as error:
            text = f"{shown_path(self.folder)}: no store of bars here ({error.strerror})"
            raise OperatorMistake.of("E-DATA-004", text, ExitCode.DATABASE) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                text = f"{shown_path(self.folder)}: another command writes there; wait for it"
                raise OperatorMistake.of("E-DATA-007", text, ExitCode.NOT_RUNNING) from error
            yield Writer(self)


class Writer:
    """Adds to the store while it holds its lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._ranges = archive, list(archive.ranges())

    def add(
        self,
        bars: Iterable[BarColumns],
        origin: Origin,
        *,
        source: str,
        at: datetime,
        overlap: Overlap = Overlap.REFUSE,
        is_adjusted: bool = False,
        days: tuple[date, date] | None = None,
    ) -> Added:
        """Add the bars of one symbol; they are in order. If one is refused, nothing is written.

        `days` are those requested, if more than those with a bar. Raises OperatorMistake if stored
        bars differ and `overlap` is to refuse, and if adjusted bars would be mixed with unadjusted
        ones.
        """
        new = joined(bars)
        path, old, added = self.check(new, overlap, is_adjusted=is_adjusted)
        width = width_name(timedelta(seconds=new.seconds))
        known = days or (day_of(int(new.start[0])), day_of(int(new.start[-1])))
        told = StoredRange(width, new.symbol, *known, origin, source, at, is_adjusted)
        if is_adjusted:  # told before, of one day: what is killed here is not taken for quoted
            self.note(replace(told, last=told.first))
        if added.new or (added.differing and overlap is Overlap.REPLACE):
            # Both in order of time; where both have a bar, `over` wins.
            base, over = (new, old) if overlap is Overlap.KEEP else (old, new)
            only = np.flatnonzero(~np.isin(base.start, over.start))
            both = joined([_rows_at(base, only), over])
            held = HeldBars(_rows_at(both, np.argsort(both.start, kind="stable")))
            first, last = held.span() or (0, 0)
            write = write_parquet if path.suffix == PARQUET else write_bars
            write(path, held.chunks(first, last + 1))
        self.note(told)
        return added

    def check(
        self, new: BarColumns, overlap: Overlap, *, is_adjusted: bool
    ) -> tuple[Path, BarColumns, Added]:
        """Return the file for the bars of one symbol, what is stored there, and the result of
        adding them. Raises OperatorMistake if `add` would refuse them.
        """
        width = width_name(timedelta(seconds=new.seconds))
        if width not in WIDTHS:
            text = f"{new.symbol}: bars of {width} are not kept, only of {', '.join(WIDTHS)}"
            raise OperatorMistake.of("E-DATA-003", text)
        for each in self._ranges:
            if (each.width, each.symbol) == (width, new.symbol) and each.is_adjusted != is_adjusted:
                kinds = ("as quoted", "adjusted")
                text = (
                    f"the stored bars of {new.symbol} are {kinds[each.is_adjusted]}, the new ones"
                )
                text += f" are {kinds[is_adjusted]}: keep them apart with --store FOLDER"
                raise OperatorMistake.of("E-DATA-009", text)
        path, old = self._archive.stored(new)
        added = compared(old, new)
        if added.differing and overlap is Overlap.REFUSE:
            raise _differs(new.symbol, "bars", added.differing, added.first_difference)
        return path, old, added

    def add_days(self, days: Iterable[DayRow], *, replaces: bool) -> int:
        """Add frames of days to those stored, and return how many are new or more complete."""
        path, stored, changed = self._archive.folder / DAYS, self._stored_days(), 0
        for symbol, exchange, day, frame in days:
            was_on, old = stored.get((symbol, day), ("", DayFrame()))
            first, second = (frame, old) if replaces else (old, frame)
            now = fuller(first, second)
            if (was_on or exchange, now) != (was_on, old):
                stored[symbol, day] = (was_on or exchange, now)
                changed += 1
        if changed:
            write_days(path, ((s, e, d, f) for (s, d), (e, f) in sorted(stored.items())))
        return changed

    def check_days(self, days: Iterable[DayRow]) -> None:
        """Raise OperatorMistake with every symbol of which a day is stored with another figure."""
        stored = self._stored_days()
        differing = defaultdict[str, dict[date, str]](dict)
        for symbol, _, day, frame in days:
            _, known = stored.get((symbol, day), ("", DayFrame()))
            pairs = [
                f"{name} {old} stored, {new} new"
                for name, new in asdict(frame).items()
                if None not in (old := getattr(known, name), new) and old != new
            ]
            if pairs:
                differing[symbol][day] = "; ".join(pairs)
        mistakes = [
            _differs(symbol, "days", len(found), "{}: {}".format(*min(found.items())))
            for symbol, found in differing.items()
        ]
        if mistakes:
            problems = [problem for each in mistakes for problem in each.problems]
            raise OperatorMistake(problems, ExitCode.DIFFERS)

    def _stored_days(self) -> dict[tuple[str, date], tuple[str, DayFrame]]:
        path = self._archive.folder / DAYS
        rows = DayFiles([path] if path.exists() else ()).rows()
        return {(symbol, day): (exchange, frame) for symbol, exchange, day, frame in rows}

    def note(self, new: StoredRange) -> None:
        """Record where days came from, including days that turned out to have no bars."""
        kept: list[StoredRange] = []
        kind = attrgetter("width", "symbol", "origin", "source", "is_adjusted")
        for each in self._ranges:
            is_near = each.first <= new.last + _NEXT_TO and new.first <= each.last + _NEXT_TO
            if is_near and kind(each) == kind(new):
                first, last = min(each.first, new.first), max(each.last, new.last)
                new = replace(new, first=first, last=last)
            else:
                kept.append(each)
        own = [each for each in kept if (each.width, each.symbol) == (new.width, new.symbol)]
        dropped = own[: max(0, len(own) - RANGES_MAX + 1)]
        self._ranges = [each for each in kept if each not in dropped] + [new]
        key = attrgetter("width", "symbol", "first")
        rows = [
            {n: v if isinstance(v, bool) else str(v) for n, v in asdict(each).items()}
            for each in sorted(self._ranges, key=key)
        ]
        with written_beside(self._archive.folder / MANIFEST) as file:
            text = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            file.write(f'{{"format": {_FORMAT}, "ranges": [\n{text}\n]}}\n'.encode())


def joined(bars: Iterable[BarColumns]) -> BarColumns:
    """Return the parts of one symbol joined. At least one part is given."""
    parts = list(bars)
    figures = (np.concatenate([getattr(p, name) for p in parts]) for name in ("start", *FIGURES))
    return BarColumns(parts[0].symbol, parts[0].seconds, *figures)


def compared(old: BarColumns, new: BarColumns, names: tuple[str, str] = ("stored", "new")) -> Added:
    """Return what adding bars to others would come to; `names` say which figure is whose."""
    both, at_old, at_new = np.intersect1d(
        old.start, new.start, assume_unique=True, return_indices=True
    )
    differ = np.zeros(len(both), bool)
    for name in FIGURES:
        differ |= getattr(old, name)[at_old] != getattr(new, name)[at_new]
    added = Added(len(new) - len(both), int((~differ).sum()), int(differ.sum()))
    if not added.differing:
        return added
    of_old, of_new = int(at_old[differ][0]), int(at_new[differ][0])
    pairs = [
        f"{name} {int(a):,} {names[0]}, {int(b):,} {names[1]}"
        for name in FIGURES
        if (a := getattr(old, name)[of_old]) != (b := getattr(new, name)[of_new])
    ]
    local = datetime.fromtimestamp(int(old.start[of_old]), EXCHANGE_TZ)
    return replace(added, first_difference=f"{local:%Y-%m-%d %H:%M}: {'; '.join(pairs)}")


def _differs(symbol: str, what: str, count: int, first: str) -> OperatorMistake:
    text = f"{count:,} of the stored {what} of {symbol} differ, the first "
    text += f"{first}; nothing was changed: take the new ones with --replace"
    return OperatorMistake.of("E-DATA-008", text, ExitCode.DIFFERS)


def _rows_at(bars: BarColumns, rows: Column) -> BarColumns:
    figures = (getattr(bars, name)[rows] for name in ("start", *FIGURES))
    return BarColumns(bars.symbol, bars.seconds, *figures)
