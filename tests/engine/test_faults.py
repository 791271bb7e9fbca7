"""An exception in the engine: entries are halted, and all else goes on."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from bot.domain.entry import Fill, IntentMoved, Note, RunState, StateChanged, Transition
from bot.domain.errors import Fault
from bot.domain.message import (
    BurnNonce,
    CancelOrder,
    FaultFound,
    NonceBurnt,
    PlaceOrder,
    ReadOrder,
    ReadTodaysOrders,
)
from bot.domain.operations import Action, CancelAsked, EarlierOrdersRead, OperatorActed
from bot.domain.order import OrderState, SendState
from bot.domain.outcome import Accepted, NotSent, Resolution
from bot.domain.plan import Wake
from bot.domain.recovery import Recovery, StoredIntent
from bot.domain.rulebook import Rulebook
from bot.strategy import Request, RequestKind
from tests.engine.stage import DAY, PLAN, RULEBOOK, START, Stage, attempt_of, report_of, result_of

NO_ROW: Any = None
"""What stands where a number should be."""
NO_KIND = str.__new__(RequestKind, "none")
NO_KIND._name_ = NO_KIND._value_ = "none"
NO_REQUEST = Request(NO_KIND)
"""Of a kind that only a bug can make."""


def caught(step: Callable[[], object]) -> Fault | None:
    """Make a step as a shell does."""
    try:
        step()
    except Exception as error:  # noqa: BLE001
        return Fault(f"{type(error).__name__} of the test", str(error), "its trace", "/bugs/1.txt")
    return None


class Breaking(Rulebook):
    """A rulebook that cannot say whether an order may be cancelled."""

    def may_cancel(self, *_: Any) -> bool:
        raise KeyError("may_cancel")


BROKEN = Breaking(
    RULEBOOK.calendar, RULEBOOK.venues, RULEBOOK.fees, RULEBOOK.settlement, RULEBOOK.statuses
)


def stage_with(**changes: Any) -> Stage:
    return Stage(guard=caught, **changes)


def cancel(stage: Stage, order_id: str = "ORD1") -> None:
    """Ask for a cancel and show its row."""
    stage.handle(CancelAsked(stage.now, order_id, "me", "by hand"))


# ------------------------------------------------------------------------- a fault in each stage


def _in_bars() -> Stage:
    bars = replace(PLAN, wake=Wake(bar=timedelta(minutes=1)))
    stage = stage_with(plan=bars, hooks={"on_bar": print, "warm_up": "twenty"})
    stage.working()
    stage.after(60).quote()
    return stage


def _in_a_handler() -> Stage:
    stage = stage_with()
    stage.row(replace(report_of(stage.working()), executed_quantity=NO_ROW))
    return stage


def _in_a_request() -> Stage:
    stage = stage_with()
    stage.working()
    stage.request(lambda s: s.context.requests.append(NO_REQUEST))
    return stage


def _in_a_deadline() -> Stage:
    stage = stage_with(rulebook=BROKEN)
    stage.working()
    cancel(stage)
    return stage


def _in_a_shell() -> Stage:
    stage = stage_with()
    stage.working()
    fault = Fault("OSError of the test", "no room", "its trace", "/bugs/1.txt")
    stage.handle(FaultFound(stage.now, "DropToken", fault))
    return stage


@pytest.mark.parametrize(
    "made", [_in_bars, _in_a_handler, _in_a_request, _in_a_deadline, _in_a_shell]
)
def test_a_fault_halts_entries_and_tells_once_where_and_with_which_trace(made):
    stage = made()

    status = stage.engine.status()
    assert (status.state, status.reason) == (RunState.HALTED, "engine fault")
    assert [one.to_state for one in stage.all(StateChanged)][-1] is RunState.HALTED
    told = [one for one in stage.all(Note) if one.kind == "FAULT"]
    assert [one.numbers["trace"] for one in told] == ["its trace"]
    assert "no new order is sent; open orders stay, and can be cancelled" in told[0].text
    assert "/bugs/1.txt" in told[0].text
    assert [one.count for one in status.faults] == [1]
    assert stage.request(lambda s: s.buy(100, limit=27_000)) == []


@pytest.mark.parametrize("made", [_in_bars, _in_a_handler, _in_a_request, _in_a_shell])
def test_after_a_fault_orders_are_read_and_cancelled_as_before(made):
    stage = made()

    cancel(stage)
    intent = stage.all(PlaceOrder)[0].intent
    stage.row(report_of(intent))
    assert [one.order_id for one in stage.new(CancelOrder)] == ["ORD1"]
    stage.pass_time(600)
    assert stage.new(ReadTodaysOrders)
    stage.book(report_of(intent, executed=100))

    assert stage.last(Fill).quantity == 100


# ------------------------------------------------------------------------------ faults that stay


def test_a_deadline_that_raises_at_every_event_is_journalled_once_and_stops_no_other():
    stage = stage_with(rulebook=BROKEN)
    intent = stage.working()
    cancel(stage)

    for _ in range(20):
        stage.pass_time(30)

    assert len([one for one in stage.all(Note) if one.kind == "FAULT"]) == 1
    assert stage.engine.status().faults[0].count > 10
    assert stage.all(ReadTodaysOrders)
    stage.book(report_of(intent, executed=100))
    assert stage.last(Fill).quantity == 100


def test_one_row_of_the_day_book_that_raises_hides_no_other():
    stage = stage_with()
    first = stage.working()
    stage.after(61)
    others = report_of(first, "ORD7", status="SENT")

    stage.book(replace(report_of(first), executed_quantity=NO_ROW), others)

    assert stage.entries_of_order("ORD7").intent_id is None
    stage.after(1).book(report_of(first, executed=100), others)
    assert stage.last(Fill).order_id == "ORD1"


def test_a_fill_that_raises_is_not_lost_but_taken_when_its_row_is_shown_again():
    stage = stage_with()
    intent = stage.working()
    strategy = stage.engine._state.strategies["test"]
    strategy.positions["HPG"] = NO_ROW

    stage.book(report_of(intent, executed=100))
    assert stage.entries_of_order().executed_quantity == 0
    del strategy.positions["HPG"]
    assert stage.engine.status().reason == "engine fault"
    stage.after(15).book(report_of(intent, executed=100))
    stage.after(15).book(report_of(intent, executed=100))

    [fill] = stage.all(Fill)
    assert (fill.quantity, fill.position) == (100, 100)
    assert strategy.position("HPG").shares == 100
    assert stage.entries_of_order().executed_quantity == 100


def test_one_cancel_that_raises_holds_back_no_other():
    stage = stage_with()
    stage.working()
    cancel(stage)
    state = stage.engine._state
    state.cancels["ORD1"].order_id = "ORD9"
    other = state.orders["ORD1"]
    state.index.track_order(replace(other, row=replace(other.row, order_id="ORD2")))

    stage.after(16)
    cancel(stage, "ORD2")

    assert stage.engine.status().reason == "engine fault"
    assert [one.order_id for one in stage.new(ReadOrder)] == ["ORD2"]


def test_time_goes_on_when_the_next_deadline_is_not_known():
    stage = stage_with()
    stage.working()
    cancel(stage)
    stage.engine._state.cancels["ORD1"].due = cast("Any", "soon")

    assert stage.due() == stage.now + timedelta(seconds=1)
    stage.pass_time(1)
    assert stage.engine._state.gate.reason == "engine fault"


# -------------------------------------------------------------------------- what was on its way


def test_an_order_approved_in_the_event_that_raised_does_not_leave_and_hangs_nowhere():
    stage = stage_with()
    stage.request(
        lambda s: s.buy(100, limit=27_000), lambda s: s.context.requests.append(NO_REQUEST)
    )
    intent = stage.last(PlaceOrder).intent

    reason = stage.engine.reason_not_to_send(intent)
    assert reason == "HALTED: engine fault"
    stage.answer(intent, NotSent(reason))

    assert stage.last(IntentMoved).to_state is SendState.EXPIRED_LOCAL
    assert stage.last(Transition).to_state is OrderState.EXPIRED
    assert [(kind, one.code, one.reason) for kind, one in stage.told] == [
        ("reject", "NOT_SENT", "HALTED: engine fault")
    ]


def test_a_last_look_that_raises_lets_nothing_leave():
    stage = stage_with()
    intent = stage.buy()

    assert stage.engine.reason_not_to_send(replace(intent, symbol=cast("Any", []))) == (
        "engine fault"
    )
    assert stage.engine.reason_not_to_send(intent) == "HALTED: engine fault"


def test_an_answer_that_cannot_be_taken_leaves_its_order_unknown_and_it_is_found():
    stage = stage_with()
    intent = stage.buy()
    stage.send(intent)

    stage.answer(intent, Accepted(replace(result_of(intent), executed_quantity=NO_ROW)))

    assert stage.last(IntentMoved).to_state is SendState.UNKNOWN
    assert [one.intent_id for one in stage.new(BurnNonce)] == [intent.intent_id]
    stage.after(1).book(report_of(intent, executed=100))
    assert stage.last(Fill).intent_id == intent.intent_id


def test_an_answer_that_cannot_be_taken_is_doubted_even_when_no_send_was_reported():
    stage = stage_with()
    intent = stage.buy()

    stage.answer(intent, Accepted(NO_ROW))

    assert stage.last(IntentMoved).to_state is SendState.UNKNOWN
    stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.FRESH, "burn"))
    for _ in range(9):
        stage.after(60).book()
    assert stage.last(IntentMoved).to_state is SendState.NOT_PLACED


class Wordless(NotSent):
    """Not sent, for a reason that cannot be read."""

    @property
    def reason(self) -> str:
        raise KeyError("reason")


def test_an_order_that_was_not_sent_for_a_reason_that_cannot_be_read_has_ended():
    stage = stage_with()
    intent = stage.buy()

    stage.answer(intent, object.__new__(Wordless))

    assert stage.last(IntentMoved).to_state is SendState.EXPIRED_LOCAL
    assert stage.told[-1][1].reason == "engine fault"


# ------------------------------------------------------------------------------ resume and start


def _act(stage: Stage, action: Action, reason: str = "") -> None:
    stage.handle(OperatorActed(stage.now, action, reason, "me"))


def test_a_fault_is_left_by_a_person_with_a_reason_alone():
    stage = _in_a_request()

    _act(stage, Action.RESUME)
    assert stage.engine.status().state is RunState.HALTED
    _act(stage, Action.RESUME, "looked into it")

    assert stage.engine.status().state is RunState.RUNNING
    assert stage.engine.status().faults == ()


def test_the_same_fault_after_a_resume_halts_and_is_journalled_again():
    stage = _in_a_request()
    _act(stage, Action.RESUME, "looked into it")

    stage.request(lambda s: s.context.requests.append(NO_REQUEST))

    assert stage.engine.status().state is RunState.HALTED
    assert len([one for one in stage.all(Note) if one.kind == "FAULT"]) == 2


def test_a_halt_by_a_person_after_a_fault_cancels_and_is_the_persons_from_then_on():
    stage = _in_a_request()

    _act(stage, Action.HALT, "enough")

    halted = stage.last(StateChanged)
    assert (halted.to_state, halted.reason, halted.by) == (RunState.HALTED, "enough", "me")
    assert [one.order_id for one in stage.engine.status().cancels] == ["ORD1"]


def test_a_fault_after_a_persons_halt_leaves_it_the_persons():
    stage = _in_a_shell()
    _act(stage, Action.RESUME, "looked into it")
    _act(stage, Action.HALT, "enough")

    fault = Fault("OSError of the test", "no room", "its trace", "/bugs/1.txt")
    stage.handle(FaultFound(stage.now, "DropToken", fault))

    status = stage.engine.status()
    assert (status.state, status.reason) == (RunState.HALTED, "enough")
    assert len(status.faults) == 1


@pytest.mark.parametrize(("by", "cancelled"), [("engine", []), ("me", ["ORD1"])])
def test_a_restart_cancels_for_a_persons_halt_and_not_for_a_fault(by, cancelled):
    before = Stage()
    intent = before.working()
    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    halted = {"run_state": RunState.HALTED, "run_state_reason": "engine fault", "run_state_by": by}
    row = before.entries_of_order()

    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=(row,), **halted))

    assert stage.engine.status().state is RunState.HALTED
    assert [one.order_id for one in stage.engine.status().cancels] == cancelled


def test_a_fault_while_one_order_is_taken_over_loses_no_other_and_keeps_the_halt():
    sent = Stage().buy()
    attempt = attempt_of(sent, START, "ORD0")
    broken = StoredIntent(sent, SendState.SENDING, None, replace(attempt, known_ids=NO_ROW))
    sound = StoredIntent(replace(sent, intent_id="L-0002"), SendState.SENDING, None, attempt)

    stage = stage_with(recovery=Recovery(DAY, intents=(broken, sound)))

    assert [one.intent_id for one in stage.all(BurnNonce)] == ["L-0002"]
    assert stage.engine.status().reason == "engine fault"
    assert stage.request(lambda s: s.buy(100, limit=26_000)) == []


def test_an_order_of_an_earlier_day_whose_end_cannot_be_taken_over_halts_its_symbol():
    before = Stage()
    intent = before.working()
    yesterday = DAY - timedelta(days=1)
    row = replace(before.entries_of_order(), trading_date=yesterday)
    told = replace(report_of(intent), trading_date=yesterday, executed_quantity=NO_ROW)

    stage = stage_with(recovery=Recovery(DAY, orders=(row,)))
    stage.handle(EarlierOrdersRead(stage.now, (told,)))

    assert "compare the holding" in stage.engine.status().halted_symbols["HPG"]


def test_without_a_guard_a_fault_is_seen_where_it_is():
    stage = Stage()

    with pytest.raises(KeyError):
        stage.request(lambda s: s.context.requests.append(NO_REQUEST))
