"""The engine's state of each account: used limits, holdings, the day's result.

All of it is updated incrementally, at each fill, account read and quote, and nothing is summed or
searched for an order: a request costs the same on the last order of the day as on the first.

For a day's result, shares held at its start count at the day's reference, which the exchange has
adjusted on an ex-date. What a share cost earlier is irrelevant for today.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bot.domain.entry import Fill
from bot.domain.order import Side

SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
REFUSALS_MAX: Final = 3
"""After this many refusals of its orders by the broker in a row, a strategy is paused."""
REFUSALS_OF_LATE_MAX: Final = 5
OF_LATE: Final = timedelta(minutes=10)


class Recent:
    """Counts events within a span that ends now. Instants must be added in time order."""

    def __init__(self, span: timedelta) -> None:
        self._span = span
        self._instants: deque[datetime] = deque()

    def add(self, at: datetime) -> None:
        """Count one, and drop those that are too old by then."""
        self._instants.append(at)
        self.count(at)

    def count(self, now: datetime) -> int:
        """Return how many are younger than the span, dropping older ones."""
        instants = self._instants
        while instants and now - instants[0] >= self._span:
            instants.popleft()
        return len(instants)

    def opens_at(self, now: datetime, most: int | None) -> datetime | None:
        """Return when fewer than `most` will be younger than the span; None if they are now."""
        if most is None or self.count(now) < most:
            return None
        instants = self._instants
        return (instants[-most] if 0 < most <= len(instants) else now) + self._span


@dataclass(slots=True)
class AccountUsage:
    """Of one account: recent order requests, and the orders of the day. `sides` are those of the
    last fills, `flips` how often they changed, `reduced_by` why nothing is bought.
    """

    last_second: Recent = field(default_factory=lambda: Recent(SECOND))
    last_minute: Recent = field(default_factory=lambda: Recent(MINUTE))
    sales_of_second: Recent = field(default_factory=lambda: Recent(SECOND))
    sales_of_minute: Recent = field(default_factory=lambda: Recent(MINUTE))
    orders_today: int = 0
    reduced_by: str = ""
    sides: dict[str, Side] = field(default_factory=dict)
    flips: Counter[str] = field(default_factory=Counter)

    def fill(self, symbol: str, side: Side) -> None:
        """Count a fill; one on the opposite side to the previous one is a flip."""
        if self.sides.get(symbol, side) is not side:
            self.flips[symbol] += 1
        self.sides[symbol] = side

    def send(self, at: datetime) -> None:
        """Count an order, a change or a cancel about to be sent."""
        self.last_second.add(at)
        self.last_minute.add(at)

    def sell(self, at: datetime) -> None:
        """Count a sale about to be sent, in addition to `send`."""
        self.sales_of_second.add(at)
        self.sales_of_minute.add(at)


class Usage:
    """The usage of every account."""

    def __init__(self) -> None:
        self._accounts: dict[str, AccountUsage] = {}

    def of(self, account: str) -> AccountUsage:
        """Return an account's usage, starting from zero."""
        found = self._accounts.get(account)
        if found is None:
            found = self._accounts[account] = AccountUsage()
        return found

    def begin_day(self) -> None:
        """Reset the counts of the day."""
        for usage in self._accounts.values():
            usage.orders_today, usage.reduced_by = 0, ""
            usage.sides.clear()
            usage.flips.clear()

    def all(self) -> Iterable[tuple[str, AccountUsage]]:
        """Return every account's usage, by its id."""
        return sorted(self._accounts.items())


# ---------------------------------------------------------------------- worth and result of the day


class Mark(NamedTuple):
    """Today's value of one share of a symbol, and today's reference."""

    price: int
    reference: int


@dataclass(slots=True)
class DayTrade:
    """Own shares of a symbol. `begun`: at the start of the day, below 0 if more was sold earlier
    than bought; `moved`: the change today. `spent`: the cost of today's buys less the proceeds of
    today's sales, in VND without fees.

    Only sums are kept, so neither the order of fills nor a restart between them matters.
    """

    begun: int = 0
    moved: int = 0
    spent: int = 0

    def take(self, fill: Fill) -> None:
        """Apply a fill of today."""
        is_buy = fill.side is Side.BUY
        self.moved += fill.quantity if is_buy else -fill.quantity
        self.spent += fill.amount if is_buy else -fill.amount

    def begin_day(self) -> None:
        """Start the day with the present shares."""
        self.begun, self.moved, self.spent = self.begun + self.moved, 0, 0

    @property
    def start(self) -> int:
        """The shares of the day's start: at least what has been sold beyond today's own."""
        return max(self.begun, -self.moved, 0)

    def result(self, mark: Mark | None) -> int | None:
        """Return today's result before fees; None if a needed price is not known."""
        start = self.start
        shares = start + self.moved
        if not start and not shares:
            return -self.spent
        if mark is None:
            return None
        return shares * mark.price - start * mark.reference - self.spent


@dataclass(slots=True)
class Worth:
    """Of one account. `held`: all its shares; `value`: at the last price, or without a quote at the
    broker's `cost`. `days`: today's trades of its strategies by symbol, `result` their result as
    far as known, `fees` today's fees and taxes, `realised` what its sales have brought more than
    their shares cost. Money is VND.
    """

    held: dict[str, int] = field(default_factory=dict)
    cost: dict[str, int] = field(default_factory=dict)
    value: int = 0
    days: dict[str, DayTrade] = field(default_factory=dict)
    result: int = 0
    fees: int = 0
    realised: int = 0

    @property
    def loss(self) -> int:
        """Return today's loss (negative is a profit)."""
        return self.fees - self.result


class Exposure:
    """The worth of every account."""

    def __init__(self) -> None:
        self._accounts: dict[str, Worth] = {}
        self._last: dict[str, int] = {}
        self._marks: dict[str, Mark] = {}

    def of(self, account: str) -> Worth:
        """Return an account's worth, starting empty."""
        found = self._accounts.get(account)
        if found is None:
            found = self._accounts[account] = Worth()
        return found

    def realised_today(self) -> tuple[int, int]:
        """Return what today's sales have realised before costs, and today's fees and taxes, of all
        strategies, whether they run or not.
        """
        worths = self._accounts.values()
        return sum(each.realised for each in worths), sum(each.fees for each in worths)

    def value_of(self, account: str, symbol: str) -> int:
        """Return the value of the account's shares of a symbol."""
        return self._value(self.of(account), symbol)

    def mark_of(self, symbol: str) -> Mark | None:
        """Return today's value of a share; None if today's reference is not known."""
        return self._marks.get(symbol)

    def at_stake(self, account: str) -> Iterator[tuple[str, int, Mark | None]]:
        """Yield the symbols whose price moves the day's result, with the shares and their mark."""
        for symbol, day in self.of(account).days.items():
            if shares := day.start + day.moved:
                yield symbol, shares, self._marks.get(symbol)

    def unmarked(self) -> Iterator[str]:
        """Yield the symbols missing in the day's results."""
        for worth in self._accounts.values():
            for symbol, day in worth.days.items():
                if day.result(self._marks.get(symbol)) is None:
                    yield symbol

    def quoted(self, symbol: str, last: int) -> None:
        """Apply a trusted last price."""
        if self._last.get(symbol) == last:
            return
        mine = [one for one in self._accounts.values() if symbol in one.held]
        for worth in mine:
            worth.value -= self._value(worth, symbol)
        self._last[symbol] = last
        for worth in mine:
            worth.value += self._value(worth, symbol)

    def mark(self, symbol: str, mark: Mark) -> None:
        """Set today's value of a share."""
        if self._marks.get(symbol) == mark:
            return
        mine = [one for one in self._accounts.values() if symbol in one.days]
        for worth in mine:
            worth.result -= self._gain(worth, symbol)
        self._marks[symbol] = mark
        for worth in mine:
            worth.result += self._gain(worth, symbol)

    def hold(self, account: str, held: Mapping[str, int], cost: Mapping[str, int]) -> None:
        """Set all shares from the broker's figures, plus the fills that these cannot
        contain yet.
        """
        worth = self.of(account)
        worth.held, worth.cost = dict(held), dict(cost)
        worth.value = sum(self._value(worth, symbol) for symbol in worth.held)

    def move(self, account: str, symbol: str, shares: int) -> None:
        """Apply a fill's change of shares."""
        worth = self.of(account)
        worth.value -= self._value(worth, symbol)
        worth.held[symbol] = worth.held.get(symbol, 0) + shares
        worth.value += self._value(worth, symbol)

    def carry(self, account: str, symbol: str, shares: int) -> None:
        """Apply a change of own shares from before today."""
        worth = self.of(account)
        worth.result -= self._gain(worth, symbol)
        worth.days.setdefault(symbol, DayTrade()).begun += shares
        worth.result += self._gain(worth, symbol)

    def trade(self, fill: Fill) -> None:
        """Apply an own fill of today."""
        worth, symbol = self.of(fill.account), fill.symbol
        worth.result -= self._gain(worth, symbol)
        worth.days.setdefault(symbol, DayTrade()).take(fill)
        worth.result += self._gain(worth, symbol)
        worth.fees += fill.fee + fill.tax
        worth.realised += fill.realised

    def is_traded(self, symbol: str) -> bool:
        """Return whether an own fill of today is in a symbol."""
        days = (worth.days.get(symbol) for worth in self._accounts.values())
        return any(day is not None and (day.moved or day.spent) for day in days)

    def begin_day(self) -> None:
        """Reset for a new day, whose references are not known yet."""
        self._marks.clear()
        for worth in self._accounts.values():
            worth.result = worth.fees = worth.realised = 0
            for day in worth.days.values():
                day.begin_day()

    def _value(self, worth: Worth, symbol: str) -> int:
        price = self._last.get(symbol)
        return worth.held.get(symbol, 0) * (worth.cost.get(symbol, 0) if price is None else price)

    def _gain(self, worth: Worth, symbol: str) -> int:
        day = worth.days.get(symbol)
        return 0 if day is None else day.result(self._marks.get(symbol)) or 0
