"""Which schema a database has, and whether this program can use it."""

from dataclasses import dataclass

import sqlalchemy as sa

from bot.journal.engines import reading_engine, told
from bot.journal.errors import NeedsMigration
from bot.journal.tables import SCHEMA


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema found in a database (None: no journal in it) and the one this program needs."""

    found: str | None
    wanted: str = SCHEMA

    @property
    def is_current(self) -> bool:
        """Whether the journal can be used as it is."""
        return self.found == self.wanted


def check(url: str) -> SchemaState:
    """Say which schema a journal has. Changes nothing; raises Unreachable."""
    engine = reading_engine(url)
    try:
        with told(url), engine.connect() as connection:
            return SchemaState(schema_of(connection))
    finally:
        engine.dispose()


def require_schema(connection: sa.Connection) -> None:
    """Raise NeedsMigration unless the schema is this program's."""
    found = schema_of(connection)
    if found != SCHEMA:
        raise NeedsMigration(found=found, wanted=SCHEMA)


def schema_of(connection: sa.Connection) -> str | None:
    """The newest migration that a database has had."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version = sa.table("alembic_version", sa.column("version_num", sa.Text()))
    return connection.execute(sa.select(version.c.version_num)).scalar_one_or_none()
