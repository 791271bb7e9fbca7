"""Bars in Parquet, read and written a part at a time through polars (the extra `data`).

Errors are reported as they would be for the same rows as CSV under a header.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bot.config.market_files.table import mistake
from bot.config.problems import OperatorMistake, shown_path
from bot.runtime.history.bars import BarColumns
from bot.runtime.history.store.bar_files import (
    FIGURES,
    HUNDREDTHS,
    INDICES,
    OFFSET_S,
    Figures,
    Reading,
    all_between,
)
from bot.runtime.history.store.bar_writing import written_beside

if TYPE_CHECKING:
    import polars as pl

PART_BARS: Final = 8_192
"""Read and written at once: fifty files are open in one run."""
_NO_NUMBERS: Final = ("Binary", "Int128", "UInt128")
"""Kinds of columns that NumPy does not take as numbers."""
_START_MAX: Final = 7_258_118_400
"""The year 2200: a larger number is not in seconds."""
_TIME: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:00)?)?$"


@dataclass(frozen=True, slots=True)
class ParquetBars:
    """The bars of one symbol in a Parquet file, oldest first."""

    path: Path
    symbol: str
    seconds: int

    def chunks(self, since: int, until: int) -> Iterator[BarColumns]:
        """Yield the bars that start from `since` to before `until`. Raises OperatorMistake."""
        return all_between(read_parquet(self.path, self.symbol, self.seconds), since, until)

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last start without reading what is between."""
        first = next(read_parquet(self.path, self.symbol, self.seconds))
        (last,) = read_parquet(self.path, self.symbol, self.seconds, from_row=-1)
        return int(first.start[0]), int(last.start[-1])


def has_polars() -> bool:
    """Return whether Parquet can be read and written here."""
    try:
        import_module("polars")
    except ImportError:
        return False
    return True


def read_parquet(
    path: Path, symbol: str, seconds: int, *, from_row: int = 0
) -> Iterator[BarColumns]:
    """Yield all bars of a file, a part at a time; `from_row` -1 means only the last one.

    Raises OperatorMistake like `read_columns`.
    """
    if not has_polars():
        text = f"{shown_path(path)} is Parquet: to read it, pip install 'vnbot[data]'"
        raise OperatorMistake.of("E-DATA-005", text)
    import polars as pl

    with _damage_told(path):
        rows = pl.scan_parquet(path)
        kinds = dict(rows.collect_schema())
        count = int(rows.select(pl.len()).collect().item())
    names = list(kinds)
    time = next((name for name in ("time", "date", "start") if name in names), "time")
    wanted = (time, *FIGURES)
    if missing := [name for name in wanted if name not in names]:
        text = f"the file lacks {', '.join(missing)}; wanted columns {', '.join(wanted)}"
        raise mistake("E-MKT-002", text, path)
    if not count:
        raise mistake("E-MKT-002", "the file has no rows: add the rows", path)
    name = "date" if time == "date" else "time"
    reading = Reading(path, [name, *FIGURES], seconds, symbol)
    for each in FIGURES:
        if kinds[each].is_nested() or str(kinds[each]) in _NO_NUMBERS:
            text = f"column {each} is numbers of at most 64 bits, found {kinds[each]}"
            raise mistake("E-MKT-003", text, path)
    at = _local_time(pl.col(time), kinds[time], path)
    rows = rows.select(at.alias(name), *FIGURES)
    for first in range(from_row % count, count, PART_BARS):
        with _damage_told(path):
            part = rows.slice(first, PART_BARS).collect()
        as_csv = partial(part.write_csv, include_header=False, datetime_format="%Y-%m-%d %H:%M:%S")
        figures = reading.taken(_figures(part, symbol), lambda: as_csv().encode())  # noqa: B023
        yield BarColumns(symbol, seconds, *figures)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Turn what polars raises (or panics) on a damaged file into OperatorMistake."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        message = f"this is no Parquet file, or a damaged one: {lines[0]}"
        raise mistake("E-MKT-001", message, path) from error


def write_parquet(path: Path, bars: Iterable[BarColumns]) -> None:
    """Write bars as Parquet with a column `start` of Unix seconds, in parts of PART_BARS rows.

    An index is written in points, as it is read.
    """
    import polars as pl

    frames = []
    for columns in bars:
        frame = pl.DataFrame({name: getattr(columns, name) for name in ("start", *FIGURES)})
        if columns.symbol in INDICES:
            frame = frame.with_columns(pl.col(FIGURES[:-1]) / HUNDREDTHS)
        frames.append(frame)
    packed = BytesIO()  # so that a full disk raises OSError and not a polars error
    pl.concat(frames).write_parquet(packed, row_group_size=PART_BARS, compression="zstd")
    with written_beside(path) as file:
        file.write(packed.getvalue())


def _local_time(column: "pl.Expr", kind: "pl.DataType", path: Path) -> "pl.Expr":
    """Return a column of times as local time without a zone."""
    import polars as pl

    if isinstance(kind, pl.Datetime):
        zone = kind.time_zone
        local = column.dt.convert_time_zone("Asia/Ho_Chi_Minh") if zone else column
        return local.dt.replace_time_zone(None)
    if kind == pl.Date:
        return column.cast(pl.Datetime("us"))
    if kind.is_integer():
        is_time = column.is_between(0, _START_MAX)
        return pl.from_epoch(pl.when(is_time).then(column.cast(pl.Int64) + OFFSET_S), time_unit="s")
    if kind == pl.String:
        column = pl.when(column.str.contains(_TIME)).then(column)
        padded = column.str.replace("T", " ").str.pad_end(16, " ").str.replace(" {6}$", " 00:00")
        return padded.str.slice(0, 16).str.to_datetime("%Y-%m-%d %H:%M", strict=False)
    text = f"column time is a time, text or Unix seconds, found {kind}"
    raise mistake("E-MKT-003", text, path)


def _figures(part: "pl.DataFrame", symbol: str) -> Figures | None:
    """Return the columns as whole numbers; None if a cell is not one."""
    import polars as pl

    if any(part.null_count().row(0)):
        return None
    start = part.to_series(0).dt.epoch("s").to_numpy().astype(np.int64) - OFFSET_S
    found = [start]
    for name in FIGURES:
        numbers = part[name]
        if not numbers.dtype.is_numeric():
            return None
        if symbol in INDICES and name != "volume":
            numbers = (numbers.cast(pl.Float64) * HUNDREDTHS).round()
        whole = numbers.to_numpy()
        found.append(whole.astype(np.int64))
        if (found[-1] != whole).any() or (found[-1] < 0).any():
            return None
    return found
