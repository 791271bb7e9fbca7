"""v_timeline once more: unknown numbers are left out of a request, on both databases alike.

SQLite wrote 0 for the price of a market order, which has none, and for a size that was never
determined; PostgreSQL left out the whole request if the size was missing.
"""

from importlib import util
from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the view again."""
    made_by = _words_of_0005()
    made_by._wish = _wish
    _replace(made_by)


def downgrade() -> None:
    """Restore its earlier form."""
    _replace(_words_of_0005())


def _words_of_0005():
    path = Path(__file__).with_name("0005_words.py")
    spec = util.spec_from_file_location("words_of_0005", path)
    before = util.module_from_spec(spec)
    spec.loader.exec_module(before)
    return before


def _replace(made_by) -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    words = made_by._Postgres() if postgres else made_by._Sqlite()
    op.execute("DROP VIEW v_timeline")
    op.execute(f"CREATE VIEW v_timeline AS {made_by._v_timeline(words)}".replace(":", "\\:"))


def _wish(words, row: str, price: str) -> str:
    """BUY 500 HPG LO 27,050; SELL HPG if no more is known."""

    def known(number: str) -> str:
        return f"CASE WHEN {number} IS NOT NULL THEN ' ' || {words.grouped(number)} ELSE '' END"

    return (
        f"{row}.side || {known(row + '.quantity')} || ' ' || {row}.symbol "
        f"|| COALESCE(' ' || {row}.order_type, '') || {known(row + '.' + price)}"
    )
