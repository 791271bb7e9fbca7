"""Reads a file of bars block by block: fast for a year of minutes, ten million bars in a few MB.

Formats: docs/market-files.md. A well-formed block is parsed column by column; otherwise it is
parsed again row by row, and every error is reported with its place.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bot.config.market_files.table import (
    MarketTable,
    Row,
    Unpacked,
    WrongCell,
    header_names,
    mistake,
    opened,
    shown,
)
from bot.config.problems import OperatorMistake
from bot.domain.instrument import EXCHANGE_TZ
from bot.runtime.history.bars import CHUNK_BARS, BarColumns, Column

BLOCK_BYTES: Final = 1 << 18
"""Read at once: some six thousand bars, so that fifty open files fit in memory."""
FIGURES: Final = ("open", "high", "low", "close", "volume")
INDICES: Final = frozenset({"VNINDEX", "VN30", "HNXINDEX", "HNX30", "UPCOMINDEX"})
"""Not shares: their points are hundredths in memory, so that they are whole numbers too."""
HUNDREDTHS: Final = 100
"""Of a point."""
DAY_S: Final = 86_400
OFFSET_S: Final = int((EXCHANGE_TZ.utcoffset(datetime(2024, 1, 1)) or timedelta()).total_seconds())  # noqa: DTZ001
"""Local time's offset from UTC: the same all year."""
_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?))?")
_ZERO: Final = ord("0")
_DIGITS_MAX: Final = 15
_FORM: Final = np.frombuffer(b"0000-00-00 00:00:00", np.uint8)
_FORM_WIDTHS: Final = (10, 16, 19)
SAMPLE_BYTES: Final = 1 << 15
"""Read at once if only the first bars are needed."""
_WITHIN_DAY_S: Final = 6 * 3_600
"""Bars of one day are closer together than those of two days."""
_POINTS_MAX: Final = 5_000
"""More than any of the indices has ever had, and less than those times 100."""
_POINTS: Final = re.compile(r"[0-9]+(\.[0-9]{1,2})?")

Bytes = NDArray[np.uint8]
Figures = Sequence[Column]
"""Start, open, high, low, close, volume."""


@dataclass(frozen=True, slots=True)
class CsvBars:
    """The bars of one symbol in a CSV file, perhaps gzipped, oldest first."""

    path: Path
    symbol: str
    seconds: int

    def chunks(self, since: int, until: int) -> Iterator[BarColumns]:
        """Yield the bars that start from `since` to before `until`. Raises OperatorMistake."""
        return all_between(read_columns(self.path, self.symbol, self.seconds), since, until)

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last start without reading what is between."""
        first = next(read_columns(self.path, self.symbol, self.seconds, block_bytes=SAMPLE_BYTES))
        with opened(self.path) as file:
            names = header_of(self.path, file)
            *_, last = blocks_of(self.path, file, BLOCK_BYTES)
        line = last[last.rstrip(b"\n").rfind(b"\n") + 1 :]
        try:
            ends = Reading(self.path, names, self.seconds, self.symbol).figures(line)[0]
        except OperatorMistake:  # the line number is unknown here; reading the whole file finds it
            ends = [columns.start for columns in read_columns(self.path, self.symbol, 1)][-1]
        return int(first.start[0]), int(ends[-1])


@dataclass(frozen=True, slots=True)
class HeldBars:
    """The bars of one symbol in memory; perhaps from a file of many, each with its line."""

    columns: BarColumns
    path: Path | None = None
    lines: Sequence[int] = ()

    def chunks(self, since: int, until: int) -> Iterator[BarColumns]:
        part = between(self.columns, since, until)
        for at in range(0, len(part), CHUNK_BARS):
            yield rows_of(part, at, at + CHUNK_BARS)

    def span(self) -> tuple[int, int] | None:
        start = self.columns.start
        return (int(start[0]), int(start[-1])) if len(start) else None


def between(columns: BarColumns, since: int, until: int) -> BarColumns:
    """Return the bars that start from `since` to before `until`."""
    first, end = np.searchsorted(columns.start, (since, until))
    return rows_of(columns, int(first), int(end))


def all_between(bars: Iterable[BarColumns], since: int, until: int) -> Iterator[BarColumns]:
    """Yield the bars that start from `since` to before `until`, reading no more than those."""
    for columns in bars:
        if columns.start[0] >= until:
            return
        part = between(columns, since, until)
        if len(part):
            yield part


def rows_of(columns: BarColumns, first: int, end: int) -> BarColumns:
    """Return some of the bars, by their number."""
    if first == 0 and end >= len(columns):
        return columns
    figures = (columns.start, *(getattr(columns, name) for name in FIGURES))
    return BarColumns(columns.symbol, columns.seconds, *(each[first:end] for each in figures))


def usual_width(starts: Column, said: int | None = None) -> int | None:
    """Return the usual distance of bars in seconds; None if there are too few.

    It is `said` if all distances are multiples of that, and not of the usual one.
    """
    distances = np.diff(starts)
    within = distances[distances < _WITHIN_DAY_S]
    if len(within):
        found, counts = np.unique(within, return_counts=True)
        usual = int(found[np.argmax(counts)])
        is_sparse = said is not None and usual > said and (found % usual).any()
        return said if is_sparse and not (found % said).any() else usual
    return DAY_S if ((starts + OFFSET_S) % DAY_S == 0).all() else None


def read_columns(
    path: Path, symbol: str, seconds: int, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[BarColumns]:
    """Yield all bars of a file of one symbol, block by block.

    Raises OperatorMistake for a file that is damaged, empty, unsorted, or not in a known form.
    """
    with opened(path) as file:
        names = header_of(path, file)
        reading = Reading(path, names, seconds, symbol)
        for block in blocks_of(path, file, block_bytes):
            figures = reading.figures(block)
            if len(figures[0]):
                yield BarColumns(symbol, seconds, *figures)
    if not reading.rows:
        raise mistake("E-MKT-002", "the file has a header but no rows: add rows", path, 1)


def header_of(path: Path, file: Unpacked) -> list[str]:
    """Read the first line: the names of the columns. Raises OperatorMistake."""
    first = file.readline(BLOCK_BYTES)
    try:
        header = first.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"wanted UTF-8 text, found byte 0x{first[error.start]:02x}; convert it"
        raise mistake("E-CFG-010", message, path, 1) from error
    time = "date" if "date" in header.strip().lower().split(",") else "time"
    return header_names(path, header, (time, *FIGURES))


def _time_column(names: Sequence[str]) -> str:
    return "time" if "time" in names else "date"


def blocks_of(path: Path, file: Unpacked, block_bytes: int) -> Iterator[bytes]:
    """Yield whole lines, with their line ends."""
    left = b""
    while read := file.read(block_bytes):
        whole, end, rest = (left + read).rpartition(b"\n")
        if len(rest) > block_bytes:
            raise mistake("E-MKT-003", "a line is too long: this is no CSV file", path)
        left = rest
        if end:
            yield whole.replace(b"\r", b"") + end
    if left:
        yield left.replace(b"\r", b"") + b"\n"


class Reading:
    """One pass over a file: the last start so far, and the number of lines passed."""

    def __init__(self, path: Path, names: list[str], seconds: int, symbol: str) -> None:
        self._path, self._names, self._seconds = path, names, seconds
        self._symbol = symbol
        self._wanted = [names.index(name) for name in (_time_column(names), *FIGURES)]
        self._last = -seconds
        self._line = 2
        self.rows = 0

    def figures(self, block: bytes) -> Figures:
        """Return the columns of a block of lines. Raises OperatorMistake with all wrong rows."""
        found = None if self._symbol in INDICES else self._added_up(block)
        return self.taken(found, lambda: block)

    def taken(self, found: Figures | None, text: Callable[[], bytes]) -> Figures:
        """Use the columns if they are well-formed, else parse the rows one by one.

        Raises OperatorMistake with all wrong rows.
        """
        is_in_order = found is not None
        if found is not None and len(found[0]):
            start, opened_at, high, low, close, _ = found
            is_in_order = bool(
                start[0] - self._last >= self._seconds
                and (np.diff(start) >= self._seconds).all()
                and (low > 0).all()
                and (low <= np.minimum(opened_at, close)).all()
                and (high >= np.maximum(opened_at, close)).all()
            )
        if found is None or not is_in_order:
            found = self._row_by_row(text())
        if self._symbol in INDICES:
            _require_points(self._path, self._symbol, found[1:-1])
        if len(found[0]):
            self._last = int(found[0][-1])
        self._line += len(found[0])
        self.rows += len(found[0])
        return found

    def _added_up(self, block: bytes) -> Figures | None:
        """Return the columns, each parsed at once; None if a cell has another form."""
        data, columns = np.frombuffer(block, np.uint8), len(self._names)
        found_ends = np.flatnonzero((data == ord(",")) | (data == ord("\n")))
        if len(found_ends) % columns:
            return None
        ends = found_ends.reshape(-1, columns)
        if (data[ends[:, -1]] != ord("\n")).any() or (data[ends[:, :-1]] == ord("\n")).any():
            return None
        starts = np.concatenate(([-1], ends.ravel()[:-1])).reshape(-1, columns) + 1
        time, *figures = self._wanted
        found = [_times(data, starts[:, time], ends[:, time])]
        found += [_wholes(data, starts[:, each], ends[:, each]) for each in figures]
        columns_found = [each for each in found if each is not None]
        return columns_found if len(columns_found) == len(found) else None

    def _row_by_row(self, block: bytes) -> Figures:
        table = MarketTable(self._path, self._names, ())
        rows: list[tuple[int, ...]] = []
        last = self._last
        for number, line in enumerate(block.splitlines(), start=self._line):
            row = table.row(number, line.decode("utf-8", "replace"))
            if row is None:
                continue
            try:
                start = self._start_of(row, last)
                rows.append((start, *figures_of(row, self._symbol)))
                last = start
            except WrongCell as error:
                table.wrong(row, error)
        if table.problems:
            raise OperatorMistake(table.all_problems())
        return tuple(np.array(rows, np.int64).reshape(-1, len(self._wanted)).T.copy())

    def _start_of(self, row: Row, last: int) -> int:
        """Return the start of a row's bar, which must be after the last one. Raises WrongCell."""
        column = _time_column(self._names)
        text = row.cells[column]
        found = _TIME.fullmatch(text)
        try:
            if found is None:
                raise ValueError(text)
            day, clock = found.groups()
            at = datetime.fromisoformat(f"{day} {clock or '00:00'}").replace(tzinfo=UTC)
        except ValueError:
            message = f"a time is YYYY-MM-DD HH:MM, found {shown(text)}"
            raise WrongCell(column, "E-MKT-003", message) from None
        start = int(at.timestamp()) - OFFSET_S
        if start <= last:
            message = f"{text} is not later than the rows before it: sort the file"
            raise WrongCell(column, "E-MKT-004", f"{message}, and leave out what comes twice")
        if start - last < self._seconds and last >= 0:
            message = f"{text} comes {start - last} s after the row before it, but "
            message += f"the file's bars are {self._seconds} s wide: keep one width in a file"
            raise WrongCell(column, "E-MKT-010", message)
        return start


def figures_of(row: Row, symbol: str) -> tuple[int, ...]:
    """Return prices and volume of a row. Raises WrongCell."""
    take = _points if symbol in INDICES else Row.whole
    opened_at, high, low, close = (take(row, name) for name in FIGURES[:-1])
    if not 0 < low <= min(opened_at, close) <= max(opened_at, close) <= high:
        message = f"high {high:,} and low {low:,} do not hold open {opened_at:,} and close "
        raise WrongCell("high", "E-MKT-008", f"{message}{close:,}, or are not above 0")
    return opened_at, high, low, close, row.whole("volume")


def _points(row: Row, column: str) -> int:
    text = row.cells[column]
    if not _POINTS.fullmatch(text):
        message = f"{column} of an index is points with two digits, found {shown(text)}"
        raise WrongCell(column, "E-MKT-003", message)
    whole, _, part = text.partition(".")
    return int(whole) * HUNDREDTHS + int(part.ljust(2, "0"))


def _require_points(path: Path, symbol: str, prices: Sequence[Column]) -> None:
    """Refuse an index that was written times 100, as earlier versions did at every import."""
    high = max((int(each.max()) for each in prices if len(each)), default=0)
    if high > _POINTS_MAX * HUNDREDTHS and not any((each % HUNDREDTHS).any() for each in prices):
        text = (
            f"{symbol} of {high // HUNDREDTHS:,} points: an earlier version stored it times 100; "
        )
        text += "move this file away and import the index again"
        raise mistake("E-DATA-015", text, path)


def _wholes(data: Bytes, starts: Column, ends: Column) -> Column | None:
    """Return whole numbers, None if a cell is anything else."""
    widths = ends - starts
    if len(widths) == 0 or widths.min() < 1 or widths.max() > _DIGITS_MAX:
        return None if len(widths) else widths
    total, everywhere = np.zeros(len(widths), np.int64), widths.min()
    for place in range(int(widths.max())):
        rows = slice(None) if place < everywhere else np.flatnonzero(widths > place)
        digits = data[ends[rows] - 1 - place] - np.uint8(_ZERO)
        if (digits > 9).any():
            return None
        total[rows] += digits.astype(np.int64) * 10**place
    return total


def _times(data: Bytes, starts: Column, ends: Column) -> Column | None:
    """Return times as Unix seconds, None if one has another form or is not a time."""
    if len(starts) == 0:
        return starts
    width = int(ends[0] - starts[0])
    if width not in _FORM_WIDTHS or (ends - starts != width).any():
        return None
    text = data[starts[:, None] + np.arange(width)]
    digits, form = (text - np.uint8(_ZERO)).astype(np.int64), _FORM[:width]
    is_digit = form == _ZERO
    if (text[:, ~is_digit] != form[~is_digit]).any() or (digits[:, is_digit] > 9).any():
        return None
    year = digits[:, :4] @ np.array([1_000, 100, 10, 1])
    month, day, hour, minute, second = (
        digits[:, at : at + 2] @ np.array([10, 1]) if at < width else np.zeros(len(text), np.int64)
        for at in (5, 8, 11, 14, 17)
    )
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    is_time = (month >= 1) & (month <= 12) & (days.astype("datetime64[M]") == months) & (day >= 1)
    if not (is_time & (hour < 24) & (minute < 60) & (second < 60)).all():
        return None
    seconds = days.astype(np.int64) * DAY_S + hour * 3_600 + minute * 60 + second
    return np.asarray(seconds - OFFSET_S, np.int64)
