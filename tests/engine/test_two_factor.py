from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import AuthEvent, Decision, IntentMoved, Note, RunState, StateChanged, Verdict
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    CancelAnswered,
    CancelOrder,
    DropToken,
    PlaceOrder,
    ReadOrder,
    ReadOrderToCancel,
    TwoFactorMissing,
)
from bot.domain.operations import Action, AmendAsked, OperatorActed
from bot.domain.order import SendState
from bot.domain.outcome import TWO_FACTOR_CODES, Refused
from bot.engine.settings import EngineSettings
from bot.engine.two_factor import WORDS
from tests.engine.stage import PLAN, START, Stage, report_of


def _moves(stage):
    return [(one.intent_id, one.to_state) for one in stage.all(IntentMoved)]


@pytest.mark.parametrize("code", sorted(TWO_FACTOR_CODES))
def test_each_code_closes_the_gate_at_once(code):
    stage = Stage()

    stage.block_for_token(stage.buy(), code)

    assert stage.new(DropToken) == [DropToken(code, stage.now)]
    assert stage.new(AuthEvent)[0].code == code
    change = stage.new(StateChanged)[0]
    assert (change.from_state, change.to_state, change.reason) == (
        RunState.RUNNING,
        RunState.NEEDS_2FA,
        f"needs 2FA ({code})",
    )
    assert stage.decided() == (Verdict.HELD, code)
    assert stage.engine.status().held[0].intent.intent_id == "L-0001"


def test_the_held_order_goes_out_once_as_a_new_intent():
    stage = Stage()
    stage.block_for_token(stage.buy())
    stage.after(30).quote()

    stage.token()

    (first, second) = stage.all(PlaceOrder)
    assert second.intent == replace(
        first.intent,
        intent_id="L-0002",
        follows="L-0001",
        signal_id=second.intent.signal_id,
        created_at=stage.now,
        ttl_at=stage.now + timedelta(seconds=5),
    )
    assert second.intent.signal_id != first.intent.signal_id
    assert _moves(stage) == [("L-0001", SendState.HELD), ("L-0001", SendState.REFUSED)]
    assert stage.engine.status().state is RunState.RUNNING
    assert stage.all(DropToken) == [DropToken("OTP_SESSION_EXPIRED", START)]


def test_a_held_order_waits_for_a_fresh_quote():
    stage = Stage()
    stage.block_for_token(stage.buy())
    stage.after(60)

    stage.token()
    assert len(stage.all(PlaceOrder)) == 1
    stage.after(1).quote()

    assert stage.last(PlaceOrder).intent.follows == "L-0001"


def test_a_held_order_is_checked_in_full_again():
    stage = Stage()
    stage.block_for_token(stage.buy())
    stage.after(30).quote(26_900, ceiling=26_950)

    stage.token()

    assert stage.decided() == (Verdict.BLOCKED, "BAND")
    assert len(stage.all(PlaceOrder)) == 1


def test_past_its_time_a_held_order_expires():
    stage = Stage()
    stage.block_for_token(stage.buy())
    assert stage.engine.next_due() == stage.now + timedelta(seconds=120)

    stage.pass_time(120)

    assert stage.new(IntentMoved)[0].reason == "no 2FA within 2 min"
    assert stage.engine.status().counts["expired"] == 1
    assert stage.decided() == (Verdict.EXPIRED, "HELD_TOO_LONG")
    stage.quote()
    stage.token()
    assert len(stage.all(PlaceOrder)) == 1


def test_a_second_403_does_not_restart_the_hold():
    stage = Stage()
    stage.block_for_token(stage.buy())
    until = stage.engine.status().held[0].until
    stage.after(60).quote()
    stage.token()

    stage.block_for_token(stage.last(PlaceOrder).intent)

    assert stage.engine.status().held[0].until == until


def test_drop_gives_a_blocked_order_up_at_once():
    stage = Stage(replace(PLAN, hold_2fa=None))

    stage.block_for_token(stage.buy())

    assert _moves(stage) == [("L-0001", SendState.REFUSED)]
    assert stage.told[0][1].code == "OTP_SESSION_EXPIRED"


def test_signals_meanwhile_are_missed_and_never_replayed():
    stage = Stage()
    stage.block_for_token(stage.buy())

    for _ in range(3):
        stage.after(130).quote()
        stage.request(lambda s: s.buy(200, limit=27_000))
        assert stage.decided() == (Verdict.BLOCKED, "TWO_FACTOR")

    held = 1  # given up after its two minutes
    assert stage.engine.status().missed_signals == 3 + held
    stage.token()
    assert stage.last(AuthEvent).detail.endswith("4 signals missed")
    assert len(stage.all(PlaceOrder)) == 1


def test_it_is_unproven_until_the_first_write_is_accepted():
    stage = Stage()
    stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_REQUIRED", "no token yet"))
    stage.token()
    assert stage.engine.status().is_unproven

    stage.working()

    assert not stage.engine.status().is_unproven
    assert stage.last(AuthEvent).kind == "proved"


def test_a_missing_token_is_needed_once():
    stage = Stage()

    for _ in range(2):
        stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_REQUIRED", "no token yet"))

    assert [event.kind for event in stage.all(AuthEvent)] == ["needed"]
    assert stage.all(DropToken) == []


def test_cancels_go_before_what_was_held():
    stage = Stage(sellable=500)
    first = stage.working(200, 26_900)
    stage.after(1).book(report_of(first, executed=100))
    stage.request(lambda s: s.sell(100, limit=28_000))
    stage.block_for_token(stage.last(PlaceOrder).intent)
    stage.request(lambda s: s.cancel())
    assert stage.new(ReadOrder) == []

    done = stage.after(1).token()

    others = [one for one in done if isinstance(one, ReadOrder | PlaceOrder)]
    assert [type(one) for one in others] == [ReadOrderToCancel, PlaceOrder]


def test_a_cancel_refused_for_a_token_waits_for_it():
    stage = Stage()
    working = stage.working()
    stage.request(lambda s: s.cancel())
    stage.row(report_of(working))

    stage.handle(
        CancelAnswered(stage.now, "ORD1", Refused("OTP_SESSION_REVOKED", "2FA", 403), None)
    )
    assert stage.engine.status().state is RunState.NEEDS_2FA
    assert stage.new(ReadOrder) == []
    stage.pass_time(300)
    assert stage.new(ReadOrder) == []

    assert stage.token()[-1] == ReadOrderToCancel(
        "ORD1", "before cancel: no reason given in on_timer"
    )


OF_OLD = Refused("OTP_SESSION_EXPIRED", "2FA", 403, is_of_old_token=True)


def test_a_place_that_had_the_token_before_goes_out_with_the_new_one():
    stage = Stage()
    late = stage.buy()
    stage.send(late)
    stage.token()

    stage.answer(late, OF_OLD)

    assert stage.all(DropToken) == []
    assert stage.engine.status().state is RunState.RUNNING
    assert [each.intent.follows for each in stage.all(PlaceOrder)] == [None, late.intent_id]


def test_a_cancel_that_had_the_token_before_is_sent_again_with_the_new_one():
    stage = Stage()
    working = stage.working()
    stage.request(lambda s: s.cancel())
    stage.row(report_of(working))
    stage.token()

    stage.handle(CancelAnswered(stage.now, "ORD1", OF_OLD, None))
    stage.pass_time(1)

    assert stage.all(DropToken) == []
    assert stage.engine.status().state is RunState.RUNNING
    assert len(stage.all(ReadOrderToCancel)) == 2


def test_without_a_newer_token_a_late_refusal_drops_what_there_is():
    stage = Stage()
    stage.block_for_token(stage.buy())

    stage.handle(CancelAnswered(stage.now, "ORD1", OF_OLD, None))

    assert len(stage.all(DropToken)) == 2


def test_a_token_ends_no_halt():
    stage = Stage()
    stage.block_for_token(stage.buy())
    stage.handle(OperatorActed(stage.now, Action.HALT, "stop it", "me"))

    stage.quote()
    stage.token()

    assert stage.engine.status().state is RunState.HALTED
    assert len(stage.all(PlaceOrder)) == 1
    assert stage.all(Decision)[-1].verdict is Verdict.EXPIRED


@pytest.mark.parametrize(
    ("action", "code"), [(Action.HALT, "HALTED"), (Action.STOP, "STOPPING")], ids=str
)
def test_a_held_order_that_the_operator_ends_says_so(action, code):
    stage = Stage()
    stage.block_for_token(stage.buy())

    stage.handle(OperatorActed(stage.now, action, "stop it", "me"))

    assert stage.decided() == (Verdict.EXPIRED, code)


@pytest.mark.parametrize("action", [Action.PAUSE, Action.HALT])
def test_a_held_order_of_a_strategy_that_was_switched_off_does_not_go_out(action):
    stage = Stage()
    stage.block_for_token(stage.buy())
    stage.handle(OperatorActed(stage.now, action, "look", "me", strategy="test"))

    stage.after(5).quote()
    stage.token()
    stage.after(1).quote()

    assert [one.intent.intent_id for one in stage.all(PlaceOrder)] == ["L-0001"]
    assert len(stage.engine.status().held) == (action is Action.PAUSE)


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("code", sorted(TWO_FACTOR_CODES))
def test_each_code_on_each_verb_closes_the_gate_drops_the_token_and_asks_in_its_own_words(
    code, verb
):
    stage = Stage(settings=EngineSettings(amend_enabled=True))
    refused = Refused(code, "2FA", 403)
    if verb == "POST":
        intent = stage.buy()
        stage.send(intent)
        stage.answer(intent, refused)
    else:
        working = stage.working(500, 27_000)
        stage.after(1).book(report_of(working))
        if verb == "PUT":
            stage.handle(AmendAsked(stage.after(1).now, "ORD1", 26_900, None, "me", "by hand"))
            stage.row(report_of(working))
            assert len(stage.new(AmendOrder)) == 1
            stage.handle(AmendAnswered(stage.now, "ORD1", refused, None))
        else:
            stage.request(lambda s: s.cancel())
            stage.row(report_of(working))
            stage.handle(CancelAnswered(stage.now, "ORD1", refused, None))

    assert stage.new(DropToken) == [DropToken(code, stage.now)]
    assert stage.engine.status().state is RunState.NEEDS_2FA
    [asked] = [note for note in stage.new(Note) if note.numbers.get("alert") == "TWO_FACTOR_NEEDED"]
    assert (asked.at, asked.numbers["auth_code"]) == (stage.now, code)
    assert WORDS[code] in asked.text
    sent = stage.all(PlaceOrder) + stage.all(AmendOrder) + stage.all(CancelOrder)
    stage.pass_time(60)
    assert stage.all(PlaceOrder) + stage.all(AmendOrder) + stage.all(CancelOrder) == sent
