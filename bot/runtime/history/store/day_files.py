"""Daily files: what the exchange fixed for each day, and daily bars of many symbols.

A file is recognised by its header: `symbol,date,…` holds days (bars, and perhaps `reference`,
`ceiling`, `floor`, `ex_ratio`), `symbol,ex_date,ratio` ex-dates. Others are ignored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from bot.config.market_files.check import day_of
from bot.config.market_files.table import MarketTable, Row, WrongCell, opened, read_table, shown
from bot.config.problems import OperatorMistake
from bot.runtime.history.bars import BarColumns, DayFrame
from bot.runtime.history.store.bar_files import DAY_S, FIGURES, OFFSET_S, HeldBars, figures_of

ENDINGS: Final = (".csv.gz", ".csv")
_DAYS: Final = frozenset({"symbol", "date"})
_EX_DATES: Final = frozenset({"symbol", "ex_date", "ratio"})
_FRAME: Final = ("reference", "ceiling", "floor")
_ADJUSTED: Final = "adjusted"
_HEADER_BYTES: Final = 4_096
_EPOCH: Final = date(1970, 1, 1).toordinal()
_RATIO_MAX: Final = 2
"""Of an ex-date: above 1 only for reverse splits, which do not occur here."""
_Value = TypeVar("_Value")
_Take = Callable[[Row], tuple[str, DayFrame]]
DayRow = tuple[str, str, date, DayFrame]


def is_of_days(path: Path) -> bool:
    """Return whether a file holds days of many symbols."""
    return _header(path) >= _DAYS


class DayFiles:
    """The daily files around some bars; a symbol's rows are read on first use."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._tables: list[tuple[MarketTable, _Take]] | None = None

    def frames(self, symbol: str) -> Mapping[date, DayFrame]:
        """Return what is known of a symbol's days. Raises OperatorMistake with all wrong rows.

        An adjusted row has no frame. If files differ, the first by name counts.
        """
        return {day: frame for _, _, day, frame in self.rows(symbol) if frame != DayFrame()}

    def rows(self, symbol: str | None = None) -> list[DayRow]:
        """Return symbol, exchange (perhaps empty), day and frame; of one symbol or of all."""
        if self._tables is None:
            kinds: tuple[tuple[frozenset[str], _Take], ...] = (
                (_DAYS, _frame),
                (_EX_DATES, lambda row: ("", DayFrame(ex_ratio=_ratio(row, "ratio")))),
            )
            self._tables = [
                (read_table(path, sorted(columns)), take)
                for columns, take in kinds
                for path in self._paths
                if _header(path) >= columns
            ]
        found: dict[tuple[str, date], tuple[str, DayFrame]] = {}
        for table, take in self._tables:
            for name, day, (exchange, frame) in _taken(table, take, symbol):
                was_on, known = found.get((name, day), ("", DayFrame()))
                found[name, day] = (was_on or exchange, fuller(known, frame))
        return [(name, on, day, frame) for (name, day), (on, frame) in found.items()]


def fuller(first: DayFrame, second: DayFrame) -> DayFrame:
    """Return a frame completed with the second one's values."""
    return replace(
        first,
        **{name: value for name, value in asdict(second).items() if getattr(first, name) is None},
    )


def daily_bars(path: Path) -> dict[str, HeldBars]:
    """Return the daily bars of each symbol of a file. Raises OperatorMistake."""
    rows: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    table = read_table(path, ("symbol", "date", *FIGURES))
    for symbol, day, (line, *figures) in _taken(
        table, lambda row: (row.number, *figures_of(row, row.cells["symbol"].upper()))
    ):
        start = (day.toordinal() - _EPOCH) * DAY_S - OFFSET_S
        rows[symbol].append((start, *figures, line))
    held = {}
    for symbol, found in rows.items():
        *columns, lines = np.array(sorted(found), np.int64).T.copy()
        held[symbol] = HeldBars(BarColumns(symbol, DAY_S, *columns), path, lines.tolist())
    return held


def _taken(
    table: MarketTable, take: Callable[[Row], _Value], symbol: str | None = None
) -> Iterator[tuple[str, date, _Value]]:
    """Yield symbol, day and the extracted value of each row, optionally of one symbol only;
    a symbol in small letters is the same.

    Raises OperatorMistake after the last row, with all problems.
    """
    column = "ex_date" if "ex_date" in table.header else "date"
    at = table.header.index("symbol")
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(table.lines, start=2):
        if symbol is not None and line.upper().split(",", at + 1)[at : at + 1] != [symbol]:
            continue
        row = table.row(number, line)
        if row is None:
            continue
        key = (row.cells["symbol"].upper(), row.cells[column])
        try:
            if key in seen:
                raise WrongCell(column, "E-MKT-004", f"{' '.join(key)} comes twice: keep one row")
            seen.add(key)
            taken = key[0], day_of(key[1], column), take(row)
        except WrongCell as error:
            table.wrong(row, error)
            continue
        yield taken
    if table.problems:
        raise OperatorMistake(table.all_problems())


def _frame(row: Row) -> tuple[str, DayFrame]:
    exchange = row.cells.get("exchange", "")
    if row.cells.get("basis") == _ADJUSTED:
        return exchange, DayFrame()
    prices = {name: row.whole(name) for name in _FRAME if row.cells.get(name)}
    ratio = _ratio(row, "ex_ratio") if row.cells.get("ex_ratio") else None
    return exchange, DayFrame(**prices, ex_ratio=ratio)


def _ratio(row: Row, column: str) -> float:
    text = row.cells[column]
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio < _RATIO_MAX:
        message = f"a ratio lies between 0 and {_RATIO_MAX}, found {shown(text)}"
        raise WrongCell(column, "E-MKT-003", message)
    return ratio


def _header(path: Path) -> frozenset[str]:
    with opened(path) as file:
        text = file.readline(_HEADER_BYTES).decode("utf-8-sig", "replace")
    return frozenset(text.strip().lower().split(","))
