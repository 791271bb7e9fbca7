"""Trading by investor group in a stock on a day, all as parts of what the exchange matched.

    total = matched + put through           net = bought - sold
    foreign + proprietary <= total, each way; what is left are others
    owned by foreigners + room = maximum; owned grows by what foreigners bought net that day
    orders: volume of buyers who took + of sellers who took = matched

The parts are drawn once for each stock and day, so today's figures grow with today's volume.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from random import Random
from typing import Final

from bot.domain.instrument import BOARD_LOT
from bot.sandbox.exchange.accounts import share
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import DayBar, stream

CACHED_MAX: Final = 4_096
"""Days of flows cached."""
_MILLION: Final = 1_000_000
ORDER_SIZE: Final = (300, 1_500)


@dataclass(frozen=True, slots=True)
class Amount:
    """Shares, and VND."""

    volume: int = 0
    value: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.volume + other.volume, self.value + other.value)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.volume - other.volume, self.value - other.value)


@dataclass(frozen=True, slots=True)
class Split:
    """Matched in the order book, and put through."""

    matched: Amount = Amount()
    put_through: Amount = Amount()

    @property
    def total(self) -> Amount:
        return self.matched + self.put_through

    def __add__(self, other: "Split") -> "Split":
        return Split(self.matched + other.matched, self.put_through + other.put_through)

    def __sub__(self, other: "Split") -> "Split":
        return Split(self.matched - other.matched, self.put_through - other.put_through)


@dataclass(frozen=True, slots=True)
class Group:
    """What a group of investors bought and sold."""

    buy: Split = Split()
    sell: Split = Split()

    @property
    def net(self) -> Split:
        return self.buy - self.sell

    def __add__(self, other: "Group") -> "Group":
        return Group(self.buy + other.buy, self.sell + other.sell)


@dataclass(frozen=True, slots=True)
class Flow:
    """A stock on a day. `buyers` is the matched volume with buyers as aggressors, in `buy_orders`
    orders.
    """

    day: date
    traded: Split = Split()
    foreign: Group = Group()
    proprietary: Group = Group()
    buyers: int = 0
    buy_orders: int = 0
    sell_orders: int = 0

    @property
    def sellers(self) -> int:
        """The matched volume with sellers as aggressors."""
        return self.traded.matched.volume - self.buyers

    def __add__(self, other: "Flow") -> "Flow":
        return Flow(
            max(self.day, other.day),
            self.traded + other.traded,
            self.foreign + other.foreign,
            self.proprietary + other.proprietary,
            self.buyers + other.buyers,
            self.buy_orders + other.buy_orders,
            self.sell_orders + other.sell_orders,
        )


class Flows:
    def __init__(self, stocks: Stocks) -> None:
        self._stocks = stocks
        self._past_flow = lru_cache(CACHED_MAX)(self._flow)
        self._owned: dict[str, list[int]] = {}

    def of(self, symbol: str, day: date) -> Flow:
        """Return one day; None if the stock did not trade."""
        bar = self._stocks.bar(symbol, day)
        return Flow(day) if bar is None else self._flow(symbol, bar)

    def between(self, symbol: str, first: date, last: date) -> list[Flow]:
        """Return the days of a range on which the stock traded, oldest first."""
        past = self._stocks.past(symbol)
        found = past[bisect_left(past, first, key=_day) : bisect_right(past, last, key=_day)]
        played = (bar for bar in self._stocks.played(symbol) if first <= bar.day <= last)
        return [
            *(self._past_flow(symbol, bar) for bar in found),
            *(self._flow(symbol, bar) for bar in played),
        ]

    def owned(self, symbol: str, day: date) -> int:
        """Return the shares that foreigners held at the end of a day, or hold so far today.

        Days before the scenario are computed backwards, trading day by trading day, from its first
        holding.
        """
        facts = self._stocks.facts[symbol]
        start = facts.part(facts.foreign_pct)
        if day >= self._stocks.first_day:
            played = (bar for bar in self._stocks.played(symbol) if bar.day <= day)
            return start + sum(self._flow(symbol, bar).foreign.net.total.volume for bar in played)
        past, known = self._stocks.past(symbol), self._owned.setdefault(symbol, [start])
        back = len(past) - bisect_right(past, day, key=_day)
        while len(known) <= back:
            flow = self._past_flow(symbol, past[-len(known)])
            known.append(known[-1] - flow.foreign.net.total.volume)
        return known[back]

    def _flow(self, symbol: str, bar: DayBar) -> Flow:
        source = stream(self._stocks.seed, "flows", symbol, bar.day)
        matched = Amount(bar.volume, bar.value)
        traded = Split(matched, _part(matched, source.randrange(120_000)))
        buyers = _lots(share(bar.volume, source.randrange(350_000, 650_000), _MILLION))
        size = source.randint(*ORDER_SIZE)
        return Flow(
            bar.day,
            traded,
            _group(traded, (20_000, 250_000), source),
            _group(traded, (5_000, 60_000), source),
            buyers,
            -(-buyers // size),
            -(-(bar.volume - buyers) // size),
        )


def _day(bar: DayBar) -> date:
    return bar.day


def _group(traded: Split, range_ppm: tuple[int, int], source: Random) -> Group:
    amounts = (traded.matched, traded.put_through, traded.matched, traded.put_through)
    bought, bought_through, sold, sold_through = (
        _part(amount, source.randrange(*range_ppm)) for amount in amounts
    )
    return Group(Split(bought, bought_through), Split(sold, sold_through))


def _part(whole: Amount, ppm: int) -> Amount:
    """Return so many millionths of an amount, in whole lots at its average price."""
    volume = _lots(share(whole.volume, ppm, _MILLION))
    return Amount(volume, share(whole.value, volume, whole.volume))


def _lots(volume: int) -> int:
    return volume // BOARD_LOT * BOARD_LOT
