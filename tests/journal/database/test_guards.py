"""What was written stays: triggers refuse changes on both databases, whoever tries."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from bot.journal.database import tables
from bot.journal.database.engines import reading_engine, writing_engine
from bot.journal.journal import Journal
from tests.journal.facts import EVERY_KIND, after
from tests.journal.stored import close_day

APPEND_ONLY = [table for table in tables.CHAINED if table.name not in tables.MUTABLE]

NUMBERS = count(1_000)

WORDS = [
    ("decisions", "verdict"),
    ("transitions", "to_state"),
    ("order_results", "source"),
    ("halts", "to_state"),
    ("orders", "state"),
]


@pytest.fixture
def engine(db_url: str) -> Iterator[sa.Engine]:
    with opened(db_url) as engine:
        yield engine


@contextmanager
def opened(url: str) -> Iterator[sa.Engine]:
    engine = writing_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
async def written(journal: Journal, engine: sa.Engine, db_url: str) -> sa.Engine:
    await journal.write(EVERY_KIND)
    close_day(db_url, at=after(9))
    await journal.start_run(at=after(0), mode="paper", version="1", config_sha256="")
    return engine


def attempt(engine: sa.Engine, statement: sa.Executable | str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(statement) if isinstance(statement, str) else statement)


async def test_no_row_is_deleted(written: sa.Engine) -> None:
    for table in tables.metadata.tables.values():
        with pytest.raises(DBAPIError, match=f"{table.name}: rows are never deleted"):
            attempt(written, table.delete())


async def test_no_row_of_history_is_updated(written: sa.Engine) -> None:
    for table in APPEND_ONLY:
        with pytest.raises(DBAPIError, match=f"{table.name}: rows are never changed"):
            attempt(written, table.update().values(hash="0"))


async def test_what_was_asked_is_never_changed(written: sa.Engine) -> None:
    for table in (tables.intents, tables.attempts):
        for name in set(table.c.keys()) - tables.MUTABLE[table.name] - {"seal"}:
            with pytest.raises(DBAPIError, match=r"what was asked is never changed|already closed"):
                attempt(written, table.update().values({name: other_than(table.c[name])}))


def other_than(column: sa.Column[object]) -> sa.ColumnElement[object]:
    """A value that the column does not have."""
    if isinstance(column.type, sa.BigInteger):
        return sa.func.coalesce(column + 1, 1)
    return sa.func.coalesce(column + "x", "x")


async def test_an_attempt_is_finished_once(written: sa.Engine) -> None:
    with pytest.raises(DBAPIError, match="already closed"):
        attempt(written, tables.attempts.update().values(outcome="UNKNOWN"))


async def test_an_intent_is_posted_once_and_may_be_cancelled_again(written: sa.Engine) -> None:
    for verb in ("DELETE", "DELETE", "PUT", "PUT"):
        attempt(written, another_attempt(verb))

    with pytest.raises(IntegrityError):
        attempt(written, another_attempt("POST"))

    with written.connect() as connection:
        verbs = connection.execute(sa.select(tables.attempts.c.verb)).scalars().all()
    assert sorted(verbs) == ["DELETE", "DELETE", "POST", "PUT", "PUT"]


def another_attempt(verb: str) -> sa.Insert:
    """An attempt of the same intent, with everything that must be its own."""
    table, new = tables.attempts, f"{verb}-{next(NUMBERS)}"
    own: dict[str, sa.ColumnElement[object]] = {
        name: sa.literal(new) for name in ("attempt_id", "nonce", "prev_hash", "hash")
    }
    own |= {"verb": sa.literal(verb), "seq": sa.literal(next(NUMBERS))}
    first = sa.select(*(own.get(column.name, column) for column in table.c))
    return table.insert().from_select(list(table.c.keys()), first.where(table.c.verb == "POST"))


async def test_a_run_is_ended_once(written: sa.Engine, journal: Journal) -> None:
    await journal.end_run(1, "SIGTERM", at=after(60))

    with pytest.raises(DBAPIError, match="already closed"):
        attempt(written, tables.runs.update().values(end_reason="nothing happened"))


def test_no_row_of_sqlite_is_replaced(sqlite_url: str) -> None:
    row = "(1, 'a', 'K', 't', '{}', NULL, 'p', 'h')"
    with opened(sqlite_url) as engine:
        attempt(engine, f"INSERT INTO notes VALUES {row}")

        with pytest.raises(DBAPIError, match="rows are never changed"):
            attempt(engine, f"INSERT OR REPLACE INTO notes VALUES {row}")


@pytest.mark.postgres
def test_no_table_of_postgres_is_truncated(postgres_url: str) -> None:
    with (
        opened(postgres_url) as engine,
        pytest.raises(DBAPIError, match="rows are never deleted"),
    ):
        attempt(engine, "TRUNCATE fills")


def test_a_reader_can_not_write(db_url: str) -> None:
    engine = reading_engine(db_url)

    with pytest.raises(DBAPIError, match=r"readonly|read-only"), engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM orders")


def test_a_word_outside_its_list_is_refused(engine: sa.Engine) -> None:
    for name, column in WORDS:
        table = tables.metadata.tables[name]
        row: dict[str, object] = {
            c.name: 0 if isinstance(c.type, sa.BigInteger) else "BUY" for c in table.columns
        }
        with pytest.raises(DBAPIError, match=f"{name}_.*_word"):
            attempt(engine, table.insert().values({**row, column: "NONSENSE"}))
