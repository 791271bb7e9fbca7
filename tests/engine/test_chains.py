"""An order that the broker gives a new id with an amendment stays one order, under its first id."""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from bot.domain.entry import (
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    OrderResultSeen,
    OrderUpdated,
    Transition,
)
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    BurnNonce,
    CancelOrder,
    OrderRead,
    ReadOrder,
    ReadOrderToCancel,
    ReadTodaysOrders,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import Action, AmendAsked, CancelAsked, EarlierOrdersRead, OperatorActed
from bot.domain.order import OrderState, SendState, Side, UnreadRow
from bot.domain.outcome import Accepted, Refused, Unknown
from bot.domain.recovery import Recovery, StoredAmend, StoredChanges, StoredIntent
from bot.engine.chain import FORMER_ENDS_WITHIN, Chain
from bot.engine.settings import EngineSettings
from bot.engine.tracked import AmendVerdict
from bot.journal.journal import Journal
from tests.engine.stage import DAY, START, Stage, attempt_of, report_of, result_of
from tests.rows import every_row

ON = EngineSettings(amend_enabled=True)


def _sent_amendment(executed=0):
    """An order whose PUT has gone out."""
    stage = Stage(settings=ON)
    intent = stage.working(500, 27_000)
    row = report_of(intent, executed=executed)
    stage.after(1).book(row)
    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))
    stage.row(row)
    return stage, intent, row


def _renamed(*, executed=0):
    """An order whose PUT was answered under another id: its old row is gone, its new one there."""
    stage, _, row = _sent_amendment(executed)
    outcome = Unknown("the answer is about another order", 200)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", outcome, None))
    new = replace(row, order_id="ORD1-1", root_order_id="ORD1", price=26_900)
    return stage, row, new


def _orders(stage):
    return {one.order_id for one in stage.entries if isinstance(one, OrderUpdated)}


def test_a_row_that_is_gone_has_the_day_book_read():
    stage, _, _ = _renamed()

    stage.row(None)

    assert len(stage.new(ReadTodaysOrders)) == 1


@pytest.mark.parametrize(
    "changes", [{"symbol": "SSI"}, {"account": "120C999999.1"}, {"executed": 600}]
)
def test_a_row_of_the_former_id_about_another_order_adds_nothing(changes):
    stage, _, new = _renamed()
    from_zero = replace(new, quantity=300, remaining_quantity=300)
    stage.after(1).book(from_zero)
    intent = stage.last(IntentRecorded).intent
    ended = {"remaining": 0, "state": OrderState.CANCELLED, "status": "CANCELLED"}
    foreign = report_of(intent, **{"executed": 200, "cancelled": 300, **ended, **changes})

    stage.after(1).book(foreign, from_zero)
    stage.after(30).book(foreign, from_zero)

    assert stage.all(Fill) == []
    assert "HPG" in stage.engine.status().halted_symbols


@pytest.mark.parametrize("changes", [{}, {"symbol": "SSI"}])
def test_a_row_of_an_earlier_day_under_a_former_id_adds_and_halts_nothing(changes):
    stage, _, new = _renamed()
    stage.after(1).book(replace(new, quantity=300, remaining_quantity=300))
    intent = stage.last(IntentRecorded).intent
    ended = {"remaining": 0, "state": OrderState.FILLED, "status": "MATCHED_ALL"}
    yesterdays = {"trading_date": DAY - timedelta(days=1), "executed": 200, **ended, **changes}

    for _ in range(2):
        stage.after(30).book(report_of(intent, **yesterdays))
        stage.after(1).row(report_of(intent, **yesterdays))

    assert stage.all(Fill) == []
    assert stage.engine.status().halted_symbols == {}


def test_the_order_under_its_new_id_is_ours_and_its_amendment_done():
    stage, _, new = _renamed()

    stage.after(1).book(new)
    stage.pass_time(10)
    assert stage.new(ReadOrder) == [ReadOrder("ORD1-1", "after amend")]
    stage.row(new, "ORD1-1")

    amend = stage.engine.status().amends[-1]
    assert (amend.verdict, amend.text) == (AmendVerdict.DONE, "done, and its id is now ORD1-1")
    assert _orders(stage) == {"ORD1"}
    assert stage.entries_of_order().price == 26_900
    assert stage.entries_of_order().state is OrderState.ACCEPTED


@pytest.mark.parametrize(
    ("changes", "is_read"),
    [({}, True), ({"symbol": "SSI"}, False), ({"side": Side.SELL}, False)],
)
def test_without_a_list_the_row_of_the_id_that_the_answer_names_is_asked_for(changes, is_read):
    stage, intent, row = _sent_amendment()
    named = result_of(intent, **{"order_id": "ORD1-1", "limit_price": 26_900, **changes})
    outcome = Unknown("the answer is about another order", 200, named)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", outcome, None))
    asked = ReadOrder("ORD1-1", "the answer to its change names this id")

    stage.pass_time(0.1)
    at_once = asked in stage.all(ReadOrder)
    for seconds in (1, 2, 4, 8):
        stage.pass_time(seconds)

    assert (at_once, asked in stage.all(ReadOrder)) == (False, is_read)
    stage.row(replace(row, order_id="ORD1-1", root_order_id="ORD1", price=26_900), "ORD1-1")
    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", "ORD1-1"]
    assert stage.entries_of_order().price == 26_900


def test_with_a_list_that_shows_no_new_id_none_is_asked_for():
    stage, intent, row = _sent_amendment()
    named = result_of(intent, order_id="ORD1-1", limit_price=26_900)
    outcome = Unknown("the answer is about another order", 200, named)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", outcome, None))

    stage.after(0.1).book(row)
    for seconds in (1, 2, 4, 8):
        stage.pass_time(seconds)

    assert "ORD1-1" not in {each.order_id for each in stage.all(ReadOrder)}


def test_a_new_id_that_a_list_shows_twice_is_one_id():
    stage, row, new = _renamed()

    stage.after(1).book(row, new, new)

    assert stage.engine._state.chains.ids("ORD1") == ("ORD1", "ORD1-1")


def test_of_two_new_ids_the_one_that_works_is_the_newest_if_by_one_share():
    stage, row = _resized()
    works, over = (_later(row, number, quantity=600, executed=599) for number in (1, 2))

    stage.after(1).book(_ended(row), works, _ended(over))

    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", "ORD1-2", "ORD1-1"]


def test_what_goes_out_names_the_new_id():
    stage, _, new = _renamed()
    stage.after(1).book(new)
    stage.pass_time(10)
    stage.row(new, "ORD1-1")
    stage.quote()

    stage.after(1).handle(AmendAsked(stage.now, "ORD1", 26_800, None, "operator", "again"))
    stage.row(new, "ORD1-1")
    [amend] = stage.new(AmendOrder)
    again = replace(new, order_id="ORD1-2", price=26_800)
    stage.handle(AmendAnswered(stage.now, "ORD1-1", Unknown("another order", 200), None))
    stage.after(1).book(again)
    stage.pass_time(10)
    stage.row(again, "ORD1-2")
    stage.after(1).handle(CancelAsked(stage.now, "ORD1", "operator", "by hand"))
    stage.row(again, "ORD1-2")
    [cancel] = stage.new(CancelOrder)

    assert (amend.order_id, cancel.order_id) == ("ORD1-1", "ORD1-2")
    assert _orders(stage) == {"ORD1"}


def test_shares_that_were_matched_before_are_not_counted_again():
    stage, row, new = _renamed(executed=200)

    stage.after(1).book(new)
    stage.after(1).book(replace(new, executed_quantity=300, executed_amount=300 * 27_000))

    assert [fill.quantity for fill in stage.all(Fill)] == [200, 100]
    assert {fill.order_id for fill in stage.all(Fill)} == {row.order_id}


def test_the_cancelled_row_of_a_former_id_says_nothing():
    stage, row, new = _renamed()
    gone = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)

    stage.after(1).book(gone, new)
    stage.after(1).book(new, gone)

    assert stage.entries_of_order().state is OrderState.PENDING_REPLACE
    assert not [one for one in stage.all(Note) if one.kind == "ALERT"]


def test_a_former_id_that_is_cancelled_before_the_new_one_shows_ends_nothing():
    stage, row, new = _renamed()
    gone = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)

    stage.after(1).book(gone)
    still = stage.entries_of_order().state
    stage.after(1).book(gone, new)

    assert still is OrderState.PENDING_REPLACE
    assert stage.entries_of_order().state is OrderState.PENDING_REPLACE
    assert stage.entries_of_order().price == 26_900


def test_a_cancelled_row_is_believed_when_no_new_one_can_come_any_more():
    stage, row, _ = _renamed()
    gone = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)

    stage.after(120).book(gone)

    assert stage.entries_of_order().state is OrderState.CANCELLED


def test_a_cancelled_row_is_believed_at_once_when_the_amendment_was_refused():
    stage, _, row = _sent_amendment()
    refused = Refused("-700106", "no", 200)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", refused, None))
    gone = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)

    stage.after(1).book(gone)

    assert stage.entries_of_order().state is OrderState.CANCELLED


def test_an_answer_that_names_the_old_id_does_not_keep_a_new_one_from_being_looked_for():
    stage, intent, row = _sent_amendment()
    accepted = Accepted(result_of(intent, "ORD1"))
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", accepted, None))
    gone = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)
    new = replace(row, order_id="ORD1-1", root_order_id="ORD1", price=26_900)

    stage.after(1).book(gone)
    still = stage.entries_of_order().state
    stage.after(1).book(gone, new)
    stage.handle(OperatorActed(stage.now, Action.HALT, "stop", "operator"))
    stage.row(new, "ORD1-1")

    assert still is OrderState.PENDING_REPLACE
    assert stage.last(CancelOrder).order_id == "ORD1-1"


# ---------------------------------------------------------------------------- how fills are counted


PRICE = 27_000
MATCHED_BEFORE = ReadOrder("ORD1", "what was matched under a former id")


def _resized(executed=200, total=600):
    """An order of 500, partly matched, whose PUT of a new total was answered under another id."""
    stage = Stage(settings=ON)
    intent = stage.working(500, PRICE)
    row = report_of(intent, executed=executed)
    stage.after(1).book(row)
    stage.handle(AmendAsked(stage.now, "ORD1", None, total, "operator", "by hand"))
    stage.row(row)
    unknown = Unknown("the answer is about another order", 200)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", unknown, None))
    return stage, row


def _ended(row, executed=None):
    """The row of a former id, as it stays: cancelled with its fills, its status SENT."""
    done = row.executed_quantity if executed is None else executed
    left = row.quantity - done
    return replace(
        row,
        executed_quantity=done,
        executed_amount=done * PRICE,
        average_price=PRICE if done else 0,
        remaining_quantity=0,
        cancelled_quantity=left,
    )


def _later(row, number, *, quantity, executed=0, price=None):
    """The row of an id that an amendment led to, as the broker shows it."""
    at = price or PRICE
    return replace(
        row,
        order_id=f"ORD1-{number}",
        root_order_id="ORD1",
        quantity=quantity,
        executed_quantity=executed,
        executed_amount=executed * at,
        average_price=at if executed else 0,
        remaining_quantity=quantity - executed,
        cancelled_quantity=0,
    )


def _counted(stage):
    """Quantity, executed and amount of the order, and what its fills add up to."""
    row = stage.entries_of_order()
    fills = stage.all(Fill)
    sums = sum(one.quantity for one in fills), sum(one.amount for one in fills)
    assert sums == (row.executed_quantity, row.executed_amount)
    return row.quantity, row.executed_quantity, row.executed_amount


def test_a_count_that_begins_at_zero_is_added_to_the_fills_of_the_former_id():
    stage, row = _resized()

    stage.after(1).book(_ended(row), _later(row, 1, quantity=400))
    before = _counted(stage)
    full = replace(_later(row, 1, quantity=400, executed=400, price=26_950), status="MATCHED_ALL")
    stage.after(1).book(_ended(row), replace(full, state=OrderState.FILLED))

    assert before == (600, 200, 200 * PRICE)
    assert _counted(stage) == (600, 600, 200 * PRICE + 400 * 26_950)
    assert stage.entries_of_order().state is OrderState.FILLED
    assert not [one for one in stage.all(Note) if one.kind == "ALERT"]


@pytest.mark.parametrize("rows", [(0, 250), (0, 50, 250)])
def test_a_count_that_began_at_zero_stays_so_when_it_has_caught_up(rows):
    """The new quantity counts as that of the open part: 400 more than the 200 that were matched."""
    stage, row = _resized(total=400)

    for executed in rows:
        stage.after(1).book(_ended(row), _later(row, 1, quantity=400, executed=executed))
    partly = _counted(stage)
    stage.after(1).book(_ended(row), _later(row, 1, quantity=400, executed=400))

    assert partly == (600, 450, 450 * PRICE)
    assert _counted(stage) == (600, 600, 600 * PRICE)


def test_one_row_that_shows_less_under_a_new_id_makes_no_count_begin_at_zero():
    stage, row = _resized()

    for executed in (200, 0, 200, 350):
        stage.after(1).book(_ended(row), _later(row, 1, quantity=600, executed=executed))

    assert stage.entries_of_order().executed_quantity == 350


def test_a_count_that_goes_on_is_the_orders():
    stage, row = _resized()

    stage.after(1).book(_ended(row), _later(row, 1, quantity=600, executed=200))
    stage.after(1).book(_ended(row), _later(row, 1, quantity=600, executed=350))

    assert _counted(stage) == (600, 350, 350 * PRICE)


@pytest.mark.parametrize(("quantity", "executed"), [(350, 0), (600, 250)])
def test_what_was_matched_during_the_modify_is_in_the_former_ids_row(quantity, executed):
    stage, row = _resized()

    stage.after(1).book(_ended(row, 250), _later(row, 1, quantity=quantity, executed=executed))

    assert _counted(stage) == (600, 250, 250 * PRICE)


def test_a_count_that_goes_on_needs_no_row_of_the_former_id():
    stage, row = _resized()

    stage.after(1).book(_later(row, 1, quantity=600, executed=250))

    assert _counted(stage) == (600, 250, 250 * PRICE)
    assert MATCHED_BEFORE not in stage.new(ReadOrder)


def test_the_last_row_of_the_former_id_is_read_before_fills_are_added():
    stage, row = _resized()
    new = _later(row, 1, quantity=350, executed=100)

    stage.after(1).book(new)
    assert MATCHED_BEFORE in stage.new(ReadOrder)
    held = _counted(stage)
    stage.row(_ended(row, 250), "ORD1")

    assert held == (500, 200, 200 * PRICE)
    assert _counted(stage) == (600, 350, 350 * PRICE)


def test_fills_of_a_former_id_count_before_the_new_one_shows():
    stage, row = _resized()

    stage.after(1).book(_ended(row, 300))

    assert stage.entries_of_order().state is OrderState.PENDING_REPLACE
    assert _counted(stage) == (500, 300, 300 * PRICE)


def test_a_former_id_that_the_broker_has_forgotten_counts_with_what_was_known():
    stage, row = _resized()
    stage.after(1).book(_later(row, 1, quantity=400, executed=100))

    stage.row(None, "ORD1")

    assert _counted(stage) == (600, 300, 300 * PRICE)


def test_a_former_id_that_cannot_be_read_is_not_forgotten():
    stage, row = _resized()
    stage.after(1).book(_later(row, 1, quantity=400))

    stage.handle(OrderRead(stage.now, "ORD1", None, is_unreadable=True))
    stage.after(1).book(_later(row, 1, quantity=400, executed=100))
    held = _counted(stage)
    stage.row(_ended(row), "ORD1")

    assert held == (500, 200, 200 * PRICE)
    assert _counted(stage) == (600, 300, 300 * PRICE)


def test_a_late_answer_to_the_former_id_does_not_say_that_it_is_forgotten():
    stage, _, row = _sent_amendment(executed=200)
    stage.after(1).book(_later(row, 1, quantity=300))

    stage.handle(AmendAnswered(stage.now, "ORD1", Unknown("another order", 200), None))
    stage.after(1).book(_later(row, 1, quantity=300, executed=100))

    assert _counted(stage) == (500, 200, 200 * PRICE)


def test_a_new_id_that_is_cancelled_before_the_amendment_is_settled_has_ended():
    stage, row, new = _renamed()
    new = replace(new, price=27_000)
    stage.after(1).book(_ended(row), new)
    assert stage.entries_of_order().state is OrderState.PENDING_REPLACE

    stage.after(1).book(_ended(row), replace(_ended(new), state=OrderState.CANCELLED))

    assert stage.entries_of_order().state is OrderState.CANCELLED


@pytest.mark.parametrize("root", ["ELSEWHERE", ""])
def test_an_order_whose_root_nobody_here_knows_is_somebody_elses(root):
    stage, _, row = _sent_amendment()

    stage.after(1).book(row, replace(row, order_id="ELSEWHERE-1", root_order_id=root, quantity=900))

    assert stage.engine._state.orders["ELSEWHERE-1"].row.intent_id is None
    assert not [text for text in _alerts(stage) if "fault" in text]


def test_a_former_id_that_was_gone_for_a_moment_and_works_is_waited_for_again():
    stage, row = _resized()
    stage.after(1).book(_later(row, 1, quantity=400))
    stage.row(None, "ORD1")

    stage.after(1).book(row, _later(row, 1, quantity=400, executed=100))
    held = _counted(stage)
    stage.after(1).book(_ended(row), _later(row, 1, quantity=400, executed=100))

    assert held == (600, 200, 200 * PRICE)
    assert _counted(stage) == (600, 300, 300 * PRICE)


def _alerts(stage):
    return [one.text for one in stage.all(Note) if one.kind == "ALERT"]


@pytest.mark.parametrize("quantity", [300, 500])
def test_a_new_id_that_is_filled_at_once_shows_what_was_asked_for(quantity):
    stage, row, new = _renamed(executed=200)
    stage.row(replace(_ended(row), status="CANCELLED", state=OrderState.CANCELLED))
    shown = replace(new, quantity=quantity, executed_quantity=quantity, remaining_quantity=0)
    amount = quantity * 26_900 if quantity == 300 else 200 * PRICE + 300 * 26_900
    full = replace(shown, executed_amount=amount, average_price=amount // quantity)

    stage.after(1).book(_ended(row), replace(full, status="MATCHED_ALL", state=OrderState.FILLED))

    order = stage.entries_of_order()
    assert (order.state, order.quantity, order.price) == (OrderState.FILLED, 500, 26_900)
    assert _counted(stage) == (500, 500, 200 * PRICE + 300 * 26_900)
    assert _alerts(stage) == []


def test_a_new_id_that_waits_for_a_phase_is_no_old_row():
    stage, row, new = _renamed()
    waits = replace(new, status="WAITING_TO_SEND")

    stage.after(1).book(_ended(row), waits)

    order = stage.entries_of_order()
    assert (order.broker_status, order.price) == ("WAITING_TO_SEND", 26_900)
    assert _alerts(stage) == []


def _look(stage, row, seconds):
    """Let time pass while every look at the old id shows this row."""
    for _ in range(seconds):
        stage.pass_time(1)
        for asked in stage.new(ReadOrder):
            stage.row(row, asked.order_id)


def test_a_new_id_may_show_as_late_as_a_row_may_though_the_put_is_past():
    stage, row = _resized(executed=0)

    _look(stage, _ended(row), 100)
    still = stage.entries_of_order().state
    stage.book(_ended(row), _later(row, 1, quantity=600, executed=600))

    assert still is OrderState.PENDING_REPLACE
    shown = [one for one in stage.all(OrderUpdated) if one.state is still]
    assert {one.cancelled_quantity for one in shown} == {0}
    assert _counted(stage) == (600, 600, 600 * PRICE)
    assert stage.entries_of_order().state is OrderState.FILLED
    assert _alerts(stage) == []


def test_without_a_day_order_book_a_changed_order_stays_open_and_a_halt_cancels_its_new_id():
    stage, row = _resized(executed=200)
    stage.row(_ended(row))
    stage.handle(OperatorActed(stage.now, Action.HALT, "by hand", "operator"))
    _look(stage, _ended(row), 300)
    before = stage.entries_of_order().state
    cancelled = {one.order_id for one in stage.all(CancelOrder)}

    stage.book(_ended(row), _later(row, 1, quantity=600, executed=200))
    stage.pass_time(30)
    stage.pass_time(2)

    assert before is OrderState.PENDING_REPLACE
    assert cancelled == {"ORD1"}
    assert stage.all(CancelOrder)[-1].order_id == "ORD1-1"
    assert "ORDER_LIVES" not in _codes(stage)


@pytest.mark.parametrize(("order_id", "symbol"), [("ORD7", None), (None, "HPG"), ("ORD7", "HPG")])
def test_a_row_that_cannot_be_read_may_be_the_new_id_of_a_changed_order(order_id, symbol):
    stage, row = _resized(executed=200)
    hidden = UnreadRow(order_id, symbol, "no quantity", "{}")

    stage.after(120).book(_ended(row), set_aside=(hidden,))
    before = stage.entries_of_order().state
    stage.after(5).book(_ended(row), set_aside=(replace(hidden, symbol="SSI"),))

    assert before is OrderState.PENDING_REPLACE
    assert stage.entries_of_order().state is OrderState.CANCELLED


def test_a_day_order_book_without_a_changed_order_or_of_an_earlier_day_does_not_show_its_ids():
    stage, row = _resized(executed=200)
    other = replace(row, order_id="ORD7", root_order_id="ORD7", symbol="SSI")
    yesterday = DAY - timedelta(days=1)

    stage.after(120).book(other)
    stage.book(replace(other, trading_date=yesterday), replace(row, trading_date=yesterday))
    stage.row(_ended(row))

    assert stage.entries_of_order().state is OrderState.PENDING_REPLACE


def test_an_order_that_had_ended_and_works_under_a_new_id_is_told_of_and_halts_its_symbol():
    stage, row = _resized(executed=200)
    stage.after(115).book(_ended(row))
    _look(stage, _ended(row), 5)
    had = stage.entries_of_order().state

    later = _later(row, 1, quantity=600, executed=500)
    stage.after(1).book(_ended(row), replace(later, remaining_quantity=100))
    stage.after(60).book(_ended(row), _later(row, 1, quantity=600, executed=600))

    assert had is OrderState.CANCELLED
    assert _codes(stage) == ["ORDER_LIVES", "SYMBOL_HALTED"]
    assert "HPG" in stage.engine.status().halted_symbols
    order = stage.entries_of_order()
    assert (order.executed_quantity, order.cancelled_quantity) == (600, 0)
    assert sum(fill.quantity for fill in stage.all(Fill)) == 600
    assert stage.engine.status().faults == ()


def test_an_order_made_elsewhere_that_had_ended_and_works_on_under_a_new_id_is_another_one():
    stage = Stage()
    intent = stage.working(100, PRICE)
    elsewhere = report_of(intent, "ORD50", quantity=300)
    ended = report_of(
        intent, "ORD50", quantity=300, cancelled=300, status="CANCELLED", state=OrderState.CANCELLED
    )
    anew = replace(report_of(intent, "ORD51", quantity=200), root_order_id="ORD50")

    mine = report_of(intent)

    for rows in ([elsewhere], [ended], [ended, anew], [ended, anew]):
        stage.after(5).book(mine, *rows)

    assert _codes(stage) == []
    open_now = {row.order_id: row.quantity for row in stage.engine.status().open_orders}
    assert open_now == {"ORD1": 100, "ORD51": 200}


@pytest.mark.parametrize("restarts", [True, False])
def test_an_amended_order_is_amended_again(restarts):
    stage, row = _resized()
    second = _later(row, 1, quantity=400 if restarts else 600, executed=0 if restarts else 200)
    stage.after(1).book(_ended(row), second)
    stage.row(second, "ORD1-1")
    stage.quote()
    stage.after(1).handle(AmendAsked(stage.now, "ORD1", None, 700, "operator", "again"))
    stage.row(second, "ORD1-1")
    stage.handle(AmendAnswered(stage.now, "ORD1-1", Unknown("another order", 200), None))

    ended = _ended(second, 200 if restarts else 400)
    counted = {"quantity": 300, "executed": 100} if restarts else {"quantity": 700, "executed": 500}
    third = _later(row, 2, **counted)
    stage.after(1).book(_ended(row), ended, third)

    assert _counted(stage) == (700, 500, 500 * PRICE)


def test_two_ids_that_both_work_count_with_their_sum():
    stage, row = _resized()

    stage.after(1).book(row, _later(row, 1, quantity=600, executed=200))

    order = stage.engine._state.orders["ORD1"]
    assert order.open_quantity == 400 + 300
    assert MATCHED_BEFORE in stage.new(ReadOrder)
    [alert] = stage.engine.status().alerts
    assert "is open under two of its ids (ORD1, ORD1-1): both count, with 700 open" in alert


def test_an_order_whose_newest_id_has_ended_works_on_under_an_older_one():
    stage, row = _resized()
    new = _later(row, 1, quantity=600, executed=200)
    stage.after(1).book(row, new)
    gone = replace(new, remaining_quantity=0, cancelled_quantity=400, state=OrderState.CANCELLED)

    stage.after(1).book(row, gone)
    stage.after(1).handle(CancelAsked(stage.now, "ORD1", "operator", "by hand"))

    assert stage.new(ReadOrderToCancel)[0].order_id == "ORD1"
    assert stage.engine._state.orders["ORD1"].is_open


def test_an_older_id_that_works_again_as_the_newest_was_refused_is_seen_by_a_halt():
    stage, row = _resized()
    new = _later(row, 1, quantity=600, executed=200)
    stage.after(1).book(_ended(row), new)
    undone = replace(new, remaining_quantity=0, status="REJECTED", state=OrderState.REJECTED)

    stage.after(5).book(row, undone)
    stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "me"))

    assert stage.engine._state.orders["ORD1"].is_open
    assert [each.order_id for each in stage.new(ReadOrderToCancel)] == ["ORD1"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_listed", [False, True])
async def test_what_shows_only_the_newest_refused_does_not_end_an_order_that_may_work_again(
    is_listed, is_restarted, sqlite_url
):
    row = report_of(BY_HAND, executed=40, average=PRICE)
    new = replace(_later(row, 1, quantity=100, executed=40), raw="new")
    refused = [_refused(row, 1, quantity=100)]
    stage = _with_lists([row], [_ended(row), new])

    stage.after(3)
    if is_listed:
        stage.book(*refused)
    else:
        stage.row(*refused, "ORD1-1")
    assert stage.entries_of_order().state is OrderState.PARTIALLY_FILLED
    if is_restarted:
        stage = await _started_again(stage, sqlite_url)
    stage.after(1).book(row, *refused)
    stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "me"))

    assert [each.order_id for each in stage.new(ReadOrderToCancel)] == ["ORD1"]
    assert (_codes(stage), stage.engine.status().halted_symbols) == ([], {})


def test_an_older_id_that_no_list_shows_is_asked_for_once_the_newest_was_refused():
    row = report_of(BY_HAND, executed=40, average=PRICE)
    new = replace(_later(row, 1, quantity=100, executed=40), raw="new")
    refused = _refused(row, 1, quantity=100)
    stage = _with_lists([row], [_ended(row), new])
    stage.after(3).row(refused, "ORD1-1")

    for _ in range(4):
        stage.after(15).book(refused)

    assert "ORD1" in {each.order_id for each in stage.all(ReadOrder)}
    stage.row(_ended(row), "ORD1")
    assert stage.entries_of_order().state is OrderState.CANCELLED


@pytest.mark.parametrize("executed", [300, 500])
def test_what_an_older_id_has_traded_counts_as_soon_as_a_row_shows_the_newest_refused(executed):
    stage, row = _resized(executed=0)
    shown = report_of(stage.last(IntentRecorded).intent, executed=executed)
    stage.after(1).book(shown, _later(row, 1, quantity=600))

    stage.after(3).row(_refused(row, 1, quantity=600), "ORD1-1")

    assert _counted(stage) == (500, executed, executed * PRICE)
    assert stage.engine._state.orders["ORD1"].is_open is (executed < 500)


@pytest.mark.parametrize("is_late", [False, True])
def test_an_order_whose_newest_id_was_refused_ends_as_the_one_before_it_is_shown_since(is_late):
    stage, row = _resized()
    stage.after(1).book(_ended(row), _later(row, 1, quantity=600, executed=200))
    refused = _refused(row, 1, quantity=600)

    if is_late:
        stage.after(3).row(refused, "ORD1-1")
        assert stage.engine._state.orders["ORD1"].is_open
    stage.after(25).book(_ended(row), refused)

    assert stage.entries_of_order().state is OrderState.CANCELLED
    assert _codes(stage) == []


@pytest.mark.parametrize("is_of_before", [False, True])
def test_an_older_id_that_fills_as_the_newest_was_refused_is_the_whole_order(is_of_before):
    stage, row = _resized()
    refused = _later(row, 1, quantity=600, executed=0)
    refused = replace(refused, status="REJECTED", state=OrderState.REJECTED, remaining_quantity=0)
    amount = 500 * PRICE
    full = {"executed_quantity": 500, "executed_amount": amount, "remaining_quantity": 0}
    filled = replace(row, **full, status="FULLY_FILLED", state=OrderState.FILLED)

    stage.after(5).book(row, refused)
    if is_of_before:
        order = _next_day(stage, filled, refused)
    else:
        stage.after(5).book(filled, refused)
        order = stage.entries_of_order()

    assert (order.state, order.executed_quantity) == (OrderState.FILLED, 500)
    assert order.executed_amount == sum(fill.amount for fill in stage.all(Fill)) == amount
    assert not stage.engine.status().halted_symbols


def _refused(row, number, *, quantity):
    """The row of a new id under which the change was refused."""
    new = _later(row, number, quantity=quantity)
    return replace(new, status="REJECTED", state=OrderState.REJECTED, remaining_quantity=0)


@every_row(
    ("shown", "end", "executed"),
    [
        ({"executed": 500}, {"status": "MATCHED_ALL", "state": OrderState.FILLED}, 500),
        (
            {"executed": 200, "cancelled": 300},
            {"status": "CANCELLED", "state": OrderState.CANCELLED},
            200,
        ),
    ],
)
@pytest.mark.parametrize("total", [600, 700])
@pytest.mark.parametrize("times", [1, 2])
def test_a_refused_change_counts_for_nothing_when_the_order_goes_on(
    shown, end, executed, total, times
):
    stage, row = _resized(executed=100, total=total)
    refused = [_refused(row, number, quantity=total) for number in range(1, times + 1)]
    ended = replace(report_of(stage.last(IntentRecorded).intent, **shown), **end)

    for rows in ([row], [row], [ended], [ended]):
        stage.after(25).book(*rows, *refused)

    assert stage.entries_of_order().state is end["state"]
    assert _counted(stage) == (500, executed, executed * PRICE)
    assert (_codes(stage), stage.engine.status().halted_symbols) == ([], {})


@pytest.mark.parametrize("is_of_second_start", [False, True])
@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_count_from_zero_goes_on_after_a_change_that_was_refused_also_at_a_restart(
    is_of_second_start, is_gone, sqlite_url
):
    row = report_of(BY_HAND, executed=40, average=PRICE)
    former = () if is_gone else (replace(_ended(row), state=OrderState.CANCELLED),)
    ids = [replace(_later(row, 1, quantity=60, executed=done), raw=f"{done}") for done in (20, 40)]
    last = replace(_later(row, 1, quantity=60, executed=60), status="MATCHED_ALL", raw="60")
    last = replace(last, state=OrderState.FILLED)
    refused = [_refused(row, number, quantity=40) for number in (2, 3)]
    before = _with_lists([row], [*former, ids[0]], [*former, ids[0]], [*former, ids[0], *refused])

    stages = [before]
    if is_of_second_start:
        stages.append(await _started_again(before, sqlite_url))
    for rows in ([ids[0]], [ids[1]], [last], [last]):
        stages[-1].after(25).book(*former, *rows, *refused)

    assert _ids_and_fills(*stages) == (["ORD1", "ORD1-1", "ORD1-2", "ORD1-3"], 100)
    assert stages[-1].entries_of_order().state is OrderState.FILLED
    assert (_codes(stages[-1]), stages[-1].engine.status().halted_symbols) == ([], {})


@pytest.mark.parametrize("executed", [600, 300])
def test_an_old_row_of_a_former_id_that_had_ended_changes_nothing(executed):
    stage, row = _resized()
    new = _later(row, 1, quantity=600, executed=executed)
    stage.after(1).book(_ended(row), new)
    before = stage.entries_of_order()

    for _ in range(3):
        stage.after(10).book(row, new)
        stage.after(10).book(_ended(row), new)

    assert stage.entries_of_order() == before
    assert before.executed_quantity == executed
    assert stage.engine.status().halted_symbols == {}
    assert stage.engine._state.orders["ORD1"].also_open == 0


def test_a_former_id_that_every_read_shows_at_work_again_is_believed_at_last():
    stage, row = _resized()
    new = _later(row, 1, quantity=600, executed=300)
    stage.after(1).book(_ended(row), new)

    for _ in range(5):
        stage.after(10).book(row, new)

    assert stage.engine._state.orders["ORD1"].also_open == 300


# --------------------------------------------------------------------------- a row without a root


def _rootless(new, **changes):
    return replace(new, order_id="ORD9", root_order_id="ORD9", **changes)


def _codes(stage):
    notes = [one for one in stage.all(Note) if one.kind == "ALERT"]
    return [note.numbers.get("alert") for note in notes]


@pytest.mark.parametrize("root", ["", "ORD9"])
def test_a_row_without_a_root_that_fits_an_amendment_may_be_the_order(root):
    stage, row, new = _renamed(executed=200)

    stage.after(1).book(_ended(row), replace(_rootless(new), root_order_id=root))

    assert _codes(stage) == ["AMEND_AMBIGUOUS"]
    [said] = _alerts(stage)
    assert "ORD9, BUY 500 HPG at 26,900" in said
    assert "may be that order under a new id" in said
    assert "L-0001 (ORD1)" in said
    assert stage.engine.status().alerts == (said,)
    theirs = stage.entries_of_order("ORD9")
    assert (theirs.intent_id, theirs.note) == (None, "may be amended ORD1")
    assert stage.entries_of_order("ORD1").state is OrderState.PENDING_REPLACE


FITS = [
    ({"total": 600}, {"quantity": 600, "executed": 200}, True),
    ({"total": 600}, {"quantity": 400}, True),
    ({"total": 600}, {"quantity": 100}, True),  # 300 more were matched during the modify
    ({"total": 600}, {"quantity": 99}, False),
    ({"total": 600}, {"quantity": 401}, False),
    ({"total": 600}, {"quantity": 400, "price": 26_900}, False),
    ({"total": 400}, {"quantity": 200}, True),
    ({"total": 400}, {"quantity": 300}, False),
    ({"total": 400}, {"quantity": 1}, True),
]


@pytest.mark.parametrize(("asked", "shown", "is_like"), FITS)
def test_what_fits_is_the_new_total_or_what_was_open_of_it(asked, shown, is_like):
    stage, row = _resized(**asked)
    like = _rootless(_later(row, 9, **shown))

    stage.after(1).book(_ended(row), replace(like, price=shown.get("price", PRICE)))

    assert _codes(stage) == ["AMEND_AMBIGUOUS"] * is_like


@pytest.mark.parametrize(("left", "lives"), [(0, False), (1, True)])
def test_only_a_new_id_with_shares_open_lives_on(left, lives):
    stage, row = _resized(executed=200)
    stage.after(120).book(_ended(row))

    later = _later(row, 1, quantity=600, executed=600 - left)
    stage.after(1).book(_ended(row), replace(later, remaining_quantity=left))

    assert ("ORDER_LIVES" in _codes(stage)) is lives


NOBODYS = [{"price": 26_950}, {"account": "120C999999.1"}, {"quantity": 0, "remaining_quantity": 0}]


@pytest.mark.parametrize("changes", NOBODYS)
def test_a_row_that_shows_something_else_is_somebody_elses(changes):
    stage, row, new = _renamed()

    stage.after(1).book(row, _rootless(new, **changes))

    assert _codes(stage) == []
    assert stage.entries_of_order("ORD9").note == "not placed here"


@pytest.mark.parametrize("lie", [{"price": 26_950}, {"quantity": 900}])
def test_a_row_without_a_root_that_lied_at_first_may_be_the_order(lie):
    stage, row, new = _renamed(executed=200)
    stage.after(1).book(_ended(row), _rootless(new, **lie))

    for _ in range(2):
        stage.after(1).book(_ended(row), _rootless(new))

    assert _codes(stage) == ["AMEND_AMBIGUOUS"]
    assert stage.entries_of_order("ORD9").note == "may be amended ORD1"


def test_an_order_that_was_there_before_the_amendment_was_asked_for_is_not_it():
    theirs = report_of(Stage().buy(500, 26_950), "ORD9")
    stage = Stage(settings=EngineSettings(amend_enabled=True))
    stage.book(theirs)
    row = report_of(stage.working(500), may_amend=True)
    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))
    stage.row(row)
    stage.handle(AmendAnswered(stage.now, "ORD1", Unknown("deadline"), None))

    stage.after(1).book(row, replace(theirs, price=26_900))

    assert stage.entries_of_order("ORD9").price == 26_900
    assert _codes(stage) == []


def test_after_the_verdict_a_row_that_fits_is_somebody_elses():
    stage, row, new = _renamed()
    stage.row(replace(row, price=26_900))

    stage.after(1).book(replace(row, price=26_900), _rootless(new))

    assert _codes(stage) == []


@pytest.mark.parametrize(("seconds", "code"), [(100, ["AMEND_AMBIGUOUS"]), (115, [])])
def test_a_row_that_comes_after_a_new_id_could_have_is_somebody_elses(seconds, code):
    stage, row, new = _renamed()
    stage.after(seconds).book(row)

    stage.after(1).book(row, _rootless(new))

    assert _codes(stage) == code


def test_a_row_of_the_first_day_order_book_after_a_change_may_be_the_order_however_late_it_is():
    stage, row, new = _renamed()

    stage.after(300).book(_ended(row), _rootless(new))
    told = _codes(stage)
    stage.after(1).book(_ended(row), _rootless(new))

    assert told == _codes(stage) == ["AMEND_AMBIGUOUS"]
    assert stage.entries_of_order().state is OrderState.CANCELLED


def test_a_verdict_under_the_own_id_says_that_the_other_row_is_not_ours():
    stage, row, new = _renamed()
    stage.after(1).book(row, _rootless(new))
    shown = stage.engine.status().alerts

    stage.row(replace(row, price=26_900))

    assert shown
    assert stage.engine.status().alerts == ()
    assert stage.entries_of_order("ORD9").note == "not placed here"
    told = "ORD9, BUY 500 HPG at 26,900 is not L-0001: that works under its own id"
    assert [note.text for note in stage.new(Note) if "is not" in note.text] == [told]


def test_when_the_old_id_has_ended_the_row_that_fits_is_named_for_good():
    stage, row, new = _renamed()
    stage.after(1).book(_ended(row), _rootless(new))

    stage.after(120).book(_ended(row), _rootless(new))

    assert stage.entries_of_order("ORD1").state is OrderState.CANCELLED
    [said] = stage.engine.status().alerts
    assert "ORD9" in said
    restarted = Stage(
        settings=ON, recovery=Recovery(DAY, 2, orders=(stage.entries_of_order("ORD9"),))
    )
    [again] = restarted.engine.status().alerts
    assert "ORD9" in again


def test_a_halt_names_what_it_does_not_cancel():
    stage, row, new = _renamed()
    stage.after(1).book(_ended(row), _rootless(new))

    stage.handle(OperatorActed(stage.now, Action.HALT, "by hand", "operator"))

    assert _codes(stage).count("CANCEL_LEAVES") == 1
    assert "ORD9" in _alerts(stage)[-1]
    assert "ORD9" not in {one.order_id for one in stage.all(CancelOrder)}


def test_a_cancel_names_what_it_does_not_reach():
    stage, row, new = _renamed()
    stage.after(1).book(row, _rootless(new))

    stage.handle(CancelAsked(stage.now, "ORD1", "operator", "by hand"))

    assert _codes(stage) == ["AMEND_AMBIGUOUS", "CANCEL_LEAVES"]


def test_a_cancel_of_all_names_what_it_does_not_reach():
    stage, row, new = _renamed()
    stage.after(1).book(_ended(row), _rootless(new))
    stage.after(120).book(_ended(row), _rootless(new))

    stage.handle(CancelAsked(stage.now, None, "operator", "by hand"))

    assert stage.entries_of_order("ORD1").state is OrderState.CANCELLED
    assert _codes(stage).count("CANCEL_LEAVES") == 1


# ------------------------------------------------------------------------------------- the others


def test_an_order_of_somebody_else_is_counted_once_too():
    stage = Stage(settings=ON)
    theirs = replace(report_of(stage.buy(), "APP1"), price=25_000)

    stage.after(1).book(theirs)
    stage.after(1).book(replace(theirs, order_id="APP1-1", root_order_id="APP1", price=25_100))

    assert _orders(stage) == {"APP1"}
    assert stage.entries_of_order("APP1").price == 25_100


def test_after_a_restart_the_day_book_tells_the_new_id():
    before, _, new = _renamed()
    known = before.entries_of_order()
    stage = Stage(settings=ON, recovery=Recovery(DAY, 2, orders=(known,)))

    stage.after(1).book(new)

    assert _orders(stage) == {"ORD1"}
    assert stage.entries_of_order().state is OrderState.ACCEPTED
    assert all(one.order_id == "ORD1" for one in stage.all(Transition))


ANOTHER = [
    {"symbol": "SHS"},
    {"account": "120C999999.1"},
    {"side": Side.SELL},
    {"trading_date": DAY + timedelta(days=1)},
]


@pytest.mark.parametrize("changes", ANOTHER)
def test_a_row_about_another_order_belongs_to_no_chain(changes):
    stage, _, new = _renamed()

    stage.after(1).book(replace(new, **changes))

    assert _orders(stage) == {"ORD1", "ORD1-1"}


def test_an_older_row_of_an_id_does_not_take_the_place_of_a_newer_one():
    stage, row = _resized()
    new = _later(row, 1, quantity=400)
    stage.after(1).book(_ended(row), new)
    asked_at = stage.now
    stage.after(1).book(_ended(row, 250), replace(new, quantity=350, remaining_quantity=350))

    stage.handle(OrderRead(stage.now, "ORD1", replace(_ended(row, 200), requested_at=asked_at)))
    full = _later(row, 1, quantity=350, executed=350)
    stage.after(1).row(replace(full, state=OrderState.FILLED, status="MATCHED_ALL"), "ORD1-1")

    assert _counted(stage) == (600, 600, 600 * PRICE)


def test_an_id_that_is_given_out_again_on_another_day_is_another_order():
    stage, row = _resized()
    stage.after(1).book(_ended(row), _later(row, 1, quantity=400, executed=400))
    tomorrow = DAY + timedelta(days=1)

    stage.after(86_400).handle(TradingDayStarted(stage.now, tomorrow))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.handle(Reconciled(stage.now))
    chains = stage.engine._state.chains

    assert (chains.first("ORD1-1"), chains.is_former("ORD1")) == ("ORD1-1", False)
    assert stage.engine.status().amends == ()


def _next_day(stage, *past):
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    ends = tuple(replace(one, requested_at=stage.now) for one in past)
    stage.handle(EarlierOrdersRead(stage.now, ends))
    return stage.entries_of_order()


def _reborn(stage):
    """The engine of a new start, whose journal knows the order and its second id."""
    later = {"ORD1": ("ORD1-1",)}
    orders = (stage.entries_of_order(),)
    return Stage(settings=ON, recovery=Recovery(DAY, 2, orders=orders, later_ids=later))


def _lapsed(row, executed):
    return replace(_ended(row, executed), state=OrderState.EXPIRED, status="EXPIRED")


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("is_restarted", [True, False])
def test_the_history_of_every_id_ends_an_amended_order(restarts, is_restarted):
    stage, row = _resized()
    new = _later(row, 1, quantity=400 if restarts else 600, executed=0 if restarts else 200)
    stage.after(1).book(_ended(row), new)
    stage.row(new, "ORD1-1")
    if is_restarted:
        stage = _reborn(stage)

    order = _next_day(stage, _ended(row), _lapsed(new, 150 if restarts else 350))

    assert (order.state, order.quantity) == (OrderState.EXPIRED, 600)
    assert (order.executed_quantity, order.executed_amount) == (350, 350 * PRICE)
    assert not stage.engine.status().halted_symbols


def test_the_end_of_its_day_ends_a_changed_order_whose_ids_no_day_order_book_has_shown():
    stage, row = _resized()
    stage.after(200).row(_ended(row))

    order = _next_day(stage, replace(_ended(row), state=OrderState.CANCELLED))

    assert (order.state, order.executed_quantity) == (OrderState.CANCELLED, 200)
    assert "it may have gone on under another id" in stage.engine.status().halted_symbols["HPG"]


@pytest.mark.parametrize("is_changing", [True, False])
def test_an_order_cancelled_while_it_was_being_changed_may_have_gone_on_under_another_id(
    is_changing,
):
    stage, _, row = _sent_amendment()
    order = stage.entries_of_order()
    assert order.state is OrderState.PENDING_REPLACE
    order = order if is_changing else replace(order, state=OrderState.ACCEPTED)
    stage = Stage(settings=ON, recovery=Recovery(DAY, 2, orders=(order,)))

    ended = {"status": "CANCELLED", "state": OrderState.CANCELLED}
    order = _next_day(stage, replace(_ended(row), **ended))

    assert order.state is OrderState.CANCELLED
    halted = stage.engine.status().halted_symbols.get("HPG", "")
    assert ("it may have gone on under another id" in halted) is is_changing


def test_a_count_that_went_on_needs_no_other_id_in_the_history():
    stage, row = _resized()
    new = _later(row, 1, quantity=600, executed=200)
    stage.after(1).book(new)
    stage = _reborn(stage)

    order = _next_day(stage, _lapsed(new, 350))

    assert (order.state, order.executed_quantity) == (OrderState.EXPIRED, 350)
    assert not stage.engine.status().halted_symbols


@pytest.mark.parametrize("told", [0, 1])
def test_one_id_alone_in_the_history_does_not_end_an_amended_order(told):
    stage, row = _resized()
    new = _later(row, 1, quantity=400)
    stage.after(1).book(_ended(row), new)
    stage = _reborn(stage)

    order = _next_day(stage, (_ended(row), _lapsed(new, 150))[told])

    assert (order.state, order.executed_quantity) == (OrderState.EXPIRED, 200)
    assert "HPG" in stage.engine.status().halted_symbols


# ------------------------------------------------------------------------------------- a restart


def _amend_of(intent, *, outcome=None, price=None, quantity=None, old=None):
    attempt = replace(attempt_of(intent, START), verb="PUT", order_id="ORD1")
    return StoredAmend("ORD1", attempt, outcome, price, quantity, old, "operator", "by hand")


def _restarted(before, intent, *amends, later=(), changes=None):
    """The engine of a new start, whose journal was cut off during an amendment."""
    recovery = Recovery(
        DAY,
        2,
        orders=(before.entries_of_order(),),
        intents=(StoredIntent(intent, SendState.ACKED, "ORD1", None),),
        amends=amends,
        later_ids={"ORD1": later} if later else {},
        changes={"ORD1": changes} if changes else {},
    )
    return Stage(settings=ON, recovery=recovery)


def _order(stage):
    return stage.engine._state.orders["ORD1"]


def test_an_amendment_that_may_have_left_before_a_restart_is_followed():
    before, row = _resized()
    stage = _restarted(before, before.last(IntentRecorded).intent, _amend_of_500(before))

    held = _order(stage).open_quantity
    asked = stage.all(ReadOrder)
    stage.after(1).book(_ended(row, 250), _later(row, 1, quantity=350))
    stage.row(_later(row, 1, quantity=350), "ORD1-1")

    assert ReadOrder("ORD1", "after amend") in asked
    assert BurnNonce("a-1") in stage.commands
    assert held == 600 - 200
    assert stage.engine.status().amends[-1].verdict == AmendVerdict.DONE
    order = stage.entries_of_order()
    assert (order.state, order.quantity) == (OrderState.PARTIALLY_FILLED, 600)
    assert (order.executed_quantity, order.executed_amount) == (250, 250 * PRICE)
    assert not stage.engine.status().halted_symbols


def _amend_of_500(before):
    return _amend_of(before.last(IntentRecorded).intent, quantity=600, old=500)


def test_a_halt_after_the_restart_cancels_the_order_under_its_new_id():
    before, row = _resized()
    stage = _restarted(before, before.last(IntentRecorded).intent, _amend_of_500(before))
    new = _later(row, 1, quantity=400)
    stage.after(1).book(_ended(row), new)
    stage.row(new, "ORD1-1")

    stage.handle(OperatorActed(stage.now, Action.HALT, "by hand", "operator"))
    stage.row(new, "ORD1-1")

    assert stage.last(CancelOrder).order_id == "ORD1-1"


def test_an_amendment_that_did_not_arrive_is_over_when_it_can_no_longer():
    before, row = _resized()
    stage = _restarted(before, before.last(IntentRecorded).intent, _amend_of_500(before))

    stage.after(10).row(row)
    early = _order(stage).change
    stage.after(90).row(row)

    assert early is not None
    assert stage.engine.status().amends[-1].verdict == AmendVerdict.NOT_DONE
    assert _order(stage).open_quantity == 300


def test_an_amendment_under_a_cancel_counts_on_after_a_restart_and_finds_its_new_id():
    before, row = _resized()
    cancelling = {"status": "CANCELLING", "state": OrderState.PENDING_CANCEL}
    before.after(1).book(replace(row, **cancelling))
    assert before.entries_of_order().state is OrderState.PENDING_CANCEL
    stage = _restarted(before, before.last(IntentRecorded).intent, _amend_of_500(before))

    held = _order(stage).open_quantity
    stage.after(1).book(_ended(row), _later(row, 1, quantity=400))

    assert held == 600 - 200
    order = stage.entries_of_order()
    assert (order.quantity, order.executed_quantity) == (600, 200)
    assert _codes(stage) == []


def test_an_amendment_that_had_its_verdict_under_a_cancel_is_over_with_the_first_row():
    before, row = _resized(executed=0)
    cancelling = {"status": "CANCELLING", "state": OrderState.PENDING_CANCEL}
    before.after(1).book(replace(row, **cancelling))
    amend = replace(_amend_of_500(before), outcome="REFUSED")
    stage = _restarted(before, before.last(IntentRecorded).intent, amend)

    ended = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)
    stage.after(120).row(ended)

    assert stage.entries_of_order().state is OrderState.CANCELLED
    assert _order(stage).open_quantity == 0


def test_an_amendment_that_was_refused_before_the_restart_needs_only_the_row():
    before, row = _resized()
    amend = replace(_amend_of_500(before), outcome="REFUSED")
    stage = _restarted(before, before.last(IntentRecorded).intent, amend)

    stage.after(1).row(row)

    assert stage.engine.status().amends[-1].verdict == AmendVerdict.REFUSED


def test_ids_of_an_earlier_run_are_taken_over_with_their_fills():
    before, row = _resized()
    new = _later(row, 1, quantity=400, executed=250)
    before.after(1).book(_ended(row), new)
    before.row(new, "ORD1-1")
    intent = before.last(IntentRecorded).intent
    stage = _restarted(before, intent, _amend_of_500(before), later=("ORD1-1",))

    stage.after(1).book(_ended(row), _later(row, 1, quantity=400, executed=300))

    order = stage.entries_of_order()
    assert (order.quantity, order.executed_quantity) == (600, 500)
    assert [fill.quantity for fill in stage.all(Fill)] == [50]
    assert {one.order_id for one in before.all(OrderResultSeen)} >= {"ORD1", "ORD1-1"}


def _after(stage, *, had_ended=False):
    """A start after an amendment, with what the journal has of it."""
    intent = stage.last(IntentRecorded).intent
    total = 600 if had_ended else None
    changes = StoredChanges((600,), total, (200, 200 * PRICE), had_ended)
    return _restarted(stage, intent, later=("ORD1-1",), changes=changes)


@pytest.mark.parametrize(("quantity", "executed"), [(600, 600), (400, 400)])
def test_a_restart_goes_on_counting_what_works_on_under_a_new_id_after_its_end(quantity, executed):
    before, row = _resized(executed=200)
    _look(before, _ended(row), 120)
    some = _later(row, 1, quantity=quantity, executed=executed - 100)
    before.after(1).book(_ended(row), some)
    assert sum(fill.quantity for fill in before.all(Fill)) == 500

    stage = _after(before, had_ended=True)
    for done in (executed - 40, executed):
        stage.after(60).book(_ended(row), _later(row, 1, quantity=quantity, executed=done))

    assert [fill.quantity for fill in stage.all(Fill)] == [60, 40]
    assert _codes(stage) == []


def test_a_restart_adds_what_a_former_id_had_matched_that_the_broker_has_forgotten():
    before, row = _resized()
    new = _later(row, 1, quantity=400, executed=100)
    before.after(1).book(_ended(row), new)
    before.row(new, "ORD1-1")

    stage = _after(before)
    stage.row(None, "ORD1")
    stage.after(1).book(_later(row, 1, quantity=400, executed=400))

    order = stage.entries_of_order()
    assert (order.quantity, order.executed_quantity) == (600, 600)
    assert [fill.quantity for fill in stage.all(Fill)] == [300]


def test_a_restart_knows_the_quantities_that_amendments_have_asked_for():
    before, row = _resized(executed=0)
    before.row(replace(row, quantity=600, remaining_quantity=600))
    assert before.entries_of_order().quantity == 600

    intent = before.last(IntentRecorded).intent
    changes = StoredChanges((700, 600))
    stage = _restarted(before, intent, changes=changes)
    stage.after(1).book(replace(row, quantity=700, remaining_quantity=700))

    assert stage.entries_of_order().quantity == 700
    assert _codes(stage) == []


# ------------------------------------------------------------------------- the rows of former ids


def _rows_of_two(*, matched, former, quantity, executed):
    """A chain whose amendment asked for 300: what was known as matched, and what the rows show."""
    row = report_of(Stage(settings=ON).working(500, PRICE), executed=200)
    rows = {"ORD1-1": _later(row, 1, quantity=quantity, executed=executed)}
    if former is not None:
        rows["ORD1"] = _ended(row, former)
    return Chain(["ORD1", "ORD1-1"], 300, START, (matched, matched * PRICE), rows)


def test_a_count_below_that_of_a_former_ids_row_begins_at_zero():
    chain = _rows_of_two(matched=200, former=250, quantity=300, executed=225)

    whole = chain.whole(START)

    assert (whole.quantity, whole.executed_quantity) == (550, 475)
    assert whole.executed_amount == 475 * PRICE


def test_a_count_below_what_was_known_begins_at_zero_though_the_former_id_has_no_row():
    chain = _rows_of_two(matched=200, former=None, quantity=300, executed=100)
    chain.gone.add("ORD1")

    whole = chain.whole(START)

    assert (whole.quantity, whole.executed_quantity) == (500, 300)


def test_a_former_id_without_a_row_delays_the_newest_one_only_for_so_long():
    chain = _rows_of_two(matched=200, former=None, quantity=100, executed=50)

    assert chain.whole(START + FORMER_ENDS_WITHIN - timedelta(seconds=1)) is None
    assert chain.whole(START + FORMER_ENDS_WITHIN).executed_quantity == 250


@pytest.mark.parametrize("left", [0, 1])
def test_one_share_that_a_former_id_has_open_counts(left):
    chain = _rows_of_two(matched=0, former=499, quantity=300, executed=0)
    chain.rows["ORD1"] = replace(chain.rows["ORD1"], remaining_quantity=left, cancelled_quantity=0)

    assert (chain.also_open, chain.unread) == (left, ("ORD1",) * left)


# ------------------------------------------------------- orders that were not known to be ours yet


def _lost_and_changed():
    """A lost order that somebody has changed in the app meanwhile: its old row and its new one."""
    stage = Stage(settings=ON)
    intent = stage.buy(500, PRICE)
    stage.send(intent)
    stage.answer(intent, Unknown("no answer"))
    row = report_of(intent)
    return stage, _ended(row), replace(_later(row, 1, quantity=500), price=PRICE + 50)


def test_a_lost_order_that_a_list_shows_under_two_ids_is_ours_under_both():
    stage, old, new = _lost_and_changed()

    stage.after(1).book(old, new)
    stage.after(15).book(old, _later(new, 1, quantity=500, executed=100))

    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", "ORD1-1"]
    assert (_orders(stage), stage.all(Fill)[0].quantity) == ({"ORD1"}, 100)
    assert list(stage.engine.status().halted_symbols) == ["HPG"]


def test_what_counted_as_somebody_elses_is_ours_once_its_first_id_is():
    stage, old, new = _lost_and_changed()
    traded = _later(new, 1, quantity=500, executed=100)

    stage.after(1).book(traded)
    stage.after(15).book(old, traded)
    stage.after(15).book(old, traded)

    assert [*stage.engine._state.orders] == ["ORD1"]
    theirs = stage.entries_of_order("ORD1-1")
    assert (theirs.state, theirs.note) == (OrderState.EXPIRED, "is L-0001, accepted as ORD1")
    assert [(one.order_id, one.quantity) for one in stage.all(Fill)] == [("ORD1", 100)]
    assert stage.last(OrderResultSeen).intent_id == "L-0001"


FULL: dict[str, Any] = {
    "status": "MATCHED_ALL",
    "state": OrderState.FILLED,
    "executed_quantity": 1_000,
}
FULL |= {"executed_amount": 27_000_000, "average_price": 27_000, "cancelled_quantity": 0}
AT_WORK: dict[str, Any] = {
    "status": "SENT",
    "state": OrderState.ACCEPTED,
    "remaining_quantity": 1_000,
}
AT_WORK |= {"cancelled_quantity": 0}


def _changed_elsewhere():
    """An order, its ended row, and one of a later id that was changed again at once."""
    stage = Stage()
    row = report_of(stage.working(1_000, 27_000))
    stage.after(1).book(row)
    old = replace(row, remaining_quantity=0, cancelled_quantity=1_000)
    return stage, old, replace(old, order_id="ORD9", root_order_id="ORD1", placed_at=START)


@every_row("order", [*permutations(range(3))])
@every_row(("last", "executed"), [(FULL, 1_000), (AT_WORK, 0)])
def test_of_several_new_ids_in_one_list_the_newest_is_told_by_its_row(order, last, executed):
    stage, old, second = _changed_elsewhere()
    rows = old, second, replace(second, order_id="ORD8", **last)

    for _ in range(3):
        stage.after(15).book(*(rows[number] for number in order))

    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", "ORD9", "ORD8"]
    assert sum(fill.quantity for fill in stage.all(Fill)) == executed
    open_now = [row.order_id for row in stage.engine.status().open_orders]
    assert open_now == ([] if executed else ["ORD1"])


@pytest.mark.parametrize("is_reversed", [False, True])
@every_row(
    ("first", "last", "later_s"), [("ORD9", "ORD8", 1), ("ORD8", "ORD9", 0), ("ORD9", "ORD10", 0)]
)
def test_of_several_new_ids_that_were_cancelled_the_later_one_is_newest(
    first, last, later_s, is_reversed
):
    stage, old, second = _changed_elsewhere()
    new = [
        replace(second, order_id=first),
        replace(second, order_id=last, placed_at=START + timedelta(seconds=later_s)),
    ]

    stage.after(15).book(old, *(reversed(new) if is_reversed else new))

    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", first, last]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_of_several_new_ids_the_one_that_works_is_newest_not_the_one_that_was_refused(is_reversed):
    stage, old, second = _changed_elsewhere()
    refused = replace(second, order_id="ORD10", status="REJECTED", state=OrderState.REJECTED)
    new = [refused, replace(second, **AT_WORK)]

    stage.after(15).book(old, *(reversed(new) if is_reversed else new))

    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", "ORD10", "ORD9"]


@every_row("order", [*permutations(range(3))])
def test_a_change_that_was_refused_is_older_than_one_that_traded_and_was_cancelled(order):
    stage, old, second = _changed_elsewhere()
    refused = replace(second, order_id="ORD2", status="REJECTED", state=OrderState.REJECTED)
    refused = replace(refused, cancelled_quantity=0)
    third = replace(_ended(second, 300), order_id="ORD3", state=OrderState.CANCELLED)
    rows = old, refused, third

    for _ in range(3):
        stage.after(15).book(*(rows[number] for number in order))

    assert [*stage.engine._state.chains.ids("ORD1")] == ["ORD1", "ORD2", "ORD3"]
    assert [fill.quantity for fill in stage.all(Fill)] == [300]
    assert stage.entries_of_order().state is OrderState.CANCELLED


# ------------------------------------------------------------- which of several ids is the newest


def _changed_twice(done, *, second=0, restarts=False):
    """The rows of an order of 100 that somebody has changed twice under new ids, oldest first: the
    first had 40 matched, the second `second`, the third `done`. Where the count restarts each
    counts its own.
    """
    so_far, rows = 0, []
    for number, executed in ((1, 40), (2, second), (3, done)):
        quantity = 100 - so_far if restarts else 100
        so_far += executed
        left = quantity - executed
        row = replace(
            report_of(BY_HAND, f"ORD{number}", executed=executed, average=PRICE),
            root_order_id="ORD1",
            quantity=quantity,
            remaining_quantity=left,
            raw=f"ORD{number} {executed}",
        )
        if number < 3:
            ended = replace(row, remaining_quantity=0, cancelled_quantity=left)
            row = replace(ended, state=OrderState.CANCELLED)
        elif left == 0:
            row = replace(row, status="MATCHED_ALL", state=OrderState.FILLED)
        rows.append(row)
    return rows


BY_HAND = Stage().buy(100, PRICE)
CARRIED: Any = [_changed_twice(50, second=40), _changed_twice(100, second=40)]
FROM_ZERO: Any = [_changed_twice(10, restarts=True), _changed_twice(60, restarts=True)]


def _with_lists(*lists):
    """An order of 100, and the day order book read with each of these lists."""
    stage = Stage()
    intent = stage.buy(100, PRICE)
    stage.send(intent)
    finished = replace(stage.finished_of(intent), outcome="ACCEPTED")
    stage.answer(intent, Accepted(result_of(intent)), finished)
    for rows in lists:
        stage.after(25).book(*rows)
    return stage


async def _started_again(stage, url):
    """A start from the journal that has what this engine recorded."""
    journal = Journal.open(url)
    sent = next(n for n, one in enumerate(stage.entries) if isinstance(one, IntentRecorded)) + 1
    attempt = replace(attempt_of(BY_HAND, START), attempt_id="a-L-0001")
    move = IntentMoved(START, "L-0001", SendState.READY, SendState.SENDING, "sent")
    transactions: Any = (stage.entries[:sent], [attempt, move], stage.entries[sent:])
    for entries in transactions:
        await journal.write(entries)
    again = Stage(recovery=await journal.recover(DAY))
    again.now = stage.now
    await journal.close()
    return again


def _ids_and_fills(*stages):
    ids = [*stages[-1].engine._state.chains.ids("ORD1")]
    return ids, sum(fill.quantity for stage in stages for fill in stage.all(Fill))


@pytest.mark.parametrize(("now", "filled"), [CARRIED, FROM_ZERO])
def test_an_id_that_a_later_list_shows_first_is_not_the_newest_if_it_was_changed_before(
    now, filled
):
    first, _, third = now

    stage = _with_lists([first, third], now)
    while_it_works = stage.engine._state.chains.current("ORD1"), _ids_and_fills(stage)[1]
    for _ in range(2):
        stage.after(25).book(*filled)

    assert while_it_works == ("ORD3", 50)
    assert _ids_and_fills(stage) == (["ORD1", "ORD2", "ORD3"], 100)
    assert stage.entries_of_order().state is OrderState.FILLED
    assert (_codes(stage), stage.engine.status().halted_symbols) == ([], {})


@pytest.mark.parametrize(("now", "filled"), [CARRIED, FROM_ZERO])
@pytest.mark.parametrize("is_listed_late", [False, True])
@pytest.mark.parametrize("is_filled_meanwhile", [False, True])
async def test_a_restart_knows_which_of_several_ids_is_the_newest(
    now, filled, is_listed_late, is_filled_meanwhile, sqlite_url
):
    first, _, third = now
    before = _with_lists([first, third] if is_listed_late else now, now)

    stage = await _started_again(before, sqlite_url)
    for rows in (filled,) if is_filled_meanwhile else (now, filled):
        stage.after(25).book(*rows)
    stage.after(25).book(*filled)

    assert _ids_and_fills(before, stage) == (["ORD1", "ORD2", "ORD3"], 100)
    assert stage.entries_of_order().state is OrderState.FILLED
    assert (_codes(stage), stage.engine.status().halted_symbols) == ([], {})


async def test_after_a_restart_an_earlier_id_is_not_the_newest_though_that_is_not_listed(
    sqlite_url,
):
    [first, second, third], filled = CARRIED
    before = _with_lists([first, third])

    stage = await _started_again(before, sqlite_url)
    stage.after(25).book(first, second)
    stage.after(25).book(*filled)

    assert _ids_and_fills(before, stage) == (["ORD1", "ORD2", "ORD3"], 100)


def test_an_id_that_has_ended_is_the_newest_though_an_old_row_shows_the_one_before_at_work():
    first, second, third = _changed_twice(50, second=40)
    old = replace(second, state=OrderState.ACCEPTED, remaining_quantity=60, cancelled_quantity=0)
    over = replace(third, remaining_quantity=0, cancelled_quantity=50)
    stage = _with_lists([first, old])

    stage.after(25).book(first, old, replace(over, state=OrderState.CANCELLED))
    stage.after(25).book(first, second, replace(over, state=OrderState.CANCELLED))

    assert _ids_and_fills(stage) == (["ORD1", "ORD2", "ORD3"], 50)


async def test_after_a_restart_an_earlier_id_is_not_the_newest_though_an_old_row_shows_it_at_work(
    sqlite_url,
):
    [first, second, third], filled = CARRIED
    old = replace(second, state=OrderState.ACCEPTED, remaining_quantity=60, cancelled_quantity=0)
    before = _with_lists([first, replace(second, order_id="ORD9"), third])

    stage = await _started_again(before, sqlite_url)
    stage.after(25).book(first, replace(old, order_id="ORD9"), third)
    stage.after(25).book(first, replace(second, order_id="ORD9"), filled[-1])

    assert _ids_and_fills(before, stage) == (["ORD1", "ORD9", "ORD3"], 100)


def test_a_new_id_that_works_is_the_newest_though_it_sorts_before_the_one_that_was_changed():
    first, second, third = _changed_twice(50, second=40)
    row = replace(third, order_id="ORD2", price=PRICE - 50)
    old = replace(second, order_id="ORD3", state=OrderState.ACCEPTED, remaining_quantity=60)
    stage = _with_lists([first, replace(old, cancelled_quantity=0)])

    stage.after(25).book(first, replace(second, order_id="ORD3"), row)

    assert _ids_and_fills(stage) == (["ORD1", "ORD3", "ORD2"], 50)
