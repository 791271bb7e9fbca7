"""The views of the journal (the migrations define them), and sums over fills.

The sums are whole numbers on both databases.
"""

from typing import Final

import sqlalchemy as sa

from bot.domain.order import Side
from bot.journal.tables import Whole, Words, fills


def _view(name: str, text: str, whole: str) -> sa.TableClause:
    words = [sa.column(column, Words) for column in text.split()]
    numbers = [sa.column(column, Whole) for column in whole.split()]
    return sa.table(name, *words, *numbers)


v_orders: Final = _view(
    "v_orders",
    "time at trading_date id local_id order_id strategy account side symbol exchange order_type "
    "status state send_state code reason why note",
    "seq quantity price executed_quantity executed_amount average_price cancelled_quantity fee tax "
    "is_open",
)
v_timeline: Final = _view(
    "v_timeline",
    "time at kind local_id order_id strategy symbol text detail word",
    "seq part",
)
v_decisions: Final = _view(
    "v_decisions",
    "time at strategy symbol verdict code why local_id order_id side order_type numbers saw checks",
    "seq quantity price",
)
v_pnl: Final = _view(
    "v_pnl",
    "trading_date strategy symbol",
    "fills bought bought_amount sold sold_amount realised fee tax net",
)


def total(amount: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """The sum, 0 of nothing; PostgreSQL would make a decimal of it."""
    return sa.cast(sa.func.coalesce(sa.func.sum(amount), 0), Whole)


def _held(bought: sa.ColumnElement[int], sold: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return total(sa.case((fills.c.side == Side.BUY, bought), else_=-sold))


SHARES: Final = _held(fills.c.quantity, fills.c.quantity)
"""What fills add up to in shares."""
COST: Final = _held(fills.c.amount, fills.c.amount - fills.c.realised)
"""What those shares cost: a sale takes away its amount less the profit realised."""
