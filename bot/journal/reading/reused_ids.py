"""Tells orders apart to which a broker has given the same id on different days."""

from datetime import date, datetime, time

import sqlalchemy as sa

from bot.domain.instrument import EXCHANGE_TZ
from bot.journal.database import tables
from bot.journal.database.encoding import instant_text
from bot.journal.reading.values import OrderRow


def its_days(
    connection: sa.Connection, order: OrderRow, at: sa.ColumnElement[str]
) -> list[sa.ColumnElement[bool]]:
    """Return the bounds of an order's time against orders of other days with its id."""
    orders, mine = tables.orders, order.trading_date
    same = sa.select(orders.c.trading_date).where(orders.c.order_id == order.order_id).distinct()
    days = [date.fromisoformat(day) for day in connection.execute(same).scalars()]
    start = {day: instant_text(datetime.combine(day, time(), EXCHANGE_TZ)) for day in (mine, *days)}
    later = min((day for day in days if day > mine), default=None)
    bounds = [at >= start[mine]] if min(days, default=mine) < mine else []
    return bounds if later is None else [*bounds, at < start[later]]
