"""The lease expires: until when the holder's last renewal holds it, by the database's clock.

A second bot on PostgreSQL takes over once that has passed. NULL on SQLite, where a stopped process
keeps its lock and nobody else can get it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty: the next renewal fills it."""
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("lease", sa.Column("until_ms", whole))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("lease", "until_ms")
