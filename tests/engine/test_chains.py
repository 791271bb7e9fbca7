"""An order that the broker gives a new id with an amendment stays one order, under its first id."""

from dataclasses import replace

import pytest

from bot.domain.asked import AmendAsked, CancelAsked
from bot.domain.entry import Fill, Note, OrderUpdated, Transition
from bot.domain.message import AmendAnswered, AmendOrder, CancelOrder, ReadOrder, ReadTodaysOrders
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted, Refused, Unknown
from bot.domain.recovery import Recovery
from bot.engine.engine import EngineSettings
from bot.engine.tracked import AmendVerdict
from tests.engine.stage import DAY, Stage, report_of, result_of

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
    """An order whose PUT was answered under another id: its detail row is gone, its new row not."""
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


def test_the_order_under_its_new_id_is_ours_and_its_amendment_done():
    stage, _, new = _renamed()

    stage.after(1).book(new)
    stage.pass_time(10)
    assert stage.new(ReadOrder) == [ReadOrder("ORD1-1", "after amend")]
    stage.row(new, "ORD1-1")

    assert stage.engine.status().amends[-1].verdict == AmendVerdict.DONE
    assert _orders(stage) == {"ORD1"}
    assert stage.entries_of_order().price == 26_900
    assert stage.entries_of_order().state is OrderState.ACCEPTED


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


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_cancelled_row_is_believed_at_once_when_the_answer_settled_the_id(is_accepted):
    stage, intent, row = _sent_amendment()
    kept, refused = Accepted(result_of(intent, "ORD1")), Refused("-700106", "no", 200)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", kept if is_accepted else refused, None))
    gone = replace(row, state=OrderState.CANCELLED, remaining_quantity=0, cancelled_quantity=500)

    stage.after(1).book(gone)

    assert stage.entries_of_order().state is OrderState.CANCELLED


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


def test_a_row_of_another_symbol_belongs_to_no_chain():
    stage, _, new = _renamed()

    stage.after(1).book(replace(new, symbol="SHS"))

    assert _orders(stage) == {"ORD1", "ORD1-1"}
