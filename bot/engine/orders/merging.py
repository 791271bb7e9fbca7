"""What a row says about an order, put together with what is known (order-safety section 6).

Rows may come late, twice and out of order. The executed quantity only grows; a state comes from the
row that was asked for last; an ended order stays ended; a row that is not there says nothing. So
any order of arrival of the same rows ends in the same picture.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Final

from bot.domain.entry import OrderUpdated
from bot.domain.order import TERMINAL_STATES, Intent, OrderReport, OrderResult
from bot.domain.order_status import settled, shown_state

PARTS_MAX: Final = 3
"""As many rows may an order have become: board lots, odd lots, and what an exchange's maximum cuts
off."""
ROWS_TRIED: Final = 30


def merged(row: OrderUpdated, report: OrderReport, *, is_newer: bool) -> OrderUpdated:
    """Return the row with the report in it. `is_newer`: asked for after all rows before, and its
    status may follow; else the executed quantity alone is taken, and the status that came with the
    last of it.
    """
    known = row
    if report.executed_quantity > row.executed_quantity:
        executed, amount = report.executed_quantity, report.executed_amount
        known = replace(row, executed_quantity=executed, executed_amount=amount)
    executed = known.executed_quantity
    if row.state in TERMINAL_STATES:
        # The same end by another name, or one that is told of only now: MATCHED_ALL, COMPLETED.
        is_told = is_newer and shown_state(report) is row.state
        is_same = not is_told or report.status == row.broker_status
        return known if is_same else replace(known, broker_status=report.status)
    if not is_newer:
        cancelled = row.cancelled_quantity
        remaining = row.quantity - executed - cancelled
        sums = {"executed": executed, "remaining": remaining, "cancelled": cancelled}
        state = settled(row.state, quantity=row.quantity, **sums)
        # What shows all of it executed is newer than any row that does not.
        status = report.status if state in TERMINAL_STATES else row.broker_status
        return replace(known, state=state, broker_status=status)
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
        and known is row
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
        known,
        quantity=report.quantity,
        order_type=report.order_type or row.order_type,
        price=report.price if report.price is not None else row.price,
        cancelled_quantity=report.cancelled_quantity,
        broker_status=report.status,
        reason=report.message or row.reason,
        state=state,
    )


def belongs(
    order: OrderUpdated | Intent, report: OrderReport, totals: Collection[int]
) -> str | None:
    """Return what says that a row is not this order's; None when it is.

    It is when account, symbol, side and trading day are equal and its quantity is one of `totals`:
    what was ordered, or what our own amendments explain. Nothing of another row may be taken. Its
    time is evidence, not identity; its id is for the caller to compare.
    """
    if wrong := another_order(order, report):
        return wrong
    if report.trading_date != order.trading_date:
        return f"it is of {report.trading_date}, the order of {order.trading_date}"
    if report.quantity not in totals:
        ours = " or ".join(f"{each:,}" for each in sorted(totals))
        return f"it is an order of {report.quantity:,}, ours is of {ours}"
    return None


def another_order(order: OrderUpdated | Intent, report: OrderReport) -> str | None:
    """Return what no order's own row can ever differ in, where it does."""
    if report.symbol != order.symbol:
        return f"it is about {report.symbol}, the order is in {order.symbol}"
    if report.side is not order.side:
        return f"it is a {report.side}, the order a {order.side}"
    return "it is of another account" if report.account != order.account else None


def contradiction(order: OrderUpdated, report: OrderReport, totals: Collection[int]) -> str | None:
    """Return why a row can't be true of any order, or under this one's id; None when it can.

    The average price is floored, so amount and quantity × average differ by less than the quantity.
    """
    executed, amount = report.executed_quantity, report.executed_amount
    if wrong := another_order(order, report):
        return wrong
    for name, quantity in (
        ("executed", executed),
        ("ordered", report.quantity),
        ("cancelled", report.cancelled_quantity),
    ):
        if quantity < 0:
            return f"it shows a negative {name} quantity, {quantity:,}"
    if executed > min(report.quantity, max(totals)):
        return f"it shows {executed:,} executed of {min(report.quantity, max(totals)):,} ordered"
    if executed and abs(amount - executed * report.average_price) >= executed:
        return f"its amount {amount:,} is not {executed:,} x {report.average_price:,}"
    if executed > order.executed_quantity and amount < order.executed_amount:
        return (
            f"its executed quantity rose from {order.executed_quantity:,} to {executed:,}, and its "
            f"amount fell from {order.executed_amount:,} to {amount:,}"
        )
    return None


def parts_of(quantity: int, rows: Sequence[OrderReport]) -> tuple[OrderReport, ...]:
    """Return the rows that a broker may have made of one order: several of one price whose
    quantities sum to it, the fewest; empty when there are none. `rows` agree with the order in all
    but that.
    """
    for count in range(2, min(len(rows), PARTS_MAX) + 1):
        for parts in combinations(rows[:ROWS_TRIED], count):
            is_one_price = len({part.price for part in parts}) == 1
            if is_one_price and sum(part.quantity for part in parts) == quantity:
                return parts
    return ()


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
