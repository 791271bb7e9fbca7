from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.entry import Fill, IntentMoved
from bot.domain.message import TradingDayStarted
from bot.domain.operations import EarlierOrdersRead
from bot.domain.order import TERMINAL_STATES, OrderState, SendState, Side
from bot.domain.outcome import Unknown
from bot.engine.orders.matching import belongs, contradiction, merged, parts_of
from tests.engine.stage import DAY, START, Stage, report_of

S = OrderState


def _partly_filled():
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.after(1).book(report_of(intent, executed=200))
    order = stage.engine.status().open_orders[0]
    return intent, order


CHANGES = [
    {"quantity": 600},
    {"order_type": "MTL"},
    {"price": 27_100},
    {"executed": 300},
    {"cancelled": 100},
    {"status": "FIXING"},
    {"message": "a word"},
    {"state": S.PENDING_CANCEL},
    {"state": S.CANCELLED, "cancelled": 300},
]


@pytest.mark.parametrize("changes", CHANGES)
def test_only_a_report_that_shows_something_new_makes_a_new_row(changes):
    intent, row = _partly_filled()
    same, other = report_of(intent, executed=200), report_of(intent, **{"executed": 200, **changes})

    assert merged(row, same, is_newer=True) is row
    assert merged(row, replace(same, price=None, order_type=""), is_newer=True) is row
    assert merged(row, other, is_newer=True) != row


def test_an_earlier_row_of_an_enlarged_order_does_not_end_it():
    intent, row = _partly_filled()
    amended = replace(row, state=S.PENDING_REPLACE)
    enlarged = report_of(intent, quantity=600, executed=550)

    after = merged(amended, enlarged, is_newer=False)

    assert (after.quantity, after.executed_quantity, after.state) == (600, 550, S.PENDING_REPLACE)


def test_an_order_that_was_made_smaller_is_filled_by_what_an_earlier_row_shows_of_the_larger_one():
    intent, row = _partly_filled()
    reduced = replace(row, quantity=300)

    after = merged(reduced, report_of(intent, executed=300), is_newer=False)

    assert (after.quantity, after.executed_quantity, after.state) == (300, 300, S.FILLED)


OTHERS = [
    ({"symbol": "SSI"}, "it is about SSI, the order is in HPG"),
    ({"side": Side.SELL}, "it is a SELL, the order a BUY"),
    ({"account": "120C999999.1"}, "it is of another account"),
]
UNEXPLAINED = [
    ({"quantity": 0, "executed": 0, "remaining": 0}, "it is an order of 0, ours is of 500"),
    ({"quantity": 900}, "it is an order of 900, ours is of 500"),
    ({"quantity": 400}, "it is an order of 400, ours is of 500"),
    ({"trading_date": date(2026, 11, 18)}, "it is of 2026-11-18, the order of 2026-11-19"),
]


@pytest.mark.parametrize(("changes", "why"), OTHERS + UNEXPLAINED)
def test_a_row_belongs_to_an_order_that_it_agrees_with(changes, why):
    intent, row = _partly_filled()

    assert belongs(row, report_of(intent, executed=200), {500}) is None
    assert belongs(intent, report_of(intent, executed=200), {500}) is None
    assert belongs(row, report_of(intent, **{"executed": 200, **changes}), {500}) == why


def test_a_quantity_that_an_amendment_of_ours_explains_belongs():
    intent, row = _partly_filled()

    assert belongs(row, report_of(intent, quantity=700), {500, 700}) is None


def test_a_row_s_own_time_says_nothing_about_whose_it_is():
    intent, row = _partly_filled()

    assert belongs(row, report_of(intent, placed_at=START - timedelta(hours=2)), {500}) is None


CONTRADICTIONS = [
    *OTHERS,
    ({"executed": -100}, "it shows a negative executed quantity, -100"),
    ({"cancelled": -100}, "it shows a negative cancelled quantity, -100"),
    ({"quantity": -500}, "it shows a negative ordered quantity, -500"),
    ({"executed": 600}, "it shows 600 executed of 500 ordered"),
    ({"executed": 600, "quantity": 900}, "it shows 600 executed of 500 ordered"),
    ({"executed": 300, "quantity": 0}, "it shows 300 executed of 0 ordered"),
    ({"executed": 300, "executed_amount": 300 * 27_050 + 300}, "is not"),
    ({"executed": 300, "executed_amount": 300 * 27_050 - 300}, "is not"),
    ({"executed": 300, "average": 18_000}, "its amount fell from 5,410,000 to 5,400,000"),
    (
        {"executed": 400, "executed_amount": 200 * 27_050, "average_price": 13_525},
        "rose from 200 to 400, and its amount stayed at 5,410,000",
    ),
]


@pytest.mark.parametrize(("changes", "text"), CONTRADICTIONS)
def test_a_row_that_cannot_be_true_is_named(changes, text):
    intent, row = _partly_filled()
    report = report_of(intent, requested_at=START + timedelta(seconds=9), **changes)

    assert text in (contradiction(row, report, {500}) or "")


def test_shares_whose_money_has_not_come_yet_are_no_fill_for_nothing():
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.after(1).book(report_of(intent, executed=200))

    early = replace(
        report_of(intent, executed=400), executed_amount=5_410_000, average_price=13_525
    )
    stage.after(10).book(early)
    halted = dict(stage.engine.status().halted_symbols)
    stage.after(10).book(report_of(intent, executed=400))

    assert [(fill.quantity, fill.amount) for fill in stage.all(Fill)] == [(200, 5_410_000)] * 2
    assert list(halted) == ["HPG"]


SLIPS = [
    ({"price": 27}, "its price 27 is more than 5 times off 27,000"),
    ({"price": 270_000}, "its price 270,000 is more than 5 times off 27,000"),
    ({"executed": 300, "average": 27}, "its average price 27 is more than 5 times off 27,000"),
]


@pytest.mark.parametrize(("changes", "text"), SLIPS)
def test_a_price_in_another_unit_cannot_be_true(changes, text):
    stage = Stage()
    report = report_of(stage.working(500), **changes)

    assert contradiction(stage.entries_of_order(), report, {500}, [27_000, 26_950]) == text


@pytest.mark.parametrize("price", [5_400, 135_000])
def test_a_price_that_is_five_times_off_is_not_more_than_that(price):
    stage = Stage()
    report = report_of(stage.working(500), price=price)

    assert contradiction(stage.entries_of_order(), report, {500}, [27_000]) is None


def test_a_price_near_the_symbols_last_one_may_be_far_off_the_orders_own():
    stage = Stage()
    report = report_of(stage.working(500), executed=500, average=5_000)

    assert contradiction(stage.entries_of_order(), report, {500}, [27_000, 5_100]) is None


@pytest.mark.parametrize("changes", [changes for changes, _ in SLIPS])
def test_a_row_in_another_unit_halts_the_symbol_and_frees_no_money(changes):
    stage = Stage()
    intent = stage.working(500)

    stage.after(1).book(report_of(intent, **changes))

    assert (stage.entries_of_order().price, stage.all(Fill)) == (27_000, [])
    assert "HPG" in stage.engine.status().halted_symbols


@pytest.mark.parametrize(
    "changes",
    [
        {"executed": 300, "executed_amount": 300 * 27_050 + 299},
        {"executed": 300, "average": 18_100},
        {"executed": 500},
    ],
)
def test_a_row_that_is_inexact_contradicts_nothing(changes):
    intent, row = _partly_filled()

    assert contradiction(row, report_of(intent, **changes), {500}) is None


def test_no_shares_are_bought_for_nothing_by_a_history_that_does_not_say_for_what():
    """Without its amount and its average both are 0 in a row of the order history."""
    stage = Stage()
    intent = stage.working(500)
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    row = replace(report_of(intent, executed=500), average_price=0, executed_amount=0)

    stage.handle(EarlierOrdersRead(stage.now, (row,)))

    assert stage.all(Fill) == []
    halted = stage.engine.status().halted_symbols["HPG"]
    assert halted == "ORD1: it shows 500 executed for 0 VND"


@pytest.mark.parametrize("changes", [changes for changes, _ in CONTRADICTIONS])
def test_such_a_row_halts_the_symbol_and_changes_nothing(changes):
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.after(1).book(report_of(intent, executed=200))
    before = stage.engine.status().open_orders

    stage.after(1).book(report_of(intent, **changes))

    assert stage.engine.status().open_orders == before
    assert "HPG" in stage.engine.status().halted_symbols


def test_an_order_whose_first_row_cannot_be_true_is_still_ours_and_in_the_journal():
    stage = Stage()
    intent = stage.buy(500, 27_050)
    stage.send(intent)
    stage.answer(intent, Unknown("reset"))

    stage.after(1).book(report_of(intent, executed=600))

    row = stage.entries_of_order()
    assert (row.intent_id, row.state, row.executed_quantity) == (intent.intent_id, S.ACCEPTED, 0)
    assert "600 executed of 500" in stage.engine.status().halted_symbols["HPG"]
    stage.after(1).book(report_of(intent, executed=500))
    assert stage.entries_of_order().state is S.FILLED


def test_an_older_row_of_an_ended_order_is_no_news():
    stage = Stage()
    intent = stage.working(500)
    asked = stage.after(1).now
    stage.after(1).book(report_of(intent, cancelled=500, state=S.CANCELLED, status="CANCELLED"))

    stage.after(1).book(report_of(intent, status="SENT"), asked_at=asked)

    assert stage.engine.status().halted_symbols == {}


# ---------------------------------------------------------------------------- an order in parts


def _parts(intent, *quantities, **changes):
    return [
        report_of(intent, f"ORD{number}", quantity=quantity, **changes)
        for number, quantity in enumerate(quantities, 1)
    ]


@pytest.mark.parametrize(
    ("quantities", "found"),
    [
        ((100, 50), (100, 50)),
        ((50, 100, 70), (50, 100)),
        ((100, 30, 20), (100, 30, 20)),
        ((150, 100, 50), (100, 50)),
        ((100, 40), ()),
        ((150,), ()),
        ((), ()),
    ],
)
def test_rows_that_sum_to_an_order_may_be_its_parts(quantities, found):
    rows = _parts(Stage().buy(), *quantities)

    assert tuple(part.quantity for part in parts_of(150, rows)) == found


def test_parts_have_one_price():
    intent = Stage().buy()
    rows = [*_parts(intent, 100), *_parts(intent, 50, price=27_050)]

    assert parts_of(150, rows) == ()


def test_an_order_that_the_broker_has_split_is_for_a_person_to_judge():
    stage = Stage()
    intent = stage.buy(300)
    stage.send(intent)
    stage.answer(intent, Unknown("reset"))

    stage.after(1).book(*_parts(intent, 200, 100))

    assert stage.last(IntentMoved).to_state is SendState.AMBIGUOUS
    assert stage.last(IntentMoved).reason == "ORD1, ORD2 together are its 300 shares"
    assert stage.all(Fill) == []


# ---------------------------------------------------------------------- any order of arrival

_QUANTITY = 500
_ENDS = (S.CANCELLED, S.EXPIRED, S.ACCEPTED)


@st.composite
def histories(draw):
    """A true story of one order: executed only grows, and the last row may end it."""
    steps = draw(st.lists(st.integers(0, _QUANTITY), min_size=1, max_size=5).map(sorted))
    prices = draw(st.lists(st.integers(26_000, 27_050), min_size=5, max_size=5))
    rows, executed, amount = [], 0, 0
    for number, total in enumerate(steps):
        amount += (total - executed) * prices[number]
        executed = total
        rows.append((number, executed, amount, 0, S.ACCEPTED))
    end = draw(st.sampled_from(_ENDS))
    if executed < _QUANTITY and end is not S.ACCEPTED:
        rows.append((len(steps), executed, amount, _QUANTITY - executed, end))
    return rows


def _rows(intent, history):
    return [
        report_of(
            intent,
            executed=executed,
            cancelled=cancelled,
            state=state,
            status=state,
            average_price=amount // executed if executed else 0,
            executed_amount=amount,
            requested_at=START + timedelta(seconds=number + 1),
        )
        for number, executed, amount, cancelled, state in history
    ]


def _final(history, order):
    stage = Stage()
    intent = stage.working(_QUANTITY, 27_050)
    rows = _rows(intent, history)
    stage.after(60)
    for index in order:
        stage.book(rows[index], asked_at=rows[index].requested_at)
    row = stage.entries_of_order("ORD1")
    fills = stage.all(Fill)
    return (
        replace(row, at=START, note=""),
        sum(fill.quantity for fill in fills),
        sum(fill.amount for fill in fills),
        sum(fill.fee for fill in fills),
    )


@given(st.data())
def test_any_order_of_arrival_ends_in_the_same_picture(data):
    history = data.draw(histories())
    straight = list(range(len(history)))
    order = data.draw(st.permutations(straight))
    twice = data.draw(st.sampled_from([order, order + order, order + straight]))

    row, quantity, amount, fee = _final(history, straight)

    assert _final(history, twice) == (row, quantity, amount, fee)
    assert quantity == row.executed_quantity <= row.quantity
    assert amount == row.executed_amount
    assert fee == row.fee


@given(histories())
def test_a_filled_or_ended_order_is_never_open_again(history):
    stage = Stage()
    intent = stage.working(_QUANTITY, 27_050)
    stage.after(60)

    was_ended = False
    for row in _rows(intent, history):
        stage.book(row, asked_at=row.requested_at)
        state = stage.entries_of_order("ORD1").state
        assert not was_ended or state in TERMINAL_STATES
        was_ended = state in TERMINAL_STATES


def test_an_order_becomes_at_most_three_parts() -> None:
    rows = _parts(Stage().buy(), 10, 20, 30, 90)

    assert parts_of(150, rows) == ()
