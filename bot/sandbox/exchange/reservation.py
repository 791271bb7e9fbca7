"""What a working order holds back: money for a buy, shares for a sell.

A buy without a price of its own is held at the ceiling, an after-hours one at the close (practice
of Vietnamese brokers). Fee and tax are counted on the order's whole executed amount, half up, so
the charges of its partial fills add up to those of the order, whatever the fills were.
"""

from dataclasses import dataclass
from typing import Any

from bot.domain.instrument import Instrument
from bot.domain.order import OrderType, Side
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.market import Board
from bot.sandbox.exchange.order import NewOrder


@dataclass(frozen=True, slots=True)
class Tariff:
    """What the broker and the state take, at this account's rate in parts per million."""

    rulebook: Rulebook
    fee_ppm: int

    def fee(self, amount: int) -> int:
        """Return the fee on an order's executed amount, half up to whole VND."""
        return self.rulebook.fee(amount, self.fee_ppm)

    def tax(self, side: Side, amount: int) -> int:
        """Return the tax on an order's executed amount: on sales only, half up to whole VND."""
        return self.rulebook.sale_tax(amount) if side is Side.SELL else 0

    def cost(self, amount: int) -> int:
        """Return what a buy of `amount` takes out of the account."""
        return amount + self.fee(amount)

    def affordable(self, money: int) -> int:
        """Return the greatest amount that `money` pays together with its fee."""
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
        """Return the money held back: what the open part would at most still cost."""
        return self.money_at(self.unit_price, self.open_quantity, tariff)

    def money_at(self, unit_price: int, open_quantity: int, tariff: Tariff) -> int:
        """Return the money that another price and open part would hold back."""
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
    """Return what the order holds back while it works."""
    price = order.price
    if price is None:
        is_at_close = order.order_type is OrderType.PLO
        price = (board.close or board.last or board.reference) if is_at_close else board.ceiling
    return Reservation(order.order_id, board.instrument, order.side, price, order.quantity)
