"""`bot status` in words, from what a running bot answers."""

import re
from pathlib import Path
from typing import Any, Final

from bot.cli.commands import status
from bot.cli.commands.status import OUTCOMES, lines_of
from bot.cli.messages import CHANGED
from bot.cli.target import STOPPED
from bot.cli.telling.languages import catalogue
from bot.domain.entry import RunState
from bot.domain.instrument import PHASE_WORDS

WHICH: Final = "mybot (sandbox, account …001.1)"
RUNNING: Final[dict[str, Any]] = {
    "state": "NEEDS_2FA",
    "reason": "needs 2FA (OTP_SESSION_EXPIRED)",
    "causes": [
        {
            "state": "NEEDS_2FA",
            "by": "2fa",
            "reason": "needs 2FA (OTP_SESSION_EXPIRED)",
            "since": "2026-11-19T02:38:00+00:00",
        },
        {
            "state": "PAUSED",
            "by": "operator",
            "reason": "earnings",
            "since": "2026-11-19T02:20:00+00:00",
        },
    ],
    "mode": "sandbox",
    "dry_run": False,
    "at": "2026-11-19T02:39:00+00:00",
    "started_at": "2026-11-19T02:14:55+00:00",
    "journal": "sqlite:///var/journal.db",
    "phases": {"HOSE": "PROGRESS"},
    "two_factor": {
        "until": None,
        "is_unproven": False,
        "missed_signals": 3,
        "codes_used": 2,
        "codes_per_day": 5,
    },
    "strategies": [
        {"name": "sma-fpt", "state": "on", "reason": "looked", "mode": "trade"},
        {"name": "depth-hpg", "state": "paused", "reason": "earnings", "mode": "watch"},
        {"name": "sma-vnm", "state": "warming", "reason": "waiting for 20 bars (7 so far)"},
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
    "alerts": ["the day order book's row ORD9 can't be read"],
    "standing": [
        {
            "code": "ROW_UNREADABLE",
            "text": "the day order book's row ORD9 can't be read",
            "facts": {"order_id": "ORD9", "symbol": "HPG", "why": "no status"},
        }
    ],
    "unloaded": [{"strategy": "old", "symbol": "VNM", "shares": 400}],
    "counts": {"orders": 3, "filled": 2, "cancelled": 1, "skips": 40},
    "orders_today": {"filled": 8, "rejected": 1, "partly filled": 2, "never placed": 1, "open": 0},
    "rate": {"used": 12, "per_minute": 60, "waiting": 7, "is_degraded": False, "starved": ""},
    "day_result": 134_000,
}


def test_market_data_that_was_passed_over_is_told_with_what_waits() -> None:
    inbox = {"waiting": 1_200, "asked": 0, "passed_over": 31}

    *_, last = lines_of({**RUNNING, "inbox": inbox}, WHICH)

    assert last == "inbox       1,200 waiting, 31 quotes passed over for newer ones"


def test_a_starting_bot_does_not_say_that_nothing_is_held() -> None:
    starting = {**RUNNING["causes"][1], "state": "STARTING", "by": "engine", "reason": "starting"}
    halted = {**RUNNING, "state": "HALTED", "positions": [], "causes": [starting]}

    (told,) = (line for line in lines_of(halted, WHICH) if line.startswith("positions"))
    (known,) = (
        line
        for line in lines_of({**halted, "positions": RUNNING["positions"]}, WHICH)
        if line.startswith("positions")
    )

    assert told == (
        "positions   not loaded yet, the bot is still starting; as last written: bot positions"
    )
    assert known == "positions   FPT 300 +126,000   day P&L +134,000"


def test_a_running_bot_known_reason() -> None:
    assert list(lines_of(RUNNING, WHICH)) == [
        f"NEEDS_2FA  {WHICH}  since 09:14 (24m)  HOSE continuous",
        (
            "why         PAUSED by you 09:20: earnings, and needs 2FA (OTP_SESSION_EXPIRED)"
            " since 09:38"
        ),
        "strategies  sma-fpt on",
        "            depth-hpg (watch) paused: earnings",
        "            sma-vnm waiting for 20 bars (7 so far)",
        "positions   FPT 300 +126,000   day P&L +134,000",
        "            VNM 400 of old, which is not running: nothing sells it",
        "orders      12 today: 8 filled, 2 partly filled, 1 rejected, 1 never placed",
        "open        ORD10000006 BUY 300 HPG LIMIT 27,000, 100 filled",
        "held        L-0007 BUY 100 FPT waits for 2FA until 09:41",
        "unknown     L-0008: outcome not known yet; never sent again (bot order L-0008)",
        "halted      VNM: executed more than ordered",
        "alert       the day order book's row ORD9 can't be read",
        (
            "2FA         needed: no orders, changes or cancels without a token. "
            "To enter one: bot otp (3 of the day's 5 codes left)"
            " · 3 signals missed (bot decisions --missed)"
        ),
        "journal     sqlite:///var/journal.db",
        "requests    12 of 60 this minute, 7 waiting",
    ]


def test_a_halt_stands_before_the_missing_token() -> None:
    halt = {"state": "HALTED", "by": "operator", "reason": "", "since": "2026-11-19T03:20:00+00:00"}
    need = {"state": "NEEDS_2FA", "by": "2fa", "reason": "needs 2FA (OTP_SESSION_REQUIRED)"}
    lines = list(lines_of({**RUNNING, "state": "HALTED", "causes": [halt, need]}, WHICH))

    assert lines[1] == "why         HALTED by you 10:20, and needs 2FA (OTP_SESSION_REQUIRED)"


def test_a_halt_by_a_signal_is_named_as_the_run_names_it() -> None:
    at = "2026-11-19T03:20:00+00:00"
    halt = {"state": "HALTED", "by": "signal", "reason": "SIGUSR1", "since": at}
    lines = list(lines_of({**RUNNING, "state": "HALTED", "causes": [halt]}, WHICH))

    assert lines[1] == "why         HALTED by SIGUSR1 10:20"


def test_an_order_that_waits_for_the_next_session_says_so() -> None:
    order = {**RUNNING["open_orders"][0], "executed": 0, "broker_status": "WAITING_TO_SEND"}
    lines = list(lines_of({**RUNNING, "open_orders": [order]}, WHICH))

    assert (
        "open        ORD10000006 BUY 300 HPG LIMIT 27,000, nothing filled yet, "
        "waits for the next session"
    ) in lines


def test_polls_that_come_late_are_told_with_their_numbers() -> None:
    starved = "polls come late: they need 72 requests a minute, the quota leaves 30"
    lines = list(lines_of({**RUNNING, "rate": {**RUNNING["rate"], "starved": starved}}, WHICH))

    assert lines[-1] == f"            {starved}"


def test_the_alerts_of_a_bot_of_an_earlier_version_are_shown_in_its_words() -> None:
    older = {name: value for name, value in RUNNING.items() if name != "standing"}

    assert list(lines_of(older, WHICH)) == list(lines_of(RUNNING, WHICH))


def test_a_bot_that_does_not_run_is_stopped() -> None:
    assert list(lines_of(STOPPED, WHICH)) == [f"STOPPED  {WHICH}"]


def test_a_bot_that_has_just_begun_says_that_it_is_starting() -> None:
    found = {"state": "STARTING", "mode": "live", "reason": "reading the journal and the broker"}

    assert list(lines_of(found, WHICH)) == [
        f"STARTING  {WHICH}",
        "why         reading the journal and the broker",
    ]


def test_an_unproven_token_is_called_so() -> None:
    token = {"until": "2026-11-19T16:59:59+00:00", "is_unproven": True}
    lines = list(lines_of({**RUNNING, "state": "RUNNING", "two_factor": token}, WHICH))

    assert "2FA         ok until 23:59, unproven until the first order" in lines
    assert not [line for line in lines if line.startswith("why")]


def test_drift_is_a_line_of_its_own() -> None:
    field = {"call": "stock_quote", "field": "price_vnd", "change": "renamed", "was": "price"}
    lines = list(lines_of({**RUNNING, "drift": [field]}, WHICH))

    assert lines[-1] == "drift       stock_quote price_vnd renamed (was price)"


def test_a_time_of_an_earlier_day_is_told_with_its_day() -> None:
    trouble = {"text": "nothing can be read", "since": "2026-11-19T02:31:00+00:00"}
    later = {**RUNNING, "at": "2026-11-20T02:39:00+00:00", "trouble": trouble}

    first, head, why, *_ = lines_of(later, WHICH)

    assert first == "TROUBLE     since 2026-11-19 09:31: nothing can be read"
    assert "  since 2026-11-19 09:14 (24h24)  " in head
    assert "PAUSED by you 2026-11-19 09:20: earnings" in why
    assert why.endswith("since 2026-11-19 09:38")


def test_what_keeps_the_bot_from_working_is_said_first() -> None:
    text = "the journal can't be written, nothing is sent: database or disk is full"
    trouble = {"text": text, "since": "2026-11-19T02:31:00+00:00"}

    lines = list(lines_of({**RUNNING, "trouble": trouble}, WHICH))

    assert lines[0] == f"TROUBLE     since 09:31: {text}"
    assert lines[1:] == list(lines_of({**RUNNING, "trouble": None}, WHICH))


def test_polls_that_the_quota_slows_down_are_said_with_their_numbers() -> None:
    polls = {"asked": 132.0, "made": 30.0, "room": 30, "slower": 4.4}

    lines = list(lines_of({**RUNNING, "rate": {**RUNNING["rate"], "polls": polls}}, WHICH))

    assert lines[-1].strip() == (
        "polls come 4.4 times less often than the files ask for: they would need 132 a minute, the "
        "quota leaves them 30"
    )


def test_quotes_too_far_apart_for_orders_are_said_with_the_setting() -> None:
    rate = {**RUNNING["rate"], "polls": {"slower": 1.0, "quote_every_s": 12.0}}
    limits = [{"key": "max_quote_age_s", "allowed": 10}]

    lines = list(lines_of({**RUNNING, "rate": rate, "limits": limits}, WHICH))

    assert lines[-1].strip() == (
        "quotes come every 12 s, and on one older than 10 s (risk.max_quote_age_s) no order goes "
        "out: QUOTE_AGE"
    )


def test_an_order_made_elsewhere_is_told_apart() -> None:
    order = {**RUNNING["open_orders"][0], "intent_id": None}
    lines = list(lines_of({**RUNNING, "open_orders": [order]}, WHICH))

    [shown] = [each for each in lines if each.startswith("open ")]
    assert shown.endswith("placed elsewhere: the bot leaves it alone")


SAID: Final = re.compile(r"""say\(\s*(?:"([^"]+)"|'([^']+)')""")
PARTS: Final = re.compile(r'(?:text = |^ +)"([^"]*\{\w[^"]*)"', re.MULTILINE)
"""Of a phrase that is too long for the line that says it."""


def test_every_phrase_of_the_status_has_its_vietnamese() -> None:
    source = Path(status.__file__).read_text("utf-8")
    words = {
        *RunState,
        *OUTCOMES,
        *PHASE_WORDS.values(),
        CHANGED,
        "BUY",
        "SELL",
        "signals",
        "quotes",
    }
    words |= {"on", "paused", "disabled", "by you", "by itself", "as before the restart"}
    said = {one or two for one, two in SAID.findall(source)}

    known = catalogue("vi").screen

    assert len(said) > 30
    assert (words | said) - set(known) == set()
    assert [part for part in PARTS.findall(source) if not any(part in each for each in known)] == []


def test_a_running_bot_in_vietnamese() -> None:
    lines = list(lines_of({**RUNNING, "language": "vi"}, WHICH))

    assert lines == [
        f"NEEDS_2FA (cần mã 2FA)  {WHICH}  từ 09:14 (24m)  HOSE khớp lệnh liên tục",
        ("lý do       PAUSED do bạn 09:20: earnings, và cần mã 2FA (OTP_SESSION_EXPIRED) từ 09:38"),
        "chiến lược  sma-fpt đang bật",
        "            depth-hpg (chỉ theo dõi) tạm ngưng: earnings",
        "            sma-vnm waiting for 20 bars (7 so far)",
        "vị thế      FPT 300 +126,000   lãi/lỗ ngày +134,000",
        "            VNM 400 của old, chiến lược không chạy: không ai bán số này",
        ("lệnh        hôm nay 12: 8 khớp hết, 2 khớp một phần, 1 bị từ chối, 1 không được đặt"),
        "chờ khớp    ORD10000006 MUA 300 HPG LIMIT 27,000, đã khớp 100",
        "tạm giữ     L-0007 MUA 100 FPT chờ mã 2FA đến 09:41",
        "chưa rõ     L-0008: chưa rõ kết quả; không gửi lại (bot order L-0008)",
        "tạm dừng    VNM: executed more than ordered",
        (
            "cảnh báo    Không đọc được dòng ORD9 trong sổ lệnh trong ngày (no status). Bot không"
            " mua mã HPG (dấu - là mọi mã) cho đến khi đọc được. Nếu cứ như vậy, hãy xem đó là lệnh"
            " gì trong ứng dụng của công ty chứng khoán."
        ),
        (
            "2FA         cần mã: không đặt, sửa, huỷ lệnh khi chưa có. Nhập mã: bot otp (còn 3/5"
            " lần xin mã trong ngày) · lỡ 3 tín hiệu (bot decisions --missed)"
        ),
        "nhật ký     sqlite:///var/journal.db",
        "yêu cầu     12/60 trong phút này, 7 đang chờ",
    ]
