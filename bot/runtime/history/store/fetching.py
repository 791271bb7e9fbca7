"""Fetches bars from the broker's history call into the store, one stretch of days at a time.

Each stretch is checked and stored before the next is requested, so an interrupted fetch continues
where it stopped: a stretch that the manifest has from the broker is not requested again. Stored
bars that differ stay, and this is reported. Today is left out, as its bars are not complete.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Final

import numpy as np

from bot.broker.budget import Waiter
from bot.broker.errors import RateLimited
from bot.config.problems import OperatorMistake, Problem
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument
from bot.domain.local_time import instant_of, local_date
from bot.domain.quote import DAY, span_of, width_name
from bot.protocol.values.series import PriceBar, PriceHistory
from bot.runtime.closes import FIGURE_MAX, price_unit
from bot.runtime.history.bars import BarColumns
from bot.runtime.history.store.archive import Archive, Origin, Overlap, StoredRange
from bot.runtime.history.store.bar_files import HUNDREDTHS, INDICES
from bot.runtime.history.store.checking import BarCheck
from bot.runtime.history.store.importing import Progress, Rules

_MIDNIGHT: Final = time()
RESOLUTIONS: Final = {"5m": "5", "15m": "15", "30m": "30", "1d": "1D"}
"""Widths offered by the call. Where its hours begin is not documented, so they are
not requested.
"""
_STRETCH_DAYS: Final = {"5m": 28, "15m": 28, "30m": 28, "1d": 364}
"""The longest range of a call is not documented: these are a few hundred to two thousand bars."""
TRIES_MAX: Final = 5
"""Tries of one call refused by the quota; each waits as the quota says."""
DAYS: Final = 90
"""Days fetched if no first day is given."""

UNKNOWN: Final = "E-DATA-010"

Query = tuple[tuple[str, str], ...]
AskHistory = Callable[[str, Query], Awaitable[PriceHistory]]


@dataclass(slots=True)
class Fetched:
    """The result for one symbol: calls made and saved, bars new, already stored, and different."""

    symbol: str
    asked: int = 0
    spared: int = 0
    new: int = 0
    same: int = 0
    differing: int = 0
    first_difference: str = ""
    told: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What is wanted; without a first or last day, `DAYS` days up to yesterday."""

    symbols: tuple[str, ...]
    width: timedelta
    first: date | None = None
    last: date | None = None
    overlap: Overlap = Overlap.KEEP
    is_adjusted: bool = False


@dataclass(frozen=True, slots=True)
class HistoryFetch:
    """Fetches into a store. `today` is the market's; `source` names the broker in the manifest."""

    archive: Archive
    rules: Rules
    ask: AskHistory
    waiter: Waiter
    today: date
    source: str
    plan: FetchPlan

    async def fetch(self, symbol: str, first: date, last: date, progress: Progress) -> Fetched:
        """Fetch the days `first` to `last`. Raises BrokerError, and OperatorMistake for useless
        bars; what came before them is kept.
        """
        found, name = Fetched(symbol), width_name(self.plan.width)
        last, days = min(last, self.today - DAY), _STRETCH_DAYS[name]
        stretches = []  # they begin on the same days whatever the first one is
        while first <= last:
            end = date.fromordinal(first.toordinal() // days * days + days - 1)
            stretches.append((first, min(end, last)))
            first = end + DAY
        known = [
            (each.first, each.last)
            for each in self.archive.ranges()
            if (each.symbol, each.width, each.origin) == (symbol, name, Origin.BROKER)
        ]
        for number, (begin, end) in enumerate(stretches, start=1):
            is_known = any(since <= begin and end <= until for since, until in known)
            if is_known and self.plan.overlap is not Overlap.REPLACE:
                found.spared += 1
            else:
                await self._stretch(found, begin, end)
            progress(number / len(stretches))
        return found

    async def _stretch(self, found: Fetched, first: date, last: date) -> None:
        query = (
            ("from", str(int(instant_of(first, _MIDNIGHT).timestamp()))),
            ("to", str(int((instant_of(last, _MIDNIGHT) + DAY).timestamp()) - 1)),
            ("resolution", RESOLUTIONS[width_name(self.plan.width)]),
        )
        tries, history = 0, None
        while history is None:
            try:
                history = await self.ask(found.symbol, query)
            except RateLimited as error:
                tries += 1
                if tries == TRIES_MAX:
                    raise
                await self.waiter.sleep_until(error.retry_at)
        found.asked += 1
        bars = self._columns(found, history, first, last)
        at, plan, days = self.waiter.now(), self.plan, (first, last)
        key = (width_name(plan.width), found.symbol)
        asked = StoredRange(*key, *days, Origin.BROKER, self.source, at, plan.is_adjusted)
        with self.archive.writing() as writer:
            if bars is None:
                writer.note(asked)
                return
            added = writer.add(
                [bars],
                Origin.BROKER,
                source=self.source,
                at=at,
                overlap=plan.overlap,
                is_adjusted=plan.is_adjusted,
                days=days,
            )
        found.new += added.new
        found.same += added.same
        found.differing += added.differing
        found.first_difference = found.first_difference or added.first_difference

    def _columns(
        self, found: Fetched, history: PriceHistory, first: date, last: date
    ) -> BarColumns | None:
        """Return the answer's bars of the asked days in VND, None without one.

        Raises OperatorMistake with everything that makes them useless.
        """
        symbol, width = found.symbol, self.plan.width
        if history.symbol != symbol:
            raise _not_asked_for(symbol, f"the broker answered with bars of {history.symbol}")
        listing = self.rules.symbols.instrument(symbol, last)
        rows = [row for row in history.bars if first <= local_date(row.start) <= last and row.close]
        if not rows:
            return None
        starts = _starts(symbol, width, rows)
        for row in rows:
            figures = (row.open, row.high, row.low, row.close, row.volume)
            if not all(0 <= (each or 0) < FIGURE_MAX for each in figures):
                at = f"{row.start.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"
                raise _not_asked_for(symbol, f"a bar of {at} has a figure that no bar can have")
        instrument = listing or Instrument(symbol, Exchange.HOSE)
        closes = [row.close for row in rows if row.close]
        unit = price_unit(self.rules.rulebook, instrument, closes)
        if symbol in INDICES:
            unit = HUNDREDTHS
        table: dict[int, tuple[int, ...]] = {}
        for start, row in zip(starts, rows, strict=True):
            prices = [each or row.close for each in (row.open, row.high, row.low, row.close)]
            whole = [round(each * unit) for each in prices if each is not None]
            table[int(start.timestamp())] = (*whole, int(row.volume or 0))
        columns = np.array([(at, *row) for at, row in sorted(table.items())], np.int64).T.copy()
        bars = BarColumns(symbol, int(width.total_seconds()), *columns)
        self._check(found, bars, listing)
        return bars

    def _check(self, found: Fetched, bars: BarColumns, listing: Instrument | None) -> None:
        """Record what is odd in the bars. Raises OperatorMistake if they are useless."""
        check = BarCheck(
            bars.symbol,
            self.rules.rulebook,
            lambda _: listing,
            {},
            is_adjusted=self.plan.is_adjusted,
        )
        check.add(bars)
        holds = (bars.low > 0) & (bars.low <= np.minimum(bars.open, bars.close))
        holds &= bars.high >= np.maximum(bars.open, bars.close)
        rows = np.stack([np.flatnonzero(~holds), bars.start[~holds]])
        check.found.note(rows, "high", "E-MKT-008", "high and low do not hold open and close")
        wrong, odd = (
            [
                Problem(each.code, f"{bars.symbol} {each.clock}: {each.message}")
                for each in wrong_rows
            ]
            for wrong_rows in (check.found.fatal, check.found.told)
        )
        if wrong:
            raise OperatorMistake(wrong)
        found.told += odd
        if listing is None and not any(each.code == UNKNOWN for each in found.told):
            text = f"{bars.symbol} is not in symbols.csv: ticks, band and hours were not checked"
            found.told.append(Problem(UNKNOWN, text))


def _starts(symbol: str, width: timedelta, rows: Iterable[PriceBar]) -> list[datetime]:
    """Return when the bars begin. Raises OperatorMistake for bars of another width, which no later
    check would notice.
    """
    starts: dict[datetime, None] = {}
    for row in rows:
        start, _ = span_of(row.start, width)
        at = f"{row.start.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"
        if width != DAY and start != row.start:
            raise _not_asked_for(symbol, f"a bar of {at} is none of {width_name(width)}")
        if start in starts:
            raise _not_asked_for(symbol, f"two bars of {width_name(width)} hold {at}")
        starts[start] = None
    return list(starts)


def _not_asked_for(symbol: str, what: str) -> OperatorMistake:
    text = f"{symbol}: {what}; none of this answer was stored: ask the broker"
    return OperatorMistake.of("E-DATA-016", text)
