"""The indices of our exchanges, computed from the listed stocks.

An index is its previous close times the worth of its members over their worth at the day's
references; a member is weighted by all of its shares. So a reference lowered by a dividend or new
shares does not move the index. Value, days and minutes follow from those of the members, the counts
of rising and falling stocks from their quotes. A finished day is stored, as its minutes are not
kept.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from typing import Final

from bot.domain.instrument import Exchange
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.answer import units_of
from bot.sandbox.library.assets import Day
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import DayBar, table

DIGITS: Final = 2
"""Points are kept in hundredths."""


@dataclass(frozen=True, slots=True)
class Breadth:
    """How many members are above, below and at their reference, at their ceiling and floor."""

    advances: int = 0
    declines: int = 0
    unchanged: int = 0
    ceiling: int = 0
    floor: int = 0


@dataclass(frozen=True, slots=True)
class Minute:
    """An index at the end of a minute; `volume` is the day's so far."""

    at: datetime
    value: int
    volume: int
    breadth: Breadth


@dataclass(frozen=True, slots=True)
class Scale:
    """At `base` hundredths of the index, all shares of its members were worth `worth` VND."""

    base: int
    worth: int

    def level(self, worth: int) -> int:
        """Return the index for that worth, in hundredths, rounded half up."""
        return (2 * self.base * worth + self.worth) // (2 * self.worth)


@dataclass(frozen=True, slots=True)
class StockIndex:
    """An index and its members by weight; `scale` is that of the start."""

    code: str
    name: str
    exchange: Exchange
    scale: Scale
    members: tuple[str, ...]


class Indices:
    """Those indices that have a member here."""

    def __init__(self, stocks: Stocks) -> None:
        self._stocks = stocks
        self.all: dict[str, StockIndex] = {}
        for row in table("indices"):
            exchange, reference = Exchange(row["exchange"]), units_of(row["reference"], DIGITS)
            worth = {
                each: self.worth(each, stocks.scripts[each].reference)
                for each in stocks.shares_only
                if stocks.scripts[each].exchange is exchange
            }
            members = tuple(sorted(worth, key=lambda each: -worth[each])[: int(row["members_max"])])
            scale = Scale(reference, sum(worth[each] for each in members))
            if members:
                index = StockIndex(row["code"], row["name"], exchange, scale, members)
                self.all[index.code] = index
        self._past = lru_cache(len(self.all) + 1)(self._past_of)
        self.kept: dict[str, dict[date, DayBar]] = {code: {} for code in self.all}

    def keep_day(self) -> None:
        """Store the day that is ending, while its boards and minutes still exist."""
        for index in self.all.values():
            bar = self.today(index)
            if bar is not None:
                self.kept[index.code][bar.day] = bar

    def get(self, code: str) -> StockIndex:
        """Return an index; raises HttpRefusal 404."""
        found = self.all.get(code)
        if found is None:
            raise not_found()
        return found

    def worth(self, symbol: str, price: int) -> int:
        return self._stocks.facts[symbol].shares * price

    def _worth(self, prices: Mapping[str, int]) -> int:
        return sum(self.worth(symbol, price) for symbol, price in prices.items())

    def _close_before(self, index: StockIndex, day: date) -> int:
        kept = [bar.close for at, bar in self.kept[index.code].items() if at < day]
        return kept[-1] if kept else self._past(index)[-1].close

    def _opening(self, index: StockIndex, day: date) -> dict[str, int]:
        return {each: self._stocks.price_before(each, day) for each in index.members}

    def _scale(self, index: StockIndex, day: date) -> Scale:
        """Return the base of a day's values."""
        if day < self._stocks.first_day:
            return index.scale
        return Scale(self._close_before(index, day), self._worth(self._opening(index, day)))

    def now(self, index: StockIndex) -> Day:
        day = self._stocks.trading_day
        reference = self._close_before(index, day)
        worth = sum(self.worth(each, self._stocks.price(each)) for each in index.members)
        price = self._scale(index, day).level(worth)
        bar = self.today(index)
        if bar is None:
            return Day(day, reference, price, None, None, None, 0)
        return Day(day, reference, price, bar.open, bar.high, bar.low, bar.volume)

    def value(self, index: StockIndex, day: date) -> int:
        """Return the VND that the members have traded on a day."""
        bars = (self._stocks.bar(each, day) for each in index.members)
        return sum(bar.value for bar in bars if bar is not None)

    def breadth(self, prices: Mapping[str, int]) -> Breadth:
        """Count stocks by these prices against today's references."""
        count: Counter[str] = Counter()
        for symbol, price in prices.items():
            board = self._stocks.board(symbol)
            change = price - board.reference
            count["advances" if change > 0 else "declines" if change < 0 else "unchanged"] += 1
            count["ceiling"] += price == board.ceiling
            count["floor"] += price == board.floor
        return Breadth(**count)

    def minutes(self, index: StockIndex, day: date) -> list[Minute]:
        """Return the index at the end of every minute of a day in which a member traded."""
        trades = sorted(
            (slot.start, symbol, slot.close, slot.volume)
            for symbol in index.members
            for slot in self._stocks.slots(symbol, day)
        )
        scale, prices, volume = self._scale(index, day), self._opening(index, day), 0
        whole = self._worth(prices)
        found: dict[datetime, Minute] = {}
        for start, symbol, close, traded in trades:
            whole += self.worth(symbol, close) - self.worth(symbol, prices[symbol])
            prices[symbol] = close
            volume += traded
            found[start] = Minute(start, scale.level(whole), volume, Breadth())
        return list(found.values())

    def counted_minutes(self, index: StockIndex, day: date) -> list[Minute]:
        """Return today's minutes with the counts at each."""
        prices = self._opening(index, day)
        closes: dict[datetime, dict[str, int]] = {}
        for each in index.members:
            for slot in self._stocks.slots(each, day):
                closes.setdefault(slot.start, {})[each] = slot.close
        counted = []
        for minute in self.minutes(index, day):
            prices |= closes[minute.at]
            counted.append(replace(minute, breadth=self.breadth(prices)))
        return counted

    def bars(self, index: StockIndex) -> list[DayBar]:
        """Return every day of an index, oldest first; today's once a member has traded."""
        today = self.today(index)
        days = self.kept[index.code] | ({} if today is None else {today.day: today})
        return [*self._past(index), *days.values()]

    def _past_of(self, index: StockIndex) -> tuple[DayBar, ...]:
        found = []
        for bars in zip(*map(self._stocks.past, index.members), strict=True):
            columns = zip(*(bar[1:5] for bar in bars), strict=True)
            opened, high, low, close = (
                index.scale.level(sum(map(self.worth, index.members, prices))) for prices in columns
            )
            volume, value = sum(bar.volume for bar in bars), sum(bar.value for bar in bars)
            found.append(DayBar(bars[0].day, opened, high, low, close, volume, value))
        return tuple(found)

    def today(self, index: StockIndex) -> DayBar | None:
        """Return the bar of the latest trading day, None before a member has traded.

        It opens at the level of the first minute in which a member traded.
        """
        day = self._stocks.trading_day
        minutes, prices = self.minutes(index, day), self._opening(index, day)
        if not minutes:
            return None
        for each in index.members:
            slot = next(iter(self._stocks.slots(each, day)), None)
            if slot is not None and slot.start == minutes[0].at:
                prices[each] = slot.open
        opened = self._scale(index, day).level(self._worth(prices))
        values = [opened, *(minute.value for minute in minutes)]
        money, volume = self.value(index, day), minutes[-1].volume
        return DayBar(day, opened, max(values), min(values), values[-1], volume, money)
