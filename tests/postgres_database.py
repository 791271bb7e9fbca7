"""PostgreSQL databases for the tests: one that every test uses in turn, and copies to spoil.

Making a database costs far more than emptying one, above all on a disk. So a test's database is
used by the next one too, when nothing can tell it from a new one: nobody is connected to it, its
schema was not touched, and its tables hold the rows that the migrations put there, and no others.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

import psycopg

GONE_S_MAX: Final = 60
"""How long the server may take to notice that a test has closed its connections."""
FIRST_OID: Final = 16_384
"""What is ours in a catalog; PostgreSQL's own objects have lower numbers."""
CATALOGS: Final = {
    "pg_attrdef": "oid",
    "pg_attribute": "attrelid",
    "pg_class": "oid",
    "pg_constraint": "oid",
    "pg_depend": "objid",
    "pg_event_trigger": "oid",
    "pg_index": "indexrelid",
    "pg_namespace": "oid",
    "pg_policy": "oid",
    "pg_proc": "oid",
    "pg_rewrite": "oid",
    "pg_trigger": "oid",
    "pg_type": "oid",
}
_TABLES: Final = "select tablename from pg_tables where schemaname = 'public'"
_SEQUENCES: Final = "select count(*) from pg_sequences"
_OTHERS: Final = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
# A change of the schema writes a row of a catalog, with a newer transaction's number, or takes
# one away.
_SCHEMA: Final = " union all ".join(
    f"select '{name}', count(*), max(xmin::text::bigint) from {name} where {oid} >= {FIRST_OID}"
    for name, oid in CATALOGS.items()
)

_numbers = itertools.count(1)
Connection = psycopg.Connection[tuple[object, ...]]


class Spoilt(AssertionError):
    """A test has left a database that the next one can't use."""


class ReusedDatabase:
    """A migrated database that is put back to what it was, test after test."""

    def __init__(self, server: str, template: str) -> None:
        self._making = own_database(server, template)
        self.url = self._making.__enter__()
        self._connection = _connect(self.url)
        # The triggers that keep history from being changed stay out of this connection's way.
        self._connection.execute("set session_replication_role = replica")
        assert _rows(self._connection, _SEQUENCES) == [(0,)], "a sequence would have to start again"
        tables = [str(name) for (name,) in _rows(self._connection, _TABLES)]
        self._delete_all = ";".join(f"delete from {name}" for name in tables)
        self._vacuum = f"vacuum {', '.join(tables)}"
        self._seeds = {name: seed for name in tables if (seed := _seed(self._connection, name))}
        self._schema = schema_of(self._connection)

    def restore(self, gone_s_max: float = GONE_S_MAX) -> None:
        """Make it as new. Raises Spoilt where a test should have asked for a database of its own.

        It is spoilt by a changed schema, and by a connection that is open after `gone_s_max`.
        """
        self._require_nobody(gone_s_max)
        if schema_of(self._connection) != self._schema:
            raise Spoilt("the test changed the schema: let it ask for own_postgres_url")
        self._connection.execute(self._delete_all.encode())
        self._connection.execute(self._vacuum.encode())  # rows lie in a new one's order again
        with self._connection.transaction():
            for name, seed in self._seeds.items():
                rows = f"json_populate_recordset(null::{name}, %s)"
                query = f"insert into {name} select * from {rows}"
                self._connection.execute(query.encode(), [seed])

    def drop(self) -> None:
        """Remove it, with whoever is still connected."""
        self._connection.close()
        self._making.__exit__(None, None, None)

    def _require_nobody(self, gone_s_max: float) -> None:
        deadline = time.monotonic() + gone_s_max
        while _rows(self._connection, _OTHERS) != [(0,)]:
            if time.monotonic() > deadline:
                raise Spoilt("the test left connections open: close them")
            time.sleep(0.001)


@contextlib.contextmanager
def own_database(server: str, template: str) -> Iterator[str]:
    """Yield the URL of a new copy of the database `template`."""
    name = f"vnbot_{os.getpid()}_{next(_numbers)}"
    administer(server, f"create database {name} template {template} strategy file_copy")
    try:
        yield server + name
    finally:
        administer(server, f"drop database {name} with (force)")


@contextlib.contextmanager
def replica(server: str, name: str) -> Iterator[Callable[[], None]]:
    """Copy a database as it is now; yield what puts the copy in its place, as a failover to a
    server that lacks the last commits does. Whoever is connected then has to connect again.
    """
    with _closed(server, name):
        copy = f"create database {name}_replica template {name} strategy file_copy"
        administer(server, copy)

    def fail_over() -> None:
        with _closed(server, name):
            administer(server, f"alter database {name} rename to {name}_before")
            administer(server, f"alter database {name}_replica rename to {name}")

    try:
        yield fail_over
    finally:
        for end in ("_replica", "_before"):
            administer(server, f"drop database if exists {name}{end} with (force)")


@contextlib.contextmanager
def _closed(server: str, name: str) -> Iterator[None]:
    """End all connections to a database, and let none begin meanwhile."""
    administer(server, f"alter database {name} allow_connections false")
    try:
        deadline = time.monotonic() + GONE_S_MAX
        with _connect(server + "postgres") as connection:
            others = f"from pg_stat_activity where datname = '{name}'"
            while _rows(connection, f"select pg_terminate_backend(pid) {others}"):
                assert time.monotonic() < deadline, f"{name} is still in use"
                time.sleep(0.001)
        yield
    finally:
        # Whatever bears the name now.
        administer(server, f"alter database {name} allow_connections true")


def administer(server: str, statement: str) -> None:
    """Run a statement that is about databases."""
    with _connect(server + "postgres") as connection:
        connection.execute(statement.encode())


def schema_of(connection: Connection) -> object:
    """What differs after any change of a table, view, index, trigger or function."""
    return _rows(connection, _SCHEMA)


def _connect(url: str) -> Connection:
    return psycopg.connect(url, autocommit=True)


def _rows(connection: Connection, query: str) -> list[tuple[object, ...]]:
    return connection.execute(query.encode()).fetchall()


def _seed(connection: Connection, table: str) -> str | None:
    """A table's rows as JSON; None where there are none."""
    ((seed,),) = _rows(connection, f"select json_agg(row)::text from {table} row")
    return None if seed is None else str(seed)
