"""What was traded and not delivered yet: shares bought, money from sales, until 13:00 of T+2."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import Instrument
from bot.domain.rulebook import Rulebook

CASH: Final = ""
"""In place of a symbol: money."""

Buckets = tuple[int, int, int]
"""Traded today, one trading day ago, two or more (until delivery)."""


@dataclass(slots=True)
class Due:
    """`quantity` shares of `symbol` (or VND, for CASH) traded on a day, delivered at an instant."""

    symbol: str
    traded_on: date
    at: datetime
    quantity: int


class Receivables:
    """All that is due, one entry for each symbol and trade date."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._due: dict[tuple[str, date], Due] = {}

    def add(self, symbol: str, quantity: int, *, instrument: Instrument, traded_on: date) -> None:
        """Expect `quantity` of `symbol` (or CASH) from a trade in `instrument`."""
        due = self._due.get((symbol, traded_on))
        if due is None:
            at = self._rulebook.settles_at(instrument, traded_on)
            due = self._due[symbol, traded_on] = Due(symbol, traded_on, at, 0)
        due.quantity += quantity

    def take_due(self, at: datetime) -> list[Due]:
        """Hand over what has been delivered by `at`."""
        delivered = [due for due in self._due.values() if due.at <= at]
        for due in delivered:
            del self._due[due.symbol, due.traded_on]
        return delivered

    def next_delivery(self) -> datetime | None:
        """Return the instant of the next delivery, None when nothing is due."""
        return min((due.at for due in self._due.values()), default=None)

    def total(self, symbol: str) -> int:
        """Return all that is due of a symbol, or of CASH."""
        return sum(due.quantity for due in self._due.values() if due.symbol == symbol)

    def buckets(self, symbol: str, today: date) -> Buckets:
        """Return what is due by the age of its trade."""
        found = [0, 0, 0]
        for due in self._due.values():
            if due.symbol == symbol:
                found[age_of(due.traded_on, today, self._rulebook.calendar)] += due.quantity
        return found[0], found[1], found[2]

    def to_records(self) -> list[dict[str, Any]]:
        return [
            {
                "symbol": due.symbol,
                "traded_on": due.traded_on.isoformat(),
                "at": due.at.isoformat(),
                "quantity": due.quantity,
            }
            for due in self._due.values()
        ]


def age_of(traded_on: date, today: date, calendar: TradingCalendar) -> int:
    """Count trading days since the trade, 2 at most; a closed day is as the next one."""
    if traded_on >= today:
        return 0
    return 1 if calendar.next_trading_day(traded_on) >= today else 2
