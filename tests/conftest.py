"""What every test may ask for: a journal database of its own, on SQLite and on PostgreSQL.

`BOT_TEST_POSTGRES=postgresql://user@host:port/` uses that server instead of a private one.
"""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest

from tests.postgres_server import private_postgres

# The same examples on every run; HYPOTHESIS_PROFILE=fuzz looks for new ones.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def pg_server() -> Iterator[str]:
    """The URL of a server, ending in `/`; one for each xdist worker."""
    if url := os.environ.get("BOT_TEST_POSTGRES"):
        yield url
    else:
        with private_postgres() as url:
            yield url


@pytest.fixture(scope="session")
def pg_template(pg_server: str) -> Iterator[str]:
    """The name of a migrated database, which each test's own is copied from."""
    from bot.journal.migrate import migrate

    name = f"vnbot_template_{os.getpid()}"
    _administer(pg_server, f"create database {name}")
    migrate(_for_sqlalchemy(pg_server + name))
    yield name
    _administer(pg_server, f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, which each test's own is copied from."""
    from bot.journal.migrate import migrate

    file = tmp_path_factory.mktemp("template") / "journal.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database of the test's own."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'journal.db')}"


@pytest.fixture
def postgres_url(pg_server: str, pg_template: str) -> Iterator[str]:
    """A migrated PostgreSQL database of the test's own. The test carries the mark `postgres`."""
    name = f"vnbot_{os.getpid()}_{next(_numbers)}"
    _administer(pg_server, f"create database {name} template {pg_template} strategy file_copy")
    yield _for_sqlalchemy(pg_server + name)
    _administer(pg_server, f"drop database {name} with (force)")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def db_url(request: pytest.FixtureRequest) -> str:
    """A migrated database of the test's own; the test runs once on each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


def _for_sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _administer(server: str, statement: str) -> None:
    with psycopg.connect(server + "postgres", autocommit=True) as connection:
        connection.execute(statement.encode())
