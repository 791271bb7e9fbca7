"""How orders ended that a day before today's has left open, while no bot ran or while one did.

Today's day order book does not list them; the order history does, under each of their ids. What it
says is merged before
their day is closed, so that a fill of the hours in which no bot ran is a fill in the journal too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from bot.broker.client import BrokerClient
from bot.broker.paging import read_pages
from bot.domain.account import SubAccount
from bot.domain.entry import OrderUpdated
from bot.domain.order import TERMINAL_STATES, OrderReport, Side
from bot.protocol.calls import ORDER_HISTORY_CODEC
from bot.protocol.status import state_of
from bot.protocol.strict_json import compact
from bot.protocol.values.account import PastOrder


@dataclass(frozen=True, slots=True)
class KnownOrders:
    """Orders as the bot has them; `later_ids` are those that they had after the first, by that."""

    rows: Iterable[OrderUpdated]
    later_ids: Mapping[str, Sequence[str]]


def left_open(known: KnownOrders, account: SubAccount, today: date) -> dict[str, OrderUpdated]:
    """Return our own orders of an account that are open and of an earlier day, by every id that
    they have had.
    """
    return {
        order_id: row
        for row in known.rows
        if row.intent_id is not None
        and row.account == account.extended_id
        and row.trading_date < today
        and row.state not in TERMINAL_STATES
        for order_id in (row.order_id, *known.later_ids.get(row.order_id, ()))
    }


async def earlier_ends(
    client: BrokerClient, account: SubAccount, left: Mapping[str, OrderUpdated], *, now: datetime
) -> tuple[OrderReport, ...]:
    """Return what the history says of orders that an earlier day left; nothing where none was.

    For one that it does not know, the engine halts the symbol. `now` is market time. Raises
    BrokerError for a history that can't be read.
    """
    if not left:
        return ()
    days = [row.trading_date for row in left.values()]
    query = [("fromDate", min(days).isoformat()), ("toDate", max(days).isoformat())]
    pages = read_pages(client, ORDER_HISTORY_CODEC, {"sub_account_id": account.id}, query)
    past = [each async for page in pages for each in page.value.orders]
    found = (_report_of(left.get(each.order_id), each, now) for each in past)
    return tuple(report for report in found if report is not None)


def _report_of(row: OrderUpdated | None, past: PastOrder, now: datetime) -> OrderReport | None:
    """Return what the history says of an order. All are day orders: none is open any more.

    None when it is another order (ids of another day may come again), or when the history doesn't
    say how much was executed.
    """
    if row is None or past.executed_quantity is None or past.symbol != row.symbol:
        return None
    if past.transaction_date not in {None, row.trading_date}:
        return None
    figures = {
        "order_quantity": past.quantity,
        "execute_quantity": past.executed_quantity,
        "execute_price": past.average_price,
        "execute_amount": past.executed_amount,
    }
    quantity = past.quantity or row.quantity
    return OrderReport(
        order_id=past.order_id,
        root_order_id=row.order_id,
        account=row.account,
        trading_date=row.trading_date,
        symbol=row.symbol,
        side=Side(past.side) if past.side in Side.__members__ else row.side,
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
        raw=compact({"call": "order_history", "status": past.status, **figures}),
    )
