"""Checks a journal against itself and against its stored heads: all of it on request, and at a
start the part from which the run continues.

Every chain is walked from the genesis hash, every seal recomputed, chain lengths compared with
`chains`, orders with their fills, and no intent may have two POSTs. Somebody who can write the
whole database can make all of that fit: only heads stored elsewhere reveal it. It reads row by row,
in constant memory, and changes nothing.

At a start, intents, attempts, orders, fills and halts are checked row by row with their seals, and
orders with their fills. For the other tables only the rows since the last stored heads are checked,
about a minute's: the time of a start grows with orders and fills, not with years. A file is checked
for damage as a whole. An older copy put in its place is recognised by the heads and the lease epoch
stored beside it.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

import sqlalchemy as sa

from bot.domain.account import masked_account
from bot.domain.entry import PRUNED_NOTE, Numbers
from bot.journal.database import tables
from bot.journal.database.encoding import Plain, json_text, link, summed
from bot.journal.database.engines import read_whole
from bot.journal.database.schema import reading_current, require_schema
from bot.journal.errors import Corrupt
from bot.journal.upkeep.comparison import Comparison
from bot.journal.upkeep.retention import kept_problems, signature
from bot.journal.writing import rows
from bot.journal.writing.batch import COUNTER, Head, anchor_name, kept_name, read_heads, seals_of
from bot.journal.writing.heads import KeptHeads, label_of

PROBLEMS_MAX: Final = 100
"""How many problems are reported; a broken chain would fill the screen."""
ROWS_AT_ONCE: Final = 500
_NO_HEAD: Final = Head(0, 0, "")
_BEGINNING: Final = Head(0, 0, tables.GENESIS)
_RUNS: Final = sa.select(tables.runs.c.run_id, tables.runs.c.heads, tables.runs.c.ended_at).where(
    tables.runs.c.heads.is_not(None)
)
# The migrations create triggers that protect what was written. If one was dropped, disabled or
# emptied, rows may have been changed, so such a journal cannot be trusted.
_APPEND_ONLY: Final = tuple(
    table.name for table in tables.CHAINED if table.name not in tables.MUTABLE
)
_BOTH: Final = (
    *(f"{name}_no_delete" for name in tables.metadata.tables),
    *(f"{name}_no_update" for name in _APPEND_ONLY),
    *(f"{table.name}_no_update" for table in tables.SEALED),
    "attempts_no_again",
    "runs_no_again",
)
GUARDS: Final = {
    "sqlite": frozenset((*_BOTH, *(f"{name}_no_replace" for name in _APPEND_ONLY))),
    "postgresql": frozenset((*_BOTH, *(f"{name}_no_truncate" for name in tables.metadata.tables))),
}
"""The names of the triggers, by the kind of database."""

_AT_WORK: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%RAISE(ABORT%'",
    "postgresql": (
        "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "JOIN pg_proc p ON p.oid = t.tgfoid WHERE c.relnamespace = current_schema()::regnamespace "
        "AND t.tgenabled IN ('O', 'A') AND p.prosrc LIKE '%RAISE EXCEPTION%'"
    ),
}

Stored = Mapping[str, Plain]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was checked, and what was found wrong, in words; at most `PROBLEMS_MAX` problems.

    `differences` are those from the stored heads. `keeps_heads`: a run that stored some has ended.
    """

    events: int
    orders: int
    fills: int
    problems: tuple[str, ...]
    differences: tuple[str, ...] = ()
    keeps_heads: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.problems and not self.differences


def verify(url: str, kept: Sequence[KeptHeads] = ()) -> VerifyReport:
    """Check a whole journal, including against `kept` heads; if the journal is being written, read
    those first. Raises Unreachable or NeedsMigration; damage is reported as a problem.
    """

    def report(connection: sa.Connection) -> VerifyReport:
        require_schema(connection)
        runs = connection.execute(_RUNS).all()
        comparison = Comparison(kept, {row.run_id: row.heads for row in runs})
        heads = read_heads(connection)
        found = _problems(connection, heads, comparison)
        problems = tuple(islice(found, PROBLEMS_MAX))
        comparison.see_heads(heads)
        return VerifyReport(
            events=heads.get(COUNTER, _NO_HEAD).row_count,
            orders=_count(connection, tables.orders),
            fills=heads.get("fills", _NO_HEAD).row_count,
            problems=problems,
            differences=tuple(comparison.differences),
            keeps_heads=any(row.ended_at is not None for row in runs),
        )

    try:
        return read_whole(url, report)
    except Corrupt as damage:
        return VerifyReport(0, 0, 0, (str(damage),))


def heads_now(url: str, at: datetime) -> KeptHeads:
    """Return the present ends of the chains, for storing elsewhere. Raises Unreachable or
    NeedsMigration.
    """
    runs = tables.runs
    newest = sa.select(runs.c.run_id, runs.c.epoch).order_by(runs.c.run_id.desc()).limit(1)
    with reading_current(url) as connection:
        run_id, epoch = connection.execute(newest).first() or (0, None)
        return KeptHeads(at, label_of(url), run_id, epoch, read_heads(connection))


def _problems(
    connection: sa.Connection, heads: Mapping[str, Head], comparison: Comparison
) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        for (finding,) in connection.exec_driver_sql("PRAGMA integrity_check(10)"):
            if finding != "ok":
                yield f"the file is damaged: {finding}"
        yield from _unreadable_definitions(connection)
    if missing := missing_guards(connection):
        yield f"triggers that keep rows from being changed are missing: {', '.join(missing)}"
    for table in tables.CHAINED:
        since = anchor_of(heads, table)
        if since.last_seq:
            comparison.see_anchor(table.name, since)
            yield from anchor_problems(connection, table, heads)
        yield from chain_problems(connection, table, heads.get(table.name), comparison, since)
    for table in tables.SEALED:
        yield from seal_problems(connection, table, heads.get(seals_of(table)))
    # Each run took an epoch of the lease, which only grows.
    newest = connection.execute(sa.select(sa.func.max(tables.runs.c.epoch))).scalar() or 0
    now = connection.execute(sa.select(sa.func.max(tables.lease.c.epoch))).scalar() or 0
    if now < newest:
        yield f"lease: its epoch is {now}, but a run had {newest} already"
    # The numbers of all entries run from 1 to the counter; a finished attempt has taken two.
    taken = sum(heads[table.name].row_count for table in tables.CHAINED if table.name in heads)
    taken += _count(connection, tables.orders)
    counter = heads.get(COUNTER, _NO_HEAD)
    if counter.last_seq != counter.row_count or taken > counter.last_seq:
        yield f"chains: {counter.last_seq} entries were counted, {taken} rows are there"
    yield from balance_problems(connection)
    attempts = tables.attempts
    posted = sa.select(attempts.c.intent_id).where(attempts.c.verb == "POST")
    twice = posted.group_by(attempts.c.intent_id).having(sa.func.count() > 1)
    for row in stream(connection, twice):
        yield f"intent {row['intent_id']}: was sent more than once"


def _unreadable_definitions(connection: sa.Connection) -> Iterator[str]:
    """Yield the tables whose definition is no text of ours: no check of SQLite's looks into the
    words that a column may hold, and one that is lost refuses rows later.
    """
    query = "SELECT name, CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL"
    for name, words in connection.exec_driver_sql(query):
        text = "".join(words.decode(errors="replace").split())
        if not text.isprintable() or "\N{REPLACEMENT CHARACTER}" in text:
            yield f"the file is damaged: the definition of {name} can't be read"


def missing_guards(connection: sa.Connection) -> list[str]:
    """Yield the triggers that are missing, or refuse nothing."""
    kind = connection.dialect.name
    found = connection.execute(sa.text(_AT_WORK[kind].replace("::", "\\:\\:"))).scalars()
    return sorted(GUARDS[kind] - set(found))


def chain_problems(
    connection: sa.Connection,
    table: sa.Table,
    head: Head | None,
    comparison: Comparison,
    since: Head = _BEGINNING,
) -> Iterator[str]:
    """Walk one chain, all of it or from a head on; continue after a break."""
    before, count, seq = since.head_hash, since.row_count, since.last_seq
    later = sa.select(table).where(table.c.seq > seq).order_by(table.c.seq)
    for row in stream(connection, later):
        seq, count = int(row["seq"] or 0), count + 1
        if row["prev_hash"] != before:
            yield f"{table.name} {seq}: the chain is broken before this row"
        before = link(str(row["prev_hash"]), rows.sealed_content(table, row))
        if row["hash"] != before:
            yield f"{table.name} {seq}: the row was changed"
            before = str(row["hash"])
        comparison.see_row(table.name, Head(seq, count, before))
    comparison.see_end(table.name)
    if head != Head(seq, count, before):
        yield f"{table.name}: {count} rows do not end where the chain did"


def anchor_of(heads: Mapping[str, Head], table: sa.Table) -> Head:
    """Return where the walk of a chain begins: everything before it was deleted by retention."""
    return heads.get(anchor_name(table), _BEGINNING)


def anchor_problems(
    connection: sa.Connection, table: sa.Table, heads: Mapping[str, Head]
) -> Iterator[str]:
    """Check that an anchor was signed, and the rows before it that stayed."""
    anchor, kept = heads[anchor_name(table)], heads.get(kept_name(table), _NO_HEAD)
    notes, signed = tables.notes, json_text(signature(table.name, anchor, kept))
    by_note = sa.select(notes.c.seq).where(notes.c.kind == PRUNED_NOTE, notes.c.numbers == signed)
    if connection.execute(by_note.limit(1)).first() is None:
        yield f"{table.name}: nothing says that its rows up to {anchor.last_seq} were pruned"
    before = sa.select(table).where(table.c.seq <= anchor.last_seq).order_by(table.c.seq)
    yield from kept_problems(stream(connection, before), table, kept)


def _shown(row: Mapping[str, object], column: str) -> str:
    text = str(row[column])
    return masked_account(text) if column == "account" else text


def seal_problems(connection: sa.Connection, table: sa.Table, head: Head | None) -> Iterator[str]:
    """Recompute every seal, and add them up."""
    count, sum_of_seals = 0, tables.GENESIS
    for row in stream(connection, sa.select(table)):
        untouched = row["seal"] is None and table.name == "attempts"
        expected = None if untouched else rows.seal_of(table, row)
        is_blank = not untouched or all(row[name] is None for name in tables.MUTABLE["attempts"])
        if row["seal"] != expected or not is_blank:
            key = ", ".join(_shown(row, column.name) for column in table.primary_key)
            yield f"{table.name} {key}: the row was changed"
        if row["seal"] is not None:
            count, sum_of_seals = count + 1, summed(sum_of_seals, plus=str(row["seal"]))
    if head is None or (head.row_count, head.head_hash) != (count, sum_of_seals):
        yield f"{table.name}: the seals of {count} rows do not add up to their sum in chains"


def balance_problems(connection: sa.Connection) -> Iterator[str]:
    """Check that every order of ours, and every order with fills, has executed the sum of its
    fills.
    """
    orders, fills = tables.orders, tables.fills
    key = ("account", "trading_date", "order_id")
    summed = (
        sa.select(
            *(fills.c[name] for name in key),
            tables.total(fills.c.quantity).label("quantity"),
            tables.total(fills.c.amount).label("amount"),
        )
        .group_by(*(fills.c[name] for name in key))
        .subquery()
    )
    same = sa.and_(*(orders.c[name] == summed.c[name] for name in key))
    quantity, amount = (sa.func.coalesce(summed.c[name], 0) for name in ("quantity", "amount"))
    differs = (orders.c.executed_quantity != quantity) | (orders.c.executed_amount != amount)
    ours = orders.c.intent_id.is_not(None) | summed.c.quantity.is_not(None)
    query = sa.select(orders, quantity.label("filled"), amount.label("paid"))
    for row in stream(connection, query.outerjoin_from(orders, summed, same).where(ours, differs)):
        executed = f"executed {row['executed_quantity']} for {row['executed_amount']}"
        yield f"order {row['order_id']}: {executed}, fills {row['filled']} for {row['paid']}"
    lost = sa.select(summed.c.order_id).outerjoin_from(summed, orders, same)
    for row in stream(connection, lost.where(orders.c.order_id.is_(None))):
        yield f"order {row['order_id']}: has fills and no row"


def stream(connection: sa.Connection, query: sa.Executable) -> Iterator[Stored]:
    options = {"yield_per": ROWS_AT_ONCE}
    for row in connection.execute(query, execution_options=options).mappings():
        yield {str(name): value for name, value in row.items()}


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


UNREADABLE: Final = (ValueError, TypeError, KeyError, OverflowError)
"""What reading a row raises if its bytes were altered."""
ANY_EPOCH: Final = sys.maxsize
"""The epoch of who takes no lease: only the heads reveal an older copy."""
DAMAGE_MAX: Final = 5
"""How many problems are listed; the rest is for `bot journal verify`."""
GONE_ON_FROM: Final = (tables.intents, tables.fills, tables.halts, tables.attempts)
"""The chained tables whose rows a start reads back; `orders` is only sealed."""
UNKEPT_ROWS: Final = 5_000
"""How many of the newest rows of another chain are checked if no head of it was stored."""


def last_note(url: str, kind: str) -> Numbers:
    """Return the newest note of a kind; empty without one."""
    notes = tables.notes
    query = sa.select(notes.c.numbers).where(notes.c.kind == kind).order_by(notes.c.seq.desc())
    with reading_current(url) as connection:
        found = connection.execute(query.limit(1)).scalar_one_or_none()
    return dict(json.loads(found or "{}"))


def damage_of(url: str, kept: KeptHeads | None, epoch: int) -> tuple[str, ...]:
    """Return what is wrong with a journal, in words, at most `DAMAGE_MAX` problems; empty if it is
    intact.

    `kept` are the last stored heads, `epoch` that of the lease just taken, or `ANY_EPOCH`. Raises
    Unreachable or NeedsMigration.
    """

    def damage_in(connection: sa.Connection) -> tuple[str, ...]:
        require_schema(connection)
        try:
            return tuple(islice(_damage(connection, kept, epoch), DAMAGE_MAX))
        except UNREADABLE as damage:
            return (f"a row can't be read: {damage}",)

    try:
        return read_whole(url, damage_in)
    except Corrupt as damage:
        return (f"a row can't be read: {damage}",)


def _damage(connection: sa.Connection, kept: KeptHeads | None, epoch: int) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        # The quick check skips indexes; a wrong one hides an order from lookups by id.
        of_all = [f"quick_check({DAMAGE_MAX})"]
        of_each = [f"integrity_check({each.name})" for each in (*GONE_ON_FROM, *tables.SEALED)]
        for check in of_all + of_each:
            for (finding,) in connection.exec_driver_sql(f"PRAGMA {check}"):
                if finding != "ok":
                    yield f"the file is damaged: {finding}"
        yield from _unreadable_definitions(connection)
    if missing := missing_guards(connection):
        yield f"triggers that keep rows from being changed are missing: {', '.join(missing)}"
    heads = read_heads(connection)
    if kept is not None:
        yield from _older(connection, kept, heads, epoch)
    nothing = Comparison((), {})
    for table in tables.CHAINED:
        head, since = heads.get(table.name), None
        if table not in GONE_ON_FROM:
            since = _checkpoint(connection, table, kept, head)
        anchor = anchor_of(heads, table)
        if since is None or since.last_seq < anchor.last_seq:
            since = anchor
        yield from chain_problems(connection, table, head, nothing, since)
    for table in tables.SEALED:
        yield from seal_problems(connection, table, heads.get(seals_of(table)))
    yield from balance_problems(connection)


def _older(
    connection: sa.Connection, kept: KeptHeads, heads: Mapping[str, Head], epoch: int
) -> Iterator[str]:
    """Yield where the journal lacks what was stored about it."""
    if kept.epoch is not None and epoch <= kept.epoch:
        text = f"this would be its run {epoch}, and run {kept.epoch} is in {kept}"
        yield f"{text}: this is an older copy of the journal"
    for name, head in sorted(kept.heads.items()):
        now, table = heads.get(name), tables.metadata.tables.get(name)
        if head.last_seq and (now is None or now.last_seq < head.last_seq):
            yield f"{name} ends before {kept}: the end was cut off, or this is an older copy"
        elif table is not None and "hash" in table.c and _is_there(head, table, heads):
            found = sa.select(table.c.hash).where(table.c.seq == head.last_seq)
            if connection.execute(found).scalar() != head.head_hash:
                yield f"{name} {head.last_seq} is not the row of {kept}"


def _is_there(head: Head, table: sa.Table, heads: Mapping[str, Head]) -> bool:
    """Return whether there was a row at a head, and retention has not deleted it since."""
    return head.last_seq > anchor_of(heads, table).last_seq


def _checkpoint(
    connection: sa.Connection, table: sa.Table, kept: KeptHeads | None, head: Head | None
) -> Head | None:
    """Return the head from which a chain is walked; None: from its first row."""
    since = kept.heads.get(table.name) if kept is not None else None
    if since is not None or head is None or head.row_count <= UNKEPT_ROWS:
        return since if since is not None and since.last_seq else None
    newest = sa.select(table.c.seq, table.c.hash).order_by(table.c.seq.desc())
    row = connection.execute(newest.offset(UNKEPT_ROWS).limit(1)).first()
    return Head(row.seq, head.row_count - UNKEPT_ROWS, row.hash) if row is not None else None
