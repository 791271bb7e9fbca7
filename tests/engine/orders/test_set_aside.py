"""Rows of the day order book that cannot be read: told once, while entries wait."""

from datetime import timedelta

import pytest

from bot.domain.entry import Decision, Fill, IntentMoved, Note, OrderUpdated
from bot.domain.message import NonceBurnt, PlaceOrder, ReadOrder
from bot.domain.order import OrderState, SendState, Side, UnreadRow
from bot.domain.outcome import Resolution, Unknown
from tests.engine.stage import Stage, report_of

OF_HPG = UnreadRow("ORD9", "HPG", "qtty: Field required", "{}")
OF_FPT = UnreadRow("ORD9", "FPT", "qtty: Field required", "{}")
NAMELESS = UnreadRow(None, None, "orderid: Field required", "{}")


def _alerts(stage: Stage) -> list[str]:
    return [note.text for note in stage.all(Note) if note.kind == "ALERT"]


@pytest.mark.parametrize("row", [OF_HPG, NAMELESS], ids=["its symbol", "whole account"])
def test_nothing_is_bought_while_a_row_is_set_aside(row: UnreadRow) -> None:
    stage = Stage()
    stage.book(set_aside=[row])

    stage.request(lambda s: s.buy(100, limit=27_000, why="as asked"))

    assert stage.all(PlaceOrder) == []
    assert stage.last(Decision).code == "SYMBOL_HALTED"
    assert "can't be read" in stage.last(Decision).checks[-1].text


def test_a_row_of_another_symbol_holds_nothing_here() -> None:
    stage = Stage()
    stage.book(set_aside=[OF_FPT])

    stage.buy()

    assert len(stage.all(PlaceOrder)) == 1


def test_what_is_held_is_sold_all_the_same() -> None:
    stage = Stage(sellable=100)
    intent = stage.working()
    stage.book(report_of(intent, "ORD1", executed=100), set_aside=[NAMELESS])

    stage.request(lambda s: s.sell(100, limit=27_000, why="out"))

    assert stage.last(PlaceOrder).intent.side is Side.SELL


def test_a_buy_that_waits_to_be_sent_is_held_back_too() -> None:
    stage = Stage()
    intent = stage.buy()

    stage.book(set_aside=[OF_HPG])

    assert "can't be read" in (stage.engine.reason_not_to_send(intent) or "")


def test_a_whole_read_lets_entries_go_on_and_an_older_one_does_not() -> None:
    stage = Stage()
    before = stage.now
    stage.after(5).book(set_aside=[OF_HPG])
    stage.after(1).book(asked_at=before)
    stage.request(lambda s: s.buy(100, limit=27_000, why="as asked"))
    assert stage.all(PlaceOrder) == []

    stage.after(1).book()
    stage.buy()

    assert stage.all(Note)[-1].text == "every row of the day order book can be read again"


def test_a_row_is_told_once_by_its_id() -> None:
    stage = Stage()

    for _ in range(3):
        stage.after(1).book(set_aside=[OF_HPG])

    [told] = _alerts(stage)
    assert stage.engine.status().alerts == (told,)
    stage.after(1).book()
    assert stage.engine.status().alerts == ()
    assert told.startswith("the day order book's row ORD9 can't be read (qtty: Field required)")


def test_a_row_set_aside_neither_ends_nor_changes_our_order_and_holds_its_symbol() -> None:
    stage = Stage()
    stage.working(order_id="ORD1")
    before = stage.entries_of_order("ORD1")

    stage.after(1).book(set_aside=[UnreadRow("ORD1", None, "symbol: Field required", "{}")])

    assert stage.entries_of_order("ORD1") == before
    assert stage.new(OrderUpdated) == stage.new(Fill) == []
    assert [each.order_id for each in stage.new(ReadOrder)] == ["ORD1"]
    assert "nothing is bought in HPG" in _alerts(stage)[0]


def _lost(stage: Stage, resolution: Resolution = Resolution.FRESH) -> None:
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    stage.handle(NonceBurnt(stage.now, intent.intent_id, resolution, "burn"))


def test_a_read_with_a_row_set_aside_is_no_proof_that_an_order_is_absent() -> None:
    stage = Stage()
    _lost(stage)

    for _ in range(9):
        stage.after(60).book(set_aside=[NAMELESS])

    assert SendState.NOT_PLACED not in [move.to_state for move in stage.all(IntentMoved)]


def test_a_row_that_was_there_before_the_send_hides_no_lost_order() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.book(set_aside=[OF_HPG])
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))

    stage.after(1).book(report_of(intent, "ORD8"), set_aside=[OF_HPG])

    assert stage.all(IntentMoved)[-1].to_state is SendState.MATCHED


def test_a_row_that_may_be_the_lost_order_keeps_another_from_being_taken_for_it() -> None:
    stage = Stage()
    _lost(stage, Resolution.REACHED)
    other = report_of(stage.last(PlaceOrder).intent, "ORD8")

    stage.after(1).book(other, set_aside=[OF_HPG])
    assert SendState.MATCHED not in [move.to_state for move in stage.all(IntentMoved)]
    assert stage.all(OrderUpdated) == []
    stage.after(1).book(other)

    assert stage.all(IntentMoved)[-1].to_state is SendState.MATCHED


def test_a_row_seen_unreadable_before_the_send_is_never_taken_for_the_order() -> None:
    stage = Stage()
    stage.book(set_aside=[OF_HPG])
    stage.after(1).book()
    _lost(stage)

    stage.after(1).book(report_of(stage.last(PlaceOrder).intent, "ORD9"))

    assert stage.all(IntentMoved)[-1].to_state is SendState.FRESH
    assert stage.entries_of_order("ORD9").state is OrderState.ACCEPTED
    assert stage.entries_of_order("ORD9").intent_id is None
    assert stage.now - stage.entries_of_order("ORD9").at == timedelta(0)
