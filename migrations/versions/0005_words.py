"""Views once more: one word for what was never sent, and a word for every row of v_timeline.

An approved order that was not sent used to be FAILED or BLOCKED in `v_orders`, depending on when it
was held back. Now it is EXPIRED, with the reason. `v_timeline.word` is what the row says in one
word of its table.
"""

from importlib import util
from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

VIEWS = ("v_orders", "v_timeline")


def upgrade() -> None:
    """Create the two views again."""
    _replace(globals())


def downgrade() -> None:
    """Restore their earlier form."""
    path = Path(__file__).with_name("0003_views.py")
    spec = util.spec_from_file_location("views_of_0003", path)
    before = util.module_from_spec(spec)
    spec.loader.exec_module(before)
    _replace(vars(before))


def _replace(made_by) -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    words = made_by["_Postgres" if postgres else "_Sqlite"]()
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
        op.execute(f"CREATE VIEW {view} AS {made_by['_' + view](words)}".replace(":", "\\:"))


class _Sqlite:
    def time(self, at: str) -> str:
        cut = f"strftime('%Y-%m-%dT%H:%M:%S', substr({at}, 1, 19), '+7 hours')"
        return f"({cut} || substr({at}, 20, 4) || '+07:00')"

    def grouped(self, number: str) -> str:
        return f"printf('%,d', {number})"

    def length(self, array: str) -> str:
        return f"json_array_length({array})"


class _Postgres:
    def time(self, at: str) -> str:
        local = f"(CAST(substr({at}, 1, 19) AS timestamp) + interval '7 hours')"
        cut = f"to_char({local}, 'YYYY-MM-DD\"T\"HH24:MI:SS')"
        return f"({cut} || substr({at}, 20, 4) || '+07:00')"

    def grouped(self, number: str) -> str:
        return f"to_char({number}, 'FM999,999,999,999,999,990')"

    def length(self, array: str) -> str:
        return f"json_array_length(CAST({array} AS json))"


def _wish(words, row: str, price: str) -> str:
    """BUY 500 HPG LO 27,050"""
    return (
        f"{row}.side || ' ' || {words.grouped(row + '.quantity')} || ' ' || {row}.symbol "
        f"|| COALESCE(' ' || {row}.order_type, '') "
        f"|| COALESCE(' ' || {words.grouped(row + '.' + price)}, '')"
    )


def _v_orders(words) -> str:
    return f"""
SELECT COALESCE(i.seq, o.seq) AS seq, {words.time("COALESCE(i.at, o.first_at)")} AS time,
  COALESCE(i.at, o.first_at) AS at, o.trading_date, o.order_id AS id, o.intent_id AS local_id,
  o.order_id, o.strategy, o.account, o.side, o.symbol, o.exchange, o.quantity, o.order_type, o.price,
  o.executed_quantity, o.executed_amount,
  CASE WHEN o.executed_quantity > 0 THEN o.executed_amount / o.executed_quantity END
    AS average_price,
  o.cancelled_quantity, o.broker_status AS status, o.state, i.state AS send_state, o.fee, o.tax,
  o.code, o.reason, i.why, o.note,
  CASE WHEN o.state IN ('FILLED', 'CANCELLED', 'REJECTED', 'EXPIRED') THEN 0 ELSE 1 END AS is_open
FROM orders o LEFT JOIN intents i ON i.intent_id = o.intent_id
UNION ALL
SELECT i.seq, {words.time("i.at")}, i.at, i.trading_date, i.intent_id, i.intent_id, NULL, i.strategy,
  i.account, i.side, i.symbol, i.exchange, i.quantity, i.order_type, i.limit_price, 0, 0, NULL, 0,
  CASE
    WHEN i.state IN ('EXPIRED_LOCAL', 'NOT_SENT') THEN 'EXPIRED'
    WHEN i.state IN ('DENIED', 'HELD') OR a.code LIKE 'OTP\\_%' ESCAPE '\\'
      THEN 'BLOCKED'
    WHEN i.state = 'READY' THEN 'WAITING_TO_SEND'
    WHEN i.state = 'REFUSED' THEN 'REJECTED'
    WHEN i.state IN ('NOT_PLACED', 'EOD_ABSENT') THEN 'FAILED'
    ELSE 'UNKNOWN'
  END,
  NULL, i.state, 0, 0,
  COALESCE(a.code, (SELECT d.code FROM decisions d WHERE d.request_id = i.intent_id
    AND d.verdict <> 'PASSED' ORDER BY d.seq DESC LIMIT 1)),
  CASE WHEN i.state IN ('EXPIRED_LOCAL', 'NOT_SENT') THEN i.state_reason
    ELSE COALESCE(NULLIF(a.reason, ''), i.state_reason) END, i.why, '',
  CASE WHEN i.state IN ('READY', 'SENDING', 'UNKNOWN', 'FRESH', 'REACHED', 'AMBIGUOUS', 'ACKED',
    'MATCHED') THEN 1 ELSE 0 END
FROM intents i LEFT JOIN attempts a ON a.intent_id = i.intent_id AND a.verb = 'POST'
WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.intent_id = i.intent_id)
UNION ALL
SELECT d.seq, {words.time("d.at")}, d.at, substr({words.time("d.at")}, 1, 10), d.request_id,
  d.request_id, NULL, d.strategy, NULL, d.side, d.symbol, NULL, d.quantity, d.order_type, d.price,
  0, 0, NULL, 0, CASE d.verdict WHEN 'EXPIRED' THEN 'EXPIRED' ELSE 'BLOCKED' END, NULL, NULL, 0, 0,
  d.code, d.why, d.why, '', 0
FROM decisions d
WHERE d.request_id IS NOT NULL AND d.verdict IN ('BLOCKED', 'HELD', 'EXPIRED')
  AND NOT EXISTS (SELECT 1 FROM intents i WHERE i.intent_id = d.request_id)
  AND NOT EXISTS (SELECT 1 FROM decisions n WHERE n.request_id = d.request_id AND n.seq > d.seq)
"""


def _v_timeline(words) -> str:
    """Everything that happened, in the order of writing; `part` orders several lines
    of one entry.
    """
    grouped = words.grouped
    return f"""
SELECT d.seq, 0 AS part, {words.time("d.at")} AS time, d.at, 'decided' AS kind,
  d.request_id AS local_id, NULL AS order_id, d.strategy, d.symbol,
  d.verdict || ' ' || d.code || COALESCE(' · ' || {_wish(words, "d", "price")}, '')
    || ' · ' || d.why AS text,
  d.saw AS detail, d.verdict AS word
FROM decisions d
UNION ALL
SELECT d.seq, 1, {words.time("d.at")}, d.at, 'checked', d.request_id, NULL, d.strategy, d.symbol,
  CASE d.verdict WHEN 'BLOCKED'
    THEN 'refused by ' || d.code || ', check ' || {words.length("d.checks")}
    ELSE {words.length("d.checks")} || ' of ' || {words.length("d.checks")} || ' checks ok' END,
  d.checks, d.verdict
FROM decisions d WHERE d.checks <> '[]'
UNION ALL
SELECT i.seq, 0, {words.time("i.at")}, i.at, 'recorded', i.intent_id, NULL, i.strategy, i.symbol,
  {_wish(words, "i", "limit_price")} || COALESCE(' · follows ' || i.follows, ''), NULL, NULL
FROM intents i
UNION ALL
SELECT a.seq, 0, {words.time("a.at")}, a.at, 'sent', a.intent_id, a.order_id, NULL, NULL,
  a.verb || ' ' || a.target || ' · nonce ' || substr(a.nonce, 1, 8) || '… · body sha256 '
    || COALESCE(NULLIF(substr(a.body_sha256, 1, 8), '') || '…', 'none'), a.body, a.verb
FROM attempts a
UNION ALL
SELECT a.finished_seq, 0, {words.time("a.finished_at")}, a.finished_at, 'answered', a.intent_id,
  a.order_id, NULL, NULL,
  a.outcome || COALESCE(' · HTTP ' || a.http_status, '') || COALESCE(' · ' || a.code, '')
    || COALESCE(' · ' || NULLIF(a.reason, ''), '') || ' · ' || a.latency_ms || ' ms', a.raw, a.outcome
FROM attempts a WHERE a.outcome IS NOT NULL
UNION ALL
SELECT r.seq, 0, {words.time("r.at")}, r.at,
  CASE WHEN r.source IN ('book', 'detail') THEN 'polled' ELSE 'result' END, r.intent_id,
  r.order_id, NULL, NULL, r.source, r.raw, r.source
FROM order_results r
UNION ALL
SELECT t.seq, 0, {words.time("t.at")}, t.at,
  CASE t.machine WHEN 'send' THEN 'sending' ELSE 'moved' END, t.intent_id, t.order_id, NULL, NULL,
  COALESCE(t.from_state || ' → ', '') || t.to_state || COALESCE(' · ' || t.broker_status, '')
    || CASE WHEN t.executed_quantity > 0
      THEN ' · executed ' || {grouped("t.executed_quantity")} ELSE '' END
    || COALESCE(' · ' || NULLIF(t.note, ''), '') || COALESCE(' · proof ' || t.proof, ''),
  NULL, t.to_state
FROM transitions t
UNION ALL
SELECT f.seq, 0, {words.time("f.at")}, f.at, 'filled', f.intent_id, f.order_id, f.strategy, f.symbol,
  {grouped("f.quantity")} || ' @ ' || {grouped("f.price")} || ' · ' || {grouped("f.order_executed")}
    || ' of ' || {grouped("f.order_quantity")} || ' · fee ' || {grouped("f.fee")}
    || CASE WHEN f.tax > 0 THEN ' · tax ' || {grouped("f.tax")} ELSE '' END
    || ' · position ' || f.symbol || ' ' || {grouped("f.position")}, NULL, f.broker_status
FROM fills f
UNION ALL
SELECT e.seq, 0, {words.time("e.at")}, e.at, '2fa', e.intent_id, NULL, NULL, NULL,
  e.kind || COALESCE(' · ' || NULLIF(e.code, ''), '') || COALESCE(' · ' || NULLIF(e.detail, ''), ''),
  NULL, e.kind
FROM auth_events e
UNION ALL
SELECT h.seq, 0, {words.time("h.at")}, h.at, 'state', NULL, NULL,
  CASE WHEN h.scope LIKE 'strategy:%' THEN substr(h.scope, 10) END, NULL,
  h.scope || ' · ' || COALESCE(h.from_state || ' → ', '') || h.to_state || ' · ' || h.reason
    || ' · by ' || h.by_whom, NULL, h.to_state
FROM halts h
UNION ALL
SELECT n.seq, 0, {words.time("n.at")}, n.at, 'note', NULL, NULL, NULL, n.symbol,
  n.kind || ' · ' || n.text, n.numbers, n.kind
FROM notes n
UNION ALL
SELECT s.seq, 0, {words.time("s.at")}, s.at, 'account', NULL, NULL, NULL, NULL,
  'cash ' || {grouped("s.cash")} || ' · net assets ' || {grouped("s.net_asset_value")}, s.holdings, NULL
FROM account_snapshots s
"""
