"""Profit, and positions with their prices, from the journal's rows alone.

A sale's result is against the average cost of its strategy's position in the symbol (stored with
each fill); `net` deducts fee and tax of both sides. Positions are valued at the last trusted price,
with its own time, which a later run may replace. All in whole VND, and equal on both databases.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Final

from bot.journal.reading.values import PositionRow, PriceRow, ProfitRow


class By(StrEnum):
    """What results are grouped by."""

    DAY = "day"
    SYMBOL = "symbol"
    STRATEGY = "strategy"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """Results of the group `of`; `net` is `realised` less fee and tax."""

    of: str
    fills: int
    bought: int
    bought_amount: int
    sold: int
    sold_amount: int
    realised: int
    fee: int
    tax: int
    net: int


@dataclass(frozen=True, slots=True)
class HeldRow:
    """Shares that a strategy still holds; without a price, value and result are unknown."""

    strategy: str | None
    symbol: str
    quantity: int
    cost: int
    last: int | None
    last_at: datetime | None
    value: int | None
    unrealised: int | None


@dataclass(frozen=True, slots=True)
class Profit:
    """Results of the days from `since` on, by row and in total, and current positions."""

    since: date | None
    rows: tuple[ResultRow, ...]
    total: ResultRow
    held: tuple[HeldRow, ...]

    @property
    def unrealised(self) -> int:
        """For all positions that have a price."""
        return sum(row.unrealised or 0 for row in self.held)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Positions without a price."""
        return tuple(sorted({row.symbol for row in self.held if row.last is None}))


TOTAL: Final = "total"
_NOBODY: Final = "none"
"""Fills that belong to no strategy of this bot."""
_OF: Final[Mapping[By, Callable[[ProfitRow], str]]] = {
    By.DAY: lambda row: row.trading_date.isoformat(),
    By.SYMBOL: lambda row: row.symbol,
    By.STRATEGY: lambda row: row.strategy or _NOBODY,
}
_SUMMED: Final = (
    *("fills", "bought", "bought_amount", "sold", "sold_amount"),
    *("realised", "fee", "tax", "net"),
)


def profit_of(
    profits: Sequence[ProfitRow],
    positions: Iterable[PositionRow],
    prices: Mapping[str, PriceRow],
    *,
    by: By,
    since: date | None = None,
) -> Profit:
    """Group daily results as requested, and value the positions."""
    wanted = [row for row in profits if since is None or row.trading_date >= since]
    names = sorted({_OF[by](row) for row in wanted})
    rows = [_sum(name, [row for row in wanted if _OF[by](row) == name]) for name in names]
    held = tuple(valued(row, prices.get(row.symbol)) for row in positions)
    return Profit(since, tuple(rows), _sum(TOTAL, wanted), held)


def _sum(of: str, rows: Iterable[ProfitRow]) -> ResultRow:
    listed = list(rows)
    return ResultRow(of, *(sum(getattr(row, name) for row in listed) for name in _SUMMED))


def valued(row: PositionRow, price: PriceRow | None) -> HeldRow:
    value = row.quantity * price.last if price else None
    return HeldRow(
        strategy=row.strategy,
        symbol=row.symbol,
        quantity=row.quantity,
        cost=row.cost,
        last=price.last if price else None,
        last_at=price.at if price else None,
        value=value,
        unrealised=None if value is None else value - row.cost,
    )
