"""Sources of bars: a folder of files, one file, the bot's own store, a list in a test.

<folder>/<SYMBOL>.csv[.gz]            bars of one width
<folder>/bars/<width>/<SYMBOL>.…      the store: a folder for each width
<folder>/daily*, <folder>/daily/*     days with reference and band, ex-dates (also beside it, and
                                      in the folders of its widths)
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from bot.config.market_files.table import mistake
from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.rulebook import load_rulebook
from bot.domain.calendar import TradingCalendar
from bot.domain.quote import Bar, width_name
from bot.runtime.history.bars import BarColumns, DayFrame, Gap
from bot.runtime.history.store.bar_files import (
    DAY_S,
    OFFSET_S,
    SAMPLE_BYTES,
    CsvBars,
    HeldBars,
    read_columns,
    usual_width,
)
from bot.runtime.history.store.day_files import ENDINGS, DayFiles, daily_bars, is_of_days
from bot.runtime.history.store.parquet_files import ParquetBars, read_parquet

WIDTHS: Final = {
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "30m": 1_800,
    "1h": 3_600,
    "4h": 14_400,
    "1d": DAY_S,
}
"""The folders of the store, narrowest first."""
PARQUET: Final = ".parquet"
_FOLDERS: Final = ("bars/{}", "bars_{}", "{}")
_FILE: Final = re.compile(r"[A-Z0-9]{3,10}(\.csv|\.csv\.gz|\.parquet)")
_DAILY: Final = ("daily*", "ex_dates*")
_BARS: Final = "bars"
_EPOCH: Final = date(1970, 1, 1).toordinal()
SHORT_S: Final = 3_600
"""A day that ends this much before the symbol's usual end is reported."""


class BarReader(Protocol):
    """The bars of one symbol; times are Unix seconds."""

    @property
    def path(self) -> Path | None: ...

    def chunks(self, since: int, until: int) -> Iterator[BarColumns]: ...

    def span(self) -> tuple[int, int] | None: ...


class OpenedBars:
    """A BarSource over one reader for each symbol."""

    def __init__(
        self,
        readers: Mapping[str, BarReader],
        *,
        seconds: int,
        days: DayFiles,
        calendar: TradingCalendar,
    ) -> None:
        self._readers, self._seconds = readers, seconds
        self.days, self._calendar = days, calendar
        self._frames: dict[str, Mapping[date, DayFrame]] = {}
        self._spans: dict[str, tuple[date, date] | None] = {}

    @property
    def width(self) -> timedelta:
        return timedelta(seconds=self._seconds)

    def symbols(self) -> tuple[str, ...]:
        """Return the symbols that have bars, sorted."""
        return tuple(sorted(self._readers))

    def span(self, symbol: str) -> tuple[date, date] | None:
        """Return the first and last local day with a bar; None without one."""
        if symbol not in self._spans:
            found = self._readers[symbol].span() if symbol in self._readers else None
            self._spans[symbol] = None if found is None else (day_of(found[0]), day_of(found[1]))
        return self._spans[symbol]

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        """Yield the bars of local days `first` to `last`, in order, at most CHUNK_BARS at once."""
        if symbol in self._readers:
            yield from self._readers[symbol].chunks(_midnight(first), _midnight(last) + DAY_S)

    def file_of(self, symbol: str) -> Path | None:
        """Return the file with a symbol's bars; None if there is none."""
        return self._readers[symbol].path if symbol in self._readers else None

    def lines_of(self, symbol: str) -> Sequence[int]:
        """Return the line of each bar in a file of many symbols; empty for a file of its own."""
        reader = self._readers[symbol]
        return reader.lines if isinstance(reader, HeldBars) else ()

    def frames(self, symbol: str, first: date, last: date) -> Mapping[date, DayFrame]:
        """Return the known references and bands by day, without the days of which none is known."""
        if symbol not in self._frames:
            self._frames[symbol] = self.days.frames(symbol)
        known = self._frames[symbol]
        return {day: frame for day, frame in sorted(known.items()) if first <= day <= last}

    def gaps(self, symbol: str, first: date, last: date) -> tuple[Gap, ...]:
        """Return what is missing: trading days without a bar, days that begin late or end early,
        and bars of days without trading, which nothing plays.

        A day is compared with the symbol's own usual one, so a symbol that seldom trades is not
        reported as short. Days outside the calendar have no gaps.
        """
        begins, ends = self._ends_of_days(symbol, first, last)
        known = self._calendar.trading_days
        gaps = [
            Gap(symbol, day, day, "its bars are left out: the exchanges are closed on that day")
            for day in ends
            if known and known[0] <= day <= known[-1] and not self._calendar.is_trading_day(day)
        ]
        wanted = (day for day in known if first <= day <= last)
        for is_missing, run in groupby(wanted, key=lambda day: day not in ends):
            if is_missing:
                days = list(run)
                what = "no bar" if len(days) == 1 else f"no bar on {len(days)} trading days"
                gaps.append(Gap(symbol, days[0], days[-1], what))
        if self._seconds >= DAY_S or not ends:
            return tuple(gaps)
        usual_begin, usual_end = (int(np.median(list(each.values()))) for each in (begins, ends))
        gaps += [
            Gap(symbol, day, day, f"ends at {_clock(end)}, usually at {_clock(usual_end)}")
            for day, end in ends.items()
            if usual_end - end >= SHORT_S
        ]
        gaps += [
            Gap(symbol, day, day, f"begins at {_clock(begin)}, usually at {_clock(usual_begin)}")
            for day, begin in begins.items()
            if begin - usual_begin >= SHORT_S
        ]
        return tuple(sorted(gaps, key=lambda gap: (gap.first, gap.what)))

    def _ends_of_days(
        self, symbol: str, first: date, last: date
    ) -> tuple[dict[date, int], dict[date, int]]:
        """Return the second of each local day at which its first and its last bar starts."""
        begins: dict[date, int] = {}
        ends: dict[date, int] = {}
        for columns in self.chunks(symbol, first, last):
            days, seconds = np.divmod(columns.start + OFFSET_S, DAY_S)
            found, at = np.unique(days, return_index=True)
            lasts = np.append(at[1:], len(days)) - 1
            for number, begin, end in zip(found, seconds[at], seconds[lasts], strict=True):
                day = date.fromordinal(int(number) + _EPOCH)
                begins.setdefault(day, int(begin))
                ends[day] = int(end)
        return begins, ends


class ListedBars(OpenedBars):
    """A BarSource over domain bars of one width, in any order; of two at the same time the later
    one counts.
    """

    def __init__(
        self,
        bars: Iterable[Bar],
        *,
        width: timedelta | None = None,
        frames: Mapping[str, Mapping[date, DayFrame]] | None = None,
        calendar: TradingCalendar | None = None,
    ) -> None:
        listed: dict[str, dict[int, Bar]] = defaultdict(dict)
        seconds = {each.total_seconds() for each in (width,) if each is not None}
        for bar in bars:
            seconds.add(bar.seconds)
            listed[bar.symbol][int(bar.start.timestamp())] = bar
        assert len(seconds) == 1, f"bars of one width are listed, found {seconds or 'none at all'}"
        readers = {}
        for symbol, found in listed.items():
            rows = [
                (start, each.open, each.high, each.low, each.close, each.volume)
                for start, each in sorted(found.items())
            ]
            columns = np.array(rows, np.int64).T.copy()
            readers[symbol] = HeldBars(BarColumns(symbol, int(min(seconds)), *columns))
        super().__init__(
            readers,
            seconds=int(seconds.pop()),
            days=DayFiles(()),
            calendar=calendar or load_rulebook().calendar,
        )
        self._frames = {symbol: (frames or {}).get(symbol, {}) for symbol in listed}


def open_bars(
    place: Path | Sequence[Path],
    *,
    width: timedelta | None = None,
    calendar: TradingCalendar | None = None,
) -> OpenedBars:
    """Open a folder of bars, single files of it, or the store; `width` None: the narrowest there.

    Only the beginning of the files is read here. Raises OperatorMistake if there are no bars, or
    none of that width.
    """
    calendar = calendar or load_rulebook().calendar
    places = [place] if isinstance(place, Path) else list(place)
    files = [file for each in places for file in _files_of(each, width)]
    if not files:
        wanted = (
            f"bars of {width_name(width)}"
            if width
            else "files like HPG.csv, HPG.csv.gz or HPG.parquet"
        )
        shown = ", ".join(shown_path(each) for each in places)
        raise OperatorMistake.of("E-DATA-001", f"{shown} holds no {wanted}: bot docs market-files")
    readers: dict[str, BarReader] = {}
    seconds: dict[Path, int] = {}
    problems: list[Problem] = []
    for file in files:
        try:
            found, seconds[file] = _readers_of(file, width)
            if twice := found.keys() & readers.keys():
                raise mistake("E-DATA-002", f"{min(twice)} has two files: keep one of them", file)
            readers |= found
        except OperatorMistake as wrong:
            problems += wrong.problems
    if problems:
        raise OperatorMistake(problems)
    return OpenedBars(
        readers,
        seconds=_one_width(seconds, width),
        days=DayFiles([each for place in places for each in _daily_files(place)]),
        calendar=calendar,
    )


def symbol_of(path: Path) -> str:
    """Return the symbol after which a file is named."""
    return path.name.partition(".")[0]


def bar_files(folder: Path) -> list[Path]:
    """Return the files of a folder that are named after a symbol, sorted."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(file for file in found if _FILE.fullmatch(file.name) and file.is_file())


def widths_in(folder: Path) -> list[timedelta]:
    """Return the widths of which a folder has bars in a folder of their own, narrowest first."""
    return [
        timedelta(seconds=seconds)
        for name, seconds in WIDTHS.items()
        if any(bar_files(folder / form.format(name)) for form in _FOLDERS)
    ]


def wider_of(places: Sequence[Path], symbol: str, width: timedelta) -> tuple[Path, str] | None:
    """Return a folder with wider bars of a symbol than those of a width, which alone are read of a
    place, and their width's name; None if there is none.
    """
    for place in places:
        for name in (each for each, seconds in WIDTHS.items() if seconds > width.total_seconds()):
            for folder in (place / form.format(name) for form in _FOLDERS):
                if symbol in map(symbol_of, bar_files(folder)):
                    return folder, name
    return None


def files_in(folder: Path) -> list[Path]:
    """Return the files of bars and of days that a folder holds already."""
    return [*_files_of(folder, None), *_daily_files(folder)] if folder.is_dir() else []


def _readers_of(file: Path, wanted: timedelta | None) -> tuple[Mapping[str, BarReader], int]:
    """Return readers for the symbols of a file, and the width of its bars; reads its beginning.

    With too few rows to tell, the width is the wanted one, or that of the folder's name, or a
    minute; likewise for a symbol that seldom trades, whose usual distance is wider.
    """
    if file.suffix != PARQUET and is_of_days(file):
        return daily_bars(file), DAY_S
    if not _FILE.fullmatch(file.name):
        text = "a file of bars is named after its symbol, like HPG.csv or HPG.csv.gz: rename it"
        raise mistake("E-DATA-013", text, file)
    symbol, is_parquet = symbol_of(file), file.suffix == PARQUET
    sample = partial(read_columns, block_bytes=SAMPLE_BYTES)
    parts = (read_parquet if is_parquet else sample)(file, symbol, 1)
    named = WIDTHS.get(file.parent.name.removeprefix("bars_"))
    said = int(wanted.total_seconds()) if wanted else named
    seconds = usual_width(next(parts).start, said) or said or WIDTHS["1m"]
    kind = ParquetBars if is_parquet else CsvBars
    return {symbol: kind(file, symbol, seconds)}, seconds


def _files_of(place: Path, width: timedelta | None) -> list[Path]:
    if not place.is_dir():
        return [place]
    names = [width_name(width)] if width else list(WIDTHS)
    folders = [place / form.format(name) for name in names for form in _FOLDERS]
    return next((files for each in (*folders, place) if (files := bar_files(each))), [])


def _daily_files(place: Path) -> list[Path]:
    """Return the daily files in a folder of bars and in the folders of its widths, and beside it if
    the folder is named after a width.
    """
    folder = place if place.is_dir() else place.parent
    around = [folder, *(folder / form.format(name) for name in WIDTHS for form in _FOLDERS)]
    if folder.name in WIDTHS or folder.name.startswith(_BARS):
        around.append(folder.parent)
    if folder.name in WIDTHS and folder.parent.name == _BARS:
        around.append(folder.parent.parent)
    named = [
        file for each in around if each.is_dir() for start in _DAILY for file in each.glob(start)
    ]
    inner = [file for each in around for file in (each / "daily").glob("*")]
    return sorted(file for file in {*named, *inner} if file.name.endswith(ENDINGS))


def _one_width(widths: Mapping[Path, int], wanted: timedelta | None) -> int:
    """Return the width of all files. Raises OperatorMistake if there are two, or another one."""
    example, seconds = next(iter(widths.items()))
    first = f" as in {example.name}"
    if wanted is not None:
        seconds, first = int(wanted.total_seconds()), ""
    for file, each in widths.items():
        if each != seconds:
            found, other = (width_name(timedelta(seconds=s)) for s in (each, seconds))
            why = f"bars of {found}, wanted {other}{first}; keep each width in a folder of its own"
            raise mistake("E-DATA-003", why, file)
    return seconds


def _midnight(day: date) -> int:
    return (day.toordinal() - _EPOCH) * DAY_S - OFFSET_S


def day_of(start: int) -> date:
    """Return the local day of a bar's start."""
    return date.fromordinal((start + OFFSET_S) // DAY_S + _EPOCH)


def _clock(second: int) -> str:
    return f"{second // 3_600:02}:{second // 60 % 60:02}"
