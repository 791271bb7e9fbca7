"""Asks by hand: what is refused and why, and what becomes of an amendment that was sent."""

from dataclasses import replace
from datetime import time, timedelta

import pytest

from bot.domain.entry import (
    AttemptFinished,
    Decision,
    IntentRecorded,
    Note,
    OrderResultSeen,
    OrderUpdated,
    RunState,
    StateChanged,
    Transition,
    Verdict,
)
from bot.domain.instrument import Phase
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    BurnNonce,
    CancelAnswered,
    CancelOrder,
    DropToken,
    NonceBurnt,
    ReadOrder,
    ReadOrderToCancel,
    TimePassed,
)
from bot.domain.operations import Action, AmendAsked, CancelAsked, OperatorActed
from bot.domain.order import OrderState, OrderType, SendState
from bot.domain.outcome import Accepted, NotSent, Refused, Resolution, Unknown
from bot.domain.plan import AccountLimits, Limits, When
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.risk.accounts import means_of
from bot.engine.settings import EngineSettings, UnknownPolicy
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage, limited, report_of, result_of
from tests.rows import every_row

ON = EngineSettings(amend_enabled=True)
_S = OrderState


def _stage(plan=PLAN, **more):
    return Stage(plan, settings=ON, **more)


def _ask(stage, *, price=None, quantity=None, name="ORD1"):
    return stage.handle(AmendAsked(stage.now, name, price, quantity, "operator", "by hand"))


def _cancel(stage, name="ORD1"):
    return stage.handle(CancelAsked(stage.now, name, "operator", "by hand"))


def _sent(*, price=None, quantity=None, executed=0, **more):
    stage = _stage(**more)
    intent = stage.working(500, 27_000)
    row = report_of(intent, executed=executed)
    stage.after(1).book(row)
    _ask(stage.after(1), price=price, quantity=quantity)
    stage.row(row)
    assert len(stage.new(AmendOrder)) == 1
    return stage, intent, row


def test_a_row_about_another_order_sends_no_amendment():
    stage = _stage()
    intent = stage.working(500, 27_000)
    stage.after(1).book(report_of(intent))
    _ask(stage.after(1), price=26_900)

    stage.row(report_of(intent, quantity=900, may_amend=True))

    assert stage.all(AmendOrder) == []


def _answer(stage, outcome):
    finished = AttemptFinished(stage.now, "a-1", "L-0001", "?", 200, None, "", "{}", 1)
    return stage.handle(AmendAnswered(stage.now, "ORD1", outcome, finished))


def _amended(stage):
    return stage.engine.status().amends[-1]


def _states(stage):
    return [one.to_state for one in stage.all(Transition)]


# ---------------------------------------------------------------------------------- what is refused


def test_the_row_is_read_before_one_field_is_sent():
    stage = _stage()
    intent = stage.working(500, 27_000)

    _ask(stage.after(1), price=26_900)
    assert stage.decided() == (Verdict.PASSED, "AMEND")
    assert stage.new(ReadOrder) == [ReadOrder("ORD1", "before amend")]
    stage.row(report_of(intent))

    assert stage.new(AmendOrder) == [
        AmendOrder("ORD1", "L-0001", ACCOUNT, 26_900, None, "by hand", stage.now),
    ]
    assert stage.entries_of_order().state is _S.PENDING_REPLACE


def test_an_ask_is_journalled_with_its_order_and_that_ones_strategy():
    stage = _stage()
    stage.working(500, 27_000)

    _ask(stage, price=26_900)

    asked = stage.last(Decision)
    assert (asked.request_id, asked.strategy, asked.symbol) == ("L-0001", "test", "HPG")


def test_an_order_is_found_by_our_own_id_too():
    stage = _stage()
    stage.working(500, 27_000)

    assert ReadOrder("ORD1", "before amend") in _ask(stage, price=26_900, name="L-0001")


REFUSED = [
    ("ONE_FIELD", {}, {}),
    ("ONE_FIELD", {"price": 26_900, "quantity": 400}, {}),
    ("ONE_FIELD", {"price": 0}, {}),
    ("OPEN_ORDER", {"price": 26_900, "name": "ORD9"}, {}),
    ("CHANGE", {"price": 27_000}, {"old": 27_000, "new": 27_000}),
    ("CHANGE", {"quantity": 500}, {"old": 500}),
    ("LOT", {"quantity": 450}, {}),
    ("SAME_LOT", {"quantity": 50}, {"old": "EVEN", "new": "ODD"}),
    ("MAX_QUANTITY", {"quantity": 600_000}, {"quantity": 600_000}),
    ("TICK", {"price": 27_001}, {"tick": 50}),
    ("BAND", {"price": 29_000}, {"ceiling": 28_850}),
    ("CASH", {"quantity": 9_000}, {"cash_vnd": 100_000_000}),
]


@every_row(("code", "asked", "numbers"), REFUSED)
def test_an_ask_is_refused_with_a_code_and_its_numbers(code, asked, numbers):
    stage = _stage()
    stage.working(500, 27_000)

    _ask(stage, **asked)

    assert stage.decided() == (Verdict.BLOCKED, code)
    assert stage.last(Decision).numbers.items() >= numbers.items()
    assert stage.new(ReadOrder) == []


TIMES = [
    ({"price": 27_050}, (Verdict.BLOCKED, "WINDOW")),
    ({"quantity": 600}, (Verdict.BLOCKED, "WINDOW")),
    ({"price": 26_950}, (Verdict.PASSED, "AMEND")),
    ({"quantity": 400}, (Verdict.PASSED, "AMEND")),
]


@every_row(("asked", "decided"), TIMES)
def test_after_the_strategys_hours_a_buy_may_only_become_smaller_or_cheaper(asked, decided):
    stage = _stage(replace(PLAN, when=When(end=time(9, 31))))
    stage.working(500, 27_000)
    stage.after(60).quote()

    _ask(stage, **asked)

    assert stage.decided() == decided


def test_an_odd_lot_may_become_a_single_share():
    stage = _stage()
    stage.working(50, 27_000)

    _ask(stage, quantity=1)

    assert stage.decided() == (Verdict.PASSED, "AMEND")


LIMITS = [
    ({"max_order_value": 14_000_000}, {"quantity": 600}, "MAX_ORDER_VALUE"),
    ({"max_position": 500}, {"quantity": 600}, "MAX_POSITION"),
    ({"capital": 16_199_999}, {"quantity": 600}, "CAPITAL"),
    ({"capital": 13_524_999}, {"price": 27_050}, "CAPITAL"),
    ({"max_price_gap_ppm": 10_000}, {"price": 26_500}, "PRICE_GAP"),
]


@pytest.mark.parametrize(("limits", "asked", "code"), LIMITS)
def test_the_strategys_limits_hold_at_the_new_value(limits, asked, code):
    stage = _stage(limited(**limits))
    stage.working(500, 27_000)

    _ask(stage, **asked)

    assert stage.decided() == (Verdict.BLOCKED, code)


def test_an_order_at_its_limit_may_change_its_price_within_it():
    stage = _stage(limited(max_position=500), cash=13_520_500)
    stage.working(500, 27_000)

    assert len(_ask(stage, price=26_900)) > 1
    assert stage.decided() == (Verdict.PASSED, "AMEND")


@pytest.mark.parametrize("asked", [{"quantity": 600}, {"price": 27_050}])
def test_the_capital_in_use_counts_a_changed_order_once(asked):
    quantity, price = asked.get("quantity", 500), asked.get("price", 27_000)
    stage = _stage(limited(capital=quantity * price))
    stage.working(500, 27_000)

    _ask(stage, **asked)

    assert stage.decided() == (Verdict.PASSED, "AMEND")


_HELD = {
    "CAPITAL": (Limits(capital=67_000_000), AccountLimits()),
    "POSITION_VALUE": (Limits(), AccountLimits(max_position_value=67_000_000)),
    "GROSS": (Limits(), AccountLimits(max_gross_nav_ppm=670_000)),
}


@pytest.mark.parametrize("code", _HELD)
def test_shares_that_have_risen_beyond_a_limit_keep_no_buy_from_being_reduced(code):
    own, shared = _HELD[code]
    settings = replace(ON, account_limits=shared)
    held = Recovery(
        DAY, strategies={"test": RecoveredStrategy({"HPG": (2_000, 54_000_000)}, 0, 0, 0, "on")}
    )
    stage = Stage(replace(PLAN, limits=own), settings=settings, recovery=held, sellable=2_000)
    stage.working(500, 26_000)
    stage.after(61).quote(28_800)

    _ask(stage, quantity=600)
    assert stage.decided() == (Verdict.BLOCKED, code)
    _ask(stage, quantity=400)
    assert stage.decided() == (Verdict.PASSED, "AMEND")


_LESS_AND_MORE = [
    ({"price": 26_800}, True),
    ({"quantity": 900}, True),
    ({"price": 26_950}, False),
    ({"quantity": 1_100}, False),
]


@pytest.mark.parametrize(("asked", "is_less"), _LESS_AND_MORE)
@pytest.mark.parametrize("code", ["UNPRICED_BUY", "MIN_CASH"])
def test_where_no_cash_is_free_a_buy_may_only_become_smaller_or_cheaper(code, asked, is_less):
    settings = replace(ON, account_limits=AccountLimits(min_cash=50_000_000))
    stage = Stage(settings=settings)
    buy = stage.working(1_000, 26_900)
    if code == "UNPRICED_BUY":
        at_market = report_of(replace(buy, symbol="FPT"), "ORD9")
        stage.after(1).book(report_of(buy), replace(at_market, order_type="ATC", price=None))
    else:
        stage.cash = 60_000_000
        stage.after(1).account()
    stage.quote()

    _ask(stage, **asked)

    assert stage.decided() == ((Verdict.PASSED, "AMEND") if is_less else (Verdict.BLOCKED, code))


def test_an_order_of_another_account_is_not_judged_by_the_money_of_this_one():
    stage = _stage()
    stage.working(500, 27_000)
    order = stage.engine._state.orders["ORD1"]
    order.row = replace(order.row, account="120C900001.6")

    _ask(stage.after(1), price=26_900)

    assert stage.decided() == ("BLOCKED", "CASH")
    assert stage.last(Decision).checks[-1].text == "free cash is not known"
    assert stage.new(ReadOrder) == []


def test_it_is_off_unless_the_settings_say_otherwise():
    stage = Stage()
    stage.working()

    _ask(stage, price=26_900)

    assert stage.decided() == (Verdict.BLOCKED, "AMEND_ENABLED")


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.BREAK, Phase.PRE_CLOSED, Phase.CLOSED])
def test_a_phase_that_forbids_changes_refuses(phase):
    stage = _stage()
    stage.working()
    stage.phase(phase)

    _ask(stage, price=26_900)

    assert stage.decided() == (Verdict.BLOCKED, "AMEND_PHASE")


def test_a_closed_gate_refuses_in_its_own_word():
    stage = _stage()
    stage.working()
    stage.handle(OperatorActed(stage.now, Action.PAUSE, "lunch", "me"))

    _ask(stage, price=26_900)

    assert stage.decided() == (Verdict.BLOCKED, "PAUSED")


def test_a_market_order_has_no_price_to_change():
    stage = _stage()
    stage.request(lambda s: s.buy(100, market=OrderType.MTL))
    intent = stage.done[-1].intent
    stage.accept(intent)

    _ask(stage, quantity=200)

    assert stage.decided() == (Verdict.BLOCKED, "LIMIT_ORDER")


def test_an_ended_order_is_not_changed():
    stage = _stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, executed=100))

    _ask(stage, price=26_900)

    assert stage.decided() == (Verdict.BLOCKED, "OPEN_ORDER")
    assert stage.last(Decision).numbers["state"] == "FILLED"


def test_an_order_of_somebody_else_is_not_touched():
    stage = _stage()
    other = stage.buy()
    stage.book(report_of(other, "ORD7", symbol="SHS"))

    _ask(stage, price=26_900, name="ORD7")
    _cancel(stage, "ORD7")

    told = [one.numbers["state"] for one in stage.all(Decision)[-2:]]
    assert told == ["not an order of this bot"] * 2


@pytest.mark.parametrize("first", [_cancel, lambda stage: _ask(stage, price=26_950)])
def test_an_order_has_one_command_at_a_time(first):
    stage = _stage()
    stage.working()
    first(stage)

    _ask(stage, price=26_900)

    assert stage.decided() == (Verdict.BLOCKED, "ONE_COMMAND")


# -------------------------------------------------------------------------- between ask and sending


def test_a_row_without_its_permission_sends_nothing():
    for allowed in (False, None):
        stage = _stage()
        intent = stage.working()
        _ask(stage, price=26_900)

        stage.row(report_of(intent, may_amend=allowed))

        assert stage.new(AmendOrder) == []
        assert stage.decided() == (Verdict.BLOCKED, "ROW_ALLOWS")
        assert _amended(stage).verdict == "BLOCKED"


@pytest.mark.parametrize("executed", [200, 300])
def test_a_fill_that_came_meanwhile_is_seen_before_sending(executed):
    stage = _stage()
    intent = stage.working(500)
    _ask(stage, quantity=200)

    stage.row(report_of(intent, executed=executed))

    assert stage.decided() == (Verdict.BLOCKED, "ABOVE_EXECUTED")
    assert stage.new(AmendOrder) == []


def test_a_row_asked_for_before_the_ask_is_asked_for_anew():
    stage = _stage()
    intent = stage.working()
    row = report_of(intent)
    _ask(stage.after(2), price=26_900)

    stage.now -= timedelta(seconds=1)
    stage.row(row)

    assert stage.new(AmendOrder) == []
    assert stage.new(ReadOrder) == [ReadOrder("ORD1", "before amend")]


def test_a_row_that_cannot_be_read_sends_nothing():
    stage = _stage()
    intent = stage.working()
    _ask(stage, price=26_900)

    stage.pass_time(15)
    stage.row(report_of(intent))

    assert stage.last(Decision).code == "ROW_READ"
    assert stage.all(AmendOrder) == []


def test_a_cancel_that_is_wanted_meanwhile_comes_first():
    stage = _stage()
    intent = stage.working()
    _ask(stage, price=26_900)
    _cancel(stage)

    stage.row(report_of(intent))

    assert stage.new(AmendOrder) == []
    assert len(stage.new(CancelOrder)) == 1


# ------------------------------------------------------------------------------------- the verdicts


def test_the_new_value_in_the_row_is_done():
    stage, intent, row = _sent(price=26_900)

    _answer(stage, Accepted(result_of(intent, limit_price=26_900)))
    assert ReadOrder("ORD1", "after amend") in stage.done
    assert stage.entries_of_order().state is _S.PENDING_REPLACE
    stage.after(0.1).row(replace(row, price=26_900))

    shown = stage.entries_of_order()
    assert (shown.price, shown.state) == (26_900, _S.ACCEPTED)
    assert (_amended(stage).verdict, _amended(stage).stage) == ("DONE", "over")
    assert stage.last(Transition).note == "amend price 27,000 to 26,900: done"


def test_the_unmatched_part_alone_is_changed_and_that_is_done():
    stage, intent, row = _sent(quantity=300, executed=200)

    _answer(stage, Accepted(result_of(intent, quantity=300, code="-701111")))
    stage.after(0.1).row(replace(row, quantity=300, remaining_quantity=100))

    shown = stage.entries_of_order()
    assert (shown.quantity, shown.executed_quantity) == (300, 200)
    assert _states(stage)[-2:] == [_S.PENDING_REPLACE, _S.PARTIALLY_FILLED]
    assert (_amended(stage).verdict, _amended(stage).code) == ("DONE", "-701111")


@pytest.mark.parametrize(
    "outcome",
    [
        Refused("-900017", "price", 200, result_of(Stage().buy(), code="-900017")),
        Refused("-300025", "not now", 400),
        Refused("429", "slow", 429),
        NotSent("the journal can't be written"),
    ],
    ids=["200", "400", "429", "not sent"],
)
def test_a_refusal_is_one_when_the_row_is_unchanged(outcome):
    stage, _, row = _sent(price=26_900)

    _answer(stage, outcome)
    assert _amended(stage).verdict == ""
    stage.after(0.1).row(row)

    shown = stage.entries_of_order()
    assert (shown.price, shown.state) == (27_000, _S.ACCEPTED)
    assert _amended(stage).verdict == "REFUSED"
    assert len(stage.all(AmendOrder)) == 1
    assert [note.kind for note in stage.all(Note)][-1] == "AMEND"


@every_row(("executed", "state"), [(0, _S.ACCEPTED), (1, _S.PARTIALLY_FILLED)])
def test_an_order_works_on_after_a_refusal_as_what_it_was_to_the_share(executed, state):
    stage, _, row = _sent(price=26_900, executed=executed)
    _answer(stage, Refused("400", "no", 400))

    stage.after(1).row(row)

    assert stage.entries_of_order().state is state


def test_a_refusal_inside_200_is_kept_raw():
    stage, intent, _ = _sent(price=26_900)

    _answer(stage, Refused("-900017", "", 200, result_of(intent, raw="said no")))

    [seen] = stage.new(OrderResultSeen)
    assert (seen.source, seen.raw) == ("amend", "said no")


def test_a_row_outranks_a_refusal():
    stage, _, row = _sent(price=26_900)

    _answer(stage, Refused("400", "?", 400))
    stage.after(0.1).row(replace(row, price=26_900))

    assert _amended(stage).verdict == "DONE"


def test_a_late_answer_to_an_earlier_amendment_says_nothing_about_this_one():
    stage, _, row = _sent(price=26_900)
    first, shown = stage.all(AmendOrder)[-1], replace(row, price=26_900)
    stage.pass_time(31)
    stage.row(shown)
    assert _amended(stage).verdict == "DONE"
    stage.after(1).quote()
    _ask(stage, price=26_800)
    stage.row(shown)
    second = stage.new(AmendOrder)[0]

    late = NotSent("it was signed 31.0 s ago (limit 20 s)")
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", late, None, first.asked_at))
    stage.after(0.1).row(shown)
    assert (_amended(stage).new, _amended(stage).verdict) == (26_800, "")

    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", late, None, second.asked_at))
    stage.after(0.1).row(shown)
    assert _amended(stage).verdict == "REFUSED"


def test_a_lost_answer_is_polled_until_it_can_no_longer_arrive():
    stage, _, row = _sent(price=26_900)
    _answer(stage, Unknown("deadline"))
    reads = 0
    for _ in range(89):
        stage.pass_time(1)
        if stage.new(ReadOrder):
            reads += 1
            stage.row(row)
        assert _amended(stage).verdict == ""
    assert stage.entries_of_order().state is _S.PENDING_REPLACE

    for _ in range(16):
        stage.pass_time(1)
        if stage.new(ReadOrder):
            stage.row(row)

    assert reads >= 4
    assert _amended(stage).verdict == "NOT_DONE"
    assert stage.entries_of_order().state is _S.ACCEPTED
    assert len(stage.all(AmendOrder)) == 1


def test_a_lost_answer_whose_row_shows_the_new_value_is_done():
    stage, _, row = _sent(quantity=700)
    _answer(stage, Unknown("deadline"))

    stage.pass_time(4)
    stage.row(replace(row, quantity=700, remaining_quantity=700))

    assert _amended(stage).verdict == "DONE"
    assert stage.entries_of_order().quantity == 700


def test_an_accepted_change_that_no_row_shows_is_not_done():
    stage, intent, row = _sent(price=26_900)
    _answer(stage, Accepted(result_of(intent, limit_price=26_900)))
    stage.after(1).row(row)
    assert _amended(stage).verdict == ""

    stage.after(90).row(row)

    assert _amended(stage).verdict == "NOT_DONE"


def test_a_row_in_change_is_no_verdict():
    stage, intent, row = _sent(price=26_900)
    _answer(stage, Accepted(result_of(intent)))

    stage.after(40).row(replace(row, state=_S.PENDING_REPLACE, status="FIXING"))

    assert _amended(stage).verdict == ""


def test_another_value_than_either_is_an_alert():
    stage, intent, row = _sent(quantity=700, executed=100)
    _answer(stage, Accepted(result_of(intent, code="-701111")))

    stage.after(1).row(replace(row, quantity=800, remaining_quantity=700))

    assert _amended(stage).verdict == "DIFFERS"
    assert [note.kind for note in stage.all(Note)][-1] == "ALERT"
    assert stage.entries_of_order().quantity == 800
    assert stage.engine._state.orders["ORD1"].prices == (27_000,)


def test_an_order_that_ends_first_ends_its_amendment():
    stage, intent, row = _sent(price=26_900)
    _answer(stage, Unknown("deadline"))

    stage.after(1).book(report_of(intent, executed=500))

    assert _amended(stage).verdict == "ENDED"
    assert stage.entries_of_order().state is _S.FILLED
    assert stage.is_idle()
    assert row.executed_quantity == 0


def test_a_403_closes_the_gate_and_changes_nothing():
    stage, _, row = _sent(price=26_900)

    done, at = _answer(stage, Refused("OTP_SESSION_EXPIRED", "2FA", 403)), stage.now
    stage.after(1).row(row)

    assert DropToken("OTP_SESSION_EXPIRED", at) in done
    assert stage.last(StateChanged).to_state is RunState.NEEDS_2FA
    assert _amended(stage).verdict == "REFUSED"
    stage.token()
    assert len(stage.all(AmendOrder)) == 1


def test_polls_do_not_end_a_pending_change():
    stage, _, row = _sent(price=26_900)

    stage.after(1).book(row)
    stage.after(1).book(
        replace(
            row,
            executed_quantity=100,
            executed_amount=2_700_000,
            average_price=27_000,
            remaining_quantity=400,
        )
    )

    assert stage.entries_of_order().state is _S.PENDING_REPLACE
    assert stage.entries_of_order().executed_quantity == 100


# --------------------------------------------------------------------------------- what is reserved


@pytest.mark.parametrize(("new", "open_quantity"), [(700, 600), (300, 400)])
def test_until_the_verdict_the_larger_quantity_counts(new, open_quantity):
    stage, _, row = _sent(quantity=new, executed=100)
    order = stage.engine._state.orders["ORD1"]
    assert order.open_quantity == open_quantity

    _answer(stage, Refused("-700105", "", 400))
    assert order.open_quantity == open_quantity
    stage.after(1).row(row)

    assert order.open_quantity == 400


@pytest.mark.parametrize("new", [26_900, 27_100])
def test_until_the_verdict_the_higher_price_is_reserved_and_neither_may_be_crossed(new):
    stage, _, row = _sent(price=new)
    order = stage.engine._state.orders["ORD1"]
    assert order.prices == tuple(sorted({27_000, new}))
    state = stage.engine._state
    free = means_of(state, state.strategies["test"], "HPG").cash
    amount = 500 * max(27_000, new)
    assert free == 100_000_000 - amount - stage.engine._state.rulebook.fee(amount)

    _answer(stage, Unknown("deadline"))
    stage.after(1).row(replace(row, price=new))

    assert order.prices == (new,)


# ------------------------------------------------------------------------------------------ cancels


def test_a_cancel_by_hand_goes_the_way_of_every_cancel():
    stage = Stage()
    intent = stage.working(500)

    assert ReadOrderToCancel("ORD1", "before cancel: by hand") in _cancel(stage, "L-0001")
    stage.row(report_of(intent))

    assert stage.new(CancelOrder) == [CancelOrder("ORD1", "L-0001", ACCOUNT, "by hand")]


def test_all_open_orders_are_cancelled_at_once():
    stage = Stage()
    stage.working(100, 27_000)
    stage.request(lambda s: s.sell(100, limit=28_000))
    stage.handle(CancelAsked(stage.now, None, "operator", "by hand"))

    assert [one.order_id for one in stage.new(ReadOrder)] == ["ORD1"]
    assert stage.last(Note).numbers == {"orders": 1}


def test_an_order_that_is_being_cancelled_is_said_to_be():
    stage = Stage()
    stage.working()

    _cancel(stage)
    _cancel(stage)

    assert [note.text for note in stage.all(Note) if note.kind == "CANCEL"] == [
        "ORD1 is to be cancelled, asked by operator",
        "ORD1 is being cancelled already, asked by operator",
    ]


@pytest.mark.parametrize("name", ["ORD9", "L-0099", ""])
def test_an_unknown_order_cannot_be_cancelled(name):
    stage = Stage()

    _cancel(stage, name)

    assert stage.decided() == (Verdict.BLOCKED, "OPEN_ORDER")
    assert stage.last(Decision).request_id is None


def test_an_ask_can_be_judged_without_being_made():
    stage = _stage()
    stage.working()
    before = len(stage.entries)

    assert stage.engine.objection(AmendAsked(stage.now, "ORD1", 26_900, None, "me", "")) is None
    found = stage.engine.objection(AmendAsked(stage.now, "ORD1", 27_000, None, "me", ""))

    assert found is not None
    assert found.code == "CHANGE"
    stage.handle(TimePassed(stage.now))
    assert len(stage.entries) == before
    assert isinstance(stage.entries_of_order(), OrderUpdated)


def test_after_a_restart_a_row_ends_what_was_pending():
    before, _, row = _sent(price=26_900)
    pending = before.entries_of_order()
    assert pending.state is _S.PENDING_REPLACE
    intent = StoredIntent(before.last(IntentRecorded).intent, SendState.ACKED, "ORD1", None)
    stage = _stage(recovery=Recovery(DAY, 2, intents=(intent,), orders=(pending,)))

    stage.book(replace(row, price=26_900))

    assert (stage.entries_of_order().price, stage.entries_of_order().state) == (
        26_900,
        _S.ACCEPTED,
    )


# ----------------------------------------------------------------------- the last look before a PUT


CLOSED = [
    (Action.HALT, "HALTED: by hand"),
    (Action.PAUSE, "PAUSED: by hand"),
    (Action.STOP, "STOPPING: by hand"),
]


@pytest.mark.parametrize(("action", "reason"), CLOSED)
def test_what_closes_the_gate_keeps_an_amendment_back(action, reason):
    stage, intent, _ = _sent(price=26_900)
    assert stage.engine.reason_not_to_amend(intent.intent_id) is None

    stage.handle(OperatorActed(stage.now, action, "by hand", "operator"))

    assert stage.engine.reason_not_to_amend(intent.intent_id) == reason


def test_a_missing_token_keeps_an_amendment_back():
    stage, intent, _ = _sent(price=26_900)

    _answer(stage, Refused("OTP_SESSION_EXPIRED", "no token", 403))

    reason = stage.engine.reason_not_to_amend(intent.intent_id)
    assert reason == "TWO_FACTOR: needs 2FA (OTP_SESSION_EXPIRED)"


def test_a_cancel_requested_meanwhile_keeps_an_amendment_back():
    stage, intent, _ = _sent(price=26_900)

    stage.after(1).handle(CancelAsked(stage.now, "ORD1", "operator", "not wanted"))

    reason = stage.engine.reason_not_to_amend(intent.intent_id)
    assert reason == "its order is being cancelled: not wanted"


def test_an_order_that_nobody_knows_is_not_amended():
    assert _stage().engine.reason_not_to_amend("L-0009") == "L-0009 is not known"


# ------------------------------------------------------------------------------- a lost PUT's nonce


TRUSTING = replace(ON, unknown_policy=UnknownPolicy.FENCE)


def _lost(settings):
    """An amendment whose answer was lost."""
    stage = Stage(settings=settings)
    intent = stage.working(500, 27_000)
    row = report_of(intent)
    _ask(stage.after(1), price=26_900)
    stage.row(row)
    _answer(stage.after(1), Unknown("timeout", None))
    return stage, row


def test_the_nonce_of_a_lost_amendment_is_tried():
    stage, _ = _lost(ON)

    assert stage.new(BurnNonce) == [BurnNonce("a-1")]
    assert stage.engine.is_asked_after("a-1")


@pytest.mark.parametrize(
    ("settings", "resolution", "is_over"),
    [
        (TRUSTING, Resolution.FRESH, True),
        (TRUSTING, Resolution.REACHED, False),
        (ON, Resolution.FRESH, False),  # by default the horizon has to pass too
    ],
)
def test_an_unused_nonce_shows_that_an_amendment_never_passed(settings, resolution, is_over):
    stage, row = _lost(settings)

    stage.after(1).handle(NonceBurnt(stage.now, "a-1", resolution, "a test"))
    stage.after(1).row(row)

    assert (_amended(stage).verdict == "NOT_DONE") is is_over
    assert stage.engine.is_asked_after("a-1") is not is_over


def test_an_unused_nonce_does_not_settle_what_a_row_shows_done():
    stage, row = _lost(TRUSTING)

    stage.after(1).handle(NonceBurnt(stage.now, "a-1", Resolution.FRESH, "a test"))
    stage.after(1).row(replace(row, price=26_900))

    assert _amended(stage).verdict == "DONE"


def test_an_unused_nonce_has_the_row_read_at_once():
    stage, _ = _lost(TRUSTING)

    stage.handle(NonceBurnt(stage.now, "a-1", Resolution.FRESH, "a test"))

    assert stage.new(ReadOrder) == [ReadOrder("ORD1", "after amend")]


def test_an_amendment_that_no_row_tells_of_stays_on_the_screen_until_one_does():
    stage, row = _lost(ON)

    stage.pass_time(200)
    [alert] = stage.engine.status().alerts
    stage.row(row)

    assert "no row says what became of its change (price 27,000 to 26,900)" in alert
    assert stage.engine.status().alerts == ()


def test_a_value_that_nobody_asked_for_is_an_alert_with_its_numbers():
    stage, row = _lost(ON)

    stage.after(1).row(replace(row, price=26_950))

    [alert] = [one for one in stage.all(Note) if one.kind == "ALERT"]
    facts = ("alert", "order_id", "old", "new")
    assert [alert.numbers[each] for each in facts] == ["AMEND_DIFFERS", "ORD1", 27_000, 26_900]


def test_a_halt_while_a_change_is_on_its_way_cancels_at_once_and_says_what_it_waits_for():
    stage, intent, _ = _sent(price=26_000)
    stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "operator"))
    stage.row(report_of(intent, may_cancel=True))
    deletes = stage.new(CancelOrder)
    stage.handle(CancelAnswered(stage.now, "ORD1", Accepted(result_of(intent)), None))

    over = report_of(intent, cancelled=500, state=OrderState.CANCELLED, status="CANCELLED")
    stage.after(1).row(replace(over, may_cancel=False))
    stage.pass_time(2)
    stage.row(replace(over, may_cancel=False))

    assert [one.order_id for one in deletes] == ["ORD1"]
    [cancel] = stage.engine.status().cancels
    assert cancel.why.startswith("the broker shows CANCELLED, and its change has no answer yet")
