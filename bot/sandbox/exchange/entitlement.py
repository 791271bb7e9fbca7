"""What corporate actions have promised an account: dividends and new shares until they are paid.

An entitlement is booked on the ex-date for what was held at the close before it, shares that were
bought and not settled included. A cash dividend is owed net of tax; new shares are whole, the
fraction is dropped (SIM: issuers differ, most cancel it or pay a few VND). A rights issue offers
shares for money: this API has no call to take them up, so its rights lapse at the end.
"""

from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any


class EntitlementKind(StrEnum):
    """The broker's words for what a shareholder gets (`UserRightType`)."""

    CASH_DIVIDEND = "CASH_DIVIDEND"
    STOCK_DIVIDEND = "STOCK_DIVIDEND"
    BONUS_SHARES = "BONUS_SHARES"
    STOCK_RIGHT = "STOCK_RIGHT"


@dataclass(frozen=True, slots=True)
class Entitlement:
    """One action's promise to one account, paid (or lapsing) at `at`.

    `dividend` is gross VND, `tax` what is withheld of it; `shares` come for nothing, `offered`
    could be bought at `price`. `ratio` is the broker's text: shares held to VND or new shares.
    """

    number: str
    kind: EntitlementKind
    symbol: str
    ratio: str
    ex_date: date
    at: datetime
    owned: int
    dividend: int = 0
    tax: int = 0
    shares: int = 0
    offered: int = 0
    price: int = 0
    is_over: bool = False

    @property
    def net(self) -> int:
        return self.dividend - self.tax

    def to_record(self) -> dict[str, Any]:
        ex_date, at = self.ex_date.isoformat(), self.at.isoformat()
        return {**asdict(self), "kind": self.kind.value, "ex_date": ex_date, "at": at}


class Entitlements:
    """All that an account was ever promised, oldest first; what is over stays for the records."""

    def __init__(self) -> None:
        self._all: list[Entitlement] = []

    def add(self, entitlement: Entitlement) -> None:
        self._all.append(entitlement)

    def every(self) -> tuple[Entitlement, ...]:
        """Return all, paid and lapsed ones too."""
        return tuple(self._all)

    def cash_due(self) -> int:
        """Return the dividends that are still to come, in VND after tax."""
        return sum(each.net for each in self._all if not each.is_over)

    def shares_due(self, symbol: str) -> int:
        """Return the new shares of a symbol that are still to come."""
        due = (each for each in self._all if not each.is_over)
        return sum(each.shares for each in due if each.symbol == symbol)

    def next_payment(self) -> datetime | None:
        """Return when the next one is paid or lapses, None when nothing is open."""
        return min((each.at for each in self._all if not each.is_over), default=None)

    def take_due(self, at: datetime) -> list[Entitlement]:
        """End those that are due by `at` and hand them over."""
        due = [each for each in self._all if not each.is_over and each.at <= at]
        if due:
            self._all = [replace(each, is_over=each.is_over or each.at <= at) for each in self._all]
        return due
