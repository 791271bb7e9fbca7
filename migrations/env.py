"""How Alembic runs the revisions: on the connection it is given, in its transaction."""

import sqlalchemy as sa
from alembic import context

from bot.journal.database.tables import metadata


def run() -> None:
    """Run on the caller's connection, else on a new one to `-x url=…` or sqlalchemy.url."""
    given = context.config.attributes.get("connection")
    if given is not None:
        return _run_on(given)
    url = context.get_x_argument(as_dictionary=True).get("url")
    engine = sa.create_engine(url or context.config.get_main_option("sqlalchemy.url", ""))
    with engine.begin() as connection:
        return _run_on(connection)


def _run_on(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        compare_type=True,
        render_as_batch=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
