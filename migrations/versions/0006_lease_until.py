"""The lease has an end: how long the holder's last heartbeat holds it, by the database's clock.

A second bot on PostgreSQL takes over once that has passed. NULL on SQLite, where a process that
is stopped keeps its lock and nobody else can have it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty: the next heartbeat fills it."""
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("lease", sa.Column("until_ms", whole))


def downgrade() -> None:
    """Take it away again."""
    op.drop_column("lease", "until_ms")
