"""Brings a database to the schema of this program, by the Alembic revisions in `migrations/`.

A migration is one transaction: it happens whole or not at all, on both databases. Alembic is
imported when there is something to migrate: it is slow to import, and most starts need none of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from bot.journal.engines import (
    database_errors,
    file_of,
    is_sqlite,
    make_private_file,
    writing_engine,
)
from bot.journal.errors import UnusableUrl
from bot.journal.schema import SchemaState, check, require_known

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["SchemaState", "check", "migrate", "newest_script"]

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_PLACES: Final = (_PACKAGE.parent / "migrations", _PACKAGE / "_shipped" / "migrations")
_LOCK: Final = 0x766E_626F_7400
"""Key of the advisory lock under which only one process migrates a PostgreSQL database."""


def migrate(url: str, *, script_location: Path | None = None) -> None:
    """Make the journal, or bring it up to date. A SQLite file is made for its owner alone.

    `script_location` is the directory of the revisions, by default the repository's or the wheel's.
    Raises Unreachable, UnusableUrl, or NeedsMigration for a schema of a later program or somebody
    else's; nothing is changed then.
    """
    from alembic import command

    if is_sqlite(url):
        make_private_file(file_of(url))
    engine = writing_engine(url)
    try:
        with database_errors(url), engine.begin() as connection:
            if not is_sqlite(url):
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            require_known(connection)
            command.upgrade(_configuration(connection, script_location), "head")
    finally:
        engine.dispose()


def newest_script(script_location: Path | None = None) -> str | None:
    """The newest revision in `migrations/`; a test holds it equal to SCHEMA."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(script_location or _shipped())).get_current_head()


def _configuration(connection: sa.Connection, script_location: Path | None) -> "Config":
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option(
        "script_location", str(script_location or _shipped()).replace("%", "%%")
    )
    configuration.attributes["connection"] = connection
    return configuration


def _shipped() -> Path:
    for place in _PLACES:
        if (place / "env.py").is_file():
            return place
    raise UnusableUrl(f"no migrations in {_PLACES[0]} or {_PLACES[1]}: the installation is broken")
