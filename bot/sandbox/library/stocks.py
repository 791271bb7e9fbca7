"""The stocks of the exchanges: quotes, days and minutes, from what was played and walks before.

The walk of the past closes at the scenario's reference; what the exchanges have played since comes
after it. So the last bar of a history is the quote whenever the stock has traded today, and before
that the last close is the reference.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from bot.domain.instrument import InstrumentKind
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.exchange.market import Board
from bot.sandbox.house.house import House
from bot.sandbox.library import walk
from bot.sandbox.library.assets import Day
from bot.sandbox.library.days import HISTORY_STARTS, Days
from bot.sandbox.library.tables import Facts, facts_of
from bot.sandbox.markets.flow.day import DAY_VOLUME_IN_LEVELS
from bot.sandbox.markets.recorder import Record
from bot.sandbox.scenario import SymbolScript

SYMBOLS_CACHED_MAX: Final = 64
DAYS_CACHED_MAX: Final = 128
_DAILY: Final = 0.013
_NOT_STOCKS: Final = frozenset({InstrumentKind.ETF, InstrumentKind.BOND})


class Stocks:
    """Every symbol of the scenario, also those that are no stocks."""

    def __init__(self, house: House, days: Days) -> None:
        scenario = house.scenario
        self.house = house
        self.days = days
        self.seed = scenario.seed
        self.first_day = scenario.trading_day
        self.scripts = {script.symbol: script for script in scenario.symbols}
        self.facts = {symbol: facts_of(each, scenario) for symbol, each in self.scripts.items()}
        self.past = lru_cache(SYMBOLS_CACHED_MAX)(self._past)
        self._slots = lru_cache(DAYS_CACHED_MAX)(self._slots_of)

    def known(self, symbol: str) -> str:
        """Return a symbol of the scenario; raises HttpRefusal 404."""
        if symbol not in self.scripts:
            raise not_found()
        return symbol

    def fact(self, symbol: str) -> Facts:
        """Return what is known of a symbol; raises HttpRefusal 404."""
        return self.facts[self.known(symbol)]

    @property
    def shares_only(self) -> tuple[str, ...]:
        """The symbols that are shares of companies, in the order of the scenario."""
        return tuple(
            symbol for symbol, script in self.scripts.items() if script.kind not in _NOT_STOCKS
        )

    def name(self, symbol: str) -> str:
        return self.scripts[symbol].name or symbol

    @property
    def trading_day(self) -> date:
        """The trading day that quotes are of; the next begins with its first phase."""
        return self.days.last(self.house.venue.board_day)

    def board(self, symbol: str) -> Board:
        return self.house.venue.board(symbol)

    def price(self, symbol: str) -> int:
        """Return the latest price; the reference before the first trade."""
        board = self.board(symbol)
        return board.last or board.reference

    def now(self, symbol: str) -> Day:
        board, price = self.board(symbol), self.price(symbol)
        opened, high, low = board.open, board.high, board.low
        return Day(self.trading_day, board.reference, price, opened, high, low, board.volume)

    def is_over(self, symbol: str, today: date) -> bool:
        """Tell whether the trading day of the quotes is over: its close is known, or it was before
        `today`.
        """
        return self.trading_day < today or self.board(symbol).close is not None

    def bars(self, symbol: str) -> list[walk.DayBar]:
        """Return every day of a symbol, oldest first; today's is there once it has traded."""
        return [*self.past(symbol), *self.played(symbol)]

    def bar(self, symbol: str, day: date) -> walk.DayBar | None:
        """Return one day of a symbol, None when it did not trade."""
        bars = self.played(symbol) if day >= self.first_day else self.past(symbol)
        return next((bar for bar in reversed(bars) if bar.day == day), None)

    def price_before(self, symbol: str, day: date) -> int:
        """Return the price that a day began with: today's reference, else the close before it."""
        if day == self.trading_day:
            return self.board(symbol).reference
        bars = self.bars(symbol)
        return bars[max(0, bisect_left(bars, day, key=lambda bar: bar.day) - 1)].close

    def played(self, symbol: str) -> list[walk.DayBar]:
        return [walk.DayBar(day, *_figures(bar)) for day, bar in self.house.recorder.days(symbol)]

    def _past(self, symbol: str) -> tuple[walk.DayBar, ...]:
        script = self.scripts[symbol]
        days = self.days.between(HISTORY_STARTS, self.first_day - timedelta(days=1))
        return walk.walk_until(days, script.reference, self._nature(script), self.seed, symbol)

    def _nature(self, script: SymbolScript) -> walk.Nature:
        instrument = script.instrument
        ticks = self.house.rulebook.ticks_of(instrument)
        return walk.Nature(_DAILY, script.level_volume * DAY_VOLUME_IN_LEVELS, ticks)

    def slots(self, symbol: str, day: date) -> Sequence[walk.Bar]:
        """Return a day in parts of at most five minutes; together they are the day's bar."""
        minutes = self.house.recorder.minutes(symbol, day)
        if minutes:
            return [walk.Bar(start, *_figures(minute)) for start, minute in minutes.items()]
        bar = self.bar(symbol, day)
        return self._slots(symbol, bar) if bar is not None and bar.volume else ()

    def _slots_of(self, symbol: str, bar: walk.DayBar) -> tuple[walk.Bar, ...]:
        source = walk.stream(self.seed, "slots", symbol, bar.day)
        return tuple(
            walk.within(bar, walk.EXCHANGE_HOURS, self._nature(self.scripts[symbol]), source)
        )


def _figures(record: Record) -> tuple[int, int, int, int, int, int]:
    return record.open, record.high, record.low, record.close, record.volume, record.value
