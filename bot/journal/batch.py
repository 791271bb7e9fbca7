"""One transaction of entries: numbers them, links them, stores them. All of them, or none.

It reads the heads of the chains at its start (locked until the commit) and writes them back at its
end, so the journal keeps no state in memory that could differ from what is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import (
    AccountSeen,
    AttemptFinished,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    OrderResultSeen,
    OrderUpdated,
    StateChanged,
    StrategySwitched,
    Transition,
)
from bot.domain.order import SEND_MOVES, SendState
from bot.journal import rows, tables
from bot.journal.encoding import Plain, link, plain, summed
from bot.journal.errors import Contradicted
from bot.journal.rows import Row

COUNTER: Final = "journal"
"""The row of `chains` that counts all entries; every transaction moves it."""
POLLS: Final = ("book", "detail")
_CHAINS: Final = tables.chains
_HEADS: Final = sa.select(
    _CHAINS.c.name, _CHAINS.c.last_seq, _CHAINS.c.row_count, _CHAINS.c.head_hash
)
_LOCKED_HEADS: Final = _HEADS.with_for_update()
_MOVE_HEAD: Final = _CHAINS.update().where(_CHAINS.c.name == sa.bindparam("chain"))
"""Made once: what a statement costs to put together is most of what it costs."""
_LAST_POLLED: Final = (
    sa.select(tables.order_results.c.raw)
    .where(tables.order_results.c.order_id == sa.bindparam("its_order_id"))
    .where(tables.order_results.c.source.in_(POLLS))
    .order_by(tables.order_results.c.seq.desc())
    .limit(1)
)
_NEWEST_DAY: Final = (
    sa.select(sa.func.max(tables.orders.c.trading_date))
    .where(tables.orders.c.order_id == sa.bindparam("its_order_id"))
    .where(tables.orders.c.account == sa.bindparam("its_account"))
)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends."""

    last_seq: int
    row_count: int
    head_hash: str


class Batch:
    """The entries of one open transaction."""

    def __init__(self, connection: sa.Connection, entries: Sequence[Entry]) -> None:
        self.connection = connection
        self.entries = entries
        self._heads = lock_heads(connection)
        self._touched: set[str] = set()

    @property
    def heads(self) -> Mapping[str, Head]:
        """Where every chain ends with what was written so far."""
        return self._heads

    @property
    def last_seq(self) -> int:
        """The number of the last entry written so far."""
        return self._heads[COUNTER].last_seq

    def store(self) -> None:
        """Write every entry and the new heads."""
        for entry in self.entries:
            _STORE[type(entry)](self, entry)
        self._write_heads()

    def append(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """Add a row to the end of a chain."""
        head = self._heads[table.name]
        seq = self.next_seq()
        whole: Row = {**dict.fromkeys(rows.column_names(table)), **row, "seq": seq}
        whole["prev_hash"] = head.head_hash
        whole["hash"] = link(head.head_hash, rows.sealed_content(table, whole))
        if table.name == tables.intents.name:
            whole["seal"] = rows.seal_of(table, whole)
            self._move_sum(table, None, str(whole["seal"]))
        self.connection.execute(_insert_into(table), whole)
        self._move_head(table.name, Head(seq, head.row_count + 1, str(whole["hash"])))

    def next_seq(self) -> int:
        """Take the next number."""
        counter = self._heads[COUNTER]
        seq = counter.last_seq + 1
        self._move_head(COUNTER, Head(seq, counter.row_count + 1, counter.head_hash))
        return seq

    def add_sealed(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """Add a row to a table that is no chain, and seal it."""
        whole: Row = {**dict.fromkeys(rows.column_names(table)), **row}
        whole["seal"] = rows.seal_of(table, whole)
        self._move_sum(table, None, str(whole["seal"]))
        self.connection.execute(_insert_into(table), whole)

    def find(self, table: sa.Table, key: Mapping[str, Plain]) -> sa.RowMapping | None:
        """Read the row with that key."""
        query = _row_where(table, tuple(key))
        return self.connection.execute(query, _its(key)).mappings().one_or_none()

    def change(
        self, table: sa.Table, key: Mapping[str, Plain], values: Mapping[str, Plain]
    ) -> None:
        """Change columns of the row with that key, and seal it again."""
        stored = self.find(table, key)
        if stored is None:
            raise Contradicted(f"{table.name} has no row {', '.join(map(str, key.values()))}")
        self.change_found(table, key, stored, values)

    def change_found(
        self,
        table: sa.Table,
        key: Mapping[str, Plain],
        stored: sa.RowMapping,
        values: Mapping[str, Plain],
    ) -> None:
        """Change columns of the row that was found under that key, and seal it again."""
        whole: Row = {**stored, **values}
        sealed = {**values, "seal": rows.seal_of(table, whole)}
        self._move_sum(table, stored["seal"], str(sealed["seal"]))
        self.connection.execute(_change_where(table, tuple(key)), {**_its(key), **sealed})

    def _move_sum(self, table: sa.Table, before: str | None, after: str) -> None:
        """A seal takes the place of another one, or is new."""
        name = seals_of(table)
        head = self._heads[name]
        count = head.row_count + (before is None)
        total = summed(head.head_hash, less=before, plus=after)
        self._move_head(name, Head(head.last_seq + 1, count, total))

    def _move_head(self, name: str, head: Head) -> None:
        self._heads[name] = head
        self._touched.add(name)

    def _write_heads(self) -> None:
        if self._touched:
            moved = [_moved(name, self._heads[name]) for name in sorted(self._touched)]
            self.connection.execute(_MOVE_HEAD, moved)


def _moved(name: str, head: Head) -> Row:
    columns: Row = {"last_seq": head.last_seq, "row_count": head.row_count}
    return {"chain": name, **columns, "head_hash": head.head_hash}


@cache
def _insert_into(table: sa.Table) -> sa.Insert:
    return table.insert()


@cache
def _row_where(table: sa.Table, names: tuple[str, ...]) -> sa.Select[tuple[Plain, ...]]:
    return sa.select(table).where(*_same(table, names))


@cache
def _change_where(table: sa.Table, names: tuple[str, ...]) -> sa.Update:
    return table.update().where(*_same(table, names))


def _same(table: sa.Table, names: tuple[str, ...]) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == sa.bindparam(f"its_{name}") for name in names]


def _its(key: Mapping[str, Plain]) -> dict[str, Plain]:
    """A key as the parameters that `_same` compares with."""
    return {f"its_{name}": value for name, value in key.items()}


def seals_of(table: sa.Table) -> str:
    """The row of `chains` that adds up the seals of a table."""
    return f"{table.name}.seals"


def lock_heads(connection: sa.Connection) -> dict[str, Head]:
    """Where every chain ends, locked against other writers until the transaction is over."""
    return _heads(connection, _LOCKED_HEADS)


def read_heads(connection: sa.Connection) -> dict[str, Head]:
    """Where every chain ends."""
    return _heads(connection, _HEADS)


def _heads(connection: sa.Connection, query: sa.Executable) -> dict[str, Head]:
    found = connection.execute(query)
    return {name: Head(last_seq, row_count, hashed) for name, last_seq, row_count, hashed in found}


# ------------------------------------------------------------------------- one kind of entry each


def _store_plain(batch: Batch, entry: Entry) -> None:
    batch.append(rows.PLAIN_TABLES[type(entry)], rows.row_of(entry))


def _store_intent(batch: Batch, entry: IntentRecorded) -> None:
    batch.append(tables.intents, rows.intent_row(entry))


def _store_move(batch: Batch, entry: IntentMoved) -> None:
    """Refuse a move that the table of send states lacks; one already made is only remembered."""
    table, key = tables.intents, {"intent_id": entry.intent_id}
    stored = batch.find(table, key)
    if stored is None:
        raise Contradicted(f"intent {entry.intent_id} is not in the journal")
    if stored["state"] != entry.to_state:
        _require_move(entry, SendState(str(stored["state"])))
        values = {
            "state": str(entry.to_state),
            "state_at": plain(entry.at),
            "state_reason": plain(entry.reason),
            "proof": plain(entry.proof),
        }
        batch.change_found(table, key, stored, values)
    batch.append(tables.transitions, rows.move_row(entry))


def _require_move(entry: IntentMoved, stored: SendState) -> None:
    if entry.to_state not in SEND_MOVES[stored] or entry.from_state != stored:
        wanted = f"{entry.from_state} to {entry.to_state}"
        raise Contradicted(f"intent {entry.intent_id} is {stored}; it can't move {wanted}")


def _finish_attempt(batch: Batch, entry: AttemptFinished) -> None:
    row = rows.row_of(entry)
    values = {name: row[name] for name in ("outcome", "http_status", "code", "reason", "raw")}
    values |= {"finished_at": row["at"], "latency_ms": row["latency_ms"]}
    values["finished_seq"] = batch.next_seq()
    batch.change(tables.attempts, {"attempt_id": entry.attempt_id}, values)


def _store_result(batch: Batch, entry: OrderResultSeen) -> None:
    """An element of a poll that is the same as the last one polled of that order is not news."""
    row = rows.row_of(entry)
    if entry.source in POLLS and row["raw"] == _last_polled(batch, entry.order_id):
        return
    batch.append(tables.order_results, row)


def _last_polled(batch: Batch, order_id: str) -> str | None:
    return batch.connection.execute(_LAST_POLLED, _its({"order_id": order_id})).scalar_one_or_none()


def _store_order(batch: Batch, entry: OrderUpdated) -> None:
    table, row = tables.orders, rows.row_of(entry)
    row["updated_seq"] = batch.next_seq()
    key = {name: row[name] for name in ("account", "trading_date", "order_id")}
    stored = batch.find(table, key)
    if stored is not None:
        batch.change_found(table, key, stored, row)
    else:
        batch.add_sealed(table, {**row, "seq": row["updated_seq"], "first_at": row["at"]})
    if entry.intent_id is not None:
        _tie_order(batch, entry.intent_id, entry.order_id)


def _tie_order(batch: Batch, intent_id: str, order_id: str) -> None:
    """The newest order of an intent is the one it is known by: an amendment may change its id."""
    table, key = tables.intents, {"intent_id": intent_id}
    stored = batch.find(table, key)
    if stored is not None and stored["order_id"] != order_id:
        batch.change_found(table, key, stored, {"order_id": order_id})


def _store_transition(batch: Batch, entry: Transition) -> None:
    batch.append(tables.transitions, rows.transition_row(entry))


def _store_fill(batch: Batch, entry: Fill) -> None:
    batch.append(tables.fills, rows.fill_row(entry, _trading_date_of(batch, entry)))


def _trading_date_of(batch: Batch, entry: Fill) -> str | None:
    """The day of the fill's order: of this transaction's, else of the newest stored."""
    for other in batch.entries:
        if isinstance(other, OrderUpdated) and other.order_id == entry.order_id:
            return other.trading_date.isoformat()
    key = _its({"order_id": entry.order_id, "account": entry.account})
    return batch.connection.execute(_NEWEST_DAY, key).scalar_one_or_none()


def _store_state(batch: Batch, entry: StateChanged) -> None:
    batch.append(tables.halts, rows.state_row(entry))


def _store_switch(batch: Batch, entry: StrategySwitched) -> None:
    batch.append(tables.halts, rows.switch_row(entry))


def _store_snapshot(batch: Batch, entry: AccountSeen) -> None:
    batch.append(tables.account_snapshots, rows.snapshot_row(entry))


_STORE: Final[Mapping[type, Callable[..., None]]] = {
    **dict.fromkeys(rows.PLAIN_TABLES, _store_plain),
    IntentRecorded: _store_intent,
    IntentMoved: _store_move,
    AttemptFinished: _finish_attempt,
    OrderResultSeen: _store_result,
    OrderUpdated: _store_order,
    Transition: _store_transition,
    Fill: _store_fill,
    StateChanged: _store_state,
    StrategySwitched: _store_switch,
    AccountSeen: _store_snapshot,
}
