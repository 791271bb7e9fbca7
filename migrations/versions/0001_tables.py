"""The tables of the journal, and the starts of its chains.

The layout is given here in full and never edited: `bot/journal/database/tables.py` moves on, and a test
holds the two equal after the newest revision.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

GENESIS = "0" * 64
CHAINED = (
    "intents attempts order_results transitions fills decisions auth_events halts notes "
    "account_snapshots daily_closes"
).split()

metadata = sa.MetaData()


def upgrade() -> None:
    """Create every table; `journal` counts the entries, the other rows of `chains`
    are the chains.
    """
    metadata.create_all(op.get_bind())
    start = {"last_seq": 0, "row_count": 0, "head_hash": GENESIS}
    op.bulk_insert(chains, [{"name": name, **start} for name in ("journal", *CHAINED)])
    op.bulk_insert(lease, [{"name": "writer", "epoch": 0}])


def downgrade() -> None:
    """Drop every table, and the journal with them."""
    metadata.drop_all(op.get_bind())


# SQLite's STRICT tables have INTEGER and TEXT; PostgreSQL compares text by bytes here, as SQLite
# does.
Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, Whole, nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, Words, nullable=False)


def _maybe_whole(name: str) -> sa.Column[int]:
    return sa.Column(name, Whole, nullable=True)


def _maybe_text(name: str) -> sa.Column[str]:
    return sa.Column(name, Words, nullable=True)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, Whole, primary_key=True, autoincrement=False)


def _one_of(table: str, column: str, words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words.split())
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_word")


def _table(name: str, *parts: sa.Column[int] | sa.Column[str] | sa.Constraint) -> sa.Table:
    return sa.Table(name, metadata, *parts, sqlite_strict=True)


def _chain(
    name: str, *parts: sa.Column[int] | sa.Column[str] | sa.Constraint, key: str = "seq"
) -> sa.Table:
    """A table whose rows are linked by hashes; `key` is its primary key."""
    number = [_number("seq")] if key == "seq" else [sa.Column("seq", Whole, nullable=False)]
    unique = [] if key == "seq" else [sa.UniqueConstraint("seq", name=f"{name}_seq_once")]
    links = (
        _text("prev_hash"),
        _text("hash"),
        sa.UniqueConstraint("prev_hash", name=f"{name}_prev_hash_once"),
    )
    return _table(name, *number, _text("at"), *parts, *links, *unique)


runs = _table(
    "runs",
    _number("run_id"),
    _text("started_at"),
    _text("mode"),
    _text("version"),
    _text("config_sha256"),
    _maybe_whole("epoch"),
    _maybe_text("ended_at"),
    _maybe_text("end_reason"),
    _one_of("runs", "mode", "sandbox paper live"),
)

intents = _chain(
    "intents",
    sa.Column("intent_id", Words, primary_key=True),
    _text("signal_id"),
    _text("strategy"),
    _text("account"),
    _text("trading_date"),
    _text("symbol"),
    _text("exchange"),
    _text("side"),
    _whole("quantity"),
    _text("order_type"),
    _maybe_whole("limit_price"),
    _text("why"),
    _text("fingerprint"),
    _text("created_at"),
    _text("ttl_at"),
    _maybe_whole("expire_after_us"),
    _maybe_text("follows"),
    _whole("closes_position"),
    _text("state"),
    _text("state_at"),
    _text("state_reason"),
    _maybe_text("proof"),
    _maybe_text("order_id"),
    _text("seal"),
    sa.UniqueConstraint("strategy", "signal_id", name="intents_signal_once"),
    _one_of("intents", "exchange", "HOSE HNX UPCOM HCX"),
    _one_of("intents", "side", "BUY SELL"),
    _one_of("intents", "order_type", "LO MP ATO ATC MTL MAK MOK PLO FOK FAK"),
    _one_of(
        "intents",
        "state",
        "DENIED READY EXPIRED_LOCAL HELD SENDING ACKED REFUSED NOT_SENT UNKNOWN FRESH "
        "NOT_PLACED REACHED MATCHED AMBIGUOUS EOD_ABSENT",
    ),
    sa.CheckConstraint("quantity > 0", name="intents_quantity_positive"),
    sa.CheckConstraint("state <> 'NOT_PLACED' OR proof IS NOT NULL", name="intents_proof_given"),
    key="intent_id",
)
sa.Index("intents_by_fingerprint", intents.c.fingerprint)
sa.Index("intents_by_day", intents.c.trading_date)
sa.Index("intents_by_state", intents.c.state)
sa.Index("intents_by_order", intents.c.order_id)

attempts = _chain(
    "attempts",
    sa.Column("attempt_id", Words, primary_key=True),
    sa.Column("intent_id", Words, sa.ForeignKey("intents.intent_id"), nullable=False),
    _text("verb"),
    _text("target"),
    _maybe_text("order_id"),
    _text("nonce"),
    _whole("signed_ms"),
    _text("boot_id"),
    _whole("boottime_ns"),
    _text("body_sha256"),
    _text("body"),
    _text("known_ids"),
    _whole("epoch"),
    _maybe_whole("finished_seq"),
    _maybe_text("finished_at"),
    _maybe_text("outcome"),
    _maybe_whole("http_status"),
    _maybe_text("code"),
    _maybe_text("reason"),
    _maybe_text("raw"),
    _maybe_whole("latency_ms"),
    _maybe_text("seal"),
    sa.UniqueConstraint("nonce", name="attempts_nonce_once"),
    _one_of("attempts", "verb", "POST PUT DELETE"),
    _one_of("attempts", "outcome", "ACCEPTED REFUSED NOT_SENT UNKNOWN"),
    key="attempt_id",
)
sa.Index("attempts_by_intent", attempts.c.intent_id)
sa.Index(
    "attempts_one_post",
    attempts.c.intent_id,
    unique=True,
    sqlite_where=attempts.c.verb == "POST",
    postgresql_where=attempts.c.verb == "POST",
)

orders = _table(
    "orders",
    sa.Column("account", Words, primary_key=True),
    sa.Column("trading_date", Words, primary_key=True),
    sa.Column("order_id", Words, primary_key=True),
    _whole("seq"),
    _whole("updated_seq"),
    _text("first_at"),
    _text("at"),
    _maybe_text("intent_id"),
    _maybe_text("strategy"),
    _text("symbol"),
    _maybe_text("exchange"),
    _text("side"),
    _whole("quantity"),
    _text("order_type"),
    _maybe_whole("price"),
    _text("state"),
    _text("broker_status"),
    _whole("executed_quantity"),
    _whole("executed_amount"),
    _whole("cancelled_quantity"),
    _whole("fee"),
    _whole("tax"),
    _maybe_text("code"),
    _maybe_text("reason"),
    _text("note"),
    _text("seal"),
    _one_of("orders", "exchange", "HOSE HNX UPCOM HCX"),
    _one_of("orders", "side", "BUY SELL"),
    _one_of(
        "orders",
        "state",
        "INITIALIZED SUBMITTED UNKNOWN ACCEPTED PARTIALLY_FILLED PENDING_REPLACE "
        "PENDING_CANCEL FILLED CANCELLED REJECTED EXPIRED",
    ),
)
sa.Index("orders_by_id", orders.c.order_id)
sa.Index("orders_by_intent", orders.c.intent_id)
sa.Index("orders_by_state", orders.c.state)

order_results = _chain(
    "order_results",
    _text("source"),
    _text("order_id"),
    _maybe_text("intent_id"),
    _maybe_text("attempt_id"),
    _text("raw"),
    _one_of("order_results", "source", "place amend cancel book detail"),
)
sa.Index("order_results_by_order", order_results.c.order_id, order_results.c.seq)

transitions = _chain(
    "transitions",
    _text("machine"),
    _maybe_text("intent_id"),
    _maybe_text("order_id"),
    _maybe_text("from_state"),
    _text("to_state"),
    _maybe_text("broker_status"),
    _text("source"),
    _whole("executed_quantity"),
    _text("note"),
    _maybe_text("proof"),
    _one_of("transitions", "machine", "order send"),
    _one_of(
        "transitions",
        "to_state",
        "INITIALIZED SUBMITTED UNKNOWN ACCEPTED PARTIALLY_FILLED PENDING_REPLACE "
        "PENDING_CANCEL FILLED CANCELLED REJECTED EXPIRED DENIED READY EXPIRED_LOCAL HELD "
        "SENDING ACKED REFUSED NOT_SENT FRESH NOT_PLACED REACHED MATCHED AMBIGUOUS "
        "EOD_ABSENT",
    ),
)
sa.Index("transitions_by_intent", transitions.c.intent_id)
sa.Index("transitions_by_order", transitions.c.order_id)

fills = _chain(
    "fills",
    _text("fill_id"),
    _text("order_id"),
    _text("trading_date"),
    _maybe_text("intent_id"),
    _maybe_text("strategy"),
    _text("account"),
    _text("symbol"),
    _text("side"),
    _whole("quantity"),
    _whole("price"),
    _whole("amount"),
    _whole("fee"),
    _whole("tax"),
    _whole("order_quantity"),
    _whole("order_executed"),
    _text("broker_status"),
    _whole("position"),
    _whole("realised"),
    sa.UniqueConstraint("fill_id", name="fills_fill_once"),
    _one_of("fills", "side", "BUY SELL"),
    sa.CheckConstraint("quantity > 0", name="fills_quantity_positive"),
)
sa.Index("fills_by_order", fills.c.order_id)
sa.Index("fills_by_day", fills.c.trading_date)

decisions = _chain(
    "decisions",
    _text("strategy"),
    _text("symbol"),
    _text("verdict"),
    _text("code"),
    _text("why"),
    _text("numbers"),
    _text("saw"),
    _text("checks"),
    _maybe_text("request_id"),
    _maybe_text("side"),
    _maybe_whole("quantity"),
    _maybe_text("order_type"),
    _maybe_whole("price"),
    _one_of("decisions", "verdict", "PASSED SKIPPED BLOCKED WATCHED HELD EXPIRED FAILED"),
    _one_of("decisions", "side", "BUY SELL"),
)
sa.Index("decisions_by_time", decisions.c.at)
sa.Index("decisions_by_request", decisions.c.request_id)

auth_events = _chain(
    "auth_events", _text("kind"), _text("code"), _text("detail"), _maybe_text("intent_id")
)

halts = _chain(
    "halts",
    _text("scope"),
    _maybe_text("from_state"),
    _text("to_state"),
    _text("reason"),
    _text("by_whom"),
    _one_of(
        "halts",
        "to_state",
        "STARTING RUNNING PAUSED NEEDS_2FA DEGRADED HALTED STOPPING STOPPED on paused "
        "disabled warming",
    ),
)
sa.Index("halts_by_scope", halts.c.scope, halts.c.seq)

notes = _chain(
    "notes", _text("kind"), _text("text"), _text("numbers"), _maybe_text("symbol")
)

account_snapshots = _chain(
    "account_snapshots",
    _text("taken_at"),
    _text("account"),
    _whole("cash"),
    _whole("net_asset_value"),
    _text("holdings"),
    _whole("is_snapshot"),
)

daily_closes = _chain(
    "daily_closes",
    _text("trading_date"),
    _text("strategy"),
    _text("symbol"),
    _whole("quantity"),
    _whole("cost"),
    _whole("realised"),
    _whole("fee"),
    _whole("tax"),
    sa.UniqueConstraint("trading_date", "strategy", "symbol", name="daily_closes_once"),
)

lease = _table(
    "lease",
    sa.Column("name", Words, primary_key=True),
    _whole("epoch"),
    _maybe_whole("pid"),
    _maybe_text("host"),
    _maybe_text("since"),
)

chains = _table(
    "chains",
    sa.Column("name", Words, primary_key=True),
    _whole("last_seq"),
    _whole("row_count"),
    _text("head_hash"),
)
