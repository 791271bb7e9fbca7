"""`bot status` in words, from what a running bot answers."""

from bot.cli.status_command import STOPPED, lines_of

RUNNING = {
    "state": "NEEDS_2FA",
    "reason": "needs 2FA: OTP_SESSION_EXPIRED",
    "mode": "sandbox",
    "dry_run": False,
    "at": "2026-11-19T02:39:00+00:00",
    "started_at": "2026-11-19T02:14:55+00:00",
    "journal": "sqlite:///var/journal.db",
    "phases": {"HOSE": "PROGRESS"},
    "two_factor": {"until": None, "is_unproven": False, "missed_signals": 3},
    "strategies": [
        {"name": "sma-fpt", "state": "on", "reason": "", "mode": "trade"},
        {"name": "depth-hpg", "state": "paused", "reason": "earnings", "mode": "watch"},
    ],
    "positions": [{"symbol": "FPT", "shares": 300, "unrealised": 126_000}],
    "open_orders": [
        {
            "order_id": "ORD10000006",
            "symbol": "HPG",
            "side": "BUY",
            "quantity": 300,
            "price": 27_000,
            "order_type": "LO",
            "executed": 100,
            "broker_status": "SENT",
        }
    ],
    "held": [
        {
            "intent_id": "L-0007",
            "symbol": "FPT",
            "side": "BUY",
            "quantity": 100,
            "until": "2026-11-19T02:41:00+00:00",
        }
    ],
    "unknown": ["L-0008"],
    "halted_symbols": {"VNM": "executed more than ordered"},
    "counts": {"orders": 12, "filled": 8, "rejected": 1, "skips": 40},
    "day_result": 134_000,
}


def test_a_running_bot_in_words() -> None:
    assert list(lines_of(RUNNING)) == [
        "NEEDS_2FA  sandbox  since 09:14 (24m)  HOSE continuous",
        "why         needs 2FA: OTP_SESSION_EXPIRED",
        'strategies  sma-fpt on · depth-hpg paused (watch) "earnings"',
        "positions   FPT 300 +126,000   day P&L +134,000",
        "orders      12 orders, 8 filled, 1 rejected, 1 order open",
        "open        ORD10000006 BUY 300 HPG LIMIT 27,000 SENT, 100 filled",
        "held        L-0007 BUY 100 FPT waits for 2FA until 09:41",
        "unknown     L-0008: nobody knows yet; never sent again (bot order L-0008)",
        "halted      VNM: executed more than ordered",
        (
            "2FA         needed: no orders, changes or cancels until then. Give it: bot otp"
            " · 3 signals missed (bot decisions --missed)"
        ),
        "journal     sqlite:///var/journal.db",
    ]


def test_a_bot_that_does_not_run_is_stopped() -> None:
    assert list(lines_of(STOPPED)) == ["STOPPED"]


def test_an_unproven_token_is_called_so() -> None:
    token = {"until": "2026-11-19T16:59:59+00:00", "is_unproven": True}
    lines = list(lines_of({**RUNNING, "state": "RUNNING", "two_factor": token}))

    assert "2FA         ok until 23:59, unproven until the first order" in lines
    assert not [line for line in lines if line.startswith("why")]


def test_drift_is_a_line_of_its_own() -> None:
    field = {"call": "stock_quote", "field": "price_vnd", "change": "renamed", "was": "price"}
    lines = list(lines_of({**RUNNING, "drift": [field]}))

    assert lines[-1] == "drift       stock_quote price_vnd renamed (was price)"
