"""A journal, open for writing, on each kind of database; SQLite's is copied from a migrated one."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.journal.journal import Journal
from bot.journal.migrate import migrate


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "journal.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database of the test's own."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'journal.db')}"


@pytest.fixture
async def journal(db_url: str) -> AsyncIterator[Journal]:
    opened = Journal.open(db_url)
    yield opened
    await opened.close()
