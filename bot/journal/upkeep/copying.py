"""Copies of a journal: a backup of the file while the bot writes it, a copy of all rows into a
database of the other kind, and the contents of a folder's backups.

Both copies are all or nothing, and both are verified: every chain and every sum of the copy, and
where each ends. A backup contains a row if its chain continues behind that row and ends in a row of
ours: the hash there covers everything before it. Other files in the folder, including copies of
another journal, contain none.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from bot.journal.database import tables
from bot.journal.database.engines import (
    file_of,
    is_sqlite,
    make_private_file,
    one_transaction,
    read_whole,
    reading,
    url_of,
)
from bot.journal.database.schema import migrate, reading_current, require_schema
from bot.journal.errors import Contradicted, Corrupt, JournalError
from bot.journal.upkeep.verify import VerifyReport, stream, verify
from bot.journal.writing.batch import Head, read_heads
from bot.journal.writing.heads import KeptHeads

ROWS_AT_ONCE: Final = 2_000
BESIDE: Final = ".partly"
"""Suffix of a file that is not complete yet."""
_KEPT_ROWS: Final = (tables.chains, tables.lease)
"""Tables with rows that a new journal already has: these are updated."""
_UNWRITTEN: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE})
_MODULUS: Final = 2**31 - 1
"""Sums are of remainders: a clock in nanoseconds adds up to more than a database can hold."""

Step = Callable[[int], object]
"""Called with the number of further rows copied."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied, and the result of its check."""

    rows: int
    size: int
    report: VerifyReport


def back_up(url: str, file: Path, kept: Sequence[KeptHeads] = ()) -> Copied:
    """Copy a snapshot of a journal into a new private SQLite file.

    A journal in a file is copied page by page while it is written, any other row by row. It is
    compared with the `kept` heads. Raises FileExistsError, OSError, Unreachable or Corrupt: then
    there is no new file.
    """
    if file.exists():
        raise FileExistsError(file)
    beside = file.with_name(file.name + BESIDE)
    beside.unlink(missing_ok=True)
    target = url_of(beside)
    try:
        if is_sqlite(url):
            make_private_file(beside)
            _copy_pages(url, beside)
        else:
            migrate(target)
            copy_rows(url, target, lambda _: None)
        report = verify(target, kept)
        if not report.is_whole:
            raise Corrupt(f"{file}: {(*report.problems, *report.differences)[0]}")
        with reading(target) as connection:
            rows = sum(_count(connection, table) for table in tables.metadata.sorted_tables)
        _sync(beside)
        beside.rename(file)
        _sync(file.parent)
    finally:
        for each in (beside, *(beside.with_name(beside.name + end) for end in ("-wal", "-shm"))):
            each.unlink(missing_ok=True)
    return Copied(rows, file.stat().st_size, report)


def _sync(place: Path) -> None:
    """Sync a file, or the names in a folder, to disk, as the original may be deleted next."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_pages(url: str, file: Path) -> None:
    """Copy the whole file in one read, without blocking writers or waiting for them."""

    def copy(connection: sa.Connection) -> None:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection), "a journal in a file"
        with closing(sqlite3.connect(file, isolation_level=None)) as target:
            try:
                source.backup(target)
                target.execute("PRAGMA journal_mode=DELETE")
                target.execute("PRAGMA synchronous=FULL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode in _UNWRITTEN:  # nothing is written but the copy
                    raise OSError(str(error)) from error
                raise

    read_whole(url, copy)


def rows_in(url: str) -> int:
    """Return how many rows there are to copy. Raises NeedsMigration."""
    with reading_current(url) as connection:
        return sum(_count(connection, table) for table in tables.metadata.sorted_tables)


def require_empty(url: str) -> None:
    """Raise Contradicted if a journal has been written already, NeedsMigration if there is none."""
    with reading_current(url) as connection:
        for table in tables.metadata.sorted_tables:
            if table not in _KEPT_ROWS and (count := _count(connection, table)):
                raise Contradicted(f"it holds {count:,} rows of {table.name} already")


def copy_rows(source: str, target: str, step: Step) -> None:
    """Copy every row into a new journal, in one transaction, reporting progress."""
    with reading_current(source) as old, one_transaction(target) as new:
        require_schema(new)
        for table in tables.metadata.sorted_tables:
            order = [table.c.seq] if "seq" in table.c else list(table.primary_key)
            waiting: list[dict[str, object]] = []
            for row in stream(old, sa.select(table).order_by(*order)):
                waiting.append(dict(row))
                if len(waiting) == ROWS_AT_ONCE:
                    _put(new, table, waiting)
                    step(len(waiting))
                    waiting = []
            _put(new, table, waiting)
            step(len(waiting))
        if differing := _differing(old, new):
            raise Corrupt(f"{', '.join(differing)}: the copy is not the same; nothing was kept")


def _put(connection: sa.Connection, table: sa.Table, found: list[dict[str, object]]) -> None:
    if table in _KEPT_ROWS:
        names = set(connection.execute(sa.select(table.c.name)).scalars())
        for row in found:
            # A lease's expiry is by the clock of its own database.
            values = {**row, "until_ms": None} if table is tables.lease else row
            if row["name"] in names:
                change = table.update().where(table.c.name == row["name"]).values(**values)
                connection.execute(change)
        found = [row for row in found if row["name"] not in names]
    if found:
        connection.execute(table.insert(), found)


def _differing(old: sa.Connection, new: sa.Connection) -> list[str]:
    """Return the tables whose row counts or sums differ, and chains that end elsewhere."""
    found = []
    for table in tables.metadata.sorted_tables:
        numbers = [column for column in table.c if isinstance(column.type, sa.BigInteger)]
        if table is tables.lease:
            numbers = [table.c.epoch]
        sums = [tables.total(column % _MODULUS) for column in numbers]
        query = sa.select(sa.func.count(), *sums)
        query = query.select_from(table)
        if old.execute(query).one() != new.execute(query).one():
            found.append(table.name)
    if read_heads(old) != read_heads(new):
        found.append("chains")
    return found


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def remove(url: str) -> None:
    """Remove a SQLite file that a copy has begun."""
    path = file_of(url)
    for end in ("", "-wal", "-shm", ".lease"):
        path.with_name(path.name + end).unlink(missing_ok=True)


LOOKED_AT_MAX: Final = 10
"""How many files of a folder are examined, newest first."""

Saved = Mapping[str, Sequence[Head]]
"""For each chain, its end in each backup."""


def backups_in(folder: Path, url: str) -> list[Path]:
    """The newest files that may be backups of the journal at `url`, newest first. The journal
    itself, if it is in that folder, is none. Raises OSError.
    """
    own = file_of(url) if is_sqlite(url) else None
    copies = [
        each
        for each in folder.iterdir()
        if each.suffix == ".db" and not (own and own.exists() and own.samefile(each))
    ]
    found = [(each.stat().st_mtime_ns, each) for each in copies]
    return [each for _, each in sorted(found, reverse=True)[:LOOKED_AT_MAX]]


def saved_in(folder: Path, url: str) -> Saved:
    """Read the ends of the chains in a folder's backups of a journal. Raises OSError."""
    found: dict[str, list[Head]] = {}
    for file in backups_in(folder, url):
        try:
            with reading(url_of(file)) as connection:
                heads = read_heads(connection)
        except JournalError:  # not a journal, or a broken one: it contains nothing
            continue
        for name, head in heads.items():
            found.setdefault(name, []).append(head)
    return found
