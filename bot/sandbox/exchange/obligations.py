"""What an account reserves for working orders, and what it is owed but has not received.

A buy without a price reserves the ceiling, an after-hours one the close (practice of Vietnamese
brokers). Fee and tax are computed on the order's whole executed amount, half up, so the charges of
partial fills always add up to those of the order.

Bought shares and sale proceeds arrive at 13:00 of T+2. An entitlement is booked on the ex-date for
what was held at the close before it, including shares bought but not settled. A cash dividend is
owed net of tax; new shares are whole, the fraction is dropped (SIM: issuers differ, most cancel it
or pay a few VND). A rights issue offers shares for cash; this API has no call to take them up, so
its rights always lapse.
"""

from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final

from bot.domain.calendar import TradingCalendar
from bot.domain.errors import CalendarEnds
from bot.domain.instrument import Instrument
from bot.domain.order import OrderType, Side
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.market import Board
from bot.sandbox.exchange.message import NewOrder

CASH: Final = ""
"""Stands for cash where a symbol is expected."""

Buckets = tuple[int, int, int]
"""Traded today, one trading day ago, two or more (until delivery)."""


@dataclass(slots=True)
class Due:
    """`quantity` shares of `symbol` (or VND, for CASH) traded on a day and delivered
    at an instant; None: not yet known, as it lies beyond the calendar.
    """

    symbol: str
    traded_on: date
    at: datetime | None
    quantity: int

    def is_delivered(self, at: datetime) -> bool:
        return self.at is not None and self.at <= at


def delivery_of(rulebook: Rulebook, instrument: Instrument, traded_on: date) -> datetime | None:
    """Return when a trade is delivered, None beyond the calendar: trading goes on there."""
    try:
        return rulebook.settles_at(instrument, traded_on)
    except CalendarEnds:
        return None


class Receivables:
    """All receivables, one entry for each symbol and trade date."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._due: dict[tuple[str, date], Due] = {}

    def add(self, symbol: str, quantity: int, *, instrument: Instrument, traded_on: date) -> None:
        """Expect `quantity` of `symbol` (or CASH) from a trade in `instrument`."""
        due = self._due.get((symbol, traded_on))
        if due is None:
            at = delivery_of(self._rulebook, instrument, traded_on)
            due = self._due[symbol, traded_on] = Due(symbol, traded_on, at, 0)
        due.quantity += quantity

    def take_due(self, at: datetime) -> list[Due]:
        """Remove and return what has been delivered by `at`."""
        delivered = [due for due in self._due.values() if due.is_delivered(at)]
        for due in delivered:
            del self._due[due.symbol, due.traded_on]
        return delivered

    def next_delivery(self) -> datetime | None:
        """Return the instant of the next delivery that is known, None if there is none."""
        return min((due.at for due in self._due.values() if due.at is not None), default=None)

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
                **asdict(due),
                "traded_on": due.traded_on.isoformat(),
                "at": due.at and due.at.isoformat(),
            }
            for due in self._due.values()
        ]


def age_of(traded_on: date, today: date, calendar: TradingCalendar) -> int:
    """Count trading days since the trade, 2 at most; a closed day counts as the next
    trading day, and so does every day beyond the calendar.
    """
    if traded_on >= today:
        return 0
    try:
        return 1 if calendar.next_trading_day(traded_on) >= today else 2
    except CalendarEnds:
        return 1


class EntitlementKind(StrEnum):
    """The broker's words for what a shareholder gets (`UserRightType`)."""

    CASH_DIVIDEND = "CASH_DIVIDEND"
    STOCK_DIVIDEND = "STOCK_DIVIDEND"
    BONUS_SHARES = "BONUS_SHARES"
    STOCK_RIGHT = "STOCK_RIGHT"


@dataclass(frozen=True, slots=True)
class Entitlement:
    """One corporate action's promise to one account, paid (or lapsing) at `at`.

    `dividend` is gross VND, `tax` the tax withheld from it; `shares` are free, `offered` can be
    bought at `price`. `ratio` is the broker's text: shares held to VND or new shares.
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
    """All entitlements of an account, oldest first; finished ones are kept for the records."""

    def __init__(self) -> None:
        self._all: list[Entitlement] = []

    def add(self, entitlement: Entitlement) -> None:
        self._all.append(entitlement)

    def every(self) -> tuple[Entitlement, ...]:
        """Return all, including paid and lapsed ones."""
        return tuple(self._all)

    def cash_due(self) -> int:
        """Return the dividends still to come, in VND after tax."""
        return sum(each.net for each in self._all if not each.is_over)

    def shares_due(self, symbol: str) -> int:
        """Return the new shares of a symbol still to come."""
        due = (each for each in self._all if not each.is_over)
        return sum(each.shares for each in due if each.symbol == symbol)

    def next_payment(self) -> datetime | None:
        """Return when the next one is paid or lapses, None if none is open."""
        return min((each.at for each in self._all if not each.is_over), default=None)

    def take_due(self, at: datetime) -> list[Entitlement]:
        """End and return those due by `at`."""
        due = [each for each in self._all if not each.is_over and each.at <= at]
        if due:
            self._all = [replace(each, is_over=each.is_over or each.at <= at) for each in self._all]
        return due


@dataclass(frozen=True, slots=True)
class Tariff:
    """The broker's and the state's charges, at this account's rate in parts per million."""

    rulebook: Rulebook
    fee_ppm: int

    def fee(self, amount: int) -> int:
        """Return the fee on an order's executed amount, half up to whole VND."""
        return self.rulebook.fee(amount, self.fee_ppm)

    def tax(self, side: Side, amount: int) -> int:
        """Return the tax on an order's executed amount: on sales only, half up to whole VND."""
        return self.rulebook.sale_tax(amount) if side is Side.SELL else 0

    def cost(self, amount: int) -> int:
        """Return what a buy of `amount` takes out of the account, including the fee."""
        return amount + self.fee(amount)

    def affordable(self, money: int) -> int:
        """Return the largest amount that `money` can pay, including its fee."""
        amount = max(money, 0) * 1_000_000 // (1_000_000 + self.fee_ppm)
        while self.cost(amount + 1) <= money:
            amount += 1
        while amount and self.cost(amount) > money:
            amount -= 1
        return amount


@dataclass(slots=True)
class Reservation:
    """One working order of the account. `amount` is what it has executed so far, in VND."""

    order_id: str
    instrument: Instrument
    side: Side
    unit_price: int
    open_quantity: int
    amount: int = 0

    def money(self, tariff: Tariff) -> int:
        """Return the cash reserved: the most that the open part can still cost."""
        return self.money_at(self.unit_price, self.open_quantity, tariff)

    def money_at(self, unit_price: int, open_quantity: int, tariff: Tariff) -> int:
        """Return the cash that another price and open part would reserve."""
        if self.side is Side.SELL:
            return 0
        return tariff.cost(self.amount + open_quantity * unit_price) - tariff.cost(self.amount)

    def to_record(self) -> dict[str, Any]:
        return {
            "order_id": self.order_id,
            "symbol": self.instrument.symbol,
            "exchange": self.instrument.exchange.value,
            "kind": self.instrument.kind.value,
            "side": self.side.value,
            "unit_price": self.unit_price,
            "open_quantity": self.open_quantity,
            "amount": self.amount,
        }


def reservation_for(order: NewOrder, board: Board) -> Reservation:
    """Return what the order reserves while it works."""
    price = order.price
    if price is None:
        is_at_close = order.order_type is OrderType.PLO
        price = (board.close or board.last or board.reference) if is_at_close else board.ceiling
    return Reservation(order.order_id, board.instrument, order.side, price, order.quantity)
