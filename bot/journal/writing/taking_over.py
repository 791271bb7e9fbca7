"""Stores what an emergency journal kept and the journal lacks: each entry once, whichever of the
two has it, and whoever has gone on meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.entry import (
    FLATTEN_NOTE,
    AttemptFinished,
    AttemptStarted,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    Note,
    OrderResultSeen,
    OrderUpdated,
    StateChanged,
    StrategySwitched,
    Transition,
)
from bot.journal.database import tables
from bot.journal.database.encoding import Plain, instant_of, instant_text, plain
from bot.journal.database.statements import given
from bot.journal.writing import rows
from bot.journal.writing.batch import Batch
from bot.journal.writing.sends import begins_again

CLOCKS_APART: Final = timedelta(seconds=20)
"""How far the clocks of two bots that take turns with a journal may be apart."""


def take_over(batch: Batch, entries: Sequence[Entry]) -> int:
    """Store the entries that the journal lacks, in order; return how many there were.

    Lines were written before or alongside the journal, so both may have an entry. Consequences of
    an attempt or intent that never reached the journal are skipped, and so is a move of an intent
    that has since moved elsewhere: their orders are found in the day order book. So is what is of
    another intent under the same number. Another bot may have gone on in between, so nothing lets a
    scope trade that was stopped later.
    """
    count = 0
    ours = _without_others(batch, entries)
    for entry in ours:
        asked, values = _question(entry)
        stored = batch.connection.rows(asked, values)
        is_lost = isinstance(entry, AttemptFinished) and not stored
        if is_lost or (stored and stored[0][0] is not None) or not _has_its_intent(batch, entry):
            continue
        if asked is _CHANGED and begins_again(batch.connection.rows, values):
            continue
        if isinstance(entry, OrderUpdated | Fill) and not _is_reached(batch, entry, ours):
            continue
        batch.store([_numbered(batch, entry) if isinstance(entry, Fill) else entry])
        count += 1
    return count


def _without_others(batch: Batch, entries: Sequence[Entry]) -> list[Entry]:
    """Leave out what is of another intent: a journal that was lost gives its last numbers again,
    and what is told of an intent is neither older than that nor of other shares.
    """
    intents = {each: batch.find_intent(each) for each in map(_intent_of, entries) if each}
    young, others = list[Entry](), set[str]()
    for entry in entries:
        intent_id = _intent_of(entry)
        intent = intents[intent_id] if intent_id else None
        if intent_id is None or intent is None:
            young.append(entry)
        elif entry.at >= instant_of(str(intent["at"])) - CLOCKS_APART:
            young.append(entry)
            if isinstance(entry, OrderUpdated | Fill):
                looks = entry.account, entry.symbol, str(entry.side)
                if looks != (intent["account"], intent["symbol"], intent["side"]):
                    others.add(intent_id)
    return [entry for entry in young if _intent_of(entry) not in others]


def _intent_of(entry: Entry) -> str | None:
    return entry.request_id if isinstance(entry, Decision) else getattr(entry, "intent_id", None)


def _numbered(batch: Batch, fill: Fill) -> Fill:
    """Return a fill under a number of its own: another bot may have given its to another."""
    if not batch.connection.rows(_NUMBERED, {"fill": fill.fill_id}):
        return fill
    [[last]] = batch.connection.rows(_LAST_NUMBER, {})
    return replace(fill, fill_id=f"F-{int(str(last).removeprefix('F-')) + 1:04}")


def _is_reached(batch: Batch, entry: OrderUpdated | Fill, entries: Sequence[Entry]) -> bool:
    """Return whether the fills stored and kept add up to what an order of ours has executed then:
    else a row would hide the rest for good, which the broker's next one shows.
    """
    if entry.intent_id is None:
        return True
    [[executed]] = batch.connection.rows(_EXECUTED, {"its_intent": entry.intent_id})
    counted = int(executed or 0)
    for fill in entries:
        if isinstance(fill, Fill) and fill.intent_id == entry.intent_id:
            begins = fill.order_executed - fill.quantity
            counted = fill.order_executed if begins == counted else counted
    wanted = entry.order_executed if isinstance(entry, Fill) else entry.executed_quantity
    return wanted <= counted


def _has_its_intent(batch: Batch, entry: Entry) -> bool:
    """Return whether the entry's intent is stored, and is in the state from which the
    move begins.
    """
    intent_id = getattr(entry, "intent_id", None)
    if intent_id is None:
        return True
    intent = batch.find_intent(intent_id)
    if intent is None or not isinstance(entry, IntentMoved):
        return intent is not None
    return intent["state"] in {entry.from_state, entry.to_state}


_ATTEMPTS: Final = tables.attempts
_DECISIONS: Final = tables.decisions
_HALTS: Final = tables.halts
_NOTES: Final = tables.notes
_ORDERS: Final = tables.orders
_FILLS: Final = tables.fills
_RESULTS: Final = tables.order_results
_TRANSITIONS: Final = tables.transitions
_ITS_ATTEMPT: Final = _ATTEMPTS.c.attempt_id == given("attempt")
_STARTED: Final = sa.select(_ATTEMPTS.c.seq).where(_ITS_ATTEMPT)
_FINISHED: Final = sa.select(_ATTEMPTS.c.outcome).where(_ITS_ATTEMPT)
_CHANGED: Final = sa.select(_HALTS.c.seq).where(
    _HALTS.c.at == given("at"),
    _HALTS.c.scope == given("its_scope"),
    _HALTS.c.to_state == given("its_state"),
)
_NOTED: Final = sa.select(_NOTES.c.seq).where(
    _NOTES.c.kind == given("its_kind"),
    sa.or_(
        sa.and_(_NOTES.c.at == given("at"), _NOTES.c.numbers == given("its_numbers")),
        # Another bot may have gone on with the flatten, or ended it.
        sa.and_(_NOTES.c.at > given("same_at"), _NOTES.c.kind == FLATTEN_NOTE),
    ),
)
_DECIDED: Final = sa.select(_DECISIONS.c.seq).where(
    _DECISIONS.c.at == given("at"),
    _DECISIONS.c.code == given("its_code"),
    _DECISIONS.c.request_id.is_not_distinct_from(given("its_request")),
)
# Another bot may have counted the same shares in other portions, and under other numbers.
_FILLED: Final = sa.select(_FILLS.c.seq).where(
    _FILLS.c.intent_id == given("its_intent"), _FILLS.c.order_executed > given("executed_before")
)
_EXECUTED: Final = sa.select(sa.func.max(_FILLS.c.order_executed)).where(
    _FILLS.c.intent_id == given("its_intent")
)
_NUMBERED: Final = sa.select(_FILLS.c.seq).where(_FILLS.c.fill_id == given("fill"))
_LAST_NUMBER: Final = (
    sa.select(_FILLS.c.fill_id)
    .order_by(sa.func.length(_FILLS.c.fill_id).desc(), _FILLS.c.fill_id.desc())
    .limit(1)
)
_SEEN: Final = sa.select(_RESULTS.c.seq).where(
    _RESULTS.c.at == given("at"),
    _RESULTS.c.order_id == given("its_order"),
    _RESULTS.c.source == given("its_source"),
)
_UPDATED: Final = sa.select(_ORDERS.c.seq).where(
    _ORDERS.c.order_id == given("its_order"),
    _ORDERS.c.account == given("its_account"),
    _ORDERS.c.trading_date == given("its_day"),
    sa.or_(
        # By the time alone a clock that ran ahead would hide a fill, or bring back what was before.
        _ORDERS.c.executed_quantity > given("executed_less"),
        sa.and_(
            _ORDERS.c.executed_quantity == given("its_executed"),
            sa.or_(
                _ORDERS.c.at > given("at"),
                sa.and_(_ORDERS.c.at == given("same_at"), _ORDERS.c.state == given("its_state")),
            ),
        ),
    ),
)
_MOVED: Final = sa.select(_TRANSITIONS.c.seq).where(
    _TRANSITIONS.c.at == given("at"),
    _TRANSITIONS.c.machine == given("its_machine"),
    _TRANSITIONS.c.to_state == given("its_state"),
    _TRANSITIONS.c.executed_quantity == given("its_executed"),
    _TRANSITIONS.c.intent_id.is_not_distinct_from(given("its_intent")),
    _TRANSITIONS.c.order_id.is_not_distinct_from(given("its_order")),
)


def _question(entry: Entry) -> tuple[sa.Select[Any], Mapping[str, Plain]]:
    """Return the query for whether an entry is stored: a non-null row means yes."""
    match entry:
        case AttemptStarted():
            return _STARTED, {"attempt": entry.attempt_id}
        case AttemptFinished():
            return _FINISHED, {"attempt": entry.attempt_id}
        case Decision():
            decided = {"its_code": entry.code, "its_request": entry.request_id}
            return _DECIDED, {"at": instant_text(entry.at), **decided}
        case Fill():
            before = plain(entry.order_executed - entry.quantity)
            return _FILLED, {"its_intent": entry.intent_id, "executed_before": before}
        case OrderResultSeen():
            seen = {"its_order": entry.order_id, "its_source": entry.source}
            return _SEEN, {"at": instant_text(entry.at), **seen}
        case OrderUpdated():
            executed = plain(entry.executed_quantity)
            return _UPDATED, {
                "its_order": entry.order_id,
                "its_account": entry.account,
                "its_day": plain(entry.trading_date),
                "at": instant_text(entry.at),
                "same_at": instant_text(entry.at),
                "its_state": str(entry.state),
                "its_executed": executed,
                "executed_less": executed,
            }
        case IntentMoved() | Transition():
            row = rows.move_row(entry) if isinstance(entry, IntentMoved) else rows.row_of(entry)
            return _MOVED, {
                "at": row["at"],
                "its_machine": "send" if isinstance(entry, IntentMoved) else "order",
                "its_state": row["to_state"],
                "its_executed": row["executed_quantity"],
                "its_intent": row["intent_id"],
                "its_order": row["order_id"],
            }
        case Note():
            at, numbers = instant_text(entry.at), plain(entry.numbers)
            return _NOTED, {
                "its_kind": entry.kind,
                "at": at,
                "its_numbers": numbers,
                "same_at": at,
            }
        case StateChanged():
            scope, state = entry.scope, str(entry.to_state)
        case StrategySwitched():
            scope, state = f"strategy:{entry.strategy}", entry.state
        case _:
            raise AssertionError(f"{type(entry).__name__} is never kept")
    return _CHANGED, {"at": instant_text(entry.at), "its_scope": scope, "its_state": state}
