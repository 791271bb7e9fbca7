"""The triggers that keep what was written: which ones a journal has to have.

The migrations make them. One that was dropped, disabled or emptied lets rows be changed, so a
journal without it can't be believed.
"""

from typing import Final

import sqlalchemy as sa

from bot.journal.tables import CHAINED, MUTABLE, SEALED, metadata

_APPEND_ONLY: Final = tuple(table.name for table in CHAINED if table.name not in MUTABLE)
_BOTH: Final = (
    *(f"{name}_no_delete" for name in metadata.tables),
    *(f"{name}_no_update" for name in _APPEND_ONLY),
    *(f"{table.name}_no_update" for table in SEALED),
    "attempts_no_again",
    "runs_no_again",
)
GUARDS: Final = {
    "sqlite": frozenset((*_BOTH, *(f"{name}_no_replace" for name in _APPEND_ONLY))),
    "postgresql": frozenset((*_BOTH, *(f"{name}_no_truncate" for name in metadata.tables))),
}
"""The names of the triggers, by the kind of the database."""

_AT_WORK: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%RAISE(ABORT%'",
    "postgresql": (
        "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "JOIN pg_proc p ON p.oid = t.tgfoid WHERE c.relnamespace = current_schema()::regnamespace "
        "AND t.tgenabled IN ('O', 'A') AND p.prosrc LIKE '%RAISE EXCEPTION%'"
    ),
}


def missing_guards(connection: sa.Connection) -> list[str]:
    """Name the triggers that are not there, or refuse nothing."""
    kind = connection.dialect.name
    found = connection.execute(sa.text(_AT_WORK[kind].replace("::", "\\:\\:"))).scalars()
    return sorted(GUARDS[kind] - set(found))
