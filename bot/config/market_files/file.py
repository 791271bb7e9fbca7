"""Reads the recorded days that a scenario replays, and refuses bad ones before the first event.

Formats: docs/market-files.md. Rows of replayed days are checked in full, others only by their time,
since a file that is not sorted or was shifted to another time zone is wrong as a whole. A day's
reference is that of the daily file, if it has one; else, on the first day, the scenario's; else the
previous close (UPCOM: the average of the bars' closes by volume, to the nearest tick).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

from bot.config.market_files.check import DAY, DayLimits, day_of, require_trading_day
from bot.config.market_files.table import MarketTable, Row, WrongCell, read_table, shown
from bot.config.problems import OperatorMistake, Problem
from bot.domain.errors import CalendarEnds
from bot.domain.instrument import Exchange
from bot.domain.rulebook import Rulebook
from bot.sandbox.markets.replay.data import Print, RecordedDay, Recording, RecordKind
from bot.sandbox.markets.replay.market import day_spans
from bot.sandbox.scenario import Scenario, SymbolScript

_BARS: Final = ("open", "high", "low", "close", "volume")
_COLUMNS: Final = {
    RecordKind.MINUTES: ("time", *_BARS),
    RecordKind.TRADES: ("time", "price", "volume", "aggressor"),
    RecordKind.DAILY: ("symbol", "date", *_BARS),
}
_ENDINGS: Final = (".csv", ".csv.gz")
_OPENING: Final = 0
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_SYMBOL: Final = re.compile(r"[A-Z0-9]{3,10}")
_Value = TypeVar("_Value")

Rows = Mapping[date, list[Row]]


def with_recording(scenario: Scenario, rulebook: Rulebook, base_dir: Path) -> Scenario:
    """Return the scenario with the days it replays, on the references of the first one.

    Unchanged if it replays nothing. Raises OperatorMistake with all problems.
    """
    replayed = {each.symbol: each for each in scenario.symbols if each.replay is not None}
    if not replayed:
        return scenario
    reader = _Reader(scenario, rulebook, base_dir, tuple(replayed))
    days = {symbol: reader.days_of(script) for symbol, script in replayed.items()}
    if problems := reader.problems():
        raise OperatorMistake(problems)
    first = {symbol: found[reader.window[0]].reference for symbol, found in days.items()}
    symbols = tuple(
        each.model_copy(update={"reference": first.get(each.symbol, each.reference)})
        for each in scenario.symbols
    )
    digest = sha256(repr(days).encode()).hexdigest()
    return scenario.model_copy(update={"symbols": symbols}).with_recording(Recording(days, digest))


def _window(scenario: Scenario, rulebook: Rulebook) -> tuple[date, ...]:
    """Return the days to replay. Raises OperatorMistake for an impossible day."""
    day, calendar = scenario.day, rulebook.calendar
    years = f"the calendar covers {min(calendar.years)} to {max(calendar.years)}"
    if day is None:
        raise OperatorMistake.of("E-MKT-005", "a scenario that replays must name its day: add day")
    if not calendar.is_trading_day(day):
        why = f"day {day} is not a trading day" if calendar.covers(day) else f"day {day}"
        raise OperatorMistake.of("E-MKT-005", f"{why}: {years}")
    try:
        return tuple(calendar.add_trading_days(day, n) for n in range(scenario.replay.days))
    except CalendarEnds as error:
        message = f"{scenario.replay.days} days from {day} reach beyond the calendar; {years}"
        raise OperatorMistake.of("E-MKT-005", message) from error


class _Reader:
    """One reading of all files. Tables keep their problems until the end."""

    def __init__(
        self, scenario: Scenario, rulebook: Rulebook, base_dir: Path, symbols: tuple[str, ...]
    ) -> None:
        self.window = _window(scenario, rulebook)
        self._rulebook, self._places, self._base_dir = rulebook, scenario.replay, base_dir
        self._tables: list[MarketTable] = []
        self._missing: list[Problem] = []
        self._daily: dict[str, dict[date, list[Row]]] = {symbol: {} for symbol in symbols}
        self._daily_table: MarketTable | None = None
        if self._places.daily is not None:
            table = self._table(base_dir / self._places.daily, RecordKind.DAILY)
            self._daily = daily_rows(table, symbols, self.window, rulebook)
            self._daily_table = table

    def problems(self) -> list[Problem]:
        """Return all problems, file by file."""
        found = [problem for table in self._tables for problem in table.all_problems()]
        return [*self._missing, *found]

    def days_of(self, script: SymbolScript) -> dict[date, RecordedDay]:
        """Return the replayed days of a symbol, without faulty ones."""
        kind = script.replay
        assert kind is not None, "only replayed symbols are read"
        place = self._base_dir / str(getattr(self._places, kind))
        rows: Rows
        if kind is RecordKind.DAILY:
            table, rows = self._daily_table, self._daily[script.symbol]
        else:
            files = [place / f"{script.symbol}{ending}" for ending in _ENDINGS]
            found = next((file for file in files if file.is_file()), None)
            table, rows = self._table(found, kind) if found else None, {}
            if table is not None:
                may_repeat = kind is RecordKind.TRADES
                rows = timed_rows(table, self.window, self._rulebook, may_repeat=may_repeat)
        if table is None or self.window[0] not in rows:
            fault = f"it has no row on {self.window[0]}" if table else "its file is missing"
            message = (
                f"{script.symbol} is replayed from {kind}, but {fault}; add it, or drop the symbol"
            )
            self._missing.append(Problem("E-MKT-009", message, str(place)))
            return {}
        days: dict[date, RecordedDay] = {}
        carried = script.reference
        for day in self.window:
            reference = self._reference(script, day) or carried
            limits = DayLimits(
                self._rulebook,
                script.instrument,
                reference,
                self._rulebook.band(script.instrument, reference, special=script.is_special),
                day_spans(self._rulebook, script.exchange, day),
            )
            days[day] = _day(kind, table, rows.get(day, []), limits)
            carried = _next_reference(limits, days[day])
        return days

    def _table(self, path: Path, kind: RecordKind) -> MarketTable:
        table = read_table(path, _COLUMNS[kind])
        self._tables.append(table)
        return table

    def _reference(self, script: SymbolScript, day: date) -> int | None:
        """Return the daily file's reference, None if it has none; also check its exchange."""
        table = self._daily_table
        for row in self._daily[script.symbol].get(day, []):
            assert table is not None, "a daily row is of the daily file"
            try:
                found = row.cells.get("exchange", script.exchange)
                if found != script.exchange:
                    where = f"on {found} here, on {script.exchange} in the scenario"
                    raise WrongCell("exchange", "E-MKT-009", f"{script.symbol} is {where}")
                return row.whole("reference") if row.cells.get("reference") else None
            except WrongCell as error:
                table.wrong(row, error)
        return None


def _day(kind: RecordKind, table: MarketTable, rows: list[Row], limits: DayLimits) -> RecordedDay:
    """Return a day made of its valid rows; the table notes the others."""
    if kind is RecordKind.DAILY:
        whole = list(_right(table, rows, lambda row: limits.bar(row, _OPENING)))
        return RecordedDay(limits.reference, whole=whole[0] if whole else None)
    if kind is RecordKind.MINUTES:
        bars = _right(table, rows, limits.minute)
        return RecordedDay(limits.reference, minutes=tuple(bars))
    auctions: dict[int, int] = {}

    def trade(row: Row) -> Print:
        made = limits.trade(row)
        if made.aggressor is None and auctions.setdefault(made.second, made.price) != made.price:
            prices = f"{auctions[made.second]:,} and {made.price:,}"
            raise WrongCell("price", "E-MKT-008", f"an auction has one price, found {prices}")
        return made

    return RecordedDay(limits.reference, trades=tuple(_right(table, rows, trade)))


def _right(
    table: MarketTable, rows: Iterable[Row], taken: Callable[[Row], _Value]
) -> Iterator[_Value]:
    for row in rows:
        try:
            yield taken(row)
        except WrongCell as error:
            table.wrong(row, error)


def _next_reference(limits: DayLimits, day: RecordedDay) -> int:
    """Return the next day's reference: the close, on UPCOM the average to the nearest tick.

    After a day without a trade it stays the same.
    """
    bars = [(bar.close, bar.volume) for bar in (*day.minutes, *([day.whole] if day.whole else []))]
    sold = bars or [(each.price, each.quantity) for each in day.trades]
    if not sold:
        return limits.reference
    if limits.instrument.exchange is not Exchange.UPCOM:
        return sold[-1][0]
    volume, value = sum(volume for _, volume in sold), sum(p * v for p, v in sold)
    ticks = limits.rulebook.ticks_of(limits.instrument)
    below = ticks.down(value // volume + 1)
    above = ticks.up(below)
    return above if 2 * value >= (below + above) * volume else below


# ------------------------------------------------------------------------- the rows of a file


def timed_rows(
    table: MarketTable, days: Collection[date], rulebook: Rulebook, *, may_repeat: bool
) -> Rows:
    """Return the rows of `days` from a file of one symbol by time; `may_repeat`: several may have
    the same time.

    Problems are kept in the table.
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
    """Note what is wrong with a row's time; `before` equals it unless the row is later."""
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
    """Return the row of each of `symbols` on each of `days`. Problems are kept in the table."""
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
