"""Reads what a start has to know about amendments: which have no verdict, and what they changed."""

import json
from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import AttemptStarted
from bot.domain.order import TERMINAL_STATES, OrderState
from bot.domain.recovery import StoredAmend
from bot.journal.database import tables
from bot.journal.database.encoding import made

_ORDERS: Final = tables.orders
_ATTEMPTS: Final = tables.attempts
_DECISIONS: Final = tables.decisions
_RESULTS: Final = tables.order_results


def unsettled_amends(connection: sa.Connection, day: str) -> Iterator[StoredAmend]:
    """Yield each amendment of today without a verdict, with what was requested."""
    is_open = (_ORDERS.c.trading_date == day) & (_ORDERS.c.state == OrderState.PENDING_REPLACE)
    puts = (
        sa.select(_ATTEMPTS, _ORDERS.c.order_id.label("first_id"))
        .join(_ORDERS, _ORDERS.c.intent_id == _ATTEMPTS.c.intent_id)
        .where(is_open, _ATTEMPTS.c.verb == "PUT")
        .order_by(_ATTEMPTS.c.seq)
    )
    newest = {row["first_id"]: row for row in connection.execute(puts).mappings()}
    for order_id, put in newest.items():
        asked = (
            sa.select(_DECISIONS.c.numbers, _DECISIONS.c.why)
            .where(_DECISIONS.c.request_id == put["intent_id"], _DECISIONS.c.code == "AMEND")
            .where(_DECISIONS.c.seq < put["seq"])
            .order_by(_DECISIONS.c.seq.desc())
            .limit(1)
        )
        decision = connection.execute(asked).mappings().first()
        if decision is not None:
            numbers = json.loads(decision["numbers"])
            yield StoredAmend(
                order_id=order_id,
                attempt=made(AttemptStarted, put),
                outcome=put["outcome"],
                limit_price=numbers.get("price"),
                quantity=numbers.get("quantity"),
                old=numbers.get("old"),
                by=str(numbers.get("by", "")),
                reason=decision["why"],
            )


def later_ids(connection: sa.Connection, day: str) -> dict[str, tuple[str, ...]]:
    """Return the later ids of today's orders and of those that an earlier day left open, oldest
    first.
    """
    is_meant = (_ORDERS.c.trading_date == day) | _ORDERS.c.state.not_in(TERMINAL_STATES)
    first = connection.execute(sa.select(sa.func.min(_ORDERS.c.seq)).where(is_meant)).scalar()
    if first is None:
        return {}
    shown = (
        sa.select(_ORDERS.c.order_id, _RESULTS.c.order_id.label("later"))
        .join(_RESULTS, _RESULTS.c.intent_id == _ORDERS.c.intent_id)
        .where(is_meant, _RESULTS.c.seq > first, _RESULTS.c.order_id != _ORDERS.c.order_id)
        .group_by(_ORDERS.c.order_id, _RESULTS.c.order_id)
        .order_by(sa.func.min(_RESULTS.c.seq))
    )
    found: dict[str, tuple[str, ...]] = {}
    for order_id, later in connection.execute(shown):
        found[order_id] = (*found.get(order_id, ()), later)
    return found
