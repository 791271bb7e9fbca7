"""Turns entries into rows: which table, which columns. Pure; `batch` numbers, links and stores
them.
"""

from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.entry import (
    AccountSeen,
    AttemptFinished,
    AttemptStarted,
    AuthEvent,
    Decision,
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
from bot.journal.database import tables
from bot.journal.database.encoding import Plain, canonical, fields_of, link, link_text, plain

Row = dict[str, Plain]


def row_of(value: Any) -> Row:
    """Turn an entry, or another dataclass, into a row, field by field."""
    kind: type = type(value)
    names, read = fields_of(kind)
    return dict(zip(names, map(plain, read(value)), strict=True))


def _intent_row(entry: IntentRecorded) -> Row:
    row = row_of(entry.intent)
    row["expire_after_us"] = row.pop("expire_after")
    return {
        **row,
        "at": plain(entry.at),
        "fingerprint": entry.intent.fingerprint,
        "state": plain(entry.state),
        "state_at": plain(entry.at),
        "state_reason": entry.reason,
    }


def _halt_row(entry: StateChanged | StrategySwitched) -> Row:
    """A change of state of the bot, or of a strategy; the latter has scope `strategy:<name>`."""
    if isinstance(entry, StateChanged):
        scope, before, after = entry.scope, entry.from_state, str(entry.to_state)
    else:
        scope, before, after = f"strategy:{entry.strategy}", None, entry.state
    return {
        "at": plain(entry.at),
        "scope": plain(scope),
        "from_state": plain(before),
        "to_state": plain(after),
        "reason": plain(entry.reason),
        "by_whom": plain(entry.by),
    }


def _account_row(entry: AccountSeen) -> Row:
    """`secured` only tells whether a read is old, and no later run needs it."""
    row = row_of(entry.snapshot)
    del row["secured"]
    return {**row, "taken_at": plain(entry.snapshot.at), "at": plain(entry.at)}


APPENDED: Final[Mapping[type, tuple[sa.Table, Callable[[Any], Row]]]] = {
    AccountSeen: (tables.account_snapshots, _account_row),
    AttemptStarted: (tables.attempts, row_of),
    AuthEvent: (tables.auth_events, row_of),
    Decision: (tables.decisions, row_of),
    IntentRecorded: (tables.intents, _intent_row),
    Note: (tables.notes, row_of),
    OrderResultSeen: (tables.order_results, row_of),
    StateChanged: (tables.halts, _halt_row),
    StrategySwitched: (tables.halts, _halt_row),
    Transition: (tables.transitions, lambda e: {**row_of(e), "machine": "order", "proof": None}),
}
"""Entries that become a new row of one table, and the functions for that."""


def finished_row(entry: AttemptFinished) -> Row:
    """Return the columns that an attempt's end fills in."""
    row = row_of(entry)
    names = ("outcome", "http_status", "code", "reason", "raw", "latency_ms")
    return {"finished_at": row["at"], **{name: row[name] for name in names}}


def move_row(entry: IntentMoved) -> Row:
    """Return the transition that records an intent's move."""
    return {
        "at": plain(entry.at),
        "machine": "send",
        "intent_id": plain(entry.intent_id),
        "order_id": None,
        "from_state": plain(entry.from_state),
        "to_state": plain(entry.to_state),
        "broker_status": None,
        "source": "send",
        "executed_quantity": 0,
        "note": plain(entry.reason),
        "proof": plain(entry.proof),
    }


def fill_row(entry: Fill, trading_date: str | None) -> Row:
    """Return a fill's row; for an unknown order the trading date is the local date of the fill."""
    local: date = entry.at.astimezone(EXCHANGE_TZ).date()
    return {**row_of(entry), "trading_date": trading_date or local.isoformat()}


def sealed_content(table: sa.Table, row: Mapping[str, Plain]) -> Row:
    """The part of a row that its `hash` covers."""
    return {name: row[name] for name in _names_of(table)[0]}


def seal_of(table: sa.Table, row: Mapping[str, Plain]) -> str:
    """Hash of the mutable part, tied to the row's `hash` (for an order: the whole row)."""
    return link(_tied_to(row), {name: row[name] for name in _names_of(table)[1]})


# Readers hash rows plainly, as above; the writer uses a compiled form for each table, below. A test
# holds them equal.


def written_hash_of(table: sa.Table, row: Mapping[str, Plain]) -> str:
    """Return the hash of a row's sealed part together with the previous hash."""
    return link_text(str(row["prev_hash"]), _writers_of(table)[0](row))


def written_seal_of(table: sa.Table, row: Mapping[str, Plain]) -> str:
    """The same as `seal_of`."""
    return link_text(_tied_to(row), _writers_of(table)[1](row))


@cache
def blank(table: sa.Table) -> Mapping[str, Plain]:
    """Return a row with every column empty."""
    return dict.fromkeys(table.c.keys())


def _tied_to(row: Mapping[str, Plain]) -> str:
    return str(row["hash"]) if "hash" in row else tables.GENESIS


@cache
def _names_of(table: sa.Table) -> tuple[frozenset[str], frozenset[str]]:
    """Return the columns covered by a row's hash, and those covered by its seal."""
    mutable = tables.MUTABLE.get(table.name, frozenset())
    names = frozenset(table.c.keys()) - tables.LINKS
    return names - mutable, mutable or names


@cache
def _writers_of(
    table: sa.Table,
) -> tuple[Callable[[Mapping[str, Plain]], str], Callable[[Mapping[str, Plain]], str]]:
    """Return the two functions that write these for hashing."""
    sealed, changing = _names_of(table)
    return canonical(sealed), canonical(changing)
