"""Sums over fills, in whole numbers on both databases."""

import sqlalchemy as sa

from bot.domain.order import Side
from bot.journal.tables import Whole, fills


def total(amount: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """The sum, 0 of nothing; PostgreSQL would make a decimal of it."""
    return sa.cast(sa.func.coalesce(sa.func.sum(amount), 0), Whole)


def flow(bought: sa.ColumnElement[int], sold: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """What a fill adds: `bought` of a buy, minus `sold` of a sale.

    Of the cost, a sale takes away what the shares had cost: its amount less the profit realised.
    """
    return sa.case((fills.c.side == Side.BUY, bought), else_=-sold)
