"""The writer's connection keeps its prepared statements, not too many, and leaves none behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.connections import connect
from bot.journal.database.engines import (
    one_transaction,
    read_whole,
    reading,
    reading_engine,
    writing_engine,
)
from bot.journal.database.postgres_connection import PREPARED_MAX, PostgresConnection
from bot.journal.database.writer_connection import COMPILED_MAX, WriterConnection
from bot.journal.errors import Contradicted, Corrupt, Torn
from bot.journal.journal import Journal
from tests.journal.facts import Story

ONE: sa.Select[tuple[int]] = sa.select(sa.literal_column("1"))
PLANNED: sa.Select[tuple[int]] = sa.select(sa.literal_column("count(*)")).select_from(
    sa.table("pg_prepared_statements")
)
ROWS = 500
WIDE = "x" * 300
"""So wide that a journal has many pages."""


@pytest.fixture
def engine(postgres_url: str) -> Iterator[sa.Engine]:
    engine = writing_engine(postgres_url)
    yield engine
    engine.dispose()


def number(value: int) -> sa.Select[tuple[int]]:
    return sa.select(sa.literal_column(str(value)))


def planned(connection: WriterConnection) -> int:
    [[count]] = connection.rows(PLANNED, {})
    return int(count or 0)


async def test_a_write_that_fails_after_a_long_one_leaves_the_next_as_it_was(
    journal: Journal, db_url: str
) -> None:
    await journal.write([Story(n).decision for n in range(40)])

    with pytest.raises(Contradicted):
        await journal.write([Story(1).decision, Story(2).moved(SendState.READY, SendState.SENDING)])
    await journal.write([Story(1).decision])

    with reading_engine(db_url).connect() as stored:
        assert stored.scalar(sa.select(sa.func.count()).select_from(tables.decisions)) == 41


def test_statements_made_anew_each_time_do_not_pile_up(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    engine = writing_engine(f"sqlite:///{tmp_path}/journal.db")
    connection = connect(engine)

    found = [connection.rows(number(n), {}) for n in range(COMPILED_MAX + 5)]

    assert found == [[(n,)] for n in range(COMPILED_MAX + 5)]
    assert len(connection._compiled) == COMPILED_MAX
    connection.release()
    engine.dispose()


@pytest.mark.postgres
def test_postgres_keeps_a_bounded_number_of_statements(engine: sa.Engine) -> None:
    connection = connect(engine)
    assert isinstance(connection, PostgresConnection)
    connection.begin(ONE)

    found = [connection.rows(number(n), {}) for n in range(PREPARED_MAX + 5)]

    assert found == [[(n,)] for n in range(PREPARED_MAX + 5)]
    assert planned(connection) == PREPARED_MAX
    assert connection.rows(number(0), {}) == [(0,)]
    connection.rollback()
    connection.release()


@pytest.mark.postgres
def test_what_a_transaction_begins_with_does_not_push_out_its_first_statement(
    engine: sa.Engine,
) -> None:
    connection = connect(engine)
    connection.begin(number(1))
    for n in range(2, PREPARED_MAX + 1):
        connection.rows(number(n), {})
    connection.commit()

    connection.begin_later(number(0), lambda _: None)  # not planned yet, and there is no room

    assert connection.rows(number(1), {}) == [(1,)]
    connection.rollback()
    connection.release()


@pytest.mark.postgres
def test_a_connection_that_is_given_back_has_nothing_planned(engine: sa.Engine) -> None:
    first = connect(engine)
    first.begin(ONE)
    first.rows(number(7), {})
    first.commit()
    first.release()

    second = connect(engine)
    second.begin(ONE)

    assert planned(second) == 2  # what the new one has prepared itself
    second.rollback()
    second.release()


@pytest.mark.postgres
def test_a_rollback_keeps_what_is_planned(engine: sa.Engine) -> None:
    connection = connect(engine)
    connection.begin(ONE)
    before = planned(connection)
    connection.rollback()

    connection.begin(ONE)

    assert planned(connection) == before
    connection.rollback()
    connection.release()


@pytest.mark.postgres
def test_a_transaction_that_has_failed_is_never_taken_for_committed(engine: sa.Engine) -> None:
    connection = connect(engine)
    connection.begin(ONE)
    with pytest.raises(sa.exc.DBAPIError):
        connection.rows(number(1).where(sa.text("1 / 0 = 1")), {})

    with pytest.raises(AssertionError, match="is rolled back"):
        connection.commit()

    connection.release()


@pytest.fixture
def resting(sqlite_url: str) -> str:
    """A journal of some size that nobody has open."""
    with one_transaction(sqlite_url) as connection:
        connection.exec_driver_sql("CREATE TABLE pages (number INTEGER, words TEXT)")
        for number in range(ROWS):
            connection.exec_driver_sql(f"INSERT INTO pages VALUES ({number}, '{WIDE}')")
    return sqlite_url


def begin_to_write(url: str) -> None:
    """A bot begins, moves rows to other pages, and ends: nothing is left in a log."""
    with one_transaction(url) as connection:
        connection.exec_driver_sql("DELETE FROM pages WHERE number % 2")
        connection.exec_driver_sql(f"UPDATE pages SET words = words || '{WIDE}'")
        connection.exec_driver_sql("CREATE INDEX pages_by_number ON pages (number)")


def test_what_was_read_while_a_bot_began_to_write_is_read_again(resting: str) -> None:
    times: list[int] = []

    def sums(connection: sa.Connection) -> list[int]:
        found = connection.exec_driver_sql("SELECT count(*), length(words) FROM pages")
        first = list(found.one())
        if not times:
            begin_to_write(resting)
        times.append(1)
        return [*first, connection.exec_driver_sql("SELECT count(*) FROM pages").scalar_one()]

    assert read_whole(resting, sums) == [ROWS // 2, 2 * len(WIDE), ROWS // 2]
    assert len(times) == 2


def test_a_journal_that_is_written_at_each_reading_is_given_up(resting: str) -> None:
    def move(connection: sa.Connection) -> None:
        connection.exec_driver_sql("SELECT 1").scalar_one()
        with one_transaction(resting) as writing:
            writing.exec_driver_sql("UPDATE pages SET number = number + 1")

    with pytest.raises(Torn, match="a bot began to write it meanwhile: try again"):
        read_whole(resting, move)


def find_damage(url: str, before: Callable[[str], None]) -> None:
    with reading(url) as connection:
        connection.exec_driver_sql("SELECT 1").scalar_one()
        before(url)
        raise Corrupt("a page in another's place")


def test_damage_in_a_file_that_was_written_meanwhile_is_none(resting: str) -> None:
    with pytest.raises(Torn):
        find_damage(resting, begin_to_write)
    with pytest.raises(Corrupt):
        find_damage(resting, lambda _: None)


async def test_a_journal_beside_a_running_bot_is_read_once(journal: Journal, db_url: str) -> None:
    await journal.write([Story(1).decision])
    times: list[int] = []

    read_whole(db_url, lambda _: times.append(1))

    assert len(times) == 1
