"""What each account holds, and what its strategies have won or lost today, at the last prices.

Kept at each fill, each read of the account and each quote: so the limits of money are asked for
every order and nothing is summed up for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Worth:
    """Of one account. `held`: all its shares; `value`: at the last price, where no quote was seen
    at the broker's `cost`. `own`: shares of its strategies and what they cost; `unrealised` counts
    those of which a quote was seen, `realised` is today's, less fees and taxes. Money is VND.
    """

    held: dict[str, int] = field(default_factory=dict)
    cost: dict[str, int] = field(default_factory=dict)
    value: int = 0
    own: dict[str, tuple[int, int]] = field(default_factory=dict)
    unrealised: int = 0
    realised: int = 0

    @property
    def loss(self) -> int:
        """What today has cost; negative: what it has brought."""
        return -(self.realised + self.unrealised)


class Exposure:
    """Of every account."""

    def __init__(self) -> None:
        self._accounts: dict[str, Worth] = {}
        self._last: dict[str, int] = {}

    def of(self, account: str) -> Worth:
        """Return an account's, which begins with nothing."""
        found = self._accounts.get(account)
        if found is None:
            found = self._accounts[account] = Worth()
        return found

    def value_of(self, account: str, symbol: str) -> int:
        """Return what the account's shares of a symbol are worth."""
        return self._value(self.of(account), symbol)

    def quoted(self, symbol: str, last: int) -> None:
        """Take in a last price that is believed."""
        if self._last.get(symbol) == last:
            return
        mine = [one for one in self._accounts.values() if symbol in one.held or symbol in one.own]
        for worth in mine:
            self._count(worth, symbol, -1)
        self._last[symbol] = last
        for worth in mine:
            self._count(worth, symbol, 1)

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

    def own(self, account: str, symbol: str, *, shares: int, cost: int) -> None:
        """Take in what a strategy has more, or less, of shares and of their cost."""
        worth = self.of(account)
        worth.unrealised -= self._gain(worth, symbol)
        before = worth.own.get(symbol, (0, 0))
        worth.own[symbol] = (before[0] + shares, before[1] + cost)
        worth.unrealised += self._gain(worth, symbol)

    def begin_day(self) -> None:
        """Nothing is realised yet."""
        for worth in self._accounts.values():
            worth.realised = 0

    def _count(self, worth: Worth, symbol: str, sign: int) -> None:
        worth.value += sign * self._value(worth, symbol)
        worth.unrealised += sign * self._gain(worth, symbol)

    def _value(self, worth: Worth, symbol: str) -> int:
        price = self._last.get(symbol)
        return worth.held.get(symbol, 0) * (worth.cost.get(symbol, 0) if price is None else price)

    def _gain(self, worth: Worth, symbol: str) -> int:
        price, (shares, cost) = self._last.get(symbol), worth.own.get(symbol, (0, 0))
        return 0 if price is None else shares * price - cost
