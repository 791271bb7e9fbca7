"""Fixtures for every test: its own journal database, on SQLite and on PostgreSQL.

`BOT_TEST_POSTGRES=postgresql://user@host:port/` uses that server instead of a private one.
"""

import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.canaries import WHAT_TO_DO, leaks_in
from tests.faults.strikes import StrikeCounter
from tests.memory import OF_A_RUN, roomy_memory
from tests.postgres_database import ReusedDatabase, Spoilt, administer, own_database
from tests.postgres_server import private_postgres

# The same examples on every run; HYPOTHESIS_PROFILE=fuzz looks for new ones.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

LONGEST = ("tests/scenarios/", "tests/simulation/", "tests/faults/")


def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of `tmp_path` into memory, unless PYTEST_DEBUG_TEMPROOT is set; count how
    often each fault strikes.
    """
    config.pluginmanager.register(StrikeCounter(), "strikes")
    if memory := roomy_memory(OF_A_RUN):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect with the garbage collector off: nearly everything created stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the longest tests, so that no worker waits for another at the end. Of a test that
    is `sampled(n)` only every nth case is kept; `make prove` has the others.
    """
    cases = Counter[str]()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % sampled.args[0]:
                item.add_marker(pytest.mark.long)
            cases[test] += 1
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_left_anywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Search everything that this worker's tests have written, after the last of them."""
    yield
    stories = sys.modules.get("tests.story")
    told = stories.ON_THE_WIRE.leaks if stories else []
    folder = tmp_path_factory.getbasetemp()
    found = [*told, *leaks_in(folder)]
    lines = "\n".join(found[:50])
    assert not found, f"a secret is where it does not belong, in {folder}:\n{lines}\n{WHAT_TO_DO}"


@pytest.fixture
def hangup_is_heard() -> Iterator[None]:
    """Undo what `nohup make test` does to SIGHUP: what inherits it ignored keeps it so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


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
    """The name of a migrated database, which others are copied from."""
    from bot.journal.database.schema import migrate

    name = f"vnbot_template_{os.getpid()}"
    administer(pg_server, f"create database {name}")
    migrate(_for_sqlalchemy(pg_server + name))
    yield name
    administer(pg_server, f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, of which each test gets a copy."""
    from bot.journal.database.schema import migrate

    file = tmp_path_factory.mktemp("template") / "journal.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database of the test's own."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'journal.db')}"


@pytest.fixture(scope="session")
def pg_databases(pg_server: str, pg_template: str) -> Iterator[list[ReusedDatabase]]:
    """The database that tests use in turn; None before the first, and after one was spoilt."""
    databases: list[ReusedDatabase] = []
    yield databases
    for database in databases:
        database.drop()


@pytest.fixture
def postgres_url(
    pg_server: str, pg_template: str, pg_databases: list[ReusedDatabase]
) -> Iterator[str]:
    """A migrated PostgreSQL database with nothing in it. The test carries the mark `postgres`.

    A test that changes its schema asks for `own_postgres_url`; this one is the next test's too.
    """
    if not pg_databases:
        pg_databases.append(ReusedDatabase(pg_server, pg_template))
    [database] = pg_databases
    yield _for_sqlalchemy(database.url)
    try:
        database.restore()
    except Spoilt:
        pg_databases.pop().drop()
        raise


@pytest.fixture
def own_postgres_url(pg_server: str, pg_template: str) -> Iterator[str]:
    """A migrated PostgreSQL database that no other test sees."""
    with own_database(pg_server, pg_template) as url:
        yield _for_sqlalchemy(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def db_url(request: pytest.FixtureRequest) -> str:
    """A migrated database with nothing in it; the test runs once on each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def own_db_url(request: pytest.FixtureRequest) -> str:
    """A migrated database for a test that changes its schema; the test runs once on each kind."""
    prefix = {"sqlite": "", "postgres": "own_"}[request.param]
    url: str = request.getfixturevalue(f"{prefix}{request.param}_url")
    return url


def _for_sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
