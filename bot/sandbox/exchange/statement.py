"""What an account shows of itself: positions, money, and fills as they were booked."""

from dataclasses import dataclass
from datetime import datetime

from bot.domain.order import Side
from bot.sandbox.exchange.settlement import Buckets


@dataclass(slots=True)
class Position:
    """Shares of one symbol. `settled` may be sold; `cost` is what all held shares cost, in VND.

    Cost is gross: fees are counted by the account.
    """

    settled: int = 0
    cost: int = 0


@dataclass(frozen=True, slots=True)
class HoldingView:
    """A holding as the account shows it. `total` includes shares that are due and being sold.

    `promised` are new shares of a stock dividend on their way; they are in `total` from the ex-date
    on. `cost_price` is the average over all of them, rounded half up to whole VND.
    """

    symbol: str
    total: int
    sellable: int
    selling: int
    receiving: Buckets
    cost: int
    cost_price: int
    promised: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The account's money. `secured` is the part of `cash` that working buys hold back.

    `receiving` is sale money due by the age of its trade, `dividends_due` dividends after tax;
    `fees` and `taxes` are those of trades, sums since the account was opened.
    """

    cash: int
    secured: int
    buying_power: int
    receiving: Buckets
    fees: int
    taxes: int
    dividends_due: int = 0


@dataclass(frozen=True, slots=True)
class Booked:
    """One fill as it was booked: the order's charges so far minus those booked before."""

    at: datetime
    order_id: str
    symbol: str
    side: Side
    price: int
    quantity: int
    amount: int
    fee: int
    tax: int
