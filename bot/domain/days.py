"""Events at the border between two days: how the one ended, what the other begins with and has
left.
"""

from dataclasses import dataclass
from datetime import date, datetime

from bot.domain.order import OrderReport


@dataclass(frozen=True, slots=True)
class EarlierOrdersRead:
    """What the order history says of own orders that an earlier day left open.

    An order that it does not know, or that could not be asked for, has no report.
    """

    at: datetime
    reports: tuple[OrderReport, ...]


@dataclass(frozen=True, slots=True)
class TradingDayEnded:
    """The exchanges have closed: journal, day order book and account are compared once more."""

    at: datetime
    trading_date: date


@dataclass(frozen=True, slots=True)
class CodesCounted:
    """How many 2FA codes the broker will still mail today, as far as this bot knows; `of` a day."""

    at: datetime
    left: int
    of: int
