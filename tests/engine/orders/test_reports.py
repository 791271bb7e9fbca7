"""Accepted orders that no day order book shows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import IntentMoved, Note, OrderUpdated
from bot.domain.message import OrderRead, ReadOrder, TradingDayStarted
from bot.domain.operations import EarlierOrdersRead
from bot.domain.order import OrderState, SendState, UnreadRow
from bot.domain.outcome import Unknown
from bot.domain.recovery import Recovery
from bot.engine.orders import reports
from tests.engine.stage import DAY, Stage, report_of


def _alerts(stage: Stage) -> list[str]:
    return [str(n.numbers.get("alert")) for n in stage.all(Note) if n.kind == "ALERT"]


def _poll(stage: Stage, seconds: float, *rows) -> None:
    """Let the bot read the day order book whenever it wants to, for this long."""
    end = stage.now + timedelta(seconds=seconds)
    while stage.due() <= end:
        stage.now = stage.due()
        stage.pass_time(0)
        stage.book(*rows)


def test_an_accepted_order_that_no_list_shows_is_told_of_within_a_minute_and_asked_for() -> None:
    stage = Stage()
    stage.working()

    _poll(stage, 60)

    assert _alerts(stage) == ["ACCEPTED_NOT_LISTED"]
    [standing] = stage.engine.status().alerts
    assert standing.startswith("L-0001 (ORD1), BUY 100 HPG at 27,000: the broker accepted it, and")
    assert {one.order_id for one in stage.all(ReadOrder)} == {"ORD1"}
    assert stage.engine.status().open_orders[0].state is OrderState.ACCEPTED


def _not_listed(stage: Stage) -> list[str]:
    return [row.order_id for row in stage.engine.reconciliation().not_listed]


def test_reconcile_names_an_order_that_no_list_shows_once_it_has_waited_for_its_row() -> None:
    stage = Stage()
    intent = stage.working()
    _poll(stage, 35)
    early = _not_listed(stage)

    _poll(stage, 25)

    assert (early, _not_listed(stage)) == ([], ["ORD1"])
    stage.after(1).book(report_of(intent))
    assert _not_listed(stage) == []


def test_reconcile_names_an_order_of_others_that_has_left_the_list_and_nothing_is_told() -> None:
    stage = Stage()
    theirs = replace(report_of(stage.buy(), "APP1"), quantity=900)
    for _ in range(5):
        stage.after(15).book(theirs)
    assert _not_listed(stage) == []

    for _ in range(4):
        stage.after(15).book()

    assert _not_listed(stage) == ["APP1"]
    assert "ACCEPTED_NOT_LISTED" not in _alerts(stage)
    assert stage.engine.status().alerts == ()
    stage.after(1).book(theirs)
    assert _not_listed(stage) == []


@pytest.mark.parametrize(("seconds", "missing"), [(30, []), (60, ["ORD1"])])
def test_where_one_list_is_all_there_is_the_journal_says_how_long_an_order_waits(
    seconds: float, missing: list[str]
) -> None:
    before = Stage()
    before.working()
    recovery = Recovery(DAY, orders=(before.entries_of_order(),))
    stage = Stage(is_open=False, recovery=recovery)

    stage.after(seconds).book()

    assert _not_listed(stage) == missing
    unreadable = UnreadRow(None, None, "orderid: required", "{}")
    stage.after(1).book(set_aside=[unreadable])
    assert _not_listed(stage) == []


def test_it_is_told_once_and_over_when_a_list_shows_it() -> None:
    stage = Stage()
    intent = stage.working()
    _poll(stage, 300)

    stage.after(1).book(report_of(intent))

    assert _alerts(stage) == ["ACCEPTED_NOT_LISTED"]
    assert stage.engine.status().alerts == ()
    assert stage.last(Note).text.endswith("the day order book lists it again")


def test_a_row_that_hides_for_half_a_minute_alarms_nobody() -> None:
    stage = Stage()
    intent = stage.working()

    _poll(stage, 35)
    stage.book(report_of(intent))
    _poll(stage, 35)

    assert _alerts(stage) == []


def test_an_order_that_vanishes_from_the_list_is_told_of_too() -> None:
    stage = Stage()
    intent = stage.working()
    _poll(stage, 300, report_of(intent))
    assert _alerts(stage) == []

    _poll(stage, 61)

    assert _alerts(stage) == ["ACCEPTED_NOT_LISTED"]


def test_a_list_with_a_nameless_row_set_aside_is_not_complete() -> None:
    stage = Stage()
    stage.working()
    for _ in range(20):
        stage.after(15).book(set_aside=[UnreadRow(None, None, "orderid: required", "{}")])

    assert "ACCEPTED_NOT_LISTED" not in _alerts(stage)


def test_a_row_that_cannot_be_read_lists_its_order() -> None:
    stage = Stage()
    stage.working()
    for _ in range(20):
        stage.after(15).book(set_aside=[UnreadRow("ORD1", "HPG", "qtty: required", "{}")])

    assert "ACCEPTED_NOT_LISTED" not in _alerts(stage)


def test_orders_of_others_are_not_missed() -> None:
    stage = Stage()
    theirs = replace(report_of(stage.buy(), "ORD9"), quantity=900)
    stage.after(1).book(theirs)

    for _ in range(20):
        stage.after(15).book()

    assert _alerts(stage) == []


def test_an_id_that_is_not_known_yet_is_asked_for_again_at_growing_distances() -> None:
    stage = Stage()
    stage.working()
    begun, found = stage.now, []
    stage.row(None)
    for _ in range(150):
        if any(isinstance(one, ReadOrder) for one in stage.pass_time(0.1)):
            found.append(round((stage.now - begun).total_seconds(), 1))
            stage.row(None)

    assert found == [0.2, 0.7, 1.7, 3.7, 8.7]


def test_its_day_ends_by_its_name_and_holds_its_symbol() -> None:
    stage = Stage()
    stage.working()
    _poll(stage, 61)
    tomorrow = DAY + timedelta(days=1)
    stage.after(86_400).handle(TradingDayStarted(stage.now, tomorrow))

    stage.handle(EarlierOrdersRead(stage.now, ()))

    halted = stage.engine.status().halted_symbols["HPG"]
    assert halted == f"ORD1 of {DAY} was accepted and never listed: compare the holding"


# ------------------------------------------------------------------------- rows that come twice


def test_an_order_of_somebody_else_that_a_list_shows_twice_counts_once() -> None:
    stage = Stage()
    intent = stage.working()
    older = report_of(intent, "ORD8", quantity=500, remaining=500)
    newer = replace(older, executed_quantity=200, remaining_quantity=300)
    newer = replace(newer, average_price=27_000, executed_amount=5_400_000)

    stage.after(1).book(report_of(intent), newer, older, newer)

    rows = [one for one in stage.all(OrderUpdated) if one.order_id == "ORD8"]
    assert [(row.quantity, row.executed_quantity) for row in rows] == [(500, 200)]


def test_a_lost_order_whose_row_a_list_shows_twice_is_found() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    row = report_of(intent, "ORD7")

    stage.after(1).book(row, row)

    assert stage.all(IntentMoved)[-1].to_state is SendState.MATCHED


def test_an_id_is_asked_for_from_the_fifth_second_in_which_no_list_shows_it() -> None:
    stage = Stage()
    stage.working()
    stage.book()

    stage.after(4.9).book()
    early = stage.new(ReadOrder)
    stage.after(0.1).book()

    assert (early, [one.order_id for one in stage.new(ReadOrder)]) == ([], ["ORD1"])


def test_a_list_of_another_account_says_nothing_about_an_order() -> None:
    stage = Stage()
    stage.working()
    order = stage.engine._state.orders["ORD1"]
    order.row = replace(order.row, account="120C900001.6")
    stage.book()

    stage.after(60).book()

    assert stage.new(ReadOrder) == []
    assert _alerts(stage) == []


def test_how_long_no_list_has_shown_an_order_is_told_in_seconds() -> None:
    stage = Stage()
    stage.working()
    stage.book()
    stage.after(50).book()
    stage.after(10)
    stage.pass_time(0)

    [standing] = reports.alerts(stage.engine._state)

    assert standing.facts["seconds"] == 60


def test_a_row_that_cannot_be_read_is_not_one_that_is_not_there() -> None:
    stage = Stage()
    intent = stage.working()
    stage.book(report_of(intent))

    stage.handle(OrderRead(stage.now, "ORD1", None, is_unreadable=True))
    stage.pass_time(0.2)
    unreadable = stage.new(ReadOrder)
    stage.handle(OrderRead(stage.now, "ORD1", None))
    stage.pass_time(0.2)

    assert (unreadable, [one.why for one in stage.new(ReadOrder)]) == ([], ["a second look"])


def test_the_lists_of_the_next_day_miss_no_order_of_the_day_before() -> None:
    stage = Stage()
    intent = stage.working()
    stage.after(5).book(report_of(intent))

    stage.after(16 * 3_600)
    for _ in range(5):
        stage.after(60).book()

    assert _alerts(stage) == []
    assert "ACCEPTED_NOT_LISTED" not in {each.code for each in stage.engine.status().standing}
