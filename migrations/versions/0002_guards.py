"""Triggers that protect what was written: no row is deleted, history is never updated.

`attempts` may be finished exactly once; of an intent only its state, proof and order may change; a
run may be ended once. Everything else that is chained is append-only.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

APPEND_ONLY = (
    "order_results transitions fills decisions auth_events halts notes account_snapshots daily_closes"
).split()
NEVER_DELETED = ("runs", "intents", "attempts", "orders", "lease", "chains")

FIXED = {
    "intents": (
        "seq at intent_id signal_id strategy account trading_date symbol exchange side quantity "
        "order_type limit_price why fingerprint created_at ttl_at expire_after_us follows "
        "closes_position prev_hash hash"
    ),
    "attempts": (
        "seq at attempt_id intent_id verb target order_id nonce signed_ms boot_id boottime_ns "
        "body_sha256 body known_ids epoch prev_hash hash"
    ),
    "orders": "account trading_date order_id seq first_at",
}
"""Columns of a changing table that never change."""

ONCE = {"attempts": "outcome", "runs": "ended_at"}
"""The column that is set once, after which the row is closed."""


def upgrade() -> None:
    """Create the triggers in the present database's dialect."""
    postgres = op.get_bind().dialect.name == "postgresql"
    make = _postgres_trigger if postgres else _sqlite_trigger
    if postgres:
        _make_postgres_function()
    else:
        _refuse_replacing()
    for table in (*APPEND_ONLY, *NEVER_DELETED):
        make(table, "delete", "TRUE", f"{table}: rows are never deleted")
    for table in APPEND_ONLY:
        make(table, "update", "TRUE", f"{table}: rows are never changed")
    for table, columns in FIXED.items():
        changed = " OR ".join(f"NEW.{name} {{differs}} OLD.{name}" for name in columns.split())
        make(table, "update", changed, f"{table}: what was asked is never changed")
    for table, column in ONCE.items():
        make(table, "update", f"OLD.{column} IS NOT NULL", f"{table}: already closed", "again")


def downgrade() -> None:
    """Drop the triggers."""
    postgres = op.get_bind().dialect.name == "postgresql"
    names = [(table, f"{table}_no_delete") for table in (*APPEND_ONLY, *NEVER_DELETED)]
    names += [(table, f"{table}_no_update") for table in (*APPEND_ONLY, *FIXED)]
    names += [(table, f"{table}_no_again") for table in ONCE]
    if not postgres:
        names += [(table, f"{table}_no_replace") for table in APPEND_ONLY]
    for table, name in names:
        op.execute(f"DROP TRIGGER {name} ON {table}" if postgres else f"DROP TRIGGER {name}")
    if postgres:
        for table in (*APPEND_ONLY, *NEVER_DELETED):
            op.execute(f"DROP TRIGGER {table}_no_truncate ON {table}")
        op.execute("DROP FUNCTION journal_refuses()")


def _sqlite_trigger(table, event, condition, message, name=None) -> None:
    when = condition.format(differs="IS NOT") if condition != "TRUE" else "1"
    op.execute(
        f"CREATE TRIGGER {table}_no_{name or event} BEFORE {event.upper()} ON {table} "
        f"WHEN {when} BEGIN SELECT RAISE(ABORT, '{message}'); END"
    )


def _refuse_replacing() -> None:
    """INSERT OR REPLACE deletes a row of SQLite without its delete trigger."""
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE seq = NEW.seq) "
            f"BEGIN SELECT RAISE(ABORT, '{table}: rows are never changed'); END"
        )


def _postgres_trigger(table, event, condition, message, name=None) -> None:
    when = condition.format(differs="IS DISTINCT FROM")
    op.execute(
        f"CREATE TRIGGER {table}_no_{name or event} BEFORE {event.upper()} ON {table} "
        f"FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION journal_refuses('{message}')"
    )
    if event == "delete":
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION journal_refuses('{message}')"
        )


def _make_postgres_function() -> None:
    op.execute(
        "CREATE FUNCTION journal_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; "
        "END $$"
    )
