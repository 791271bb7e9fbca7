from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import (
    Decision,
    Fill,
    IntentMoved,
    Note,
    OrderResultSeen,
    OrderUpdated,
    Transition,
)
from bot.domain.errors import InvariantBroken
from bot.domain.message import (
    AmendAnswered,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    ReadAccount,
    ReadOrder,
    ReadTodaysOrders,
)
from bot.domain.order import ORDER_MOVES, SEND_MOVES, OrderState, SendState, Side
from bot.domain.outcome import LACKS_2FA, Accepted, NotSent, Refused, Unknown
from bot.engine.gate import IllegalMove
from bot.engine.orders import sends
from bot.engine.orders.orders import claim, external_order, move_intent, move_unplaced
from bot.engine.settings import EngineSettings, invoke_plainly
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent
from tests.engine.stage import PLAN, RULEBOOK, START, Stage, report_of, result_of
from tests.rows import every_row


def transitions(stage):
    return [(one.from_state, one.to_state) for one in stage.all(Transition)]


def test_an_accepted_order_is_recorded_and_polled_with_back_off():
    stage = Stage()

    intent = stage.working()

    assert transitions(stage) == [
        (None, OrderState.INITIALIZED),
        (OrderState.SUBMITTED, OrderState.ACCEPTED),
    ]
    assert stage.last(OrderUpdated).state is OrderState.ACCEPTED
    waits = []
    for _ in range(8):
        due = stage.due()
        waits.append((due - stage.now).total_seconds())
        stage.now = due
        assert stage.pass_time(0) == [ReadTodaysOrders("poll L-0001")]
        stage.book(report_of(intent))
    assert waits == [0.5, 1, 2, 4, 8, 15, 15, 15]


def test_partial_fills_sum_to_the_whole_in_money_fee_and_position():
    stage = Stage()
    intent = stage.working(500, 27_050)

    stage.after(1).book(report_of(intent, executed=100, average=27_000))
    stage.after(1).book(
        report_of(intent, executed=500, average_price=27_030, executed_amount=13_515_001)
    )

    first, second = stage.all(Fill)
    assert (first.fill_id, first.quantity, first.amount, first.price) == (
        "F-0001",
        100,
        2_700_000,
        27_000,
    )
    assert (second.fill_id, second.quantity, second.amount) == ("F-0002", 400, 10_815_001)
    assert first.fee + second.fee == RULEBOOK.fee(13_515_001)
    assert [first.position, second.position] == [100, 500]
    assert [kind for kind, _ in stage.told] == ["fill", "fill"]
    assert stage.new(ReadAccount) == [ReadAccount("fill F-0002")]
    assert transitions(stage)[-2:] == [
        (OrderState.ACCEPTED, OrderState.PARTIALLY_FILLED),
        (OrderState.PARTIALLY_FILLED, OrderState.FILLED),
    ]


def test_a_sale_realises_against_average_cost_and_pays_tax():
    stage = Stage(sellable=1_000)
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    stage.after(61).quote()
    stage.request(lambda s: s.sell(100, limit=27_500))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")

    stage.after(1).book(report_of(sale, "ORD2", executed=100))

    fill = stage.last(Fill)
    assert (fill.side, fill.realised, fill.position) == (Side.SELL, 50_000, 100)
    assert fill.tax == RULEBOOK.sale_tax(2_750_000)


def test_an_unchanged_row_records_nothing():
    stage = Stage()
    intent = stage.working()

    stage.after(1)

    assert stage.book(report_of(intent)) == []


def test_absence_in_the_day_book_changes_nothing():
    stage = Stage()
    stage.working()

    stage.after(1)

    assert stage.book() == []
    assert len(stage.engine.status().open_orders) == 1


def test_a_rejection_inside_a_200_is_told_and_never_sent_again():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    result = result_of(
        intent, state=OrderState.REJECTED, status="REJECTED", code="-900017", reason="Giá"
    )

    stage.answer(intent, Refused("-900017", "Giá", 200, result))

    row = stage.last(OrderUpdated)
    assert (row.state, row.code, row.reason, row.order_id) == (
        OrderState.REJECTED,
        "-900017",
        "Giá",
        "ORD1",
    )
    assert transitions(stage)[-1] == (OrderState.SUBMITTED, OrderState.REJECTED)
    (kind, rejection) = stage.told[0]
    assert (kind, rejection.code, rejection.intent_id) == ("reject", "-900017", "L-0001")
    assert stage.engine.next_due() is None


@pytest.mark.parametrize(
    ("outcome", "state", "code"),
    [
        (Refused("400", "Invalid parameter", 400), SendState.REFUSED, "400"),
        (NotSent("connect failed"), SendState.NOT_SENT, "NOT_SENT"),
    ],
)
def test_what_is_certain_ends_the_intent(outcome, state, code):
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    stage.answer(intent, outcome)

    assert stage.last(IntentMoved).to_state is state
    assert stage.told[0][1].code == code
    assert stage.all(OrderUpdated) == []


def test_what_never_left_expires_here():
    stage = Stage()
    intent = stage.buy()

    stage.handle(PlaceAnswered(stage.now, intent.intent_id, NotSent("signal too old"), None))

    assert stage.last(IntentMoved).to_state is SendState.EXPIRED_LOCAL
    assert transitions(stage)[-1] == (OrderState.INITIALIZED, OrderState.EXPIRED)


def test_a_second_answer_changes_nothing():
    stage = Stage()
    intent = stage.working()
    before = stage.engine.status().open_orders

    stage.answer(intent, Refused("400", "late", 400))

    assert stage.engine.status().open_orders == before
    assert stage.last(Note).kind == "ALERT"


def test_an_illegal_order_move_leaves_the_state_and_is_alerted_once():
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent, executed=200))

    for _ in range(2):
        stage.after(1).book(
            report_of(intent, executed=200, state=OrderState.REJECTED, status="REJECTED")
        )

    assert stage.entries_of_order().state is OrderState.PARTIALLY_FILLED
    assert len([note for note in stage.all(Note) if note.kind == "ALERT"]) == 1


def test_a_late_fill_of_an_ended_order_still_counts():
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent, cancelled=500, state=OrderState.CANCELLED))

    stage.after(1).book(report_of(intent, executed=200, cancelled=300))

    assert stage.last(Fill).quantity == 200
    assert stage.entries_of_order().state is OrderState.CANCELLED


def test_an_unknown_status_is_live_and_alerted_once():
    stage = Stage()
    intent = stage.working()

    for number in range(2):
        stage.after(1).book(report_of(intent, state=None, status="HOVERING", raw=str(number)))

    assert stage.entries_of_order().state is OrderState.ACCEPTED
    [alert] = [note for note in stage.all(Note) if note.kind == "ALERT"]
    assert (alert.numbers["alert"], alert.numbers["status"]) == ("STATUS_UNKNOWN", "HOVERING")
    assert "status 'HOVERING' is unknown; it counts as open" in alert.text


def test_an_external_order_is_counted_and_never_touched():
    stage = Stage()
    intent = stage.working()
    other = report_of(intent, "ORD9", quantity=700, price=26_000, remaining_quantity=700)

    stage.after(1).book(report_of(intent), other)

    row = stage.entries_of_order("ORD9")
    assert (row.intent_id, row.strategy, row.note) == (None, None, "not placed here")
    stage.after(1).book(
        report_of(intent),
        replace(
            other,
            executed_quantity=700,
            average_price=26_000,
            executed_amount=18_200_000,
            remaining_quantity=0,
        ),
    )
    assert stage.all(Fill) == []
    assert stage.entries_of_order("ORD9").state is OrderState.FILLED


def test_an_accepted_order_that_the_book_showed_first_is_ours():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.book(report_of(intent))

    stage.answer(intent, Accepted(result_of(intent)))

    assert stage.entries_of_order().intent_id == "L-0001"
    assert len(stage.engine.status().open_orders) == 1


def test_an_amendment_is_what_the_row_shows():
    stage = Stage()
    intent = stage.working(500, 27_000)

    done = stage.handle(AmendAnswered(stage.now, "ORD1", Accepted(result_of(intent)), None))
    stage.after(1).row(report_of(intent, price=26_950))

    assert ReadOrder("ORD1", "after amend") in done
    assert stage.new(OrderResultSeen)[0].source == "detail"
    row = stage.entries_of_order()
    assert (row.price, row.state) == (26_950, OrderState.ACCEPTED)


def test_a_row_asked_for_before_our_command_says_nothing_about_the_status():
    stage = Stage()
    intent = stage.working(500)
    stage.after(5).handle(AmendAnswered(stage.now, "ORD1", Accepted(result_of(intent)), None))
    old = START + timedelta(seconds=2)

    stage.book(report_of(intent, state=OrderState.PENDING_REPLACE, executed=100), asked_at=old)

    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity) == (OrderState.PARTIALLY_FILLED, 100)


# --------------------------------------------------------------------------------------- the tables


def _tracked(state=SendState.READY, order_state=OrderState.INITIALIZED):
    return TrackedIntent(Stage().buy(), state, order_state)


def _state():
    return State(rulebook=RULEBOOK, strategies=[], settings=EngineSettings(), invoke=invoke_plainly)


@every_row("from_state", list(SendState))
@every_row("to_state", list(SendState))
def test_send_moves_are_the_tables_and_no_others(from_state, to_state):
    book, tracked = _state(), _tracked(from_state)

    if to_state in SEND_MOVES[from_state]:
        move_intent(book, tracked, to_state, "why", proof="proof")
        assert tracked.state is to_state
    else:
        with pytest.raises(IllegalMove):
            move_intent(book, tracked, to_state, "why", proof="proof")
        assert (tracked.state, book.drain()) == (from_state, [])


@every_row("from_state", list(OrderState))
def test_order_moves_are_the_tables_and_no_others(from_state):
    for to_state in OrderState:
        book, tracked = _state(), _tracked(order_state=from_state)
        if to_state in ORDER_MOVES[from_state]:
            move_unplaced(book, tracked, to_state, source="place")
            assert tracked.order_state is to_state
        else:
            with pytest.raises(IllegalMove):
                move_unplaced(book, tracked, to_state, source="place")
            assert (tracked.order_state, book.drain()) == (from_state, [])


def test_a_verdict_without_proof_is_our_bug():
    with pytest.raises(InvariantBroken, match="proof"):
        move_intent(_state(), _tracked(SendState.FRESH), SendState.NOT_PLACED, "never placed")


def test_a_cancel_and_its_reason_are_a_decision():
    stage = Stage()
    stage.working()

    stage.request(lambda s: s.cancel(why="changed my mind"))

    decision = stage.last(Decision)
    assert (decision.code, decision.why, decision.request_id) == (
        "CANCEL",
        "changed my mind",
        "L-0001",
    )


# ------------------------------------------------------------------- what an order leaves behind it


def test_fills_and_ends_are_counted_once_each():
    stage = Stage()
    intent = stage.working(500)
    stage.after(1).book(report_of(intent, executed=200))
    stage.after(1).book(report_of(intent, executed=500, status="MATCHED"))
    stage.after(1).book(report_of(intent, executed=500, status="MATCHED_ALL"))
    refused = stage.after(5).buy(300, 26_000)
    stage.send(refused)
    stage.answer(refused, Refused("-100013", "no cash", 400))
    lost = stage.buy(200)
    stage.send(lost)
    stage.answer(lost, Unknown("deadline"))

    counts = stage.engine.status().counts
    ends = {state.lower() for state in OrderState}
    told = {key: n for key, n in counts.items() if key in ends | {"fills"}}
    assert told == {"fills": 2, "filled": 1, "unknown": 1, "rejected": 1}


def test_an_order_that_was_accepted_is_known_before_the_next_one_is_sent():
    stage = Stage()
    stage.working()
    later = stage.after(60).buy(200)

    stage.send(later)

    assert "ORD1" in stage.engine._state.intents[later.intent_id].known_ids


def test_a_row_that_changes_an_order_has_the_list_read_soon_again():
    stage = Stage()
    intent = stage.working(500)
    for _ in range(60):
        stage.pass_time(1)
        stage.book(report_of(intent))

    stage.book(report_of(intent, executed=200))

    assert stage.due() == stage.now + timedelta(seconds=0.5)


def test_the_reason_of_an_order_made_elsewhere_is_kept():
    stage = Stage()
    other = report_of(Stage().buy(), "APP1", message="Giá")

    stage.after(1).book(other)

    assert stage.entries_of_order("APP1").reason == "Giá"
    assert stage.all(OrderResultSeen)[-1].order_id == "APP1"


@pytest.mark.parametrize("reason", ["Giá", None])
def test_a_rejection_that_only_a_row_shows_is_told_with_what_the_broker_said(reason):
    stage = Stage()
    intent = stage.working()
    row = report_of(intent, state=OrderState.REJECTED, status="REJECTED", message=reason or "")

    stage.after(1).book(row)

    (kind, rejection) = stage.told[-1]
    assert (kind, rejection.code, rejection.reason) == ("reject", "REJECTED", reason or "")


def test_an_order_whose_first_row_contradicts_itself_keeps_the_status_that_it_shows():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    stage.answer(intent, Accepted(result_of(intent, executed_quantity=900, status="SENT")))

    assert stage.entries_of_order().broker_status == "SENT"


# ------------------------------------------------------------------------ an answer and its order


@pytest.mark.parametrize(
    ("executed", "state", "status"),
    [
        (100, OrderState.FILLED, "MATCHED_ALL"),
        (40, OrderState.ACCEPTED, "SENT"),
        (40, OrderState.CANCELLED, "CANCELLED"),
        (40, OrderState.REJECTED, "REJECTED"),
    ],
)
def test_what_an_answer_shows_as_traded_is_counted_by_its_row_which_is_asked_for(
    executed, state, status
):
    stage = Stage()
    intent = stage.buy(100)
    stage.send(intent)
    traded = {"executed_quantity": executed, "executed_amount": executed * 27_000}
    result = result_of(intent, average_price=27_000, state=state, status=status, **traded)
    is_refused = state is OrderState.REJECTED
    stage.answer(intent, Refused("-1", "no", 200, result) if is_refused else Accepted(result))

    row = stage.entries_of_order()
    assert (row.state, row.executed_quantity, row.broker_status) == (
        OrderState.ACCEPTED,
        0,
        status,
    )
    assert stage.engine.status().halted_symbols == {}
    assert [type(one) for one in stage.pass_time(0.5)] == [ReadTodaysOrders]

    cancelled = 0 if state in {OrderState.ACCEPTED, OrderState.FILLED} else 60
    shown = report_of(intent, executed=executed, cancelled=cancelled, state=state, status=status)
    stage.book(replace(shown, executed_amount=executed * 27_000 + 30))

    row = stage.entries_of_order()
    ends = OrderState.PARTIALLY_FILLED if state is OrderState.ACCEPTED else state
    assert (row.state, row.executed_amount) == (ends, executed * 27_000 + 30)
    assert [fill.quantity for fill in stage.all(Fill)] == [executed]


def _answered_as_filled():
    stage = Stage()
    intent = stage.buy(100)
    stage.send(intent)
    result = result_of(
        intent,
        state=OrderState.FILLED,
        status="MATCHED_ALL",
        executed_quantity=100,
        executed_amount=2_700_000,
        average_price=27_000,
    )
    stage.answer(intent, Accepted(result))
    return stage, intent


def _read_by_id(stage, seconds):
    looks = [stage.pass_time(1) for _ in range(seconds)]
    return sum(isinstance(one, ReadOrder) for done in looks for one in done)


def test_what_an_answer_shows_as_traded_is_read_by_its_id_until_a_row_comes():
    stage, intent = _answered_as_filled()
    assert [one.order_id for one in stage.new(ReadOrder)] == ["ORD1"]

    for _ in range(30):  # the day order book can't be read, nor can the order itself
        assert _read_by_id(stage, 10) == 2
        stage.handle(OrderRead(stage.now, "ORD1", None, is_unreadable=True))
    stage.row(None)
    assert _read_by_id(stage, 10) >= 2
    stage.row(report_of(intent, executed=100, state=OrderState.FILLED, status="MATCHED_ALL"))

    assert stage.entries_of_order().state is OrderState.FILLED
    assert stage.engine.status().positions[0].shares == 100
    assert _read_by_id(stage, 60) == 0


@pytest.mark.parametrize("executed", [0, 40])
def test_a_row_that_shows_less_than_its_answer_is_not_the_last_one_that_is_read(executed):
    stage, intent = _answered_as_filled()

    stage.after(1).row(report_of(intent, executed=executed))

    assert _read_by_id(stage, 60) >= 10
    stage.row(report_of(intent, executed=100, state=OrderState.FILLED, status="MATCHED_ALL"))
    assert stage.engine.status().positions[0].shares == 100
    assert _read_by_id(stage, 60) == 0


def test_a_row_that_ends_an_order_is_the_last_one_though_it_shows_less_than_its_answer():
    stage, intent = _answered_as_filled()

    end = OrderState.CANCELLED
    row = report_of(intent, executed=40, cancelled=60, state=end, status="CANCELLED")
    stage.after(1).book(row)

    assert _read_by_id(stage, 60) == 0


def test_an_answer_that_shows_nothing_traded_has_nothing_read_by_id():
    stage = Stage()

    stage.working()

    assert stage.new(ReadOrder) == []
    assert _read_by_id(stage, 60) == 0


def test_a_row_that_was_asked_for_while_the_answer_was_under_way_is_newer_than_it():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(5).answer(intent, Accepted(result_of(intent)))

    row = report_of(intent, state=OrderState.CANCELLED, status="CANCELLED", cancelled=100)
    stage.book(row, asked_at=START + timedelta(seconds=3))

    assert stage.entries_of_order().state is OrderState.CANCELLED


def test_a_row_that_was_asked_for_while_a_refusal_was_under_way_contradicts_it():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    no = result_of(intent, state=OrderState.REJECTED, status="REJECTED", code="-900017")
    stage.after(5).answer(intent, Refused("-900017", "no", 200, no))

    stage.book(report_of(intent), asked_at=START + timedelta(seconds=3))

    assert stage.last(Note).numbers["alert"] == "STALE_ROW"


@pytest.mark.parametrize("outcome", [Unknown("lost"), NotSent("no room")])
def test_an_answer_that_could_not_be_processed_changes_no_order_that_is_settled(outcome):
    stage = Stage()
    intent = stage.working()
    before = stage.engine._state.intents[intent.intent_id].state

    sends.doubt(stage.engine._state, PlaceAnswered(stage.now, intent.intent_id, outcome, None))
    sends.doubt(stage.engine._state, PlaceAnswered(stage.now, "L-0009", outcome, None))

    assert before is SendState.ACKED
    assert stage.engine._state.intents[intent.intent_id].state is SendState.ACKED


def test_an_answer_to_what_nobody_knows_is_told_and_changes_nothing():
    stage = Stage()
    intent = stage.buy()

    stage.handle(PlaceAnswered(stage.now, "L-0009", Accepted(result_of(intent)), None))

    assert stage.last(Note).numbers == {"alert": "ANSWER_NOT_AWAITED", "intent_id": "L-0009"}
    assert stage.engine.status().open_orders == ()


def test_an_order_that_lacked_a_token_and_is_not_held_has_ended():
    stage = Stage(replace(PLAN, hold_2fa=None))
    intent = stage.buy()
    stage.send(intent)

    stage.answer(intent, NotSent(f"{LACKS_2FA} while it waited"))

    assert stage.last(IntentMoved).to_state is SendState.NOT_SENT
    assert stage.told[-1][1].code == "NOT_SENT"


def test_nothing_of_a_strategy_that_is_gone_keeps_its_order_back():
    stage = Stage()
    intent = replace(stage.buy(), strategy="gone")

    assert stage.engine.reason_not_to_send(intent) is None


def test_one_share_that_an_earlier_row_had_shown_is_ours_with_the_row_that_is_said_to_be_ours():
    stage = Stage()
    theirs = report_of(stage.buy(), "ORD7", executed=100)
    external_order(stage.engine._state, theirs, "not placed here")
    before = replace(theirs, executed_quantity=99, executed_amount=99 * 27_000)

    claimed = claim(stage.engine._state, replace(before, remaining_quantity=1))

    assert claimed == replace(theirs, requested_at=claimed.requested_at)
    assert (claimed.executed_quantity, claimed.remaining_quantity) == (100, 0)


def test_what_an_earlier_row_had_shown_leaves_no_share_less_than_none_open():
    stage = Stage()
    theirs = report_of(stage.buy(), "ORD7", executed=100)
    external_order(stage.engine._state, theirs, "not placed here")

    claimed = claim(stage.engine._state, replace(theirs, executed_quantity=50))

    assert (claimed.executed_quantity, claimed.remaining_quantity) == (100, 0)


def test_an_answer_that_says_less_than_nothing_was_executed_is_claimed_as_it_is():
    stage = Stage()
    theirs = report_of(stage.buy(), "ORD7")
    external_order(stage.engine._state, theirs, "not placed here")

    claimed = claim(stage.engine._state, replace(theirs, executed_quantity=-1))

    assert (claimed.executed_quantity, claimed.average_price) == (-1, 0)
