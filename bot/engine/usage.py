"""What an account has used of the limits that its strategies share: kept as it is used.

Nothing here is searched for: a request that is counted costs the same on the last order of the day
as on the first one.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from bot.domain.order import Side

SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
REFUSALS_MAX: Final = 3
"""Of a strategy's orders by the broker, in a row, at which it is paused."""
REFUSALS_OF_LATE_MAX: Final = 5
OF_LATE: Final = timedelta(minutes=10)


class Recent:
    """How many there were within a span that ends now. Instants come in the order of time."""

    def __init__(self, span: timedelta) -> None:
        self._span = span
        self._instants: deque[datetime] = deque()

    def add(self, at: datetime) -> None:
        """Count one."""
        self._instants.append(at)

    def count(self, now: datetime) -> int:
        """Return how many are younger than the span; what is older is forgotten."""
        instants = self._instants
        while instants and now - instants[0] >= self._span:
            instants.popleft()
        return len(instants)

    def opens_at(self, now: datetime, most: int | None) -> datetime | None:
        """Return when fewer than `most` will be younger than the span; None: they are now."""
        if most is None or self.count(now) < most:
            return None
        instants = self._instants
        return (instants[-most] if 0 < most <= len(instants) else now) + self._span


@dataclass(slots=True)
class AccountUsage:
    """Of one account: order requests that went out of late, and the orders of the day. `sides` are
    those of the last fills, `flips` how often they changed, `reduced_by` why nothing is bought.
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
        """Count a fill; one on the other side than the one before it is a flip."""
        if self.sides.get(symbol, side) is not side:
            self.flips[symbol] += 1
        self.sides[symbol] = side

    def send(self, at: datetime) -> None:
        """Count an order, a change or a cancel that is about to go out."""
        self.last_second.add(at)
        self.last_minute.add(at)
        self.last_second.count(at)  # what is too old goes, also where nobody asks
        self.last_minute.count(at)

    def sell(self, at: datetime) -> None:
        """Count a sale that is about to go out, beside what `send` counts."""
        self.sales_of_second.add(at)
        self.sales_of_minute.add(at)
        self.sales_of_second.count(at)
        self.sales_of_minute.count(at)


class Usage:
    """Of every account."""

    def __init__(self) -> None:
        self._accounts: dict[str, AccountUsage] = {}

    def of(self, account: str) -> AccountUsage:
        """Return an account's, which begins with nothing."""
        found = self._accounts.get(account)
        if found is None:
            found = self._accounts[account] = AccountUsage()
        return found

    def begin_day(self) -> None:
        """Start the counts of the day again."""
        for usage in self._accounts.values():
            usage.orders_today, usage.reduced_by = 0, ""
            usage.sides.clear()
            usage.flips.clear()

    def all(self) -> Iterable[tuple[str, AccountUsage]]:
        """Return every account's, by its id."""
        return sorted(self._accounts.items())
