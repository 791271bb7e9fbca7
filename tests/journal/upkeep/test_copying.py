"""A journal on the other kind of database says the same, row for row."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.journal.database import tables
from bot.journal.database.engines import reading
from bot.journal.database.schema import migrate
from bot.journal.errors import Contradicted, JournalError
from bot.journal.journal import Journal
from bot.journal.reading.asking import Unanswered, ask
from bot.journal.reading.export import export_directory
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import DecisionRow, What
from bot.journal.upkeep.copying import _differing, back_up, copy_rows
from bot.journal.upkeep.verify import heads_now, verify
from tests.journal.facts import EVERY_KIND, T0, Story, after, but
from tests.journal.forging import without_guards
from tests.journal.stored import close_day_in


async def write_a_day(url: str) -> None:
    journal = Journal.open(url)
    run_id = await journal.start_run(at=T0, mode="paper", version="1", config_sha256="ab")
    await journal.write([but(entry) for entry in EVERY_KIND])
    for number in (11, 12):
        story = Story(number, price=27_000 + 50 * number, start=60.0 * number)
        for entries in story.placed():
            await journal.write(entries)
        await journal.write(story.filled(500, position=500 * (number - 10)))
    await close_day_in(journal, at=after(900))
    await journal.end_run(run_id, "stopped", at=after(1000))
    await journal.close()


def all_of(url: str, folder: Path) -> list[object]:
    """Everything that the commands show of a journal, and its rows."""
    export_directory(url, folder, whats=tuple(What))
    found: list[object] = [each.read_bytes() for each in sorted(folder.iterdir())]
    with JournalReader(url) as reader:
        orders = reader.orders()
        found += [orders, reader.fills(), reader.positions(), reader.profits(), reader.runs()]
        found += [reader.timeline(order.id) for order in orders]
        with reader.decisions(DecisionRow) as page:
            found.append(list(page.rows))
    with reading(url) as connection:
        for table in tables.metadata.sorted_tables:
            if table is not tables.lease:
                order = list(table.primary_key)
                found.append(connection.execute(sa.select(table).order_by(*order)).all())
    return found


@pytest.mark.postgres
async def test_a_copy_says_the_same_there_and_back(
    sqlite_url: str, postgres_url: str, tmp_path: Path
) -> None:
    await write_a_day(sqlite_url)
    back = f"sqlite:///{tmp_path / 'back.db'}"
    migrate(back)
    steps: list[int] = []

    copy_rows(sqlite_url, postgres_url, steps.append)
    copy_rows(postgres_url, back, lambda _: None)

    here = all_of(sqlite_url, tmp_path / "here")
    assert all_of(postgres_url, tmp_path / "there") == here
    assert all_of(back, tmp_path / "again") == here
    heads = heads_now(sqlite_url, T0).heads
    assert heads_now(postgres_url, T0).heads == heads_now(back, T0).heads == heads
    assert verify(postgres_url, [heads_now(sqlite_url, T0)]).is_whole
    assert sum(steps) > len(EVERY_KIND)


@pytest.mark.postgres
async def test_a_backup_of_postgresql_is_a_file(postgres_url: str, tmp_path: Path) -> None:
    await write_a_day(postgres_url)

    copied = back_up(postgres_url, tmp_path / "backup.db", [heads_now(postgres_url, T0)])

    assert copied.report.is_whole
    kept = all_of(f"sqlite:///{tmp_path / 'backup.db'}", tmp_path / "there")
    assert kept == all_of(postgres_url, tmp_path / "here")


async def test_numbers_that_add_up_to_more_than_a_database_holds_are_copied(
    db_url: str, tmp_path: Path
) -> None:
    """The clock of a machine that has been up for long, in a journal with many attempts."""
    journal = Journal.open(db_url)
    for number in (11, 12, 13):
        story = Story(number, start=60.0 * number)
        await journal.write(story.placed()[0])
        await journal.write([but(story.started, boottime_ns=2**62 + number)])
    await journal.close()
    target = f"sqlite:///{tmp_path / 'target.db'}"
    migrate(target)

    copy_rows(db_url, target, lambda _: None)

    assert verify(target, [heads_now(db_url, T0)]).is_whole


@pytest.mark.parametrize("column", ["boottime_ns", "latency_ms"])
async def test_a_number_that_differs_is_found(sqlite_url: str, tmp_path: Path, column: str) -> None:
    await write_a_day(sqlite_url)
    target = f"sqlite:///{tmp_path / 'target.db'}"
    migrate(target)
    copy_rows(sqlite_url, target, lambda _: None)

    with without_guards(target) as connection:
        connection.exec_driver_sql(f"UPDATE attempts SET {column} = {column} + 1")

    with reading(sqlite_url) as old, reading(target) as new:
        assert _differing(old, new) == ["attempts"]


async def test_a_copy_that_fails_leaves_nothing(sqlite_url: str, tmp_path: Path) -> None:
    await write_a_day(sqlite_url)
    target = f"sqlite:///{tmp_path / 'target.db'}"
    migrate(target)
    journal = Journal.open(target)
    await journal.write([but(EVERY_KIND[0])])
    await journal.close()
    before = heads_now(target, T0)

    with pytest.raises(JournalError) as refusal:
        copy_rows(sqlite_url, target, lambda _: None)

    assert isinstance(refusal.value, Contradicted | JournalError)
    assert heads_now(target, T0) == before


@pytest.mark.postgres
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM notes",
        "SELECT 1; DELETE FROM notes",
        "SELECT 1; COMMIT",
        "WITH gone AS (DELETE FROM notes RETURNING 1) SELECT * FROM gone",
        "SET default_transaction_read_only = off",
        "SELEC 1",
    ],
)
def test_a_query_to_postgresql_only_reads(query: str, postgres_url: str) -> None:
    with pytest.raises(Unanswered):
        ask(postgres_url, query, limit=10)


def test_sums_are_whole_numbers_on_both(db_url: str) -> None:
    answer = ask(db_url, "SELECT name, SUM(row_count) AS n FROM chains GROUP BY name", limit=2)

    assert (answer.names, answer.has_more) == (("name", "n"), True)
    assert [row[1] for row in answer.rows] == [0, 0]
