"""Recorded days as a market to trade on: their symbols, data and events.

The recordings are read twice, a part at a time: once to find what they contain (a market lists its
symbols before it opens), and again while they are played, so that a long day needs no memory.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from bot.config.problems import OperatorMistake, shown_path
from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.local_time import clock_of, instant_of, local_of
from bot.domain.message import (
    DepthReceived,
    Event,
    InstrumentsRead,
    PhaseChanged,
    QuoteReceived,
    Recovered,
    TradingDayStarted,
)
from bot.domain.quote import Bar, ClosesRead, Quote, span_of
from bot.engine.market import BAR_PHASES
from bot.runtime.history.bars import DayFrame, Gap
from bot.runtime.history.recording.recordings import (
    FOLDER,
    GAP,
    HEAD,
    Unusable,
    is_blank,
    parts_of,
    read_head,
    rows_of,
    runs_in,
)
from bot.runtime.history.recording.replay import Progress, at_of
from bot.runtime.history.store.store import ListedBars

DAY_MARK: Final = "date="
BAR: Final = timedelta(minutes=1)
OPENS_AT, ENDS_AT = time(9), time(14, 45)
PAUSE_MIN: Final = timedelta(minutes=2)
"""A shorter pause without recording is not worth mentioning as a gap."""
WHOLE: Final = "all symbols"
_LOOKED_AT: Final = frozenset(
    each.__name__
    for each in (
        *(QuoteReceived, DepthReceived, InstrumentsRead, PhaseChanged),
        *(Recovered, TradingDayStarted, ClosesRead),
    )
)


@dataclass(frozen=True, slots=True)
class RecordedDays:
    """The contents of recorded days. `folders` are those of their runs, in order, each with its
    day.

    `quotes`: the first one of each symbol. `looks`: how many quotes and depths there are of each.
    `bars`: minutes built from the quotes, for charts and benchmarks. `days` are those whose
    beginning was recorded: only these can be traded.
    """

    folders: tuple[tuple[date, Path], ...]
    days: tuple[date, ...]
    quotes: Mapping[str, Quote]
    instruments: Mapping[str, Instrument]
    looks: Mapping[str, tuple[int, int]]
    bars: ListedBars
    gaps: tuple[Gap, ...]

    @property
    def deep(self) -> frozenset[str]:
        """The symbols whose depth was recorded."""
        return frozenset(symbol for symbol, (_, depths) in self.looks.items() if depths)

    def events(self, first: date, last: date, progress: Progress) -> Iterator[Event]:
        """Yield the events of local days, in order. Raises Unusable."""
        wanted = [folder for day, folder in self.folders if first <= day <= last]
        for at, folder in enumerate(wanted):
            _, ways = read_head(folder)
            for row in (row for part in parts_of(folder) for row in rows_of(part)):
                if row.event and row.kind != GAP:
                    yield ways.event.read(row.event)
            progress((at + 1) / len(wanted))


def day_folders(path: Path) -> Mapping[date, Path]:
    """Return the recorded days that a path names: one day, `recorded`, or a bot's state folder that
    has it.

    Empty: it is no recording.
    """
    path = path.absolute()
    named = [path] if path.name.startswith(DAY_MARK) else []
    folders = named or sorted(path.glob(f"{DAY_MARK}*")) or sorted(path.glob(f"{FOLDER}/date=*"))
    found = dict[date, Path]()
    for folder in folders:
        with suppress(ValueError):
            day = date.fromisoformat(folder.name.removeprefix(DAY_MARK))
            if any(folder.glob(f"run=*/{HEAD}")):
                found[day] = folder
    return found


def read_days(
    paths: Sequence[Path],
    *,
    first: date | None,
    last: date | None,
    calendar: TradingCalendar,
    progress: Progress = lambda _: None,
) -> RecordedDays | None:
    """Return the contents of recordings of these days; None if a path holds bars. Raises
    OperatorMistake for a mixture, for two recordings of one day, and for a damaged one.
    """
    named = [(path, day_folders(path)) for path in paths]
    if not any(found for _, found in named):
        return None
    folders = dict[date, Path]()
    for path, found in named:
        if not found:
            text = f"--data {shown_path(path)}: this holds no recording, another --data does"
            raise OperatorMistake.of("E-BT-008", f"{text}: name bars alone, or recordings alone")
        if twice := sorted(day for day in found if folders.get(day, found[day]) != found[day]):
            text = f"--data {shown_path(path)}: {twice[0]} is in another recording too"
            raise OperatorMistake.of("E-BT-008", f"{text}: name one of them")
        folders |= found
    wanted = {
        day: folder
        for day, folder in sorted(folders.items())
        if (first or day) <= day <= (last or day)
    }
    if first is not None and last is not None and first > last:
        text = f"--from {first} is after --to {last}: turn them round"
        raise OperatorMistake.of("E-BT-001", text)
    if not wanted:
        days = f"{min(folders)} to {max(folders)}"
        text = f"recorded is {days}, wanted are {first or 'the first'} to {last or 'the last'}"
        raise OperatorMistake.of("E-BT-004", f"{text}: choose days in that range")
    try:
        recorded = _Scan(calendar).read(wanted, progress)
    except Unusable as error:
        raise OperatorMistake.of("E-REC-003", f"{error}. Leave this day out") from error
    if not (recorded.days and recorded.quotes):
        text = "holds no quote" if recorded.days else "has not the beginning of a day"
        text = f"what is recorded of {min(wanted)} to {max(wanted)} {text}"
        raise OperatorMistake.of("E-BT-004", f"{text}: choose other days")
    return recorded


@dataclass(slots=True)
class _Scan:
    """The first reading: it keeps one quote, and the minutes, of each symbol."""

    calendar: TradingCalendar
    quotes: dict[str, Quote] = field(default_factory=dict)
    instruments: dict[str, Instrument] = field(default_factory=dict)
    looks: dict[str, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    days: dict[date, None] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    _phases: dict[Exchange, Phase] = field(default_factory=dict)
    _bars: dict[tuple[str, datetime], list[int]] = field(default_factory=dict)
    _volumes: dict[str, int | None] = field(default_factory=dict)
    _going_ex: dict[tuple[str, date], int] = field(default_factory=dict)
    """By symbol and day, the previous close; the reference is still to come."""
    _frames: dict[str, dict[date, DayFrame]] = field(default_factory=lambda: defaultdict(dict))

    def read(self, days: Mapping[date, Path], progress: Progress) -> RecordedDays:
        folders = list[tuple[date, Path]]()
        for number, (day, folder) in enumerate(days.items()):
            runs = [run for run in runs_in(folder) if not is_blank(run)]
            folders += [(day, run) for run in runs]
            self._read_day(day, runs)
            if day not in self.days:
                text = "the recording has not its beginning: it is not traded"
                self.gaps.append(Gap(WHOLE, day, day, text))
            progress((number + 1) / len(days))
        bars = [
            Bar(symbol, start, round(BAR.total_seconds()), *figures)
            for (symbol, start), figures in self._bars.items()
        ]
        listed = ListedBars(bars, width=BAR, frames=self._frames, calendar=self.calendar)
        return RecordedDays(
            tuple(folders),
            tuple(day for day in days if day in self.days),
            dict(self.quotes),
            dict(self.instruments),
            dict(self.looks),
            listed,
            tuple(self.gaps),
        )

    def _read_day(self, day: date, runs: Sequence[Path]) -> None:
        """Read the runs of a day and find the parts of trading that none has recorded."""
        opens, ends = (instant_of(day, each) for each in (OPENS_AT, ENDS_AT))
        heard = opens
        for folder in runs:
            _, ways = read_head(folder)
            self._phases.clear()
            is_first = True
            for row in (row for part in parts_of(folder) for row in rows_of(part)):
                at = at_of(row)
                if is_first:
                    self._note_pause(day, heard, min(at, ends))
                is_first, heard = False, max(heard, at)
                if row.kind == GAP:
                    text = f"{json.loads(row.event)[0]:,} events before {clock_of(at)} are missing"
                    self.gaps.append(Gap(WHOLE, day, day, text))
                elif row.kind in _LOOKED_AT:
                    self._look(ways.event.read(row.event))
        self._note_pause(day, heard, ends)

    def _note_pause(self, day: date, since: datetime, until: datetime) -> None:
        if until - since > PAUSE_MIN and self.calendar.is_trading_day(day):
            text = f"nothing was recorded from {clock_of(since)} to {clock_of(until)}"
            self.gaps.append(Gap(WHOLE, day, day, text))

    def _look(self, event: Event) -> None:
        match event:
            case Recovered(recovery=recovery):
                self.days[recovery.trading_date] = None
            case TradingDayStarted(trading_date=day):
                self.days[day] = None
            case InstrumentsRead(instruments=listed):
                self.instruments |= {each.symbol: each for each in listed}
            case PhaseChanged(exchange=exchange, phase=phase):
                self._phases[exchange] = phase
            case ClosesRead(at=at, closes=closes):
                today = local_of(at).date()
                for each in closes:
                    if today in each.ex_dates and each.price and each.day < today:
                        self._going_ex[each.symbol, today] = each.price
            case DepthReceived(depth=depth):
                quotes, depths = self.looks[depth.symbol]
                self.looks[depth.symbol] = quotes, depths + 1
            case QuoteReceived(at=at, quote=quote):
                quotes, depths = self.looks[quote.symbol]
                self.looks[quote.symbol] = quotes + 1, depths
                self.quotes.setdefault(quote.symbol, quote)
                if self._phases.get(quote.exchange) in BAR_PHASES:
                    symbol, last, volume = quote.symbol, quote.last, quote.volume
                    start, flat = span_of(at, BAR)[0], [last, last, last, last, 0]
                    bar = self._bars.setdefault((symbol, start), flat)
                    before = self._volumes.get(symbol)
                    self._volumes[symbol] = volume = before if volume is None else volume
                    traded = 0 if before is None or volume is None else max(0, volume - before)
                    bar[1:] = max(bar[1], last), min(bar[2], last), last, bar[4] + traded
                    key = symbol, local_of(at).date() if self._going_ex else date.min
                    close = self._going_ex.pop(key, None) if quote.reference else None
                    if close and quote.reference and quote.exchange is not Exchange.UPCOM:
                        ratio = quote.reference / close
                        self._frames[symbol][key[1]] = DayFrame(ex_ratio=ratio)
            case _:
                raise AssertionError(f"{type(event).__name__} is none of what is looked at")
