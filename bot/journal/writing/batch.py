"""One transaction of entries: numbers, links and stores them, all or none.

The ends of the chains and the newest rows are cached from one transaction to the next, so that the
one writer does not read again what it has written itself. The cache is only compared, never
trusted: a head must still be where it was left, and a row must still have the seal it was left
with, or the transaction fails. A failed transaction discards the cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeVar

import sqlalchemy as sa

from bot.domain.entry import (
    AttemptFinished,
    Entry,
    Fill,
    IntentMoved,
    OrderResultSeen,
    OrderUpdated,
)
from bot.domain.order import SEND_MOVES, SendState
from bot.journal.database import tables
from bot.journal.database.encoding import WHOLE_MAX, Plain, plain, summed
from bot.journal.database.statements import given
from bot.journal.database.writer_connection import WriterConnection
from bot.journal.errors import Contradicted, LeaseLost
from bot.journal.writing import rows
from bot.journal.writing.rows import Row
from bot.journal.writing.sends import Against, Send

COUNTER: Final = "journal"
"""The row of `chains` that counts all entries; every transaction increments it."""
POLLS: Final = ("book", "detail")
ROWS_KEPT: Final = 1_024
"""How many mutable rows of a table are cached; older ones are read again."""

_CHAINS: Final = tables.chains
_HEADS: Final = sa.select(
    _CHAINS.c.name, _CHAINS.c.last_seq, _CHAINS.c.row_count, _CHAINS.c.head_hash
)
_LOCKED_HEADS: Final = _HEADS.with_for_update()
_MOVE_HEAD: Final = (
    _CHAINS.update()
    .where(_CHAINS.c.name == given("chain"))
    .where(_CHAINS.c.last_seq == given("left_seq"), _CHAINS.c.head_hash == given("left_hash"))
    .values({name: given(name) for name in ("last_seq", "row_count", "head_hash")})
)
_LAST_POLLED: Final = (
    sa.select(tables.order_results.c.raw, tables.order_results.c.intent_id)
    .where(tables.order_results.c.order_id == given("its_order_id"))
    .where(tables.order_results.c.source.in_(POLLS))
    .order_by(tables.order_results.c.seq.desc())
    .limit(1)
)
_NEWEST_DAY: Final = (
    sa.select(sa.func.max(tables.orders.c.trading_date))
    .where(tables.orders.c.order_id == given("its_order_id"))
    .where(tables.orders.c.account == given("its_account"))
)

Key = tuple[Plain, ...]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends."""

    last_seq: int
    row_count: int
    head_hash: str


@dataclass(slots=True)
class Memory:
    """The ends of the chains after the last transaction, and rows that it may change again.

    `rows` are by table and key, as stored; `polled` is an order's last element, and whose it was.
    """

    heads: dict[str, Head]
    rows: dict[str, dict[Key, Row]] = field(default_factory=dict)
    polled: dict[str, tuple[Plain, ...]] = field(default_factory=dict)
    against: Against | None = None
    """What speaks against a send, created with the first one."""

    @property
    def last_seq(self) -> int:
        """The number of the last entry."""
        return self.heads[COUNTER].last_seq

    def keep(self, table: sa.Table, row: Row) -> None:
        """Cache a row as it is stored now."""
        _keep(self.rows.setdefault(table.name, {}), key_of(table, row), row)

    def keep_polled(self, order_id: str, element: tuple[Plain, ...]) -> None:
        """Cache the last polled element of an order."""
        _keep(self.polled, order_id, element)


class Batch:
    """The entries of one open transaction, which found the lease in `epoch`."""

    def __init__(self, connection: WriterConnection, memory: Memory, epoch: int) -> None:
        self.connection = connection
        self.epoch = epoch
        self._memory = memory
        self.last_seq = memory.last_seq
        """The number of the last entry; its head moves with the others' at the end."""
        self._left: dict[str, Head] = {}
        """The heads that have moved, as they were left."""
        self._new: dict[str, int] = {}
        """The intents of this transaction, each with the number of flushes before it."""

    @property
    def heads(self) -> Mapping[str, Head]:
        """Return the ends of every chain, including what this batch has stored; the counter of all
        entries moves in `finish`.
        """
        return self._memory.heads

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._left)

    def store(self, entries: Sequence[Entry]) -> None:
        """Put every entry."""
        for entry in entries:
            match entry:
                case IntentMoved():
                    self._move_intent(entry)
                case AttemptFinished():
                    row = {**rows.finished_row(entry), "finished_seq": self._next_seq()}
                    self.change(tables.attempts, (entry.attempt_id,), row)
                case OrderResultSeen() if entry.source in POLLS:
                    self._store_polled(entry)
                case OrderUpdated():
                    self._store_order(entry)
                case Fill():
                    day = self._trading_date_of(entry, entries)
                    self.append(tables.fills, rows.fill_row(entry, day))
                case _:
                    table, row_of = rows.APPENDED[type(entry)]
                    self.append(table, row_of(entry))

    def finish(self) -> None:
        """Move the heads, and run everything that was put."""
        counter = self._memory.heads[COUNTER]
        if counted := self.last_seq - counter.last_seq:
            count = counter.row_count + counted
            self._move_head(COUNTER, Head(self.last_seq, count, counter.head_hash))
        for name in sorted(self._left):
            left, head = self._left[name], self._memory.heads[name]
            moved: Row = {
                "chain": str(name),  # a table's name is a slow string type of SQLAlchemy
                "left_seq": left.last_seq,
                "left_hash": left.head_hash,
                "last_seq": head.last_seq,
                "row_count": head.row_count,
                "head_hash": head.head_hash,
            }
            self.connection.put(_MOVE_HEAD, moved)
        self.connection.flush()

    def append(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """Add a row to the end of a chain."""
        head = self._memory.heads[table.name]
        seq = self._next_seq()
        whole: Row = {**rows.blank(table), **row}
        whole |= {"seq": seq, "prev_hash": head.head_hash}
        hashed = whole["hash"] = rows.written_hash_of(table, whole)
        if table is tables.intents:
            whole["seal"] = self._seal(table, whole, before=None)
            self._new[str(whole["intent_id"])] = self.connection.flushed
        self.connection.put(_insert_into(table), whole)
        self._move_head(table.name, Head(seq, head.row_count + 1, hashed))
        if table.name in tables.MUTABLE:
            self._memory.keep(table, whole)
        if self._memory.against is not None:
            self._memory.against.see_new(table, whole)

    def add_sealed(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """Add a row to a table without a chain, and seal it."""
        whole: Row = {**rows.blank(table), **row}
        whole["seal"] = self._seal(table, whole, before=None)
        self.connection.put(_insert_into(table), whole)
        self._memory.keep(table, whole)

    def change(self, table: sa.Table, key: Key, values: Mapping[str, Plain]) -> None:
        """Change columns of the row with that key, and seal it again."""
        stored = self._find(table, key)
        if stored is None:
            raise Contradicted(f"{table.name} has no row {', '.join(map(str, key))}")
        self._change_found(table, stored, values)

    def set_head(self, name: str, head: Head) -> None:
        """Set the end of something that has no chain of its own, and may not exist yet."""
        if name in self._memory.heads:
            self._move_head(name, head)
            return
        new: Row = {"name": name, "last_seq": head.last_seq, "row_count": head.row_count}
        self.connection.put(_insert_into(_CHAINS), {**new, "head_hash": head.head_hash})
        self._memory.heads[name] = head

    def find_intent(self, intent_id: str) -> Row | None:
        """An intent as it is stored now."""
        return self._find(tables.intents, (intent_id,))

    def reason_against(self, send: Send) -> str | None:
        """Return why a send may not begin, by what is stored before it; None if it may."""
        if self.epoch != send.epoch:
            return str(LeaseLost(stored=self.epoch, ours=send.epoch))
        attempt = send.attempt
        if attempt.verb == "DELETE":
            return None
        intent = self.find_intent(attempt.intent_id)
        if intent is None:
            return f"intent {attempt.intent_id} is not in the journal"
        if WHOLE_MAX in {intent["quantity"], intent["limit_price"]}:  # its row does not explain it
            return f"intent {attempt.intent_id} has a number that no database holds"
        if self._memory.against is None:
            self._memory.against = Against(self.connection.rows)
        return self._memory.against.reason_against(send, intent, self.connection.rows)

    def _move_intent(self, entry: IntentMoved) -> None:
        """Refuse a move that is missing in the table of send states; one already made is only
        recorded.
        """
        stored = self.find_intent(entry.intent_id)
        if stored is None:
            raise Contradicted(f"intent {entry.intent_id} is not in the journal")
        state = SendState(str(stored["state"]))
        if state != entry.to_state:
            if entry.to_state not in SEND_MOVES[state] or entry.from_state != state:
                wanted = f"{entry.from_state} to {entry.to_state}"
                raise Contradicted(f"intent {entry.intent_id} is {state}; it can't move {wanted}")
            values = {
                "state": str(entry.to_state),
                "state_at": plain(entry.at),
                "state_reason": plain(entry.reason),
                "proof": plain(entry.proof),
            }
            self._change_found(tables.intents, stored, values)
        self.append(tables.transitions, rows.move_row(entry))

    def _store_polled(self, entry: OrderResultSeen) -> None:
        """Skip a polled element that equals the last one of that order, and is no more ours."""
        row, polled = rows.row_of(entry), self._memory.polled
        if entry.order_id not in polled:
            last = self.connection.rows(_LAST_POLLED, {"its_order_id": row["order_id"]})
            self._memory.keep_polled(entry.order_id, tuple(last[0]) if last else ())
        if (element := (row["raw"], row["intent_id"])) != polled[entry.order_id]:
            self._memory.keep_polled(entry.order_id, element)
            self.append(tables.order_results, row)

    def _store_order(self, entry: OrderUpdated) -> None:
        """The intent refers to its newest order, as an amendment may change the id."""
        row = rows.row_of(entry)
        row["updated_seq"] = self._next_seq()
        stored = self._find(tables.orders, key_of(tables.orders, row))
        if stored is not None:
            self._change_found(tables.orders, stored, row)
        else:
            row |= {"seq": row["updated_seq"], "first_at": row["at"]}
            self.add_sealed(tables.orders, row)
        intent = None if entry.intent_id is None else self.find_intent(entry.intent_id)
        if intent is not None and intent["order_id"] != row["order_id"]:
            self._change_found(tables.intents, intent, {"order_id": row["order_id"]})
        if self._memory.against is not None:
            self._memory.against.see_order(row, intent)

    def _trading_date_of(self, entry: Fill, entries: Sequence[Entry]) -> str | None:
        """Return the trading day of the fill's order: from this batch, else from the newest."""
        for other in entries:
            if isinstance(other, OrderUpdated) and other.order_id == entry.order_id:
                return other.trading_date.isoformat()
        key = {"its_order_id": entry.order_id, "its_account": entry.account}
        [[day]] = self.connection.rows(_NEWEST_DAY, key)
        return None if day is None else str(day)

    def _find(self, table: sa.Table, key: Key) -> Row | None:
        """Return a row as it is stored now."""
        if (kept := self._memory.rows.get(table.name, {}).get(key)) is not None:
            return kept
        values = zip(map(_its, _key_names(table)), key, strict=True)
        found = self.connection.rows(_row_of(table), dict(values))
        if not found:
            return None
        row = dict(zip(table.c.keys(), found[0], strict=True))
        self._memory.keep(table, row)
        return row

    def _change_found(self, table: sa.Table, stored: Row, values: Mapping[str, Plain]) -> None:
        whole, before = {**stored, **values}, stored["seal"]
        whole["seal"] = self._seal(table, whole, before=None if before is None else str(before))
        if table is tables.intents:
            if self._memory.against is not None:
                self._memory.against.see_intent(whole)
            if self._new.get(str(whole["intent_id"])) == self.connection.flushed:
                stored.update(whole)  # its insert is still pending, and takes the row as it is then
                return
        changed = {**values, "seal": whole["seal"], "left_seal": before}
        for name in _key_names(table):
            changed[_its(name)] = stored[name]
        self.connection.put(_change_in(table, tuple(values)), changed)
        self._memory.keep(table, whole)

    def _next_seq(self) -> int:
        self.last_seq += 1
        return self.last_seq

    def _seal(self, table: sa.Table, whole: Mapping[str, Plain], *, before: str | None) -> str:
        """Update the table's sum with the seal of a row, replacing the one `before`."""
        seal, name = rows.written_seal_of(table, whole), seals_of(table)
        head = self._memory.heads[name]
        total = summed(head.head_hash, less=before, plus=seal)
        self._move_head(name, Head(head.last_seq + 1, head.row_count + (before is None), total))
        return seal

    def _move_head(self, name: str, head: Head) -> None:
        self._left.setdefault(name, self._memory.heads[name])
        self._memory.heads[name] = head


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Cache the newest rows, up to the limit."""
    kept.pop(key, None)
    if len(kept) >= ROWS_KEPT:
        del kept[next(iter(kept))]
    kept[key] = value


@cache
def _insert_into(table: sa.Table) -> sa.Insert:
    return table.insert()


@cache
def _row_of(table: sa.Table) -> sa.Select[tuple[Plain, ...]]:
    return sa.select(table).where(*_its_key(table))


@cache
def _change_in(table: sa.Table, names: tuple[str, ...]) -> sa.Update:
    """Change the row if it still has the seal it was left with."""
    left = table.c.seal.is_not_distinct_from(given("left_seal"))
    changed = {name: given(name) for name in (*names, "seal")}
    return table.update().where(*_its_key(table), left).values(changed)


def _its_key(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == given(_its(name)) for name in _key_names(table)]


def _its(name: str) -> str:
    """The parameter compared with a key column."""
    return f"its_{name}"


@cache
def _key_names(table: sa.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


def key_of(table: sa.Table, row: Mapping[str, Plain]) -> Key:
    return tuple([row[name] for name in _key_names(table)])


def seals_of(table: sa.Table) -> str:
    """The row of `chains` that sums the seals of a table."""
    return f"{table.name}.seals"


def anchor_name(table: sa.Table) -> str:
    """The row of `chains` from which a chain continues once its beginning is deleted."""
    return f"{table.name}.pruned"


def kept_name(table: sa.Table) -> str:
    """The row of `chains` that sums the rows before the anchor that stay."""
    return f"{table.name}.kept"


def lock_heads(connection: WriterConnection) -> dict[str, Head]:
    """Return the ends of every chain, locked against other writers until the transaction ends."""
    found = connection.rows(_LOCKED_HEADS, {})
    return {
        str(name): Head(int(seq or 0), int(count or 0), str(hashed))
        for name, seq, count, hashed in found
    }


def read_heads(connection: sa.Connection) -> dict[str, Head]:
    """Return the ends of every chain."""
    return {name: Head(*where) for name, *where in connection.execute(_HEADS)}
