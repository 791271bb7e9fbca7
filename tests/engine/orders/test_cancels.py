from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import Note
from bot.domain.instrument import Phase
from bot.domain.message import (
    CancelAnswered,
    CancelOrder,
    ReadOrder,
    ReadOrderToCancel,
    TimePassed,
)
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted, NotSent, Refused, Unknown
from bot.domain.plan import OrderPlan
from tests.engine.stage import ACCOUNT, PLAN, START, Stage, report_of, result_of

EXPIRING = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=3)))
WHY = "expire 3m"


def _expired():
    stage = Stage(EXPIRING)
    intent = stage.working(500, 27_050)
    stage.after(90).book(report_of(intent, executed=200))
    stage.pass_time(90)
    return stage, intent


def _answered(stage, intent, outcome=None):
    outcome = outcome or Accepted(result_of(intent))
    return stage.handle(CancelAnswered(stage.now, "ORD1", outcome, None))


def test_the_row_is_read_before_the_cancel_is_sent():
    stage, intent = _expired()
    assert stage.new(ReadOrderToCancel) == [ReadOrderToCancel("ORD1", f"before cancel: {WHY}")]

    stage.row(report_of(intent, executed=200))

    assert stage.new(CancelOrder) == [CancelOrder("ORD1", "L-0001", ACCOUNT, WHY)]


def test_the_verdict_comes_from_a_row_only():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    done = _answered(stage, intent, Accepted(result_of(intent, state=OrderState.CANCELLED)))
    assert ReadOrder("ORD1", "after cancel") in done
    assert stage.entries_of_order().state is OrderState.PARTIALLY_FILLED

    stage.after(1).row(report_of(intent, executed=200, cancelled=300))
    row = stage.entries_of_order()
    assert (row.state, row.broker_status) == (OrderState.CANCELLED, "SENT")
    assert row.note == "expire 3m: 200 filled, 300 cancelled"
    assert stage.engine.next_due() is None


def test_a_cancelled_order_without_a_fill_ends_unfilled():
    stage = Stage(EXPIRING)
    intent = stage.working(500, 27_050)
    stage.pass_time(180)
    stage.row(report_of(intent))
    _answered(stage, intent, Accepted(result_of(intent, state=OrderState.CANCELLED)))

    stage.after(1).row(report_of(intent, cancelled=500))

    assert stage.entries_of_order().note == "expire 3m: 500 cancelled unfilled"


def test_an_order_that_was_filled_meanwhile_is_not_cancelled():
    stage, intent = _expired()

    stage.row(report_of(intent, executed=500))

    assert stage.new(CancelOrder) == []
    assert stage.engine.next_due() is None


def test_the_rows_own_flag_outranks_the_state():
    stage, intent = _expired()

    stage.row(report_of(intent, executed=200, may_cancel=False))

    assert stage.new(CancelOrder) == []


@pytest.mark.parametrize(
    "outcome", [Refused("400", "no", 400), Unknown("deadline"), Refused("429", "slow", 429)]
)
def test_an_ambiguous_answer_is_tried_again_up_to_five_times(outcome):
    stage, intent = _expired()
    row = report_of(intent, executed=200)
    sent = 0
    for _ in range(200):
        if stage.new(ReadOrder):
            stage.row(row)
        if stage.new(CancelOrder):
            sent += 1
            _answered(stage, intent, outcome)
        stage.pass_time(1)

    assert sent == 5
    alert = [note.text for note in stage.all(Note) if note.kind == "ALERT"]
    assert alert == ["ORD1 is still open after 5 cancels (expire 3m)"]


def test_a_429_waits_as_long_as_the_broker_says():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    _answered(stage, intent, Refused("429", "slow", 429, retry_after_s=30.0))
    stage.row(report_of(intent, executed=200))

    for _ in range(29):
        stage.pass_time(1)
        assert stage.new(ReadOrder) == []
    stage.pass_time(1)
    assert len(stage.new(ReadOrder)) == 1


def test_an_unanswered_read_is_asked_again():
    stage, _ = _expired()

    stage.pass_time(15)

    assert len(stage.new(ReadOrder)) == 1


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.BREAK, Phase.PRE_CLOSED])
def test_in_an_auction_or_over_lunch_the_cancel_waits(phase):
    stage = Stage(EXPIRING)
    intent = stage.working(500, 27_050)
    stage.phase(phase)

    stage.pass_time(180)
    stage.pass_time(1)

    assert stage.all(ReadOrder) == []
    notes = [note for note in stage.all(Note) if note.kind == "CANCEL"]
    assert len(notes) == 1
    due = START.replace(hour=4, minute=30)  # 11:30 local, the rulebook's next change
    assert notes[0].numbers["until"] == due.isoformat()
    stage.now = due
    stage.phase(Phase.PROGRESS)
    stage.handle(TimePassed(due))
    assert len(stage.all(ReadOrder)) == 1
    stage.row(report_of(intent))
    assert len(stage.new(CancelOrder)) == 1


def test_asked_twice_it_is_one_cancel():
    stage = Stage()
    stage.working()

    stage.request(lambda s: s.cancel(), lambda s: s.cancel())

    assert len(stage.new(ReadOrder)) == 1


def test_a_strategy_without_an_order_has_nothing_to_cancel():
    stage = Stage()

    stage.request(lambda s: s.cancel(why="tidy"))

    assert stage.decided() == ("SKIPPED", "NOTHING_TO_CANCEL")


def test_a_detail_that_is_not_there_yet_is_asked_again():
    stage, _ = _expired()

    stage.row(None)
    stage.pass_time(15)

    assert len(stage.new(ReadOrder)) == 1


@pytest.mark.parametrize(
    "outcome", [NotSent("no connection"), Refused("RATE", "429", 429, retry_after_s=30.0)]
)
def test_a_cancel_that_never_reached_the_desk_is_never_given_up(outcome):
    stage, intent = _expired()

    for _ in range(20):
        stage.row(report_of(intent, executed=200))
        _answered(stage, intent, outcome)
        stage.pass_time(31)

    assert len(stage.all(CancelOrder)) == 20
    assert [note for note in stage.all(Note) if "is still open" in note.text] == []


@pytest.mark.parametrize(
    ("asked_s", "state"), [(5, OrderState.ACCEPTED), (10, OrderState.CANCELLED)]
)
def test_a_row_asked_for_before_the_cancel_was_taken_ends_nothing(asked_s, state):
    stage = Stage()
    intent = stage.working()
    stage.after(10)

    _answered(stage, intent)
    stage.after(1)
    row = report_of(intent, cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
    stage.book(row, asked_at=START + timedelta(seconds=asked_s))

    assert stage.entries_of_order().state is state


def test_a_cancel_that_was_taken_proves_the_token():
    stage = Stage()
    intent = stage.working()
    stage.token()
    assert stage.engine.status().is_unproven

    _answered(stage, intent)

    assert not stage.engine.status().is_unproven
