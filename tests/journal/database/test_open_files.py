"""A journal's file that is removed or replaced while the bot has it open takes nothing any more."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.journal.database import tables
from bot.journal.database.connections import LOGS, RESCUED, RESCUED_MAX
from bot.journal.database.engines import file_of, reading
from bot.journal.errors import LeaseHeld, Unreachable
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.heads import label_of
from bot.journal.writing.lease import acquire
from bot.runtime.journal_file import this_process
from bot.runtime.upkeep import lease_of
from tests.journal.facts import Story


@pytest.fixture
def file(sqlite_url: str) -> Path:
    return file_of(sqlite_url)


@pytest.fixture
async def writer(sqlite_url: str) -> Journal:
    """A journal with one decision."""
    journal = Journal.open(sqlite_url)
    await journal.write([Story(1).decision])
    return journal


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected before the test asks for it.

    If the connection with the lost log ended only then, that log's old pages would be written.
    """
    gc.disable()
    yield
    gc.enable()


def decisions(file: Path) -> int:
    url = f"sqlite:///{file}"
    assert not verify(url).problems
    with reading(url) as stored:
        return stored.scalar(sa.select(sa.func.count()).select_from(tables.decisions)) or 0


def move(file: Path, to: Path) -> None:
    file.rename(to)


def remove(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    older = file.with_name("older.db")
    older.write_bytes(file.read_bytes())
    older.rename(file)


def copies(file: Path) -> list[Path]:
    return list(file.parent.glob("*rescued*"))


def modes(files: list[Path]) -> set[int]:
    return {each.stat().st_mode & 0o777 for each in files}


def rescued(file: Path, number: int = 1) -> Path:
    return file.with_name(RESCUED.format(file, number))


async def test_a_file_that_was_moved_away_takes_nothing_until_it_is_put_back(
    writer: Journal, file: Path
) -> None:
    away = file.with_name("away.db")
    move(file, away)

    for _ in range(2):
        with pytest.raises(Unreachable, match="it was removed while the bot had it open: put it"):
            await writer.write([Story(2).decision])
    move(away, file)
    await writer.write([Story(2).decision])
    await writer.close()

    assert decisions(file) == 2
    assert copies(file) == [rescued(file)]


async def test_what_a_removed_file_held_is_beside_it_for_its_owner(
    writer: Journal, file: Path
) -> None:
    remove(file)

    advice = f"move any -wal and -shm that are left away, put {rescued(file)} in its place and"
    with pytest.raises(Unreachable, match=advice):
        await writer.write([Story(2).decision])
    await writer.close()

    assert decisions(rescued(file)) == 1
    assert modes(copies(file)) == {0o600}


async def test_nothing_is_written_beside_a_file_that_took_the_place(
    writer: Journal, file: Path
) -> None:
    replace(file)

    with pytest.raises(Unreachable, match="it was replaced while the bot had it open"):
        await writer.write([Story(2).decision])
    await writer.close()

    assert decisions(rescued(file)) == 1


@pytest.mark.parametrize("has_room", [False, True])
async def test_without_a_copy_none_is_promised(writer: Journal, file: Path, has_room: bool) -> None:
    taken = [rescued(file, number) for number in range(1, RESCUED_MAX + (not has_room))]
    for each in taken:
        each.write_text("somebody's")
    remove(file)

    with pytest.raises(Unreachable) as raised:
        await writer.write([Story(2).decision])
    await writer.close()

    assert ("in its place" in str(raised.value)) is has_room
    assert {each.read_text() for each in taken} == {"somebody's"}


@pytest.mark.parametrize("end", LOGS)
@pytest.mark.usefixtures("uncollected")
async def test_a_log_that_was_removed_costs_nothing(writer: Journal, file: Path, end: str) -> None:
    remove(file.with_name(file.name + end))

    await writer.write([Story(2).decision])
    seen = decisions(file)
    await writer.close()
    gc.collect()

    assert (seen, decisions(file)) == (2, 2)


@pytest.mark.parametrize("sees", [1, 2], ids=["of before", "all"])
@pytest.mark.usefixtures("uncollected")
async def test_a_log_that_a_reader_needs_is_waited_for(
    writer: Journal, file: Path, sqlite_url: str, sees: int
) -> None:
    with reading(sqlite_url) as reader:
        if sees == 1:
            reader.execute(sa.select(tables.decisions)).all()
        await writer.write([Story(2).decision])
        if sees == 2:  # it needs nothing more of the log, but its index would name pages of it
            reader.execute(sa.select(tables.decisions)).all()
        remove(file.with_name(f"{file.name}-wal"))
        with pytest.raises(Unreachable, match="its log was removed while the bot had it open"):
            await writer.write([Story(3).decision])
    await writer.write([Story(3).decision])
    await writer.close()
    gc.collect()

    assert decisions(file) == 3


async def test_a_link_to_the_file_shows_what_the_bot_has_written(
    writer: Journal, file: Path
) -> None:
    link = file.parent / "elsewhere" / "linked.db"
    link.parent.mkdir()
    link.symlink_to(file)

    beside_the_bot = decisions(link)
    await writer.close()

    assert beside_the_bot == decisions(link) == 1


def test_a_link_to_the_file_has_the_lease_of_the_file_and_heads_of_its_own_name(
    sqlite_url: str, file: Path
) -> None:
    link = file.parent / "elsewhere" / "linked.db"
    link.parent.mkdir()
    link.symlink_to(file)

    with lease_of(sqlite_url), pytest.raises(LeaseHeld):
        acquire(f"sqlite:///{link}", this_process())

    assert label_of(f"sqlite:///{link}") == "linked.db"
