from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import Decision, Fill, IntentMoved, Note, Transition, Verdict
from bot.domain.message import (
    BurnNonce,
    EarlierOrdersRead,
    NonceBurnt,
    PlaceOrder,
    ReadTodaysOrders,
    Record,
    SendStarted,
    TodaysOrdersRead,
    TradingDayStarted,
)
from bot.domain.order import OrderState, OrderType, SendState, Side
from bot.domain.outcome import NotSent, Refused, Resolution, Unknown
from bot.domain.plan import OrderPlan
from bot.engine.settings import EngineSettings, UnknownPolicy
from tests.engine.stage import ACCOUNT, DAY, PLAN, START, Stage, report_of, result_of
from tests.rows import every_row


def _unknown(stage=None, quantity=100):
    stage = stage or Stage()
    intent = stage.buy(quantity)
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    return stage, intent


def _burn(stage, intent, resolution):
    return stage.handle(NonceBurnt(stage.now, intent.intent_id, resolution, "burn"))


def _states(stage):
    return [move.to_state for move in stage.all(IntentMoved)]


def test_an_unknown_place_is_asked_after_and_never_sent_again():
    stage, intent = _unknown()

    assert stage.new(BurnNonce) == [BurnNonce("L-0001")]
    assert stage.new(ReadTodaysOrders) == [ReadTodaysOrders("unknown L-0001")]
    assert stage.all(Transition)[-1].to_state is OrderState.UNKNOWN
    for _ in range(50):
        stage.pass_time(7)
        stage.book()
    assert stage.all(PlaceOrder) == [PlaceOrder(intent)]


def test_a_row_in_the_day_book_settles_it():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)

    stage.after(1).book(report_of(intent, "ORD7", executed=100))

    assert _states(stage) == [SendState.UNKNOWN, SendState.REACHED, SendState.MATCHED]
    assert stage.entries_of_order("ORD7").intent_id == "L-0001"
    assert stage.last(Fill).quantity == 100
    assert stage.last(Transition).from_state is OrderState.UNKNOWN


def test_a_row_settles_it_before_the_burn_has_answered():
    stage, intent = _unknown()

    stage.after(1).book(report_of(intent))
    _burn(stage, intent, Resolution.REACHED)

    assert _states(stage) == [SendState.UNKNOWN, SendState.MATCHED]


@pytest.mark.parametrize("state", [OrderState.REJECTED, OrderState.CANCELLED, None])
def test_the_state_of_the_row_is_irrelevant_to_matching(state):
    stage, intent = _unknown()

    stage.after(1).book(report_of(intent, state=state))

    assert _states(stage)[-1] is SendState.MATCHED


@every_row(
    "changes",
    [
        {"quantity": 200},
        {"side": Side.SELL},
        {"price": 27_050},
        {"symbol": "HPX"},
        {"account": "120C900001.6"},
        {"order_type": "ATO", "price": None},
        {"placed_at": -25},
        {"placed_at": 200},
    ],
)
def test_a_row_that_differs_is_somebody_elses(changes):
    stage, intent = _unknown()
    if "placed_at" in changes:
        changes = {"placed_at": intent.created_at + timedelta(seconds=changes["placed_at"])}

    stage.after(1).book(report_of(intent, **{"price": 27_000, **changes}))

    assert _states(stage) == [SendState.UNKNOWN]
    assert stage.entries_of_order().intent_id is None


def test_a_row_known_before_the_send_is_not_ours():
    stage = Stage()
    twin = report_of(Stage().buy(), "ORD5")
    stage.book(twin)

    stage, _ = _unknown(stage)
    stage.after(1).book(twin)

    assert _states(stage) == [SendState.UNKNOWN]


def test_a_read_under_way_during_the_send_may_show_its_row_and_loses_nothing():
    stage = Stage()
    intent = stage.buy()
    asked = stage.now
    stage.after(1).send(intent)

    stage.book(report_of(intent, "ORD5"), asked_at=asked)
    assert stage.engine.status().open_orders == ()
    stage.answer(intent, Unknown("deadline"))
    stage.after(1).book(report_of(intent, "ORD5"))

    assert _states(stage) == [SendState.UNKNOWN, SendState.MATCHED]
    assert stage.entries_of_order("ORD5").intent_id == intent.intent_id


def test_an_equal_row_of_another_day_is_not_its_order():
    stage, intent = _unknown()
    yesterday = DAY - timedelta(days=1)

    stage.after(1).book(report_of(intent, "ORD5", trading_date=yesterday))

    assert _states(stage) == [SendState.UNKNOWN]


def test_what_is_ambiguous_is_left_to_a_person_whatever_shows_up_later():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))

    stage.after(1).book(
        report_of(intent, "ORD1"), report_of(intent, "ORD2"), report_of(intent, "ORD3")
    )

    assert _states(stage)[-1] is SendState.AMBIGUOUS
    assert {row.intent_id for row in stage.engine.status().open_orders} == {None}


def test_an_unused_nonce_without_enough_reads_is_no_proof_at_the_days_end():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))

    assert _states(stage)[-2:] == [SendState.REACHED, SendState.EOD_ABSENT]


def test_a_row_seen_while_the_place_is_in_flight_is_left_for_its_answer():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    assert stage.after(1).book(report_of(intent)) == []
    stage.answer(intent, Unknown("deadline"))
    stage.after(1).book(report_of(intent))

    assert _states(stage)[-1] is SendState.MATCHED


def test_an_unused_nonce_and_the_horizon_release_with_proof():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    for seconds in (40, 40, 40):
        stage.after(seconds).book()
    assert _states(stage)[-1] is SendState.FRESH
    stage.after(40).book()

    move = stage.last(IntentMoved)
    assert (move.to_state, move.proof) == (
        SendState.NOT_PLACED,
        "nonce unused, absent in 4 complete reads over 161 s",
    )
    assert stage.told[-1][1].code == "NOT_PLACED"
    assert stage.last(Transition).to_state is OrderState.EXPIRED


def test_the_horizon_alone_is_not_enough_reads():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    stage.after(500).book()

    assert _states(stage)[-1] is SendState.FRESH


def test_the_fence_policy_releases_at_once():
    stage, intent = _unknown(Stage(settings=EngineSettings(unknown_policy=UnknownPolicy.FENCE)))

    _burn(stage, intent, Resolution.FRESH)

    assert _states(stage)[-1] is SendState.NOT_PLACED


def test_a_used_nonce_is_never_released_by_absence():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)

    for _ in range(20):
        stage.after(60).book()

    assert _states(stage)[-1] is SendState.REACHED


def test_a_used_nonce_waits_for_the_days_end():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)

    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))

    assert _states(stage)[-1] is SendState.EOD_ABSENT
    assert stage.last(Note).kind == "ALERT"


def test_more_rows_than_orders_are_ambiguous_and_all_count():
    stage, intent = _unknown()

    stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))

    assert _states(stage)[-1] is SendState.AMBIGUOUS
    rows = stage.engine.status().open_orders
    assert [(row.intent_id, row.note) for row in rows] == [(None, "may be L-0001")] * 2
    assert [one.intent_id for one in stage.engine.status().unknown] == ["L-0001"]


@pytest.mark.parametrize("ask", ["same", "other"])
def test_while_it_is_unknown_its_size_and_fingerprint_are_taken(ask):
    stage, _ = _unknown()
    stage.quote()

    stage.request(
        lambda s: s.sell(100, limit=28_000) if ask == "other" else s.buy(100, limit=27_000)
    )

    assert stage.decided()[0] in {Verdict.SKIPPED, Verdict.BLOCKED}
    assert len(stage.all(PlaceOrder)) == 1


def test_an_unfenced_place_lets_no_other_go():
    stage, _ = _unknown(Stage(sellable=500))
    stage.after(1).quote()
    stage.request(lambda s: s.sell(100, limit=28_000))
    assert stage.last(Decision).code in {"SELLABLE", "UNKNOWN_ORDERS"}


def test_a_row_that_looks_like_a_dead_order_halts_the_symbol():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.answer(intent, Refused("400", "no", 400))

    stage.after(1).book(report_of(intent, "ORD9"))

    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]
    stage.quote()
    stage.request(lambda s: s.buy(200, limit=27_000))
    assert stage.decided() == (Verdict.BLOCKED, "SYMBOL_HALTED")


@pytest.mark.parametrize(
    ("order_type", "price", "is_match"),
    [("MTL", None, True), ("MP", None, True), ("LO", 27_050, True), ("ATO", None, False)],
)
def test_a_market_order_matches_by_its_class(order_type, price, is_match):
    stage = Stage(replace(PLAN, order=OrderPlan(order_type=OrderType.MTL)))
    stage.request(lambda s: s.buy())
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.answer(intent, Unknown("reset"))

    stage.after(1).book(report_of(intent, order_type=order_type, price=price))

    assert (_states(stage)[-1] is SendState.MATCHED) is is_match


def test_a_place_refused_by_the_quota_is_looked_for_at_once_as_a_copy_may_have_passed():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    stage.answer(intent, Refused("RATE_LIMIT_EXCEEDED", "too many", 429, retry_after_s=7.0))

    assert [type(one) for one in stage.done if not isinstance(one, Record)] == [ReadTodaysOrders]
    stage.after(1).book(report_of(intent, "ORD9"))
    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]


# ------------------------------------------------------- guards of a question, on both sides

HORIZON_S = 130
"""30 s of a signature, twice 20 s of skew, 60 s of a book's lag."""


@pytest.mark.parametrize(
    ("last_read_s", "state"),
    [(HORIZON_S, SendState.FRESH), (HORIZON_S + 0.001, SendState.NOT_PLACED)],
)
def test_a_place_is_released_after_the_horizon_and_not_at_it(last_read_s, state):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    for at_s in (40, 80, last_read_s):
        stage.now = START + timedelta(seconds=at_s)
        stage.book()

    assert _states(stage)[-1] is state


@pytest.mark.parametrize(
    ("first_read_s", "state"), [(0, SendState.FRESH), (0.001, SendState.NOT_PLACED)]
)
def test_a_read_asked_for_at_the_instant_of_the_send_shows_no_absence(first_read_s, state):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    stage.book(asked_at=START + timedelta(seconds=first_read_s))
    stage.after(130).book()
    stage.after(20).book()

    assert _states(stage)[-1] is state


@pytest.mark.parametrize(
    ("account", "state"),
    [("120C900001.6", SendState.FRESH), (ACCOUNT, SendState.NOT_PLACED)],
)
def test_the_day_book_of_another_account_shows_no_absence(account, state):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    for _ in range(4):
        stage.after(40)
        stage.handle(TodaysOrdersRead(stage.now, account, (), stage.now))

    assert _states(stage)[-1] is state


@pytest.mark.parametrize(
    ("placed_s", "is_ours"),
    [(-20, True), (-20.001, False), (HORIZON_S, True), (HORIZON_S + 0.001, False)],
)
def test_the_rows_own_time_lies_around_the_send(placed_s, is_ours):
    stage, intent = _unknown()

    placed_at = START + timedelta(seconds=placed_s)
    stage.after(200).book(report_of(intent, "ORD7", placed_at=placed_at))

    assert (stage.entries_of_order("ORD7").intent_id == "L-0001") is is_ours


@pytest.mark.parametrize(("placed_s", "is_ours"), [(-20, True), (-20.001, False)])
def test_a_send_is_as_old_as_its_own_event_says(placed_s, is_ours):
    stage = Stage()
    intent = stage.buy()
    stage.pass_time(3)

    stage.handle(SendStarted(START, intent.intent_id))
    stage.answer(intent, Unknown("deadline"))
    placed_at = START + timedelta(seconds=placed_s)
    stage.after(1).book(report_of(intent, "ORD7", placed_at=placed_at))

    assert (stage.entries_of_order("ORD7").intent_id == "L-0001") is is_ours


def test_a_row_like_an_order_that_was_certainly_not_sent_halts_the_symbol():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.answer(intent, NotSent("no connection"))

    stage.after(1).book(report_of(intent, "ORD7"))

    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]


def test_a_row_like_an_order_that_was_refused_with_a_row_of_its_own_is_somebody_elses():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    result = result_of(intent, state=OrderState.REJECTED, status="REJECTED")
    stage.answer(intent, Refused("-900017", "price", 200, result=result))

    stage.after(1).book(report_of(intent, "ORD7"))

    assert stage.engine.status().halted_symbols == {}
