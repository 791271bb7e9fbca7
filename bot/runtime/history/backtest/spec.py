"""Builds the spec of a backtest from user input: strategy files, bars, days, money."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import numpy as np

from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.rulebook import load_rulebook, load_symbols, rulebook_of
from bot.config.settings.engine_terms import engine_settings_of
from bot.config.settings.load import Loaded
from bot.config.settings.model import Settings
from bot.config.shipped import shipped
from bot.config.strategies.check import Market
from bot.config.strategies.load import check_files, market_of
from bot.domain.instrument import Exchange, Instrument, SymbolTable
from bot.domain.instrument import Listing as Listed
from bot.domain.quote import DAY
from bot.domain.rulebook import Rulebook
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.conditions import require_possible
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.backtest.rows import Hours
from bot.runtime.history.bars import BarSource
from bot.runtime.history.recording.recorded_days import RecordedDays, read_days
from bot.runtime.history.store.archive import Archive
from bot.runtime.history.store.bar_files import DAY_S, OFFSET_S
from bot.runtime.history.store.checking import WrongRow, placed
from bot.runtime.history.store.importing import Rules, check_source
from bot.runtime.history.store.simulated import SAMPLE
from bot.runtime.history.store.store import OpenedBars, open_bars
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.markets.replay.data import EARLY_S

STORE: Final = "data"
"""The folder of the stored bars in a bot's state directory."""


_UNLISTED: Final = (
    "is not in the shipped table, and no daily file says where it trades: ticks, band and phases "
    "would be guessed. bot data fetch asks the broker; or name its exchange in a daily file beside "
    "the bars (symbol,exchange,date): bot docs market-files"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A person's request. A day of None: as far as there are bars; no data: the store.

    `loaded` None: the shipped rules and the default limits.
    """

    files: Sequence[Path]
    data: Sequence[Path] = ()
    first: date | None = None
    last: date | None = None
    cash: int = 100_000_000
    holdings: Mapping[str, int] = field(default_factory=dict)
    fill: FillName = "queue"
    loaded: Loaded | None = None
    base_dir: Path | None = None
    """Where the strategies' Python is looked up; None: in the project of each file."""


def data_of(wanted: Wanted) -> Sequence[Path]:
    """Return where the bars are: as given, else the configuration's store, else the sample."""
    if gone := [each for each in wanted.data if not each.exists()]:
        text = f"--data {shown_path(gone[0])}: there is no such file or folder"
        raise OperatorMistake.of("E-DATA-001", f"{text}; leave --data out for the stored bars")
    if wanted.data:
        return wanted.data
    stored = wanted.loaded.state_dir / STORE if wanted.loaded else None
    is_filled = stored is not None and bool(Archive(stored).widths())
    return [stored if stored is not None and is_filled else shipped(SAMPLE)]


def spec_of(wanted: Wanted) -> BacktestSpec:
    """Read and check everything before anything runs. Raises OperatorMistake."""
    loaded = wanted.loaded
    rulebook = rulebook_of(loaded) if loaded else load_rulebook()
    places = data_of(wanted)
    recorded = read_days(places, first=wanted.first, last=wanted.last, calendar=rulebook.calendar)
    source: OpenedBars = (
        recorded.bars if recorded else open_bars(places, calendar=rulebook.calendar)
    )
    last = wanted.last or _ends(source, source.symbols(), recorded)[1]
    market = market_of(last, loaded)
    checked = check_files(wanted.files, base_dir=wanted.base_dir, market=market)
    symbols = {symbol for each in checked for symbol in each.plan.symbols}
    listed = {symbol: _listing(symbol, market, source, recorded) for symbol in symbols}
    if unlisted := [
        each.document.at_value("E-BT-010", f"{symbol} {_UNLISTED}", ("symbols", index))
        for each in checked
        for index, symbol in enumerate(each.plan.symbols)
        if listed[symbol] is None and source.span(symbol) is not None  # else it has no bars
    ]:
        raise OperatorMistake(unlisted)
    strategies = tuple(
        LoadedStrategy(
            each.plan,
            each.factory,
            tuple(its for symbol in each.plan.symbols if (its := listed[symbol]) is not None),
        )
        for each in checked
    )
    if recorded is None:
        _require_as_quoted(source, symbols)
    if wanted.data and recorded is None:  # the store was checked when it was filled
        instruments = {each.symbol: each for one in strategies for each in one.instruments}
        _require_sound(source, [each for _, each in sorted(instruments.items())], rulebook)
    if unheld := sorted(set(wanted.holdings) - symbols):
        text = f"--hold {unheld[0]}: no strategy trades it; they trade {', '.join(sorted(symbols))}"
        raise OperatorMistake.of("E-BT-006", text)
    first, end = _ends(source, sorted(symbols), recorded)
    spec = BacktestSpec(
        strategies=strategies,
        rulebook=rulebook,
        settings=engine_settings_of(loaded.settings if loaded else Settings()),
        source=source,
        first=wanted.first or min(first, wanted.last or first),
        last=wanted.last or max(end, wanted.first or end),
        cash=wanted.cash,
        holdings=wanted.holdings,
        fill=wanted.fill,
        table=_table(market, source, symbols),
        recorded=recorded,
    )
    require_possible(spec, places)
    return spec


def _listing(
    symbol: str, market: Market, source: OpenedBars, recorded: RecordedDays | None
) -> Instrument | None:
    """Return where a symbol trades by the table, else by the data; on a day between or outside its
    listings by the one before, else the first. None: nothing says it.
    """
    if (listed := market.symbols.instrument(symbol, market.on)) is not None:
        return listed
    if recorded is not None and (quote := recorded.quotes.get(symbol)) is not None:
        return recorded.instruments.get(symbol, Instrument(symbol, quote.exchange))
    days = sorted((day, on) for _, on, day, _ in source.days.rows(symbol) if on in set(Exchange))
    if days:
        named = [on for day, on in days if day <= market.on] or [days[0][1]]
        return Instrument(symbol, Exchange(named[-1]))
    listings = market.symbols.listings.get(symbol, ())
    earlier = [each for each in listings if each.since <= market.on]
    return next((each.instrument for each in earlier[-1:] or listings[:1]), None)


def _table(market: Market, source: OpenedBars, symbols: Iterable[str]) -> SymbolTable:
    """Return the table with the symbols that it lacks, on each day where daily files say."""
    found = dict(market.symbols.listings)
    for symbol in set(symbols) - found.keys():
        named = source.days.rows(symbol)
        rows = sorted((day, on) for _, on, day, _ in named if on in set(Exchange))
        begun = [next(run) for _, run in groupby(rows, key=itemgetter(1))]
        ends = [day - timedelta(days=1) for day, _ in begun[1:]]
        found[symbol] = tuple(
            Listed(Instrument(symbol, Exchange(on)), day, end, "a daily file")
            for (day, on), end in zip(begun, [*ends, None], strict=bool(begun))
        )
    return SymbolTable(found)


def _require_sound(
    source: OpenedBars, instruments: Sequence[Instrument], rulebook: Rulebook
) -> None:
    """Refuse bars that cannot be of these instruments."""
    odd = [each.symbol for each in instruments if _is_odd(source, each, rulebook)]
    found = check_source(source, Rules(rulebook, load_symbols()), odd)
    problems = [problem for each in found for problem in each.fatal]
    for each in instruments:
        problems += _at_other_hours(source, each, rulebook)
    if problems:
        raise OperatorMistake(problems)


def _ends(
    source: BarSource, symbols: Sequence[str], recorded: RecordedDays | None
) -> tuple[date, date]:
    """Return the first and last day with data; if no symbol is known, of any symbol."""
    if recorded is not None:
        return recorded.days[0], recorded.days[-1]
    found = [span for symbol in symbols if (span := source.span(symbol)) is not None]
    if not found:
        found = [span for each in source.symbols() if (span := source.span(each)) is not None]
    if not found:
        raise OperatorMistake.of("E-BT-004", "the files hold no bar: bot docs market-files")
    return min(span[0] for span in found), max(span[1] for span in found)


def _require_as_quoted(source: OpenedBars, symbols: Iterable[str]) -> None:
    """Refuse what a store says is adjusted: off the tick nothing is bought, and beside a ratio an
    ex-date would count twice. Raises OperatorMistake.
    """
    for symbol in sorted(symbols):
        path = source.file_of(symbol) if source.span(symbol) else None
        if path is None or path.parent.parent.name != "bars":
            continue
        key = path.parent.name, symbol
        ranges = Archive(path.parents[2]).ranges()
        if any(each.is_adjusted for each in ranges if (each.width, each.symbol) == key):
            text = f"the stored prices of {symbol} are adjusted, a backtest needs them as quoted"
            raise OperatorMistake.of("E-BT-009", f"{text}: {shown_path(path)}")


def _is_odd(source: BarSource, instrument: Instrument, rulebook: Rulebook) -> bool:
    """Return whether a close is off the tick: then all bars are worth checking, row by row."""
    span, ticks = source.span(instrument.symbol), rulebook.ticks_of(instrument)
    closes = set[int]()
    for chunk in source.chunks(instrument.symbol, *span) if span else ():
        closes.update(np.unique(chunk.close).tolist())
    return not all(map(ticks.is_on_grid, closes))


def _at_other_hours(
    source: OpenedBars, instrument: Instrument, rulebook: Rulebook
) -> list[Problem]:
    """Return a problem if no bar of a symbol is of hours in which its exchange trades: then nothing
    could be ordered, and mostly the times are of another zone.
    """
    symbol, exchange, width = instrument.symbol, instrument.exchange, source.width.total_seconds()
    span, path = source.span(symbol), source.file_of(symbol)
    if span is None or path is None or source.width >= DAY:
        return []
    hours = Hours.of(rulebook.timetable_on(exchange, span[1])).trading
    first = count = latest = 0
    earliest = DAY_S
    for chunk in source.chunks(symbol, *span):
        begins = (chunk.start + OFFSET_S) % DAY_S
        for opens, ends in hours:
            if ((begins <= ends) & (begins + width > opens - EARLY_S)).any():
                return []
        first, count = first or int(chunk.start[0]), count + len(chunk)
        earliest, latest = min(earliest, int(begins.min())), max(latest, int(begins.max()))
    text = (
        f"{exchange} does not trade then, nor at any of its {count:,} bars, which begin between "
        f"{_clock(earliest)} and {_clock(latest)}. Times are Vietnam's, without an offset: if "
        "these are UTC, add seven hours"
    )
    wrong = WrongRow(0, first, "time", "E-MKT-005", text)
    return placed(path, [wrong], 0, source.lines_of(symbol))


def _clock(second: int) -> str:
    return f"{second // 3_600:02}:{second % 3_600 // 60:02}"
