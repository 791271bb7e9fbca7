"""How orders ended that were open when the bot went down on a day before today's.

Today's day order book knows nothing of them; the order history does. What it tells is merged before
their day is closed, so that a fill of the hours in which no bot ran is a fill in the journal too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError
from bot.broker.paging import read_pages
from bot.domain.account import SubAccount
from bot.domain.entry import OrderUpdated
from bot.domain.order import TERMINAL_STATES, OrderReport
from bot.domain.recovery import Recovery
from bot.protocol.calls import ORDER_HISTORY_CODEC
from bot.protocol.status import state_of
from bot.protocol.strict_json import compact
from bot.protocol.values.account import PastOrder


async def with_earlier_ends(
    client: BrokerClient, account: SubAccount, recovery: Recovery, *, now: datetime
) -> Recovery:
    """Return what the journal knows with the history's rows of orders that an earlier day left.

    A history that cannot be read, or does not know an order, changes nothing: the engine then halts
    the symbol. `now` is market time.
    """
    left = {row.order_id: row for row in _left_open(recovery) if row.account == account.extended_id}
    if not left:
        return recovery
    try:
        past = await _history(client, account, left)
    except BrokerError:
        return recovery
    found = [_report_of(left[each.order_id], each, now) for each in past]
    return replace(recovery, earlier=tuple(found))


def _left_open(recovery: Recovery) -> Iterable[OrderUpdated]:
    return (
        row
        for row in recovery.orders
        if row.intent_id is not None
        and row.trading_date < recovery.trading_date
        and row.state not in TERMINAL_STATES
    )


async def _history(
    client: BrokerClient, account: SubAccount, left: Mapping[str, OrderUpdated]
) -> list[PastOrder]:
    days = [row.trading_date for row in left.values()]
    query = [("fromDate", min(days).isoformat()), ("toDate", max(days).isoformat())]
    pages = read_pages(client, ORDER_HISTORY_CODEC, {"sub_account_id": account.id}, query)
    return [each async for page in pages for each in page.value.orders if _is_same(left, each)]


def _is_same(left: Mapping[str, OrderUpdated], past: PastOrder) -> bool:
    """Tell whether a row is of the very order, and says what was executed of it: ids of another
    day may come again.
    """
    row = left.get(past.order_id)
    return (
        row is not None
        and past.executed_quantity is not None
        and past.symbol == row.symbol
        and past.transaction_date in {None, row.trading_date}
    )


def _report_of(row: OrderUpdated, past: PastOrder, now: datetime) -> OrderReport:
    """Return the row as a report. All orders are day orders: nothing of it is open any more."""
    assert past.executed_quantity is not None, "rows that do not say it are left out"
    quantity = past.quantity or row.quantity
    return OrderReport(
        order_id=row.order_id,
        root_order_id=row.order_id,
        account=row.account,
        trading_date=row.trading_date,
        symbol=row.symbol,
        side=row.side,
        quantity=quantity,
        order_type=row.order_type,
        price=past.limit_price or row.price,
        executed_quantity=past.executed_quantity,
        average_price=past.average_price,
        executed_amount=past.executed_amount,
        remaining_quantity=0,
        cancelled_quantity=max(0, quantity - past.executed_quantity),
        status=past.status,
        state=state_of(past.status),
        may_cancel=False,
        may_amend=False,
        placed_at=None,
        message="",
        requested_at=now,
        raw=compact({"call": "order_history", "status": past.status, **_figures(past)}),
    )


def _figures(past: PastOrder) -> dict[str, int | None]:
    return {
        "order_quantity": past.quantity,
        "execute_quantity": past.executed_quantity,
        "execute_price": past.average_price,
        "execute_amount": past.executed_amount,
    }
