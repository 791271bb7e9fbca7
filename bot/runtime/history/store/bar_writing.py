"""Writes files of bars and of days beside the old ones and renames them: never a partial file.

The same bars give the same bytes: files contain no time of writing.
"""

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import IO, Final

from bot.config.problems import ExitCode, OperatorMistake, shown_path
from bot.runtime.history.bars import BarColumns, DayFrame
from bot.runtime.history.store.bar_files import DAY_S, FIGURES, HUNDREDTHS, INDICES, OFFSET_S

DAYS_HEADER: Final = "symbol,exchange,date,reference,ceiling,floor,ex_ratio"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001


@contextmanager
def written_beside(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write; it replaces `path` once everything is on disk.

    Raises OperatorMistake if it cannot be written, and then leaves `path` unchanged.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        text = f"{shown_path(path)} cannot be written: {error.strerror}; check the folder"
        raise OperatorMistake.of("E-DATA-004", text, ExitCode.DATABASE) from error
    finally:
        new.unlink(missing_ok=True)


def write_bars(path: Path, bars: Iterable[BarColumns]) -> None:
    """Write bars as compressed CSV; each part comes after the one before it. An index is written in
    points, as it is read.
    """
    with written_beside(path) as file, _packed(file) as packed:
        packed.write(f"time,{','.join(FIGURES)}\n".encode())
        for columns in bars:
            form = "%Y-%m-%d" if columns.seconds >= DAY_S else "%Y-%m-%d %H:%M"
            price = _points if columns.symbol in INDICES else str
            figures = (map(price, getattr(columns, name).tolist()) for name in FIGURES[:-1])
            rows = zip(columns.start.tolist(), *figures, columns.volume.tolist(), strict=True)
            for start, *row, volume in rows:
                at = _EPOCH + timedelta(seconds=start + OFFSET_S)
                packed.write(f"{at:{form}},{','.join(row)},{volume}\n".encode())


def write_days(path: Path, days: Iterable[tuple[str, str, date, DayFrame]]) -> None:
    """Write symbol, exchange, day and frame of each row as compressed CSV."""
    with written_beside(path) as file, _packed(file) as packed:
        packed.write(f"{DAYS_HEADER}\n".encode())
        for symbol, exchange, day, frame in days:
            figures = (frame.reference, frame.ceiling, frame.floor, frame.ex_ratio)
            cells = ",".join("" if each is None else str(each) for each in figures)
            packed.write(f"{symbol},{exchange},{day},{cells}\n".encode())


def _points(hundredths: int) -> str:
    return f"{hundredths // HUNDREDTHS}.{hundredths % HUNDREDTHS:02}"


def _packed(file: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0)
