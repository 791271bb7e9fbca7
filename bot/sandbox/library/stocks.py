"""The stocks of the exchanges: facts of each company, its days and its decisions.

The facts of symbols in `stocks.csv` come from it; others are generated from the seed. The walk of
the past closes at the scenario's reference and continues with what the exchanges have played since.
So the last bar of a history matches the quote once the stock has traded today; before that the last
close is the reference.

One list of company decisions serves events, news and shareholders' rights. It contains the
scenario's corporate actions and invented ones of earlier years: a cash dividend every autumn or
spring, between them a meeting or a stock dividend. Past ones went ex before the scenario began, so
its references and holdings already include them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from bot.domain.instrument import InstrumentKind
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.exchange.market import Board
from bot.sandbox.house.corporate_actions import KINDS, CorporateAction, RightsIssue
from bot.sandbox.house.house import House
from bot.sandbox.library import walk
from bot.sandbox.library.assets import Day
from bot.sandbox.library.walk import (
    HISTORY_STARTS,
    Days,
    Row,
    months_before,
    sector_names,
    start_of,
    stream,
    table,
)
from bot.sandbox.markets.flow.day import DAY_VOLUME_IN_LEVELS
from bot.sandbox.markets.recorder import TradedBar
from bot.sandbox.scenario import Scenario, SymbolScript

_MILLION: Final = 1_000_000
_FIRST_LISTING: Final = date(2006, 1, 2)
_LISTING_DAYS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Facts:
    """`…_pct` are percent of all shares; `eps` and `book_value` are VND a share."""

    name_en: str
    sector: str
    shares: int
    state_pct: float
    foreign_pct: float
    room_pct: float
    float_pct: float
    eps: int
    book_value: int
    listed: date
    first_price: int

    def part(self, pct: float) -> int:
        return int(self.shares * pct / 100)

    @property
    def foreign_max(self) -> int:
        return self.part(self.room_pct)


def facts_of(script: SymbolScript, scenario: Scenario) -> Facts:
    rows = (row for row in table("stocks") if row["symbol"] == script.symbol)
    row = next(rows, None) or _made_up(script, scenario.seed)
    return Facts(
        name_en=row["name_en"],
        sector=row["sector"],
        shares=int(row["shares"]),
        state_pct=float(row["state_pct"]),
        foreign_pct=float(row["foreign_pct"]),
        room_pct=float(row["room_pct"]),
        float_pct=float(row["float_pct"]),
        eps=max(1, round(script.reference / float(row["pe"]))),
        book_value=max(1, round(script.reference / float(row["pb"]))),
        listed=date.fromisoformat(row["listed"]),
        first_price=int(row["first_price"]),
    )


def _made_up(script: SymbolScript, seed: int) -> Row:
    source = stream(seed, "facts", script.symbol)
    state, foreign = source.randrange(0, 40), source.randrange(3, 30)
    listed = _FIRST_LISTING + timedelta(days=source.randrange(_LISTING_DAYS))
    facts = {
        "name_en": f"{script.name or script.symbol} (made up)",
        "sector": source.choice(sorted(sector_names())),
        "shares": source.randrange(200, 3_000) * _MILLION,
        "state_pct": state,
        "foreign_pct": foreign,
        "room_pct": 49,
        "float_pct": source.randrange(20, 100 - state),
        "pe": source.randrange(6, 25),
        "pb": source.randrange(1, 5),
        "listed": listed.isoformat(),
        "first_price": script.reference,
    }
    return {name: str(value) for name, value in facts.items()}


SYMBOLS_CACHED_MAX: Final = 64
DAYS_CACHED_MAX: Final = 128
_DAILY: Final = 0.013
_NOT_STOCKS: Final = frozenset({InstrumentKind.ETF, InstrumentKind.BOND})


class Stocks:
    """Every symbol of the scenario, including those that are not stocks."""

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
        """Return the facts about a symbol; raises HttpRefusal 404."""
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
        """The trading day that quotes belong to; the next begins in its morning."""
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
        """Return whether the trading day of the quotes is over: its close is known, or it is before
        `today`.
        """
        return self.trading_day < today or self.board(symbol).close is not None

    def bars(self, symbol: str) -> list[walk.DayBar]:
        """Return every day of a symbol, oldest first; today's once it has traded."""
        return [*self.past(symbol), *self.played(symbol)]

    def bar(self, symbol: str, day: date) -> walk.DayBar | None:
        """Return one day of a symbol, None if it did not trade."""
        bars = self.played(symbol) if day >= self.first_day else self.past(symbol)
        return next((bar for bar in reversed(bars) if bar.day == day), None)

    def price_before(self, symbol: str, day: date) -> int:
        """Return the price with which a day began: today's reference, else the previous close."""
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

    def slots(self, symbol: str, day: date) -> Sequence[walk.SimulatedBar]:
        """Return a day in parts of at most five minutes; together they make up the day's bar."""
        minutes = self.house.recorder.minutes(symbol, day)
        if minutes:
            return [
                walk.SimulatedBar(start, *_figures(minute)) for start, minute in minutes.items()
            ]
        bar = self.bar(symbol, day)
        return self._slots(symbol, bar) if bar is not None and bar.volume else ()

    def _slots_of(self, symbol: str, bar: walk.DayBar) -> tuple[walk.SimulatedBar, ...]:
        source = walk.stream(self.seed, "slots", symbol, bar.day)
        return tuple(
            walk.within(bar, walk.EXCHANGE_HOURS, self._nature(self.scripts[symbol]), source)
        )


def _figures(record: TradedBar) -> tuple[int, int, int, int, int, int]:
    return record.open, record.high, record.low, record.close, record.volume, record.value


DIVIDEND: Final = 500
MEETING: Final = "SHAREHOLDER_MEETING"
_PAST: Final = 4
_HALF_YEAR: Final = 6
_PAID_AFTER: Final = 15
_NEWS_BEFORE: Final = timedelta(days=14)
_NEWS_AT: Final = timedelta(hours=9)
_CACHED_MAX: Final = 512
_RATIOS: Final = {"CASH_DIVIDEND": f"1:{DIVIDEND}", MEETING: "", "STOCK_DIVIDEND": "10:1"}
_BETWEEN: Final = (MEETING, "STOCK_DIVIDEND")


@dataclass(frozen=True, slots=True)
class CompanyEvent:
    """One decision. `kind` is the broker's word, `ratio` shares held to VND or new shares."""

    symbol: str
    kind: str
    ratio: str
    ex_date: date
    paid_on: date

    @property
    def title(self) -> str:
        event = f"{self.symbol}: {self.kind.replace('_', ' ').lower()} {self.ratio}".rstrip()
        return f"{event}, ex-date {self.ex_date.isoformat()} (made up)"

    @property
    def announced_at(self) -> datetime:
        return start_of(self.ex_date - _NEWS_BEFORE) + _NEWS_AT


class CompanyEvents:
    def __init__(self, stocks: Stocks, actions: Sequence[CorporateAction]) -> None:
        self._stocks = stocks
        self._actions = actions
        self.past = lru_cache(_CACHED_MAX)(self._past)

    def of(self, symbol: str) -> list[CompanyEvent]:
        """Return the events of a share, newest first."""
        coming = [_event(action) for action in self._actions if action.symbol == symbol]
        every = (*coming, *self.past(symbol))
        return sorted(every, key=lambda event: event.ex_date, reverse=True)

    def every(self) -> list[CompanyEvent]:
        return [event for symbol in self._stocks.shares_only for event in self.of(symbol)]

    def _past(self, symbol: str) -> tuple[CompanyEvent, ...]:
        """The invented decisions before the scenario's day, newest first."""
        source, days = stream(self._stocks.seed, "events", symbol), self._stocks.days
        latest = source.randrange(2, _HALF_YEAR + 2)
        found = []
        for number in range(_PAST):
            kind = source.choice(_BETWEEN) if number % 2 else "CASH_DIVIDEND"
            day = days.last(months_before(self._stocks.first_day, latest + _HALF_YEAR * number))
            paid_on = days.before(day, -_PAID_AFTER)
            found.append(CompanyEvent(symbol, kind, _RATIOS[kind], day, paid_on))
        return tuple(found)


def _event(action: CorporateAction) -> CompanyEvent:
    price = f" at {action.price}" if isinstance(action, RightsIssue) else ""
    kind, ratio = KINDS[action.do].value, f"{action.ratio}{price}"
    return CompanyEvent(action.symbol, kind, ratio, action.ex_date, action.pays_on)
