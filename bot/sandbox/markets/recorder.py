"""Records what the exchanges have traded: today's minutes, days, and the depth at intervals.

Like the exchange's board it covers even lots only. Minutes and depth are kept for the latest day,
days for about five years, which bounds memory.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from bot.domain.instrument import Lot
from bot.domain.local_time import local_date
from bot.domain.quote import Depth
from bot.sandbox.exchange.day import TRADING
from bot.sandbox.exchange.message import Traded
from bot.sandbox.exchange.venue import ALL_LEVELS, Venue

DEPTH_EVERY: Final = timedelta(minutes=5)
_DAYS_MAX: Final = 1_300
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class TradedBar:
    """Prices in VND, shares and VND traded, since `start`."""

    start: datetime
    open: int
    high: int
    low: int
    close: int
    volume: int = 0
    value: int = 0

    def add(self, price: int, quantity: int) -> None:
        self.high, self.low = max(self.high, price), min(self.low, price)
        self.close = price
        self.volume += quantity
        self.value += price * quantity


@dataclass(frozen=True, slots=True)
class DepthTaken:
    """The depth at one instant, three levels a side, and the total waiting on each side."""

    at: datetime
    depth: Depth
    bids: int
    asks: int


@dataclass(slots=True)
class _Played:
    """One symbol: the day of its minutes, the minutes, and its days, oldest first."""

    day: date
    minutes: dict[datetime, TradedBar]
    days: deque[tuple[date, TradedBar]]


class Recorder:
    def __init__(self, venue: Venue, symbols: Iterable[str], *, start: datetime) -> None:
        self._venue = venue
        self._symbols = tuple(symbols)
        self._played: dict[str, _Played] = {}
        self._depths: dict[str, list[DepthTaken]] = {symbol: [] for symbol in self._symbols}
        self._depth_day = local_date(start)
        self._due = _floored(start, DEPTH_EVERY) + DEPTH_EVERY

    def record(self, trade: Traded) -> None:
        """Record a trade; odd lots do not count."""
        if trade.lot is not Lot.EVEN:
            return
        day, minute = local_date(trade.at), _floored(trade.at, timedelta(minutes=1))
        played = self._played.get(trade.symbol)
        if played is None:
            played = self._played[trade.symbol] = _Played(day, {}, deque(maxlen=_DAYS_MAX))
        if played.day != day or not played.days:
            played.day, played.minutes = day, {}
            played.days.append((day, _record(trade.at, trade.price)))
        found = played.minutes.get(minute)
        if found is None:
            found = played.minutes[minute] = _record(minute, trade.price)
        found.add(trade.price, trade.quantity)
        played.days[-1][1].add(trade.price, trade.quantity)

    def look(self, at: datetime) -> None:
        """Record the depth if another five minutes are over at `at` and the market trades."""
        if at < self._due:
            return
        taken_at = _floored(at, DEPTH_EVERY)
        self._due = taken_at + DEPTH_EVERY
        if local_date(taken_at) != self._depth_day:
            self._depth_day = local_date(taken_at)
            self._depths = {symbol: [] for symbol in self._symbols}
        for symbol in self._symbols:
            if self._venue.phase_of(symbol) in TRADING:
                whole = self._venue.depth(symbol, ALL_LEVELS)
                bids, asks = (sum(each.volume for each in s) for s in (whole.bids, whole.asks))
                taken = DepthTaken(taken_at, self._venue.depth(symbol), bids, asks)
                self._depths[symbol].append(taken)

    def days(self, symbol: str) -> tuple[tuple[date, TradedBar], ...]:
        """Return the days on which a symbol traded here, oldest first, including today so far."""
        played = self._played.get(symbol)
        return tuple(played.days) if played else ()

    def minutes(self, symbol: str, day: date) -> Mapping[datetime, TradedBar]:
        """Return the minutes of a day in which a symbol traded; known for its latest day only."""
        played = self._played.get(symbol)
        return played.minutes if played and played.day == day else {}

    def depths(self, symbol: str, day: date) -> tuple[DepthTaken, ...]:
        """Return the depths recorded on a day; known for the latest day only."""
        return tuple(self._depths[symbol]) if day == self._depth_day else ()


def _record(start: datetime, price: int) -> TradedBar:
    return TradedBar(start, price, price, price, price)


def _floored(at: datetime, step: timedelta) -> datetime:
    return at - (at - _EPOCH) % step
