"""Deletes old, bulky and unimportant rows, so that a journal does not fill a disk.

Some rows always stay: decisions about an order, raw answers about an order that may still trade or
under an id of ours that only they name, notes that a start reads, and those written here. Rows of
orders, attempts, fills, transitions, halts and daily closes are never deleted.

The remaining rows can still be verified. For each table `chains` has its *anchor*,
`decisions.pruned`: how many rows there were up to the last one examined, and its hash, from which
the chain continues; and `decisions.kept`: how many rows before it stay, and the sum of their
hashes. A note signs both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import (
    CODE_NOTE,
    FLATTEN_NOTE,
    LIMITS_NOTE,
    PRUNED_NOTE,
    RECONCILE_NOTE,
    Note,
)
from bot.domain.order import TERMINAL_STATES
from bot.journal.database import tables
from bot.journal.database.encoding import instant_text, link, summed
from bot.journal.database.statements import given
from bot.journal.writing import rows
from bot.journal.writing.batch import Batch, Head, anchor_name, kept_name

AT_ONCE_MAX: Final = 5_000
"""How many rows of a table one transaction examines, so that no order waits long for it: 0.4 s with
two busy cores.
"""
FOLLOWED_NOTES: Final = ("CLOSE", CODE_NOTE, FLATTEN_NOTE, LIMITS_NOTE, PRUNED_NOTE)
"""A start compares itself with these, however old they are."""


def _has(name: str) -> sa.ColumnElement[bool]:
    """Whether a note has a number of that name. A pattern would need a sign of percent."""
    numbers = tables.notes.c.numbers
    return sa.func.replace(numbers, f'"{name}"', "") != numbers


_KIND: Final = tables.notes.c.kind
_OF_BREAKS: Final = sa.or_(
    sa.and_(_KIND == "ALERT", _has("break")),
    sa.and_(_KIND == RECONCILE_NOTE, _has("difference")),
)
"""The figures of a break, and what was explained: a start continues from them."""

_UNFINISHED: Final = (
    sa.select(tables.orders.c.order_id)
    .where(tables.orders.c.state.not_in(TERMINAL_STATES))
    .scalar_subquery()
)
_LATER_IDS: Final = sa.and_(
    tables.order_results.c.intent_id.is_not(None),
    ~sa.exists().where(
        tables.orders.c.order_id == tables.order_results.c.order_id,
        tables.orders.c.intent_id == tables.order_results.c.intent_id,
    ),
)
"""Rows of our orders under ids that no order of ours begins with: nothing else names these."""
_READ: Final = tables.account_snapshots.c
_COUNTING: Final = (sa.literal(tables.BASE) + _READ.account + " " + _READ.taken_at).in_(
    sa.select(tables.halts.c.scope + " " + tables.halts.c.at).where(
        tables.halts.c.scope >= tables.BASE,
        tables.halts.c.scope < tables.BASE.replace(":", ";"),  # the character after a colon
    )
)
"""Figures of an account that counted: a start continues from the newest of them.

The rows that say so are many and stay for ever, and no index has their instant: they are read once.
Each is one text, as SQLite would compare a pair that is not among them with every one.
"""
_STAYS: Final[Mapping[str, sa.ColumnElement[bool]]] = {
    "decisions": tables.decisions.c.request_id.is_not(None),
    "order_results": tables.order_results.c.order_id.in_(_UNFINISHED) | _LATER_IDS,
    "account_snapshots": _COUNTING,
    "notes": _KIND.in_(FOLLOWED_NOTES) | _OF_BREAKS,
}
"""What is never deleted from a table that may be pruned."""
PRUNABLE: Final = tuple(_STAYS)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was, or would be, deleted from a table. `has_more`: more is due than that.

    `unsaved`: due rows that stay because no backup contains them.
    """

    table: str
    deleted: int
    size: int
    has_more: bool = False
    unsaved: int = 0


def due_in(connection: sa.Connection, name: str, before: datetime) -> Pruned:
    """Count what is older than `before` and may go, and the bytes of its values."""
    table = tables.metadata.tables[name]
    lengths = [
        sa.func.coalesce(sa.func.length(sa.cast(column, sa.Text())), 0) for column in table.c
    ]
    size = tables.total(sum(lengths[1:], lengths[0]))
    going = table.c.at < instant_text(before), sa.not_(_STAYS[name])
    newest = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
    query = sa.select(sa.func.count(), size).where(*going, table.c.seq < newest)
    deleted, size_of = connection.execute(query).one()
    return Pruned(name, deleted, size_of)


def prune(
    batch: Batch,
    name: str,
    *,
    before: datetime,
    at: datetime,
    saved: Sequence[Head] | None = None,
) -> Pruned:
    """Delete deletable rows among the oldest, at most so many; sign the new anchor with a note.

    The newest row of a table stays, as the next one links to it. With `saved`, the ends of the
    table's chain in each backup, only rows that one of them contains are deleted. Raises NotOwner.
    """
    table = tables.metadata.tables[name]
    anchor = batch.heads.get(anchor_name(table), Head(0, 0, tables.GENESIS))
    found = batch.connection.rows(
        _looked_at(table, AT_ONCE_MAX + 1),
        {"after": anchor.last_seq, "before": instant_text(before)},
    )
    if len(found) < 2:
        return Pruned(name, 0, 0)
    found = found[:-1] if len(found) <= AT_ONCE_MAX else found[:AT_ONCE_MAX]
    unsaved = 0
    if saved is not None:
        reach = _reach(batch, table, saved)
        unsaved = sum(not stays for seq, _, stays, _ in found if int(seq or 0) > reach)
        found = [row for row in found if int(row[0] or 0) <= reach]
    staying = [str(hashed) for _, hashed, stays, _ in found if stays]
    going = [int(size or 0) for _, _, stays, size in found if not stays]
    if not going and len(found) < AT_ONCE_MAX:
        return Pruned(name, 0, 0, unsaved=unsaved)
    last, hashed = int(found[-1][0] or 0), str(found[-1][1])
    kept = batch.heads.get(kept_name(table), Head(0, 0, tables.GENESIS))
    total = kept.head_hash
    for each in staying:
        total = summed(total, plus=each)
    moved = Head(last, anchor.row_count + len(found), hashed)
    left = Head(last, kept.row_count + len(staying), total)
    batch.set_head(anchor_name(table), moved)
    batch.set_head(kept_name(table), left)
    seq = table.c.seq
    gone = sa.and_(seq > anchor.last_seq, seq <= last, sa.not_(_STAYS[table.name]))
    batch.connection.delete(table, gone)
    numbers = signature(name, moved, left)
    text = f"{len(going):,} rows of {name} before {before:%Y-%m-%d} deleted, journal.keep"
    batch.append(tables.notes, rows.row_of(Note(at, PRUNED_NOTE, text, numbers)))
    has_more = len(found) == AT_ONCE_MAX
    return Pruned(name, len(going), sum(going), has_more=has_more, unsaved=unsaved)


def _reach(batch: Batch, table: sa.Table, saved: Sequence[Head]) -> int:
    """Return the last row that a backup of this very table contains; 0 if there is none."""
    for head in sorted(saved, key=lambda each: each.last_seq, reverse=True):
        if batch.connection.rows(_hash_at(table), {"seq": head.last_seq}) == [(head.head_hash,)]:
            return head.last_seq
    return 0


@cache
def _hash_at(table: sa.Table) -> sa.Select[tuple[str]]:
    return sa.select(table.c.hash).where(table.c.seq == given("seq"))


def signature(name: str, anchor: Head, kept: Head) -> dict[str, int | float | str | bool | None]:
    """The text of a note that signs an anchor."""
    return {
        "table": name,
        "last_seq": anchor.last_seq,
        "rows": anchor.row_count,
        "hash": anchor.head_hash,
        "kept": kept.row_count,
        "kept_sum": kept.head_hash,
    }


@cache  # a connection caches its compiled statements, and would treat a new one as different
def _looked_at(table: sa.Table, most: int) -> sa.Select[tuple[int, str, int, int]]:
    """Select the oldest rows after an anchor, at most so many, up to the first that is not older
    than an instant; that one too.
    """
    lengths = [
        sa.func.coalesce(sa.func.length(sa.cast(column, sa.Text())), 0) for column in table.c
    ]
    stays = sa.case((_STAYS[table.name], 1), else_=0)
    window = sa.select(table.c.seq, table.c.at).where(table.c.seq > given("after"))
    next_rows = window.order_by(table.c.seq).limit(most).subquery()
    first_young = sa.select(sa.func.min(next_rows.c.seq)).where(next_rows.c.at >= given("before"))
    last = sa.select(sa.func.max(next_rows.c.seq))
    until = sa.func.coalesce(first_young.scalar_subquery(), last.scalar_subquery())
    return (
        sa.select(table.c.seq, table.c.hash, stays, sum(lengths[1:], lengths[0]))
        .where(table.c.seq > given("after"))
        .where(table.c.seq <= until)
        .order_by(table.c.seq)
    )


def kept_problems(
    found: Iterator[Mapping[str, object]], table: sa.Table, kept: Head
) -> Iterator[str]:
    """Yield what is wrong with the rows kept before an anchor."""
    count, total = 0, tables.GENESIS
    for row in found:
        content = rows.sealed_content(table, row)  # type: ignore[arg-type]
        if row["hash"] != link(str(row["prev_hash"]), content):
            yield f"{table.name} {row['seq']}: the row was changed"
        count, total = count + 1, summed(total, plus=str(row["hash"]))
    if (count, total) != (kept.row_count, kept.head_hash):
        yield (
            f"{table.name}: {count} rows before {kept.last_seq} are not the {kept.row_count} that "
            "stayed when it was pruned"
        )
