"""The `result[]` of an order write.

An answer may hold a rejection inside HTTP 200, no element, or several: nothing indexes blindly.
Prices and quantities must be whole; the average execution price is floored; amounts, fee and tax
are rounded half up. Source: broker open API 0.2.0-preview.3, order execution.
"""

from collections.abc import Sequence

from bot.domain.order import OrderResult, OrderState, Side
from bot.protocol.envelope import Payload, is_no_error
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import (
    Code,
    Floored,
    OrderDay,
    Positive,
    PriceOrNone,
    Symbol,
    Text,
    Vnd,
    Whole,
    Wire,
    Word,
    average_of,
    elements,
)
from bot.protocol.redact import redact
from bot.protocol.shaped import decoded
from bot.protocol.status import settle_quantities, state_of
from bot.protocol.strict_json import compact


class _OrderResult(Wire):
    """A rejected order may have no id: whether it has one is not shown."""

    order_id: Text = ""
    account_id: Text
    transaction_date: OrderDay
    symbol: Symbol
    order_side: Word
    order_quantity: Positive
    limit_price: PriceOrNone = None
    market_price: Word = ""
    execute_quantity: Whole = 0
    execute_price: Floored | None = None
    order_status: Word
    fee_amount: Vnd = 0
    tax_amount: Vnd = 0
    execute_amount: Vnd = 0
    order_type: Word
    code: Code = ""
    rejected_reason: Text = ""
    lot: Word = ""


def decode_order_results(payload: Payload) -> tuple[OrderResult, ...]:
    """Return every element. `code` is None when it means no error (null, empty or "0")."""
    return tuple(decode_order_result(element) for element in elements(payload))


def decode_order_result(element: Payload) -> OrderResult:
    found = decoded(_OrderResult, element)
    if found.order_side not in Side.__members__:
        raise MalformedAnswer(element.call, "order_side: neither BUY nor SELL", element.raw)
    # Shares without their amount would be fills that cost nothing: the order's row has both.
    is_sound = found.execute_amount or not 0 < found.execute_quantity <= found.order_quantity
    executed = found.execute_quantity if is_sound else 0
    return OrderResult(
        order_id=found.order_id,
        account=found.account_id,
        transaction_date=found.transaction_date,
        symbol=found.symbol,
        side=Side(found.order_side),
        quantity=found.order_quantity,
        limit_price=found.limit_price,
        market_price=found.market_price or None,
        executed_quantity=executed,
        average_price=average_of(found.execute_price, found.execute_amount, executed),
        executed_amount=found.execute_amount,
        status=found.order_status,
        state=_state(found, executed),
        order_type=found.order_type,
        fee=found.fee_amount,
        tax=found.tax_amount,
        code=None if is_no_error(found.code) else found.code,
        reason=found.rejected_reason or None,
        lot=found.lot or None,
        raw=redact(compact(element.value)),
    )


def _state(found: _OrderResult, executed: int) -> OrderState:
    """Read name and quantities; an answer does not mention a cancelled part.

    What is matched by its name, but not by its figures, goes on until its row shows the fills.
    """
    state = state_of(found.order_status)
    if state is OrderState.FILLED and executed < found.order_quantity:
        state = OrderState.ACCEPTED
    return settle_quantities(
        state,
        status=found.order_status,
        quantity=found.order_quantity,
        executed=executed,
        cancelled=0,
        remaining=found.order_quantity - executed,
    )


def encode_order_results(results: Sequence[OrderResult]) -> list[dict[str, object]]:
    """Return the `result` of an order write."""
    return [encode_order_result(result) for result in results]


def encode_order_result(result: OrderResult) -> dict[str, object]:
    """Return one element, with every field of the document."""
    return {
        "order_id": result.order_id,
        "account_id": result.account,
        "transaction_date": result.transaction_date.isoformat(),
        "symbol": result.symbol,
        "order_side": result.side,
        "order_quantity": result.quantity,
        "limit_price": result.limit_price,
        "market_price": result.market_price,
        "execute_quantity": result.executed_quantity,
        "execute_price": result.average_price,
        "order_status": result.status,
        "fee_amount": result.fee,
        "tax_amount": result.tax,
        "execute_amount": result.executed_amount,
        "order_type": result.order_type,
        "code": result.code,
        "rejected_reason": result.reason,
        "lot": result.lot,
    }
