"""Forges a journal as somebody with our code and the whole database could, so that it is consistent
again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from bot.journal.database import tables
from bot.journal.database.encoding import Plain, link, summed
from bot.journal.writing.batch import seals_of
from bot.journal.writing.rows import seal_of, sealed_content

Row = dict[str, Plain]
Change = Callable[[list[Row]], list[Row]]


@contextmanager
def without_guards(url: str) -> Iterator[sa.Connection]:
    """Open a connection that no trigger, key or check hinders; all of them are
    restored afterwards.
    """
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            is_sqlite = engine.dialect.name == "sqlite"
            if is_sqlite:
                connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
                query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
                triggers = connection.exec_driver_sql(query).all()
                for name, _ in triggers:
                    connection.exec_driver_sql(f"DROP TRIGGER {name}")
            else:
                triggers = []
                connection.exec_driver_sql("SET session_replication_role = replica")
            yield connection
            for _, sql in triggers:
                connection.exec_driver_sql(sql)
            connection.commit()
    finally:
        engine.dispose()


def forge(connection: sa.Connection, table: sa.Table, change: Change) -> None:
    """Change the rows of a table, then recompute every hash, seal, sum and head of it."""
    order = table.c.seq if "seq" in table.c else table.c.run_id
    query = sa.select(table).order_by(order)
    rows = change([dict(row) for row in connection.execute(query).mappings()])
    rows.sort(key=lambda row: int(row[order.name] or 0))
    before = tables.GENESIS
    for row in rows:
        if "hash" in table.c:
            row["prev_hash"] = before
            row["hash"] = before = link(before, sealed_content(table, row))
        if row.get("seal"):
            row["seal"] = seal_of(table, row)
    connection.execute(table.delete())
    if rows:
        connection.execute(table.insert(), rows)
    if "hash" in table.c:
        last = max((int(row["seq"] or 0) for row in rows), default=0)
        set_head(connection, table.name, last_seq=last, row_count=len(rows), head_hash=before)
    if table in tables.SEALED:
        seals = [str(row["seal"]) for row in rows if row["seal"]]
        total = tables.GENESIS
        for seal in seals:
            total = summed(total, plus=seal)
        set_head(connection, seals_of(table), row_count=len(seals), head_hash=total)


def set_head(connection: sa.Connection, name: str, **values: Plain) -> None:
    """Write where a chain ends."""
    chains = tables.chains
    connection.execute(chains.update().where(chains.c.name == name).values(**values))
