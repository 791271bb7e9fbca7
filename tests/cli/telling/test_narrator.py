"""The lines of a run, made from the entries of the journal."""

from datetime import timedelta

import pytest

from bot.cli.telling.narrator import Narrator
from bot.cli.telling.orders import gap_percent
from bot.cli.telling.wording import LINE_MAX
from bot.domain.entry import (
    AuthEvent,
    CheckResult,
    Decision,
    Entry,
    Fill,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
    StrategySwitched,
    Transition,
    Verdict,
)
from bot.domain.order import OrderState, SendState, Side
from bot.domain.recovery import RecoveredStrategy, Recovery
from tests.cli.stage import PARTLY, REJECTED, blocked, no, rejected
from tests.journal.facts import DAY, EVERY_KIND, Story, after, but
from tests.rows import every_row

_SEND = SendState
CHECKS = (
    CheckResult("LOT", True, {}, "quantity 500"),
    CheckResult("MAX_ORDER_VALUE", True, {}, "order 13.5M of 50M"),
    CheckResult("MAX_ORDERS", True, {}, "day 2 of 20"),
    CheckResult("CASH", True, {}, "cash 13.5M of 100M"),
)


def lines_of(*entries: Entry, narrator: Narrator | None = None) -> list[str]:
    narrator = narrator or Narrator()
    return [line for entry in entries for line in narrator.lines_of(entry)]


def placed(story: Story = PARTLY) -> list[Entry]:
    return [entry for entries in story.placed()[1:] for entry in entries]


def state(seconds: float, before: RunState, then: RunState, reason: str, by: str) -> StateChanged:
    return StateChanged(after(seconds), before, then, reason, by)


def test_a_wish_that_passed_is_told_with_its_reason_and_its_numbers() -> None:
    assert lines_of(but(PARTLY.decision, checks=CHECKS)) == [
        "09:21:00 DECIDE  depth-hpg  BUY  HPG  bids 4.6x asks",
        (
            "09:21:00 CHECK   depth-hpg  4 of 4 ok "
            "(order 13.5M of 50M, day 2 of 20, cash 13.5M of 100M)"
        ),
    ]


def test_an_order_is_told_with_its_id_status_and_latency() -> None:
    assert lines_of(*placed()) == [
        "09:21:00 ORDER   L-0003     BUY 500 HPG LIMIT 27,050 -> ORD10000003 SENT (41 ms)"
    ]


def test_a_row_seen_again_is_not_told_again() -> None:
    assert lines_of(*placed(), PARTLY.accepted)[1:] == []


def test_an_order_of_an_earlier_run_is_not_announced_again() -> None:
    assert lines_of(PARTLY.accepted) == []


def test_a_partial_fill_says_how_much_of_it_is_done() -> None:
    assert lines_of(*placed(), *PARTLY.filled(200, position=200))[1:] == [
        "09:22:30 PARTIAL L-0003     200 of 500 @ 27,050  fee 8,115 position HPG 200"
    ]


def test_a_whole_fill_says_fee_and_position() -> None:
    assert lines_of(*PARTLY.filled(500, position=500)) == [
        "09:22:30 FILL    L-0003     500 @ 27,050  fee 20,287 position HPG 500"
    ]


def test_a_sale_says_its_tax_and_result() -> None:
    sale = but(PARTLY, side=Side.SELL)
    [line] = lines_of(*sale.filled(500, position=0, realised=-25_000))

    assert "tax 13,525 result -25,000 position HPG 0" in line


def test_a_cancel_says_what_is_left_and_what_is_kept() -> None:
    ended = but(
        PARTLY.filled(200, position=200)[1],
        state=OrderState.CANCELLED,
        note="expire 3m: 200 filled, 300 cancelled",
    )

    assert lines_of(*placed(), ended)[1:] == [
        "09:22:30 CANCEL  L-0003     expire 3m: 200 filled, 300 cancelled"
    ]


def test_a_lapse_at_the_close_has_its_line() -> None:
    ended = but(PARTLY.accepted, state=OrderState.EXPIRED, broker_status="EXPIRED")

    assert lines_of(ended) == [
        "09:21:00 EXPIRED L-0003     500 of 500 lapsed unfilled at the close"
    ]


def test_a_rejection_is_told_in_words_before_its_code_and_its_text() -> None:
    assert lines_of(REJECTED.recorded, *rejected()) == [
        "09:27:00 REJECT  L-0004     broker rejected it: price outside the day's band (-900017)",
        '                 "Giá nằm ngoài biên độ" · not sent again · bot order L-0004 --timeline',
    ]


def refused_outright(code: str) -> list[Entry]:
    return [
        but(REJECTED.finished, outcome="REFUSED", http_status=400, code=code),
        Transition(
            at=after(360),
            intent_id="L-0004",
            order_id=None,
            from_state=OrderState.SUBMITTED,
            to_state=OrderState.REJECTED,
            broker_status=None,
            source="place",
            note=f"{code} Invalid symbol",
        ),
    ]


def test_a_refusal_without_a_row_is_told_once() -> None:
    assert lines_of(*refused_outright("-300015")) == [
        "09:27:00 REJECT  L-0004     broker refused it: -300015",
        '                 "Invalid symbol" · not sent again · bot order L-0004 --timeline',
    ]


def test_an_order_that_2fa_holds_is_no_rejection() -> None:
    held = REJECTED.moved(_SEND.SENDING, _SEND.HELD)

    assert lines_of(held, *refused_outright("OTP_SESSION_EXPIRED")) == []


def test_an_unknown_outcome_says_that_it_is_never_sent_again() -> None:
    lost = but(PARTLY.moved(_SEND.SENDING, _SEND.UNKNOWN), reason="no answer within 10 s")

    assert lines_of(lost) == [
        "09:21:00 UNKNOWN L-0003     no trusted answer: no answer within 10 s",
        "                 never sent again; the day order book will tell · bot order L-0003",
    ]


def test_a_lost_order_that_is_found_is_settled_and_then_shown() -> None:
    found = but(PARTLY.moved(_SEND.UNKNOWN, _SEND.MATCHED), reason="found as ORD10000003")

    assert lines_of(found, PARTLY.accepted) == [
        "09:21:00 SETTLED L-0003     found as ORD10000003",
        "09:21:00 ORDER   L-0003     BUY 500 HPG LIMIT 27,050 -> ORD10000003 SENT",
    ]


def test_an_order_that_is_not_ours_is_told_once() -> None:
    row = but(PARTLY.accepted, intent_id=None, strategy=None)

    assert lines_of(row, row) == ["09:21:00 ORDER   ORD10000003 not ours: BUY 500 HPG LIMIT 27,050"]


def test_an_order_that_may_be_ours_is_not_told_as_somebody_elses() -> None:
    row = but(PARTLY.accepted, intent_id=None, strategy=None, note="may be L-0277")

    assert lines_of(row) == ["09:21:00 ORDER   ORD10000003 may be L-0277: BUY 500 HPG LIMIT 27,050"]


# ------------------------------------------------------------------------------------- the skips


def test_a_block_says_the_check_and_the_numbers() -> None:
    assert lines_of(*blocked()) == [
        (
            "09:31:00 BLOCK   sma-fpt    BUY 900 VNM not sent: "
            "order 64.7M of 50M (MAX_ORDER_VALUE) · L-0005"
        )
    ]


@pytest.mark.parametrize(
    ("asked", "what"), [({}, "cancel"), ({"price": None, "quantity": 200}, "change")]
)
def test_a_persons_request_that_is_refused_is_no_order_that_was_not_sent(
    asked: dict[str, int | None], what: str
) -> None:
    [entry, _] = blocked()
    check = CheckResult("OPEN_ORDER", False, {}, "ORD10000005 is CANCELLED")
    numbers = {"by": "operator", **asked}
    refused = but(entry, code="OPEN_ORDER", request_id="L-0005", checks=(check,), numbers=numbers)

    [line] = lines_of(refused)
    assert line.startswith("09:31:00 BLOCK   sma-fpt    ")
    assert line.endswith(f"the {what} of L-0005 was refused: {check.text} (OPEN_ORDER)")


def test_a_verdict_that_is_not_taken_is_no_order_that_was_not_sent() -> None:
    [asked, _] = blocked()
    assert isinstance(asked, Decision)
    refused = but(asked, code="VERDICT_OPEN", strategy="", checks=(), numbers={"reason": "it is"})

    assert lines_of(refused) == ["09:31:00 BLOCK   the verdict on L-0005 was refused: it is"]


def test_the_same_no_is_told_once_whatever_its_figures() -> None:
    assert lines_of(no(1, 0.4), no(2, 0.05), no(3, 0.2)) == [
        "09:22:00 SKIP    sma-fpt    FPT  no cross (gap 0.40%)"
    ]


def test_another_reason_has_its_line() -> None:
    other = but(no(2, 0.0), code="ORDER_WORKING", why="order working")

    assert len(lines_of(no(1, 0.4), other, no(3, 0.1))) == 2


def test_a_no_is_told_again_after_something_has_happened() -> None:
    bought = but(PARTLY.decision, strategy="sma-fpt", symbol="FPT", checks=CHECKS)

    assert lines_of(no(1, 0.4), bought, no(3, 0.2))[-1] == (
        "09:24:00 SKIP    sma-fpt    FPT  no cross (gap 0.20%)"
    )


def test_a_fault_of_a_strategy_is_an_alert() -> None:
    fault = but(no(1, 0.0), verdict=Verdict.FAILED, code="EXCEPTION", why="on_bar: ValueError")

    assert lines_of(fault) == ["09:22:00 ALERT   sma-fpt    FPT  EXCEPTION: on_bar: ValueError"]


# ------------------------------------------------------------------------------------- the states

NEEDED = AuthEvent(after(100), "needed", "OTP_SESSION_EXPIRED", "session expired", "L-0004")
PAUSED = state(100, RunState.RUNNING, RunState.NEEDS_2FA, "needs 2FA: OTP_SESSION_EXPIRED", "2fa")


def test_a_pause_for_2fa_says_what_is_off_and_what_cannot_be_cancelled() -> None:
    assert lines_of(*placed(), REJECTED.recorded, NEEDED, PAUSED)[1:] == [
        (
            "09:22:40 PAUSED  needs 2FA · 403 OTP_SESSION_EXPIRED on L-0004 (BUY 100 VNM) "
            "· not sent again"
        ),
        f"{'':17}Stopped: new orders, changes, cancels. Still on: quotes, positions, journal.",
        "                 1 open order can't be cancelled until then: ORD10000003 BUY 500 HPG",
        "                 To continue: bot otp, or answer the question here",
    ]


def test_a_pause_for_2fa_names_the_bot_where_the_command_has_to() -> None:
    narrator = Narrator()
    narrator.ask_by("bot otp -c config/demo/bot.yaml")

    assert narrator.lines_of(PAUSED)[-1].split("To continue: ")[1] == (
        "bot otp -c config/demo/bot.yaml, or answer the question here"
    )


def test_a_pause_without_open_orders_names_none() -> None:
    lines = lines_of(but(NEEDED, intent_id=None, code="OTP_SESSION_REQUIRED"), PAUSED)

    assert lines[0] == "09:22:40 PAUSED  needs 2FA · OTP_SESSION_REQUIRED: session expired"
    assert len(lines) == 3


def test_a_token_that_comes_under_a_pause_is_told_too() -> None:
    ready = AuthEvent(after(160), "ready", "", "until 23:59")
    paused = state(160, RunState.NEEDS_2FA, RunState.PAUSED, "lunch", "operator")

    assert lines_of(NEEDED, PAUSED, ready, paused)[-2:] == [
        "09:23:40 2FA     ok until 23:59",
        "09:23:40 PAUSED  by you: lunch",
    ]


def test_a_token_that_comes_under_a_halt_is_told_with_what_still_stops() -> None:
    halted = state(150, RunState.NEEDS_2FA, RunState.HALTED, "enough", "operator")
    ready = AuthEvent(after(160), "ready", "", "until 23:59")

    told, more = lines_of(NEEDED, PAUSED, halted, ready)[-2:]

    assert told == "09:23:40 2FA     ok until 23:59; the bot stays HALTED"
    assert more.endswith('continue: bot resume --reason "…"')


def test_a_resume_says_how_long_it_was_paused() -> None:
    ready = state(580, RunState.NEEDS_2FA, RunState.RUNNING, "2FA ok until 23:59", "code")

    assert lines_of(NEEDED, PAUSED, ready)[-1] == (
        "09:30:40 RESUMED 2FA ok until 23:59 · paused 8m · unproven until the first order"
    )


def test_the_end_of_a_demo_is_told_as_such() -> None:
    end = state(3_600, RunState.RUNNING, RunState.STOPPING, "the hour is over", "demo")

    assert lines_of(end) == ["10:21:00 DEMO    the hour is over · stopping cleanly"]


def test_an_operator_is_named() -> None:
    pause = state(0, RunState.RUNNING, RunState.PAUSED, "earnings", "operator")

    assert lines_of(pause) == ["09:21:00 PAUSED  by you: earnings"]


@every_row(
    ("by", "reason", "then", "text"),
    [
        ("operator", "", RunState.PAUSED, "PAUSED  by you"),
        ("operator", "", RunState.HALTED, "HALTED  by you"),
        ("operator", "looked", RunState.RUNNING, "RESUMED by you: looked"),
        ("operator", "bot stop", RunState.STOPPING, "STOP    by you: bot stop"),
        ("signal", "Ctrl-C", RunState.STOPPING, "STOP    by Ctrl-C"),
        ("journal", "lunch", RunState.PAUSED, "PAUSED  as before the restart: lunch"),
        ("broker", "HTTP 502", RunState.DEGRADED, "PAUSED  the broker can't be read: HTTP 502"),
        ("engine", "cash differs", RunState.PAUSED, "PAUSED  cash differs"),
    ],
)
def test_a_change_says_who_made_it_in_a_persons_words(by, reason, then, text) -> None:
    assert lines_of(state(0, RunState.DEGRADED, then, reason, by))[0] == f"09:21:00 {text}"


def test_a_halt_says_what_it_does_and_how_to_go_on() -> None:
    lines = lines_of(state(0, RunState.RUNNING, RunState.HALTED, "", "operator"))

    assert lines[1].strip() == (
        'open orders are being cancelled, positions stay · continue: bot resume --reason "…"'
    )


def test_a_halt_of_the_bot_itself_says_that_open_orders_stay() -> None:
    narrator = Narrator()
    halted = state(0, RunState.RUNNING, RunState.HALTED, "engine fault", "engine")
    token = AuthEvent(after(1), "ready", "", "until 23:59")
    by_hand = state(2, RunState.HALTED, RunState.HALTED, "enough", "operator")

    told = [narrator.lines_of(entry)[-1].strip() for entry in (halted, token, by_hand)]

    stays = 'open orders stay, or bot cancel --all · continue: bot resume --reason "…"'
    assert told[:2] == [stays, stays]
    assert told[2].startswith("open orders are being cancelled")


def test_what_is_still_held_at_the_end_has_its_line() -> None:
    note = Note(after(0), "HOLDS", "still open: FPT 100, unrealised +50,000")

    assert lines_of(note) == ["09:21:00 HOLDS   still open: FPT 100, unrealised +50,000"]


def test_a_strategy_that_is_paused_has_its_line() -> None:
    switched = StrategySwitched(after(0), "sma-fpt", "paused", "day loss 6 of 5", "limit")

    assert lines_of(switched) == ["09:21:00 PAUSED  sma-fpt    day loss 6 of 5"]


def test_a_change_of_phase_is_told_as_the_exchange_s() -> None:
    assert lines_of(Note(after(0), "PHASE", "HOSE continuous", {"exchange": "HOSE"})) == [
        "09:21:00 SESSION HOSE continuous"
    ]


def test_a_wait_for_the_quota_says_until_when_and_how_many_wait() -> None:
    until = (after(30) + timedelta(milliseconds=212)).isoformat()
    note = Note(after(0), "LIMIT", "broker 429", {"until": until, "waiting": 3, "call": "quote"})

    assert lines_of(note) == ["09:21:00 LIMIT   broker 429, waiting until 09:21:30, 3 calls queued"]


def wait(at: float, seconds: float) -> Note:
    until = after(at + seconds).isoformat()
    return Note(after(at), "LIMIT", "quota used up", {"until": until, "waiting": 1})


def test_a_short_wait_is_told_now_and_then_a_trifle_never() -> None:
    waits = [wait(0, 0.3), wait(5, 5), wait(10, 5), wait(20, 30), wait(300, 5), wait(321, 5)]

    assert [line[:8] for line in lines_of(*waits)] == ["09:21:05", "09:21:20", "09:26:21"]


def gap(at: float, symbol: str, fast: float, slow: float) -> Decision:
    numbers = {"sma(5)": fast, "sma(20)": slow}
    why = "sma(5), sma(20)"
    verdict = Verdict.SKIPPED
    return Decision(after(at), "sma-fpt", symbol, verdict, "NO_SIGNAL", why, numbers)


def test_a_pulse_without_a_gap_says_what_kept_most_from_a_signal() -> None:
    def no(at: float, why: str, symbol: str = "HPG") -> Decision:
        return Decision(after(at), "depth", symbol, Verdict.SKIPPED, "SKIP", why)

    pulse = Note(after(60), "PULSE", "2 on, 0 open · 3 skips", {"skips": 3})
    busy = Note(after(60), "PULSE", "2 on, 1 open · 1 signal", {"signals": 1})
    skips = [no(0, "bids 0.8x asks"), no(1, "holding"), no(2, "bids 1.4x asks", "FPT")]

    assert lines_of(*skips, pulse)[-1].endswith("· mostly depth FPT bids 1.4x asks (2x)")
    assert "mostly" not in lines_of(*skips, busy)[-1]
    assert "mostly" not in lines_of(*skips, pulse, pulse)[-1]


def test_a_pulse_says_who_was_nearest_to_a_signal_since_the_last_one() -> None:
    pulse = Note(after(60), "PULSE", "2 on, 0 open · 90 skips")
    looks = [gap(0, "FPT", 100.0, 99.0), gap(1, "VNM", 200.0, 199.5), gap(2, "FPT", 100.0, 98.0)]

    assert lines_of(*looks, pulse, pulse)[-2:] == [
        "09:22:00 PULSE   2 on, 0 open · 90 skips · nearest sma-fpt VNM gap 0.25%",
        "09:22:00 PULSE   2 on, 0 open · 90 skips",
    ]


def test_values_of_two_indicators_have_no_gap() -> None:
    assert gap_percent({"bid_volume(3)": 33_200, "ask_volume(3)": 41_400}) is None


def test_a_line_that_is_too_long_goes_on_below() -> None:
    lines = lines_of(Note(after(0), "PULSE", "2 on · " + ", ".join(["210 quotes"] * 10)))

    assert [line[:17] for line in lines] == ["09:21:00 PULSE   ", " " * 17]
    assert max(map(len, lines)) <= LINE_MAX


@pytest.mark.parametrize(("reason", "text"), [("", "by you"), ("lunch", "by you: lunch")])
def test_a_switch_without_a_reason_has_no_colon(reason: str, text: str) -> None:
    switched = StrategySwitched(after(0), "sma-fpt", "paused", reason, "operator")

    assert lines_of(switched) == [f"09:21:00 PAUSED  sma-fpt    {text}"]


def test_quotes_of_a_symbol_are_told_now_and_then() -> None:
    quotes = [Note(after(s), "QUOTE", f"FPT {s}", {}, "FPT") for s in (0, 1, 299, 300, 301)]

    assert [line[17:] for line in lines_of(*quotes)] == ["FPT 0", "FPT 300"]


# --------------------------------------------------------------------------------- all of them


@every_row("entry", EVERY_KIND)
def test_every_kind_of_entry_has_its_lines(entry: Entry) -> None:
    for line in lines_of(entry):
        assert len(line) <= LINE_MAX


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_its_lines(verdict: Verdict) -> None:
    decision = Decision(after(0), "sma-fpt", "FPT", verdict, "CODE", "why " * 60)

    lines = lines_of(decision)

    assert lines
    assert max(map(len, lines)) <= LINE_MAX


@every_row("then", RunState)
def test_every_state_has_its_lines(then: RunState) -> None:
    assert lines_of(state(0, RunState.RUNNING, then, "reason", "somebody"))


def test_the_same_entries_give_the_same_lines() -> None:
    entries = [*placed(), *PARTLY.filled(200, position=200), NEEDED, PAUSED, *blocked()]

    assert lines_of(*entries) == lines_of(*entries)


def test_the_status_line_shows_state_orders_result_and_token() -> None:
    narrator = Narrator()
    ready = AuthEvent(after(1), "ready", "", "until 23:59, 3 signals missed")
    phase = Note(after(0), "PHASE", "HOSE continuous", {"exchange": "HOSE"})
    running = state(1, RunState.STARTING, RunState.RUNNING, "reconciled", "bot")
    lines_of(phase, ready, running, *placed(), *PARTLY.filled(200, position=200), narrator=narrator)

    assert narrator.status_line.text("sandbox") == (
        "RUNNING SANDBOX 09:22:30 | HOSE continuous | open 1 | P&L -8,115 | 2FA until 23:59"
        " | Ctrl-C stops"
    )


@every_row(
    ("columns", "text"),
    [
        (80, "RUNNING SANDBOX 09:21:00 | HOSE continuous | open 0 | P&L +0 | 2FA until 23:59"),
        (60, "RUNNING SANDBOX 09:21:00 | open 0 | P&L +0 | 2FA until 23:59"),
        (45, "RUNNING SANDBOX 09:21:00 | 2FA until 23:59"),
        (10, "RUNNING SA"),
    ],
)
def test_a_narrow_terminal_loses_whole_parts_of_the_status_line(columns, text) -> None:
    narrator = Narrator()
    ready = AuthEvent(after(0), "ready", "", "until 23:59")
    phase = Note(after(0), "PHASE", "HOSE continuous", {"exchange": "HOSE"})
    running = state(0, RunState.STARTING, RunState.RUNNING, "reconciled", "bot")
    lines_of(phase, ready, running, narrator=narrator)

    assert narrator.status_line.text("sandbox", columns) == text


@every_row("columns", [60, 80])
def test_a_narrow_terminal_folds_a_line_between_words(columns) -> None:
    narrator, pulse = (
        Narrator(),
        "1 on, 0 open · 212 quotes, 117 depths, 1 signal, 86 skips, 1 order",
    )

    lines = narrator.lines_of(Note(after(0), "PULSE", pulse), columns)

    assert max(map(len, lines)) <= columns
    assert " ".join(line[17:] for line in lines) == pulse


def test_a_run_that_goes_on_knows_the_orders_and_the_result_of_before() -> None:
    narrator, row = Narrator(), PARTLY.filled(200, position=200)[1]
    assert isinstance(row, OrderUpdated)
    book = RecoveredStrategy({"HPG": (200, 5_410_000)}, 1, 40_000, 8_115, "on")
    narrator.recall(Recovery(DAY, orders=(row,), strategies={"depth-hpg": book}))

    lines = lines_of(NEEDED, PAUSED, narrator=narrator)

    assert f"1 open order can't be cancelled until then: {row.order_id}" in "\n".join(lines)
    assert "| open 1 | P&L +31,885 |" in narrator.status_line.text("sandbox")


def test_the_result_in_the_status_line_is_that_of_the_day() -> None:
    narrator, hours = Narrator(), 24 * 3_600
    narrator.recall(
        Recovery(DAY, strategies={"depth-hpg": RecoveredStrategy({}, 1, 40_000, 8_115, "on")})
    )

    lines_of(*PARTLY.filled(200, position=200), narrator=narrator)
    assert "| P&L +23,770 |" in narrator.status_line.text("live")

    lines_of(Note(after(hours), "PHASE", "HOSE closed", {"exchange": "HOSE"}), narrator=narrator)
    assert "| P&L +0 |" in narrator.status_line.text("live")

    sold = PARTLY.filled(200, position=200)[-1]
    lines_of(but(sold, at=after(hours + 60), realised=-20_000), narrator=narrator)
    assert "| P&L -28,115 |" in narrator.status_line.text("live")


def test_a_fill_of_nobody_s_strategy_has_its_lines() -> None:
    fill = PARTLY.filled(500, position=500)[-1]
    assert isinstance(fill, Fill)

    [line] = lines_of(but(fill, strategy=None, intent_id=None))

    assert "ORD10000003" in line
