"""A wall that is set changes nothing but is told; after a standstill nothing leaves unread."""

from dataclasses import replace
from datetime import timedelta

from bot.domain.entry import Note, RunState, Verdict
from bot.domain.message import PlaceOrder, ReadAccount, ReadTodaysOrders
from bot.domain.operations import ClockStepped, StoodStill
from tests.engine.stage import Stage

SPAN = timedelta(minutes=10)


def _alerts(stage: Stage) -> list[object]:
    notes = [one for one in stage.all(Note) if one.kind == "ALERT"]
    return [one.numbers["alert"] for one in notes]


def _stood_still() -> Stage:
    stage = Stage()
    stage.after(SPAN.total_seconds()).handle(StoodStill(stage.now, SPAN))
    return stage


def test_a_set_wall_is_told_and_shown_until_it_is_set_right():
    stage = Stage()

    stage.handle(ClockStepped(stage.now, timedelta(seconds=-600)))
    [text] = stage.engine.status().alerts
    stage.buy()
    stage.handle(ClockStepped(stage.now, timedelta()))

    assert "set back by 600.0 s" in text
    assert _alerts(stage) == ["CLOCK_STEPPED"]
    assert stage.engine.status().alerts == ()
    assert stage.all(PlaceOrder)


def test_after_a_standstill_orders_wait_until_everything_was_read_again():
    stage = _stood_still()
    reads = [one for one in stage.done if isinstance(one, ReadTodaysOrders | ReadAccount)]
    stage.quote()
    stage.request(lambda s: s.buy(100, limit=27_000))
    refused = (stage.engine.status().state, stage.decided())

    stage.book()
    half = stage.engine.status().state
    stage.account()
    stage.buy()

    assert [type(one) for one in reads] == [ReadTodaysOrders, ReadAccount]
    assert refused == (RunState.DEGRADED, (Verdict.BLOCKED, "DEGRADED"))
    assert half is RunState.DEGRADED
    assert stage.engine.status().state is RunState.RUNNING
    assert _alerts(stage) == ["STOOD_STILL"]


def test_a_read_that_began_before_the_standstill_ended_says_nothing():
    stage = _stood_still()

    stage.book(asked_at=stage.now - timedelta(seconds=1))
    stage.account()

    assert stage.engine.status().state is RunState.DEGRADED


def test_reads_that_get_lost_are_asked_for_again():
    stage = _stood_still()
    stage.account()

    due = stage.due()
    stage.pass_time((due - stage.now).total_seconds())

    assert due - stage.now <= timedelta()
    assert stage.new(ReadTodaysOrders)
    assert stage.new(ReadAccount) == []


def test_a_signal_of_before_a_standstill_never_becomes_an_order():
    stage = Stage()
    intent = stage.buy()

    stage.after(SPAN.total_seconds()).handle(StoodStill(stage.now, SPAN))

    assert stage.engine.reason_not_to_send(replace(intent)) is not None
