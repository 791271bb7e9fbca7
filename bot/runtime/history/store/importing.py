"""Imports other files into the store: all are checked first, so that everything comes
or nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from bot.config.market_files.table import mistake
from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.domain.instrument import Exchange, Instrument, SymbolTable
from bot.domain.rulebook import Rulebook
from bot.runtime.history.bars import BarColumns
from bot.runtime.history.store.archive import (
    Added,
    Archive,
    Origin,
    Overlap,
    Writer,
    compared,
    joined,
)
from bot.runtime.history.store.bar_files import INDICES
from bot.runtime.history.store.checking import BarCheck, Checked, WrongRow, placed
from bot.runtime.history.store.day_files import DayRow
from bot.runtime.history.store.store import OpenedBars, open_bars, widths_in

Progress = Callable[[float], None]
"""Called with the share done, from 0 to 1."""
ALWAYS: Final = (date(1990, 1, 1), date(2200, 1, 1))


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that bars are checked against."""

    rulebook: Rulebook
    symbols: SymbolTable


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The bars of one symbol and the findings on them; `told` has places where known."""

    source: OpenedBars
    symbol: str
    found: Checked
    fatal: tuple[Problem, ...]
    told: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result for one symbol."""

    symbol: str
    width: timedelta
    first: date
    last: date
    bars: int
    added: Added


def check_source(
    source: OpenedBars,
    rules: Rules,
    symbols: Sequence[str],
    *,
    is_adjusted: bool = False,
    progress: Progress = lambda _: None,
) -> list[CheckedFile]:
    """Check the bars of symbols. Unreadable bars are fatal too."""
    checked: list[CheckedFile] = []
    for symbol in symbols:
        checked.append(_check(source, rules, symbol, is_adjusted=is_adjusted))
        progress(len(checked) / len(symbols))
    return checked


def _check(source: OpenedBars, rules: Rules, symbol: str, *, is_adjusted: bool) -> CheckedFile:
    place = source.file_of(symbol)
    try:
        span = source.span(symbol)
        if span is not None and not ALWAYS[0] <= span[0] <= span[1] <= ALWAYS[1]:
            text = f"{symbol}: bars of {span[0]} to {span[1]}: those from {ALWAYS[0]} on are known"
            raise OperatorMistake.of("E-MKT-005", f"{text}, to {ALWAYS[1]}")
        exchanges = {day: on for _, on, day, _ in source.days.rows(symbol) if on}
        known = rules.symbols.listings.get(symbol)

        def instrument_on(day: date) -> Instrument | None:
            named = exchanges.get(day)
            found = rules.symbols.instrument(symbol, day)
            return Instrument(symbol, Exchange(named)) if named and found is None else found

        frames = source.frames(symbol, *ALWAYS)
        check = BarCheck(symbol, rules.rulebook, instrument_on, frames, is_adjusted=is_adjusted)
        for columns in source.chunks(symbol, *ALWAYS):
            check.add(columns)
    except OperatorMistake as wrong:
        return CheckedFile(source, symbol, Checked(symbol), wrong.problems, ())
    found = check.found
    told = _placed(source, symbol, found.told, found.told_count)
    if not (known or exchanges or symbol in INDICES):
        text = (
            f"{symbol} is not in symbols.csv, nor in a daily file with its exchange: ticks, band "
        )
        text += "and hours were not checked"
        told.append(Problem("E-DATA-010", text, shown_path(place) if place else None))
    told += [
        Problem("E-DATA-011", f"{symbol} {day} {words}: did it go ex? Say so in ex_dates.csv")
        for day, words in found.ex_dates.items()
    ]
    fatal = _placed(source, symbol, found.fatal, found.fatal_count)
    return CheckedFile(source, symbol, found, tuple(fatal), tuple(told))


def import_files(
    archive: Archive,
    places: Sequence[Path],
    rules: Rules,
    *,
    at: datetime,
    width: timedelta | None = None,
    overlap: Overlap = Overlap.REFUSE,
    is_adjusted: bool = False,
    progress: Progress = lambda _: None,
) -> tuple[list[Imported], list[Problem], int]:
    """Check files and folders, then add their bars and days to the store.

    Returns what was imported, what is odd in it, and how many days have a reference or a ratio now.
    Raises OperatorMistake with all problems, before anything is written.
    """
    problems: list[Problem] = []
    checked: list[CheckedFile] = []
    for place in places:
        widths = [] if width else widths_in(place)
        for each_width in widths if len(widths) > 1 else [width]:
            try:
                source = open_bars(place, width=each_width)
            except OperatorMistake as wrong:
                problems += wrong.problems
                continue
            checked += check_source(
                source,
                rules,
                source.symbols(),
                is_adjusted=is_adjusted,
                progress=lambda done: progress(done / 2),
            )
    problems += [problem for each in checked for problem in each.fatal]
    if problems:
        raise OperatorMistake(problems)
    sources = {id(each.source): each.source for each in checked}.values()
    rows = [row for source in sources for row in source.days.rows()]
    imported = []
    with archive.writing() as writer:
        _check_all(writer, checked, rows, overlap, is_adjusted=is_adjusted)
        days = writer.add_days(rows, replaces=overlap is Overlap.REPLACE)
        for each in checked:
            span = each.source.span(each.symbol)
            assert span is not None, "what was checked has bars"
            added = writer.add(
                each.source.chunks(each.symbol, *span),
                Origin.IMPORT,
                source=(each.source.file_of(each.symbol) or places[0]).name,
                at=at,
                overlap=overlap,
                is_adjusted=is_adjusted,
            )
            bars = each.found.bars
            imported.append(Imported(each.symbol, each.source.width, *span, bars, added))
            progress((1 + len(imported) / len(checked)) / 2)
    return imported, [problem for each in checked for problem in each.told], days


def _check_all(
    writer: Writer,
    checked: Iterable[CheckedFile],
    days: Iterable[DayRow],
    overlap: Overlap,
    *,
    is_adjusted: bool,
) -> None:
    """Raise OperatorMistake with everything that the store would refuse, and with every symbol
    that two of the places have differently.
    """
    mistakes: list[OperatorMistake] = []
    earlier: dict[tuple[str, timedelta], list[CheckedFile]] = {}
    for each in checked:
        same = earlier.setdefault((each.symbol, each.source.width), [])
        try:
            new = _bars_of(each)
            writer.check(new, overlap, is_adjusted=is_adjusted)
            for other in same:
                _require_alike(other, each, compared(_bars_of(other), new, ("there", "here")))
        except OperatorMistake as wrong:
            mistakes.append(wrong)
        same.append(each)
    try:
        if overlap is Overlap.REFUSE:
            writer.check_days(days)
    except OperatorMistake as wrong:
        mistakes.append(wrong)
    if mistakes:
        does_differ = all(each.exit_code == ExitCode.DIFFERS for each in mistakes)
        problems = [problem for each in mistakes for problem in each.problems]
        raise OperatorMistake(problems, ExitCode.DIFFERS if does_differ else ExitCode.CONFIG)


def _require_alike(first: CheckedFile, second: CheckedFile, found: Added) -> None:
    if not found.differing:
        return
    symbol = second.symbol
    there, here = (e.source.file_of(symbol) or Path(symbol) for e in (first, second))
    text = f"{found.differing:,} of the bars of {symbol} differ from {shown_path(there)}, the "
    text += f"first {found.first_difference}; nothing was changed: leave one of the files out"
    raise mistake("E-DATA-002", text, here)


def _bars_of(checked: CheckedFile) -> BarColumns:
    return joined(checked.source.chunks(checked.symbol, *ALWAYS))


def _placed(
    source: OpenedBars, symbol: str, wrong_rows: Sequence[WrongRow], count: int
) -> list[Problem]:
    path = source.file_of(symbol)
    if path is not None:
        return placed(path, wrong_rows, count - len(wrong_rows), source.lines_of(symbol))
    return [Problem(each.code, f"{symbol} {each.clock}: {each.message}") for each in wrong_rows]
