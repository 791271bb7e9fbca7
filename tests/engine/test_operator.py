from datetime import timedelta

import pytest

from bot.domain.entry import Note, RunState, StateChanged, StrategySwitched, Verdict
from bot.domain.message import (
    Action,
    BrokerHealthChanged,
    CancelAnswered,
    OperatorActed,
    PlaceOrder,
    ReadOrder,
    StopRunning,
    TradingDayStarted,
)
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted
from bot.domain.plan import Limits
from bot.engine.engine import EngineSettings
from tests.engine.stage import DAY, Stage, limited, report_of, result_of


def _act(stage, action, reason="why", **more):
    return stage.handle(OperatorActed(stage.now, action, reason, "me", **more))


def _state(stage):
    return stage.engine.standing().state


def test_a_pause_blocks_and_leaves_open_orders_alone():
    stage = Stage()
    stage.working()

    _act(stage, Action.PAUSE)
    stage.wish(lambda s: s.buy(200, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "PAUSED")
    assert stage.all(ReadOrder) == []
    _act(stage, Action.RESUME, "")
    assert _state(stage) is RunState.RUNNING


def test_a_halt_blocks_first_then_cancels_everything_of_ours():
    stage = Stage()
    intent = stage.working()
    stage.book(report_of(intent), report_of(intent, "ORD9", quantity=700))

    _act(stage, Action.HALT)

    assert stage.new(StateChanged)[0].to_state is RunState.HALTED
    assert [one.order_id for one in stage.new(ReadOrder)] == ["ORD1"]
    assert stage.wish(lambda s: s.buy()) == []


@pytest.mark.parametrize(("reason", "state"), [("", "HALTED"), (" ", "HALTED"), ("ok", "RUNNING")])
def test_leaving_a_halt_needs_a_reason(reason, state):
    stage = Stage()
    _act(stage, Action.HALT)

    _act(stage, Action.RESUME, reason)

    assert _state(stage) == state


def test_a_halt_without_a_token_names_what_it_could_not_cancel():
    stage = Stage(sellable=500)
    stage.after(1).book(report_of(stage.working(200, 26_900), executed=100))
    stage.wish(lambda s: s.sell(100, limit=28_000))
    stage.block_for_token(stage.last(PlaceOrder).intent)

    _act(stage, Action.HALT)

    assert stage.last(Note).text == "can't be cancelled without a 2FA token: ORD1"
    assert stage.new(ReadOrder) == []


def test_a_resume_lets_halted_symbols_trade_again():
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent, executed=-1))
    assert stage.engine.standing().halted_symbols

    _act(stage, Action.RESUME, "checked with the broker")

    assert stage.engine.standing().halted_symbols == {}


@pytest.mark.parametrize(("action", "state"), [(Action.PAUSE, "paused"), (Action.HALT, "disabled")])
def test_one_strategy_can_be_switched(action, state):
    stage = Stage()
    stage.working()

    _act(stage, action, strategy="test")

    assert stage.new(StrategySwitched)[0].state == state
    assert bool(stage.new(ReadOrder)) is (action is Action.HALT)
    assert _state(stage) is RunState.RUNNING
    _act(stage, Action.RESUME, strategy="test")
    assert stage.new(StrategySwitched)[0].state == "on"


def test_a_strategy_that_is_not_there_is_an_alert():
    stage = Stage()

    _act(stage, Action.PAUSE, strategy="gone")

    assert stage.new(Note)[0].kind == "ALERT"


def test_a_degraded_broker_blocks_until_it_is_well():
    stage = Stage()

    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="3 reads failed"))
    stage.wish(lambda s: s.buy(100, limit=27_000))

    assert (_state(stage), stage.decided()) == (RunState.DEGRADED, (Verdict.BLOCKED, "DEGRADED"))
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))
    assert _state(stage) is RunState.RUNNING


def test_the_strongest_cause_shows_and_the_next_one_after_it():
    stage = Stage()
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="3 reads failed"))
    _act(stage, Action.PAUSE)
    _act(stage, Action.HALT)

    shown = [_state(stage)]
    _act(stage, Action.RESUME, "ok")
    shown.append(_state(stage))

    assert shown == [RunState.HALTED, RunState.DEGRADED]
    assert stage.engine.standing().reason == "3 reads failed"


# ----------------------------------------------------------------------------------------- stop


def test_a_stop_waits_for_what_is_in_flight():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    _act(stage, Action.STOP, "SIGTERM")
    assert stage.new(StopRunning) == []
    stage.answer(intent, Accepted(result_of(intent)))

    assert stage.new(StopRunning) == [StopRunning("SIGTERM")]
    stage.pass_time(1)
    assert stage.new(StopRunning) == []


def test_a_stop_that_cancels_waits_for_the_rows():
    stage = Stage()
    intent = stage.working()

    _act(stage, Action.STOP, cancel_open=True)
    stage.row(report_of(intent))
    stage.handle(CancelAnswered(stage.now, "ORD1", Accepted(result_of(intent)), None))
    assert stage.all(StopRunning) == []
    stage.after(1).row(report_of(intent, cancelled=100, state=OrderState.CANCELLED))

    assert len(stage.all(StopRunning)) == 1


def test_stopping_tells_the_strategies_and_hears_no_more():
    told = []

    def on_stop(strategy):
        told.append("stop")
        strategy.buy()

    stage = Stage(hooks={"on_stop": on_stop})

    _act(stage, Action.STOP)

    assert (told, stage.all(PlaceOrder)) == (["stop"], [])
    assert stage.wish(lambda s: s.buy()) == []
    assert stage.engine.standing().state is RunState.STOPPING


# ---------------------------------------------------------------------------------------- days


def _next_day(stage):
    stage.after(86_400)
    return stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))


def test_a_new_day_counts_anew_and_ends_what_lapsed():
    stage = Stage(limited(max_orders_per_day=1))
    stage.working(500)

    _next_day(stage)

    assert stage.entries_of_order().state is OrderState.EXPIRED
    assert stage.engine.standing().open_orders == ()
    stage.quote()
    assert stage.buy(500).trading_date == DAY + timedelta(days=1)


def test_the_same_day_again_changes_nothing():
    stage = Stage()
    stage.working()

    assert stage.handle(TradingDayStarted(stage.now, DAY)) == []


def test_the_limit_of_all_strategies_pauses_each_of_them():
    stage = Stage(settings=EngineSettings(limits=Limits(max_loss_per_day=1_000)))
    intent = stage.working(1_000)
    stage.after(1).quote(26_900)

    stage.book(report_of(intent, executed=1_000))

    assert stage.new(StrategySwitched)[0].state == "paused"


def test_a_pause_by_a_limit_ends_with_the_day_and_one_by_hand_does_not():
    stage = Stage(limited(max_loss_per_day=1_000))
    intent = stage.working(1_000)
    stage.after(1).quote(26_900)
    stage.book(report_of(intent, executed=1_000))
    assert stage.new(StrategySwitched)[0].by == "limit"

    _next_day(stage)
    assert stage.new(StrategySwitched)[0].state == "on"

    _act(stage, Action.PAUSE, strategy="test")
    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=4)))
    assert stage.engine.standing().strategies[0].state == "paused"
