"""What an amendment's verdict may rest on: each guard of it, by the case that only it stops."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bot.domain.entry import Decision, Note, OrderUpdated, Verdict
from bot.domain.instrument import Phase
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    BurnNonce,
    CancelOrder,
    NonceBurnt,
    OrderRead,
    PlaceOrder,
    ReadOrder,
    ReadOrderToCancel,
    ReadTodaysOrders,
)
from bot.domain.operations import Action, AmendAsked, OperatorActed
from bot.domain.order import Intent, OrderReport, OrderState, OrderType, SendState, Side, UnreadRow
from bot.domain.outcome import Accepted, Outcome, Refused, Resolution, Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredAmend, StoredIntent
from bot.engine import gate
from bot.engine.orders import amends
from bot.engine.settings import EngineSettings, UnknownPolicy
from bot.engine.tracked import AmendVerdict
from tests.engine.stage import DAY, START, Stage, attempt_of, report_of, result_of

ON = EngineSettings(amend_enabled=True)
NO = Refused("-700106", "no", 200)
_S = OrderState


def _asked(settings: EngineSettings = ON) -> tuple[Stage, Intent]:
    stage = Stage(settings=settings)
    intent = stage.working(500, 27_000)
    stage.after(1).book(report_of(intent))
    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))
    return stage, intent


def _answered(outcome: Outcome, settings: EngineSettings = ON) -> tuple[Stage, OrderReport]:
    stage, intent = _asked(settings)
    row = report_of(intent)
    stage.row(row)
    finished = replace(stage.finished_of(intent), attempt_id="p")
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", outcome, finished))
    stage.pass_time(1)
    return stage, row


def _verdict(stage: Stage) -> str:
    return stage.engine.status().amends[-1].verdict


def test_a_row_that_is_being_cancelled_sends_nothing_though_it_allows_it() -> None:
    stage, intent = _asked()

    stage.row(report_of(intent, state=_S.PENDING_CANCEL, status="CANCELLING", may_amend=True))

    assert stage.all(AmendOrder) == []


def test_a_row_that_the_broker_still_works_on_is_no_verdict() -> None:
    stage, row = _answered(NO)

    stage.row(replace(row, state=_S.PENDING_REPLACE, status="FIXING"))
    early = _verdict(stage)
    stage.after(1).row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.REFUSED)


def test_a_row_that_was_asked_for_before_the_answer_is_no_verdict() -> None:
    stage, row = _answered(NO)
    before = replace(row, requested_at=stage.now - timedelta(seconds=1.5))

    stage.handle(OrderRead(stage.now, "ORD1", before))
    early = _verdict(stage)
    stage.row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.REFUSED)


def test_a_row_that_shows_the_end_is_no_verdict_of_its_own() -> None:
    stage, row = _answered(NO)
    full = replace(row, executed_quantity=500, executed_amount=500 * 27_000, average_price=27_000)

    stage.row(replace(full, remaining_quantity=0, state=_S.FILLED, status="MATCHED_ALL"))
    stage.pass_time(1)

    assert _verdict(stage) == AmendVerdict.ENDED


def test_no_amendment_leaves_without_a_token() -> None:
    stage, _ = _answered(NO)
    open_gate = stage.engine.reason_not_to_amend("L-0001")

    needs_code = Refused("OTP_SESSION_EXPIRED", "2FA", 403)
    stage.handle(AmendAnswered(stage.now, "ORD1", needs_code, None))

    assert open_gate is None
    assert stage.engine.reason_not_to_amend("L-0001") is not None


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (Phase.PROGRESS, None),
        (Phase.PRE_CLOSED, "HOSE changes no order now: closing auction (ATC)"),
        (Phase.BREAK, "HOSE changes no order now: lunch break"),
    ],
)
def test_no_amendment_leaves_in_a_phase_in_which_the_exchange_changes_nothing(
    phase: Phase, words: str | None
) -> None:
    stage, intent = _asked()
    stage.row(report_of(intent))
    assert stage.new(AmendOrder) != []

    stage.phase(phase)

    assert stage.engine.reason_not_to_amend("L-0001") == words


@pytest.mark.parametrize("is_distrusted", [True, False])
def test_an_unused_nonce_proves_nothing_where_nonces_are_not_trusted(is_distrusted: bool) -> None:
    fence = replace(ON, unknown_policy=UnknownPolicy.FENCE)
    stage, row = _answered(Unknown("lost", None), fence)
    if is_distrusted:
        gate.halt_scope(stage.engine._state, gate.NONCES, "one was unused, and its row is there")

    stage.handle(NonceBurnt(stage.now, "p", Resolution.FRESH, "unused"))
    stage.after(1).row(row)

    assert _verdict(stage) == ("" if is_distrusted else AmendVerdict.NOT_DONE)


def test_an_unused_nonce_says_that_no_other_id_can_come() -> None:
    fence = replace(ON, unknown_policy=UnknownPolicy.FENCE)
    stage, row = _answered(Unknown("lost", None), fence)
    gone = replace(row, remaining_quantity=0, cancelled_quantity=500, state=_S.CANCELLED)

    stage.handle(NonceBurnt(stage.now, "p", Resolution.FRESH, "unused"))
    stage.after(1).row(replace(gone, status="CANCELLED"))

    assert stage.entries_of_order().state is _S.CANCELLED


@pytest.mark.parametrize(("after_s", "is_ended"), [(60, False), (108, False), (109, True)])
def test_a_new_id_may_be_as_late_as_the_book_lags(after_s: int, is_ended: bool) -> None:
    stage, row = _answered(Unknown("lost", None))
    gone = replace(row, remaining_quantity=0, cancelled_quantity=500, state=_S.CANCELLED)
    gone = replace(gone, status="CANCELLED")

    stage.after(after_s).book(gone)
    stage.row(gone)

    assert (stage.entries_of_order().state is _S.CANCELLED) is is_ended


def test_only_a_day_order_book_of_after_it_ends_the_doubt_about_a_new_id_also_at_a_restart() -> (
    None
):
    stage, row = _restarted(None)
    gone = replace(row, remaining_quantity=0, cancelled_quantity=500, state=_S.CANCELLED)
    gone = replace(gone, status="CANCELLED")
    asked_at = stage.now + timedelta(seconds=100)

    stage.after(200).row(gone)
    stage.book(gone, asked_at=asked_at)
    stage.row(gone)
    before = stage.entries_of_order().state
    stage.book(row)
    stage.book(row, asked_at=asked_at)
    stage.row(gone)

    assert before is not _S.CANCELLED
    assert stage.entries_of_order().state is _S.CANCELLED


# ---------------------------------------------------------------- while no list shows another id


HIDDEN = UnreadRow(None, None, "no quantity", "{}")


def _cut_off(*, side: Side = Side.BUY, flatten: bool = True) -> tuple[Stage, OrderReport]:
    """A strategy that holds 300 and whose order was being changed as a halt came that sells them:
    the row of its id shows its end, and no list another one; without any, or with a hidden row.
    """
    held = {"test": RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")}
    stage = Stage(settings=ON, recovery=Recovery(DAY, strategies=held), sellable=300)
    stage.quote()
    stage.depth()
    if side is Side.SELL:
        stage.request(lambda s: s.sell(100, limit=27_500))
        intent = stage.last(PlaceOrder).intent
        stage.accept(intent)
    else:
        intent = stage.working(500, 26_900)
    row = report_of(intent)
    stage.after(1).book(row)
    price = 26_800 if side is Side.BUY else 27_450
    stage.handle(AmendAsked(stage.now, "ORD1", price, None, "operator", "by hand"))
    stage.row(row)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", Unknown("lost", None), None))
    stage.handle(OperatorActed(stage.now, Action.HALT, "out", "operator", flatten=flatten))
    return stage, replace(_gone(row), requested_at=stage.now)


def _gone(row: OrderReport) -> OrderReport:
    left = row.remaining_quantity
    gone = replace(row, remaining_quantity=0, cancelled_quantity=left, state=_S.CANCELLED)
    return replace(gone, status="CANCELLED")


def _pass(
    stage: Stage, gone: OrderReport, seconds: int, *hidden: UnreadRow, last: int = 27_000
) -> None:
    """Let time pass in which the detail is read, and lists only with a row that is hidden."""
    for second in range(seconds):
        stage.pass_time(1)
        for asked in stage.new(ReadOrder) + stage.new(ReadOrderToCancel):
            stage.row(gone, asked.order_id)
        if second % 10 == 0:
            stage.quote(last)
            stage.depth(last - 50, last)
            if hidden:
                stage.book(gone, set_aside=hidden)


def _sales(stage: Stage) -> list[int]:
    placed = [one.intent for one in stage.all(PlaceOrder)]
    return [one.quantity for one in placed if one.side is Side.SELL]


def _told(stage: Stage) -> list[Note]:
    return [one for one in stage.all(Note) if str(one.numbers.get("alert")).startswith("CANCEL_")]


@pytest.mark.parametrize("last", [27_000, 26_500])  # above the buy's price, and below it
@pytest.mark.parametrize("hidden", [(), (HIDDEN,)])
def test_a_changed_buy_that_no_list_shows_keeps_no_flatten_from_selling_what_is_held(
    hidden: tuple[UnreadRow, ...], last: int
) -> None:
    stage, gone = _cut_off()

    _pass(stage, gone, 100, *hidden, last=last)
    before = _sales(stage)
    _pass(stage, gone, 60, *hidden, last=last)

    assert (before, _sales(stage)) == ([], [300])
    assert stage.entries_of_order().state is _S.PENDING_REPLACE


def test_a_changed_buy_that_is_listed_at_last_is_no_fault_beside_a_sale_of_before() -> None:
    stage, gone = _cut_off()
    _pass(stage, gone, 160, last=26_500)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, order_id="ORD3")
    new = replace(gone, order_id="ORD2", root_order_id="ORD1", price=26_800, cancelled_quantity=0)
    new = replace(new, remaining_quantity=500, status="SENT", state=_S.ACCEPTED)

    for _ in range(60):
        stage.pass_time(1)
        stage.book(gone, new, report_of(sale, "ORD3"))
        for asked in stage.new(ReadOrder) + stage.new(ReadOrderToCancel):
            stage.row({"ORD1": gone, "ORD2": new}[asked.order_id], asked.order_id)

    state = stage.engine._state
    assert (state.chains.current("ORD1"), state.orders["ORD3"].is_open) == ("ORD2", True)
    assert [each.by for each in state.gate.causes.values()] == ["operator"]


def test_a_changed_sale_that_no_list_shows_may_still_sell_so_a_flatten_waits() -> None:
    stage, gone = _cut_off(side=Side.SELL)

    _pass(stage, gone, 300)

    assert _sales(stage) == [100]
    assert stage.engine.status().cancels


@pytest.mark.parametrize("side", [Side.BUY, Side.SELL])
def test_a_cancel_of_an_order_that_may_have_another_id_says_so_and_not_that_it_is_stuck(
    side: Side,
) -> None:
    stage, gone = _cut_off(side=side)

    _pass(stage, gone, 10)
    early = [one.numbers["alert"] for one in _told(stage)]
    _pass(stage, gone, 300)

    [told] = _told(stage)
    assert early == ["CANCEL_LATE"]
    assert told.numbers["hindrance"] == "ELSEWHERE"
    assert "may still be open" in told.text
    assert "its change may have given it another id" in told.text
    assert "cancel it in the broker's own app" in told.text


def test_a_late_cancel_says_anew_that_its_order_may_have_another_id_once_its_row_shows_it() -> None:
    stage, gone = _cut_off()

    stage.pass_time(9)
    first = [one.numbers["hindrance"] for one in _told(stage)]
    _pass(stage, gone, 5)

    assert [one.numbers["hindrance"] for one in _told(stage)] == [*first, "ELSEWHERE"]
    assert len(first) == 1


def test_a_halts_cancel_reaches_the_new_id_that_a_list_shows_late() -> None:
    stage, gone = _cut_off()
    _pass(stage, gone, 300)

    new = replace(gone, order_id="ORD2", root_order_id="ORD1", price=26_800, status="SENT")
    new = replace(new, state=_S.ACCEPTED, remaining_quantity=500, cancelled_quantity=0)
    for _ in range(35):
        stage.after(1).book(gone, new)
        stage.pass_time(0)

    assert stage.all(CancelOrder)[-1].order_id == "ORD2"
    assert "ORDER_LIVES" not in [one.numbers.get("alert") for one in stage.all(Note)]


def test_nothing_is_bought_beside_a_changed_order_that_may_have_another_id() -> None:
    stage, gone = _cut_off(flatten=False)
    _pass(stage, gone, 120)
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "operator"))

    stage.request(lambda s: s.buy(100, limit=26_900))

    refused = stage.last(Decision)
    assert (refused.verdict, len(stage.all(PlaceOrder))) == (Verdict.BLOCKED, 1)
    assert "ORD1 may have given it an id that no list shows" in str(refused.checks[-1])


@pytest.mark.parametrize("is_of_before", [True, False])
def test_only_an_unreadable_row_of_after_the_change_may_be_its_new_id(is_of_before: bool) -> None:
    held = {"test": RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")}
    stage = Stage(settings=ON, recovery=Recovery(DAY, strategies=held), sellable=300)
    stage.quote()
    stage.request(lambda s: s.sell(100, limit=27_500))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)
    row = report_of(intent)
    stage.after(1).book(row, set_aside=(HIDDEN,) if is_of_before else ())
    stage.handle(AmendAsked(stage.now, "ORD1", 27_450, None, "operator", "by hand"))
    stage.row(row)
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", Unknown("lost", None), None))
    assert len(stage.all(AmendOrder)) == 1

    stage.after(120).book(_gone(row), set_aside=(HIDDEN,))

    assert (stage.entries_of_order().state is _S.CANCELLED) is is_of_before


# ------------------------------------------------------------------------------------- a restart


def _restarted(
    outcome: str | None,
    *,
    old: int | None = 27_000,
    sent_at: datetime = START,
    **changes: object,
) -> tuple[Stage, OrderReport]:
    before, row = _answered(Unknown("lost", None))
    placed = stored_intent(before)
    attempt = replace(attempt_of(placed, sent_at), verb="PUT", order_id="ORD1")
    amend = StoredAmend("ORD1", attempt, outcome, 26_900, None, old, "operator", "by hand")
    order = replace(before.entries_of_order(), **changes)  # type: ignore[arg-type]
    intents = (StoredIntent(placed, SendState.ACKED, "ORD1", None),)
    recovery = Recovery(DAY, 2, orders=(order,), intents=intents, amends=(amend,))
    return Stage(settings=ON, recovery=recovery), row


def stored_intent(stage: Stage) -> Intent:
    return stage.engine._state.intents["L-0001"].intent


@pytest.mark.parametrize("outcome", ["REFUSED", "NOT_SENT"])
def test_a_put_that_was_refused_or_never_left_is_over_with_the_next_row(outcome: str) -> None:
    stage, row = _restarted(outcome)

    stage.after(1).row(row)

    assert _verdict(stage) == AmendVerdict.REFUSED


@pytest.mark.parametrize(
    ("outcome", "is_tried"), [(None, True), ("UNKNOWN", True), ("ACCEPTED", False)]
)
def test_only_the_nonce_of_a_put_without_a_trusted_answer_is_tried(
    outcome: str | None, is_tried: bool
) -> None:
    stage, _ = _restarted(outcome)

    assert len(stage.all(BurnNonce)) == is_tried


def test_nothing_is_asked_of_an_amendment_whose_order_has_ended() -> None:
    stage, _ = _restarted(None, state=_S.FILLED, executed_quantity=500)

    assert stage.all(BurnNonce) == []
    assert stage.engine.status().amends == ()


def test_an_old_value_that_is_not_stored_is_what_the_order_shows() -> None:
    stage, row = _restarted("REFUSED", old=None)

    stage.after(1).row(row)

    assert _verdict(stage) == AmendVerdict.REFUSED


def test_a_row_that_goes_back_to_the_stored_old_value_shows_a_refusal() -> None:
    stage, row = _restarted("REFUSED", price=26_900)

    stage.after(1).row(row)

    assert _verdict(stage) == AmendVerdict.REFUSED


# -------------------------------------------------------------------------- an answer that is late


def _unanswered() -> tuple[Stage, OrderReport]:
    stage, intent = _asked()
    stage.row(report_of(intent))
    return stage, report_of(intent)


def test_a_put_without_an_answer_has_its_row_read_after_twice_the_patience() -> None:
    stage, _ = _unanswered()

    stage.pass_time(29)
    early = stage.new(ReadOrder)
    stage.pass_time(1)

    assert (early, stage.new(ReadOrder)) == ([], [ReadOrder("ORD1", "after amend")])


def test_a_put_without_any_answer_is_over_once_it_can_no_longer_arrive() -> None:
    stage, row = _unanswered()
    stage.pass_time(30)

    stage.after(89).row(row)
    early = _verdict(stage)
    stage.after(1).row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.NOT_DONE)


@pytest.mark.parametrize("burnt", [None, Resolution.REACHED])
def test_the_row_of_a_lagging_node_is_no_verdict_on_a_put_that_came_late(
    burnt: Resolution | None,
) -> None:
    """A proxy lets the PUT through after 20 s, and the node is 35 s behind."""
    stage, row = _answered(Unknown("lost", None))
    if burnt is not None:
        stage.handle(NonceBurnt(stage.now, "p", burnt, "the nonce had been used"))

    for _ in range(53):
        stage.pass_time(1)
        stage.row(row)
        assert _verdict(stage) == ""
    stage.after(1).row(replace(row, price=26_900))

    assert _verdict(stage) == AmendVerdict.DONE


def test_an_answer_that_comes_late_begins_the_time_in_which_the_put_may_arrive_anew() -> None:
    stage, row = _unanswered()
    stage.pass_time(30)
    stage.after(10).handle(AmendAnswered(stage.now, "ORD1", Unknown("lost"), None))

    stage.after(89).row(row)
    early = _verdict(stage)
    stage.after(1).row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.NOT_DONE)


# ------------------------------------------------------------------------------------ what is told


def test_a_nonce_that_is_tried_after_the_verdict_changes_nothing() -> None:
    fence = replace(ON, unknown_policy=UnknownPolicy.FENCE)
    stage, row = _answered(Unknown("lost", None), fence)
    stage.row(replace(row, price=26_900))

    stage.after(1).handle(NonceBurnt(stage.now, "p", Resolution.FRESH, "unused"))

    assert (stage.news(), stage.engine.status().amends[-1].stage) == ([], "over")


def test_a_verdict_has_the_day_order_book_read_soon_again() -> None:
    stage, row = _answered(NO)
    for _ in range(60):
        stage.pass_time(1)
        stage.book(row)

    stage.row(row)

    assert stage.due() == stage.now + timedelta(seconds=0.5)


def test_each_amendment_and_its_verdict_are_counted_once() -> None:
    stage, row = _answered(NO)
    stage.row(row)
    stage.handle(AmendAsked(stage.now, "ORD1", 27_000, None, "operator", "by hand"))

    counts = stage.engine.status().counts
    asked = {key: count for key, count in counts.items() if key.startswith("amend")}
    assert asked == {"amends_asked": 1, "amend_refused": 1, "amends_blocked": 1}


def test_an_answer_that_proved_nothing_is_no_part_of_what_a_row_shows_as_done() -> None:
    stage, intent = _asked()
    row = report_of(intent)
    stage.row(row)
    stage.handle(AmendAnswered(stage.now, "ORD1", Unknown("the answer is too long"), None))

    stage.after(1).row(replace(row, price=26_900))

    amend = stage.engine.status().amends[-1]
    assert (amend.verdict, amend.text) == ("DONE", "done")


@pytest.mark.parametrize("code", [None, "-701111"])
def test_a_change_that_was_done_is_noted_only_with_what_the_broker_said_beside(
    code: str | None,
) -> None:
    stage, intent = _asked()
    row = report_of(intent)
    stage.row(row)
    done = Accepted(result_of(intent, code=code))
    stage.handle(AmendAnswered(stage.now, "ORD1", done, None))

    stage.after(1).row(replace(row, price=26_900))

    notes = [note.text for note in stage.all(Note) if note.kind == "AMEND"]
    assert notes == ([] if code is None else [f"ORD1 price 27,000 to 26,900: done ({code})"])


@pytest.mark.parametrize(
    ("asked", "old"), [({"limit_price": 26_900}, 27_000), ({"quantity": 400}, 500)]
)
def test_the_journal_keeps_what_was_asked_and_what_it_replaces(
    asked: dict[str, int], old: int
) -> None:
    stage = Stage(settings=ON)
    stage.working(500, 27_000)
    price, quantity = asked.get("limit_price"), asked.get("quantity")
    numbers = {"by": "operator", "order_id": "ORD1", "price": price, "quantity": quantity}
    ask = AmendAsked(stage.now, "ORD1", price, quantity, "operator", "why")

    stage.handle(ask)
    taken = stage.last(Decision).numbers
    stage.phase(Phase.BREAK)
    stage.handle(ask)
    refused = stage.last(Decision)

    assert taken == {**numbers, "old": old}
    assert (refused.code, refused.numbers) == ("ONE_COMMAND", {**numbers, "command": "amend"})


def test_an_order_of_a_strategy_that_does_not_run_is_not_changed() -> None:
    before = _asked()[0]
    row = replace(before.entries_of_order(), strategy="gone")
    intent = replace(stored_intent(before), strategy="gone")
    stored = (StoredIntent(intent, SendState.ACKED, "ORD1", None),)
    stage = Stage(settings=ON, recovery=Recovery(DAY, 2, orders=(row,), intents=stored))

    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))

    refused = stage.last(Decision)
    assert (stage.decided(), refused.numbers["state"]) == (
        ("BLOCKED", "OPEN_ORDER"),
        "of a strategy that does not run",
    )
    assert stage.new(ReadOrder) == []


def test_an_order_that_became_a_limit_of_another_type_is_not_changed() -> None:
    stage = Stage(settings=ON)
    stage.request(lambda s: s.buy(100, market=OrderType.MTL))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)
    stage.after(1).book(report_of(intent, order_type="MTL", price=27_000))

    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))

    assert stage.decided() == ("BLOCKED", "LIMIT_ORDER")


def test_a_row_that_shows_the_order_at_work_has_no_list_read_for_another_id() -> None:
    stage, row = _answered(Unknown("lost", None))

    stage.row(row)
    at_work = stage.new(ReadTodaysOrders)
    stage.after(1).row(None)

    assert at_work == []
    assert [one.why for one in stage.new(ReadTodaysOrders)] == [
        "ORD1 is gone or cancelled: another id"
    ]


def test_a_poll_that_shows_nothing_new_of_a_pending_change_is_not_journalled_again() -> None:
    stage, row = _answered(Unknown("lost", None))
    rows = len(stage.all(OrderUpdated))

    stage.after(1).book(row)
    stage.after(1).book(row)

    assert len(stage.all(OrderUpdated)) == rows


def test_an_order_that_ends_at_the_new_value_shows_that_its_change_was_done() -> None:
    stage, row = _answered(Unknown("lost", None))
    full = replace(row, price=26_900, executed_quantity=500, executed_amount=500 * 26_900)
    full = replace(full, average_price=26_900, remaining_quantity=0)

    stage.book(replace(full, state=_S.FILLED, status="MATCHED_ALL"))

    amend = stage.engine.status().amends[-1]
    assert (amend.verdict, amend.text) == (AmendVerdict.DONE, "the order ended: FILLED")


def test_a_row_without_a_verdict_is_asked_for_at_growing_intervals() -> None:
    stage, row = _answered(Unknown("lost", None))
    asked = []
    for second in range(40):
        if stage.new(ReadOrder):
            asked.append(second)
            stage.row(row)
        stage.pass_time(1)

    assert asked == [0, 2, 6, 14, 29]


def test_what_the_nonce_of_a_lost_put_showed_is_noted() -> None:
    stage, _ = _answered(Unknown("lost", None))

    stage.handle(NonceBurnt(stage.now, "p", Resolution.REACHED, "it had been used"))

    [note] = [each for each in stage.new(Note) if each.kind == "AMEND"]
    assert note.text == "ORD1 price 27,000 to 26,900: it had been used"


def test_after_a_restart_a_put_is_over_once_it_can_no_longer_arrive() -> None:
    stage, row = _restarted(None, sent_at=START - timedelta(seconds=30))

    stage.now = START + timedelta(seconds=59)
    stage.row(row)
    early = _verdict(stage)
    stage.after(1).row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.NOT_DONE)


def test_an_amendment_that_stays_open_is_told_with_both_values() -> None:
    stage, _ = _answered(Unknown("lost", None))
    stage.pass_time(200)

    [standing] = amends.alerts(stage.engine._state)

    assert (standing.facts["old"], standing.facts["new"]) == (27_000, 26_900)


@pytest.mark.parametrize(
    ("price", "quantity", "kept"), [(26_900, None, (26_900, 500)), (None, 400, (27_000, 400))]
)
def test_a_decided_amendment_names_the_whole_order_that_was_asked_for(
    price: int | None, quantity: int | None, kept: tuple[int, int]
) -> None:
    stage = Stage(settings=ON)
    stage.working(500, 27_000)

    stage.handle(AmendAsked(stage.now, "ORD1", price, quantity, "operator", "by hand"))

    decision = stage.last(Decision)
    assert (decision.price, decision.quantity) == kept
