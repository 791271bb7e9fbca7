"""Every row of a timeline has its line, or is in that of another."""

import json
import re
from datetime import UTC, datetime

import pytest

from bot.cli.telling.order_story import _MOVED, _SENDING, story
from bot.domain.order import OrderState, SendState
from bot.journal.reading.values import OrderRow, TimelineRow
from tests.journal.facts import DAY

AT = datetime(2026, 11, 19, 2, 16, tzinfo=UTC)
LOST = OrderRow(
    seq=1,
    id="L-0003",
    local_id="L-0003",
    order_id=None,
    at=AT,
    trading_date=DAY,
    strategy="s",
    account=None,
    side="BUY",
    symbol="HPG",
    exchange="HOSE",
    quantity=500,
    order_type="LO",
    price=27_050,
    executed_quantity=0,
    executed_amount=0,
    average_price=None,
    cancelled_quantity=0,
    status="UNKNOWN",
    state=None,
    send_state="UNKNOWN",
    fee=0,
    tax=0,
    code=None,
    reason="",
    why="",
    note="",
    is_open=True,
)


def row(
    kind: str, word: str, text: str, order_id: str | None = None, detail: str | None = None
) -> TimelineRow:
    return TimelineRow(1, AT, 0.0, kind, "L-0003", order_id, None, None, text, detail, word)


def lines_of(
    kind: str, word: str, text: str, order_id: str | None = None, detail: str | None = None
) -> list[str]:
    lines = story([row(kind, word, text, order_id, detail)], LOST, limit=200)
    return [re.sub(r"^\S+ +\S+ +", "", line) for line in lines]


@pytest.mark.parametrize(
    ("kind", "word", "text", "line"),
    [
        (
            "decided",
            "PASSED",
            "PASSED CANCEL · BUY 300 HPG LO 27,050 · expire 3m",
            "cancel: expire",
        ),
        (
            "decided",
            "PASSED",
            "PASSED AMEND · BUY 300 HPG LO 27,100 · b",
            "change to BUY 300 HPG L",
        ),
        ("recorded", "", "BUY 500 HPG LO 27,050 · follows L-0002", "L-0002, which waited for 2FA"),
        ("sent", "DELETE", "DELETE /x · nonce 1… · body sha256 2…", "a cancel to the broker"),
        ("answered", "UNKNOWN", "UNKNOWN · reset · 9 ms", "no trusted answer: reset (9 ms)"),
        (
            "answered",
            "REFUSED",
            "REFUSED · HTTP 200 · -900017 · Giá nằm ngoài biên độ · 9 ms",
            'refused: price outside the day\'s band (-900017), "Giá nằm ngoài biên độ" (9 ms)',
        ),
        ("answered", "REFUSED", "REFUSED · HTTP 400 · E1 · no · 9 ms", 'refused: E1, "no" (9 ms)'),
        ("answered", "REFUSED", "REFUSED · HTTP 400 · E1 · 9 ms", "refused: E1 (9 ms)"),
        ("sending", "EXPIRED_LOCAL", "READY → EXPIRED_LOCAL · too old", "not sent: too old"),
        ("sending", "NOT_SENT", "SENDING → NOT_SENT · halted", "not sent: halted"),
        (
            "sending",
            "EXPIRED_LOCAL",
            "HELD → EXPIRED_LOCAL · no 2FA within 15 min",
            "not sent: no 2FA",
        ),
        (
            "sending",
            "NOT_PLACED",
            "FRESH → NOT_PLACED · proof unused",
            "never placed: proof unused",
        ),
        ("2fa", "ready", "ready · token until 23:59", "ready · token until 23:59"),
    ],
)
def test_a_row_is_put_in_a_traders_words(kind: str, word: str, text: str, line: str) -> None:
    [found] = lines_of(kind, word, text)

    assert found.split(maxsplit=1)[1].startswith(line)


@pytest.mark.parametrize(
    ("text", "checks", "line"),
    [
        ("2 of 2", [("CASH", True, "cash 13.5M of 100M")], "2 checks ok: cash 13.5M of 100M"),
        ("2 of 2", [("LOT", True, "quantity 500")], "2 checks ok"),
        (
            "refused by LOT, check 2",
            [("CASH", True, "cash 13.5M of 100M"), ("LOT", False, "quantity 150")],
            "refused by LOT: quantity 150",
        ),
    ],
)
def test_checks_say_what_refused_else_the_numbers_worth_knowing(
    text: str, checks: list[tuple[str, bool, str]], line: str
) -> None:
    names = ("code", "passed", "text")
    detail = json.dumps([dict(zip(names, check, strict=True)) for check in checks])

    assert lines_of("checked", "", text, detail=detail) == [f"checked   {line}"]


@pytest.mark.parametrize(
    ("code", "begins"),
    [("AMEND_ENABLED", "change to BUY"), ("ROW_READ", "change to BUY"), ("LOT", "BUY")],
)
def test_a_refused_change_is_told_as_a_change(code: str, begins: str) -> None:
    detail = json.dumps([{"code": code, "passed": False, "text": "why not"}])
    rows = [
        row("decided", "BLOCKED", f"BLOCKED {code} · BUY 100 HPG LO 27,100 · by hand"),
        row("checked", "BLOCKED", f"refused by {code}, check 1", detail=detail),
    ]

    found = [line.split(maxsplit=2)[2] for line in story(rows, LOST, limit=200)]

    assert found == [
        f"decided   {begins} 100 HPG LIMIT 27,100: by hand",
        f"checked   refused by {code}: why not",
    ]


@pytest.mark.parametrize(("code", "what"), [("VERDICT_ROW", "verdict"), ("OPEN_ORDER", "cancel")])
def test_a_refused_verdict_or_cancel_is_told_as_one(code: str, what: str) -> None:
    detail = json.dumps([{"code": code, "passed": False, "text": "ORD99 is not in the list"}])
    rows = [
        row("decided", "BLOCKED", f"BLOCKED {code} · BUY HPG · I looked · in the app"),
        row("checked", "BLOCKED", f"refused by {code}, check 1", detail=detail),
    ]

    found = [line.split(maxsplit=2)[2] for line in story(rows, LOST, limit=200)]

    assert found == [
        f"decided   {what} refused: I looked: in the app",
        f"checked   refused by {code}: ORD99 is not in the list",
    ]


@pytest.mark.parametrize(
    ("kind", "word", "text"),
    [
        ("recorded", "", "BUY 500 HPG LO 27,050"),
        ("result", "place", "place"),
        ("polled", "book", "book"),
        ("sending", "SENDING", "READY → SENDING · signed and sent"),
        ("moved", "INITIALIZED", "INITIALIZED"),
        ("2fa", "proved", "proved · proved by ORD1"),
    ],
)
def test_what_another_row_says_is_not_said_twice(kind: str, word: str, text: str) -> None:
    assert lines_of(kind, word, text) == []


def test_every_state_has_words_or_is_left_out_on_purpose() -> None:
    assert set(_SENDING) == set(SendState)
    assert set(_MOVED) == set(OrderState)


@pytest.mark.parametrize("state", OrderState)
def test_only_the_end_of_an_order_has_a_line_of_its_moves(state: OrderState) -> None:
    lines = lines_of("moved", state, f"ACCEPTED → {state}", "ORD1")

    assert bool(lines) is (state in {"CANCELLED", "EXPIRED", "REJECTED"})
