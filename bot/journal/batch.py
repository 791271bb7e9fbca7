"""One transaction of entries: numbers them, links them, stores them. All of them, or none.

It reads the heads of the chains at its start (locked until the commit) and writes them back at its
end, so the journal keeps no state in memory that could differ from what is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

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
from bot.journal import rows, tables
from bot.journal.encoding import Plain, link, plain, summed
from bot.journal.errors import Contradicted
from bot.journal.rows import Row

COUNTER: Final = "journal"
"""The row of `chains` that counts all entries; every transaction moves it."""
POLLS: Final = ("book", "detail")

# Statements are made once: what one costs to put together is most of what it costs.
_CHAINS: Final = tables.chains
_HEADS: Final = sa.select(
    _CHAINS.c.name, _CHAINS.c.last_seq, _CHAINS.c.row_count, _CHAINS.c.head_hash
)
_LOCKED_HEADS: Final = _HEADS.with_for_update()
_MOVE_HEAD: Final = _CHAINS.update().where(_CHAINS.c.name == sa.bindparam("chain"))
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
    """The entries of one open transaction. `heads` is where every chain ends with them."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.heads = lock_heads(connection)
        self._touched: set[str] = set()

    @property
    def last_seq(self) -> int:
        """The number of the last entry written so far."""
        return self.heads[COUNTER].last_seq

    def store(self, entries: Sequence[Entry]) -> None:
        """Write every entry."""
        for entry in entries:
            match entry:
                case IntentMoved():
                    self._move_intent(entry)
                case AttemptFinished():
                    row = {**rows.finished_row(entry), "finished_seq": self.next_seq()}
                    self.change(tables.attempts, {"attempt_id": entry.attempt_id}, row)
                case OrderResultSeen() if self._is_old(entry):
                    pass
                case OrderUpdated():
                    self._store_order(entry)
                case Fill():
                    self.append(
                        tables.fills, rows.fill_row(entry, self._trading_date_of(entry, entries))
                    )
                case _:
                    table, row_of = rows.APPENDED[type(entry)]
                    self.append(table, row_of(entry))

    def finish(self) -> None:
        """Write where the chains end now."""
        if self._touched:
            moved = [
                {
                    "chain": name,
                    "last_seq": self.heads[name].last_seq,
                    "row_count": self.heads[name].row_count,
                    "head_hash": self.heads[name].head_hash,
                }
                for name in sorted(self._touched)
            ]
            self.connection.execute(_MOVE_HEAD, moved)

    def append(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """Add a row to the end of a chain."""
        head = self.heads[table.name]
        seq = self.next_seq()
        whole: Row = {**dict.fromkeys(rows.column_names(table)), **row, "seq": seq}
        whole["prev_hash"] = head.head_hash
        hashed = whole["hash"] = link(head.head_hash, rows.sealed_content(table, whole))
        if table.name == tables.intents.name:
            whole["seal"] = self._seal(table, whole, before=None)
        self.connection.execute(_insert_into(table), whole)
        self._move_head(table.name, Head(seq, head.row_count + 1, hashed))

    def next_seq(self) -> int:
        """Take the next number."""
        counter = self.heads[COUNTER]
        seq = counter.last_seq + 1
        self._move_head(COUNTER, Head(seq, counter.row_count + 1, counter.head_hash))
        return seq

    def add_sealed(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """Add a row to a table that is no chain, and seal it."""
        whole: Row = {**dict.fromkeys(rows.column_names(table)), **row}
        whole["seal"] = self._seal(table, whole, before=None)
        self.connection.execute(_insert_into(table), whole)

    def change(
        self, table: sa.Table, key: Mapping[str, Plain], values: Mapping[str, Plain]
    ) -> None:
        """Change columns of the row with that key, and seal it again."""
        stored = self._find(table, key)
        if stored is None:
            raise Contradicted(f"{table.name} has no row {', '.join(map(str, key.values()))}")
        self._change_found(table, key, stored, values)

    def _move_intent(self, entry: IntentMoved) -> None:
        """Refuse a move that the table of send states lacks; one already made is only recorded."""
        key = {"intent_id": entry.intent_id}
        stored = self._find(tables.intents, key)
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
            self._change_found(tables.intents, key, stored, values)
        self.append(tables.transitions, rows.move_row(entry))

    def _is_old(self, entry: OrderResultSeen) -> bool:
        """A poll's element that equals the last one polled of that order is no news."""
        if entry.source not in POLLS:
            return False
        last = self.connection.execute(_LAST_POLLED, _its({"order_id": entry.order_id}))
        return plain(entry.raw) == last.scalar_one_or_none()

    def _store_order(self, entry: OrderUpdated) -> None:
        """The newest order of an intent is the one it is known by: an amendment may change the
        id.
        """
        row = rows.row_of(entry)
        row["updated_seq"] = self.next_seq()
        key = {name: row[name] for name in ("account", "trading_date", "order_id")}
        if (stored := self._find(tables.orders, key)) is not None:
            self._change_found(tables.orders, key, stored, row)
        else:
            row |= {"seq": row["updated_seq"], "first_at": row["at"]}
            self.add_sealed(tables.orders, row)
        if entry.intent_id is not None:
            key = {"intent_id": entry.intent_id}
            stored = self._find(tables.intents, key)
            if stored is not None and stored["order_id"] != entry.order_id:
                self._change_found(tables.intents, key, stored, {"order_id": entry.order_id})

    def _trading_date_of(self, entry: Fill, entries: Sequence[Entry]) -> str | None:
        """The day of the fill's order: of those written with it, else of the newest stored."""
        for other in entries:
            if isinstance(other, OrderUpdated) and other.order_id == entry.order_id:
                return other.trading_date.isoformat()
        key = _its({"order_id": entry.order_id, "account": entry.account})
        return self.connection.execute(_NEWEST_DAY, key).scalar_one_or_none()

    def _find(self, table: sa.Table, key: Mapping[str, Plain]) -> sa.RowMapping | None:
        query = _row_where(table, tuple(key))
        return self.connection.execute(query, _its(key)).mappings().one_or_none()

    def _change_found(
        self,
        table: sa.Table,
        key: Mapping[str, Plain],
        stored: sa.RowMapping,
        values: Mapping[str, Plain],
    ) -> None:
        seal = self._seal(table, {**stored, **values}, before=stored["seal"])
        update = _change_where(table, tuple(key))
        self.connection.execute(update, {**_its(key), **values, "seal": seal})

    def _seal(self, table: sa.Table, whole: Mapping[str, Plain], *, before: str | None) -> str:
        """Take the seal of a row into the table's sum, in the place of the one `before`."""
        seal, name = rows.seal_of(table, whole), seals_of(table)
        head = self.heads[name]
        total = summed(head.head_hash, less=before, plus=seal)
        self._move_head(name, Head(head.last_seq + 1, head.row_count + (before is None), total))
        return seal

    def _move_head(self, name: str, head: Head) -> None:
        self.heads[name] = head
        self._touched.add(name)


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
    return {name: Head(*where) for name, *where in connection.execute(_LOCKED_HEADS)}


def read_heads(connection: sa.Connection) -> dict[str, Head]:
    """Where every chain ends."""
    return {name: Head(*where) for name, *where in connection.execute(_HEADS)}
