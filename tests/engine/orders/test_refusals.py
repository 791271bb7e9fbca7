"""What refusals stop: three equal ones an account's orders, three of any kind a strategy."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.cli.telling.wording import CODES
from bot.domain.entry import IntentMoved, Note, Verdict
from bot.domain.message import (
    AmendAnswered,
    BurnNonce,
    CancelAnswered,
    NonceBurnt,
    PlaceOrder,
    ReadTodaysOrders,
)
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import OrderState, SendState
from bot.domain.outcome import ORDER_WORDS, NotSent, Refused, Resolution, Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.account_status import limits_used
from tests.engine.stage import ACCOUNT, DAY, PLAN, START, Stage, report_of

HEADER = Refused("400", "missing header x-new", 400)
CASH = Refused("-100013", "not enough cash", 400)


def _place(stage, number):
    """Place an order that looks like no other."""
    stage.after(70).quote()
    places = len(stage.all(PlaceOrder))
    stage.request(lambda s: s.buy(100 * number, limit=26_000, why="as asked"))
    placed = stage.all(PlaceOrder)[places:]
    return placed[0].intent if placed else None


def _refuse(stage, *answers):
    for number, answer in enumerate(answers, 1):
        intent = _place(stage, number)
        assert intent is not None
        stage.send(intent)
        stage.answer(intent, answer)


def _told(stage):
    notes = [note for note in stage.all(Note) if note.kind == "ALERT"]
    return [note.numbers.get("alert") for note in notes]


def test_three_refusals_of_the_api_halt_orders_and_name_what_it_misses():
    stage = Stage()

    _refuse(stage, HEADER, HEADER, HEADER)

    assert _told(stage) == ["API_CHANGED"]
    [text] = stage.engine.status().alerts
    assert "API changed? 3 orders in a row were refused with HTTP 400 400" in text
    assert "missing header x-new" in text
    assert _place(stage, 9) is None
    assert stage.decided() == (Verdict.BLOCKED, "HALTED")
    assert stage.engine.status().strategies[0].state == "on"


def test_orders_go_on_when_a_person_resumes_with_a_reason():
    stage = Stage()
    _refuse(stage, HEADER, HEADER, HEADER)

    stage.handle(OperatorActed(stage.now, Action.RESUME, "the header is sent now", "operator"))

    assert stage.engine.status().alerts == ()
    assert _place(stage, 9) is not None


def test_a_restart_keeps_what_refusals_have_halted():
    kept = {f"account:{ACCOUNT}": "API changed?"}

    stage = Stage(recovery=Recovery(DAY, halted_scopes=kept))

    assert _place(stage, 1) is None
    assert len(stage.engine.status().alerts) == 1


@pytest.mark.parametrize("other", [CASH, replace(HEADER, code="404", http_status=404)])
def test_refusals_of_different_kinds_do_not_add_up_for_the_account(other):
    stage = Stage()

    _refuse(stage, HEADER, HEADER, other)

    assert "API_CHANGED" not in _told(stage)


def test_three_refusals_of_its_orders_pause_a_strategy_with_the_reason():
    stage = Stage()

    _refuse(stage, CASH, CASH, CASH)

    [strategy] = stage.engine.status().strategies
    assert strategy.state == "paused"
    assert strategy.reason.endswith("the last with -100013 not enough cash")
    assert _told(stage) == ["STRATEGY_REFUSED"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("-700069", "STRATEGY_REFUSED"),
        ("CAN_NOT_PLACE_ORDER_ON_HALTED_SYMBOL", "STRATEGY_REFUSED"),
        ("QMAX_EXCEED", "STRATEGY_REFUSED"),
        ("INVALID_PRICE_LOT", "STRATEGY_REFUSED"),
        ("INVALID_ORDER_TYPE_FOR_THIS_SESSION", "STRATEGY_REFUSED"),
        ("MUST_PUBLISH_TRADE_INFO", "STRATEGY_REFUSED"),
        ("FAILED", "API_CHANGED"),
        ("QMAX_EXCEED_NOT", "API_CHANGED"),
    ],
)
def test_a_refusal_for_the_orders_own_sake_is_no_changed_api_in_words_either(code, told):
    stage = Stage(beside=[replace(PLAN, name="other")])

    _refuse(stage, *[Refused(code, "no", 400)] * 3)
    stage.after(70).quote()
    stage.request(lambda s: s.buy(100, limit=26_500, why="its own"), by="other")

    assert _told(stage) == [told]
    is_passed = told == "STRATEGY_REFUSED"
    assert stage.decided()[0] == (Verdict.PASSED if is_passed else Verdict.BLOCKED)


def test_every_word_that_the_broker_gives_for_an_order_is_known_as_one():
    assert {code for code in CODES if not code.startswith("-")} == ORDER_WORDS


def test_what_is_refused_and_unknown_is_shown_beside_what_it_may_be():
    stage = Stage()
    _refuse(stage, CASH, CASH)
    intent = _place(stage, 3)
    stage.send(intent)
    stage.answer(intent, Unknown("no answer"))

    shown = {
        (row.scope, row.key): (row.used, row.allowed) for row in limits_used(stage.engine._state)
    }

    assert shown["strategy", "refused_in_a_row"] == (2, 3)
    assert shown["strategy", "refused_in_10_minutes"] == (2, 5)
    assert shown["account", "max_unknown"] == (1, 1)


def test_five_refusals_within_ten_minutes_pause_a_strategy_though_others_were_taken_between():
    stage = Stage()
    for number in range(1, 6):
        [strategy] = stage.engine.status().strategies
        assert strategy.state == "on"
        _refuse(stage, CASH)
        if number % 2 == 0:
            accepted = _place(stage, 10 + number)
            stage.accept(accepted, f"ORD{number}")
            row = report_of(accepted, f"ORD{number}", cancelled=accepted.quantity)
            stage.book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))

    [strategy] = stage.engine.status().strategies
    assert strategy.reason.startswith("the broker has refused 5 of its orders within 10 minutes")


def test_refusals_that_are_further_apart_pause_nobody():
    stage = Stage()
    for number in range(1, 9):
        stage.after(100)
        _refuse(stage, CASH)
        accepted = _place(stage, 10 + number)
        stage.accept(accepted, f"ORD{number}")
        row = report_of(accepted, f"ORD{number}", cancelled=accepted.quantity)
        stage.book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))

    assert stage.engine.status().strategies[0].state == "on"


def test_a_restart_goes_on_counting_refusals():
    refused = (START - timedelta(minutes=5), START - timedelta(minutes=2))
    kept = RecoveredStrategy({}, 0, 0, 0, "on", refused=refused, refused_in_a_row=2)
    stage = Stage(recovery=Recovery(DAY, strategies={"test": kept}))

    _refuse(stage, CASH)

    assert _told(stage) == ["STRATEGY_REFUSED"]


def test_refusals_of_before_a_person_has_enabled_a_strategy_count_no_more():
    refused = (START - timedelta(minutes=5), START - timedelta(minutes=2))
    kept = RecoveredStrategy({}, 0, 0, 0, "on", refused=refused, refused_in_a_row=2)
    since = replace(kept, state_since=START - timedelta(minutes=1))
    stage = Stage(recovery=Recovery(DAY, strategies={"test": since}))

    _refuse(stage, CASH)

    assert _told(stage) == []


def test_the_quota_and_the_key_count_against_nobody():
    stage = Stage()

    _refuse(stage, *[Refused("RATE_LIMIT_EXCEEDED", "too many", 429)] * 4)

    assert (_told(stage), stage.engine.status().strategies[0].state) == ([], "on")


@pytest.mark.parametrize("status", [300, 307, 399])
def test_a_redirected_order_halts_entries_and_says_configuration(status):
    stage = Stage()
    intent = _place(stage, 1)
    stage.send(intent)
    outcome = Unknown(f"HTTP {status}", status)
    finished = replace(stage.finished_of(intent), http_status=status)

    stage.answer(intent, outcome, finished)

    assert stage.last(IntentMoved).to_state is SendState.UNKNOWN
    assert _told(stage) == ["ORDER_REDIRECTED"]
    assert "configuration" in stage.engine.status().alerts[0]
    assert stage.engine.reason_not_to_send(intent) is not None


@pytest.mark.parametrize("answered", [CancelAnswered, AmendAnswered])
def test_a_redirected_cancel_or_amendment_says_so_too(answered):
    stage = Stage()
    finished = replace(stage.finished_of(stage.working()), http_status=307)

    stage.handle(answered(stage.now, "ORD1", Unknown("HTTP 307", 307), finished))

    assert _told(stage) == ["ORDER_REDIRECTED"]


def test_the_nonce_of_an_order_refused_by_the_quota_is_tried_and_a_used_one_told_of():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.answer(intent, Refused("RATE_LIMIT_EXCEEDED", "too many", 429))
    assert stage.new(BurnNonce) == [BurnNonce(intent.intent_id)]

    stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.REACHED, "x", is_proved=False))
    assert _told(stage) == []
    stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.REACHED, "used"))

    assert _told(stage) == ["REFUSED_AND_REACHED"]
    assert stage.new(ReadTodaysOrders) == [ReadTodaysOrders("quota refused L-0001")]
    assert stage.last(IntentMoved).to_state is SendState.REFUSED


def test_what_waited_to_be_sent_when_the_token_was_refused_is_held_and_not_sent():
    stage = Stage()
    first = stage.buy()
    stage.after(70).quote()
    second = replace(first, intent_id="L-0002")
    assert stage.engine.reason_not_to_send(second) is None
    stage.block_for_token(first)

    reason = stage.engine.reason_not_to_send(second)

    assert reason == "TWO_FACTOR: needs 2FA (OTP_SESSION_EXPIRED)"
    assert stage.last(IntentMoved).to_state is SendState.HELD


def test_an_order_kept_back_for_want_of_a_token_is_held_until_it_comes():
    stage = Stage()
    intent = stage.buy()

    stage.answer(intent, NotSent("TWO_FACTOR: needs 2FA (OTP_SESSION_EXPIRED)"))

    moves = [move.to_state for move in stage.all(IntentMoved)]
    assert moves == [SendState.HELD, SendState.REFUSED]  # a token is there: it is asked for anew
    assert len(stage.all(PlaceOrder)) == 2


def test_refusals_of_the_api_are_told_with_how_many_were_equal_in_a_row():
    stage = Stage()

    _refuse(stage, HEADER, HEADER, CASH)
    [strategy] = stage.engine.status().strategies
    assert strategy.reason.startswith("the broker has refused 3 of its orders in a row")
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "me", strategy="test"))
    _refuse(stage, HEADER, HEADER)

    assert "API_CHANGED" not in _told(stage)


def test_an_enabled_strategy_is_paused_again_only_after_three_more_refusals():
    stage = Stage()
    _refuse(stage, CASH, CASH, CASH)
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "me", strategy="test"))

    _refuse(stage, CASH, CASH)

    assert stage.engine.status().strategies[0].state == "on"
    _refuse(stage, CASH)
    assert stage.engine.status().strategies[0].state == "paused"


def test_an_order_that_is_taken_between_refusals_shows_that_the_api_is_the_old_one():
    stage = Stage()
    _refuse(stage, HEADER, HEADER)
    accepted = _place(stage, 3)
    stage.accept(accepted)
    row = report_of(accepted, cancelled=accepted.quantity)
    stage.book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))

    _refuse(stage, HEADER, HEADER)

    assert _told(stage) == []


def test_a_refused_order_was_not_redirected():
    stage = Stage()
    intent = _place(stage, 1)
    stage.send(intent)

    stage.answer(intent, HEADER, replace(stage.finished_of(intent), http_status=400))

    assert _told(stage) == []
    assert _place(stage, 2) is not None
