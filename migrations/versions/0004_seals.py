"""Runs are sealed too, and the seals of a table are added up in `chains`.

A run's row could be edited without a trace, and a changed and resealed row looked like any other.
`runs.heads` stores where every chain ended when the run began.
"""

import json
from hashlib import sha256

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SEALED = ("runs", "intents", "attempts", "orders")
RUN = "run_id started_at mode version config_sha256 epoch ended_at end_reason heads".split()
FIXED = "run_id started_at mode version config_sha256 epoch heads".split()
Words = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Seal the existing runs, and sum all seals."""
    for name in ("heads", "seal"):
        op.add_column("runs", sa.Column(name, Words, nullable=True))
    _drop("runs", "again")
    _seal_runs()
    changed = " OR ".join(f"NEW.{name} {{differs}} OLD.{name}" for name in FIXED)
    _guard("runs", "update", "again", "OLD.ended_at IS NOT NULL", "runs: already closed")
    _guard("runs", "update", "update", changed, "runs: what was begun is never changed")
    for table in SEALED:
        _add_up(table)


def downgrade() -> None:
    """Drop the sums and the seals of runs."""
    _drop("runs", "update")
    _drop("chains", "delete")
    op.execute("DELETE FROM chains WHERE name LIKE '%.seals'")
    _guard("chains", "delete", "delete", "{true}", "chains: rows are never deleted")
    for name in ("seal", "heads"):
        op.drop_column("runs", name)


def _seal_runs() -> None:
    runs = sa.table("runs", *(sa.column(name) for name in (*RUN, "seal")))
    bind = op.get_bind()
    for row in bind.execute(sa.select(runs)).mappings().all():
        content = {name: row[name] for name in RUN}
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        seal = sha256(f"{'0' * 64}|{text}".encode()).hexdigest()
        bind.execute(runs.update().where(runs.c.run_id == row["run_id"]).values(seal=seal))


def _add_up(table: str) -> None:
    rows = sa.table(table, sa.column("seal"))
    query = sa.select(rows.c.seal).where(rows.c.seal.is_not(None))
    seals = [int(seal, 16) for seal in op.get_bind().execute(query).scalars()]
    chains = sa.table(
        "chains",
        sa.column("name"), sa.column("last_seq"), sa.column("row_count"), sa.column("head_hash"),
    )
    total = f"{sum(seals) % 2**256:064x}"
    count = {"last_seq": len(seals), "row_count": len(seals)}
    op.bulk_insert(chains, [{"name": f"{table}.seals", **count, "head_hash": total}])


def _is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _drop(table, name) -> None:
    on = f" ON {table}" if _is_postgres() else ""
    op.execute(f"DROP TRIGGER {table}_no_{name}{on}")


def _guard(table, event, name, condition, message) -> None:
    """A trigger like those of revision 0002."""
    head = f"CREATE TRIGGER {table}_no_{name} BEFORE {event.upper()} ON {table} "
    if _is_postgres():
        when = condition.format(differs="IS DISTINCT FROM", true="TRUE")
        op.execute(f"{head}FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION journal_refuses('{message}')")
    else:
        when = condition.format(differs="IS NOT", true="1")
        op.execute(f"{head}WHEN {when} BEGIN SELECT RAISE(ABORT, '{message}'); END")
