"""What each account holds, and what its strategies have won or lost today, at the last prices.

Kept at each fill, each read of the account and each quote: so the limits of money are asked for
every order and nothing is summed up for it.

A day's result: shares at its start count at the day's reference, which the exchange has adjusted on
an ex-date. What a share had cost before says nothing about today.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bot.domain.entry import Fill
from bot.domain.order import Side


class Mark(NamedTuple):
    """What a share of a symbol is worth today, and its reference of today."""

    price: int
    reference: int


@dataclass(slots=True)
class DayTrade:
    """Own shares of a symbol. `begun`: at the start of the day, below 0 where more was sold before
    than was bought; `moved`: what today has added to them. `spent`: what buys of today have cost,
    less what sales of today have brought, in VND without fees.

    Only sums are kept, so that neither the order of fills nor a restart between them tells.
    """

    begun: int = 0
    moved: int = 0
    spent: int = 0

    def take(self, fill: Fill) -> None:
        """Take in a fill of today."""
        is_buy = fill.side is Side.BUY
        self.moved += fill.quantity if is_buy else -fill.quantity
        self.spent += fill.amount if is_buy else -fill.amount

    def carry(self, shares: int) -> None:
        """Take in shares of an earlier day, of which only today was heard."""
        self.begun += shares

    def begin_day(self) -> None:
        """What is held now is held at the start."""
        self.begun, self.moved, self.spent = self.begun + self.moved, 0, 0

    def result(self, mark: Mark | None) -> int | None:
        """Return what today has brought before fees; None: it takes a price that is not known. What
        today has sold beyond its own shares was there at the start.
        """
        start = max(self.begun, -self.moved, 0)
        shares = start + self.moved
        if not start and not shares:
            return -self.spent
        if mark is None:
            return None
        return shares * mark.price - start * mark.reference - self.spent


@dataclass(slots=True)
class Worth:
    """Of one account. `held`: all its shares; `value`: at the last price, where no quote was seen
    at the broker's `cost`. `days`: today's trade of its strategies by symbol, `result` what that
    has brought as far as it is known, `fees` those of today with the taxes. Money is VND.
    """

    held: dict[str, int] = field(default_factory=dict)
    cost: dict[str, int] = field(default_factory=dict)
    value: int = 0
    days: dict[str, DayTrade] = field(default_factory=dict)
    result: int = 0
    fees: int = 0

    @property
    def loss(self) -> int:
        """What today has cost; negative: what it has brought."""
        return self.fees - self.result


class Exposure:
    """Of every account."""

    def __init__(self) -> None:
        self._accounts: dict[str, Worth] = {}
        self._last: dict[str, int] = {}
        self._marks: dict[str, Mark] = {}

    def of(self, account: str) -> Worth:
        """Return an account's, which begins with nothing."""
        found = self._accounts.get(account)
        if found is None:
            found = self._accounts[account] = Worth()
        return found

    def value_of(self, account: str, symbol: str) -> int:
        """Return what the account's shares of a symbol are worth."""
        return self._value(self.of(account), symbol)

    def mark_of(self, symbol: str) -> Mark | None:
        """Return what a share counts today; None: no reference of today is known."""
        return self._marks.get(symbol)

    def unmarked(self) -> Iterator[str]:
        """Yield the symbols that the day's results leave out."""
        for worth in self._accounts.values():
            for symbol, day in worth.days.items():
                if day.result(self._marks.get(symbol)) is None:
                    yield symbol

    def quoted(self, symbol: str, last: int) -> None:
        """Take in a last price that is believed."""
        if self._last.get(symbol) == last:
            return
        mine = [one for one in self._accounts.values() if symbol in one.held]
        for worth in mine:
            worth.value -= self._value(worth, symbol)
        self._last[symbol] = last
        for worth in mine:
            worth.value += self._value(worth, symbol)

    def mark(self, symbol: str, mark: Mark) -> None:
        """Take in what a share is worth today."""
        if self._marks.get(symbol) == mark:
            return
        mine = [one for one in self._accounts.values() if symbol in one.days]
        for worth in mine:
            worth.result -= self._gain(worth, symbol)
        self._marks[symbol] = mark
        for worth in mine:
            worth.result += self._gain(worth, symbol)

    def hold(self, account: str, held: Mapping[str, int], cost: Mapping[str, int]) -> None:
        """Take the broker's numbers of all shares, with the fills that they can't contain yet."""
        worth = self.of(account)
        worth.held, worth.cost = dict(held), dict(cost)
        worth.value = sum(self._value(worth, symbol) for symbol in worth.held)

    def move(self, account: str, symbol: str, shares: int) -> None:
        """Take in shares that a fill has brought, or has taken away."""
        worth = self.of(account)
        worth.value -= self._value(worth, symbol)
        worth.held[symbol] = worth.held.get(symbol, 0) + shares
        worth.value += self._value(worth, symbol)

    def carry(self, account: str, symbol: str, shares: int) -> None:
        """Take in own shares that are there since before today, or went before it."""
        worth = self.of(account)
        worth.result -= self._gain(worth, symbol)
        worth.days.setdefault(symbol, DayTrade()).carry(shares)
        worth.result += self._gain(worth, symbol)

    def trade(self, fill: Fill) -> None:
        """Take in an own fill of today."""
        worth, symbol = self.of(fill.account), fill.symbol
        worth.result -= self._gain(worth, symbol)
        worth.days.setdefault(symbol, DayTrade()).take(fill)
        worth.result += self._gain(worth, symbol)

    def begin_day(self) -> None:
        """Nothing has happened yet, and no reference of the new day is known."""
        self._marks.clear()
        for worth in self._accounts.values():
            worth.result = worth.fees = 0
            for day in worth.days.values():
                day.begin_day()

    def _value(self, worth: Worth, symbol: str) -> int:
        price = self._last.get(symbol)
        return worth.held.get(symbol, 0) * (worth.cost.get(symbol, 0) if price is None else price)

    def _gain(self, worth: Worth, symbol: str) -> int:
        day = worth.days.get(symbol)
        return 0 if day is None else day.result(self._marks.get(symbol)) or 0
