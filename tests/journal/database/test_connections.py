"""The writer's connection keeps its prepared statements, not too many, and leaves none behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.connections import connect
from bot.journal.database.engines import reading_engine, writing_engine
from bot.journal.database.postgres_connection import PREPARED_MAX, PostgresConnection
from bot.journal.database.writer_connection import COMPILED_MAX, WriterConnection
from bot.journal.errors import Contradicted
from bot.journal.journal import Journal
from tests.journal.facts import Story

ONE: sa.Select[tuple[int]] = sa.select(sa.literal_column("1"))
PLANNED: sa.Select[tuple[int]] = sa.select(sa.literal_column("count(*)")).select_from(
    sa.table("pg_prepared_statements")
)


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
