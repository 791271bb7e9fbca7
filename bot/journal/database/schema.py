"""The schema of a database, and its migration to this program's by the revisions in `migrations/`.

A migration is one transaction: it happens completely or not at all, on both databases. Alembic is
imported only if there is something to migrate: it is slow to import, and most starts do not need
it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from bot.journal.database.engines import (
    database_errors,
    file_of,
    is_sqlite,
    lock_engine,
    make_private_file,
    one_transaction,
    reading,
)
from bot.journal.database.tables import SCHEMA, metadata
from bot.journal.errors import NeedsMigration, UnusableUrl

FOREIGN: Final = "none of ours beside other tables"
"""Reported for a database that another program already uses."""
_PACKAGE: Final = Path(__file__).resolve().parents[2]
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
        """Whether this program can migrate it: an empty database, or one of its own earlier
        schemas.

        Revisions are numbered; a later program's is not known either.
        """
        return self.found is None or (self.found.isdigit() and self.found <= self.wanted)

    @property
    def is_current(self) -> bool:
        """Whether the journal can be used without migration."""
        return self.found == self.wanted

    def as_error(self) -> NeedsMigration:
        """Return the error that names the schema found and the one needed."""
        return NeedsMigration(found=self.found, wanted=self.wanted, is_known=self.is_known)


def check(url: str) -> SchemaState:
    """Return a journal's schema. Changes nothing; raises Unreachable."""
    with reading(url) as connection:
        return schema_of(connection)


def why_unwritable(url: str) -> str:
    """Return why a journal can be read but not written; empty if nothing is in the way. Changes
    nothing. Raises Unreachable.
    """
    if is_sqlite(url):
        file = file_of(url)
        shut = [str(each) for each in (file, file.parent) if not os.access(each, os.W_OK)]
        return f"{shut[0]} can't be written to (permissions, or a read-only disk)" if shut else ""
    engine = lock_engine(url)
    with database_errors(url), engine.connect() as connection:
        if connection.scalar(sa.select(sa.func.pg_is_in_recovery())):
            return "the server is a standby: it takes no writes. Name the primary in journal.url"
        if connection.scalar(sa.text("SHOW transaction_read_only")) == "on":
            return (
                "the server lets nothing be written (default_transaction_read_only): see why, as "
                "it may be a full disk, then set it off"
            )
        written = [*metadata.tables]
        may = [sa.func.has_table_privilege(name, "INSERT") for name in written]
        held = connection.execute(sa.select(*may)).one()
    shut = [name for name, is_held in zip(written, held, strict=True) if not is_held]
    return f"this user may not write to {', '.join(shut)}: use the owner's address" if shut else ""


def schema_of(connection: sa.Connection) -> SchemaState:
    """Return the newest migration applied to a database; FOREIGN if it is another program's."""
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
    """Connect to read one snapshot of a journal. Raises what `reading` raises, and
    NeedsMigration.
    """
    with reading(url) as connection:
        require_schema(connection)
        yield connection


def migrate(url: str, *, script_location: Path | None = None) -> None:
    """Create the journal, or bring it up to date. A new SQLite file is private.

    `script_location` is the directory of the revisions, by default the repository's or the wheel's.
    Raises Unreachable, UnusableUrl, or NeedsMigration for a schema of a later program or of another
    one; nothing is changed then.
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


def _shipped() -> Path:
    for folder in _SCRIPTS:
        if (folder / "env.py").is_file():
            return folder
    raise UnusableUrl(f"no migrations in {' or '.join(map(str, _SCRIPTS))}: broken installation")
