"""What a person may ask about one order: here, a verdict on one that nobody knows about."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.domain.account import moved_in
from bot.domain.entry import (
    Decision,
    Fill,
    IntentMoved,
    Note,
    OrderResultSeen,
    StateChanged,
    Verdict,
)
from bot.domain.message import (
    CancelAnswered,
    CancelOrder,
    NonceBurnt,
    PlaceOrder,
    ReadOrder,
    TradingDayStarted,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed, VerdictAsked
from bot.domain.order import OrderState, SendState, Side
from bot.domain.outcome import Accepted, Resolution, Unknown
from bot.domain.recovery import Recovery, StoredChanges, StoredIntent
from bot.engine.orders import order_words
from tests.engine.orders.test_held import Pair
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    PLAN,
    RULEBOOK,
    START,
    Stage,
    attempt_of,
    report_of,
    result_of,
)
from tests.rows import every_row


def _lost(stage, *, is_reached=True):
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    if is_reached:
        burnt = NonceBurnt(
            stage.now, intent.intent_id, Resolution.REACHED, "the nonce had been used"
        )
        stage.handle(burnt)
    return intent


def _say(stage, order_id=None, *, reason="I have looked", intent_id="L-0001"):
    ask = VerdictAsked(stage.now, intent_id, order_id, "operator", reason)
    check = stage.engine.objection(ask)
    stage.handle(ask)
    return check


def _state(stage):
    return stage.last(IntentMoved).to_state


def test_a_person_ends_a_question_without_a_row_as_never_placed_and_it_is_journalled():
    stage = Stage()
    _lost(stage)
    stage.after(5).book()

    assert _say(stage) is None

    move = stage.last(IntentMoved)
    assert (move.to_state, move.proof) == (SendState.NOT_PLACED, "operator says: I have looked")
    note = next(note for note in stage.all(Note) if note.kind == "VERDICT")
    assert note.text == (
        "BUY 100 HPG LIMIT 27,000 (L-0001): never placed, says operator: I have looked"
    )
    evidence = {"nonce": "the nonce had been used", "state": "REACHED", "by": "operator"}
    assert evidence.items() <= note.numbers.items()
    assert stage.told[-1][1].code == "NOT_PLACED"
    status = stage.engine.status()
    assert (status.unknown, status.alerts) == ((), ())


def test_a_person_names_the_row_and_it_goes_on_as_ours_with_its_fills():
    stage = Stage()
    intent = _lost(stage)
    rows = report_of(intent, "ORD1"), report_of(intent, "ORD2", executed=100)
    stage.after(1).book(*rows)
    assert _state(stage) is SendState.AMBIGUOUS

    assert _say(stage, "ORD2") is None

    assert _state(stage) is SendState.MATCHED
    assert stage.last(Fill).quantity == 100
    assert stage.entries_of_order("ORD2").intent_id == "L-0001"
    note = next(note for note in stage.all(Note) if note.kind == "VERDICT")
    assert (note.numbers["row ORD1"], note.numbers["row ORD2"]) == ("ACCEPTED 0", "FILLED 100")
    assert stage.engine.status().alerts == ()


def test_a_row_that_was_said_to_be_ours_is_polled_and_cancelled_like_any_other():
    stage = Stage()
    intent = _lost(stage)
    late = report_of(intent, "ORD1", placed_at=START + timedelta(hours=1))
    stage.after(1).book(late)

    _say(stage, "ORD1")
    stage.after(1).book(report_of(intent, "ORD1", executed=100))

    assert stage.last(Fill).order_id == "ORD1"


def test_what_the_bot_still_finds_out_is_not_a_persons_to_say():
    stage = Stage()
    _lost(stage, is_reached=False)

    check = _say(stage)

    assert check is not None
    assert check.text.startswith(
        "L-0001 is of unknown outcome and still being found out: its nonce is tried"
    )
    assert _state(stage) is SendState.UNKNOWN


@every_row(
    ("seconds", "reads", "is_taken"),
    [(5, 0, False), (130, 0, False), (130.001, 0, True), (2, 1, True)],
)
def test_that_a_place_with_a_used_nonce_is_absent_is_said_once_a_list_could_have_shown_it(
    seconds, reads, is_taken
):
    """Or once none could be read for as long as one may be late."""
    stage = Stage()
    _lost(stage)
    stage.book(asked_at=START)  # asked for when its bytes left: it proves nothing
    for _ in range(reads):
        stage.book()

    stage.pass_time(seconds - 1)
    check = _say(stage)

    read = "no day order book that could show it has been read yet"
    over = "a person may say what became of it after 09:32:10"
    said = f"L-0001 is possibly at the broker, and {read}; {over}"
    assert (check and check.text) == (None if is_taken else said)
    assert (_state(stage) is SendState.NOT_PLACED) is is_taken


@every_row(
    ("ask", "code"),
    [
        ({"reason": " "}, "VERDICT_REASON"),
        ({"intent_id": "L-0099"}, "VERDICT_OPEN"),
        ({"order_id": "ORD9"}, "VERDICT_ROW"),
        ({"order_id": "ORD5"}, "VERDICT_ROW"),
        ({"order_id": "ORD6"}, "VERDICT_ROW"),
        ({"order_id": "ORD7"}, "VERDICT_ROW"),
        ({"order_id": "ORD8"}, "VERDICT_ROW"),
    ],
)
def test_a_wrong_verdict_is_refused_and_changes_nothing(ask, code):
    stage = Stage()
    ours = stage.working(quantity=200, limit=26_000, order_id="ORD5")
    stage.after(70).quote()
    older = report_of(ours, "ORD6", quantity=100, price=27_000)
    stage.book(report_of(ours, "ORD5", executed=200), older)
    stage.quote()
    intent = _lost(stage)
    rows = [
        report_of(ours, "ORD5", executed=200),
        older,
        report_of(intent, "ORD7", side=Side.SELL),
        report_of(intent, "ORD8", quantity=300),
    ]
    stage.after(1).book(*rows)
    before, moves = stage.engine.status(), stage.all(IntentMoved)

    name = ask.get("intent_id", intent.intent_id)
    check = _say(
        stage, ask.get("order_id"), reason=ask.get("reason", "I have looked"), intent_id=name
    )

    assert check is not None
    assert check.code == code
    assert stage.engine.status() == before
    assert stage.all(IntentMoved) == moves
    refused = stage.last(Decision)
    assert (refused.verdict, refused.code) == (Verdict.BLOCKED, code)


def test_an_order_of_this_bot_that_came_between_is_not_the_lost_one():
    stage = Pair()
    lost = stage.buy(100, 26_900)
    stage.other(lambda s: s.buy(100, limit=26_950))
    other = stage.last(PlaceOrder).intent
    stage.send(other)
    stage.send(lost)
    stage.answer(other, Accepted(result_of(other, "ORD5")))
    stage.after(1).answer(lost, Unknown("deadline"))
    stage.handle(NonceBurnt(stage.now, lost.intent_id, Resolution.REACHED, "used"))
    stage.after(1).book(report_of(other, "ORD5"))

    check = _say(stage, "ORD5", intent_id=lost.intent_id)

    assert check is not None
    assert "another order of this bot" in check.text


@pytest.mark.parametrize("order_id", [None, "ORD1"])
def test_a_verdict_is_given_once(order_id):
    stage = Stage()
    intent = _lost(stage)
    stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))
    _say(stage, order_id)

    check = _say(stage, order_id)

    assert check is not None
    assert check.code == "VERDICT_OPEN"
    assert check.text.startswith("L-0001 is settled as" if order_id is None else "L-0001 is found")


def _under_another_id(executed=0):
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Accepted(result_of(intent, "ORD99")))
    stage.after(2).book(report_of(intent, "ORD7", executed=executed))
    assert "HPG" in stage.engine.status().halted_symbols
    return stage, intent


@pytest.mark.parametrize("executed", [0, 40, 100])
def test_a_person_names_the_row_of_an_order_that_was_accepted_under_another_id(executed):
    stage, intent = _under_another_id(executed)

    assert _say(stage, "ORD7") is None
    stage.after(5).book(report_of(intent, "ORD7", executed=executed))

    status, fills = stage.engine.status(), stage.all(Fill)
    assert [row.order_id for row in status.open_orders] == (["ORD99"] if executed < 100 else [])
    assert status.later_ids == {"ORD99": ("ORD7",)}
    assert sum(fill.quantity for fill in fills) == executed
    note = next(note for note in stage.all(Note) if note.kind == "VERDICT")
    assert (note.numbers["verdict"], note.numbers["rows"]) == ("ORD7", "ORD7")
    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is ours", "me", symbol="HPG"))
    stage.after(60).book(report_of(intent, "ORD7", executed=100))
    status = stage.engine.status()
    assert (status.halted_symbols, status.standing, status.open_orders) == ({}, (), ())
    assert sum(fill.quantity for fill in stage.all(Fill)) == 100
    held = stage.engine._state.exposure.of(intent.account).held
    assert held["HPG"] == 100


def test_such_an_order_is_cancelled_under_the_id_that_its_row_has():
    stage, intent = _under_another_id()
    _say(stage, "ORD7")
    whole = stage.engine._state.chains.whole("ORD99", None, stage.now)
    assert whole is not None, "the row that was named is known at once"
    assert whole.order_id == "ORD7"

    stage.handle(CancelAsked(stage.now, intent.intent_id, "me", "by hand"))
    stage.row(report_of(intent, "ORD7", may_cancel=True), "ORD7")

    assert stage.last(CancelOrder).order_id == "ORD7"


def test_a_restart_keeps_what_a_person_has_said_of_it():
    first, intent = _under_another_id(executed=40)
    _say(first, "ORD7")
    named = [(each.order_id, each.intent_id) for each in first.all(OrderResultSeen)]
    rows = tuple(first.entries_of_order(each) for each in ("ORD99", "ORD7"))
    attempt = attempt_of(intent, START)
    stored = StoredIntent(intent, SendState.ACKED, "ORD99", attempt)
    later = {"ORD99": ("ORD7",)}

    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=rows, later_ids=later))
    stage.book(report_of(intent, "ORD7", executed=100))

    assert ("ORD7", "L-0001") in named
    assert (rows[1].state, rows[1].note) == (OrderState.EXPIRED, "is L-0001, accepted as ORD99")
    assert stage.engine.status().open_orders == ()
    assert [fill.quantity for fill in stage.all(Fill)] == [60]
    assert stage.engine.status().halted_symbols == {}


def test_what_was_accepted_is_not_said_to_be_never_placed():
    stage, _ = _under_another_id()

    check = _say(stage)

    assert check is not None
    assert check.text.startswith("L-0001 is accepted by the broker as ORD99, which no row has")


def test_every_state_has_words_for_a_verdict_that_is_refused():
    assert set(order_words.SEND_WORDS) == set(SendState)


@every_row("cash_read", [False, True])
def test_what_a_row_has_traded_counts_once_when_it_is_said_to_be_ours(cash_read):
    stage = Stage()
    intent = _lost(stage)
    rows = report_of(intent, "ORD1"), report_of(intent, "ORD2", executed=100)
    stage.after(1).book(*rows)
    stage.cash -= 2_700_000 + RULEBOOK.fee(2_700_000)
    if cash_read:
        stage.after(1).account(100)

    _say(stage, "ORD2")
    for _ in range(2):
        stage.after(10).book(*rows)
        stage.after(1).account(100)

    assert [note.text for note in stage.all(Note) if note.numbers.get("alert") == "BREAK"] == []
    assert stage.engine.reconciliation().breaks == ()


def test_a_row_of_before_does_not_take_back_what_was_seen_executed_when_it_is_said_to_be_ours():
    stage = Stage()
    intent = _lost(stage)
    rows = [report_of(intent, name, executed=50) for name in ("ORD1", "ORD2")]
    stage.after(1).book(*rows)
    stage.after(1).book(rows[0], report_of(intent, "ORD2", executed=20))

    _say(stage, "ORD2")

    assert stage.last(Fill).quantity == 50
    assert stage.entries_of_order("ORD2").executed_quantity == 50


def test_what_a_row_had_matched_before_a_person_named_it_is_counted_once():
    stage = Stage()
    intent = _lost(stage)
    late = report_of(intent, "ORD1", executed=100, placed_at=START + timedelta(hours=1))
    stage.after(1).book(late)
    assert _state(stage) is SendState.AMBIGUOUS
    stage.cash -= 100 * 27_000 + RULEBOOK.fee(100 * 27_000)

    _say(stage, "ORD1")
    for _ in range(3):
        stage.after(60).book(late)
        stage.account(100)

    assert [fill.quantity for fill in stage.all(Fill)] == [100]
    found = stage.engine.reconciliation()
    assert (found.breaks, found.doubts, found.external) == ((), (), ())
    [*_, base] = [one for one in stage.all(StateChanged) if one.scope == f"base:{ACCOUNT}"]
    assert moved_in(base.reason) == {}


def test_an_id_that_an_amendment_gave_to_another_order_is_not_the_lost_one():
    stage = Stage()
    amended = stage.working(100, 26_900)
    lost = stage.buy(100, 26_950)
    stage.send(lost)
    stage.after(1).answer(lost, Unknown("deadline"))
    stage.handle(NonceBurnt(stage.now, lost.intent_id, Resolution.REACHED, "used"))
    gone = report_of(amended, remaining=0, state=OrderState.CANCELLED, status="CANCELLED")
    stage.after(1).book(gone, report_of(amended, "ORD2", root_order_id="ORD1"))

    check = _say(stage, "ORD2", intent_id=lost.intent_id)

    assert check is not None
    assert "another order of this bot" in check.text


def test_after_a_restart_no_other_row_is_said_to_be_an_order_whose_own_id_was_shown_before():
    first = Stage()
    intent = first.working()
    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=(first.entries_of_order(),)))
    stage.after(1).book(report_of(intent, "ORD7"))

    check = _say(stage, "ORD7")

    assert check is not None
    assert check.text.startswith("L-0001 is accepted by the broker: its rows say")


def test_an_order_that_a_person_has_found_in_the_list_is_missed_no_more():
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Accepted(result_of(intent, "ORD99")))
    for _ in range(5):
        stage.after(15).book(report_of(intent, "ORD7"))
    codes = {each.code for each in stage.engine.status().standing}

    _say(stage, "ORD7")

    assert "ACCEPTED_NOT_LISTED" in codes
    assert "ACCEPTED_NOT_LISTED" not in {each.code for each in stage.engine.status().standing}


def test_the_id_that_a_person_names_is_journalled_though_its_row_shows_nothing_new():
    stage, _ = _under_another_id()

    _say(stage, "ORD7")

    seen = [(each.order_id, each.intent_id) for each in stage.new(OrderResultSeen)]
    assert seen == [("ORD7", "L-0001")]


def _cancelled(row, executed=0):
    ended = {"status": "CANCELLED", "state": OrderState.CANCELLED, "remaining_quantity": 0}
    traded = {"executed_quantity": executed, "executed_amount": executed * 26_900}
    traded |= {"average_price": 26_900 if executed else 0, "raw": f"cancelled {executed}"}
    return replace(row, **ended, **traded, cancelled_quantity=row.quantity - executed)


def _changed_in_the_app():
    """One of two rows, either of which may be ours, was changed, and works under another id."""
    stage = Stage()
    intent = _lost(stage)
    row, other = report_of(intent, "ORD1"), report_of(intent, "ORD5")
    stage.after(1).book(row, other)
    new = report_of(intent, "ORD2", root_order_id="ORD1", price=26_900)
    stage.after(1).book(_cancelled(row), new, other)
    return stage, intent, (_cancelled(row), other), new


@pytest.mark.parametrize("order_id", ["ORD1", "ORD2"])
def test_an_order_that_was_changed_before_a_person_names_it_goes_on_under_its_new_id(order_id):
    stage, intent, rows, new = _changed_in_the_app()

    assert _say(stage, order_id) is None
    some = report_of(intent, "ORD2", executed=40, root_order_id="ORD1", price=26_900)
    stage.after(5).book(*rows, some)
    stage.handle(OperatorActed(stage.now, Action.HALT, "stop it", "operator"))
    stage.after(1).row(some, "ORD2")
    sent = [each.order_id for each in stage.all(CancelOrder)]
    stage.handle(CancelAnswered(stage.now, "ORD2", Accepted(result_of(intent, "ORD2")), None))
    stage.after(15).book(*rows, _cancelled(new, 40))

    assert _state(stage) is SendState.MATCHED
    assert sent == ["ORD2"]
    assert sum(fill.quantity for fill in stage.all(Fill)) == 40
    ended = stage.entries_of_order("ORD1")
    assert (ended.intent_id, ended.state) == ("L-0001", OrderState.CANCELLED)
    status = stage.engine.status()
    assert (status.cancels, [row.order_id for row in status.open_orders]) == ((), ["ORD5"])


def test_which_order_it_is_can_be_said_once_what_its_former_id_has_matched_is_known():
    stage = Stage()
    intent = _lost(stage)
    rows = report_of(intent, "ORD1", executed=40), report_of(intent, "ORD5")
    stage.after(1).book(*rows)
    rest = report_of(intent, "ORD2", root_order_id="ORD1", quantity=60, remaining=60, price=26_900)
    stage.after(1).book(rest, rows[1])

    early = _say(stage, "ORD2")
    stage.after(1).book(_cancelled(rows[0], 40), rest, rows[1])

    assert early is not None
    assert "the row of an earlier one was not read yet" in early.text
    assert _say(stage, "ORD2") is None
    assert [fill.quantity for fill in stage.all(Fill)] == [40]
    assert stage.entries_of_order("ORD1").quantity == 100


def test_what_was_changed_from_an_order_that_was_there_before_is_not_the_lost_one():
    stage = Stage()
    old = report_of(stage.buy(), "ORD1", price=26_900)
    stage.book(old)
    intent = _lost(stage)
    stage.after(1).book(_cancelled(old), report_of(intent, "ORD2", root_order_id="ORD1"))

    check = _say(stage, "ORD2")

    assert check is not None
    assert "older than L-000" in check.text


@pytest.mark.parametrize("order_id", ["ORD7", "ORD8"])
def test_an_accepted_order_that_was_changed_under_another_id_goes_on_under_its_newest(order_id):
    stage, intent = _under_another_id(executed=40)
    new = report_of(intent, "ORD8", root_order_id="ORD7", quantity=60, remaining=60)
    stage.after(1).book(_cancelled(report_of(intent, "ORD7"), 40), new)

    assert _say(stage, order_id) is None

    assert stage.engine.status().later_ids == {"ORD99": ("ORD7", "ORD8")}
    assert sum(fill.quantity for fill in stage.all(Fill)) == 40
    full = report_of(intent, "ORD8", executed=60, root_order_id="ORD7", quantity=60, remaining=0)
    stage.after(25).book(full)
    assert sum(fill.quantity for fill in stage.all(Fill)) == 100
    assert stage.engine.status().open_orders == ()


def test_what_an_id_has_matched_counts_once_though_its_order_was_named_while_it_was_open():
    stage, intent = _under_another_id(executed=40)
    some = report_of(intent, "ORD8", executed=10, root_order_id="ORD7", quantity=60, remaining=50)
    stage.after(1).book(report_of(intent, "ORD7", executed=40), some)
    stage.after(25).book(report_of(intent, "ORD7", executed=40), some)

    assert _say(stage, "ORD7") is None
    stage.after(30).book(some)

    assert sum(fill.quantity for fill in stage.all(Fill)) == 50
    assert "ROW_AMBIGUOUS" not in {each.code for each in stage.engine.status().standing}


def _changed_before_it_was_named(is_accepted):
    """An order of two ids, of which a person names the later: 40 and 10 of its 100 have traded."""
    first = "ORD7" if is_accepted else "ORD1"
    stage = Stage()
    intent = stage.buy() if is_accepted else _lost(stage)
    if is_accepted:
        stage.send(intent)
        stage.after(1).answer(intent, Accepted(result_of(intent, "ORD99")))
    row, other = report_of(intent, first, executed=40), report_of(intent, "ORD5")
    beside = () if is_accepted else (other,)
    stage.after(2).book(row, *beside)

    def rows(executed):
        changed: dict[str, Any] = {"root_order_id": first, "quantity": 60, "executed": executed}
        new = report_of(intent, "ORD8", remaining=60 - executed, **changed)
        return _cancelled(report_of(intent, first), 40), new, *beside

    for _ in range(2):
        stage.after(15).book(*rows(10))
    assert _say(stage, "ORD8") is None
    stage.after(25).book(*rows(10))
    return stage, intent, rows


@pytest.mark.parametrize(
    ("is_accepted", "ids"), [(False, ("ORD1", "ORD8")), (True, ("ORD99", "ORD7", "ORD8"))]
)
def test_after_a_restart_the_fills_under_each_id_of_a_named_order_are_counted_once(
    is_accepted, ids
):
    first, intent, rows = _changed_before_it_was_named(is_accepted)
    shown = [one for one in first.entries if isinstance(one, OrderResultSeen | Fill)]
    named = [one for one in shown if isinstance(one, Fill) or one.intent_id == "L-0001"]
    since = next(n for n, one in enumerate(named) if one.order_id == "ORD8")
    before = [one for one in named[:since] if isinstance(one, Fill)]
    matched = sum(one.quantity for one in before), sum(one.amount for one in before)
    later = dict.fromkeys(one.order_id for one in named if one.order_id != ids[0])

    state = SendState.ACKED if is_accepted else SendState.MATCHED
    known = ids[:1] if is_accepted else (ids[0], "ORD5")
    recovery = Recovery(
        DAY,
        next_intent_number=2,
        intents=(StoredIntent(intent, state, ids[0], attempt_of(intent, START)),),
        orders=(*(first.entries_of_order(each) for each in known),),
        later_ids={ids[0]: tuple(later)},
        changes={ids[0]: StoredChanges(matched=matched)},
    )
    stage = Stage(recovery=recovery)
    stage.now = first.now
    for executed in (10, 30, 60):
        stage.after(20).book(*rows(executed))

    assert (*recovery.later_ids[ids[0]],) == ids[1:]
    assert [fill.quantity for fill in first.all(Fill)] == [50]
    assert [fill.quantity for fill in stage.all(Fill)] == [20, 30]
    assert stage.engine.status().halted_symbols == {}


def test_what_a_forgotten_id_had_matched_counts_with_an_order_that_is_named_by_its_newest():
    stage, intent = _under_another_id(executed=40)

    def book(executed):
        new: dict[str, Any] = {"quantity": 60, "executed": executed, "remaining": 60 - executed}
        stage.after(15).book(report_of(intent, "ORD8", root_order_id="ORD7", **new))

    book(10)
    stage.row(None, "ORD7")
    book(10)
    assert _say(stage, "ORD8") is None
    book(30)
    read = {each.order_id for each in stage.new(ReadOrder)}
    for executed in (30, 60):
        book(executed)

    assert "ORD99" in read
    assert "ORD7" not in read, "it is known to be gone"
    assert [fill.quantity for fill in stage.all(Fill)] == [50, 20, 30]
    assert stage.engine.status().open_orders == ()


def _in_question(now_is):
    stage = Stage()
    intent = _lost(stage, is_reached=now_is in {"REACHED", "AMBIGUOUS"})
    if now_is == "FRESH":
        stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.FRESH, "unused"))
    if now_is == "AMBIGUOUS":
        stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))
    assert stage.engine._state.intents["L-0001"].state == now_is
    return stage, intent


def _cancel_by_hand(stage):
    ask = CancelAsked(stage.now, "L-0001", "operator", "too dear")
    refusal = stage.engine.objection(ask)
    stage.handle(ask)
    return refusal


@every_row("now_is", ["UNKNOWN", "FRESH", "REACHED", "AMBIGUOUS"])
def test_a_cancel_of_an_order_that_may_be_at_the_broker_is_kept_and_journalled(now_is):
    stage, _ = _in_question(now_is)

    refusal, again = _cancel_by_hand(stage), _cancel_by_hand(stage)

    assert (refusal, again) == (None, None)
    wishes = [each for each in stage.all(Decision) if each.code == "CANCEL"]
    assert [(each.verdict, each.request_id, each.why) for each in wishes] == [
        (Verdict.PASSED, "L-0001", "too dear")
    ]
    assert stage.all(CancelOrder) == []
    assert stage.last(Note).text == (
        "L-0001 is to be cancelled, asked by operator: it is not known whether it is at the broker,"
        " so as soon as it shows up there"
    )


def test_a_cancel_of_an_order_that_was_requested_again_names_the_one_that_works():
    stage = Stage(replace(PLAN, hold_2fa=timedelta(hours=1)))
    stage.block_for_token(stage.buy())
    stage.token()
    stage.accept(stage.last(PlaceOrder).intent)

    refusal = _cancel_by_hand(stage)

    assert refusal is not None
    assert refusal.text == "L-0001 is over: it was requested again as L-0002"
    assert stage.engine.objection(CancelAsked(stage.now, "L-0002", "me", "")) is None


@every_row("now_is", ["UNKNOWN", "REACHED"])
def test_a_kept_cancel_leaves_as_soon_as_the_order_is_seen(now_is):
    stage, intent = _in_question(now_is)
    _cancel_by_hand(stage)

    stage.after(1).book(report_of(intent, "ORD7"))
    stage.row(report_of(intent, "ORD7"), "ORD7")

    assert [each.order_id for each in stage.all(CancelOrder)] == ["ORD7"]


@every_row("now_is", ["FRESH", "AMBIGUOUS"])
def test_a_kept_cancel_waits_for_a_persons_word_on_rows_that_may_be_anothers(now_is):
    stage, intent = _in_question(now_is)
    _cancel_by_hand(stage)
    rows = report_of(intent, "ORD1"), report_of(intent, "ORD2")
    for _ in range(6):
        stage.after(5).book(*rows)
    untouched = stage.all(CancelOrder)

    _say(stage, "ORD2")
    stage.row(report_of(intent, "ORD2"), "ORD2")

    assert untouched == []
    assert [each.order_id for each in stage.all(CancelOrder)] == ["ORD2"]


def test_a_kept_cancel_is_still_wanted_after_a_restart():
    _, intent = _in_question("REACHED")
    stored = StoredIntent(intent, SendState.REACHED, None, attempt_of(intent, START))
    wanted = {"L-0001": "too dear"}

    stage = Stage(recovery=Recovery(DAY, intents=(stored,), cancels=wanted))
    stage.after(1).book(report_of(intent, "ORD7"))
    stage.row(report_of(intent, "ORD7"), "ORD7")

    assert [each.order_id for each in stage.all(CancelOrder)] == ["ORD7"]


def test_a_kept_cancel_ends_with_an_order_that_was_never_placed():
    stage, intent = _in_question("REACHED")
    _cancel_by_hand(stage)
    stage.after(1).book()
    _say(stage)

    refusal = _cancel_by_hand(stage)
    stage.after(1).book(report_of(intent, "ORD7"))

    assert refusal is not None
    assert refusal.text == "L-0001 is settled as never placed"
    assert stage.all(CancelOrder) == []


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_cancel_of_an_order_of_unknown_outcome_of_an_earlier_day_is_refused(is_reached):
    stage = Stage()
    _lost(stage, is_reached=is_reached)
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    refusal = _cancel_by_hand(stage)

    there = "it may be at the broker: look in the broker's app, and cancel it there"
    then = (
        '. Then say which it was: bot order L-0001 --is ORD… --reason "…"; if it is not there: bot '
        'order L-0001 --not-placed --reason "…"'
    )
    tried = " and still being found out: its nonce is tried for at most 270 s, and the day order"
    tried += " book read"
    assert refusal is not None
    assert refusal.text == (
        f"L-0001 is of unknown outcome{'' if is_reached else tried}; {there}"
        f"{then if is_reached else ''}"
    )
    assert stage.all(CancelOrder) == []
