from datetime import timedelta

import pytest

from bot.cli.telling.narrator import Narrator
from bot.domain.entry import (
    KILLED_NOTE,
    REDUCED_SCOPE,
    WORKS_ON_NOTE,
    Decision,
    Note,
    RunState,
    StateChanged,
    StrategySwitched,
    Verdict,
)
from bot.domain.message import (
    BrokerHealthChanged,
    CancelAnswered,
    CancelOrder,
    JournalHealthChanged,
    PlaceAnswered,
    PlaceOrder,
    ReadOrder,
    ReadOrderToCancel,
    Reconciled,
    StopRunning,
    TradingDayStarted,
    TwoFactorMissing,
)
from bot.domain.operations import Action, EarlierOrdersRead, OperatorActed
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted, NotSent, Refused, Unknown
from bot.domain.plan import Limits
from bot.domain.recovery import Recovery
from bot.engine.gate import refusal
from bot.engine.settings import EngineSettings
from tests.engine.stage import DAY, START, Stage, limited, report_of, result_of
from tests.rows import every_row


def _notes(stage):
    return [each for each in stage.entries if isinstance(each, Note)]


def _lose(stage):
    stage.send(stage.buy())


def _act(stage, action, reason="why", **more):
    return stage.handle(OperatorActed(stage.now, action, reason, "me", **more))


def _state(stage):
    return stage.engine.status().state


def test_a_pause_blocks_and_leaves_open_orders_alone():
    stage = Stage()
    stage.working()

    _act(stage, Action.PAUSE)
    stage.request(lambda s: s.buy(200, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "PAUSED")
    assert stage.all(ReadOrder) == []
    _act(stage, Action.RESUME, "")
    assert _state(stage) is RunState.RUNNING


@every_row(
    ("action", "by", "reason", "told"),
    [
        (Action.PAUSE, "operator", "", "paused by you"),
        (Action.PAUSE, "operator", "lunch", "paused by you: lunch"),
        (Action.PAUSE, "journal", "", "paused as before the restart"),
        (Action.PAUSE, "limit", "cash differs", "cash differs"),
    ],
)
def test_what_a_pause_without_a_reason_blocks_names_it(action, by, reason, told):
    stage = Stage()

    stage.handle(OperatorActed(stage.now, action, reason, by))
    stage.request(lambda s: s.buy(200, limit=27_000))

    [blocked] = [each for each in stage.entries if isinstance(each, Decision)]
    assert blocked.numbers["reason"] == told
    assert f" not sent: {told}" in Narrator().lines_of(blocked)[0]


@every_row(
    ("action", "reason", "refused"),
    [
        (Action.HALT, "", ("HALTED", "halted by you")),
        (Action.HALT, "wrong prices", ("HALTED", "halted by you: wrong prices")),
        (Action.STOP, "bot stop", ("STOPPING", "bot stop")),
    ],
)
def test_a_halt_is_named_like_a_pause_and_a_stop_has_its_own_words(action, reason, refused):
    stage = Stage()

    stage.handle(OperatorActed(stage.now, action, reason, "operator"))

    assert refusal(stage.engine._state) == refused


def test_reducing_buys_nothing_sells_and_ends_without_a_reason():
    stage = Stage(sellable=1_000)
    bought = stage.working(1_000)
    stage.after(1).book(report_of(bought, executed=1_000))

    _act(stage, Action.PAUSE, "earnings", entries_only=True)
    stage.after(60).quote(27_000)
    stage.request(lambda s: s.buy(100, limit=26_900))
    assert stage.decided() == (Verdict.BLOCKED, "REDUCING")
    assert stage.last(Decision).numbers == {
        "state": "REDUCING",
        "reason": "no entries until bot resume: earnings",
    }
    stage.request(lambda s: s.sell(100, limit=27_000))
    sale = stage.last(PlaceOrder).intent

    assert stage.engine.reason_not_to_send(sale) is None
    status = stage.engine.status()
    assert (status.state, status.reason) == (RunState.REDUCING, "earnings")
    assert [(one.state, one.by) for one in status.causes] == [(RunState.REDUCING, "operator")]
    assert "REDUCING by you (earnings): nothing is bought" in status.alerts[0]
    _act(stage, Action.RESUME, "")
    assert _state(stage) is RunState.RUNNING


def test_a_buy_approved_before_does_not_leave_a_bot_that_is_reducing():
    stage = Stage()
    [place] = [c for c in stage.request(lambda s: s.buy(100)) if isinstance(c, PlaceOrder)]

    _act(stage, Action.PAUSE, "", entries_only=True)

    assert stage.engine.reason_not_to_send(place.intent) == "no entries until bot resume"


def test_a_restart_keeps_a_bot_reducing_and_a_halt_shows_before_it():
    stage = Stage(recovery=Recovery(DAY, halted_scopes={REDUCED_SCOPE: "earnings"}))
    assert _state(stage) is RunState.REDUCING

    _act(stage, Action.HALT, "worse")

    assert _state(stage) is RunState.HALTED
    _act(stage, Action.RESUME, "seen")
    assert _state(stage) is RunState.RUNNING


def test_a_start_after_a_kill_says_so_on_the_screen_and_in_the_journal():
    stage = Stage(recovery=Recovery(DAY, killed_since=START))

    [note] = [each for each in _notes(stage) if each.kind == KILLED_NOTE]
    [line] = Narrator().lines_of(note, 300)
    assert line[9:] == (
        "KILLED  the last run, begun 2026-11-19 09:30:00, has no end in the journal: it was "
        "killed, or an error ended it (bot logs). What it left open is asked for now"
    )


@pytest.mark.parametrize(("crashes", "state"), [(2, RunState.RUNNING), (3, RunState.HALTED)])
def test_the_start_after_three_runs_that_died_is_halted(crashes, state):
    stage = Stage(recovery=Recovery(DAY, crashes=crashes))

    assert _state(stage) is state
    alerts = [one.numbers["alert"] for one in stage.all(Note) if one.kind == "ALERT"]
    assert alerts == (["CRASH_LOOP"] if state is RunState.HALTED else [])
    _act(stage, Action.RESUME, "more memory")
    assert _state(stage) is RunState.RUNNING


@pytest.mark.parametrize(
    ("action", "more", "reason"),
    [
        (Action.PAUSE, {}, "PAUSED: why"),
        (Action.HALT, {}, "HALTED: why"),
        (Action.STOP, {}, "STOPPING: why"),
        (Action.PAUSE, {"strategy": "test"}, "test is paused: why"),
        (Action.HALT, {"strategy": "test"}, "test is disabled: why"),
    ],
)
def test_an_order_approved_before_must_not_leave_any_more(action, more, reason):
    stage = Stage()
    [place] = [c for c in stage.request(lambda s: s.buy(100)) if isinstance(c, PlaceOrder)]
    assert stage.engine.reason_not_to_send(place.intent) is None

    _act(stage, action, **more)

    assert stage.engine.reason_not_to_send(place.intent) == reason


def test_an_exit_that_waits_leaves_also_after_the_loss_limit_has_paused_its_strategy():
    stage = Stage(limited(max_loss_per_day=100_000), sellable=1_000)
    bought = stage.working(1_000)
    stage.after(1).book(report_of(bought, executed=1_000))
    stage.after(1).quote(26_900)
    stage.request(lambda s: s.sell(500, limit=26_900), lambda s: s.sell(500, limit=26_850))
    first, second = (place.intent for place in stage.new(PlaceOrder))

    stage.accept(first, "ORD2")
    stage.after(1).book(report_of(first, "ORD2", executed=500))

    assert stage.new(StrategySwitched)[0].by == "limit"
    assert stage.engine.reason_not_to_send(second) is None
    assert stage.engine.reason_not_to_send(bought) is not None


def test_an_exit_that_waits_for_a_token_is_requested_again_though_the_loss_limit_has_paused():
    stage = Stage(limited(max_loss_per_day=100_000), sellable=1_000)
    bought = stage.working(1_000)
    stage.after(1).book(report_of(bought, executed=1_000))
    stage.after(1).quote(26_900)
    stage.request(lambda s: s.sell(500, limit=26_900), lambda s: s.sell(500, limit=26_850))
    first, second = (place.intent for place in stage.new(PlaceOrder))
    stage.accept(first, "ORD2")
    stage.block_for_token(second)
    stage.after(1).book(report_of(first, "ORD2", executed=500))
    assert stage.new(StrategySwitched)[0].by == "limit"

    stage.token()

    assert [place.intent.follows for place in stage.new(PlaceOrder)] == [second.intent_id]


def test_a_paused_strategy_that_always_asks_again_is_blocked_not_approved():
    stage = Stage(hooks={"on_reject": lambda strategy, _: strategy.buy(100, limit=27_000)})
    intent = stage.buy()
    _act(stage, Action.PAUSE, strategy="test")
    reason = stage.engine.reason_not_to_send(intent)
    assert reason is not None

    stage.handle(PlaceAnswered(stage.now, intent.intent_id, NotSent(reason), None))

    assert stage.decided() == (Verdict.BLOCKED, "PAUSED")
    assert stage.new(PlaceOrder) == []


def test_an_exit_asked_for_in_a_fill_that_meets_the_loss_limit_is_sent():
    stage = Stage(
        limited(max_loss_per_day=1_000),
        sellable=1_000,
        hooks={"on_fill": lambda strategy, _: strategy.sell(100, limit=26_900)},
    )
    bought = stage.working(1_000)
    stage.after(1).quote(26_900)

    stage.book(report_of(bought, executed=1_000))

    [place] = stage.new(PlaceOrder)
    assert stage.engine.status().strategies[0].state == "paused"
    assert stage.engine.reason_not_to_send(place.intent) is None


def test_an_order_approved_before_does_not_leave_without_a_token():
    stage = Stage()
    intent = stage.working()

    stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_REQUIRED", "no token"))

    reason = stage.engine.reason_not_to_send(intent)
    assert reason == "TWO_FACTOR: needs 2FA (OTP_SESSION_REQUIRED)"


def test_an_order_in_a_symbol_that_is_halted_meanwhile_must_not_leave():
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, executed=-100))

    reason = stage.engine.reason_not_to_send(intent)

    assert reason is not None
    assert reason.startswith("HPG is halted: ")


def test_a_halt_blocks_first_then_cancels_everything_of_ours():
    stage = Stage()
    intent = stage.working()
    stage.book(report_of(intent), report_of(intent, "ORD9", quantity=700))

    _act(stage, Action.HALT)

    assert stage.new(StateChanged)[0].to_state is RunState.HALTED
    assert [one.order_id for one in stage.new(ReadOrder)] == ["ORD1"]
    assert stage.request(lambda s: s.buy()) == []


@pytest.mark.parametrize(("reason", "state"), [("", "HALTED"), (" ", "HALTED"), ("ok", "RUNNING")])
def test_leaving_a_halt_needs_a_reason(reason, state):
    stage = Stage()
    _act(stage, Action.HALT)

    _act(stage, Action.RESUME, reason)

    assert _state(stage) == state


def test_a_halt_without_a_token_names_what_it_could_not_cancel():
    stage = Stage(sellable=500)
    stage.after(1).book(report_of(stage.working(200, 26_900), executed=100))
    stage.request(lambda s: s.sell(100, limit=28_000))
    stage.block_for_token(stage.last(PlaceOrder).intent)

    _act(stage, Action.HALT)

    assert stage.last(Note).text == (
        "without a 2FA token these orders can't be cancelled: ORD1 (L-0001, BUY 100 HPG at 26,900)."
        " Get a token: bot otp. Then the cancels go out first. Until then only the broker's own app"
        " can cancel"
    )
    assert stage.new(ReadOrder) == []
    words = "there is no 2FA token; the cancel goes out when there is one: bot otp"
    order = "ORD1 (L-0001, BUY 100 HPG at 26,900) is still open (halt: why)"
    assert stage.engine.status().alerts == (f"{order}: {words}",)
    assert stage.due() > stage.now
    stage.pass_time(60)
    assert len(stage.new(Note)) == 0
    stage.token()
    assert [one.order_id for one in stage.new(ReadOrder)] == ["ORD1"]
    assert stage.engine.status().alerts == ()


def test_a_resume_lets_halted_symbols_trade_again():
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent, executed=-1))
    assert stage.engine.status().halted_symbols

    _act(stage, Action.RESUME, "checked with the broker")

    assert stage.engine.status().halted_symbols == {}


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
    stage.request(lambda s: s.buy(100, limit=27_000))

    assert (_state(stage), stage.decided()) == (RunState.DEGRADED, (Verdict.BLOCKED, "DEGRADED"))
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))
    assert _state(stage) is RunState.RUNNING


def test_a_request_that_meets_a_journal_out_of_reach_says_so():
    stage = Stage()

    stage.handle(JournalHealthChanged(stage.now, is_healthy=False, detail="the disk is full"))
    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "DENIED_JOURNAL")


def test_a_journal_that_is_lost_three_times_halts_entries_until_a_person_has_looked():
    stage, states = Stage(), []

    for _ in range(3):
        stage.after(60).handle(JournalHealthChanged(stage.now, False, "it hangs"))
        stage.handle(JournalHealthChanged(stage.now, False, "it hangs"))
        stage.handle(JournalHealthChanged(stage.now, True, "well again"))
        states.append(_state(stage))
    stage.quote()
    stage.request(lambda s: s.buy(100, limit=27_000))
    alerts = [one.numbers["alert"] for one in stage.all(Note) if one.kind == "ALERT"]
    _act(stage, Action.RESUME, "a new disk")

    assert states == [RunState.RUNNING, RunState.RUNNING, RunState.HALTED]
    assert (alerts, stage.all(PlaceOrder)) == (["JOURNAL_LOST"], [])
    assert _state(stage) is RunState.RUNNING


def test_a_journal_that_is_lost_seldom_halts_nothing():
    stage = Stage()

    for _ in range(5):
        stage.after(20 * 60).handle(JournalHealthChanged(stage.now, False, "it hangs"))
        stage.handle(JournalHealthChanged(stage.now, True, "well again"))

    assert _state(stage) is RunState.RUNNING


@pytest.mark.parametrize("first", [BrokerHealthChanged, JournalHealthChanged])
def test_the_end_of_one_trouble_is_not_the_end_of_the_other(first):
    stage = Stage()
    for kind, detail in ((BrokerHealthChanged, "reads fail"), (JournalHealthChanged, "it hangs")):
        stage.handle(kind(stage.now, is_healthy=False, detail=detail))
    both = stage.engine.status().reason
    second = BrokerHealthChanged if first is JournalHealthChanged else JournalHealthChanged

    stage.handle(first(stage.now, is_healthy=True, detail="well again"))
    one = (_state(stage), stage.engine.status().reason)
    stage.handle(second(stage.now, is_healthy=True, detail="well again"))

    assert both == "it hangs"
    left = "it hangs" if first is BrokerHealthChanged else "reads fail"
    assert one == (RunState.DEGRADED, left)
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
    assert stage.engine.status().reason == "3 reads failed"


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


@pytest.mark.parametrize(
    "again", [(Action.STOP, {"cancel_open": True}), (Action.HALT, {})], ids=["stop", "halt"]
)
def test_a_request_to_cancel_while_the_bot_stops_is_carried_out_before_the_end(again):
    action, more = again
    stage = Stage()
    intent = stage.working()
    lost = stage.buy(200)
    stage.send(lost)
    _act(stage, Action.STOP)
    stage.pass_time(9)

    _act(stage, action, **more)
    assert stage.new(ReadOrderToCancel) != []
    stage.answer(lost, Refused("-1", "no", 200))
    assert stage.all(StopRunning) == []
    stage.row(report_of(intent))
    stage.handle(CancelAnswered(stage.now, "ORD1", Accepted(result_of(intent)), None))
    assert stage.all(StopRunning) == []
    stage.after(1).row(report_of(intent, cancelled=100, state=OrderState.CANCELLED))

    assert len(stage.all(StopRunning)) == 1


def test_a_request_to_cancel_that_comes_after_a_stop_has_ended_changes_nothing():
    stage = Stage()
    stage.working()
    _act(stage, Action.STOP)
    assert len(stage.all(StopRunning)) == 1

    assert _act(stage, Action.STOP, cancel_open=True) == []


@pytest.mark.parametrize(
    ("begin", "order"),
    [
        (Stage.working, "L-0001 (ORD1), BUY 100 HPG at 27,000"),
        (_lose, "BUY 100 HPG LIMIT 27,000 (L-0001), outcome not known"),
    ],
    ids=["open", "unknown"],
)
def test_a_stop_names_what_works_on_at_the_broker_and_that_nobody_watches_it(begin, order):
    stage = Stage()
    begin(stage)

    _act(stage, Action.STOP)

    [said] = [each for each in _notes(stage) if each.kind == WORKS_ON_NOTE]
    assert said.numbers == {"orders": 1}
    assert said.text == (
        f"still working at the broker: {order}. While the bot is down nothing expires or cancels "
        "them (bot stop --cancel-open cancels them first)"
    )


@pytest.mark.parametrize("orders", [0, 1])
def test_a_stop_that_leaves_nothing_names_nothing(orders):
    stage = Stage()
    if orders:
        stage.working()

    _act(stage, Action.STOP, cancel_open=bool(orders))

    assert [each for each in _notes(stage) if each.kind == WORKS_ON_NOTE] == []


def test_stopping_tells_the_strategies_and_hears_no_more():
    told = []

    def on_stop(strategy):
        told.append("stop")
        strategy.buy()

    stage = Stage(hooks={"on_stop": on_stop})

    _act(stage, Action.STOP)

    assert (told, stage.all(PlaceOrder)) == (["stop"], [])
    assert stage.request(lambda s: s.buy()) == []
    assert stage.engine.status().state is RunState.STOPPING


# ---------------------------------------------------------------------------------------- days


def _next_day(stage, *ended):
    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ended))
    stage.handle(Reconciled(stage.now))


def test_a_new_day_counts_from_zero_and_ends_what_lapsed():
    stage = Stage(limited(max_orders_per_day=1))
    intent = stage.working(500)

    _next_day(stage, report_of(intent, remaining=0, state=OrderState.EXPIRED, status="EXPIRED"))

    assert stage.entries_of_order().state is OrderState.EXPIRED
    assert stage.engine.status().open_orders == ()
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
    assert stage.last(StrategySwitched).state == "on"

    _act(stage, Action.PAUSE, strategy="test")
    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=4)))
    assert stage.engine.status().strategies[0].state == "paused"


# ------------------------------------------------------------------- orders that were on their way


@pytest.mark.parametrize("strategy", [None, "test"])
def test_an_order_on_its_way_at_a_halt_is_cancelled_when_it_turns_up(strategy):
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    _act(stage, Action.HALT, strategy=strategy)
    stage.answer(intent, Accepted(result_of(intent)))
    stage.row(report_of(intent))

    assert [one.order_id for one in stage.all(CancelOrder)] == ["ORD1"]


def test_a_lost_order_found_after_a_halt_is_cancelled():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.answer(intent, Unknown("reset"))

    _act(stage, Action.HALT)
    stage.after(1).book(report_of(intent, "ORD7"))
    stage.row(report_of(intent, "ORD7"), "ORD7")

    assert [one.order_id for one in stage.all(CancelOrder)] == ["ORD7"]


def test_what_is_asked_of_an_order_on_its_way_is_journalled():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    _act(stage, Action.PAUSE, cancel_open=True)

    decision = stage.last(Decision)
    assert (decision.code, decision.why, decision.request_id) == ("CANCEL", "why", "L-0001")


def test_an_order_on_its_way_at_a_stop_that_cancels_is_cancelled_before_the_end():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    _act(stage, Action.STOP, cancel_open=True)
    stage.answer(intent, Accepted(result_of(intent)))

    assert stage.new(StopRunning) == []
    assert stage.new(ReadOrder)[-1].order_id == "ORD1"


def test_after_a_resume_new_orders_work_again():
    stage = Stage()
    _act(stage, Action.HALT)
    _act(stage, Action.RESUME, "looked")
    stage.quote()

    stage.working()
    stage.pass_time(30)

    assert stage.all(CancelOrder) == []


def test_a_stop_does_not_wait_for_a_cancel_that_the_exchange_takes_only_later():
    stage = Stage()
    stage.working(500)
    stage.after(2.5 * 3_600)

    _act(stage, Action.STOP, cancel_open=True)

    assert stage.new(StopRunning) != []
    assert stage.last(Note).text == (
        "stopped before these were cancelled: ORD1 (L-0001, BUY 500 HPG at 27,000) is still open"
        " (stop): the exchange cancels nothing now (lunch break); the cancel goes out at 13:00:00."
        " They go on working at the broker without the bot; its next start today goes on"
        " cancelling them. If it must end now, cancel it in the broker's own app"
    )


def test_a_stop_names_the_cancel_that_is_not_through_and_ends_after_eight_seconds():
    stage = Stage()
    intent = stage.working()

    _act(stage, Action.STOP, cancel_open=True)
    stage.row(report_of(intent))
    stage.pass_time(8)
    assert stage.new(StopRunning) == []  # a DELETE is on its way
    stage.handle(CancelAnswered(stage.now, "ORD1", Unknown("deadline"), None))

    assert len(stage.new(StopRunning)) == 1
    said = stage.last(Note)
    assert said.numbers == {"alert": "STOP_LEAVES_OPEN", "orders": 1, "ids": "ORD1"}
    assert "no answer that can be trusted: deadline" in said.text


def test_a_stop_whose_cancels_get_no_further_ends_by_itself():
    stage = Stage()
    intent = stage.working()
    _act(stage, Action.STOP, cancel_open=True)
    stage.row(report_of(intent))
    stage.handle(CancelAnswered(stage.now, "ORD1", NotSent("no connection"), None))

    while not stage.new(StopRunning):
        stage.now = stage.due()
        stage.pass_time(0)
        if stage.new(CancelOrder):
            stage.handle(CancelAnswered(stage.now, "ORD1", NotSent("no connection"), None))

    assert stage.now - START == timedelta(seconds=8)
