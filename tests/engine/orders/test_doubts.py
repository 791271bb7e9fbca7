"""Rows under an order's id that are about another order, or can't be true."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from bot.domain.account import AccountSnapshot
from bot.domain.entry import Decision, Fill, Note, OrderUpdated, Transition
from bot.domain.message import AccountRead, CancelOrder, PlaceOrder, ReadOrder
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import OrderState, SendState, Side
from bot.domain.outcome import Accepted
from bot.domain.recovery import Recovery, StoredIntent
from bot.engine.orders import doubts
from tests.engine.stage import ACCOUNT, DAY, Stage, report_of, result_of
from tests.rows import every_row

S = OrderState
ENDS = [
    {"executed": 100},
    {"state": S.CANCELLED, "status": "CANCELLED", "cancelled": 100},
    {"state": S.REJECTED, "status": "REJECTED"},
    {"state": S.FILLED, "status": "MATCHED_ALL", "executed": 100},
]
OTHERS = [{"symbol": "SSI"}, {"side": Side.SELL}, {"account": "120C999999.1"}]
UNEXPLAINED = [
    {"quantity": 0},
    {"quantity": 200},
    {"quantity": 100_000},
    {"trading_date": DAY - timedelta(days=1)},
    {"trading_date": DAY + timedelta(days=1)},
]
WAYS = ["book", "row"]


def _alerts(stage: Stage) -> list[str]:
    return [str(n.numbers.get("alert")) for n in stage.all(Note) if n.kind == "ALERT"]


def _show(stage: Stage, way: str, report) -> None:
    stage.after(1)
    stage.book(report) if way == "book" else stage.row(report)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("other", OTHERS + UNEXPLAINED)
def test_a_row_about_another_order_neither_fills_nor_ends_ours(other, end, way) -> None:
    stage = Stage()
    intent = stage.working()
    before = stage.entries_of_order()

    for _ in range(3):
        _show(stage, way, report_of(intent, **{**end, **other}))

    assert stage.entries_of_order() == before
    assert stage.all(Fill) == []
    assert len(stage.engine.status().open_orders) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("other", OTHERS)
def test_another_symbol_side_or_account_halts_the_symbol_at_once(other, way) -> None:
    stage = Stage()
    intent = stage.working()

    _show(stage, way, report_of(intent, **other))

    assert "HPG" in stage.engine.status().halted_symbols
    assert _alerts(stage)[0] == "ROW_CONTRADICTS"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("other", UNEXPLAINED)
def test_an_unexplained_row_is_asked_about_and_holds_buys_until_one_is_its_own(other, way) -> None:
    stage = Stage()
    intent = stage.working()

    for _ in range(3):
        _show(stage, way, report_of(intent, **other))

    [standing] = stage.engine.status().alerts
    assert standing.startswith("L-0001 (ORD1), BUY 100 HPG at 27,000: the broker's row under")
    assert stage.engine.status().halted_symbols == {}
    assert _alerts(stage) == ["ROW_AMBIGUOUS"]
    assert way == "row" or [each.order_id for each in stage.new(ReadOrder)] == ["ORD1"]
    assert "may be another order's" in (stage.engine.reason_not_to_send(intent) or "")

    stage.after(1).book(report_of(intent, executed=100))

    assert stage.engine.status().alerts == ()
    assert stage.entries_of_order().state is S.FILLED
    stage.account()
    stage.request(lambda s: s.buy(200, limit=27_000, why="more"))
    assert stage.last(PlaceOrder).intent.quantity == 200


def test_a_person_says_that_a_changed_quantity_is_right() -> None:
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, quantity=200, executed=150))  # more than was ordered
    stage.after(1).book(report_of(intent, quantity=200))
    assert "an order of 200" in stage.engine.status().alerts[0]

    stage.handle(OperatorActed(stage.now, Action.RESUME, reason="changed it in the app", by="me"))
    assert stage.new(ReadOrder) == [ReadOrder("ORD1", "its quantity is right")]
    stage.after(1).book(report_of(intent, quantity=200, executed=200))

    assert stage.engine.status().alerts == ()
    row = stage.entries_of_order()
    assert (row.state, row.quantity, row.executed_quantity) == (S.FILLED, 200, 200)


def test_a_person_cannot_make_a_row_of_another_day_ours() -> None:
    stage = Stage()
    intent = stage.working()
    other = report_of(intent, executed=100, trading_date=DAY - timedelta(days=1))
    stage.after(1).book(other)

    stage.handle(OperatorActed(stage.now, Action.RESUME, reason="seen", by="me"))
    assert len(stage.engine.status().alerts) == 1
    stage.after(1).book(other)

    assert stage.all(Fill) == []
    assert len(stage.engine.status().alerts) == 1


def test_a_detail_under_another_id_is_not_the_order_s() -> None:
    stage = Stage()
    intent = stage.working()

    stage.after(1).row(report_of(intent, "ORD7", executed=100), "ORD1")

    assert stage.all(Fill) == []
    assert "it names ORD7" in stage.engine.status().alerts[0]


def test_an_older_read_neither_raises_a_doubt_nor_ends_one() -> None:
    stage = Stage()
    intent = stage.working()
    early = stage.after(5).now
    stage.after(5).book(report_of(intent))
    stage.after(1).book(report_of(intent, quantity=200), asked_at=early)
    assert stage.engine.status().alerts == ()

    stage.after(1).book(report_of(intent, quantity=200))
    stage.after(1).book(report_of(intent), asked_at=early)

    assert len(stage.engine.status().alerts) == 1


def test_an_order_in_doubt_is_cancelled_all_the_same() -> None:
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, quantity=200))

    stage.request(lambda s: s.cancel(why="out"))
    stage.after(1).row(report_of(intent, quantity=200, may_cancel=True))

    assert [one.order_id for one in stage.all(CancelOrder)] == ["ORD1"]


def test_a_place_answer_that_cannot_be_true_leaves_the_order_ours_and_open() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    result = result_of(intent, executed_quantity=300, executed_amount=8_100_000)
    stage.answer(intent, Accepted(result))

    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity) == (S.ACCEPTED, 0)
    assert "HPG" in stage.engine.status().halted_symbols


def test_an_id_of_an_ended_order_of_another_day_is_a_new_order() -> None:
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, state=S.CANCELLED, status="CANCELLED", cancelled=100))
    later = report_of(intent, trading_date=date(2026, 11, 20), symbol="SSI", executed=100)

    stage.after(1).book(later)

    row = stage.entries_of_order()
    assert (row.intent_id, row.symbol, row.state) == (None, "SSI", S.FILLED)
    assert stage.all(Fill) == []
    assert stage.engine.status().halted_symbols == {}


def test_an_order_of_somebody_else_may_change_its_quantity() -> None:
    stage = Stage()
    theirs = report_of(stage.buy(), "ORD9", quantity=900, price=25_500)
    stage.after(1).book(theirs)

    stage.after(1).book(report_of(stage.last(PlaceOrder).intent, "ORD9", quantity=700))

    assert stage.last(OrderUpdated).quantity == 700
    assert _alerts(stage) == []


def test_what_is_refused_is_explained_in_the_journal() -> None:
    stage = Stage()
    intent = stage.working()
    before = len(stage.all(Transition))

    stage.after(1).book(report_of(intent, symbol="SSI", executed=100))

    [told] = [note for note in stage.new(Note) if note.numbers.get("alert") == "ROW_CONTRADICTS"]
    assert told.numbers["shown_symbol"] == "SSI"
    assert told.numbers["row"] == "SENT 100"
    assert "resume" in told.text
    assert len(stage.all(Transition)) == before
    assert stage.last(Decision).verdict == "PASSED"


# --------------------------------------------------------------------------- what a person settles


def test_a_quantity_that_a_person_takes_for_the_orders_own_is_read_at_once_and_noted() -> None:
    stage = Stage()
    intent = stage.working()
    _show(stage, "book", report_of(intent, quantity=200))

    stage.handle(OperatorActed(stage.now, Action.RESUME, "changed in the app", "me"))

    assert ReadOrder("ORD1", "its quantity is right") in stage.done
    words = "L-0001 (ORD1), BUY 100 HPG at 27,000: a quantity of 200 is taken for its own"
    assert [n.text for n in stage.new(Note) if n.kind == "RESUME"].count(words) == 1


def test_a_changed_order_is_taken_for_ones_own_by_its_symbol_and_a_halt_goes_on() -> None:
    stage = Stage()
    intent = stage.working()
    _show(stage, "book", report_of(intent, quantity=300))
    stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "me"))
    assert stage.engine.objection_to_resume("HPG") == ""

    resume = OperatorActed(stage.now, Action.RESUME, "changed in the app", "me", symbol="HPG")
    stage.handle(resume)
    ended = report_of(intent, quantity=300, cancelled=300, state=S.CANCELLED, status="CANCELLED")
    _show(stage, "book", ended)

    assert "SYMBOL_RESUME" not in _alerts(stage)
    assert (stage.engine.status().state, stage.engine.status().open_orders) == ("HALTED", ())
    assert (
        stage.engine.objection_to_resume("HPG")
        == "HPG is not halted, its market data is believed, no order of it is in question"
    )


def test_after_a_restart_the_quantity_of_before_an_amendment_is_still_the_orders_own() -> None:
    first = Stage()
    intent = first.working(500)
    row = replace(first.entries_of_order(), quantity=700)
    stored = (StoredIntent(intent, SendState.ACKED, "ORD1", None),)
    stage = Stage(recovery=Recovery(DAY, 2, intents=stored, orders=(row,)))

    _show(stage, "book", report_of(intent, executed=100))

    assert "ROW_AMBIGUOUS" not in _alerts(stage)
    assert stage.last(Fill).quantity == 100


def test_a_row_that_is_the_orders_own_again_is_noted() -> None:
    stage = Stage()
    intent = stage.working()
    _show(stage, "book", report_of(intent, quantity=200))

    _show(stage, "book", report_of(intent))

    words = "L-0001 (ORD1), BUY 100 HPG at 27,000: the broker's row is its own again"
    assert words in [note.text for note in stage.new(Note) if note.kind == "RESUME"]


def test_of_two_rows_that_were_asked_for_at_once_the_later_one_raises_a_doubt_too() -> None:
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent))

    stage.row(report_of(intent, quantity=200))

    assert _alerts(stage) == ["ROW_AMBIGUOUS"]


@pytest.mark.parametrize(
    ("first", "then", "counts"),
    [
        (ACCOUNT, "120C900001.6", ACCOUNT),
        (ACCOUNT, "120C999999.1", ACCOUNT),
        ("120C999999.1", ACCOUNT, ACCOUNT),
        ("120C999999.1", "120C999999.2", "120C999999.1"),
    ],
)
def test_rows_move_an_order_of_somebody_else_onto_our_account_and_nowhere_else(
    first: str, then: str, counts: str
) -> None:
    stage = Stage()
    stage.handle(AccountRead(stage.now, AccountSnapshot(stage.now, "120C900001.6", 0, 0, {})))
    row = replace(report_of(Stage().buy(), "X1"), account=first)
    stage.after(1).book(row)

    for _ in range(3):
        stage.after(1).book(replace(row, account=then))

    assert stage.entries_of_order("X1").account == counts


def test_what_an_order_of_somebody_else_has_paid_is_told_by_its_true_row() -> None:
    stage = Stage()
    row = report_of(Stage().buy(), "X1", executed=100, average=26_900)
    lie = replace(row, side=Side.SELL, average_price=27_000, executed_amount=2_700_000)
    stage.after(1).book(lie)

    for _ in range(3):
        stage.after(1).book(row)

    told = stage.entries_of_order("X1")
    assert (told.side, told.executed_quantity, told.executed_amount) == (Side.BUY, 100, 2_690_000)


@every_row(
    ("other", "told"),
    [
        ({"quantity": 200, "executed": 90}, ["ROW_CONTRADICTS", "SYMBOL_HALTED"]),
        ({"quantity": 200, "executed": 40}, []),
        (
            {"quantity": 200, "executed": 90, "trading_date": DAY - timedelta(days=1)},
            ["BOOK_OF_BEFORE"],
        ),
    ],
)
def test_an_unexplained_row_of_an_ended_order_that_shows_more_traded_halts_its_symbol(
    other, told
) -> None:
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, executed=40, cancelled=60, state=S.CANCELLED))
    assert stage.entries_of_order().state is S.CANCELLED

    for _ in range(3):
        stage.after(15).book(report_of(intent, **other, remaining=0))

    assert _alerts(stage) == told
    assert stage.entries_of_order().executed_quantity == 40


def test_such_a_row_of_an_open_order_halts_nothing() -> None:
    stage = Stage()
    intent = stage.working()

    stage.after(1).book(report_of(intent, quantity=200, executed=90))

    assert _alerts(stage) == ["ROW_AMBIGUOUS"]


def _changed_after_its_end(*, lives: bool):
    """An order that has ended here, and a row of it that shows another quantity and more traded."""
    stage = Stage()
    intent = stage.working(1_000)
    ended = report_of(intent, cancelled=1_000, remaining=0, state=S.CANCELLED, status="CANCELLED")
    stage.after(1).book(ended)
    order_id = "ORD2" if lives else "ORD1"

    def rows(executed: int):
        end: dict[str, Any] = {"remaining": 0, "state": S.CANCELLED, "status": "CANCELLED"}
        end |= {"quantity": 700, "executed": executed, "cancelled": 700 - executed}
        changed = report_of(intent, order_id, root_order_id="ORD1", **end)
        return [ended, changed] if lives else [changed]

    return stage, intent, rows


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("symbol", ["HPG", None])
def test_a_resume_takes_the_quantity_of_an_ended_order_and_it_halts_nothing_again(
    lives, symbol
) -> None:
    stage, _, rows = _changed_after_its_end(lives=lives)
    for _ in range(2):
        stage.after(15).book(*rows(200))
    halted = dict(stage.engine.status().halted_symbols)
    told = stage.all(Note)

    stage.handle(OperatorActed(stage.now, Action.RESUME, "changed by me", "me", symbol=symbol))
    for _ in range(3):
        stage.after(15).book(*rows(200))

    assert halted == {"HPG": "ORD1: it is an order of 700, ours is of 1,000"}
    assert any("takes a quantity of 700 for its own" in note.text for note in told)
    assert stage.engine.status().halted_symbols == {}
    assert [fill.quantity for fill in stage.all(Fill)] == [200]
    assert stage.entries_of_order().state is S.CANCELLED


def test_what_a_resume_has_taken_for_an_ended_orders_own_halts_nothing_after_a_restart() -> None:
    first, intent, rows = _changed_after_its_end(lives=False)
    first.after(15).book(*rows(200))
    first.handle(OperatorActed(first.now, Action.RESUME, "changed by me", "me", symbol="HPG"))
    first.after(15).book(*rows(200))

    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    recovery = Recovery(DAY, 2, intents=(stored,), orders=(first.entries_of_order(),))
    stage = Stage(recovery=recovery)
    stage.after(60).book(*rows(200))

    assert stage.engine.status().halted_symbols == {}
    assert stage.all(Fill) == []


def test_an_ended_orders_row_is_in_question_until_it_is_resumed() -> None:
    stage, _, rows = _changed_after_its_end(lives=False)
    stage.after(15).book(*rows(200))
    assert doubts.is_in_question(stage.engine._state, "HPG")

    stage.handle(OperatorActed(stage.now, Action.RESUME, "changed by me", "me", symbol="HPG"))

    assert not doubts.is_in_question(stage.engine._state, "HPG")
    assert stage.new(ReadOrder) == [ReadOrder("ORD1", "its quantity is right")]
