"""The tables and views of the journal, the same on SQLite and PostgreSQL.

Money, prices and quantities are whole numbers. Instants are ISO 8601 in UTC with microseconds, as
text, so that both databases hold the same bytes and text order is time order. `seq` numbers all
entries of a journal in one sequence over all tables, in the order of writing. JSON is text with
sorted keys.

Every table with `hash` is a chain: each row's hash covers its own content and the hash of the row
before it in that table. Columns that may still change (`MUTABLE`) are outside that hash; `seal`
covers them. `chains` has the length and head of every chain, so that a missing tail is detected,
and for every table with seals their number, their sum, and how often one was set (`last_seq`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.entry import RunState, Verdict
from bot.domain.instrument import Exchange
from bot.domain.order import OrderState, OrderType, SendState, Side

SCHEMA: Final = "0007"
"""The newest migration, which this program uses."""

GENESIS: Final = "0" * 64
"""The hash before the first row of every chain."""

BASE: Final = "base:"
"""Scope prefix of the rows that say which figures of an account count."""

RUN_MODES: Final = ("sandbox", "paper", "live")
VERBS: Final = ("POST", "PUT", "DELETE")
OUTCOMES: Final = ("ACCEPTED", "REFUSED", "NOT_SENT", "UNKNOWN")
RESULT_SOURCES: Final = ("place", "amend", "cancel", "book", "detail")
MACHINES: Final = ("order", "send")
STRATEGY_STATES: Final = ("on", "paused", "disabled", "warming")

metadata: Final = sa.MetaData()

# SQLite's STRICT tables have INTEGER and TEXT; PostgreSQL compares text by bytes here, as SQLite
# does.
Whole: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _columns(listed: str) -> Iterator[sa.Column[Any]]:
    """Columns by name: text, or a whole number after `#`; with `?` at the end it may be NULL."""
    for each in listed.split():
        kind = Whole if each.startswith("#") else Words
        yield sa.Column(each.strip("#?"), kind, nullable=each.endswith("?"))


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, Whole, primary_key=True, autoincrement=False)


def _one_of(table: str, column: str, words: Iterable[str]) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_word")


def _table(name: str, *parts: sa.Column[Any] | sa.Constraint) -> sa.Table:
    return sa.Table(name, metadata, *parts, sqlite_strict=True)


def _chain(name: str, *parts: sa.Column[Any] | sa.Constraint, key: str = "seq") -> sa.Table:
    """A table whose rows are linked by hashes; `key` is its primary key."""
    number = [_number("seq")] if key == "seq" else [sa.Column("seq", Whole, nullable=False)]
    unique = [] if key == "seq" else [sa.UniqueConstraint("seq", name=f"{name}_seq_once")]
    unique.append(sa.UniqueConstraint("prev_hash", name=f"{name}_prev_hash_once"))
    return _table(name, *number, *_columns("at"), *parts, *_columns("prev_hash hash"), *unique)


runs: Final = _table(
    "runs",
    _number("run_id"),
    *_columns("started_at mode version config_sha256 #epoch? ended_at? end_reason? heads? seal?"),
    _one_of("runs", "mode", RUN_MODES),
)

intents: Final = _chain(
    "intents",
    sa.Column("intent_id", Words, primary_key=True),
    *_columns(
        "signal_id strategy account trading_date symbol exchange side #quantity order_type "
        "#limit_price? why fingerprint created_at ttl_at #expire_after_us? follows? "
        "#closes_position state state_at state_reason proof? order_id? seal"
    ),
    sa.UniqueConstraint("strategy", "signal_id", name="intents_signal_once"),
    _one_of("intents", "exchange", Exchange),
    _one_of("intents", "side", Side),
    _one_of("intents", "order_type", OrderType),
    _one_of("intents", "state", SendState),
    sa.CheckConstraint("quantity > 0", name="intents_quantity_positive"),
    sa.CheckConstraint("state <> 'NOT_PLACED' OR proof IS NOT NULL", name="intents_proof_given"),
    key="intent_id",
)
sa.Index("intents_by_fingerprint", intents.c.fingerprint)
sa.Index("intents_by_day", intents.c.trading_date)
sa.Index("intents_by_state", intents.c.state)
sa.Index("intents_by_order", intents.c.order_id)

attempts: Final = _chain(
    "attempts",
    sa.Column("attempt_id", Words, primary_key=True),
    sa.Column("intent_id", Words, sa.ForeignKey("intents.intent_id"), nullable=False),
    *_columns(
        "verb target order_id? nonce #signed_ms boot_id #boottime_ns body_sha256 body known_ids "
        "#epoch #finished_seq? finished_at? outcome? #http_status? code? reason? raw? "
        "#latency_ms? seal?"
    ),
    sa.UniqueConstraint("nonce", name="attempts_nonce_once"),
    _one_of("attempts", "verb", VERBS),
    _one_of("attempts", "outcome", OUTCOMES),
    key="attempt_id",
)
sa.Index("attempts_by_intent", attempts.c.intent_id)
_one_post: Final = sa.Index(
    "attempts_one_post",
    attempts.c.intent_id,
    unique=True,
    sqlite_where=attempts.c.verb == "POST",
)


@sa.event.listens_for(metadata, "before_create")
def _limit_for_postgresql(_: object, connection: sa.Connection, **_unused: object) -> None:
    """Limit the index to POSTs on PostgreSQL, too. Doing it above would load PostgreSQL's dialect:
    2.7 MB that a bot with a SQLite journal does not need.
    """
    if connection.dialect.name == "postgresql":
        _one_post.dialect_kwargs["postgresql_where"] = attempts.c.verb == "POST"


orders: Final = _table(
    "orders",
    sa.Column("account", Words, primary_key=True),
    sa.Column("trading_date", Words, primary_key=True),
    sa.Column("order_id", Words, primary_key=True),
    *_columns(
        "#seq #updated_seq first_at at intent_id? strategy? symbol exchange? side #quantity "
        "order_type #price? state broker_status #executed_quantity #executed_amount "
        "#cancelled_quantity #fee #tax code? reason? note seal"
    ),
    _one_of("orders", "exchange", Exchange),
    _one_of("orders", "side", Side),
    _one_of("orders", "state", OrderState),
)
sa.Index("orders_by_id", orders.c.order_id)
sa.Index("orders_by_intent", orders.c.intent_id)
sa.Index("orders_by_state", orders.c.state)

order_results: Final = _chain(
    "order_results",
    *_columns("source order_id intent_id? attempt_id? raw"),
    _one_of("order_results", "source", RESULT_SOURCES),
)
sa.Index("order_results_by_order", order_results.c.order_id, order_results.c.seq)

transitions: Final = _chain(
    "transitions",
    *_columns(
        "machine intent_id? order_id? from_state? to_state broker_status? source "
        "#executed_quantity note proof?"
    ),
    _one_of("transitions", "machine", MACHINES),
    _one_of("transitions", "to_state", dict.fromkeys([*OrderState, *SendState])),
)
sa.Index("transitions_by_intent", transitions.c.intent_id)
sa.Index("transitions_by_order", transitions.c.order_id)

fills: Final = _chain(
    "fills",
    *_columns(
        "fill_id order_id trading_date intent_id? strategy? account symbol side #quantity "
        "#price #amount #fee #tax #order_quantity #order_executed broker_status #position "
        "#realised"
    ),
    sa.UniqueConstraint("fill_id", name="fills_fill_once"),
    _one_of("fills", "side", Side),
    sa.CheckConstraint("quantity > 0", name="fills_quantity_positive"),
)
sa.Index("fills_by_order", fills.c.order_id)
sa.Index("fills_by_day", fills.c.trading_date)

decisions: Final = _chain(
    "decisions",
    *_columns(
        "strategy symbol verdict code why numbers saw checks request_id? side? #quantity? "
        "order_type? #price?"
    ),
    _one_of("decisions", "verdict", Verdict),
    _one_of("decisions", "side", Side),
)
sa.Index("decisions_by_time", decisions.c.at)
sa.Index("decisions_by_request", decisions.c.request_id)

auth_events: Final = _chain("auth_events", *_columns("kind code detail intent_id?"))

_STATES: Final = tuple(each for each in RunState if each is not RunState.REDUCING)
"""What is journalled: REDUCING is derived from its own scopes."""

halts: Final = _chain(
    "halts",
    *_columns("scope from_state? to_state reason by_whom"),
    _one_of("halts", "to_state", (*_STATES, *STRATEGY_STATES)),
)
sa.Index("halts_by_scope", halts.c.scope, halts.c.seq)

notes: Final = _chain("notes", *_columns("kind text numbers symbol?"))

account_snapshots: Final = _chain(
    "account_snapshots",
    *_columns("taken_at account #cash #net_asset_value holdings #is_snapshot"),
)

# Nothing writes here: the end of a day is told by notes (DAY, CLOSE), its results by `v_pnl`. The
# table is in every journal since the first version, with a chain of its own; dropping it would
# change what `bot journal verify` and the archives of those journals hold, and gain nothing.
daily_closes: Final = _chain(
    "daily_closes",
    *_columns("trading_date strategy symbol #quantity #cost #realised #fee #tax"),
    sa.UniqueConstraint("trading_date", "strategy", "symbol", name="daily_closes_once"),
)

lease: Final = _table(
    "lease",
    sa.Column("name", Words, primary_key=True),
    *_columns("#epoch #pid? host? since? #until_ms?"),
)

chains: Final = _table(
    "chains",
    sa.Column("name", Words, primary_key=True),
    *_columns("#last_seq #row_count head_hash"),
)

CHAINED: Final = tuple(table for table in metadata.tables.values() if "prev_hash" in table.c)
"""The tables whose rows are linked by hashes."""

SEALED: Final = (runs, intents, attempts, orders)
"""The tables whose rows may change, and are sealed again when they do."""

MUTABLE: Final[Mapping[str, frozenset[str]]] = {
    "intents": frozenset({"state", "state_at", "state_reason", "proof", "order_id"}),
    "attempts": frozenset(
        {"finished_seq", "finished_at", "outcome", "http_status"}
        | {"code", "reason", "raw", "latency_ms"}
    ),
}
"""Columns of a chained table that may change after a row is written; the seal covers them."""
LINKS: Final = frozenset({"prev_hash", "hash", "seal"})


# The views, defined by the migrations, and sums over fills: whole numbers on both databases.


def _view(name: str, text: str, whole: str) -> sa.TableClause:
    words = [sa.column(column, Words) for column in text.split()]
    numbers = [sa.column(column, Whole) for column in whole.split()]
    return sa.table(name, *words, *numbers)


v_orders: Final = _view(
    "v_orders",
    "time at trading_date id local_id order_id strategy account side symbol exchange order_type "
    "status state send_state code reason why note",
    "seq quantity price executed_quantity executed_amount average_price cancelled_quantity fee tax "
    "is_open",
)


def _is_of_an_ask(code: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether it is the code of a person's refused request about an order: a verdict, a cancel."""
    return code.startswith("VERDICT_", autoescape=True) | (code == "OPEN_ORDER")


def _orders_told() -> sa.Subquery:
    """Return v_orders with the codes that say what became of an order: a request about it that is
    refused changes nothing.
    """
    code, requests = v_orders.c.code, decisions.c
    own = (
        sa.select(requests.code)
        .where(requests.request_id == v_orders.c.local_id, requests.verdict != "PASSED")
        .where(~_is_of_an_ask(requests.code))
        .order_by(requests.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    told = sa.case((_is_of_an_ask(code), own), else_=code).label("code")
    return sa.select(*(told if each is code else each for each in v_orders.c)).subquery()


orders_told: Final = _orders_told()
v_timeline: Final = _view(
    "v_timeline",
    "time at kind local_id order_id strategy symbol text detail word",
    "seq part",
)
v_decisions: Final = _view(
    "v_decisions",
    "time at strategy symbol verdict code why local_id order_id side order_type numbers saw checks",
    "seq quantity price",
)
v_pnl: Final = _view(
    "v_pnl",
    "trading_date strategy symbol",
    "fills bought bought_amount sold sold_amount realised fee tax net",
)


def total(amount: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """The sum, 0 if empty; PostgreSQL would return a decimal."""
    return sa.cast(sa.func.coalesce(sa.func.sum(amount), 0), Whole)


def _held(bought: sa.ColumnElement[int], sold: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return total(sa.case((fills.c.side == Side.BUY, bought), else_=-sold))


SHARES: Final = _held(fills.c.quantity, fills.c.quantity)
"""Shares from adding up fills."""
COST: Final = _held(fills.c.amount, fills.c.amount - fills.c.realised)
"""The cost of those shares: a sale deducts its amount less the profit realised."""
