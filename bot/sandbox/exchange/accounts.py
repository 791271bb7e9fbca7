"""The cash and shares of one sub-account, in whole VND and whole shares.

Order of use: `can_place`, `reserve`, `Venue.submit`, then every event of the venue to `apply`. The
cash of a buy leaves `cash` with the trade; sale proceeds and bought shares arrive on T+2 at 13:00,
dividends and new shares on their payment date, when `settle` is called. Nothing is created or lost;
a dividend and its tax count from the ex-date, when the claim arises:

    cash + money due = deposits - buys + sales - fees - taxes + dividends - dividend taxes
    shares + shares due = deposits + bought - sold + new shares
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from functools import partial
from typing import Any

from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.order import Side
from bot.domain.rulebook import Rulebook
from bot.sandbox.errors import UnknownReservation
from bot.sandbox.exchange.market import Board
from bot.sandbox.exchange.message import (
    NewOrder,
    OrderAmended,
    OrderCancelled,
    OrderLapsed,
    OrderRefused,
    OrderRepriced,
    Refusal,
    Traded,
    VenueEvent,
)
from bot.sandbox.exchange.obligations import (
    CASH,
    Buckets,
    Entitlement,
    Entitlements,
    Receivables,
    Reservation,
    Tariff,
    reservation_for,
)


@dataclass(slots=True)
class OwnedShares:
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
    """The account's money. `secured` is the part of `cash` reserved for working buys.

    `receiving` is sale money due by the age of its trade, `dividends_due` dividends after tax;
    `fees` and `taxes` are those of trades, totals since the account was opened.
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
    """One fill as booked: the order's charges so far minus those booked before."""

    at: datetime
    order_id: str
    symbol: str
    side: Side
    price: int
    quantity: int
    amount: int
    fee: int
    tax: int


class Account:
    """One sub-account. `fee_ppm` None: the rulebook's rate."""

    def __init__(self, rulebook: Rulebook, *, cash: int, fee_ppm: int | None = None) -> None:
        self.cash = cash
        self.fees = 0
        self.taxes = 0
        self.dividends = 0
        self.dividend_taxes = 0
        self._tariff = Tariff(rulebook, rulebook.fee_ppm if fee_ppm is None else fee_ppm)
        self._owned: dict[str, OwnedShares] = {}
        self._receivables = Receivables(rulebook)
        self._promised = Entitlements()
        self._reservations: dict[str, Reservation] = {}
        self.secured = 0

    def deposit_shares(self, symbol: str, quantity: int, *, cost_price: int) -> None:
        """Put settled shares into the account, bought before at `cost_price`."""
        assert quantity > 0, "a deposit has shares"
        owned = self._owned.setdefault(symbol, OwnedShares())
        owned.settled += quantity
        owned.cost += quantity * cost_price

    def deposit_due(
        self, instrument: Instrument, quantity: int, *, cost_price: int, traded_on: date
    ) -> None:
        """Let the account await shares that were bought before, on a day at `cost_price`."""
        symbol = instrument.symbol
        self._owned.setdefault(symbol, OwnedShares()).cost += quantity * cost_price
        self._receivables.add(symbol, quantity, instrument=instrument, traded_on=traded_on)

    # ------------------------------------------------------------------------------ reserving

    def buying_power(self) -> int:
        """Return the largest quantity times price that cash can pay for now, including the fee."""
        return self._tariff.affordable(self.cash - self.secured)

    def sellable(self, symbol: str) -> int:
        """Return the settled shares that are not reserved for working sell orders."""
        owned = self._owned.get(symbol)
        return (owned.settled if owned else 0) - self._selling(symbol)

    def _selling(self, symbol: str) -> int:
        return sum(
            held.open_quantity
            for held in self._reservations.values()
            if held.side is Side.SELL and held.instrument.symbol == symbol
        )

    def can_place(self, order: NewOrder, board: Board) -> Refusal | None:
        """Return why the account cannot carry the order, None if it can."""
        if order.side is Side.SELL:
            is_covered = order.quantity <= self.sellable(order.symbol)
            return None if is_covered else Refusal.SELLABLE
        needed = reservation_for(order, board).money(self._tariff)
        return None if needed <= self.cash - self.secured else Refusal.BUYING_POWER

    def can_amend(
        self, order_id: str, *, price: int | None = None, quantity_change: int = 0
    ) -> Refusal | None:
        """Return why the account cannot carry the amendment; `quantity_change` is new
        total - old.
        """
        held = self._reservation(order_id)
        if held.side is Side.SELL:
            is_covered = quantity_change <= self.sellable(held.instrument.symbol)
            return None if is_covered else Refusal.SELLABLE
        open_quantity = held.open_quantity + quantity_change
        needed = held.money_at(price or held.unit_price, open_quantity, self._tariff)
        free = self.cash - self.secured + held.money(self._tariff)
        return None if needed <= free else Refusal.BUYING_POWER

    def reserve(self, order: NewOrder, board: Board) -> None:
        """Reserve what the order needs, until the venue's events release it."""
        self._let_go(order.order_id)
        held = self._reservations[order.order_id] = reservation_for(order, board)
        self.secured += held.money(self._tariff)

    def release(self, order_id: str) -> None:
        """Release the reservation of an order that never reached the venue. Raises
        UnknownReservation.
        """
        self._reservation(order_id)
        self._let_go(order_id)

    def _let_go(self, order_id: str) -> None:
        held = self._reservations.pop(order_id, None)
        self.secured -= held.money(self._tariff) if held else 0

    def _reservation(self, order_id: str) -> Reservation:
        try:
            return self._reservations[order_id]
        except KeyError:
            raise UnknownReservation(f"order {order_id!r} reserved nothing") from None

    # -------------------------------------------------------------------------------- booking

    def apply(self, event: VenueEvent) -> tuple[Booked, ...]:
        """Book an event; events of other accounts' orders change nothing."""
        match event:
            case Traded():
                ids = (event.buy_order_id, event.sell_order_id)
                mine = [held for each in ids if (held := self._reservations.get(each)) is not None]
                return tuple([self._book(held, event) for held in mine])
            case OrderRefused() | OrderCancelled() | OrderLapsed():
                self._let_go(event.order_id)
            case OrderRepriced() | OrderAmended() if held := self._reservations.get(event.order_id):
                before = held.money(self._tariff)
                held.unit_price = event.price
                if isinstance(event, OrderAmended):
                    held.open_quantity = event.remaining
                self.secured += held.money(self._tariff) - before
            case _:
                pass
        return ()

    def _book(self, held: Reservation, trade: Traded) -> Booked:
        """Charge a fill, move its cash and shares, and release its reservation."""
        tariff, side, symbol, quantity = self._tariff, held.side, trade.symbol, trade.quantity
        secured, charged, amount = held.money(tariff), held.amount, trade.price * quantity
        held.amount += amount
        fee = tariff.fee(held.amount) - tariff.fee(charged)
        tax = tariff.tax(side, held.amount) - tariff.tax(side, charged)
        self.fees += fee
        self.taxes += tax
        traded_on = trade.at.astimezone(EXCHANGE_TZ).date()
        expect = partial(self._receivables.add, instrument=held.instrument, traded_on=traded_on)
        if side is Side.BUY:
            self.cash -= amount + fee
            self._owned.setdefault(symbol, OwnedShares()).cost += amount
            expect(symbol, quantity)
        else:
            owned = self._owned[symbol]
            owned.cost -= share(owned.cost, quantity, self._total(symbol))
            owned.settled -= quantity
            expect(CASH, amount - fee - tax)
            if not self._total(symbol):
                del self._owned[symbol]
        held.open_quantity -= quantity
        self.secured += held.money(tariff) - secured
        if not held.open_quantity:
            del self._reservations[held.order_id]
        return Booked(
            at=trade.at,
            order_id=held.order_id,
            symbol=symbol,
            side=side,
            price=trade.price,
            quantity=quantity,
            amount=amount,
            fee=fee,
            tax=tax,
        )

    # ------------------------------------------------------------------------------- settling

    def entitle(self, entitlement: Entitlement) -> None:
        """Book what a corporate action promises; `settle` delivers it."""
        self._promised.add(entitlement)
        self.dividends += entitlement.dividend
        self.dividend_taxes += entitlement.tax

    def next_settlement(self) -> datetime | None:
        """Return when `settle` will next have something to do, None if nothing is due."""
        due = (self._receivables.next_delivery(), self._promised.next_payment())
        return min((at for at in due if at is not None), default=None)

    def settle(self, at: datetime) -> None:
        """Receive the shares, cash, dividends and new shares delivered by `at`."""
        for paid in self._promised.take_due(at):
            self.cash += paid.net
            if paid.shares:
                self._owned[paid.symbol].settled += paid.shares
        for due in self._receivables.take_due(at):
            if due.symbol == CASH:
                self.cash += due.quantity
            else:
                self._owned[due.symbol].settled += due.quantity

    # -------------------------------------------------------------------------------- reading

    def figures(self, today: date) -> Figures:
        return Figures(
            cash=self.cash,
            secured=self.secured,
            buying_power=self.buying_power(),
            receiving=self._receivables.buckets(CASH, today),
            fees=self.fees,
            taxes=self.taxes,
            dividends_due=self._promised.cash_due(),
        )

    def net_assets(self, prices: Mapping[str, int]) -> int:
        """Return cash, money due and shares at `prices`; those without a price at cost.

        Dividends and new shares still to come count.
        """
        shares = sum(
            self._total(symbol) * prices[symbol] if symbol in prices else owned.cost
            for symbol, owned in self._owned.items()
        )
        return self.cash + self._receivables.total(CASH) + self._promised.cash_due() + shares

    def held(self, symbol: str) -> int:
        """Return all shares of a symbol: settled, due and promised."""
        return self._total(symbol) if symbol in self._owned else 0

    def entitlements(self) -> tuple[Entitlement, ...]:
        """Return all entitlements from corporate actions, oldest first, including finished ones."""
        return self._promised.every()

    def holdings(self, today: date) -> list[HoldingView]:
        found = []
        for symbol, owned in sorted(self._owned.items()):
            total = self._total(symbol)
            view = HoldingView(
                symbol=symbol,
                total=total,
                sellable=self.sellable(symbol),
                selling=self._selling(symbol),
                receiving=self._receivables.buckets(symbol, today),
                cost=owned.cost,
                cost_price=share(owned.cost, 1, total),
                promised=self._promised.shares_due(symbol),
            )
            found.append(view)
        return found

    def _total(self, symbol: str) -> int:
        due = self._receivables.total(symbol) + self._promised.shares_due(symbol)
        return self._owned[symbol].settled + due

    def to_record(self) -> dict[str, Any]:
        return {
            "cash": self.cash,
            "fees": self.fees,
            "taxes": self.taxes,
            "fee_ppm": self._tariff.fee_ppm,
            "positions": [
                {"symbol": symbol, **asdict(each)} for symbol, each in self._owned.items()
            ],
            "dividends": self.dividends,
            "dividend_taxes": self.dividend_taxes,
            "due": self._receivables.to_records(),
            "entitlements": [each.to_record() for each in self._promised.every()],
            "reservations": [each.to_record() for each in self._reservations.values()],
        }


def share(amount: int, part: int, whole: int) -> int:
    """Return `part` / `whole` of an amount, rounded half up; 0 if `part` is 0."""
    return (2 * amount * part + whole) // (2 * whole) if whole else 0
