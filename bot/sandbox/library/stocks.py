"""The stocks of the exchanges: quotes, days and minutes, from what was played and walks before.

The walk of the past closes at the scenario's reference; what the exchanges have played since comes
after it. So the last bar of a history is the quote whenever the stock has traded today, and before
that the last close is the reference.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from bot.domain.instrument import Exchange, InstrumentKind, Phase
from bot.domain.prices import TickTable
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.exchange.market import Board
from bot.sandbox.house.house import House
from bot.sandbox.library.days import HISTORY_STARTS, Days
from bot.sandbox.library.facts import Facts, facts_of
from bot.sandbox.library.walk import (
    EXCHANGE_HOURS,
    Bar,
    DayBar,
    Nature,
    stream,
    walk_until,
    within,
)
from bot.sandbox.markets.recorder import DepthTaken, Record
from bot.sandbox.scenario import SymbolScript

SYMBOLS_CACHED_MAX: Final = 64
DAYS_CACHED_MAX: Final = 128
_DAILY: Final = 0.013
_VOLUME_IN_LEVELS: Final = 150
"""A day's typical volume, in what typically waits at one price."""
_NOT_STOCKS: Final = frozenset({InstrumentKind.ETF, InstrumentKind.BOND})


@dataclass(frozen=True, slots=True)
class _OnTick:
    """Brings a price to the grid, below it and at least to about 1,000 VND."""

    ticks: TickTable

    def __call__(self, price: float) -> int:
        return self.ticks.down(max(1_000, round(price)))


class Stocks:
    """Every symbol of the scenario, also those that are no stocks."""

    def __init__(self, house: House, days: Days) -> None:
        self.days = days
        self.seed = house.scenario.seed
        self.first_day = house.scenario.trading_day
        self.scripts = {script.symbol: script for script in house.scenario.symbols}
        self.facts = {
            symbol: facts_of(script, house.scenario) for symbol, script in self.scripts.items()
        }
        self._house = house
        self._past = lru_cache(SYMBOLS_CACHED_MAX)(self._walked)
        self._slots = lru_cache(DAYS_CACHED_MAX)(self._slots_of)

    # ------------------------------------------------------------------------------- which

    def script(self, symbol: str) -> SymbolScript:
        """Return a symbol of the scenario; raises HttpRefusal 404."""
        found = self.scripts.get(symbol)
        if found is None:
            raise not_found()
        return found

    def fact(self, symbol: str) -> Facts:
        """Return what is known of a symbol; raises HttpRefusal 404."""
        self.script(symbol)
        return self.facts[symbol]

    @property
    def shares_only(self) -> tuple[str, ...]:
        """The symbols that are shares of companies, in the order of the scenario."""
        return tuple(
            symbol for symbol, script in self.scripts.items() if script.kind not in _NOT_STOCKS
        )

    def name(self, symbol: str) -> str:
        """Return the name that the quote shows."""
        return self.scripts[symbol].name or symbol

    # --------------------------------------------------------------------------------- now

    def board(self, symbol: str) -> Board:
        """Return what the exchange shows of a symbol that is known."""
        return self._house.venue.board(symbol)

    def price(self, symbol: str) -> int:
        """Return the latest price; the reference before the first trade."""
        board = self.board(symbol)
        return board.last or board.reference

    def has_closed(self, symbol: str) -> bool:
        """Tell whether a symbol's day is over: its close is known."""
        return self.board(symbol).close is not None

    def phase(self, exchange: Exchange, at: datetime) -> Phase:
        """Return the phase of an exchange."""
        return self._house.rulebook.phase_at(exchange, at)

    # -------------------------------------------------------------------------------- days

    def bars(self, symbol: str) -> list[DayBar]:
        """Return every day of a symbol, oldest first; today's is there once it has traded."""
        return [*self.past(symbol), *self.played(symbol)]

    def bar(self, symbol: str, day: date) -> DayBar | None:
        """Return one day of a symbol, None when it did not trade."""
        bars = self.played(symbol) if day >= self.first_day else self.past(symbol)
        return next((bar for bar in reversed(bars) if bar.day == day), None)

    def close_before(self, symbol: str, day: date) -> int:
        """Return the last close before a day."""
        bars = self.bars(symbol)
        return bars[max(0, bisect_left(bars, day, key=_day_of) - 1)].close

    def past(self, symbol: str) -> tuple[DayBar, ...]:
        """Return the days before the scenario's."""
        return self._past(symbol)

    def played(self, symbol: str) -> list[DayBar]:
        """Return the days that were played here."""
        return [
            DayBar(day, *_prices(record), record.volume, record.value)
            for day, record in self._house.recorder.days(symbol)
        ]

    def _walked(self, symbol: str) -> tuple[DayBar, ...]:
        script = self.scripts[symbol]
        days = self.days.between(HISTORY_STARTS, self.first_day - timedelta(days=1))
        return walk_until(days, script.reference, self._nature(script), self.seed, symbol)

    def _nature(self, script: SymbolScript) -> Nature:
        instrument = script.instrument
        ticks = self._house.rulebook.venues[instrument.exchange].ticks_of(instrument.kind)
        return Nature(_DAILY, script.level_volume * _VOLUME_IN_LEVELS, _OnTick(ticks))

    # ------------------------------------------------------------------------ within a day

    def slots(self, symbol: str, day: date) -> Sequence[Bar]:
        """Return a day in parts of at most five minutes; together they are the day's bar."""
        minutes = self._house.recorder.minutes(symbol, day)
        if minutes:
            return [
                Bar(start, *_prices(record), record.volume, record.value)
                for start, record in minutes.items()
            ]
        bar = self.bar(symbol, day)
        return self._slots(symbol, bar) if bar is not None and bar.volume else ()

    def _slots_of(self, symbol: str, bar: DayBar) -> tuple[Bar, ...]:
        source = stream(self.seed, "slots", symbol, bar.day)
        return tuple(within(bar, EXCHANGE_HOURS, self._nature(self.scripts[symbol]), source))

    def depths(self, symbol: str, day: date) -> tuple[DepthTaken, ...]:
        """Return the depth as it was taken on a day."""
        return self._house.recorder.depths(symbol, day)

    @property
    def trading_day(self) -> date:
        """Return the trading day that quotes are of; the next begins with its first phase."""
        return self.days.last(self._house.venue.board_day)


def _day_of(bar: DayBar) -> date:
    return bar.day


def _prices(record: Record) -> tuple[int, int, int, int]:
    return record.open, record.high, record.low, record.close
