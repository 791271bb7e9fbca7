"""Reads back what the notes of earlier runs tell a start: closes, a halt that sells, our faults."""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import CLOSE_NOTE, FAULT_NOTE, FLATTEN_NOTE, Note, RunState
from bot.domain.errors import Fault
from bot.domain.quote import LastClose
from bot.domain.recovery import StoredFault, StoredFlatten
from bot.journal import tables
from bot.journal.encoding import instant_text, made
from bot.journal.sends import WHOLE_BOT

NOTES_SEARCHED: Final = 50_000
"""Notes of some weeks: a close of before is looked up in the broker's history."""
FAULTS_MAX: Final = 20
"""So many faults of ours, the newest, are remembered over a restart."""


def closes(connection: sa.Connection, day: str) -> tuple[LastClose, ...]:
    """The newest note `CLOSE` of each symbol of before a day, among the newest notes."""
    found: dict[str, LastClose] = {}
    for note in _notes(connection, tables.notes.c.kind == CLOSE_NOTE):
        symbol, shown = note.symbol or "", str(note.numbers.get("day") or day)
        if shown < day:  # an earlier program noted the pieces of an exit under this kind too
            found[symbol] = LastClose(
                symbol, int(note.numbers["close"] or 0), date.fromisoformat(shown)
            )
    return tuple(found.values())


def newest_note(connection: sa.Connection, kind: str) -> Note | None:
    """The newest note of a kind."""
    notes = tables.notes
    newest = sa.select(notes).where(notes.c.kind == kind).order_by(notes.c.seq.desc())
    row = connection.execute(newest.limit(1)).mappings().first()
    return made(Note, row) if row is not None else None


def flatten(connection: sa.Connection) -> StoredFlatten | None:
    """The halt that sells, where its newest note does not say that it is over."""
    newest = newest_note(connection, FLATTEN_NOTE)
    if newest is None or newest.numbers.get("is_over") is not False:
        return None
    numbers = newest.numbers
    since = str(numbers.get("since") or instant_text(newest.at))  # an earlier program had none
    left_out = (each.partition(" ") for each in str(numbers.get("left_out") or "").split(";"))
    return StoredFlatten(
        str(numbers["reason"] or ""),
        str(numbers["by"]),
        datetime.fromisoformat(since),
        frozenset((name, symbol) for symbol, _, name in left_out if name),
    )


def faults(connection: sa.Connection) -> Iterator[StoredFault]:
    """The first of each kind of our own faults since a person last ended a halt."""
    notes, halts = tables.notes, tables.halts
    ended = (
        sa.select(sa.func.max(halts.c.at))
        .where(halts.c.scope.in_(WHOLE_BOT), halts.c.from_state == RunState.HALTED)
        .where(halts.c.to_state.not_in((RunState.HALTED, RunState.STOPPING)))
    )
    since = connection.execute(ended).scalar() or ""
    found: dict[str, StoredFault] = {}
    for note in _notes(connection, (notes.c.kind == FAULT_NOTE) & (notes.c.at >= since)):
        names = "kind", "error", "trace", "report", "invariant"
        fault = Fault(*(str(note.numbers.get(name) or "") for name in names))
        where = str(note.numbers.get("where") or "")
        found.setdefault(fault.kind, StoredFault(note.at, where, fault))
    yield from list(found.values())[-FAULTS_MAX:]


def _notes(connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> Iterator[Note]:
    """Yield those of the newest notes that are wanted, the oldest first."""
    notes = tables.notes
    newest = connection.execute(sa.select(sa.func.max(notes.c.seq))).scalar() or 0
    is_new = notes.c.seq > newest - NOTES_SEARCHED
    found = sa.select(notes).where(wanted, is_new).order_by(notes.c.seq)
    for row in connection.execute(found).mappings():
        yield made(Note, row)
