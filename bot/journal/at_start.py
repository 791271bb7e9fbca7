"""Looks at a journal before a run goes on from it: is it whole, and is it the newest one?

All that a start goes on from is checked row by row: intents, attempts, orders, fills and halts,
with their seals, and orders with their fills. Of the other tables the rows since the heads that
were kept last are, which are about a minute's: what a start takes grows with orders and fills, not
with years. A file is looked over for damage as a whole. An older copy that was put in place is
known by the heads and the epoch of the lease that were kept beside it. The whole of every chain is
checked by `bot journal verify`.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import Numbers
from bot.journal import tables
from bot.journal.batch import Head, read_heads, seals_of
from bot.journal.comparing import Comparison
from bot.journal.errors import Corrupt
from bot.journal.heads import KeptHeads
from bot.journal.schema import reading_current
from bot.journal.verify import (
    anchor_of,
    balance_problems,
    chain_problems,
    missing_guards,
    seal_problems,
)

UNREADABLE: Final = (ValueError, TypeError, KeyError, OverflowError)
"""What reading a row raises whose bytes are not what was written."""
DAMAGE_MAX: Final = 5
"""How many problems are told; the rest is for `bot journal verify`."""
GONE_ON_FROM: Final = (tables.intents, tables.fills, tables.halts, tables.attempts)
"""The chained tables whose rows a start reads back; `orders` is sealed alone."""
UNKEPT_ROWS: Final = 5_000
"""How many of the newest rows of another chain are checked where no head of it was kept."""


def last_note(url: str, kind: str) -> Numbers:
    """Return what the newest note of a kind holds; nothing without one."""
    notes = tables.notes
    query = sa.select(notes.c.numbers).where(notes.c.kind == kind).order_by(notes.c.seq.desc())
    with reading_current(url) as connection:
        found = connection.execute(query.limit(1)).scalar_one_or_none()
    return dict(json.loads(found or "{}"))


def damage_of(url: str, kept: KeptHeads | None, epoch: int) -> tuple[str, ...]:
    """Return what is wrong with a journal, in words, at most `DAMAGE_MAX`; nothing: it is whole.

    `kept` are the heads that were written down last, `epoch` that of the lease just taken. Raises
    Unreachable or NeedsMigration.
    """
    try:
        with reading_current(url) as connection:
            return tuple(islice(_damage(connection, kept, epoch), DAMAGE_MAX))
    except (Corrupt, *UNREADABLE) as damage:
        return (f"a row can't be read: {damage}",)


def _damage(connection: sa.Connection, kept: KeptHeads | None, epoch: int) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        # The quick one looks into no index; one that lies hides an order from who looks for its id.
        of_all = [f"quick_check({DAMAGE_MAX})"]
        of_each = [f"integrity_check({each.name})" for each in (*GONE_ON_FROM, *tables.SEALED)]
        for check in of_all + of_each:
            for (finding,) in connection.exec_driver_sql(f"PRAGMA {check}"):
                if finding != "ok":
                    yield f"the file is damaged: {finding}"
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
    """Say where the journal lacks what was written down of it."""
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
    """Whether there was a row at a head, and retention has not deleted it since."""
    return head.last_seq > anchor_of(heads, table).last_seq


def _checkpoint(
    connection: sa.Connection, table: sa.Table, kept: KeptHeads | None, head: Head | None
) -> Head | None:
    """Return the head from which on a chain is walked; None: from its first row."""
    since = kept.heads.get(table.name) if kept is not None else None
    if since is not None or head is None or head.row_count <= UNKEPT_ROWS:
        return since if since is not None and since.last_seq else None
    newest = sa.select(table.c.seq, table.c.hash).order_by(table.c.seq.desc())
    row = connection.execute(newest.offset(UNKEPT_ROWS).limit(1)).first()
    return Head(row.seq, head.row_count - UNKEPT_ROWS, row.hash) if row is not None else None
