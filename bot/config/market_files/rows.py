"""Picks the rows of the played days out of market files.

The time of every row is looked at, also of days that are not played: a file that is not sorted, or
was moved to another time zone, is wrong as a whole.
"""

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Final

from bot.config.market_files.check import day_of, require_trading_day
from bot.config.market_files.table import MarketTable, Row, WrongCell, shown
from bot.domain.rulebook import Rulebook

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_SYMBOL: Final = re.compile(r"[A-Z0-9]{3,10}")
DAY: Final = slice(0, 10)
CLOCK: Final = slice(11, None)

Rows = Mapping[date, list[Row]]


def timed_rows(
    table: MarketTable, days: Collection[date], rulebook: Rulebook, *, may_repeat: bool
) -> Rows:
    """Return the rows of `days` from a file of one symbol by time; `may_repeat`: two of one time.

    Problems stay with the table.
    """
    played = {str(day): day for day in days}
    index, before, known = table.header.index("time"), "", set[str]()
    rows: dict[date, list[Row]] = {}
    for number, line in enumerate(table.lines, start=2):
        text = [*line.split(",", index + 1), *[""] * index][index]
        is_later = text > before or (may_repeat and text == before)
        if not (is_later and text[DAY] in known):
            _check_time(table, number, line, before if is_later else text, rulebook)
            known.add(text[DAY])
        before = max(before, text) if _TIME.fullmatch(text) else before
        if text[DAY] in played and (row := table.row(number, line)) is not None:
            rows.setdefault(played[text[DAY]], []).append(row)
    return rows


def _check_time(
    table: MarketTable, number: int, line: str, before: str, rulebook: Rulebook
) -> None:
    """Note what is wrong with the time of a row; `before` is its own when it is not a later one."""
    row = table.row(number, line)
    if row is None:
        return
    text = row.cells["time"]
    try:
        if not _TIME.fullmatch(text):
            message = f"a time is YYYY-MM-DD HH:MM, found {shown(text)}"
            raise WrongCell("time", "E-MKT-003", message)
        require_trading_day(rulebook, day_of(text[DAY], "time"), "time")
        if text == before:
            message = f"{text} is not later than the rows before it: sort the file by time"
            raise WrongCell("time", "E-MKT-004", message)
    except WrongCell as error:
        table.wrong(row, error)


def daily_rows(
    table: MarketTable, symbols: Collection[str], days: Collection[date], rulebook: Rulebook
) -> dict[str, dict[date, list[Row]]]:
    """Return the row of each of `symbols` on each of `days`. Problems stay with the table."""
    rows: dict[str, dict[date, list[Row]]] = {symbol: {} for symbol in symbols}
    latest: dict[str, date] = {}
    for row in table.rows():
        symbol = row.cells["symbol"]
        try:
            if not _SYMBOL.fullmatch(symbol):
                message = f"a symbol is 3 to 10 capitals or digits, found {shown(symbol)}"
                raise WrongCell("symbol", "E-MKT-003", message)
            if symbol not in rows:
                continue
            day, before = day_of(row.cells["date"], "date"), latest.get(symbol)
            require_trading_day(rulebook, day, "date")
            if before is not None and day <= before:
                message = (
                    f"{day} is not later than {before} before it: sort a symbol's rows by date"
                )
                raise WrongCell("date", "E-MKT-004", message)
        except WrongCell as error:
            table.wrong(row, error)
            continue
        latest[symbol] = day
        if day in days:
            rows[symbol][day] = [row]
    return rows
