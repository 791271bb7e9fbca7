"""Reads what a start has to know about earlier runs: closes, halts, breaks, faults in the bot."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.account import AccountSnapshot, Break, Moved, moved_in
from bot.domain.entry import (
    ACCOUNT_SCOPE,
    BOOK_ACCEPTED,
    CLOSE_NOTE,
    ENTRIES_SCOPE,
    EXPLAINED,
    FAULT_NOTE,
    FENCE_SCOPE,
    FLATTEN_NOTE,
    RECONCILE_NOTE,
    REDUCED_SCOPE,
    RESUME_NOTE,
    Note,
    RunState,
)
from bot.domain.errors import Fault
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.quote import LastClose
from bot.domain.recovery import StoredFault, StoredFlatten
from bot.journal.database import tables
from bot.journal.database.encoding import instant_of, instant_text, made, snapshot_of
from bot.journal.reading.values import PRUNING
from bot.journal.writing.sends import WHOLE_BOT

ENTRIES_SEARCHED: Final = 50_000
"""How far a start looks back, in entries of every kind, for a note that it can do without: earlier
closes are looked up in the broker's history, and buys wait for a person once more.
"""
DAMAGE: Final = "JOURNAL"
"""The name of the break that the journal's own damage is."""
FAULTS_MAX: Final = 20
"""How many of the newest faults are remembered over a restart."""
CRASH_LOOP: Final = timedelta(minutes=10)
CRASHES_LOOKED_AT: Final = 20
HALTED: Final = RunState.HALTED
_A_BOT: Final = tables.runs.c.end_reason.is_distinct_from(PRUNING)
"""Whether a run was a bot's: pruning on the way to a start says nothing about the bot before."""


def closes(connection: sa.Connection, day: str) -> tuple[LastClose, ...]:
    """Return the newest `CLOSE` note of each symbol from before a day, among the newest notes."""
    found: dict[str, LastClose] = {}
    for note in _newest_notes(connection, CLOSE_NOTE):
        symbol, shown = note.symbol or "", str(note.numbers.get("day") or day)
        if shown < day:  # an earlier program also used this kind for the pieces of an exit
            found[symbol] = LastClose(
                symbol, int(note.numbers["close"] or 0), date.fromisoformat(shown)
            )
    return tuple(found.values())


def book_accepted_on(connection: sa.Connection) -> date:
    """Return the last day on which a person let buys out although the day order book was an earlier
    one's; `date.min` if that never was.
    """
    resumed = _newest_notes(connection, RESUME_NOTE)
    days = (note.numbers.get(BOOK_ACCEPTED) for note in resumed)
    return max((date.fromisoformat(str(day)) for day in days if day), default=date.min)


def newest_note(connection: sa.Connection, kind: str) -> Note | None:
    notes = tables.notes
    newest = sa.select(notes).where(notes.c.kind == kind).order_by(notes.c.seq.desc())
    row = connection.execute(newest.limit(1)).mappings().first()
    return made(Note, row) if row is not None else None


def flatten(connection: sa.Connection) -> StoredFlatten | None:
    """Return the halt that sells, unless its newest note says that it is over."""
    newest = newest_note(connection, FLATTEN_NOTE)
    if newest is None or newest.numbers.get("is_over") is not False:
        return None
    numbers = newest.numbers
    # an earlier program did not store this
    since = str(numbers.get("since") or instant_text(newest.at))
    left_out = (each.partition(" ") for each in str(numbers.get("left_out") or "").split(";"))
    return StoredFlatten(
        str(numbers["reason"] or ""),
        str(numbers["by"]),
        datetime.fromisoformat(since),
        frozenset((name, symbol) for symbol, _, name in left_out if name),
    )


def faults(connection: sa.Connection) -> Iterator[StoredFault]:
    """Return the first fault of each kind since a person last ended a halt."""
    notes, halts = tables.notes, tables.halts
    ended = (
        sa.select(sa.func.max(halts.c.at))
        .where(halts.c.scope.in_(WHOLE_BOT), halts.c.from_state == HALTED)
        .where(halts.c.to_state.not_in((HALTED, RunState.STOPPING)))
    )
    since = connection.execute(ended).scalar() or ""
    found: dict[str, StoredFault] = {}
    for note in _notes(connection, (notes.c.kind == FAULT_NOTE) & (notes.c.at >= since)):
        names = "kind", "error", "trace", "report", "invariant"
        fault = Fault(*(str(note.numbers.get(name) or "") for name in names))
        where = str(note.numbers.get("where") or "")
        found.setdefault(fault.kind, StoredFault(note.at, where, fault))
    yield from list(found.values())[-FAULTS_MAX:]


def _newest_notes(connection: sa.Connection, kind: str) -> Iterator[Note]:
    """Yield the notes of a kind that are not far from the end of the journal, oldest first."""
    notes = tables.notes
    newest = connection.execute(sa.select(sa.func.max(notes.c.seq))).scalar() or 0
    return _notes(connection, notes.c.kind == kind, notes.c.seq > newest - ENTRIES_SEARCHED)


def _notes(connection: sa.Connection, *wanted: sa.ColumnElement[bool]) -> Iterator[Note]:
    """Yield the wanted notes, oldest first."""
    found = sa.select(tables.notes).where(*wanted).order_by(tables.notes.c.seq)
    for row in connection.execute(found).mappings():
        yield made(Note, row)


def newest_by_scope(
    connection: sa.Connection, prefix: str, *states: str
) -> dict[str, sa.RowMapping]:
    """Return the newest row of each scope that begins with `prefix`, by the rest of its name; with
    `states`, the newest of those.
    """
    halts = tables.halts
    wanted = halts.c.scope.startswith(prefix)
    if states:
        wanted &= halts.c.to_state.in_(states)
    found = connection.execute(sa.select(halts).where(wanted).order_by(halts.c.seq)).mappings()
    return {row["scope"].removeprefix(prefix): row for row in found}


def halted(connection: sa.Connection, prefix: str) -> dict[str, str]:
    """Return what is halted in a kind of scope, and why."""
    found = newest_by_scope(connection, prefix)
    return {name: row["reason"] for name, row in found.items() if row["to_state"] == HALTED}


def is_in_question(connection: sa.Connection) -> bool:
    """Return whether the journal was found damaged, or another's, and nobody has accepted that."""
    return DAMAGE in halted(connection, "break:")


def was_accepted(connection: sa.Connection) -> bool:
    """Return whether a person has accepted the last that was found of the journal itself."""
    found = newest_by_scope(connection, "break:").get(DAMAGE)
    return found is not None and found["to_state"] != HALTED


def halted_scopes(connection: sa.Connection) -> dict[str, str]:
    """Return which accounts, nonces and risk are halted, by their scopes, and why."""
    prefixes = ACCOUNT_SCOPE, FENCE_SCOPE, REDUCED_SCOPE
    return {
        prefix + name: why
        for prefix in prefixes
        for name, why in halted(connection, prefix).items()
    }


def reduced(connection: sa.Connection, day: date) -> dict[str, str]:
    """Return why an account takes no entries today: what stopped them on another day is over."""
    return {
        account: row["reason"]
        for account, row in newest_by_scope(connection, ENTRIES_SCOPE).items()
        if row["to_state"] == HALTED
        and ENTRIES_SCOPE + account != REDUCED_SCOPE
        and instant_of(row["at"]).astimezone(EXCHANGE_TZ).date() == day
    }


def open_breaks(connection: sa.Connection) -> tuple[tuple[Break, ...], int]:
    """Return the unaccepted breaks, and the number of the next one.

    Their alerts have the numbers; one that a later row has explained explains no other.
    """
    newest = newest_by_scope(connection, "break:")
    found = {
        name: Break(name, row["reason"], instant_of(row["at"]))
        for name, row in newest.items()
        if row["to_state"] == HALTED
    }
    is_told = tables.notes.c.kind.in_(("ALERT", RECONCILE_NOTE))
    first = min((one.at for one in found.values() if one.at), default=None)
    since = tables.notes.c.at >= instant_text(first) if first else sa.false()
    for note in _notes(connection, is_told, since):
        told = note.numbers
        known = found.get(str(told.get(EXPLAINED) or told.get("break")))
        if known is None or known.at is None or note.at < known.at:
            continue
        if told.get(EXPLAINED):
            found[known.break_id] = replace(known, ours=None, theirs=None)
        elif told.get("alert") == "BREAK":
            ours, theirs = (_number_of(told.get(name)) for name in ("ours", "theirs"))
            rests_on = tuple(str(told.get("rests_on") or "").split(", "))
            found[known.break_id] = replace(
                known,
                symbol=note.symbol,
                ours=ours,
                theirs=theirs,
                rests_on=rests_on if rests_on != ("",) else (),
            )
    return tuple(found.values()), len(newest) + 1


def _number_of(value: object) -> int | None:
    return value if isinstance(value, int) else None


def bases(connection: sa.Connection) -> Iterator[tuple[AccountSnapshot, dict[str, Moved], int]]:
    """Return the figures of each account that count, with what they contain of external orders, and
    the number of the row from which on they count: those read at the instant that its newest row
    names, with what breaks since have corrected (a break names no account, so only where there is
    one). An earlier program took such a row over from its emergency journal without the figures;
    then the row before it counts.
    """
    halts, snapshots = tables.halts, tables.account_snapshots
    accounts = newest_by_scope(connection, tables.BASE)
    for account in accounts:
        named = sa.select(halts.c.at, halts.c.reason, halts.c.seq)
        mine = named.where(halts.c.scope == tables.BASE + account).order_by(halts.c.seq.desc())
        for at, agreed, seq in connection.execute(mine).all():
            taken = _counting_from(sa.select(snapshots), account, at, seq)
            stored = connection.execute(taken).mappings().first()
            if stored is not None:
                is_only = len(accounts) == 1
                base = _corrected(connection, stored) if is_only else snapshot_of(stored)
                yield base, moved_in(agreed), seq
                break


def _counting_from(rows: sa.Select[Any], account: str, at: str, seq: int) -> sa.Select[Any]:
    """Narrow to the figures that count from the row `seq` on: of that instant the last before it.
    In simulated time an account may be read several times at one instant.
    """
    snapshots = tables.account_snapshots
    then = (snapshots.c.account == account) & (snapshots.c.taken_at == at)
    first = (snapshots.c.seq < seq).desc(), snapshots.c.seq.desc()
    return rows.where(then).order_by(*first).limit(1)


def _corrected(connection: sa.Connection, stored: sa.RowMapping) -> AccountSnapshot:
    """Return figures with what was certainly other at the broker than here since: by a break, or by
    what a right has explained. Those after it were not agreed on while other money was held back,
    or an order worked.

    Shares of a note without `total` count once however often its figures are told: each restart of
    the earlier program that wrote it found them again, a break under another name.
    """
    notes, told = tables.notes, dict[object, Note]()
    since = (notes.c.seq > stored["seq"]) & (notes.c.at > stored["at"])
    for note in _notes(connection, since, notes.c.kind.in_(("ALERT", RECONCILE_NOTE))):
        numbers = note.numbers
        is_break = numbers.get("alert") == "BREAK"
        if note.symbol is not None and "total" not in numbers:
            before, now = ("ours", "theirs") if is_break else ("expected", "found")
            if (is_break or note.kind == RECONCILE_NOTE) and any(_correction(note)):
                told[note.symbol, numbers.get(before), numbers.get(now)] = note
        elif is_break:
            told[str(numbers["break"])] = note
        elif note.kind == RECONCILE_NOTE:
            told[f"{note.at} {note.symbol} {note.text}"] = note
    found = snapshot_of(stored)
    for note in told.values():
        total, sellable, receiving = _correction(note)
        if note.symbol is None:
            found = replace(found, cash=found.cash + total)
        elif total or sellable or receiving:
            found = found.corrected(
                note.symbol, total=total, sellable=sellable, receiving=receiving
            )
    return found


def _correction(note: Note) -> tuple[int, int, int]:
    """Return by how much a note has corrected the cash, or all shares of its symbol, those that may
    be sold and those on their way. An earlier program's has one number: its shares count as
    settled, and a difference in what may be sold is looked for again.
    """
    names = "ours", "theirs", "difference", "total", "sellable", "receiving"
    known = {name: _number_of(note.numbers.get(name)) for name in names}
    amount = known["difference"] or 0
    if known["ours"] is not None and known["theirs"] is not None:
        amount = known["theirs"] - known["ours"]
    if known["total"] is not None:
        return known["total"], known["sellable"] or 0, known["receiving"] or 0
    is_of_some = note.text.startswith((f"{note.symbol} sellable:", f"{note.symbol} receiving:"))
    return (0, 0, 0) if is_of_some else (amount, amount, 0)


def reads_since(
    connection: sa.Connection, counting: Iterable[tuple[AccountSnapshot, object, int]]
) -> Iterator[AccountSnapshot]:
    """Return what was read of accounts since the figures that count (`bases`), oldest first: of
    equal cash the newest.
    """
    snapshots = tables.account_snapshots
    for base, _, seq in counting:
        first = sa.select(snapshots.c.seq)
        first = _counting_from(first, base.account, instant_text(base.at), seq)
        is_own = snapshots.c.account == base.account
        later = is_own & (snapshots.c.seq > first.scalar_subquery())
        newest = sa.select(sa.func.max(snapshots.c.seq)).where(later).group_by(snapshots.c.cash)
        found = sa.select(snapshots).where(snapshots.c.seq.in_(newest)).order_by(snapshots.c.seq)
        yield from map(snapshot_of, connection.execute(found).mappings())


def crashes(connection: sa.Connection) -> int:
    """Return how many of the previous runs, in a row, began shortly before this one and have no
    end.
    """
    runs = tables.runs
    newest = sa.select(runs.c.started_at, runs.c.ended_at).where(_A_BOT)
    newest = newest.order_by(runs.c.run_id.desc())
    found = connection.execute(newest.limit(CRASHES_LOOKED_AT + 1)).all()
    if not found:
        return 0
    since = instant_of(found[0].started_at) - CRASH_LOOP
    count = 0
    for row in found[1:]:
        if row.ended_at is not None or instant_of(row.started_at) < since:
            break
        count += 1
    return count


def killed_since(connection: sa.Connection) -> datetime | None:
    """Return when the run before this one began, if it has no end."""
    runs = tables.runs
    newest = sa.select(runs.c.started_at, runs.c.ended_at).where(_A_BOT)
    newest = newest.order_by(runs.c.run_id.desc())
    before = connection.execute(newest.limit(1).offset(1)).first()
    return instant_of(before.started_at) if before and before.ended_at is None else None
