"""The views of the journal: their names and columns. The migrations define them."""

from typing import Final

import sqlalchemy as sa

from bot.journal.tables import Whole, Words


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
