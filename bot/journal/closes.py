"""The close of a trading day: what each strategy holds of each symbol, and what the day brought."""

from datetime import date, datetime
from typing import Final

import sqlalchemy as sa

from bot.journal.batch import Batch
from bot.journal.encoding import instant_text
from bot.journal.positions import flow, total
from bot.journal.tables import daily_closes, fills

NOBODY: Final = ""
"""The strategy of a fill of an order that is not ours."""


def write_closes(connection: sa.Connection, trading_date: date, at: datetime) -> int:
    """Add a row for each strategy and symbol traded by then, unless the day is closed already."""
    day = trading_date.isoformat()
    done = sa.select(daily_closes.c.seq).where(daily_closes.c.trading_date == day)
    if connection.execute(done).first():
        return 0
    batch = Batch(connection, ())
    found = connection.execute(_closes(day)).mappings().all()
    for row in found:
        batch.append(daily_closes, {**row, "at": instant_text(at), "trading_date": day})
    batch.store()
    return len(found)


def _closes(day: str) -> sa.Select[tuple[str, str, int, int, int, int, int]]:
    today = fills.c.trading_date == day
    owner = sa.func.coalesce(fills.c.strategy, NOBODY)
    return (
        sa.select(
            owner.label("strategy"),
            fills.c.symbol,
            total(flow(fills.c.quantity, fills.c.quantity)).label("quantity"),
            total(flow(fills.c.amount, fills.c.amount - fills.c.realised)).label("cost"),
            total(sa.case((today, fills.c.realised), else_=0)).label("realised"),
            total(sa.case((today, fills.c.fee), else_=0)).label("fee"),
            total(sa.case((today, fills.c.tax), else_=0)).label("tax"),
        )
        .where(fills.c.trading_date <= day)
        .group_by(owner, fills.c.symbol)
        .order_by(owner, fills.c.symbol)
    )
