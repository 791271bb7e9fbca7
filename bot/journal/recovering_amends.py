"""Reads back what amendments have left open: those without a verdict, and the ids that they gave.

An order is PENDING_REPLACE from the move that precedes its PUT to the amendment's verdict; so its
newest PUT is the one whose effect is not known yet, answered or not.
"""

import json
from collections.abc import Iterator

import sqlalchemy as sa

from bot.domain.entry import AttemptStarted
from bot.domain.order import TERMINAL_STATES, OrderState
from bot.domain.recovery import StoredAmend
from bot.journal import tables
from bot.journal.encoding import made

_ORDERS, _ATTEMPTS, _DECISIONS = tables.orders, tables.attempts, tables.decisions
_RESULTS = tables.order_results


def unsettled_amends(connection: sa.Connection, day: str) -> Iterator[StoredAmend]:
    """Each amendment of today that has no verdict, with what was asked."""
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
    """The ids that orders of today, and those that an earlier day left open, were shown under after
    their first one, the oldest first.
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
