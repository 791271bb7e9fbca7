"""Which schema a database has, and how it gets this program's: the revisions in `migrations/`.

A migration is one transaction: it happens whole or not at all, on both databases. Alembic is
imported when there is something to migrate: it is slow to import, and most starts need none of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from bot.journal.engines import file_of, is_sqlite, make_private_file, one_transaction, reading
from bot.journal.errors import NeedsMigration, UnusableUrl
from bot.journal.tables import SCHEMA

FOREIGN: Final = "none of ours beside other tables"
"""What is found in a database that another program already uses."""
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_SCRIPTS: Final = (_PACKAGE.parent / "migrations", _PACKAGE / "_shipped" / "migrations")
_LOCK: Final = 0x766E_626F_7400
"""Key of the advisory lock under which only one process migrates a PostgreSQL database."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema found in a database (None: no journal in it) and the one this program needs."""

    found: str | None
    wanted: str = SCHEMA

    @property
    def is_known(self) -> bool:
        """Whether this program can bring it up to date: none yet, or one of its own earlier ones.

        Revisions are numbered, so a later program's is not known either.
        """
        return self.found is None or (self.found.isdigit() and self.found <= self.wanted)

    @property
    def is_current(self) -> bool:
        """Whether the journal can be used as it is."""
        return self.found == self.wanted

    def as_error(self) -> NeedsMigration:
        """Say which schema was found and which one is needed."""
        return NeedsMigration(found=self.found, wanted=self.wanted, is_known=self.is_known)


def check(url: str) -> SchemaState:
    """Say which schema a journal has. Changes nothing; raises Unreachable."""
    with reading(url) as connection:
        return schema_of(connection)


def schema_of(connection: sa.Connection) -> SchemaState:
    """The newest migration that a database has had; FOREIGN where it is another program's."""
    inspected = sa.inspect(connection)
    if not inspected.has_table("alembic_version"):
        return SchemaState(FOREIGN if inspected.get_table_names() else None)
    version = sa.table("alembic_version", sa.column("version_num", sa.Text()))
    return SchemaState(connection.execute(sa.select(version.c.version_num)).scalar_one_or_none())


def require_schema(connection: sa.Connection) -> None:
    """Raise NeedsMigration unless the schema is this program's."""
    state = schema_of(connection)
    if not state.is_current:
        raise state.as_error()


@contextmanager
def reading_current(url: str) -> Iterator[sa.Connection]:
    """Connect to see one moment of a journal. Raises what `reading` raises, and NeedsMigration."""
    with reading(url) as connection:
        require_schema(connection)
        yield connection


def migrate(url: str, *, script_location: Path | None = None) -> None:
    """Make the journal, or bring it up to date. A SQLite file is made for its owner alone.

    `script_location` is the directory of the revisions, by default the repository's or the wheel's.
    Raises Unreachable, UnusableUrl, or NeedsMigration for a schema of a later program or somebody
    else's; nothing is changed then.
    """
    from alembic import command
    from alembic.config import Config

    if is_sqlite(url):
        make_private_file(file_of(url))
    with one_transaction(url) as connection:
        if not is_sqlite(url):
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        state = schema_of(connection)
        if not state.is_known:
            raise state.as_error()
        configuration = Config()
        folder = str(script_location or _shipped())
        configuration.set_main_option("script_location", folder.replace("%", "%%"))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")


def newest_script(script_location: Path | None = None) -> str | None:
    """The newest revision in `migrations/`; a test holds it equal to SCHEMA."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(script_location or _shipped())).get_current_head()


def _shipped() -> Path:
    for folder in _SCRIPTS:
        if (folder / "env.py").is_file():
            return folder
    raise UnusableUrl(f"no migrations in {' or '.join(map(str, _SCRIPTS))}: broken installation")
