"""A market file as a table of text: CSV or gzipped CSV, with the place of every cell.

Commas separate, nothing is quoted, the first line names the columns in any order; unused columns
are ignored. Errors are `Problem`s with file, line and column.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from bot.config.model_check import in_order
from bot.config.problems import OperatorMistake, Problem

BYTES_MAX: Final = 200_000_000
"""Unpacked. A year of minutes of one stock is about 3 MB."""
PROBLEMS_MAX: Final = 20
_WHOLE: Final = re.compile(r"[0-9]+")
_WHOLE_AS_FLOAT: Final = re.compile(r"([0-9]+)\.0+")
"""As pandas writes a column of whole numbers with a missing value."""
_PRICE_DIGITS_MIN: Final = 4
"""A price with a decimal point and fewer digits is more likely in thousands of VND."""
_FRACTION: Final = re.compile(r"[0-9]*\.[0-9]+")
_SHOWN_MAX: Final = 40
_DIGITS_MAX: Final = 15
"""Digits of a whole number: more than any price, volume or value has."""

Unpacked = BinaryIO | gzip.GzipFile


class WrongCell(Exception):
    """A row cannot be used: which column, which error code, and what an operator should know."""

    def __init__(self, column: str, code: str, message: str) -> None:
        super().__init__(message)
        self.column, self.code, self.message = column, code, message


@dataclass(frozen=True, slots=True)
class Row:
    """One line: `cells` by column; `starts` is the character, from 1, at which each begins."""

    number: int
    cells: Mapping[str, str]
    starts: Mapping[str, int]

    def whole(self, column: str) -> int:
        """Return a whole number, which may be written as `26500.0`. Raises WrongCell."""
        text = self.cells[column]
        found = _WHOLE_AS_FLOAT.fullmatch(text)
        if found and (column == "volume" or len(found[1]) >= _PRICE_DIGITS_MIN):
            text = found[1]
        if _WHOLE.fullmatch(text):
            if len(text.lstrip("0")) > _DIGITS_MAX:
                message = f"{column} has at most {_DIGITS_MAX} digits, found {shown(text)}"
                raise WrongCell(column, "E-MKT-008", message)
            return int(text)
        if not _FRACTION.fullmatch(text):
            message = f"{column} is a whole number of 0 or more, found {shown(text)}"
            raise WrongCell(column, "E-MKT-003", message)
        if column == "volume":
            message = f"a volume is whole shares, found {shown(text)}: round it to lots of 100"
        else:
            message = (
                f"{column} is whole VND, found {shown(text)}: "
                f"if the file is in thousands, multiply its prices by 1,000"
            )
        raise WrongCell(column, "E-MKT-006", message)


@dataclass(slots=True)
class MarketTable:
    """A file's lines, and the problems found in them, at most PROBLEMS_MAX."""

    path: Path
    header: Sequence[str]
    lines: Sequence[str]
    problems: list[Problem] = field(default_factory=list)
    more: int = 0
    """How many faulty rows there are beyond those listed."""

    def rows(self) -> Iterator[Row]:
        """Yield the rows that have all their columns."""
        for number, line in enumerate(self.lines, start=2):
            row = self.row(number, line)
            if row is not None:
                yield row

    def row(self, number: int, line: str) -> Row | None:
        """Split a line; None, and a problem, unless it has one cell for each column."""
        cells = line.split(",")
        if len(cells) != len(self.header):
            text = f"wanted {len(self.header)} columns as in line 1, found {len(cells)}"
            self.note(Problem("E-MKT-003", text, str(self.path), number, 1))
            return None
        starts, at = {}, 1
        for name, cell in zip(self.header, cells, strict=True):
            starts[name] = at
            at += len(cell) + 1
        return Row(number, dict(zip(self.header, cells, strict=True)), starts)

    def wrong(self, row: Row, error: WrongCell) -> None:
        """Note that a cell is wrong."""
        column = row.starts.get(error.column, 1)
        self.note(Problem(error.code, error.message, str(self.path), row.number, column))

    def note(self, problem: Problem) -> None:
        """Note a problem, or only count it once many are noted."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)
        else:
            self.more += 1

    def all_problems(self) -> list[Problem]:
        """Return the problems by line, then one that counts those not listed."""
        listed = in_order(self.problems)
        if not self.more:
            return listed
        text = f"{self.more} more rows are wrong; fix these first"
        return [*listed, Problem("E-MKT-003", text, str(self.path))]


def read_table(path: Path, wanted: Sequence[str]) -> MarketTable:
    """Read a file that has at least the columns `wanted`. Raises OperatorMistake."""
    with opened(path) as file:
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise mistake("E-CFG-007", f"more than {BYTES_MAX:,} bytes; split the file", path)
    try:
        header, *lines = content.decode("utf-8-sig").splitlines() or [""]
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"wanted UTF-8 text, found byte 0x{content[error.start]:02x}; convert it"
        raise OperatorMistake([Problem("E-CFG-010", message, str(path), line, column)]) from error
    names = header_names(path, header, wanted)
    if not lines:
        raise mistake("E-MKT-002", "the file has a header but no rows: add rows", path, 1)
    return MarketTable(path, names, lines)


@contextmanager
def opened(path: Path) -> Iterator[Unpacked]:
    """Open a file, decompressed, within the context. Raises OperatorMistake if it
    cannot be read.
    """
    try:
        with path.open("rb") as packed:
            if path.suffix != ".gz":
                yield packed
                return
            with gzip.GzipFile(fileobj=packed) as file:
                yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        message = "the compressed file is truncated or damaged; fetch it again"
        raise mistake("E-MKT-001", message, path) from error
    except OSError as error:
        raise mistake("E-CFG-001", f"cannot be read: {error.strerror}", path) from error


def header_names(path: Path, header: str, wanted: Sequence[str]) -> list[str]:
    """Return the column names of a first line that has all of `wanted`. Raises OperatorMistake."""
    header = header.strip()
    names, columns = header.lower().split(","), f"a header {','.join(wanted)}"
    if not header:
        raise mistake("E-CFG-008", f"the file is empty; wanted {columns} and rows", path)
    missing = [name for name in wanted if name not in names]
    if missing or len(set(names)) < len(names):
        fault = f"lacks {', '.join(missing)}" if missing else "names a column twice"
        message = f"the first line {fault}; wanted {columns}, found {shown(header)}"
        raise mistake("E-MKT-002", message, path, 1)
    return names


def shown(text: str) -> str:
    """Return a cell's text in quotes, cut to the length of a line."""
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")


def mistake(code: str, message: str, path: Path, line: int | None = None) -> OperatorMistake:
    """Return a mistake that concerns a whole file, or a whole line of it."""
    return OperatorMistake([Problem(code, message, str(path), line, line)])
