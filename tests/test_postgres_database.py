"""A database that tests use in turn is for each as new, or is thrown away loudly."""

from collections.abc import Iterator

import psycopg
import pytest

from bot.journal.journal import Journal
from tests.journal.facts import EVERY_KIND, after
from tests.journal.stored import close_day
from tests.postgres_database import ReusedDatabase, Spoilt, own_database, schema_of

pytestmark = pytest.mark.postgres

CHANGES = [
    "create table extra (x int)",
    "create sequence extra",
    "create index extra on fills (price)",
    "create function extra() returns int language sql as 'select 1'",
    "drop view v_pnl",
    "drop trigger fills_no_delete on fills",
    "alter table fills disable trigger fills_no_delete",
    "alter table fills add check (price > 0)",
    "alter table fills alter column price drop not null",
    "alter table fills rename column price to prices",
    "alter table fills rename to filled",
    "drop table alembic_version",
]


@pytest.fixture(scope="module")
def new(pg_server: str, pg_template: str) -> Iterator[str]:
    with own_database(pg_server, pg_template) as url:
        yield url


@pytest.fixture(scope="module")
def reused(pg_server: str, pg_template: str) -> Iterator[ReusedDatabase]:
    database = ReusedDatabase(pg_server, pg_template)
    yield database
    database.drop()


def contents(url: str) -> dict[object, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = 'public' order by 1"
        ).fetchall()
        return {
            name: connection.execute(f"select * from {name}".encode()).fetchall()
            for (name,) in tables
        }


async def test_after_a_test_it_holds_what_a_new_one_holds(new: str, reused: ReusedDatabase) -> None:
    journal = Journal.open(reused.url)
    await journal.start_run(at=after(0), mode="paper", version="1", config_sha256="")
    await journal.write(EVERY_KIND)
    close_day(reused.url, at=after(9))
    await journal.close()
    assert [name for name, rows in contents(reused.url).items() if not rows] == []

    reused.restore()

    assert contents(reused.url) == contents(new)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_schema_is_seen(change: str, new: str) -> None:
    with psycopg.connect(new, autocommit=True) as connection:
        before = schema_of(connection)

        with connection.transaction(force_rollback=True):
            connection.execute(change.encode())
            assert schema_of(connection) != before

        assert schema_of(connection) == before


def test_a_changed_schema_spoils_it(reused: ReusedDatabase) -> None:
    with psycopg.connect(reused.url, autocommit=True) as connection:
        connection.execute("create table extra (x int)")
    with pytest.raises(Spoilt, match="own_postgres_url"):
        reused.restore()

    with psycopg.connect(reused.url, autocommit=True) as connection:
        connection.execute("drop table extra")
    reused.restore()


def test_a_connection_that_is_left_open_spoils_it(reused: ReusedDatabase) -> None:
    with psycopg.connect(reused.url), pytest.raises(Spoilt, match="left connections open"):
        reused.restore(gone_s_max=0)

    reused.restore()
