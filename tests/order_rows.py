"""Rows and answers of a broker that has just accepted an order."""

from datetime import datetime

from bot.domain.order import Intent, OrderReport, OrderResult, OrderState


def report_of(intent: Intent, order_id: str, at: datetime) -> OrderReport:
    """Return the row of a day order book that shows an order just accepted."""
    return OrderReport(
        order_id=order_id,
        root_order_id=order_id,
        account=intent.account,
        trading_date=intent.trading_date,
        symbol=intent.symbol,
        side=intent.side,
        quantity=intent.quantity,
        order_type=intent.order_type,
        price=intent.limit_price,
        executed_quantity=0,
        average_price=0,
        executed_amount=0,
        remaining_quantity=intent.quantity,
        cancelled_quantity=0,
        status="SENT",
        state=OrderState.ACCEPTED,
        may_cancel=True,
        may_amend=True,
        placed_at=at,
        message="",
        requested_at=at,
        raw="{}",
    )


def result_of(report: OrderReport) -> OrderResult:
    """Return the one element of a place or cancel answer, as a row shows the order."""
    return OrderResult(
        order_id=report.order_id,
        account=report.account,
        transaction_date=report.trading_date,
        symbol=report.symbol,
        side=report.side,
        quantity=report.quantity,
        limit_price=report.price,
        market_price=None,
        executed_quantity=report.executed_quantity,
        average_price=report.average_price,
        executed_amount=report.executed_amount,
        status=report.status,
        state=report.state or OrderState.ACCEPTED,
        order_type=report.order_type,
        fee=0,
        tax=0,
        code=None,
        reason=None,
        lot=None,
        raw=report.raw,
    )
