"""Rows that go back: ignored as old ones, and believed only at a second, later look."""

import sys
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from bot.domain.entry import Decision, Fill, Note, OrderUpdated, RunState, Transition
from bot.domain.errors import Fault
from bot.domain.message import (
    CancelOrder,
    FaultFound,
    PlaceOrder,
    ReadOrder,
    ReadOrderToCancel,
    ReadTodaysOrders,
    TodaysOrdersRead,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.order import Intent, OrderReport, OrderState, SendState, Side
from bot.domain.outcome import Refused
from bot.domain.plan import AccountLimits, OrderPlan
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.control_state import BY_ENGINE
from bot.engine.gate import BY_LIMIT, DISABLED, switch
from bot.engine.invariants import WHOLE_EVERY
from bot.engine.orders import doubts
from bot.engine.orders.doubts import SECOND_LOOK
from bot.engine.orders.recover import CRASHES_MAX
from bot.engine.orders.revived import OLD_FOR
from bot.engine.settings import LAG_MAX, EngineSettings
from tests.engine.plain_scan import require_equal
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage, report_of, result_of, sell_intent
from tests.engine.test_invariants import caught

S = OrderState
LAG_S, LOOK_S = LAG_MAX.total_seconds(), SECOND_LOOK.total_seconds()


def _partly_filled(executed: int = 200):
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent, executed=executed))
    return stage, intent


def _cancelled():
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent))
    row = report_of(intent, cancelled=500, state=S.CANCELLED, status="CANCELLED")
    stage.after(1).book(row)
    return stage, intent


def _alerts(stage: Stage) -> list[str]:
    return [str(n.numbers.get("alert")) for n in stage.all(Note) if n.kind == "ALERT"]


def _halted(stage: Stage) -> bool:
    return bool(stage.engine.status().halted_symbols)


BACK = [
    {"executed": 100},
    {"executed": 200, "status": "WAITING_TO_SEND"},
]


@pytest.mark.parametrize("changes", BACK)
def test_a_row_that_goes_back_changes_nothing_and_is_told_once(changes):
    stage, intent = _partly_filled()
    before = stage.entries_of_order()

    for _ in range(3):
        stage.after(1).book(report_of(intent, **changes))

    assert stage.entries_of_order() == before
    assert _alerts(stage) == ["STALE_ROW"]
    assert stage.engine.status().counts["stale_rows"] == 3
    assert not _halted(stage)


@pytest.mark.parametrize("changes", BACK)
def test_a_second_look_that_agrees_is_a_correction_and_halts(changes):
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, **changes))

    stage.after(LAG_S).book(report_of(intent, **changes))

    assert _halted(stage)
    assert _alerts(stage)[:2] == ["STALE_ROW", "ROW_CORRECTED"]
    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity) == (S.PARTIALLY_FILLED, 200)


def test_a_correction_that_stays_halts_once_and_its_order_ends_with_what_was_counted():
    stage, intent = _partly_filled()
    for _ in range(2):
        stage.after(LAG_S).book(report_of(intent, executed=100))
    resume = OperatorActed(stage.now, Action.RESUME, reason="seen", by="operator")
    stage.handle(resume)

    for _ in range(5):
        stage.after(LAG_S).book(report_of(intent, executed=100))
    assert not _halted(stage)

    ended = report_of(intent, executed=100, cancelled=400, state=S.CANCELLED, status="CANCELLED")
    for _ in range(2):
        stage.after(LAG_S).book(ended)
    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity) == (S.CANCELLED, 200)
    assert _halted(stage)


def test_an_ended_order_that_works_again_is_looked_at_again_and_then_open_and_halted():
    stage, intent = _cancelled()
    back = report_of(intent, status="RECEIVED")

    stage.after(LAG_S).book(back)
    assert not _halted(stage)
    # Nothing polls it any more: it is looked at on its own.
    assert stage.due() <= stage.now + SECOND_LOOK
    looks = [one.order_id for one in stage.pass_time(LOOK_S) if isinstance(one, ReadOrder)]
    assert looks == ["ORD1"]
    stage.row(back)

    assert stage.entries_of_order().state is S.ACCEPTED
    assert "ORD1 had ended as CANCELLED and works" in stage.engine.status().halted_symbols["HPG"]
    assert _alerts(stage) == ["STALE_ROW", "ORDER_REOPENED", "SYMBOL_HALTED"]


def _is_cancelled_by(stage: Stage, intent, executed: int) -> bool:
    """A person cancels the order, whose row then shows its end; is that what becomes of it?"""
    stage.handle(CancelAsked(stage.now, "ORD1", "operator", "not wanted"))
    stage.row(report_of(intent, executed=executed))
    sent = [one.order_id for one in stage.new(CancelOrder)]
    stage.pass_time(WHOLE_EVERY.total_seconds())
    left = intent.quantity - executed
    ended = report_of(intent, executed=executed, cancelled=left, state=S.CANCELLED, status="SENT")
    stage.after(1).book(ended)
    require_equal(stage.engine._state)
    assert not {"INVARIANT_BROKEN", "ENGINE_FAULT"} & {*_alerts(stage)}
    return sent == ["ORD1"] and stage.entries_of_order().state is S.CANCELLED


def test_an_ended_order_that_shows_more_traded_is_open_at_once_and_a_cancel_reaches_it():
    stage, intent = _cancelled()

    stage.after(1).book(report_of(intent, executed=100))

    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity, row.cancelled_quantity) == (
        S.PARTIALLY_FILLED,
        100,
        0,
    )
    assert [fill.quantity for fill in stage.all(Fill)] == [100]
    assert _alerts(stage) == ["ORDER_REOPENED", "SYMBOL_HALTED"]
    assert stage.engine._state.orders["ORD1"].open_quantity == 400
    assert [type(one) for one in stage.pass_time(0.5)] == [ReadTodaysOrders]
    assert _is_cancelled_by(stage, intent, 100)


def _refused(recovery: Recovery | None = None) -> tuple[Stage, Intent]:
    stage = Stage(sellable=500, recovery=recovery)
    intent = stage.buy(500)
    stage.send(intent)
    result = result_of(intent, state=S.REJECTED, status="FAILED")
    stage.after(1).answer(intent, Refused("-1", "no", 200, result))
    assert stage.entries_of_order().state is S.REJECTED
    return stage, intent


def test_an_order_that_only_its_answer_had_ended_is_open_once_a_second_look_agrees():
    stage, intent = _refused()

    stage.after(1).book(report_of(intent))
    assert stage.entries_of_order().state is S.REJECTED
    stage.after(LAG_S).row(report_of(intent))

    assert stage.entries_of_order().state is S.ACCEPTED
    assert _alerts(stage) == ["STALE_ROW", "ORDER_REOPENED", "SYMBOL_HALTED"]
    assert _is_cancelled_by(stage, intent, 0)


def test_more_traded_opens_what_only_its_answer_had_ended_at_once():
    stage, intent = _refused()

    stage.after(1).book(report_of(intent, executed=100))

    assert stage.entries_of_order().state is S.PARTIALLY_FILLED
    assert _alerts(stage) == ["ORDER_REOPENED", "SYMBOL_HALTED"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_lagging_rows_of_a_refused_place_open_nothing_and_keep_no_exit_away(is_restarted):
    held = RecoveredStrategy({"HPG": (500, 13_500_000)}, 0, 0, 0, "on")
    stage, intent = _refused(Recovery(DAY, strategies={"test": held}))
    if is_restarted:
        stage = _restarted(stage, intent, strategies={"test": held})
    for _ in range(2):
        stage.after(3).book(report_of(intent, status="RECEIVED"))
    assert stage.due() <= stage.now + LAG_MAX
    assert (stage.engine._state.orders["ORD1"].is_open, _halted(stage)) == (False, False)

    stage.quote()
    stage.request(lambda s: s.buy(100, limit=26_900, why="again"))
    assert stage.decided() == ("BLOCKED", "SYMBOL_HALTED")
    assert "ORD1 was refused, and a row of it shows" in str(stage.last(Decision).numbers["reason"])
    assert doubts.reason_not_to_buy(stage.engine._state, ACCOUNT, "FPT", Side.BUY) is None
    stage.request(lambda s: s.close(why="stop loss"))
    assert stage.new(PlaceOrder)[0].intent.side == "SELL"

    failed = report_of(intent, status="FAILED", state=S.REJECTED, remaining=0)
    stage.after(1).book(failed)
    assert doubts.reason_not_to_buy(stage.engine._state, ACCOUNT, "HPG", Side.BUY) is None
    assert not _halted(stage)


def _refused_as_a_row_shows() -> tuple[Stage, Intent]:
    stage, intent = _refused()
    failed = report_of(intent, status="FAILED", state=S.REJECTED, remaining=0)
    stage.after(1).book(failed)
    return stage, intent


@pytest.mark.parametrize("ended", [_cancelled, _refused_as_a_row_shows])
def test_a_lagging_row_of_an_order_whose_end_a_row_has_shown_stops_no_buys(ended):
    stage, intent = ended()

    stage.after(1).book(report_of(intent, status="RECEIVED"))

    assert stage.engine._state.orders["ORD1"].look is not None
    assert stage.buy(200).quantity == 200


def test_no_other_look_stops_buys():
    stage, _ = _refused()
    stage.working(400, order_id="ORD2")
    stage.after(1).row(None, "ORD2")

    assert stage.engine._state.orders["ORD2"].look is not None
    assert doubts.reason_not_to_buy(stage.engine._state, ACCOUNT, "HPG", Side.BUY) is None


def test_a_lagging_row_of_somebody_else_s_ended_order_stops_no_buys_after_a_restart():
    stage, intent = _cancelled()
    row = replace(stage.entries_of_order(), intent_id=None, strategy=None)
    stage = Stage(recovery=Recovery(DAY, orders=(row,)))

    stage.after(1).book(report_of(intent, status="RECEIVED"))

    assert stage.engine._state.orders["ORD1"].look is not None
    assert stage.buy(200).quantity == 200


def test_a_row_asked_for_before_the_answer_does_not_open_what_that_has_ended():
    stage, intent = _refused()

    stage.book(report_of(intent), asked_at=stage.now)

    assert stage.entries_of_order().state is S.REJECTED
    assert _alerts(stage) == ["STALE_ROW"]


def test_an_order_that_works_again_in_a_halt_is_cancelled():
    stage, intent = _cancelled()
    stage.handle(OperatorActed(stage.now, Action.HALT, reason="stop", by="operator"))

    stage.after(1).book(report_of(intent, executed=100))

    assert [one.order_id for one in stage.new(ReadOrderToCancel)] == ["ORD1"]


NO_ROOM = Fault("OSError of the test", "no room", "its trace")


@pytest.mark.parametrize("is_by_person", [False, True])
@pytest.mark.parametrize("fault", ["a fault", "crashes", "a fault of before"])
def test_an_order_that_works_again_stays_in_a_halt_of_the_bot_s_own_until_a_person_halts(
    fault, is_by_person
):
    stage, intent = _cancelled()
    if fault == "crashes":
        stage = _restarted(stage, intent, crashes=CRASHES_MAX)
    elif fault == "a fault of before":
        halted = {"run_state_by": BY_ENGINE, "run_state_reason": "engine fault"}
        stage = _restarted(stage, intent, run_state=RunState.HALTED, **halted)
    else:
        stage.handle(FaultFound(stage.now, "DropToken", NO_ROOM))
    if is_by_person:
        stage.handle(OperatorActed(stage.now, Action.HALT, reason="stop", by="operator"))
    assert stage.engine.status().state == "HALTED"

    stage.after(1).book(report_of(intent, executed=100))

    assert stage.engine._state.orders["ORD1"].is_open
    assert [one.order_id for one in stage.new(ReadOrderToCancel)] == ["ORD1"] * is_by_person
    assert ("CANCEL" in {one.code for one in stage.all(Decision)}) is is_by_person


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(("by", "is_sent"), [("me", True), (BY_ENGINE, False), (BY_LIMIT, False)])
def test_an_order_that_works_again_is_cancelled_if_a_person_has_halted_its_strategy(
    by, is_sent, is_restarted
):
    stage, intent = _refused()
    if is_restarted:
        halted = RecoveredStrategy({}, 0, 0, 0, "disabled", "stop it", by)
        stage = _restarted(stage, intent, strategies={"test": halted})
    elif is_sent:
        halt = OperatorActed(stage.now, Action.HALT, reason="stop it", by=by, strategy="test")
        stage.handle(halt)
    else:
        strategy = stage.engine._state.strategies["test"]
        switch(stage.engine._state, strategy, DISABLED, "stop it", by)

    stage.after(1).book(report_of(intent, executed=100))

    assert [one.order_id for one in stage.new(ReadOrderToCancel)] == ["ORD1"] * is_sent
    cancels = stage.engine._state.cancels.values()
    assert [each.reason for each in cancels] == ["stop it"] * is_sent


@pytest.mark.parametrize("before", [BY_ENGINE, BY_LIMIT])
def test_a_person_may_halt_a_strategy_that_the_bot_has_disabled(before):
    stage, intent = _refused()
    strategy = stage.engine._state.strategies["test"]
    switch(stage.engine._state, strategy, DISABLED, "failed three times", before)

    halt = OperatorActed(stage.now, Action.HALT, reason="stop it", by="me", strategy="test")
    stage.handle(halt)
    stage.after(1).book(report_of(intent, executed=100))

    assert [one.order_id for one in stage.new(ReadOrderToCancel)] == ["ORD1"]
    assert (strategy.state_reason, strategy.state_by) == ("stop it", "me")


EXPIRING = replace(PLAN, order=OrderPlan(expire_after=timedelta(seconds=60)))


def _ended_by(wish: str) -> tuple[Stage, Intent]:
    """An order whose end a row shows, after its cancel was asked for: by a person, its time."""
    stage = Stage(EXPIRING if "time" in wish else PLAN)
    intent = stage.working(500)
    stage.after(1).book(report_of(intent))
    if wish == "person":
        stage.handle(CancelAsked(stage.now, "ORD1", "operator", "not wanted"))
    elif wish == "time":
        stage.pass_time(60)
    row = report_of(intent, cancelled=500, state=S.CANCELLED, status="CANCELLED")
    stage.after(1).book(row)
    return stage, intent


def _restarted(stage: Stage, intent: Intent, **stored: object) -> Stage:
    recovery = Recovery(
        DAY,
        next_intent_number=2,
        intents=(StoredIntent(intent, SendState.ACKED, "ORD1", None),),
        orders=(stage.entries_of_order(),),
    )
    settings = EngineSettings(account_limits=AccountLimits(max_loss_per_day=100_000))
    whole = replace(recovery, **stored)  # type: ignore[arg-type]
    again = Stage(EXPIRING, settings=settings, sellable=500, recovery=whole)
    again.now = stage.now
    return again


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("wish", "reason"),
    [("person", "not wanted"), ("time", "expire 1m"), ("time over since", "expire 1m")],
)
def test_an_order_that_works_again_is_cancelled_if_that_was_asked_for_before_its_end(
    wish, reason, is_restarted
):
    stage, intent = _ended_by(wish)
    stage.after(60)
    if is_restarted:
        cancels = {"L-0001": reason} if wish != "time over since" else {}
        stage = _restarted(stage, intent, cancels=cancels)

    stage.after(1).book(report_of(intent, executed=100))
    stage.pass_time(0.5)
    stage.row(report_of(intent, executed=100))

    [cancel] = stage.engine._state.cancels.values()
    assert (cancel.order_id, cancel.reason) == ("ORD1", reason)
    assert [one.order_id for one in stage.new(CancelOrder)] == ["ORD1"]
    require_equal(stage.engine._state)


@pytest.mark.parametrize(("side", "is_sent"), [("BUY", True), ("SELL", False)])
def test_a_buy_that_works_again_is_cancelled_once_the_day_has_lost_too_much(side, is_sent):
    stage, intent = _cancelled()
    if side == "SELL":
        intent = sell_intent(intent)
        row = replace(stage.entries_of_order(), side=intent.side)
        stage.entries.append(row)
    stage = _restarted(stage, intent, reduced={ACCOUNT: "day loss 1 VND of 1"})

    stage.after(1).book(report_of(intent, executed=100))

    assert [one.order_id for one in stage.new(ReadOrderToCancel)] == ["ORD1"] * is_sent


def test_that_an_ended_order_works_again_is_a_move_in_its_history():
    stage, intent = _cancelled()

    stage.after(1).book(report_of(intent, executed=100))

    moves = [one for one in stage.all(Transition) if one.order_id == "ORD1"]
    assert [(one.from_state, one.to_state) for one in moves[1:]] == [
        (S.ACCEPTED, S.CANCELLED),
        (S.CANCELLED, S.ACCEPTED),
        (S.ACCEPTED, S.PARTIALLY_FILLED),
    ]
    last = [one for one in stage.entries if isinstance(one, Transition | OrderUpdated)][-1]
    assert isinstance(last, OrderUpdated)
    assert last.state is S.PARTIALLY_FILLED


def test_an_order_that_works_again_a_second_time_is_told_again():
    stage, intent = _cancelled()
    stage.after(1).book(report_of(intent, executed=100))
    ended = report_of(intent, executed=100, cancelled=400, state=S.CANCELLED, status="CANCELLED")
    stage.after(1).book(ended)

    stage.after(1).book(report_of(intent, executed=200))

    assert _alerts(stage) == ["ORDER_REOPENED", "SYMBOL_HALTED", "ORDER_REOPENED"]


def test_what_an_ended_order_of_somebody_else_trades_more_is_counted_and_it_stays_ended():
    stage = Stage()
    other = stage.buy(500)
    stage.after(1).book(report_of(other, "ORD9", quantity=300, remaining=300))
    over = report_of(other, "ORD9", quantity=300, remaining=0, cancelled=300, state=S.CANCELLED)
    stage.after(1).book(replace(over, status="CANCELLED"))

    stage.after(1).book(report_of(other, "ORD9", quantity=300, executed=100, remaining=200))

    row = stage.entries_of_order("ORD9")
    assert (row.intent_id, row.state, row.executed_quantity) == (None, S.CANCELLED, 100)


def test_a_second_look_within_five_seconds_confirms_nothing():
    stage, intent = _partly_filled()
    stage.after(LAG_S).book(report_of(intent, executed=100))

    stage.after(LOOK_S - 0.1).book(report_of(intent, executed=100))
    assert not _halted(stage)

    stage.after(0.1).book(report_of(intent, executed=100))
    assert _halted(stage)


def test_while_a_node_may_lag_nothing_is_confirmed():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=100))

    stage.after(LAG_S - 1.1).book(report_of(intent, executed=100))

    assert not _halted(stage)


def test_a_row_that_goes_on_between_two_that_go_back_says_that_they_are_old():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=100))
    stage.after(LAG_S).book(report_of(intent, executed=200))

    stage.after(LOOK_S).book(report_of(intent, executed=100))

    assert not _halted(stage)


def test_a_row_that_goes_on_makes_the_next_that_goes_back_the_first_again():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=100))
    stage.after(1).book(report_of(intent, executed=200))

    stage.after(LAG_S).book(report_of(intent, executed=100))

    assert not _halted(stage)


def test_a_row_that_was_taken_before_is_old_whatever_comes_after():
    stage, intent = _cancelled()

    for _ in range(20):
        stage.after(60).book(report_of(intent))

    assert not _halted(stage)
    assert stage.entries_of_order().state is S.CANCELLED


def test_what_goes_on_being_old_is_shown_until_a_row_goes_on():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=300))
    stage.after(1).book(report_of(intent, executed=200))
    assert stage.engine.status().alerts == ()

    stage.after(OLD_FOR.total_seconds()).book(report_of(intent, executed=200))
    [standing] = stage.engine.status().alerts
    assert "PARTIALLY_FILLED here, and for 60 s the broker has shown an earlier state" in standing

    stage.after(1).book(report_of(intent, executed=300))
    assert stage.engine.status().alerts == ()
    assert _alerts(stage) == ["STALE_ROW"]


def test_an_ended_order_that_goes_on_being_shown_open_as_before_is_told_once_and_stays_ended():
    stage, intent = _cancelled()
    stage.after(1).book(report_of(intent))
    assert "to do yet: if that stays so, another alert says what." in stage.last(Note).text
    stage.after(OLD_FOR.total_seconds() - 1).book(report_of(intent))
    assert (stage.engine.status().alerts, _alerts(stage)) == ((), ["STALE_ROW"])

    for _ in range(3):
        stage.after(1).book(report_of(intent))
    [standing] = stage.engine.status().alerts
    assert "and for 62 s the broker has shown it open as before, with 500 left" in standing
    assert _alerts(stage) == ["STALE_ROW", "ENDED_SHOWN_OPEN"]
    assert stage.last(Note).text == standing.replace("62 s", "60 s")
    assert (stage.entries_of_order().state, _halted(stage)) == (S.CANCELLED, False)

    end = report_of(intent, cancelled=500, state=S.CANCELLED, status="CANCELLED")
    stage.after(1).book(end)
    assert stage.engine.status().alerts == ()


def test_the_status_of_a_place_s_answer_is_none_to_fall_behind():
    stage = Stage()
    intent = stage.working(500)

    for _ in range(3):
        stage.after(LAG_S).book(report_of(intent, status="WAITING_TO_SEND"))

    assert (_alerts(stage), _halted(stage)) == ([], False)
    assert stage.entries_of_order().broker_status == "WAITING_TO_SEND"


def test_a_lost_second_look_costs_one_try():
    stage, intent = _cancelled()
    stage.after(LAG_S).book(report_of(intent, status="RECEIVED"))

    asked = [bool(stage.pass_time(LOOK_S)) for _ in range(6)]

    assert asked == [True, True, True, False, False, False]


def test_a_price_of_before_an_amendment_is_old():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=200, price=27_100))

    stage.after(1).book(report_of(intent, executed=200))

    assert stage.entries_of_order().price == 27_100


def test_the_end_of_an_order_is_seen_though_a_row_lied_about_its_price_meanwhile():
    stage = Stage()
    intent = stage.working(500)
    asked = stage.after(1).now
    stage.after(1).book(report_of(intent, price=27_050))
    end = report_of(intent, cancelled=500, state=S.CANCELLED, status="CANCELLED")

    stage.after(1).book(end, asked_at=asked)  # a late answer, asked for before the lie
    assert stage.entries_of_order().state is S.ACCEPTED
    stage.after(1).book(end)

    assert (stage.entries_of_order().state, stage.entries_of_order().price) == (S.CANCELLED, 27_000)
    assert not _halted(stage)


def test_the_same_end_by_another_name_is_no_step_back():
    stage, intent = _partly_filled()
    filled = report_of(intent, executed=500, status="MATCHED_ALL", state=S.FILLED)
    stage.after(1).book(filled)

    for _ in range(3):
        stage.after(LAG_S).book(report_of(intent, executed=500, status="SENT"))
        assert stage.entries_of_order().broker_status == "MATCHED_ALL"
    stage.after(1).book(replace(filled, status="COMPLETED"))

    assert (_alerts(stage), _halted(stage)) == ([], False)
    assert stage.entries_of_order().broker_status == "COMPLETED"


def test_another_end_than_ours_leaves_the_status_that_ended_it():
    stage, intent = _cancelled()

    lapsed = report_of(intent, cancelled=500, state=S.EXPIRED, status="EXPIRED")
    stage.after(1).book(lapsed)

    row = stage.entries_of_order()
    assert (row.state, row.broker_status) == (S.CANCELLED, "CANCELLED")


def test_a_name_of_an_end_that_ended_nothing_is_none_to_fall_behind():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=200, status="MATCHED_ALL", state=S.FILLED))

    for _ in range(3):
        stage.after(LAG_S).book(report_of(intent, executed=300))

    assert (_alerts(stage), _halted(stage)) == ([], False)
    assert stage.entries_of_order().executed_quantity == 300


def test_two_rows_that_go_back_and_differ_confirm_nothing():
    stage, intent = _partly_filled()
    stage.after(LAG_S).book(report_of(intent, executed=100))

    stage.after(LAG_S).book(report_of(intent, executed=50))

    assert not _halted(stage)


def test_an_impossible_move_is_told_once_and_its_fills_are_counted():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=200, status="MATCHED"))

    rejected = report_of(intent, executed=300, status="REJECTED", state=S.REJECTED)
    for _ in range(3):
        stage.after(LAG_S).book(rejected)

    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity) == (S.PARTIALLY_FILLED, 300)
    assert _alerts(stage) == ["STATUS_IMPOSSIBLE"]


@pytest.mark.parametrize(
    ("status", "state"), [("FAILED", S.REJECTED), ("REJECTED", S.REJECTED), ("MATCHED_ALL", None)]
)
def test_an_order_ends_by_its_row_though_a_status_before_has_named_an_end_that_was_none(
    status, state
):
    stage, intent = _partly_filled()
    left = 0 if state else 300
    stage.after(1).book(report_of(intent, executed=200, remaining=left, status=status, state=state))
    assert stage.entries_of_order().state is S.PARTIALLY_FILLED

    end = report_of(intent, executed=200, cancelled=300, state=S.CANCELLED, status="CANCELLED")
    stage.after(1).book(end)

    row = stage.entries_of_order()
    assert (row.state, row.broker_status, row.executed_quantity) == (S.CANCELLED, "CANCELLED", 200)
    assert "STATUS_IMPOSSIBLE" not in _alerts(stage)
    assert not _halted(stage)


def test_a_refusal_after_a_status_that_says_all_is_filled_ends_nothing():
    stage, intent = _partly_filled()
    said = report_of(intent, executed=200, remaining=300, status="MATCHED_ALL", state=S.FILLED)
    stage.after(1).book(said)

    refused = report_of(intent, executed=200, remaining=0, status="FAILED", state=S.REJECTED)
    stage.after(1).book(refused)

    assert stage.engine._state.orders["ORD1"].is_open
    assert _alerts(stage) == ["STATUS_IMPOSSIBLE"]


@pytest.mark.parametrize(
    ("executed", "after", "state"),
    [
        (200, {"executed": 300, "status": "MATCHED"}, S.PARTIALLY_FILLED),
        (0, {"cancelled": 500, "state": S.CANCELLED, "status": "CANCELLED"}, S.REJECTED),
    ],
    ids=["no end after it", "it was the end"],
)
def test_what_no_status_after_failed_can_be_is_still_told(executed, after, state):
    stage, intent = _partly_filled(executed)
    failed = report_of(intent, executed=executed, remaining=0, state=S.REJECTED, status="FAILED")
    stage.after(1).book(failed)

    stage.after(1).book(report_of(intent, **after))

    row = stage.entries_of_order()
    assert (row.state, row.broker_status) == (state, "FAILED")
    assert _alerts(stage)[-1] == "STATUS_IMPOSSIBLE"


def test_a_row_asked_for_before_the_answer_names_the_status_that_filled_it():
    stage = Stage()
    intent = stage.buy()
    early = stage.now
    stage.after(2).accept(intent)
    filled = report_of(intent, executed=100, status="MATCHED_ALL", state=S.FILLED)

    stage.after(1).book(filled, asked_at=early)

    row = stage.entries_of_order()
    assert (row.state, row.broker_status) == (S.FILLED, "MATCHED_ALL")
    last = [one for one in stage.entries if isinstance(one, Transition)][-1]
    assert (last.to_state, last.broker_status) == (S.FILLED, "MATCHED_ALL")


# ------------------------------------------------------------------------------ many mixed reads

STORIES = 10_000
STEPS = (
    (0, 0, S.ACCEPTED, "WAITING_TO_SEND"),
    (0, 0, S.ACCEPTED, "SENT"),
    (100, 0, S.ACCEPTED, "SENT"),
    (200, 0, S.ACCEPTED, "MATCHED"),
    (300, 0, S.ACCEPTED, "MATCHED"),
)
ENDS = (
    (300, 200, S.CANCELLED, "CANCELLED"),
    (500, 0, S.FILLED, "MATCHED_ALL"),
    (300, 200, S.EXPIRED, "EXPIRED"),
    (300, 200, S.ACCEPTED, "SENT"),
)


def _truths(intent, end) -> list[OrderReport]:
    return [
        report_of(intent, executed=done, cancelled=gone, state=state, status=status)
        for done, gone, state, status in (*STEPS, end)
    ]


def _mixed(dice: Random, placed: Stage, intent) -> tuple[list[OrderReport], list[TodaysOrdersRead]]:
    """The life of an order, and reads of it as they arrive, every third up to 30 s old."""
    truths = _truths(intent, dice.choice(ENDS))
    changes, at = [], placed.now
    for _ in truths:
        at += timedelta(seconds=dice.choice((0.1, 1, 4, 15)))
        changes.append(at)
    reads, asked = [], placed.now
    while asked < at + timedelta(seconds=60):
        asked += timedelta(seconds=dice.choice((0.5, 1, 2, 4, 8, 15)))
        lag = timedelta(seconds=dice.uniform(1, 30)) if dice.random() < 1 / 3 else timedelta()
        seen = [row for row, since in zip(truths, changes, strict=True) if since <= asked - lag]
        came = asked + timedelta(seconds=dice.choice((0.01, 0.3, 3, 8)))
        rows = (replace(seen[-1], requested_at=asked),) if seen else ()
        reads.append(TodaysOrdersRead(came, ACCOUNT, rows, asked))
    final = asked + timedelta(seconds=30)
    last = (replace(truths[-1], requested_at=final),)
    return truths, [
        *sorted(reads, key=lambda r: r.at),
        TodaysOrdersRead(final, ACCOUNT, last, final),
    ]


def _told(seed: int) -> tuple[object, ...]:
    dice = Random(seed)
    stage = Stage()
    intent = stage.working(500)
    truths, reads = _mixed(dice, stage, intent)
    for read in reads:
        stage.now = read.at
        stage.handle(read)
    end, row = truths[-1], stage.entries_of_order()
    fills = stage.all(Fill)
    wanted = (end.executed_quantity, end.executed_amount, end.status, False)
    executed, amount = sum(f.quantity for f in fills), sum(f.amount for f in fills)
    found = (executed, amount, row.broker_status, _halted(stage))
    is_open = any(one.order_id == "ORD1" for one in stage.engine.status().open_orders)
    assert (found, is_open, seed) == (wanted, False, seed)
    return found


@pytest.mark.parametrize("part", range(4))
def test_any_mix_of_late_and_old_reads_ends_in_the_truth_and_halts_nothing(part):
    for seed in range(part * 10, part * 10 + 10):
        _told(seed)


def main(stories: int = STORIES) -> int:
    """Tell so many; what is wrong with one is an error."""
    for number in range(stories):
        _told(number)
    print(f"{stories:,} mixes, one end each, 0 halts")  # noqa: T201
    return 0 if stories else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))


def test_a_row_that_is_right_again_ends_the_second_looks():
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=100))

    stage.after(1).book(report_of(intent, executed=200))
    stage.pass_time(60)

    assert stage.all(ReadOrder) == []


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({"remaining": 1, "cancelled": 499}, True),
        ({"remaining": 0, "cancelled": 500}, False),
        ({"remaining": 500, "state": S.CANCELLED, "status": "CANCELLED"}, False),
    ],
    ids=["one share open", "none open", "ended, with shares open"],
)
def test_only_a_row_that_shows_an_ended_order_open_again_goes_back(changes, is_told):
    stage, intent = _cancelled()

    stage.after(1).book(report_of(intent, **changes))

    assert ("STALE_ROW" in _alerts(stage)) is is_told


@pytest.mark.parametrize("average", [26_990, 27_000])
def test_an_average_that_is_corrected_is_no_contradiction(average):
    stage, intent = _partly_filled()

    stage.after(1).book(report_of(intent, executed=200, average=average, status="MATCHED"))

    assert _alerts(stage) == []
    assert stage.entries_of_order().executed_amount == 200 * 27_000


@pytest.mark.parametrize(("early_s", "is_certain"), [(0, True), (0.5, False)])
def test_a_second_look_counts_once_no_lagging_node_can_be_so_late(early_s, is_certain):
    stage, intent = _partly_filled()
    stage.after(1).book(report_of(intent, executed=100))

    stage.after(LAG_S - 1 - early_s).book(report_of(intent, executed=100))

    corrected = [n for n in stage.all(Note) if n.numbers.get("alert") == "ROW_CORRECTED"]
    assert _halted(stage) is is_certain
    words = "the broker's row under its id shows again: executed quantity fell from 200 to 100."
    assert [words in each.text for each in corrected] == [True] * is_certain


def test_a_status_of_before_the_end_with_nothing_open_is_no_order_at_work_again():
    stage, intent = _cancelled()

    row = report_of(intent, state=S.PENDING_CANCEL, status="CANCELLING", remaining=0)
    stage.after(1).book(row)

    assert _alerts(stage) == []


# ------------------------------------------------------------- a refused order that is at work


def _refused_at_work(side: Side, price: int) -> tuple[Stage, Intent]:
    """A stage with 500 shares of 1,000 in the account, whose order was answered as refused; a row
    shows it at work.
    """
    held = {"test": RecoveredStrategy({"HPG": (500, 13_500_000)}, 0, 0, 0, "on")}
    stage = Stage(sellable=1_000, recovery=Recovery(DAY, strategies=held), guard=caught)
    stage.quote()
    if side is Side.BUY:
        intent = stage.buy(500, price)
    else:
        stage.request(lambda s: s.sell(500, limit=price, why="out"))
        intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    result = result_of(intent, state=S.REJECTED, status="FAILED")
    stage.answer(intent, Refused("-1", "no", 200, result))
    stage.after(3).book(report_of(intent))
    stage.quote(26_950)
    return stage, intent


def test_what_a_refused_sale_may_sell_is_not_sold_again_until_it_is_looked_at():
    stage, first = _refused_at_work(Side.SELL, 27_000)

    stage.request(lambda s: s.sell(500, limit=26_950, why="out"))
    before = stage.decided()
    stage.after(3).book(report_of(first, state=S.REJECTED, status="FAILED", remaining=0))
    stage.request(lambda s: s.sell(500, limit=26_900, why="out"))

    assert before == ("BLOCKED", "SELLABLE")
    assert stage.decided() == ("PASSED", "OK")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_refused_buy_that_works_after_all_is_no_fault_beside_an_exit(is_restarted):
    stage, buy = _refused_at_work(Side.BUY, 27_000)
    stage.request(lambda s: s.sell(500, limit=26_950, why="stop loss"))
    stage.accept(stage.last(PlaceOrder).intent, order_id="ORD2")

    stage.after(45).row(report_of(buy))
    if is_restarted:
        rows = stage.entries_of_order("ORD1"), stage.entries_of_order("ORD2")
        stage = Stage(recovery=Recovery(DAY, 3, orders=rows), guard=caught)
    for _ in range(2 * WHOLE_EVERY.seconds):
        stage.pass_time(1)

    assert stage.engine._state.orders["ORD1"].is_open
    assert not stage.engine._state.gate.causes
    assert "ORDER_REOPENED" in _alerts(stage) or is_restarted


# --------------------------------------------------------------------- what was journalled before


def test_a_row_of_long_ago_is_old_however_many_came_after_it():
    stage = Stage(cash=10**9)
    intent = stage.working(10_000)
    rows = [report_of(intent, executed=100 * number) for number in range(1, 60)]
    for row in rows:
        stage.after(1).book(row)

    for _ in range(8):
        stage.after(LAG_S).book(rows[5])

    assert _alerts(stage) == ["STALE_ROW"]
    assert not _halted(stage)


def _after_a_restart(*executed: int):
    """An order whose rows were journalled, and the bot that continues from them."""
    before = Stage()
    intent = before.working(500)
    rows = [report_of(intent, executed=each) for each in executed]
    for row in rows:
        before.after(1).book(row)
    recovery = Recovery(
        DAY,
        orders=(before.entries_of_order(),),
        intents=(StoredIntent(intent, SendState.ACKED, "ORD1", None),),
        rows={"ORD1": tuple(row.figures for row in rows)},
    )
    return Stage(recovery=recovery), intent


def test_a_row_journalled_by_an_earlier_run_is_old():
    stage, intent = _after_a_restart(100, 200)

    for _ in range(8):
        stage.after(LAG_S).book(report_of(intent, executed=100))

    assert _alerts(stage) == ["STALE_ROW"]
    assert not _halted(stage)


@pytest.mark.parametrize(
    "changes", [{"executed": 150}, {"executed": 100, "average": 26_990}, {"executed": 0}]
)
def test_a_row_that_no_earlier_run_has_journalled_is_still_a_correction(changes):
    stage, intent = _after_a_restart(100, 200)

    for _ in range(2):
        stage.after(LAG_S).book(report_of(intent, **changes))

    assert _alerts(stage)[:2] == ["STALE_ROW", "ROW_CORRECTED"]
    assert _halted(stage)
