"""One order as the broker keeps and shows it, and the codes and texts of refusals.

The status follows from the order's stage and its quantities: a working order that is partly
filled shows SENT (a switch: MATCHED), and one whose rest was cancelled or killed keeps SENT with
nothing open. Source: broker open API 0.2.0-preview.3, order state machine; rulings 9, 13.

The table of refusals is `refusals.csv`. Codes: broker open API 0.2.0-preview.3, order-level codes.
The Vietnamese texts are our own.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar, cast

from pydantic import JsonValue

from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ, Exchange, Lot, Phase
from bot.domain.order import OrderReport, OrderResult, OrderType, Side
from bot.domain.order_status import settled
from bot.protocol.status import state_of
from bot.sandbox.exchange.message import Refusal
from bot.sandbox.scenario import AccountScript, Switches

Row = TypeVar("Row")


class OrderStage(StrEnum):
    """How far an order has come, apart from its quantities, in the broker's words."""

    WAITING = "WAITING_TO_SEND"
    WORKING = "SENT"
    CANCELLED = "CANCELLED"
    LAPSED = "EXPIRED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


_OPEN: Final = frozenset({OrderStage.WAITING, OrderStage.WORKING})


@dataclass(slots=True, eq=False)
class OrderRecord:
    """A client's order at the broker. `order_type` is what is shown: after routing, LO for a limit.

    `market_price` is the code as it was sent; `price` is the limit, or that of an MTL remainder.
    `fee` and `tax` grow with the fills. `hidden_until` keeps the row out of day order book and
    detail.
    """

    order_id: str
    number: int
    account: AccountScript
    symbol: str
    exchange: Exchange | None
    side: Side
    quantity: int
    order_type: OrderType
    market_price: OrderType | None
    limit_price: int | None
    price: int | None
    lot: Lot | None
    placed_at: datetime
    phase: Phase | None
    stage: OrderStage = OrderStage.WORKING
    executed_quantity: int = 0
    executed_amount: int = 0
    cancelled_quantity: int = 0
    adjusted_quantity: int = 0
    fee: int = 0
    tax: int = 0
    code: str | None = None
    reason: str | None = None
    hidden_until: datetime | None = None
    renamed: int = 0
    """How often an amendment has given the order a new id (a switch of the scenario)."""
    former_quantity: int = 0
    former_amount: int = 0
    """What was matched under earlier ids, if a new id starts at zero (another switch)."""

    @property
    def shown_id(self) -> str:
        """The id used in answers and paths; the first one until it is renamed."""
        return f"{self.order_id}-{self.renamed}" if self.renamed else self.order_id

    @property
    def remaining(self) -> int:
        """The open part."""
        if self.stage not in _OPEN:
            return 0
        return self.quantity - self.executed_quantity - self.cancelled_quantity

    @property
    def has_limit(self) -> bool:
        """True for a limit order and for the remainder of an MTL, which rests as one."""
        return self.price is not None

    @property
    def average_price(self) -> int:
        """The average price of what has traded, floored; 0 when nothing has."""
        return self.executed_amount // self.executed_quantity if self.executed_quantity else 0

    def status(self, switches: Switches) -> str:
        if self.executed_quantity == self.quantity:
            return "MATCHED_ALL"
        if self.executed_quantity and self.stage in {OrderStage.WORKING, OrderStage.CANCELLED}:
            return switches.partial_status if self.remaining else "SENT"
        return self.stage.value

    def may_change(self, switches: Switches) -> bool:
        """Return whether the broker allows the order to be cancelled or amended."""
        if self.stage not in _OPEN or not self.remaining:
            return False
        return self.status(switches) != "MATCHED" or switches.matched_may_cancel

    def is_hidden(self, at: datetime) -> bool:
        """Return whether a fault hides the row."""
        return self.hidden_until is not None and at < self.hidden_until

    def former(self) -> "OrderRecord":
        """Return the row that stays under the present id when an amendment assigns a new one."""
        return replace(self, stage=OrderStage.CANCELLED, cancelled_quantity=self.remaining)

    def as_counted(self) -> "OrderRecord":
        """Return the order as its present id counts it: unchanged, or less what former ids had."""
        if not self.former_quantity:
            return self
        return replace(
            self,
            quantity=self.quantity - self.former_quantity,
            executed_quantity=self.executed_quantity - self.former_quantity,
            executed_amount=self.executed_amount - self.former_amount,
            former_quantity=0,
        )

    def facts(self, switches: Switches) -> dict[str, JsonValue]:
        """Return what the ledger keeps of the order: the truth that the bot is judged by."""
        return {
            "order": self.order_id,
            "account": self.account.id,
            "symbol": self.symbol,
            "side": self.side.value,
            "quantity": self.quantity,
            "type": self.order_type.value,
            "price": self.price,
            "status": self.status(switches),
            "executed": self.executed_quantity,
            "amount": self.executed_amount,
            "cancelled": self.cancelled_quantity,
            "remaining": self.remaining,
            "fee": self.fee,
            "tax": self.tax,
            "code": self.code,
        }

    def row(self, kind: type[Row], **others: Any) -> Row:
        """Return the order as a value of that class, copying the fields that both have."""
        own = [name for name in _names_of(cast("Any", kind)) if name not in others]
        return kind(**{name: getattr(self, name) for name in own}, **others)

    def report(self, switches: Switches, at: datetime) -> OrderReport:
        """Return the order's row of the day order book."""
        if self.former_quantity:
            return self.as_counted().report(switches, at)
        status, may_change = self.status(switches), self.may_change(switches)
        return self.row(
            OrderReport,
            order_id=self.shown_id,
            root_order_id=self.order_id,
            account=self.account.extended_id,
            trading_date=self.placed_at.astimezone(EXCHANGE_TZ).date(),
            remaining_quantity=self.remaining,
            status=status,
            state=state_of(status),
            may_cancel=may_change,
            may_amend=may_change and self.has_limit,
            message=self.reason or "",
            requested_at=at,
            raw="",
        )

    def result(self, switches: Switches) -> OrderResult:
        """Return the order as answers to place, modify or cancel show it."""
        if self.former_quantity:
            return self.as_counted().result(switches)
        status = self.status(switches)
        state = settled(
            state_of(status),
            quantity=self.quantity,
            executed=self.executed_quantity,
            cancelled=self.cancelled_quantity,
            remaining=self.remaining,
        )
        # hot path: the fields are listed here, not looked up as in a row
        return OrderResult(
            order_id=self.shown_id,
            account=self.account.extended_id,
            transaction_date=self.placed_at.astimezone(EXCHANGE_TZ).date(),
            symbol=self.symbol,
            side=self.side,
            quantity=self.quantity,
            limit_price=self.limit_price,
            market_price=self.market_price,
            executed_quantity=self.executed_quantity,
            average_price=self.average_price,
            executed_amount=self.executed_amount,
            status=status,
            state=state,
            order_type=self.order_type,
            fee=self.fee,
            tax=self.tax,
            code=self.code,
            reason=self.reason,
            # 150 shares, or those of an unknown symbol, are neither lot: the size decides.
            lot=self.lot or (Lot.EVEN if self.quantity >= BOARD_LOT else Lot.ODD),
            raw="",
        )


@cache
def _names_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


AMENDED_IN_PART: Final = "-701111"
"""A partly matched order was amended: only its unmatched part changed. Not a rejection."""
AMENDED_IN_PART_TEXT: Final = "Chỉ sửa được phần chưa khớp"
FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class Rejection:
    code: str
    reason: str


_TEXT: Final = files("bot.sandbox.house").joinpath("refusals.csv").read_text(encoding="utf-8")
REJECTIONS: Final[Mapping[Refusal, Rejection]] = {
    Refusal(row["refusal"]): Rejection(row["code"], row["reason"])
    for row in csv.DictReader(_TEXT.splitlines())
}
_ODD_LOT_TAKES_ONLY_LIMIT: Final = Rejection("-700114", "Lô lẻ chỉ chấp nhận lệnh LO")


def rejection_of(refusal: Refusal, lot: Lot | None) -> Rejection:
    """Return the broker's refusal; an odd lot of a wrong type has its own code."""
    if refusal is Refusal.ORDER_TYPE and lot is Lot.ODD:
        return _ODD_LOT_TAKES_ONLY_LIMIT
    return REJECTIONS[refusal]
