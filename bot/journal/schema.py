"""Which schema a database has, and whether this program can use it."""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from bot.journal.engines import database_errors, reading_engine
from bot.journal.errors import NeedsMigration
from bot.journal.tables import SCHEMA

FOREIGN: Final = "none of ours beside other tables"
"""What is found in a database that another program already uses."""


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


def check(url: str) -> SchemaState:
    """Say which schema a journal has. Changes nothing; raises Unreachable."""
    engine = reading_engine(url)
    try:
        with database_errors(url), engine.connect() as connection:
            return SchemaState(schema_of(connection))
    finally:
        engine.dispose()


def require_schema(connection: sa.Connection) -> None:
    """Raise NeedsMigration unless the schema is this program's."""
    state = SchemaState(schema_of(connection))
    if not state.is_current:
        raise needs_migration(state)


def require_known(connection: sa.Connection) -> None:
    """Raise NeedsMigration where this program can't bring the schema up to date."""
    state = SchemaState(schema_of(connection))
    if not state.is_known:
        raise needs_migration(state)


def needs_migration(state: SchemaState) -> NeedsMigration:
    """Say which schema there is and which there should be."""
    return NeedsMigration(found=state.found, wanted=state.wanted, is_known=state.is_known)


def schema_of(connection: sa.Connection) -> str | None:
    """The newest migration that a database has had; FOREIGN where it is another program's."""
    found = sa.inspect(connection)
    if not found.has_table("alembic_version"):
        return FOREIGN if found.get_table_names() else None
    version = sa.table("alembic_version", sa.column("version_num", sa.Text()))
    return connection.execute(sa.select(version.c.version_num)).scalar_one_or_none()
