"""What a row says about an order, put together with what is known (order-safety section 6).

Rows may come late, twice and out of order. The executed quantity only grows; a state comes from the
row that was asked for last; an ended order stays ended; a row that is not there says nothing. So
any order of arrival of the same rows ends in the same picture.
"""

from dataclasses import replace
from datetime import datetime

from bot.domain.entry import OrderUpdated
from bot.domain.order import TERMINAL_STATES, OrderReport, OrderResult
from bot.domain.order_status import settled


def merged(row: OrderUpdated, report: OrderReport, *, is_newer: bool) -> OrderUpdated:
    """Return the row with the report in it. `is_newer`: asked for after all rows before."""
    executed, amount = row.executed_quantity, row.executed_amount
    if report.executed_quantity > executed:
        executed, amount = report.executed_quantity, report.executed_amount
    if row.state in TERMINAL_STATES:
        is_same = executed == row.executed_quantity
        return row if is_same else replace(row, executed_quantity=executed, executed_amount=amount)
    if not is_newer:
        cancelled = row.cancelled_quantity
        remaining = row.quantity - executed - cancelled
        sums = {"executed": executed, "remaining": remaining, "cancelled": cancelled}
        state = settled(row.state, quantity=row.quantity, **sums)
        return replace(row, executed_quantity=executed, executed_amount=amount, state=state)
    state = settled(
        report.state,
        quantity=report.quantity,
        executed=executed,
        remaining=report.remaining_quantity,
        cancelled=report.cancelled_quantity,
    )
    # Most rows of a poll show nothing new: only a changed one is worth a copy.
    is_same = (
        state is row.state
        and executed == row.executed_quantity
        and report.quantity == row.quantity
        and report.status == row.broker_status
        and report.cancelled_quantity == row.cancelled_quantity
        and report.price in {None, row.price}
        and report.order_type in {"", row.order_type}
        and report.message in {"", row.reason}
    )
    if is_same:
        return row
    return replace(
        row,
        quantity=report.quantity,
        order_type=report.order_type or row.order_type,
        price=report.price if report.price is not None else row.price,
        executed_quantity=executed,
        executed_amount=amount,
        cancelled_quantity=report.cancelled_quantity,
        broker_status=report.status,
        reason=report.message or row.reason,
        state=state,
    )


def contradiction(row: OrderUpdated, report: OrderReport, executed_at: datetime) -> str | None:
    """Return why a report cannot be true, None when it can. Such a symbol is halted.

    Rows asked for before `executed_at` may show less than is known; a later one may not. The
    average price is floored, so amount and quantity × average differ by less than the quantity.
    """
    executed, amount = report.executed_quantity, report.executed_amount
    if executed < 0:
        return f"negative executed quantity {executed}"
    if executed > report.quantity:
        return f"executed {executed} of {report.quantity} ordered"
    if executed < row.executed_quantity and report.requested_at > executed_at:
        return f"executed quantity fell from {row.executed_quantity} to {executed}"
    if executed and abs(amount - executed * report.average_price) >= executed:
        return f"amount {amount} is not {executed} x {report.average_price}"
    return None


def report_of(result: OrderResult, requested_at: datetime) -> OrderReport:
    """Read the result of a place as the order's first row."""
    return OrderReport(
        order_id=result.order_id,
        root_order_id="",
        account=result.account,
        trading_date=result.transaction_date,
        symbol=result.symbol,
        side=result.side,
        quantity=result.quantity,
        order_type=result.order_type,
        price=result.limit_price,
        executed_quantity=result.executed_quantity,
        average_price=result.average_price,
        executed_amount=result.executed_amount,
        remaining_quantity=result.quantity - result.executed_quantity,
        cancelled_quantity=0,
        status=result.status,
        state=result.state,
        may_cancel=None,
        may_amend=None,
        placed_at=None,
        message=result.reason or "",
        requested_at=requested_at,
        raw=result.raw,
    )
