"""Connections to the journal's database: one kind that writes, one that cannot.

SQLite writes in WAL mode with `synchronous=FULL` and begins every transaction IMMEDIATE; PostgreSQL
with `synchronous_commit=on`. The journal's file is private. A reader never creates a file: a
journal that nobody has open is read without the WAL side files, and without a lock. If a bot begins
to write it meanwhile, what was read is of two moments: it is torn.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.pool import NullPool

from bot.journal.errors import Contradicted, Corrupt, Torn, Unreachable, UnusableUrl

CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_MS: Final = 30_000
BUSY_TIMEOUT_MS: Final = 5_000
IDLE_MAX_MS: Final = 10_000
"""When PostgreSQL ends an idle transaction of the writer, so that a stopped process locks nobody
out.
"""
READERS_MAX: Final = 4
"""How many journals of a kind a process reads alternately without creating a new engine."""
READINGS_MAX: Final = 3
"""How often a journal is read before it is given up that no bot begins to write it meanwhile."""
BEGIN_WRITING: Final = "BEGIN IMMEDIATE"
"""How a writing transaction of SQLite begins: it waits for the lock here, and never later."""
FORMS: Final = "write sqlite:///path/journal.db or postgresql+psycopg://user@host/database"
DAMAGED_SQLITE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
DAMAGED_POSTGRES: Final = frozenset({"XX001", "XX002"})
"""SQLSTATEs data_corrupted and index_corrupted."""
FULL_POSTGRES: Final = "53100"
"""SQLSTATE disk_full."""
BEYOND_LIMITS: Final = "54"
"""SQLSTATE class program_limit_exceeded: what is beyond a limit of PostgreSQL today is tomorrow."""
NO_RIGHT: Final = "42501"
"""SQLSTATE insufficient_privilege."""

_KEEPALIVE: Final = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 3_000,
}

T = TypeVar("T")


def parse(url: str) -> sa.URL:
    """Read a journal's URL: `sqlite:///path/journal.db` or `postgresql+psycopg://…`.

    Raises UnusableUrl; its message repeats no password.
    """
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise UnusableUrl(f"the journal's URL can't be read; {FORMS}") from error
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "postgresql+psycopg"}:
        raise UnusableUrl(f"a journal can't live in {parsed.drivername}; {FORMS}")
    if parsed.drivername == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise UnusableUrl("a journal needs a file: sqlite:///path/journal.db")
    return parsed


def is_sqlite(url: str) -> bool:
    """Return whether the journal is a file."""
    return parse(url).drivername == "sqlite"


def url_of(file: Path) -> str:
    """Return the URL of a SQLite journal, whatever its name holds."""
    url = sa.URL.create("sqlite", database=str(file))
    return url.render_as_string(hide_password=False)


def file_of(url: str) -> Path:
    """Return the file of a SQLite journal itself, even if the URL names a link to it: that is where
    SQLite keeps the log, and where the lease has to be.
    """
    database = parse(url).database
    assert database is not None
    return Path(database).resolve()


def folders_of(state_dir: Path, url: str) -> tuple[Path, ...]:
    """Return the folders whose disks a bot's records need: a PostgreSQL's own is on its server."""
    return (state_dir, file_of(url).parent) if is_sqlite(url) else (state_dir,)


def writing_engine(url: str) -> sa.Engine:
    """Return an engine with one connection that writes durably. It does not connect yet."""
    if not is_sqlite(url):
        settings = f"-c synchronous_commit=on -c idle_in_transaction_session_timeout={IDLE_MAX_MS}"
        return _postgres(url, settings, pool_size=1, max_overflow=0, pool_pre_ping=True)
    engine = sa.create_engine(
        "sqlite://",
        creator=_opener(file_of(url), "mode=rw"),
        poolclass=sa.QueuePool,
        pool_size=1,
        max_overflow=0,
        hide_parameters=True,
    )
    return _prepared(engine, ("journal_mode=WAL", "synchronous=FULL"), BEGIN_WRITING)


def reading_engine(url: str) -> sa.Engine:
    """Return an engine that cannot write; each connection sees one snapshot of the journal.

    It keeps no connection and is cached. Raises Unreachable if a SQLite file is missing.
    """
    if is_sqlite(url) and not file_of(url).is_file():
        raise Unreachable("no such file", database=str(file_of(url)), is_absent=True)
    return _kept_reading_engine(url)


# Most of the cost of a short look at a journal is compiling its queries, which an engine does once.
# It keeps no connection and no data, so it never gets stale.
@lru_cache(READERS_MAX)
def _kept_reading_engine(url: str) -> sa.Engine:
    if not is_sqlite(url):
        settings = "-c default_transaction_read_only=on"
        return _postgres(url, settings, isolation_level="REPEATABLE READ", poolclass=NullPool)
    path = file_of(url)
    log = path.with_name(path.name + "-wal")
    # If no writer has left a log beside the file, none is created.
    live, alone = _opener(path, "mode=ro"), _unlocked_opener(path)
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: live() if log.exists() else alone(),
        poolclass=NullPool,
        hide_parameters=True,
    )
    return _prepared(engine, ("query_only=ON",), "BEGIN")


def lock_engine(url: str) -> sa.Engine:
    """Return a PostgreSQL engine that closes its connection when it is returned."""
    return _postgres(url, "-c synchronous_commit=on", poolclass=NullPool)


class _Unlocked(sqlite3.Connection):
    """A connection to a file that nobody was writing when it was opened, and that nothing keeps as
    it was then.
    """

    path: Path
    before: tuple[int, int] | None


def _state_of(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size
    return None


def is_torn(connection: sa.Connection) -> bool:
    """Return whether the file was written while this connection read it without a lock."""
    raw = connection.connection.driver_connection
    return isinstance(raw, _Unlocked) and _state_of(raw.path) != raw.before


@contextmanager
def reading(url: str) -> Iterator[sa.Connection]:
    """Connect to read one snapshot of a journal. Raises Unreachable or Corrupt."""
    engine = reading_engine(url)
    with database_errors(url), engine.connect() as connection:
        try:
            with database_errors(url):
                yield connection
        except Corrupt as damage:
            if is_torn(connection):
                raise torn(url) from damage
            raise


def read_whole(url: str, work: Callable[[sa.Connection], T]) -> T:
    """Read a journal by `work`, again if that was torn. Raises what `reading` raises."""
    for _ in range(READINGS_MAX):
        with suppress(Torn), reading(url) as connection:
            found = work(connection)
            if not is_torn(connection):
                return found
    raise torn(url)


def torn(url: str) -> Torn:
    """Describe a journal that was written while it was read without a lock."""
    return Torn("a bot began to write it meanwhile: try again", database=str(file_of(url)))


@contextmanager
def one_transaction(url: str) -> Iterator[sa.Connection]:
    """Connect for one writing transaction. Raises Unreachable or Corrupt."""
    engine = writing_engine(url)
    try:
        with database_errors(url), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def make_private_file(path: Path) -> None:
    """Create the private journal file, in a private directory if that is new.

    An existing file that others may read is made private.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        reason, is_full = error.strerror or str(error), error.errno == errno.ENOSPC
        raise Unreachable(reason, database=str(path), is_full=is_full) from error


@contextmanager
def database_errors(url: str) -> Iterator[None]:
    """Turn a database's errors into the journal's own."""
    try:
        yield
    except (IntegrityError, DataError) as error:  # repeated, it would be refused again
        raise Contradicted(reason_of(error)) from error
    except DBAPIError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if (sqlstate or "").startswith(BEYOND_LIMITS):
            raise Contradicted(reason_of(error)) from error
        if isinstance(error, ProgrammingError) and sqlstate != NO_RIGHT:
            raise  # a statement that the database does not understand is our bug
        reason = reason_of(error)
        if sqlstate in DAMAGED_POSTGRES or sqlite_code(error.orig) in DAMAGED_SQLITE:
            raise Corrupt(f"{parse(url).database}: {reason}") from error
        is_full = sqlstate == FULL_POSTGRES or _is_full(error.orig)
        raise unreachable(url, reason, is_full=is_full) from error
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:  # of a copy or a shrinking, which pass SQLAlchemy by
        if sqlite_code(error) in DAMAGED_SQLITE:
            raise Corrupt(f"{parse(url).database}: {error}") from error
        raise unreachable(url, str(error), is_full=_is_full(error)) from error
    except UnicodeDecodeError as error:  # a stored text, or SQLite's own message that quotes one
        raise Corrupt(f"{parse(url).database}: a text in it can't be read ({error})") from error


def _is_full(error: BaseException | None) -> bool:
    """Return whether SQLite had no room: for a page, or for the `-shm` file of a start."""
    shm = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE
    return shm or sqlite_code(error) == sqlite3.SQLITE_FULL


def sqlite_code(error: BaseException | None) -> int:
    """The primary result code of SQLite's error; 0 for an error of another kind."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unreachable(url: str, reason: str, *, is_full: bool = False) -> Unreachable:
    """Describe which database cannot be reached, without its password."""
    parsed = parse(url)
    database = parsed.database or ""
    if parsed.drivername == "sqlite":
        return Unreachable(reason, database=database, is_full=is_full)
    return Unreachable(
        reason,
        database=database,
        host=parsed.host or _parameter(parsed, "host") or "localhost",
        port=parsed.port or _parameter(parsed, "port") or 5432,
        user=parsed.username or _parameter(parsed, "user"),
        is_full=is_full,
    )


def _parameter(url: sa.URL, name: str) -> str | None:
    values = url.normalized_query.get(name)
    return values[-1] if values else None


def reason_of(error: DBAPIError) -> str:
    """Return the database's own message, first line, without the address that the
    driver prepends.
    """
    lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
    return lines[0].rsplit("failed: ", 1)[-1]


def _postgres(url: str, settings: str, **keywords: object) -> sa.Engine:
    options = f"{settings} -c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC"
    arguments = {**_KEEPALIVE, "options": options}
    try:
        engine = sa.create_engine(
            parse(url), connect_args=arguments, hide_parameters=True, **keywords
        )
    except ImportError as error:
        raise UnusableUrl("PostgreSQL needs its driver: pip install 'vnbot[postgres]'") from error
    sa.event.listen(engine, "do_connect", _connect_to_any_text)
    return engine


def _connect_to_any_text(
    dialect: sa.Dialect, _record: object, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> object:
    """Connect to PostgreSQL. Raises UnusableUrl if it can't hold every text, before any is read, or
    the URL has a parameter that PostgreSQL does not know.
    """
    try:
        connection: Any = dialect.connect(*arguments, **keywords)
    except dialect.loaded_dbapi.ProgrammingError as error:
        reason = str(error).removeprefix("invalid dsn: ").strip()
        raise UnusableUrl(f"the journal's URL can't be used: {reason}; {FORMS}") from error
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in {"UTF8", None}:
        name = connection.info.dbname
        connection.close()
        raise UnusableUrl(
            f"the database '{name}' has the encoding {encoding}, and a journal needs UTF8: CREATE "
            "DATABASE name ENCODING 'UTF8' TEMPLATE template0, and name that in the URL"
        )
    return connection


def _opener(path: Path, query: str) -> Callable[[], sqlite3.Connection]:
    address = f"file:{quote(str(path))}?{query}"
    return lambda: sqlite3.connect(address, uri=True, check_same_thread=False)


def _unlocked_opener(path: Path) -> Callable[[], sqlite3.Connection]:
    address = f"file:{quote(str(path))}?mode=ro&immutable=1"

    def opened() -> sqlite3.Connection:
        before = _state_of(path)
        connection = sqlite3.connect(address, uri=True, check_same_thread=False, factory=_Unlocked)
        connection.path, connection.before = path, before
        return connection

    return opened


def _prepared(engine: sa.Engine, pragmas: tuple[str, ...], begin: str) -> sa.Engine:
    always = (f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON")

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # so the driver opens no transactions of its own
        for pragma in (*always, *pragmas):
            connection.execute(f"PRAGMA {pragma}")

    def start(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", start)
    return engine
