"""Entries as rows: which table, which columns. Pure; `batch` numbers, links and stores them."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from functools import cache
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import (
    AccountSeen,
    AttemptStarted,
    AuthEvent,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    OrderResultSeen,
    StateChanged,
    StrategySwitched,
    Transition,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.journal import tables
from bot.journal.encoding import Plain, link, plain

Row = dict[str, Plain]

PLAIN_TABLES: Final[Mapping[type, sa.Table]] = {
    AttemptStarted: tables.attempts,
    AuthEvent: tables.auth_events,
    Decision: tables.decisions,
    Note: tables.notes,
    OrderResultSeen: tables.order_results,
}
"""Entries whose fields are the columns of their table."""


def row_of(entry: Entry) -> Row:
    """Turn an entry into a row, field by field."""
    return {field.name: plain(getattr(entry, field.name)) for field in fields(entry)}


def intent_row(entry: IntentRecorded) -> Row:
    """Return the row of a new intent."""
    intent = entry.intent
    row = {field.name: plain(getattr(intent, field.name)) for field in fields(intent)}
    row["expire_after_us"] = row.pop("expire_after")
    return {
        **row,
        "at": plain(entry.at),
        "fingerprint": intent.fingerprint,
        "state": entry.state,
        "state_at": plain(entry.at),
        "state_reason": entry.reason,
        "proof": None,
        "order_id": None,
    }


def move_row(entry: IntentMoved) -> Row:
    """Return the transition that an intent's move is remembered as."""
    return {
        "at": plain(entry.at),
        "machine": "send",
        "intent_id": entry.intent_id,
        "order_id": None,
        "from_state": entry.from_state,
        "to_state": entry.to_state,
        "broker_status": None,
        "source": "send",
        "executed_quantity": 0,
        "note": plain(entry.reason),
        "proof": plain(entry.proof),
    }


def transition_row(entry: Transition) -> Row:
    """Return the transition of an order."""
    return {**row_of(entry), "machine": "order", "proof": None}


def fill_row(entry: Fill, trading_date: str | None) -> Row:
    """Return a fill's row; an unknown order's trading date is the local date of the fill."""
    local: date = entry.at.astimezone(EXCHANGE_TZ).date()
    return {**row_of(entry), "trading_date": trading_date or local.isoformat()}


def state_row(entry: StateChanged) -> Row:
    """Return the row of a change of the bot's state."""
    row = row_of(entry)
    row["by_whom"] = row.pop("by")
    return row


def switch_row(entry: StrategySwitched) -> Row:
    """Return the row of a strategy paused, resumed or disabled; its scope is `strategy:<name>`."""
    return {
        "at": plain(entry.at),
        "scope": f"strategy:{entry.strategy}",
        "from_state": None,
        "to_state": entry.state,
        "reason": plain(entry.reason),
        "by_whom": plain(entry.by),
    }


def snapshot_row(entry: AccountSeen) -> Row:
    """Return the row of an account as the broker showed it."""
    row = {f.name: plain(getattr(entry.snapshot, f.name)) for f in fields(entry.snapshot)}
    return {**row, "taken_at": row["at"], "at": plain(entry.at)}


def sealed_content(table: sa.Table, row: Mapping[str, Plain]) -> Row:
    """The part of a row that its `hash` covers."""
    return {name: row[name] for name in _sealed_names(table)}


@cache
def _sealed_names(table: sa.Table) -> frozenset[str]:
    return column_names(table) - tables.LINKS - tables.MUTABLE.get(table.name, frozenset())


def seal_of(table: sa.Table, row: Mapping[str, Plain]) -> str:
    """Hash of the part that may change, tied to the row's `hash` (of an order: the whole row)."""
    names = tables.MUTABLE.get(table.name) or column_names(table) - tables.LINKS
    before = row["hash"] if "hash" in table.c else tables.GENESIS
    return link(str(before), {name: row[name] for name in names})


@cache
def column_names(table: sa.Table) -> frozenset[str]:
    """The names of a table's columns."""
    return frozenset(column.name for column in table.columns)
