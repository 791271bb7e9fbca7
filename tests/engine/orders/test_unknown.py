from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from bot.domain.entry import (
    Decision,
    Fill,
    IntentMoved,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
    Transition,
    Verdict,
)
from bot.domain.message import (
    BurnNonce,
    CancelOrder,
    NonceBurnt,
    PlaceOrder,
    ReadOrder,
    ReadTodaysOrders,
    Reconciled,
    Record,
    SendStarted,
    TodaysOrdersRead,
    TradingDayStarted,
)
from bot.domain.operations import (
    Action,
    CancelAsked,
    EarlierOrdersRead,
    OperatorActed,
    VerdictAsked,
)
from bot.domain.order import Intent, OrderState, OrderType, SendState, Side, UnreadRow
from bot.domain.outcome import Accepted, NotSent, Refused, Resolution, Unknown
from bot.domain.plan import OrderPlan
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.requests import view_of
from bot.engine.risk.accounts import means_of
from bot.engine.risk.sizing import OrderRequest
from bot.engine.settings import EngineSettings, UnknownPolicy
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    PLAN,
    START,
    Stage,
    attempt_of,
    report_of,
    result_of,
    sell_intent,
)
from tests.rows import every_row


def _unknown(stage=None, quantity=100):
    stage = stage or Stage()
    intent = stage.buy(quantity)
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    return stage, intent


def _burn(stage, intent, resolution):
    return stage.handle(NonceBurnt(stage.now, intent.intent_id, resolution, "burn"))


def _holding():
    own = RecoveredStrategy({"HPG": (500, 10_000_000)}, 0, 0, 0, "on")
    return Stage(sellable=500, recovery=Recovery(DAY, strategies={"test": own}))


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


def test_a_nonce_that_nobody_has_told_of_is_asked_after_again_until_somebody_does():
    stage, intent = _unknown()
    horizon = EngineSettings().horizon

    asked = [stage.pass_time(5) for _ in range(3 * horizon // timedelta(seconds=5))]
    again = [each for done in asked for each in done if isinstance(each, BurnNonce)]
    _burn(stage, intent, Resolution.REACHED)
    later = [each for _ in range(60) for each in stage.pass_time(5) if isinstance(each, BurnNonce)]

    assert again == [BurnNonce("L-0001")] * 3
    assert later == []


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
    ],
)
def test_a_row_that_differs_is_somebody_elses(changes):
    stage, intent = _unknown()

    stage.after(1).book(report_of(intent, **{"price": 27_000, **changes}))

    assert _states(stage) == [SendState.UNKNOWN]
    assert stage.entries_of_order().intent_id is None


@every_row(
    "changes", [{"quantity": 200}, {"side": Side.SELL}, {"price": 27_050}, {"order_type": "MTL"}]
)
@pytest.mark.parametrize("executed", [0, 100])
def test_an_order_whose_first_row_lied_is_not_lost_but_asked_about(changes, executed):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)
    stage.after(1).book(report_of(intent, executed=executed, **changes))
    before = stage.entries_of_order()

    stage.after(1).book(report_of(intent, executed=executed))
    stage.after(1).book(report_of(intent, executed=executed))

    row = stage.entries_of_order()
    assert (row.note, row.price, row.quantity) == ("may be L-0001", 27_000, 100)
    assert row.executed_quantity == before.executed_quantity == executed
    assert _states(stage) == [SendState.UNKNOWN, SendState.REACHED, SendState.AMBIGUOUS]
    [alert] = stage.engine.status().alerts
    assert "may be ORD1 (ORD1 showed another order before), and nothing proves it" in alert
    moves = [each for each in stage.all(Transition) if each.order_id == "ORD1"]
    assert all(one.to_state is next_.from_state for one, next_ in pairwise(moves))


def test_a_row_that_comes_to_look_like_a_dead_order_halts_the_symbol():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.answer(intent, Refused("400", "no", 400))
    stage.after(1).book(report_of(intent, "ORD9", price=26_900))
    assert stage.engine.status().halted_symbols == {}

    stage.after(1).book(report_of(intent, "ORD9"))

    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]
    assert stage.entries_of_order("ORD9").note == "looks like L-0001"


def _sent():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    return stage, intent


@every_row("executed", [0, 100])
def test_a_row_that_shows_what_is_still_being_sent_is_asked_about_once_its_answer_is_lost(executed):
    stage, intent = _sent()
    stage.after(1).book(report_of(intent, price=27_050, executed=executed))
    stage.after(1).book(report_of(intent, executed=executed))
    stage.after(1).answer(intent, Unknown("deadline"))

    stage.after(1).book(report_of(intent, executed=executed))

    assert _states(stage) == [SendState.UNKNOWN, SendState.AMBIGUOUS]
    assert stage.entries_of_order().note == "may be L-0001"


def test_a_row_that_shows_what_is_still_being_sent_is_a_ghost_once_that_is_refused():
    stage, intent = _sent()
    stage.after(1).book(report_of(intent, price=27_050))
    stage.after(1).book(report_of(intent))
    stage.after(1).answer(intent, Refused("400", "no", 400))

    stage.after(1).book(report_of(intent))
    stage.after(1).book(report_of(intent))

    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]
    assert [each.note for each in stage.all(OrderUpdated)].count("looks like L-0001") == 1


def test_a_row_beside_one_that_cannot_be_read_is_asked_about_when_that_is_gone():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, price=27_050))
    unread = UnreadRow("ORD9", "HPG", "qtty: Field required", "{}")
    stage.after(1).book(report_of(intent), set_aside=[unread])
    assert _states(stage) == [SendState.UNKNOWN]

    stage.after(1).book(report_of(intent))

    assert _states(stage) == [SendState.UNKNOWN, SendState.AMBIGUOUS]


def test_a_row_whose_detail_said_first_what_was_sent_is_asked_about():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, price=27_050))
    stage.after(1).row(report_of(intent))

    stage.after(1).book(report_of(intent))

    assert _states(stage) == [SendState.UNKNOWN, SendState.AMBIGUOUS]


def test_a_row_that_lied_before_a_restart_is_asked_about_after_it():
    first, intent = _unknown()
    first.after(1).book(report_of(intent, price=27_050))
    first.after(1).row(report_of(intent))
    stored = StoredIntent(intent, SendState.REACHED, None, attempt_of(intent, START))
    stage = Stage(recovery=Recovery(DAY, 2, intents=(stored,), orders=(first.entries_of_order(),)))

    stage.after(5).book(report_of(intent))

    assert _states(stage) == [SendState.AMBIGUOUS]


def test_a_row_that_shows_two_orders_in_turn_is_not_counted_anew_each_time():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)
    lie, right = report_of(intent, price=27_050, executed=50), report_of(intent, executed=50)
    for _ in range(2):
        stage.after(1).book(lie)
        stage.after(1).book(right)
    written, flows = len(stage.entries), len(stage.engine._state.ledgers[ACCOUNT].flows)

    for _ in range(10):
        stage.after(1).book(lie)
        stage.after(1).book(right)

    assert len(stage.entries) == written
    assert len(stage.engine._state.ledgers[ACCOUNT].flows) == flows
    assert (stage.entries_of_order().price, _states(stage)[-1]) == (27_000, SendState.AMBIGUOUS)


def test_a_late_answer_about_an_order_of_somebody_else_makes_no_other_old_row_new():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)
    before = stage.now
    stage.after(5).book(report_of(intent, price=27_050))
    newest = stage.now

    stage.after(1).book(report_of(intent), asked_at=before)

    assert stage.engine._state.orders["ORD1"].requested_at == newest


def test_an_order_of_somebody_else_who_changes_its_price_stays_theirs():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, "ORD9", price=26_900))

    stage.after(1).book(report_of(intent, "ORD9", price=26_950))

    row = stage.entries_of_order("ORD9")
    assert (row.price, row.note, row.intent_id) == (26_950, "not placed here", None)
    assert _states(stage) == [SendState.UNKNOWN]


@pytest.mark.parametrize(
    "lie", [{"side": Side.BUY}, {"symbol": "SHS"}, {"account": "999C999999.1"}]
)
@pytest.mark.parametrize("executed", [0, 100])
def test_an_order_of_somebody_else_whose_first_row_lied_is_counted_by_the_second_that_is_right(
    lie, executed
):
    """Nothing of ours says which of two rows is right, so the one that comes again is."""
    stage = Stage(sellable=500)
    right = report_of(sell_intent(stage.buy()), "ORD9", executed=executed)
    false = replace(right, **lie)
    stage.after(1).book(false)
    for row in (right, false):
        stage.after(1).book(row)
        assert getattr(stage.entries_of_order("ORD9"), next(iter(lie))) == next(iter(lie.values()))

    for _ in range(3):
        stage.after(1).book(right)

    now = stage.entries_of_order("ORD9")
    assert (now.side, now.symbol, now.executed_quantity) == (Side.SELL, "HPG", executed)
    assert (now.note, stage.engine.status().faults) == ("not placed here", ())
    taken = [each for each in stage.all(OrderUpdated) if each.order_id == "ORD9"]
    assert len(taken) <= 3
    stage.after(1).book(
        replace(
            right,
            executed_quantity=100,
            executed_amount=2_700_000,
            average_price=27_000,
            remaining_quantity=0,
        )
    )
    assert stage.entries_of_order("ORD9").state is OrderState.FILLED


def test_what_was_executed_by_a_row_that_lied_is_no_more_than_the_order():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, quantity=200, executed=150, remaining=50))

    for _ in range(3):
        stage.after(1).book(report_of(intent, executed=100))

    row = stage.entries_of_order()
    assert (row.executed_quantity, row.quantity, row.note) == (150, 150, "may be L-0001")
    assert stage.engine.status().state is not RunState.HALTED
    assert len([one for one in stage.all(OrderUpdated) if one.order_id == "ORD1"]) <= 3


def test_a_row_of_another_account_does_not_move_somebody_elses_order():
    stage = Stage()
    right = report_of(stage.buy(), "ORD9", price=26_500)
    stage.after(1).book(right)

    for _ in range(3):
        stage.after(1).book(replace(right, account="120C900001.2"))

    assert stage.entries_of_order("ORD9").account == ACCOUNT


def test_a_row_known_before_the_send_is_not_ours():
    stage = Stage()
    twin = report_of(Stage().buy(), "ORD5")
    stage.book(twin)

    stage, _ = _unknown(stage)
    stage.after(1).book(twin)

    assert _states(stage) == [SendState.UNKNOWN]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_list_that_came_before_the_send_and_is_processed_after_it_shows_nothing_of_ours(is_lost):
    stage = Stage()
    intent = stage.buy()
    other = report_of(intent, "ORD7", requested_at=stage.now)
    listed = TodaysOrdersRead(stage.now, ACCOUNT, (other,), stage.now)
    stage.after(0.01).send(intent)
    stage.handle(listed)
    stage.after(1).answer(intent, Unknown("reset") if is_lost else Accepted(result_of(intent)))

    stage.after(1).book(other)

    assert stage.engine.status().halted_symbols == {}
    assert _states(stage) == [SendState.UNKNOWN if is_lost else SendState.ACKED]
    assert stage.entries_of_order("ORD7").intent_id is None


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


@pytest.mark.parametrize(("reads", "state"), [(2, SendState.EOD_ABSENT), (3, SendState.NOT_PLACED)])
def test_an_unused_nonce_proves_something_at_the_days_end_with_three_reads_only(reads, state):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)
    for _ in range(reads):
        stage.after(1).book()

    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))

    assert _states(stage)[-1] is state


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


_KEPT, _REFUSED = NotSent("our clock is 3593 s behind"), Refused("-900017", "no", 200)


@pytest.mark.parametrize("outcomes", [(_KEPT, _REFUSED, _KEPT), (_REFUSED, _REFUSED)])
def test_a_row_looks_like_the_latest_dead_order_whose_bytes_may_have_left(outcomes):
    stage, intents = Stage(), list[Intent]()
    for outcome in outcomes:
        stage.after(70).quote()
        intents.append(stage.buy())
        stage.send(intents[-1])
        stage.answer(intents[-1], outcome)
    assert len({intent.intent_id for intent in intents}) == len(outcomes)

    stage.after(1).book(report_of(intents[-1], "ORD9"))

    assert "looks like L-0002" in stage.engine.status().halted_symbols["HPG"]


@pytest.mark.parametrize(
    ("order_type", "price", "is_match"),
    [
        ("MTL", None, True),
        ("MP", None, True),
        ("LO", 27_050, True),
        ("ATO", None, False),
        ("", None, True),
        ("MARKET", None, True),
        ("MARKET", 27_050, False),
    ],
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

    commands = [type(one) for one in stage.done if not isinstance(one, Record)]
    assert commands == [ReadTodaysOrders, BurnNonce]
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
    ("placed_s", "state"),
    [
        *((seconds, SendState.MATCHED) for seconds in (-3, -6, -10, -19, -20, 19, 101, HORIZON_S)),
        *((seconds, SendState.AMBIGUOUS) for seconds in (-20.001, -3_600, HORIZON_S + 0.001)),
    ],
)
def test_a_row_around_the_send_is_ours_and_one_of_another_time_is_asked_about(placed_s, state):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.REACHED)

    placed_at = START + timedelta(seconds=placed_s)
    stage.after(200).book(report_of(intent, "ORD7", placed_at=placed_at))

    assert _states(stage)[-1] is state
    is_ours = state is SendState.MATCHED
    assert (stage.entries_of_order("ORD7").intent_id == "L-0001") is is_ours
    assert any("ORD7" in text for text in stage.engine.status().alerts) is not is_ours


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


def _refused_with_a_row(stage, order_id):
    intent = stage.buy()
    stage.send(intent)
    result = result_of(intent, order_id, state=OrderState.REJECTED, status="REJECTED")
    stage.answer(intent, Refused("-900017", "price", 200, result=result))
    return intent, report_of(intent, order_id, state=OrderState.REJECTED, status="REJECTED")


def test_a_second_row_like_an_order_that_was_refused_with_a_row_of_its_own_is_a_ghost():
    """A copy of it may have been accepted: nobody would know of an order that works."""
    stage = Stage()
    intent, own = _refused_with_a_row(stage, "ORD6")

    stage.after(1).book(own)
    assert stage.engine.status().halted_symbols == {}
    stage.after(1).book(own, report_of(intent, "ORD7"))
    stage.after(1).book(own, report_of(intent, "ORD7"))

    assert _told(stage) == ["GHOST_ORDER", "SYMBOL_HALTED"]
    why = "ORD7 looks like L-0001, which was REFUSED"
    assert stage.engine.status().halted_symbols == {"HPG": why}
    assert stage.entries_of_order("ORD7").note == "looks like L-0001"
    assert [row.order_id for row in stage.engine.status().open_orders] == ["ORD7"]


@pytest.mark.parametrize(("is_refused", "later_s"), [(True, 0), (False, 600)])
def test_who_tries_again_by_hand_what_was_refused_with_a_row_is_no_ghost(is_refused, later_s):
    stage = Stage()
    intent, own = _refused_with_a_row(stage, "ORD6")
    stage.after(60 + later_s).book(own)
    tried = report_of(intent, "ORD9", state=OrderState.REJECTED, status="REJECTED")
    if not is_refused:
        tried = replace(report_of(intent, "ORD9"), placed_at=stage.now)

    stage.after(1).book(own, tried)

    assert (_told(stage), stage.engine.status().halted_symbols) == ([], {})


def test_a_copy_whose_row_came_before_the_refusal_is_a_ghost_with_the_next_list():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    result = result_of(intent, "ORD6", state=OrderState.REJECTED, status="REJECTED")
    stage.after(1).book(report_of(intent, "ORD7"))
    assert _told(stage) == []

    stage.after(1).answer(intent, Refused("-900017", "price", 200, result=result))
    stage.after(1).book(report_of(intent, "ORD7"))

    assert _told(stage) == ["GHOST_ORDER", "SYMBOL_HALTED"]


def test_an_equal_order_that_was_there_before_one_that_was_refused_is_no_ghost():
    stage = Stage()
    by_hand = report_of(stage.buy(), "ORD3")
    stage.book(by_hand)

    _, own = _refused_with_a_row(stage, "ORD6")
    stage.after(1).book(by_hand, own)

    assert (_told(stage), stage.engine.status().halted_symbols) == ([], {})


# ---------------------------------------------------------------------------- what people are told


def _told(stage):
    return [
        note.numbers["alert"]
        for note in stage.all(Note)
        if note.kind == "ALERT" and "alert" in note.numbers
    ]


def test_an_order_that_nobody_knows_about_is_told_of_within_ten_seconds_once():
    stage, _ = _unknown()

    assert stage.due() <= stage.now + timedelta(seconds=10)
    stage.pass_time(8.9)
    assert (_told(stage), stage.engine.status().alerts) == ([], ())
    stage.pass_time(0.1)
    stage.pass_time(60)

    assert _told(stage) == ["UNKNOWN_OPEN"]
    assert stage.last(Note).text == (
        "BUY 100 HPG LIMIT 27,000 (L-0001), sent at 09:30:00, has no answer that proves anything "
        "(deadline): its nonce is being tried and the day order book read, and nothing is sent "
        "again. Nothing to do yet"
    )
    assert stage.engine.status().alerts == (stage.last(Note).text,)


def test_an_order_that_never_arrived_is_told_of_within_ten_seconds_until_it_counts_as_not_placed():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)
    stage.pass_time(8.9)
    before = _told(stage), stage.engine.status().alerts

    stage.pass_time(0.1)
    said = stage.last(Note).text
    standing = stage.engine.status().alerts
    for _ in range(3):
        stage.pass_time(60)
        stage.book()

    assert before == ([], ())
    assert _told(stage) == ["NEVER_ARRIVED"]
    assert standing == (said,)
    assert "it never reached the broker, and can't any more" in said
    assert _states(stage)[-1] is SendState.NOT_PLACED
    assert stage.engine.status().alerts == ()


def test_a_lost_order_that_reached_the_broker_stands_in_the_status_until_its_row_is_there():
    stage, intent = _unknown()

    _burn(stage, intent, Resolution.REACHED)
    before = _told(stage), stage.engine.status().alerts
    stage.after(1).book()
    stage.pass_time(8)

    assert before == ([], ())
    assert _told(stage) == ["ORDER_REACHED"]
    [text] = stage.engine.status().alerts
    assert "no row of the day order book shows it" in text
    assert "bot order L-0001 --not-placed" in text
    assert "bot order L-0001 --is ORD" in text
    stage.after(1).book(report_of(intent))

    assert stage.engine.status().alerts == ()


def test_nothing_is_told_of_an_order_that_reached_the_broker_if_its_row_is_there_soon():
    stage, intent = _unknown()

    _burn(stage, intent, Resolution.REACHED)
    stage.after(1).book(report_of(intent))
    stage.pass_time(20)

    assert _told(stage) == []


def test_an_order_that_was_told_as_unknown_is_told_again_once_it_may_be_at_the_broker():
    stage, intent = _unknown()
    stage.pass_time(9)

    _burn(stage, intent, Resolution.REACHED)

    assert _told(stage) == ["UNKNOWN_OPEN", "ORDER_REACHED"]
    [text] = stage.engine.status().alerts
    assert "no day order book that could show it has been read yet" in text


@pytest.mark.parametrize("row_is", ["not readable", "of yesterday"])
def test_an_order_that_no_list_could_show_is_told_with_when_a_person_may_say_what_it_is(row_is):
    stage, intent = _unknown()
    old = report_of(intent, "ORD9", trading_date=DAY - timedelta(days=1))
    unread = UnreadRow("ORD9", "HPG", "no quantity", "{}")
    of = {"set_aside": [unread]} if row_is == "not readable" else {}
    _burn(stage, intent, Resolution.REACHED)

    def told_at(seconds):
        stage.now = START
        stage.after(seconds).book(*(() if of else (old,)), **of)
        ask = VerdictAsked(stage.now, intent.intent_id, None, "me", "it is not there")
        [told] = [each for each in stage.engine.status().standing if each.code == "ORDER_REACHED"]
        assert told.facts["is_taken"] is (stage.engine.objection(ask) is None)
        return told.text, told.facts["until"], stage.engine.objection(ask)

    text, until, refused = told_at(100)
    later, never, taken = told_at(131)

    assert "at the broker, and no day order book that could show it has been read yet" in text
    assert text.endswith("Either is taken after 09:32:10, or once one lacks it")
    assert until == (START + timedelta(seconds=130)).isoformat()
    assert refused is not None
    assert refused.text.endswith("a person may say what became of it after 09:32:10")
    assert later.endswith('--not-placed --reason "…"')
    assert (never, taken) == (None, None)


def test_what_is_ambiguous_is_told_of_with_its_rows_and_again_with_each_new_one():
    stage, intent = _unknown()
    rows = [report_of(intent, f"ORD{number}") for number in (1, 2, 3)]

    stage.after(1).book(*rows[:2])
    stage.after(1).book(*rows[:2])
    stage.after(1).book(*rows)

    notes = [note for note in stage.all(Note) if note.kind == "ALERT"]
    assert [note.numbers["rows"] for note in notes] == ["ORD1, ORD2", "ORD1, ORD2, ORD3"]
    assert len(stage.engine.status().alerts) == 1


def test_an_exit_leaves_beside_an_order_that_nobody_knows_about():
    stage, _ = _unknown(_holding(), 200)

    stage.quote()
    stage.request(lambda s: s.sell(100, limit=28_000))

    assert stage.decided() == (Verdict.PASSED, "OK")


@pytest.mark.parametrize("state", [SendState.UNKNOWN, SendState.REACHED, SendState.AMBIGUOUS])
def test_only_what_is_unknown_counts_against_entries(state):
    stage, intent = _unknown()
    if state is not SendState.UNKNOWN:
        _burn(stage, intent, Resolution.REACHED)
    if state is SendState.AMBIGUOUS:
        stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))
    assert _states(stage)[-1] is state

    inner = stage.engine._state
    [strategy] = inner.strategies.values()
    request = OrderRequest("test", ACCOUNT, "HPG", Side.BUY, 200, OrderType.LO, 26_000, "why")
    view = view_of(inner, strategy, request, means_of(inner, strategy, "HPG"))

    is_unknown = state is SendState.UNKNOWN
    assert (view.unknown, view.unknown_in_account) == (is_unknown, is_unknown)


def test_a_row_after_an_unused_nonce_asks_a_person_and_ends_trust_in_nonces():
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)

    stage.after(1).book(report_of(intent, "ORD7", executed=100))

    assert _states(stage)[-1] is SendState.AMBIGUOUS
    assert _told(stage) == ["ORDER_AMBIGUOUS", "NONCE_BROKEN"]
    assert stage.all(Fill) == []
    assert "nonces are not trusted" in stage.engine.status().alerts[-1]


def test_nonces_that_are_not_trusted_release_no_order_at_once_until_a_person_resumes():
    recovery = Recovery(DAY, halted_scopes={"fence:nonces": "as found yesterday"})
    stage = Stage(settings=EngineSettings(unknown_policy=UnknownPolicy.FENCE), recovery=recovery)
    _, intent = _unknown(stage)
    _burn(stage, intent, Resolution.FRESH)
    assert _states(stage)[-1] is SendState.FRESH

    stage.handle(OperatorActed(stage.now, Action.RESUME, "", "me"))
    assert len(stage.engine.status().alerts) == 1
    stage.handle(OperatorActed(stage.now, Action.RESUME, "the broker has explained it", "me"))

    assert stage.engine.status().alerts == ()
    scopes = [(one.scope, one.to_state) for one in stage.all(StateChanged)]
    assert scopes[-1] == ("fence:nonces", RunState.RUNNING)


def test_an_unused_nonce_beside_a_row_that_is_ours_is_no_nonce_to_trust():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, "ORD7"))

    _burn(stage, intent, Resolution.FRESH)

    assert _states(stage)[-1] is SendState.MATCHED
    assert _told(stage) == ["NONCE_BROKEN", "SYMBOL_HALTED"]
    why = "ORD7 was taken for BUY 100 HPG LIMIT 27,000 (L-0001), whose nonce was unused"
    assert stage.engine.status().halted_symbols["HPG"].startswith(why)


def _found_and_doubted():
    expiring = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))
    stage, intent = _unknown(Stage(expiring))
    stage.after(1).book(report_of(intent, "ORD7"))
    _burn(stage, intent, Resolution.FRESH)
    return stage, intent


def _deletes(stage):
    return [one.order_id for one in stage.all(CancelOrder)]


def _cancels_in_time(stage, intent, seconds):
    for _ in range(seconds // 5):
        stage.pass_time(5)
        if stage.new(ReadOrder):
            stage.row(report_of(intent, "ORD7"), "ORD7")
    return _deletes(stage)


def test_what_may_be_somebody_elses_is_cancelled_by_neither_its_time_nor_its_strategy():
    stage, intent = _found_and_doubted()

    stage.request(lambda s: s.cancel(why="changed my mind"))
    skipped = stage.decided()

    assert _cancels_in_time(stage, intent, 300) == []
    assert skipped == ("SKIPPED", "IN_DOUBT")
    assert "Neither its time limit nor its strategy" in stage.engine.status().halted_symbols["HPG"]


def test_its_time_cancels_it_once_a_person_has_resumed_its_symbol():
    stage, intent = _found_and_doubted()
    before = _cancels_in_time(stage, intent, 300)

    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is ours", "me", symbol="HPG"))

    assert before == []
    assert _cancels_in_time(stage, intent, 60)[:1] == ["ORD7"]


@pytest.mark.parametrize("symbol", ["HPG", None])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_a_person_has_resumed_is_in_doubt_no_more_whatever_halts_its_symbol_later(
    symbol, is_restarted
):
    stage, intent = _found_and_doubted()
    doubted = stage.entries_of_order("ORD7").note
    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is ours", "me", symbol=symbol))
    row = stage.entries_of_order("ORD7")
    if is_restarted:
        stored = StoredIntent(intent, SendState.MATCHED, "ORD7", attempt_of(intent, START))
        halted = {"HPG": "ORD9 looks like L-0099, which was REFUSED"}
        found = Recovery(DAY, 2, 1, intents=(stored,), orders=(row,), halted_symbols=halted)
        stage = Stage(recovery=found)
    else:
        stage.engine._state.halt_symbol("HPG", "ORD9 looks like L-0099, which was REFUSED")

    stage.request(lambda s: s.cancel(why="changed my mind"))

    assert (doubted, row.note, row.state) == ("may be somebody else's", "", OrderState.ACCEPTED)
    assert stage.decided()[0] == "PASSED"
    assert "ORD7" in stage.engine._state.cancels


def test_a_resume_of_another_symbol_says_nothing_about_whose_an_order_is():
    stage, _ = _found_and_doubted()
    stage.engine._state.halt_symbol("SSI", "ORD9 looks like L-0099, which was REFUSED")

    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is fine", "me", symbol="SSI"))
    stage.request(lambda s: s.cancel(why="changed my mind"))

    assert stage.decided() == ("SKIPPED", "IN_DOUBT")


def test_an_order_that_has_ended_keeps_why_though_it_may_be_somebody_elses():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, "ORD7"))
    stage.handle(CancelAsked(stage.now, "ORD7", "me", "by hand"))
    row = report_of(intent, "ORD7", executed=40, cancelled=60, state=OrderState.CANCELLED)
    stage.after(15).book(replace(row, status="CANCELLED"))
    before = stage.entries_of_order("ORD7")

    _burn(stage, intent, Resolution.FRESH)

    assert before.note == "by hand: 40 filled, 60 cancelled"
    assert stage.entries_of_order("ORD7") is before
    assert _told(stage) == ["NONCE_BROKEN", "SYMBOL_HALTED"]


def test_nor_is_it_after_a_restart_while_its_symbol_is_halted():
    first, intent = _found_and_doubted()
    row, halted = first.entries_of_order("ORD7"), dict(first.engine.status().halted_symbols)
    stored = StoredIntent(intent, SendState.MATCHED, "ORD7", attempt_of(intent, START))
    expiring = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))
    found = Recovery(DAY, 2, 1, intents=(stored,), orders=(row,), halted_symbols=halted)
    stage = Stage(expiring, recovery=found)

    _burn(stage, intent, Resolution.REACHED)  # by the try of the run before

    assert _cancels_in_time(stage, intent, 300) == []


def test_a_halt_cancels_it_all_the_same():
    stage, intent = _found_and_doubted()

    stage.handle(OperatorActed(stage.now, Action.HALT, "wrong prices", "me"))

    assert _cancels_in_time(stage, intent, 60)[:1] == ["ORD7"]


def _found_and_unlike(shown):
    expiring = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))
    stage, intent = _unknown(Stage(expiring))
    _burn(stage, intent, Resolution.REACHED)
    stage.after(1).book(report_of(intent, "ORD7"))
    stage.after(1).book(report_of(intent, "ORD7", **shown))
    return stage, intent


def _cancels_although_unlike(stage, intent, shown, seconds=300):
    for _ in range(seconds // 5):
        stage.pass_time(5)
        if stage.new(ReadOrder):
            stage.row(report_of(intent, "ORD7", **shown), "ORD7")
    return _deletes(stage)


@pytest.mark.parametrize("shown", [{"quantity": 200}, {"symbol": "SSI"}, {"side": Side.SELL}])
def test_nor_is_what_was_found_by_its_looks_and_no_longer_looks_like_it(shown):
    stage, intent = _found_and_unlike(shown)

    stage.request(lambda s: s.cancel(why="changed my mind"))
    skipped = stage.decided()

    assert _cancels_although_unlike(stage, intent, shown) == []
    assert skipped == ("SKIPPED", "IN_DOUBT")
    stage.handle(CancelAsked(stage.now, "ORD7", "me", "it is ours"))
    assert _cancels_although_unlike(stage, intent, shown, 60)[:1] == ["ORD7"]


@pytest.mark.parametrize("shown", [{"symbol": "SSI"}, {"side": Side.SELL}])
def test_the_alert_about_such_a_row_says_that_its_time_does_not_cancel_it(shown):
    stage, _ = _found_and_unlike(shown)

    [told] = [each for each in stage.all(Note) if each.numbers.get("alert") == "ROW_CONTRADICTS"]

    assert "neither its time limit nor its strategy cancels it now" in told.text
    assert told.numbers["is_kept"] is True


def test_a_row_with_impossible_money_says_nothing_about_whose_it_is():
    shown = {"executed": 100, "executed_amount": 0, "average_price": 0}
    stage, intent = _found_and_unlike(shown)

    [told] = [each for each in stage.all(Note) if each.numbers.get("alert") == "ROW_CONTRADICTS"]

    assert "neither its time limit" not in told.text
    assert _cancels_in_time(stage, intent, 300)[:1] == ["ORD7"]


def test_its_time_cancels_it_again_once_a_row_is_its_own():
    stage, intent = _found_and_unlike({"quantity": 200})
    [standing] = stage.engine.status().alerts
    before = _cancels_although_unlike(stage, intent, {"quantity": 200})

    stage.after(1).book(report_of(intent, "ORD7"))
    deletes = _cancels_in_time(stage, intent, 60)

    assert "neither its time limit nor its strategy cancels it now" in standing
    assert (before, deletes[:1]) == ([], ["ORD7"])


def test_what_the_broker_itself_has_named_is_cancelled_in_time_whatever_its_rows_show():
    expiring = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))
    stage = Stage(expiring)
    intent = stage.working(order_id="ORD7")
    stage.after(1).book(report_of(intent, "ORD7", quantity=200))

    [standing] = stage.engine.status().alerts
    assert "neither its time limit" not in standing
    assert _cancels_although_unlike(stage, intent, {"quantity": 200})[:1] == ["ORD7"]


@pytest.mark.parametrize("shown", [{"symbol": "SSI"}, {"executed": 100, "executed_amount": 0}])
def test_nor_is_it_after_a_restart_while_its_symbol_is_halted_by_its_row(shown):
    first, intent = _found_and_unlike(shown)
    first.after(1).book(report_of(intent, "ORD7", symbol="SSI"))
    row, halted = first.entries_of_order("ORD7"), dict(first.engine.status().halted_symbols)
    stored = StoredIntent(intent, SendState.MATCHED, "ORD7", attempt_of(intent, START))
    expiring = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))
    found = Recovery(DAY, 2, 1, intents=(stored,), orders=(row,), halted_symbols=halted)
    stage = Stage(expiring, recovery=found)

    _burn(stage, intent, Resolution.REACHED)

    assert _cancels_in_time(stage, intent, 300) == []


@pytest.mark.parametrize("by", ["strategy", "halt", "a person, at once", "a person, later"])
def test_a_cancel_from_before_the_doubt_is_given_up_unless_it_is_a_halts_or_a_persons(by):
    stage, intent = _unknown()
    stage.request(lambda s: s.cancel(why="no more"))
    stage.after(1).book(report_of(intent, "ORD7"))
    if by == "halt":
        stage.handle(OperatorActed(stage.now, Action.HALT, "wrong prices", "me"))
    _burn(stage, intent, Resolution.FRESH)
    if by == "a person, at once":
        stage.handle(CancelAsked(stage.now, "ORD7", "me", "it is ours"))
    goes_on = by in {"halt", "a person, at once"}

    before = _cancels_in_time(stage, intent, 100)
    if by == "a person, later":
        stage.handle(CancelAsked(stage.now, "ORD7", "me", "it is ours"))
    deletes = _cancels_in_time(stage, intent, 100)

    given_up = [each.request_id for each in stage.all(Decision) if each.code == "IN_DOUBT"]
    assert given_up == ([] if goes_on else [intent.intent_id])
    assert bool(before) is goes_on
    assert bool(deletes) is (by != "strategy")


def test_without_a_time_limit_nothing_cancels_it_after_a_resume_where_a_cancel_was_given_up():
    stage, intent = _unknown()
    stage.request(lambda s: s.cancel(why="no more"))
    stage.after(1).book(report_of(intent, "ORD7"))
    _burn(stage, intent, Resolution.FRESH)
    _cancels_in_time(stage, intent, 30)

    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is ours", "me", symbol="HPG"))

    assert _cancels_in_time(stage, intent, 300) == []


@pytest.mark.parametrize("by", ["strategy", "its time"])
def test_its_time_cancels_it_after_a_resume_where_a_cancel_was_given_up(by):
    expiring = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))
    stage, intent = _unknown(Stage(expiring))
    if by == "strategy":
        stage.request(lambda s: s.cancel(why="no more"))
    stage.after(1).book(report_of(intent, "ORD7"))
    if by == "its time":
        stage.pass_time(60)
    assert len(stage.engine.status().cancels) == 1
    _burn(stage, intent, Resolution.FRESH)
    before = _cancels_in_time(stage, intent, 300)

    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is ours", "me", symbol="HPG"))

    assert before == []
    assert _cancels_in_time(stage, intent, 60)[:1] == ["ORD7"]


@pytest.mark.parametrize("resolution", list(Resolution))
def test_the_nonce_of_an_order_found_by_its_looks_is_tried_until_it_has_answered(resolution):
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, "ORD7"))
    is_asked_before = stage.engine.is_asked_after(intent.intent_id)

    _burn(stage, intent, resolution)

    assert is_asked_before
    assert stage.engine.is_asked_after("L-0999")  # an intent of which this run does not know
    assert not stage.engine.is_asked_after(intent.intent_id)


def test_a_row_of_an_order_released_by_its_nonce_is_a_ghost_and_ends_trust_in_nonces():
    stage, intent = _unknown(Stage(settings=EngineSettings(unknown_policy=UnknownPolicy.FENCE)))
    _burn(stage, intent, Resolution.FRESH)

    stage.after(1).book(report_of(intent, "ORD7"))

    assert _told(stage) == ["GHOST_ORDER", "SYMBOL_HALTED", "NONCE_BROKEN"]
    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]


TWIN = "ORD8 looks like L-0001, which was found as ORD7, without an answer"


@pytest.mark.parametrize(("later_s", "is_told"), [(10, True), (3_600, False)])
def test_a_second_row_like_an_order_that_was_found_by_its_looks_halts_its_symbol(later_s, is_told):
    stage, intent = _unknown()
    found = report_of(intent, "ORD7")
    stage.after(1).book(found)
    assert _states(stage)[-1] is SendState.MATCHED

    placed_at = intent.created_at + timedelta(seconds=later_s)
    stage.after(later_s).book(found, replace(report_of(intent, "ORD8"), placed_at=placed_at))

    assert ("TWIN_ORDER" in _told(stage)) is is_told
    halted = stage.engine.status().halted_symbols
    assert halted == ({"HPG": TWIN} if is_told else {})
    assert len(stage.engine.status().open_orders) == 2


def test_a_twin_is_likelier_than_an_order_of_which_no_byte_has_left():
    stage = Stage()
    never_left = stage.buy()
    stage.send(never_left)
    stage.answer(never_left, NotSent("no connection"))
    stage.after(200).quote()
    intent = stage.buy()
    assert intent is not never_left
    stage.send(intent)
    stage.answer(intent, Unknown("no answer came"))
    found = report_of(intent, "ORD7")
    stage.after(1).book(found)

    stage.after(10).book(found, report_of(intent, "ORD8"))

    assert _told(stage) == ["TWIN_ORDER", "SYMBOL_HALTED"]
    assert "looks like L-0002" in stage.engine.status().halted_symbols["HPG"]


def test_a_twin_is_likelier_than_an_order_that_was_refused_at_another_time():
    stage = Stage()
    _, own = _refused_with_a_row(stage, "ORD6")
    stage.after(200).quote()
    intent = stage.buy()
    assert intent.intent_id == "L-0002"
    stage.send(intent)
    stage.answer(intent, Unknown("no answer came"))
    found = report_of(intent, "ORD7")
    stage.after(1).book(own, found)

    copy = replace(report_of(intent, "ORD8"), placed_at=stage.now)
    stage.after(10).book(own, found, copy)

    assert _told(stage) == ["TWIN_ORDER", "SYMBOL_HALTED"]
    assert "looks like L-0002" in stage.engine.status().halted_symbols["HPG"]


def test_a_row_like_an_order_whose_own_id_no_row_has_shown_is_told_of_and_halts_its_symbol():
    """A broker may answer with an id that its day order book does not use."""
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Accepted(result_of(intent, "ORD99")))

    stage.after(2).book(report_of(intent, "ORD7"))
    stage.after(2).book(report_of(intent, "ORD7"))

    why = "ORD7 looks like L-0001, which was accepted as ORD99, an id that no row has shown"
    assert _told(stage) == ["OTHER_ID", "SYMBOL_HALTED"]
    assert stage.engine.status().halted_symbols == {"HPG": why}
    assert len(stage.engine.status().open_orders) == 2


def test_a_list_that_was_asked_for_before_the_answer_does_not_say_under_which_id_an_order_stands():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    asked_at = stage.after(1).now
    stage.after(1).answer(intent, Accepted(result_of(intent, "ORD1")))

    like_it = report_of(intent, "ORD7")
    stage.after(1).book(like_it, asked_at=asked_at)
    assert _told(stage) == []
    stage.after(1).book(like_it, report_of(intent, "ORD1"))

    assert (_told(stage), stage.engine.status().halted_symbols) == ([], {})
    assert {row.order_id for row in stage.engine.status().open_orders} == {"ORD1", "ORD7"}


def test_a_list_of_the_instant_of_the_answer_says_under_which_id_an_order_stands():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Accepted(result_of(intent, "ORD1")))

    stage.book(report_of(intent, "ORD7"))

    assert _told(stage) == ["OTHER_ID", "SYMBOL_HALTED"]


def test_a_row_like_an_order_whose_own_id_is_listed_beside_it_is_somebody_elses():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Accepted(result_of(intent, "ORD1")))

    stage.after(2).book(report_of(intent, "ORD1"), report_of(intent, "ORD7"))

    assert (_told(stage), stage.engine.status().halted_symbols) == ([], {})


@pytest.mark.parametrize(
    ("held_s", "state"), [(1, SendState.HELD), (86_400, SendState.EXPIRED_LOCAL)]
)
def test_a_row_of_an_order_that_was_held_for_a_token_is_a_ghost(held_s, state):
    stage = Stage()
    intent = stage.buy()
    stage.block_for_token(intent)
    stage.pass_time(held_s)
    assert _states(stage)[-1] is state

    before = len(_told(stage))
    stage.book(report_of(intent, "ORD9"))

    assert _told(stage)[before:] == ["GHOST_ORDER", "SYMBOL_HALTED"]
    assert stage.engine.status().open_orders[0].order_id == "ORD9"
    assert "HPG" in stage.engine.status().halted_symbols


@pytest.mark.parametrize(
    "state",
    [
        *(SendState.REFUSED, SendState.NOT_SENT, SendState.NOT_PLACED),
        SendState.EXPIRED_LOCAL,
    ],
)
def test_a_restart_knows_enough_to_see_a_ghost(state):
    intent = Stage().buy()
    stored = StoredIntent(intent, state, None, attempt_of(intent, START, "ORD1"))

    stage = Stage(recovery=Recovery(DAY, intents=(stored,)))
    stage.book(report_of(intent, "ORD1"))
    assert stage.engine.status().halted_symbols == {}
    stage.book(report_of(intent, "ORD1"), report_of(intent, "ORD9"))

    assert "ORD9 looks like L-0001" in stage.engine.status().halted_symbols["HPG"]


def test_a_restart_knows_enough_to_see_a_ghost_of_what_was_refused_with_a_row():
    first = Stage()
    intent, own = _refused_with_a_row(first, "ORD6")
    attempt = attempt_of(intent, START, "ORD1")
    stored = StoredIntent(intent, SendState.REFUSED, "ORD6", attempt)
    rows = (first.entries_of_order("ORD6"),)

    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=rows))
    stage.book(own, report_of(intent, "ORD1"))
    assert stage.engine.status().halted_symbols == {}
    stage.book(own, report_of(intent, "ORD9"))

    assert "ORD9 looks like L-0001" in stage.engine.status().halted_symbols["HPG"]


def test_a_restart_knows_enough_to_see_a_twin():
    first = Stage()
    intent = first.working()
    attempt = attempt_of(intent, START, "ORD0")
    stored = StoredIntent(intent, SendState.MATCHED, "ORD1", attempt)
    rows = (first.entries_of_order(),)

    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=rows))
    stage.book(report_of(intent, "ORD1"), report_of(intent, "ORD8"))

    assert stage.engine.status().halted_symbols == {"HPG": TWIN.replace("ORD7", "ORD1")}


def test_a_restart_knows_an_order_whose_own_id_no_row_has_shown():
    first = Stage()
    intent = first.working(order_id="ORD99")
    stored = StoredIntent(intent, SendState.ACKED, "ORD99", attempt_of(intent, START, "ORD0"))
    rows = (first.entries_of_order("ORD99"),)

    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=rows))
    stage.after(1).book(report_of(intent, "ORD7"))
    again = Stage(recovery=Recovery(DAY, intents=(stored,), orders=rows))
    again.after(1).book(report_of(intent, "ORD99"), report_of(intent, "ORD7"))

    assert _told(stage) == ["OTHER_ID", "SYMBOL_HALTED"]
    assert _told(again) == []


# -------------------------------------------------------------------------------- the day's end


def _next_day(stage):
    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.handle(Reconciled(stage.now))


@pytest.mark.parametrize(("executed", "is_halted"), [(0, False), (100, True)])
def test_what_is_ambiguous_ends_with_its_day_and_halts_its_symbol_if_it_may_have_traded(
    executed, is_halted
):
    stage, intent = _unknown()
    stage.after(1).book(
        report_of(intent, "ORD1", executed=executed), report_of(intent, "ORD2", executed=0)
    )

    _next_day(stage)

    assert _states(stage)[-1] is SendState.EOD_ABSENT
    assert stage.engine.status().unknown == ()
    assert ("HPG" in stage.engine.status().halted_symbols) is is_halted
    assert stage.told[-1][1].code == "EOD_ABSENT"
    assert ("ORDER_ABSENT" in _told(stage), "SYMBOL_HALTED" in _told(stage)) == (True, is_halted)


def test_a_restart_goes_on_with_what_is_ambiguous_and_names_its_rows():
    stage, intent = _unknown()
    stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))
    rows = {one.order_id: one for one in stage.all(OrderUpdated)}
    stored = StoredIntent(intent, SendState.AMBIGUOUS, None, attempt_of(intent, START))

    again = Stage(recovery=Recovery(DAY, intents=(stored,), orders=tuple(rows.values())))

    [text] = again.engine.status().alerts
    assert "may be ORD1, ORD2" in text


@pytest.mark.parametrize(
    ("count", "why"), [(1, "ORD7 is equal, but of another time (10:30:00)"), (2, "2 equal rows")]
)
def test_why_a_question_is_ambiguous_is_told_by_what_was_found(count, why):
    stage, intent = _unknown()
    late = START + timedelta(hours=1)

    stage.after(1).book(
        *(report_of(intent, f"ORD{7 + each}", placed_at=late) for each in range(count))
    )

    assert stage.last(IntentMoved).reason == why


@pytest.mark.parametrize(("reads", "to"), [(2, SendState.EOD_ABSENT), (3, SendState.NOT_PLACED)])
def test_at_the_days_end_an_unused_nonce_needs_as_many_reads_as_ever(reads, to):
    stage, intent = _unknown()
    _burn(stage, intent, Resolution.FRESH)
    assert stage.engine._state.settings.absent_reads == 3
    for _ in range(reads):
        stage.after(2).book()

    tomorrow = DAY + timedelta(days=1)
    stage.after(86_400).handle(TradingDayStarted(stage.now, tomorrow))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.handle(Reconciled(stage.now))

    assert stage.last(IntentMoved).to_state is to


def test_two_orders_that_look_alike_may_have_one_row_between_them():
    stage, first = _unknown()
    second = replace(first, intent_id="L-0002")
    stored = StoredIntent(second, SendState.UNKNOWN, None, attempt_of(second, START))
    also = StoredIntent(first, SendState.UNKNOWN, None, attempt_of(first, START))
    stage = Stage(recovery=Recovery(DAY, 3, intents=(also, stored)))

    stage.after(1).book(report_of(first, "ORD7"))

    states = {name: one.state for name, one in stage.engine._state.intents.items()}
    assert states == {"L-0001": SendState.MATCHED, "L-0002": SendState.UNKNOWN}


def test_of_two_lost_orders_that_look_alike_the_one_that_was_sent_first_gets_the_first_row():
    _, first = _unknown()
    second = replace(first, intent_id="L-0002")
    stored = [
        StoredIntent(one, SendState.UNKNOWN, None, attempt_of(one, START - timedelta(seconds=age)))
        for one, age in ((first, 5), (second, 9))
    ]
    stage = Stage(recovery=Recovery(DAY, 3, intents=tuple(stored)))

    stage.after(1).book(report_of(first, "ORD7"), report_of(first, "ORD8"))

    owners = {name: one.order_id for name, one in stage.engine._state.intents.items()}
    assert owners == {"L-0001": "ORD8", "L-0002": "ORD7"}


def test_an_order_is_being_sent_until_it_has_an_answer() -> None:
    stage = Stage()
    seen = list[list[str]]()

    def look() -> None:
        seen.append([one.intent_id for one in stage.engine.status().sending])

    intent = stage.buy(100, 27_000)
    look()
    stage.send(intent)
    look()
    stage.accept(intent, "ORD1")
    look()

    assert seen == [["L-0001"], ["L-0001"], []]
