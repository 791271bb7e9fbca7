"""Whatever is changed, removed or swapped behind the journal's back is found."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.encoding import Plain
from bot.journal.database.engines import writing_engine
from bot.journal.database.schema import check
from bot.journal.errors import Corrupt, NeedsMigration, Unreachable
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import (
    GONE_ON_FROM,
    GUARDS,
    VerifyReport,
    damage_of,
    heads_now,
    missing_guards,
    verify,
)
from bot.journal.writing.heads import KeptHeads
from bot.journal.writing.rows import seal_of, sealed_content
from tests.journal.facts import EVERY_KIND, Story, after, but
from tests.journal.forging import without_guards
from tests.journal.stored import close_day, url_of, written_once

TRIALS = 40
COVERED = [*tables.CHAINED, tables.orders, tables.runs]


async def fill(url: str) -> None:
    """Write a few orders and everything else."""
    journal = Journal.open(url)
    run_id = await journal.start_run(at=after(0), mode="paper", version="1", config_sha256="ab")
    for number in (1, 2):
        story = Story(number, price=27_000 + 50 * number)
        for entries in story.placed():
            await journal.write(entries)
        await journal.write(story.filled(500, position=500 * number))
    await journal.write([but(entry) for entry in EVERY_KIND])
    close_day(url, at=after(9))
    await journal.end_run(run_id, "stopped", at=after(60))
    await journal.close()


@pytest.fixture(scope="module")
def filled(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_once(sqlite_template, tmp_path_factory.mktemp("filled"), fill)


@pytest.fixture
def filled_url(filled: Path, tmp_path: Path) -> str:
    """A filled SQLite journal of the test's own, `tmp_path / "journal.db"`."""
    return url_of(Path(shutil.copy(filled, tmp_path / filled.name)))


@pytest.fixture
async def written(db_url: str) -> str:
    await fill(db_url)
    return db_url


def behind_its_back(url: str, *statements: sa.Executable | str) -> None:
    """Change rows as one who owns the database can: without its triggers."""
    engine = writing_engine(url)
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for (name,) in connection.exec_driver_sql(query).all():
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            connection.exec_driver_sql("SET session_replication_role = replica")
        for statement in statements:
            connection.execute(sa.text(statement) if isinstance(statement, str) else statement)
    engine.dispose()


async def test_a_journal_left_alone_is_whole(written: str) -> None:
    report = verify(written)

    assert report.problems == ()
    assert (report.orders, report.fills, report.is_whole) == (3, 3, True)
    assert report.events > 30


def test_a_new_journal_is_whole(db_url: str) -> None:
    assert verify(db_url) == VerifyReport(0, 0, 0, ())


async def test_an_unfinished_order_is_whole(db_url: str) -> None:
    journal = Journal.open(db_url)
    story = Story()
    await journal.write([story.decision, story.recorded])
    await journal.write(story.sending)
    await journal.write([story.moved(SendState.SENDING, SendState.UNKNOWN)])
    await journal.close()

    assert verify(db_url).problems == ()


@pytest.mark.parametrize("table", COVERED, ids=lambda table: table.name)
def test_every_column_is_under_the_hash_or_the_seal(table: sa.Table) -> None:
    names = set(table.c.keys()) - tables.LINKS
    row: dict[str, Plain] = {**dict.fromkeys(names, "1"), "hash": "h"}

    for name in names:
        changed = {**row, name: "2"}
        assert (sealed_content(table, changed) != sealed_content(table, row)) or (
            seal_of(table, changed) != seal_of(table, row)
        )


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM transitions WHERE seq = (SELECT min(seq) FROM transitions)", "is broken"),
        ("DELETE FROM transitions WHERE seq = (SELECT max(seq) FROM transitions)", "do not end"),
        ("DELETE FROM decisions WHERE seq = (SELECT max(seq) FROM decisions)", "do not end"),
        ("DELETE FROM orders WHERE order_id = 'ORD10000001'", "has fills and no row"),
        ("UPDATE attempts SET outcome = NULL, seal = NULL", "attempts attempt-1: the row was"),
        ("UPDATE intents SET state = 'NOT_SENT'", "intents L-0001: the row was changed"),
        ("UPDATE transitions SET to_state = 'FILLED' WHERE machine = 'order'", "was changed"),
        ("UPDATE orders SET executed_quantity = 499", "executed 499 for"),
        ("UPDATE chains SET row_count = 1 WHERE name = 'journal'", "entries were counted"),
        ("UPDATE runs SET mode = 'live'", "runs 1: the row was changed"),
        ("DELETE FROM runs", "runs: the seals of 0 rows do not add up"),
        ("UPDATE lease SET epoch = -1", "lease: its epoch is -1, but a run had 0 already"),
    ],
)
def test_what_was_done_to_it_is_said(filled_url: str, statement: str, found: str) -> None:
    behind_its_back(filled_url, statement)

    assert found in "\n".join(verify(filled_url).problems)


@pytest.mark.postgres
async def test_what_was_done_to_postgres_is_said_too(postgres_url: str) -> None:
    await fill(postgres_url)

    behind_its_back(
        postgres_url,
        "DELETE FROM decisions WHERE seq = (SELECT max(seq) FROM decisions)",
        "UPDATE transitions SET note = 'x' WHERE machine = 'order'",
        "UPDATE orders SET executed_quantity = 499",
        "DELETE FROM orders WHERE order_id = 'ORD10000001'",
    )

    problems = "\n".join(verify(postgres_url).problems)
    for found in ("do not end", "was changed", "executed 499 for", "has fills and no row"):
        assert found in problems


def test_triggers_that_were_dropped_are_named(own_db_url: str) -> None:
    engine = writing_engine(own_db_url)
    on = "" if engine.dialect.name == "sqlite" else " ON fills"
    with engine.begin() as connection:
        assert missing_guards(connection) == []
        connection.exec_driver_sql(f"DROP TRIGGER fills_no_update{on}")
        connection.exec_driver_sql(f"DROP TRIGGER fills_no_delete{on}")
    engine.dispose()

    [problem] = verify(own_db_url).problems

    assert problem.endswith("are missing: fills_no_delete, fills_no_update")


def test_every_trigger_of_the_migrations_is_watched(db_url: str) -> None:
    catalogue = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }
    engine = writing_engine(db_url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql(catalogue[engine.dialect.name]).scalars().all()
    engine.dispose()

    assert set(found) == GUARDS[engine.dialect.name]


def test_swapped_rows_are_found(filled_url: str) -> None:
    behind_its_back(
        filled_url,
        "UPDATE transitions SET seq = -seq WHERE machine = 'send'",
        "UPDATE transitions SET seq = 1000 + seq WHERE seq < 0",
    )

    assert not verify(filled_url).is_whole


def test_a_changed_byte_of_a_stored_text_is_found(filled_url: str, tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    whole = file.read_bytes()
    texts = [b"bids 4.6x asks", b'"error_code"', b"the broker said so", b"9a319a31", b"earnings"]

    for text in texts:
        at = whole.index(text) + 2
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not verify(filled_url).is_whole, text
    file.write_bytes(whole)
    assert verify(filled_url).is_whole


def test_a_random_byte_of_used_space_is_found_or_harmless(filled_url: str, tmp_path: Path) -> None:
    """A byte that no query can see (free space, unused page ends) changes nothing that is told."""
    file = tmp_path / "journal.db"
    whole, told = file.read_bytes(), contents(file)
    source = random.Random(7)

    for _ in range(TRIALS):
        at = source.randrange(100, len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert not seems_whole(filled_url) or contents(file) == told, f"byte {at}"
    file.write_bytes(whole)


def seems_whole(url: str) -> bool:
    """What a person would believe: verify says so, and does not stop with an error."""
    try:
        return verify(url).is_whole
    except (Unreachable, NeedsMigration):
        return False


def contents(file: Path) -> list[object]:
    """Every row of every table that is history."""
    connection = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    try:
        return [connection.execute(f"SELECT * FROM {table.name}").fetchall() for table in COVERED]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    finally:
        connection.close()


def test_checking_changes_no_file(filled_url: str, tmp_path: Path) -> None:
    before = files(tmp_path)

    verify(filled_url)

    assert files(tmp_path) == before


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _kept(filled_url: str) -> KeptHeads:
    return heads_now(filled_url, after(60))


def test_a_whole_journal_has_no_damage(filled_url: str) -> None:
    assert damage_of(filled_url, None, 1) == ()
    assert damage_of(filled_url, _kept(filled_url), 1) == ()


@pytest.mark.parametrize("table", [*GONE_ON_FROM, tables.orders], ids=lambda each: each.name)
def test_a_row_that_a_start_goes_on_from_was_changed(filled_url: str, table: sa.Table) -> None:
    kept = _kept(filled_url)
    column = "reason" if "reason" in table.c and table.name == "halts" else "symbol"
    column = column if column in table.c else "target"
    with without_guards(filled_url) as connection:
        connection.execute(table.update().values({column: "XXX"}))

    found = damage_of(filled_url, kept, 1)

    assert any("was changed" in each for each in found)


def test_a_row_that_was_written_since_the_heads_were_kept_is_checked_in_every_table(
    filled_url: str,
) -> None:
    kept = KeptHeads(after(0), "journal.db", 1, None, {})
    with without_guards(filled_url) as connection:
        connection.execute(tables.notes.update().values(text="nothing happened"))

    assert any("notes" in each for each in damage_of(filled_url, kept, 1))


def test_an_end_that_was_cut_off_is_known_by_the_heads(filled_url: str) -> None:
    kept = _kept(filled_url)
    notes = tables.notes
    with without_guards(filled_url) as connection:
        newest = connection.execute(sa.select(sa.func.max(notes.c.seq))).scalar_one()
        connection.execute(notes.delete().where(notes.c.seq == newest))

    assert any(each.startswith("notes ") for each in damage_of(filled_url, kept, 1))


def test_an_older_copy_is_known_by_the_epoch_of_the_lease(filled_url: str) -> None:
    heads = _kept(filled_url)
    kept = KeptHeads(heads.at, heads.journal, heads.run, 7, heads.heads)

    assert damage_of(filled_url, kept, 8) == ()
    [found] = damage_of(filled_url, kept, 7)
    assert "older copy of the journal" in found


def test_an_index_that_misses_a_row_is_damage(filled_url: str, tmp_path: Path) -> None:
    file, kept = tmp_path / "journal.db", _kept(filled_url)
    with closing(sqlite3.connect(file)) as connection:
        where = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'intents_by_order'"
        ).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    pages = bytearray(file.read_bytes())
    end = where * size
    pages[end - 3] ^= 1  # in the cells, which fill a page from its end
    file.write_bytes(pages)

    found = damage_of(filled_url, kept, 1)

    assert found
    assert "intents_by_order" in found[0]


def test_a_file_with_bytes_that_were_flipped_is_damaged(filled_url: str, tmp_path: Path) -> None:
    """Some bytes of every page of a copy are flipped, one copy after another."""
    file, chance = tmp_path / "journal.db", random.Random(1)
    whole, kept = file.read_bytes(), _kept(filled_url)
    missed = []
    for page in range(1, len(whole) // 4096):
        spoilt = bytearray(whole)
        for at in range(page * 4096, page * 4096 + 64):
            spoilt[at] ^= chance.randrange(1, 256)
        file.write_bytes(spoilt)
        for name in ("journal.db-wal", "journal.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        if not damage_of(filled_url, kept, 1):
            missed.append(page)

    assert missed == []


def test_a_definition_with_bytes_that_are_no_text_is_damage(
    filled_url: str, tmp_path: Path
) -> None:
    file, kept = tmp_path / "journal.db", _kept(filled_url)
    whole = file.read_bytes()
    assert b"'REFUSED'" in whole

    found = []
    for letter in (b"\xf9", b"\x01"):
        file.write_bytes(whole.replace(b"'REFUSED'", b"'REF" + letter + b"SED'"))
        found.append((damage_of(filled_url, kept, 1), verify(filled_url).problems))

    words = "the file is damaged: the definition of intents can't be read"
    assert all(words in damage and words in problems for damage, problems in found)


def test_a_file_whose_very_tables_have_names_that_are_no_text_is_corrupt(
    filled_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "journal.db"
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE \xf9\xf9BLE"))

    with pytest.raises(Corrupt):
        check(filled_url)


def test_an_account_is_named_as_it_may_be_shown(filled_url: str) -> None:
    with without_guards(filled_url) as connection:
        account = connection.execute(sa.select(tables.orders.c.account)).scalar()
        connection.execute(tables.orders.update().values(symbol="XXX"))

    told = "; ".join(damage_of(filled_url, None, 1))

    assert account is not None
    assert "the row was changed" in told
    assert account not in told
