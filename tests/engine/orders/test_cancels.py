from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from bot.domain.entry import AttemptFinished, Decision, Note, OrderResultSeen
from bot.domain.instrument import Phase
from bot.domain.message import (
    CancelAnswered,
    CancelOrder,
    OrderRead,
    PlaceOrder,
    ReadOrder,
    ReadOrderToCancel,
    TimePassed,
)
from bot.domain.operations import CancelAsked
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted, NotSent, Refused, Unknown
from bot.domain.plan import OrderPlan
from bot.engine.orders import cancels
from bot.engine.orders.cancels import LOOKS_MAX
from bot.engine.settings import EngineSettings
from bot.engine.tracked import Hindrance
from tests.engine.orders.test_held import Pair
from tests.engine.stage import ACCOUNT, PLAN, START, Stage, report_of, result_of
from tests.rows import every_row

EXPIRING = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=3)))
WHY = "expire 3m"
REFUSAL = Refused("400", "no", 400)
NOON = START.replace(hour=5, minute=0)
"""12:00 local."""


def _expired(settings=None):
    stage = Stage(EXPIRING, settings=settings)
    intent = stage.working(500, 27_050)
    stage.after(90).book(report_of(intent, executed=200))
    stage.pass_time(90)
    return stage, intent


def _alerts(stage):
    return [note for note in stage.all(Note) if note.kind == "ALERT"]


def _answered(stage, intent, outcome=None):
    outcome = outcome or Accepted(result_of(intent))
    return stage.handle(CancelAnswered(stage.now, "ORD1", outcome, None))


def test_the_row_is_read_before_the_cancel_is_sent():
    stage, intent = _expired()
    assert stage.new(ReadOrderToCancel) == [ReadOrderToCancel("ORD1", f"before cancel: {WHY}")]

    stage.row(report_of(intent, executed=200))

    assert stage.new(CancelOrder) == [CancelOrder("ORD1", "L-0001", ACCOUNT, WHY)]


def test_a_halted_symbol_keeps_its_time_from_cancelling_no_order_that_is_certainly_ours():
    stage = Stage(EXPIRING)
    intent = stage.working(500, 27_050)
    stage.after(90).book(report_of(intent), report_of(intent, "ORD1", symbol="SSI"))
    assert "HPG" in stage.engine.status().halted_symbols
    stage.pass_time(90)

    stage.row(report_of(intent))

    assert [each.order_id for each in stage.new(CancelOrder)] == ["ORD1"]


def test_the_verdict_comes_from_a_row_only():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    done = _answered(stage, intent, Accepted(result_of(intent, state=OrderState.CANCELLED)))
    assert ReadOrder("ORD1", "after cancel") in done
    assert stage.entries_of_order().state is OrderState.PARTIALLY_FILLED

    stage.after(1).row(report_of(intent, executed=200, cancelled=300))
    row = stage.entries_of_order()
    assert (row.state, row.broker_status) == (OrderState.CANCELLED, "SENT")
    assert row.note == "expire 3m: 200 filled, 300 cancelled"
    assert stage.is_idle()


def test_a_cancelled_order_without_a_fill_ends_unfilled():
    stage = Stage(EXPIRING)
    intent = stage.working(500, 27_050)
    stage.pass_time(180)
    stage.row(report_of(intent))
    _answered(stage, intent, Accepted(result_of(intent, state=OrderState.CANCELLED)))

    stage.after(1).row(report_of(intent, cancelled=500))

    assert stage.entries_of_order().note == "expire 3m: 500 cancelled unfilled"


@every_row(
    ("order_type", "status", "said"),
    [
        ("LO", "CANCELLED", "not cancelled by this bot: 200 filled, 300 cancelled"),
        ("LO", "INTERNAL_CANCELLED", "cancelled by the broker: 200 filled, 300 cancelled"),
        ("MAK", "CANCELLED", "200 filled, 300 cancelled"),
    ],
)
def test_an_end_that_the_bot_did_not_ask_for_is_said(order_type, status, said):
    stage = Stage(EXPIRING)
    intent = stage.working(500, 27_050)
    report = report_of(intent, executed=200, cancelled=300)

    stage.after(1).row(replace(report, order_type=order_type, status=status))

    assert stage.entries_of_order().note == said


def test_an_order_that_was_filled_meanwhile_is_not_cancelled():
    stage, intent = _expired()

    stage.row(report_of(intent, executed=500))

    assert stage.new(CancelOrder) == []
    assert stage.is_idle()


def test_the_rows_own_flag_outranks_the_state():
    stage, intent = _expired()

    stage.row(report_of(intent, executed=200, may_cancel=False))

    assert stage.new(CancelOrder) == []


@pytest.mark.parametrize("outcome", [Refused("400", "no", 400), Unknown("deadline")])
def test_a_cancel_goes_on_after_five_tries_and_a_person_is_told(outcome):
    stage, intent = _expired()
    row = report_of(intent, executed=200)
    sent_s = []
    for second in range(200):
        if stage.new(ReadOrder):
            stage.row(row)
        if stage.new(CancelOrder):
            sent_s.append(second)
            _answered(stage, intent, outcome)
        stage.pass_time(1)

    assert sent_s == [0, 1, 3, 7, 15, 30, 60, 90, 120, 150, 180]
    late, stuck = _alerts(stage)
    said = {"400": "the broker refused the cancel: 400: no"}.get(
        getattr(outcome, "code", ""), "the cancel had no answer that can be trusted: deadline"
    )
    order = "ORD1 (L-0001, BUY 300 HPG at 27,050) is still open after"
    app = "If it must end now, cancel it in the broker's own app"
    first = f"{order} 4 cancels (expire 3m): {said}; next try at 09:33:15. The bot goes on. {app}"
    assert late.text == first
    assert stuck.text == (
        f"{order} 5 cancels (expire 3m): {said}; next try at 09:33:30. The bot sends another every"
        f" 30 s while it is open. {app}"
    )
    assert (stuck.symbol, stuck.numbers) == (
        "HPG",
        {
            "alert": "CANCEL_STUCK",
            "intent_id": "L-0001",
            "order_id": "ORD1",
            "side": "BUY",
            "quantity": 300,
            "symbol": "HPG",
            "price": 27_050,
            "order_type": "LO",
            "reason": "expire 3m",
            "tries": 5,
            "hindrance": "REFUSED" if isinstance(outcome, Refused) else "NO_ANSWER",
            "detail": "400: no" if isinstance(outcome, Refused) else "deadline",
            "next": "2026-11-19T02:33:30+00:00",
        },
    )


def test_a_429_waits_as_long_as_the_broker_says():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    _answered(stage, intent, Refused("429", "slow", 429, retry_after_s=30.0))
    stage.row(report_of(intent, executed=200))

    for _ in range(29):
        stage.pass_time(1)
        assert stage.new(ReadOrder) == []
    stage.pass_time(1)
    assert len(stage.new(ReadOrder)) == 1


@pytest.mark.parametrize("is_unreadable", [True, False])
def test_a_row_that_cannot_be_read_or_is_not_there_holds_no_cancel_back(is_unreadable):
    stage, _ = _expired()

    stage.handle(OrderRead(stage.now, "ORD1", None, is_unreadable=is_unreadable))

    assert len(stage.new(CancelOrder)) == 1


def test_a_row_that_does_not_come_holds_a_cancel_back_for_two_seconds():
    stage, _ = _expired()

    stage.pass_time(1.9)
    assert stage.new(CancelOrder) == []
    assert stage.due() == stage.now + timedelta(seconds=0.1)
    stage.pass_time(0.1)

    assert len(stage.new(CancelOrder)) == 1


def test_a_row_that_was_asked_for_before_the_cancel_is_not_the_one_it_waits_for():
    stage, intent = _expired()

    old = replace(report_of(intent), requested_at=stage.now - timedelta(seconds=3))
    stage.handle(OrderRead(stage.now - timedelta(seconds=3), "ORD1", old))

    assert stage.new(CancelOrder) == []


@pytest.mark.parametrize(("age_s", "sent"), [(10, 0), (11, 1)])
def test_without_a_detail_row_one_of_the_day_order_book_counts_for_ten_seconds(age_s, sent):
    stage = Stage()
    intent = stage.working()
    stage.book(report_of(intent, may_cancel=False))
    stage.after(age_s).handle(CancelAsked(stage.now, "ORD1", "me", "by hand"))

    stage.row(None)

    assert len(stage.new(CancelOrder)) == sent


def _sell(limit, strategy):
    strategy.sell(100, limit=limit)


def test_of_many_cancels_a_few_wait_for_rows_and_the_others_leave_at_once():
    stage = Stage(sellable=1_000)
    stage.after(1).book(report_of(stage.working(1_000), executed=1_000))
    stage.request(*(partial(_sell, 27_000 + 50 * number) for number in range(8)))
    for number, place in enumerate(stage.new(PlaceOrder)):
        stage.accept(place.intent, f"ORD1{number}")

    stage.after(15).handle(CancelAsked(stage.now, None, "me", "all"))

    assert len(stage.new(ReadOrderToCancel)) == LOOKS_MAX
    assert len(stage.new(CancelOrder)) == 8 - LOOKS_MAX
    stage.pass_time(2)
    assert len(stage.all(CancelOrder)) == 8


def test_over_lunch_the_cancel_waits_for_the_first_legal_second():
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.now = NOON

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "halt"))
    stage.pass_time(1)

    assert stage.all(ReadOrder) == []
    words = (
        "ORD1 (L-0001, BUY 500 HPG at 27,050) is still open (halt): the exchange cancels nothing"
        " now (lunch break); the cancel goes out at 13:00:00"
    )
    assert [note.text for note in _alerts(stage)] == [f"{words}. There is nothing to do"]
    assert stage.engine.status().alerts == (words,)
    stage.now = NOON.replace(hour=6)
    stage.handle(TimePassed(stage.now))  # nobody has asked the broker for the phase yet
    stage.row(report_of(intent))
    assert len(stage.new(CancelOrder)) == 1
    assert stage.engine.status().alerts == ()


@every_row(("flag", "queued"), [(True, False), (None, False), (False, True)])
def test_over_lunch_an_order_that_only_the_broker_has_is_cancelled_there(flag, queued):
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.now = NOON
    waits = report_of(intent, status="WAITING_TO_SEND", may_cancel=flag)
    stage.book(waits)

    stage.after(60).handle(CancelAsked(stage.now, "ORD1", "me", "halt"))
    stage.row(waits)

    assert [note.numbers["alert"] for note in _alerts(stage)] == ["CANCEL_QUEUED"] * queued
    assert len(stage.all(CancelOrder)) == (not queued)


def test_a_cancel_queued_over_lunch_leaves_when_a_row_shows_the_order_still_at_the_broker():
    stage = Stage()
    intent = stage.buy(500, 27_050)
    stage.send(intent)
    stage.answer(intent, Accepted(result_of(intent, status="ACCEPTING")))
    stage.now = NOON
    stage.handle(CancelAsked(stage.now, "ORD1", "me", "halt"))
    waits = report_of(intent, status="WAITING_TO_SEND", may_cancel=True)

    stage.after(1).book(report_of(intent, status="ACCEPTING"))
    queued = stage.new(ReadOrderToCancel)
    stage.after(1).book(waits)
    stage.row(waits)

    assert queued == []
    assert stage.new(CancelOrder) == [CancelOrder("ORD1", "L-0001", ACCOUNT, "halt")]


def test_after_the_last_phase_with_cancels_the_order_is_said_to_lapse():
    stage = Stage()
    stage.working(500, 27_050)
    stage.now = NOON + timedelta(hours=2, minutes=31)

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "halt"))

    [alert] = _alerts(stage)
    assert "cancels nothing any more today (closing auction (ATC)); it lapses then" in alert.text


def test_a_phase_that_the_broker_said_long_ago_holds_no_cancel_back():
    stage = Stage()
    stage.working()
    stage.phase(Phase.BREAK)  # and no phase can be read from then on

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "halt"))

    assert len(stage.new(ReadOrderToCancel)) == 1


def test_asked_twice_it_is_one_cancel():
    stage = Stage()
    stage.working()

    stage.request(lambda s: s.cancel(), lambda s: s.cancel())

    assert len(stage.new(ReadOrder)) == 1


def test_a_strategy_without_an_order_has_nothing_to_cancel():
    stage = Stage()

    stage.request(lambda s: s.cancel(why="tidy"))

    assert stage.decided() == ("SKIPPED", "NOTHING_TO_CANCEL")


@pytest.mark.parametrize("send", [None, "SENDING", "UNKNOWN"])
def test_what_a_strategy_takes_back_on_its_way_is_cancelled_when_it_turns_up(send):
    stage = Stage()
    intent = stage.buy(100, 26_000)
    if send is not None:
        stage.send(intent)
    if send == "UNKNOWN":
        stage.after(1).answer(intent, Unknown("deadline"))

    stage.after(1).request(*[lambda s: s.cancel(why="changed my mind")] * 2)
    asked = stage.new(Decision)
    if send == "UNKNOWN":
        stage.after(1).book(report_of(intent))
    else:
        stage.accept(intent)
    stage.row(report_of(intent))

    [said] = [(one.verdict, one.code, one.why, one.request_id, one.numbers) for one in asked]
    state = send or "READY"
    assert said == ("PASSED", "CANCEL", "changed my mind", "L-0001", {"send": state})
    assert [one.reason for one in stage.all(CancelOrder)] == ["changed my mind"]
    assert stage.engine.status().cancels[0].order_id == "ORD1"


def test_a_strategy_takes_back_its_own_orders_in_its_own_symbol_alone():
    stage = Pair()
    theirs = stage.buy(100, 26_000)
    stage.send(theirs)

    stage.other(lambda s: s.cancel(why="mine"))
    decided = stage.decided()
    stage.answer(theirs, Accepted(result_of(theirs)))

    assert decided == ("SKIPPED", "NOTHING_TO_CANCEL")
    assert stage.engine.status().cancels == ()


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (NotSent("no connection"), "the cancel could not be sent: no connection"),
        (
            Refused("RATE", "429", 429, retry_after_s=3.0),
            "the broker's request quota is used up (429)",
        ),
    ],
)
def test_a_cancel_that_nobody_looked_at_is_no_try_and_is_sent_every_few_seconds(outcome, words):
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    sent = 0
    for _ in range(120):
        if stage.new(CancelOrder):
            sent += 1
            _answered(stage, intent, outcome)
        elif stage.new(ReadOrderToCancel):
            stage.row(report_of(intent, executed=200))
            continue
        stage.pass_time(1)

    assert sent >= (24 if isinstance(outcome, NotSent) else 8)
    assert [one.numbers["alert"] for one in _alerts(stage)] == ["CANCEL_LATE"]
    [told] = stage.engine.status().alerts
    assert f"(expire 3m): {words}" in told
    assert stage.engine.status().cancels[0].tries == 0


def test_a_cancel_that_was_not_sent_spends_no_more_of_the_quota_on_rows():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    _answered(stage, intent, NotSent("no room"))
    stage.pass_time(1)

    assert (len(stage.new(CancelOrder)), stage.new(ReadOrder)) == (1, [])


def _refused_for(stage, row, seconds, outcome=REFUSAL):
    """Return how many rows were looked at, and the seconds at which DELETEs left."""
    looks, sent_s = 0, []
    for second in range(seconds):
        if stage.new(ReadOrderToCancel):
            looks += 1
            stage.row(row)
        if stage.new(CancelOrder):
            sent_s.append(second)
            stage.handle(CancelAnswered(stage.now, "ORD1", outcome, None))
            stage.row(row)
        stage.pass_time(1)
    return looks, sent_s


def test_a_row_that_says_no_is_looked_at_again_and_is_no_try():
    stage, intent = _expired()
    no = report_of(intent, executed=200, may_cancel=False)

    looks, sent_s = _refused_for(stage, no, 30)

    assert (looks, sent_s) == (5, [])
    assert stage.engine.status().cancels[0].tries == 0
    [told] = stage.engine.status().alerts
    assert "(expire 3m): the broker's row says that it can't be cancelled now (status SENT)" in told
    assert [one.numbers["alert"] for one in _alerts(stage)] == ["CANCEL_LATE"]


def test_a_row_that_goes_on_saying_no_holds_a_cancel_back_for_half_a_minute_only():
    stage, intent = _expired()
    no = report_of(intent, executed=200, may_cancel=False)

    _, sent_s = _refused_for(stage, no, 150)

    assert sent_s == [30, 31, 33, 37, 45, 60, 90, 120]
    assert [one.numbers["alert"] for one in _alerts(stage)] == ["CANCEL_LATE", "CANCEL_STUCK"]


def test_a_row_that_shows_a_cancel_under_way_is_given_half_a_minute_after_each():
    stage, intent = _expired()
    row = report_of(intent, executed=200, state=OrderState.PENDING_CANCEL, may_cancel=False)

    _, sent_s = _refused_for(stage, row, 100)

    assert sent_s == [30, 60, 90]


def test_after_the_exchanges_own_ban_a_row_that_says_no_has_half_a_minute_again():
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.now = NOON
    stage.handle(CancelAsked(stage.now, "ORD1", "me", "halt"))
    no = report_of(intent, may_cancel=False)

    at_lunch = _refused_for(stage, no, 60)
    stage.now = NOON.replace(hour=6)
    stage.pass_time(0)
    _, sent_s = _refused_for(stage, no, 40)

    assert at_lunch == (0, [])
    assert sent_s == [30, 31, 33, 37]


def test_a_day_order_book_that_says_no_more_lets_the_cancel_go_at_once():
    stage, intent = _expired()
    for _ in range(20):
        if stage.new(ReadOrderToCancel):
            stage.row(report_of(intent, executed=200, may_cancel=False))
        stage.pass_time(1)

    stage.book(report_of(intent, executed=200, may_cancel=True))
    stage.row(report_of(intent, executed=200, may_cancel=True))

    assert len(stage.new(CancelOrder)) == 1


def test_a_guess_from_the_state_holds_a_cancel_back_for_half_a_minute_only():
    stage, intent = _expired()
    row = report_of(intent, executed=200, state=OrderState.PENDING_CANCEL, may_cancel=None)
    sent_s = []
    for second in range(100):
        if stage.new(ReadOrderToCancel):
            stage.row(row)
        if stage.new(CancelOrder):
            sent_s.append(second)
            _answered(stage, intent, Unknown("deadline"))
        stage.pass_time(1)

    assert sent_s == [30, 60, 90]


def test_an_answer_that_never_comes_is_one_try_and_the_next_leaves():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    stage.pass_time(30)
    stage.row(report_of(intent, executed=200))

    assert len(stage.all(CancelOrder)) == 2
    assert stage.engine.status().cancels[0].tries == 1


@pytest.mark.parametrize(
    ("asked_s", "state"), [(5, OrderState.ACCEPTED), (10, OrderState.CANCELLED)]
)
def test_a_row_asked_for_before_the_cancel_was_taken_ends_nothing(asked_s, state):
    stage = Stage()
    intent = stage.working()
    stage.after(10)

    _answered(stage, intent)
    stage.after(1)
    row = report_of(intent, cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
    stage.book(row, asked_at=START + timedelta(seconds=asked_s))

    assert stage.entries_of_order().state is state


def test_a_cancel_that_was_taken_proves_the_token():
    stage = Stage()
    intent = stage.working()
    stage.token()
    assert stage.engine.status().is_unproven

    _answered(stage, intent)

    assert not stage.engine.status().is_unproven


def test_a_cancel_that_was_taken_is_not_said_to_be_refused_when_the_next_one_is():
    stage, intent = _expired()
    _answered(stage, intent)
    for _ in range(40):
        stage.pass_time(1)
        if stage.new(CancelOrder):
            _answered(stage, intent, Refused("FAILED", "it has ended", 200))

    assert " still open after " in _alerts(stage)[-1].text
    assert (
        "the broker took the cancel, but no row shows the end of the order (a later one was "
        "refused: FAILED: it has ended); next try at"
    ) in _alerts(stage)[-1].text


def test_a_cancel_of_one_order_leaves_the_others():
    stage = Stage(sellable=1_000)
    stage.after(1).book(report_of(stage.working(100), executed=100))
    stage.request(*(partial(_sell, 27_000 + 50 * number) for number in range(2)))
    for number, place in enumerate(stage.new(PlaceOrder)):
        stage.accept(place.intent, f"ORD1{number}")

    stage.after(1).handle(CancelAsked(stage.now, "ORD10", "me", "one"))
    stage.row(None, "ORD10")

    assert [one.order_id for one in stage.engine.status().cancels] == ["ORD10"]
    assert [one.order_id for one in stage.all(CancelOrder)] == ["ORD10"]


def test_a_cancel_is_decided_once_with_what_it_is_about():
    stage = Stage()
    intent = stage.working(500, 27_050)
    stage.after(1).book(report_of(intent, executed=200))

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "by hand"))
    stage.handle(CancelAsked(stage.now, None, "me", "all"))

    [decision] = [one for one in stage.all(Decision) if one.code == "CANCEL"]
    assert (decision.strategy, decision.symbol, decision.request_id) == ("test", "HPG", "L-0001")
    assert (decision.numbers, decision.why) == ({"open": 300, "executed": 200}, "by hand")


def test_a_refused_cancel_names_the_strategy_of_the_order():
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(report_of(intent, executed=100))

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "by hand"))

    decision = stage.last(Decision)
    assert (decision.verdict, decision.strategy, decision.symbol) == ("BLOCKED", "test", "HPG")


def test_an_order_on_its_way_is_to_be_cancelled_once_however_often_it_is_asked_for():
    stage = Stage()
    stage.send(stage.buy())

    stage.handle(CancelAsked(stage.now, None, "me", "first"))
    stage.handle(CancelAsked(stage.now, None, "me", "again"))

    told = [one.why for one in stage.all(Decision) if one.code == "CANCEL"]
    assert told == ["first"]


@pytest.mark.parametrize(("seconds", "span"), [(90, "90s"), (120, "2m")])
def test_an_order_past_its_time_is_cancelled_with_that_time_as_the_reason(seconds, span):
    after = timedelta(seconds=seconds)
    stage = Stage(replace(PLAN, order=OrderPlan(expire_after=after)))
    stage.working()

    stage.pass_time(seconds)

    assert [one.why for one in stage.all(Decision) if one.code == "CANCEL"] == [f"expire {span}"]


def test_a_cancel_is_late_from_the_eighth_second_on():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))

    stage.pass_time(7.9)
    early = stage.engine.status().alerts
    stage.pass_time(0.1)

    assert early == ()
    assert len(stage.engine.status().alerts) == 1
    assert [one.numbers["alert"] for one in _alerts(stage)] == ["CANCEL_LATE"]


def test_without_a_token_nothing_of_a_cancel_falls_due():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))
    _answered(stage, intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.pass_time(1)
    stage.book(report_of(intent, executed=200))

    due = stage.engine.next_due()

    assert stage.engine._state.cancels["ORD1"].hindrance is Hindrance.TWO_FACTOR
    assert due is not None
    assert due > stage.now
    assert [*cancels.deadlines(stage.engine._state)] == []


def test_a_cancel_that_two_deadlines_fall_due_for_is_due_at_both():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))
    asked_at = stage.now
    _answered(stage, intent, Unknown("deadline"))
    stage.book(report_of(intent, executed=200))

    due = set(cancels.deadlines(stage.engine._state))

    assert due == {asked_at + timedelta(seconds=1), asked_at + cancels.LATE_AFTER}


def test_a_cancel_without_an_answer_counts_as_a_try_and_not_as_a_wait():
    stage, intent = _expired(EngineSettings(read_patience=timedelta(seconds=5)))
    stage.row(report_of(intent, executed=200))
    stage.pass_time(10)

    stage.row(report_of(intent, executed=200, may_cancel=False))
    stage.book(report_of(intent, executed=200, may_cancel=False))

    cancel = stage.engine._state.cancels["ORD1"]
    assert (cancel.tries, cancel.due) == (1, stage.now + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("at", "hindrance"), [(NOON, "PHASE"), (NOON + timedelta(hours=2, minutes=31), "DAY_OVER")]
)
def test_the_facts_of_a_queued_cancel_say_whether_it_can_still_leave_today(at, hindrance):
    stage = Stage()
    stage.working(500, 27_050)
    stage.now = at

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "halt"))

    assert [alert.numbers["hindrance"] for alert in _alerts(stage)] == [hindrance]


def test_of_two_cancels_the_one_that_still_waits_for_its_row_is_not_said_to_lack_a_token():
    stage = Stage(sellable=1_000)
    stage.after(1).book(report_of(stage.working(200), executed=200))
    stage.request(*(partial(_sell, 27_000 + 50 * number) for number in range(2)))
    first, second = (place.intent for place in stage.new(PlaceOrder))
    stage.accept(first, "ORD10")
    stage.accept(second, "ORD11")
    stage.handle(CancelAsked(stage.now, "ORD10", "me", "one"))
    stage.row(report_of(first, "ORD10"), "ORD10")
    stage.after(1).handle(CancelAsked(stage.now, "ORD11", "me", "two"))
    needs = Refused("OTP_SESSION_EXPIRED", "2FA", 403)

    stage.handle(CancelAnswered(stage.now, "ORD10", needs, None))
    at_once = _lacking(stage)
    dues = set(cancels.deadlines(stage.engine._state))
    stage.pass_time(2)

    assert at_once == ["ORD10"]
    assert START + timedelta(seconds=4) in dues
    assert _lacking(stage) == ["ORD10", "ORD11"]


def _lacking(stage):
    told = [one for one in _alerts(stage) if one.numbers["alert"] == "CANCEL_NEEDS_TOKEN"]
    return [one.numbers["ids"] for one in told]


def test_an_answer_to_a_cancel_is_journalled_with_what_the_broker_said():
    stage, intent = _expired()
    stage.row(report_of(intent, executed=200))
    finished = stage.finished_of(intent)

    stage.handle(CancelAnswered(stage.now, "ORD1", Accepted(result_of(intent)), finished))

    assert stage.new(AttemptFinished) == [finished]
    assert [(one.source, one.order_id) for one in stage.new(OrderResultSeen)] == [
        ("cancel", "ORD1")
    ]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_order_without_a_row_has_the_day_order_book_read_soon(is_there):
    stage, intent = _expired()
    stage.pass_time(1)
    stage.book(report_of(intent, executed=200))

    stage.row(report_of(intent, executed=200) if is_there else None)

    assert (stage.due() == stage.now + timedelta(seconds=0.5)) is not is_there
