"""A start looks at its journal: a damaged one, or an older copy, is told of."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.journal import tables
from bot.journal.at_start import GONE_ON_FROM, damage_of
from bot.journal.heads import KeptHeads
from bot.journal.verify import heads_now
from tests.journal.facts import after
from tests.journal.forging import without_guards
from tests.journal.stored import url_of, written_once
from tests.journal.test_verify import fill


@pytest.fixture(scope="module")
def filled(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_once(sqlite_template, tmp_path_factory.mktemp("filled"), fill)


@pytest.fixture
def url(filled: Path, tmp_path: Path) -> str:
    return url_of(Path(shutil.copy(filled, tmp_path / filled.name)))


def _kept(url: str) -> KeptHeads:
    return heads_now(url, after(60))


def test_a_whole_journal_has_no_damage(url: str) -> None:
    assert damage_of(url, None, 1) == ()
    assert damage_of(url, _kept(url), 1) == ()


@pytest.mark.parametrize("table", [*GONE_ON_FROM, tables.orders], ids=lambda each: each.name)
def test_a_row_that_a_start_goes_on_from_was_changed(url: str, table: sa.Table) -> None:
    kept = _kept(url)
    column = "reason" if "reason" in table.c and table.name == "halts" else "symbol"
    column = column if column in table.c else "target"
    with without_guards(url) as connection:
        connection.execute(table.update().values({column: "XXX"}))

    found = damage_of(url, kept, 1)

    assert any("was changed" in each for each in found)


def test_a_row_that_was_written_since_the_heads_were_kept_is_checked_in_every_table(
    url: str,
) -> None:
    kept = KeptHeads(after(0), "journal.db", 1, None, {})
    with without_guards(url) as connection:
        connection.execute(tables.notes.update().values(text="nothing happened"))

    assert any("notes" in each for each in damage_of(url, kept, 1))


def test_an_end_that_was_cut_off_is_known_by_the_heads(url: str) -> None:
    kept = _kept(url)
    notes = tables.notes
    with without_guards(url) as connection:
        newest = connection.execute(sa.select(sa.func.max(notes.c.seq))).scalar_one()
        connection.execute(notes.delete().where(notes.c.seq == newest))

    assert any(each.startswith("notes ") for each in damage_of(url, kept, 1))


def test_an_older_copy_is_known_by_the_epoch_of_the_lease(url: str) -> None:
    heads = _kept(url)
    kept = KeptHeads(heads.at, heads.journal, heads.run, 7, heads.heads)

    assert damage_of(url, kept, 8) == ()
    [found] = damage_of(url, kept, 7)
    assert "older copy of the journal" in found


def test_an_index_that_misses_a_row_is_damage(url: str, tmp_path: Path) -> None:
    file, kept = tmp_path / "journal.db", _kept(url)
    with sqlite3.connect(file) as connection:
        where = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'intents_by_order'"
        ).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    pages = bytearray(file.read_bytes())
    end = where * size
    pages[end - 3] ^= 1  # in the cells, which fill a page from its end
    file.write_bytes(pages)

    found = damage_of(url, kept, 1)

    assert found
    assert "intents_by_order" in found[0]


def test_a_file_with_bytes_that_were_flipped_is_damaged(url: str, tmp_path: Path) -> None:
    """Of every page of a copy some bytes are flipped, one copy after the other."""
    file, chance = tmp_path / "journal.db", random.Random(1)
    whole, kept = file.read_bytes(), _kept(url)
    missed = []
    for page in range(1, len(whole) // 4096):
        spoilt = bytearray(whole)
        for at in range(page * 4096, page * 4096 + 64):
            spoilt[at] ^= chance.randrange(1, 256)
        file.write_bytes(spoilt)
        for name in ("journal.db-wal", "journal.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        if not damage_of(url, kept, 1):
            missed.append(page)

    assert missed == []


def test_an_account_is_named_as_it_may_be_shown(url: str) -> None:
    with without_guards(url) as connection:
        account = connection.execute(sa.select(tables.orders.c.account)).scalar()
        connection.execute(tables.orders.update().values(symbol="XXX"))

    told = "; ".join(damage_of(url, None, 1))

    assert account is not None
    assert "the row was changed" in told
    assert account not in told
