"""The indices of our exchanges, made of the stocks that are listed.

An index of a day is its close before times the worth of its members over their worth at the day's
references; a member weighs by all of its shares. So a reference that a dividend or new shares have
lowered moves no index, and value, days and minutes follow from the members' own, as the counts of
rising and falling stocks from their quotes. A day that is over is kept as it was: the minutes that
it is made of are not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Final

from bot.domain.instrument import Exchange
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.assets import Day
from bot.sandbox.library.figures import units_of
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.tables import table
from bot.sandbox.library.walk import DayBar

DIGITS: Final = 2
"""Points are kept in hundredths."""


@dataclass(frozen=True, slots=True)
class Breadth:
    """How many members stand above, below and at their reference, at their ceiling and floor."""

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
    """An index stood at `base` hundredths when all shares of its members were worth `worth` VND."""

    base: int
    worth: int

    def level(self, worth: int) -> int:
        """Return the value when they are worth so much, in hundredths, rounded half up."""
        return (2 * self.base * worth + self.worth) // (2 * self.worth)


@dataclass(frozen=True, slots=True)
class Index:
    """An index and its members by weight; `scale` is that of the start."""

    code: str
    name: str
    exchange: Exchange
    scale: Scale
    members: tuple[str, ...]

    @property
    def base(self) -> int:
        """The value at the start in hundredths."""
        return self.scale.base


class Indices:
    """Those indices that have a member here."""

    def __init__(self, stocks: Stocks) -> None:
        self._stocks = stocks
        made = (_index(row, stocks) for row in table("indices"))
        self.all = {index.code: index for index in made if index.members}
        self._past = lru_cache(len(self.all) + 1)(self._past_of)
        self._kept: dict[str, dict[date, DayBar]] = {code: {} for code in self.all}

    def keep_day(self) -> None:
        """Keep the day that is ending, while its boards and minutes are still there."""
        for index in self.all.values():
            bar = self.today(index)
            if bar is not None:
                self._kept[index.code][bar.day] = bar

    def get(self, code: str) -> Index:
        """Return an index; raises HttpRefusal 404."""
        found = self.all.get(code)
        if found is None:
            raise not_found()
        return found

    # ------------------------------------------------------------------------------- value

    def worth(self, symbol: str, price: int) -> int:
        """Return what all shares of a company are worth."""
        return self._stocks.facts[symbol].shares * price

    def reference(self, index: Index) -> int:
        """Return the close before the latest trading day."""
        return self._close_before(index, self._stocks.trading_day)

    def _close_before(self, index: Index, day: date) -> int:
        kept = [bar.close for at, bar in self._kept[index.code].items() if at < day]
        return kept[-1] if kept else self._past(index)[-1].close

    def _scale(self, index: Index, day: date) -> Scale:
        """Return what a day's values are reckoned from."""
        if day < self._stocks.first_day:
            return index.scale
        return Scale(self._close_before(index, day), self._worth_before(index, day))

    def _worth_before(self, index: Index, day: date) -> int:
        return sum(self.worth(each, self._opening(each, day)) for each in index.members)

    def now(self, index: Index) -> Day:
        """Return the day of the index so far."""
        day, reference = self._stocks.trading_day, self.reference(index)
        worth = sum(self.worth(each, self._stocks.price(each)) for each in index.members)
        price = self._scale(index, day).level(worth)
        bar = self.today(index)
        if bar is None:
            return Day(day, reference, price, None, None, None, 0)
        return Day(day, reference, price, bar.open, bar.high, bar.low, bar.volume)

    def today(self, index: Index) -> DayBar | None:
        """Return the bar of the latest trading day, None before a member has traded."""
        return self._bar(index, self._stocks.trading_day)

    def value(self, index: Index) -> int:
        """Return the VND that today's members have traded."""
        bars = (self._stocks.bar(each, self._stocks.trading_day) for each in index.members)
        return sum(bar.value for bar in bars if bar is not None)

    def breadth(self, index: Index) -> Breadth:
        """Count the members by where they stand now."""
        return self.breadth_at({each: self._stocks.price(each) for each in index.members})

    def breadth_at(self, prices: Mapping[str, int]) -> Breadth:
        """Count stocks by where these prices stand against today's references."""
        count: Counter[str] = Counter()
        for symbol, price in prices.items():
            board = self._stocks.board(symbol)
            change = price - board.reference
            count["advances" if change > 0 else "declines" if change < 0 else "unchanged"] += 1
            count["ceiling"] += price == board.ceiling
            count["floor"] += price == board.floor
        return Breadth(**count)

    # ---------------------------------------------------------------------------- minutes

    def minutes(self, index: Index, day: date) -> list[Minute]:
        """Return the index at the end of every minute of a day in which a member traded."""
        slots = {each: self._stocks.slots(each, day) for each in index.members}
        trades = sorted(
            (slot.start, symbol, slot.close, slot.volume)
            for symbol, of_symbol in slots.items()
            for slot in of_symbol
        )
        worth = {each: self.worth(each, self._opening(each, day)) for each in index.members}
        whole, volume = sum(worth.values()), 0
        scale = self._scale(index, day)
        found: dict[datetime, Minute] = {}
        for start, symbol, close, traded in trades:
            before, worth[symbol] = worth[symbol], self.worth(symbol, close)
            whole += worth[symbol] - before
            volume += traded
            found[start] = Minute(start, scale.level(whole), volume, Breadth())
        return list(found.values())

    def counted_minutes(self, index: Index, day: date) -> list[Minute]:
        """Return today's minutes with the counts of each."""
        prices = {each: self._opening(each, day) for each in index.members}
        closes: dict[datetime, dict[str, int]] = {}
        for each in index.members:
            for slot in self._stocks.slots(each, day):
                closes.setdefault(slot.start, {})[each] = slot.close
        counted = []
        for minute in self.minutes(index, day):
            prices |= closes[minute.at]
            counted.append(Minute(minute.at, minute.value, minute.volume, self.breadth_at(prices)))
        return counted

    def _opening(self, symbol: str, day: date) -> int:
        """Return the price that a day began with: today's reference, or the close before it."""
        if day == self._stocks.trading_day:
            return self._stocks.board(symbol).reference
        return self._stocks.close_before(symbol, day)

    # -------------------------------------------------------------------------------- days

    def bars(self, index: Index) -> list[DayBar]:
        """Return every day of an index, oldest first; today's once a member has traded."""
        return [*self._past(index), *self._since(index)]

    def _past_of(self, index: Index) -> tuple[DayBar, ...]:
        members = [self._stocks.past(each) for each in index.members]
        return tuple(self._together(index, bars) for bars in zip(*members, strict=True))

    def _together(self, index: Index, bars: Sequence[DayBar]) -> DayBar:
        columns = zip(*(bar[1:5] for bar in bars), strict=True)
        opened, high, low, close = (
            index.scale.level(sum(map(self.worth, index.members, prices))) for prices in columns
        )
        volume, value = sum(bar.volume for bar in bars), sum(bar.value for bar in bars)
        return DayBar(bars[0].day, opened, high, low, close, volume, value)

    def _since(self, index: Index) -> Iterable[DayBar]:
        today = self.today(index)
        days = self._kept[index.code] | ({} if today is None else {today.day: today})
        return days.values()

    def _bar(self, index: Index, day: date) -> DayBar | None:
        """Return a day so far; it opens where the members that traded in its first minute did."""
        minutes = self.minutes(index, day)
        if not minutes:
            return None
        slots = (next(iter(self._stocks.slots(each, day)), None) for each in index.members)
        first = {
            each: slot.open
            for each, slot in zip(index.members, slots, strict=True)
            if slot is not None and slot.start == minutes[0].at
        }
        worth = sum(
            self.worth(each, first.get(each) or self._opening(each, day)) for each in index.members
        )
        values = [self._scale(index, day).level(worth), *(minute.value for minute in minutes)]
        money = sum(bar.value for each in index.members if (bar := self._stocks.bar(each, day)))
        volume = minutes[-1].volume
        return DayBar(day, values[0], max(values), min(values), values[-1], volume, money)


def _index(row: Mapping[str, str], stocks: Stocks) -> Index:
    exchange = Exchange(row["exchange"])
    listed = [each for each in stocks.shares_only if stocks.scripts[each].exchange is exchange]
    worth = {each: stocks.facts[each].shares * stocks.scripts[each].reference for each in listed}
    members = tuple(sorted(listed, key=lambda each: -worth[each])[: int(row["members_max"])])
    start_worth = sum(worth[each] for each in members)
    base = units_of(row["reference"], DIGITS)
    return Index(row["code"], row["name"], exchange, Scale(base, start_worth), members)
