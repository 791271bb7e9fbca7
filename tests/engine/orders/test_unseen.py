"""What a day order book can't show: rows that can't be read, and the orders of an earlier day."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from bot.domain.entry import BOOK_ACCEPTED, Decision, Fill, IntentMoved, Note, OrderUpdated, Verdict
from bot.domain.instrument import Phase
from bot.domain.message import (
    NonceBurnt,
    PlaceOrder,
    ReadOrder,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import Action, EarlierOrdersRead, OperatorActed
from bot.domain.order import OrderReport, OrderState, SendState, Side, UnreadRow
from bot.domain.outcome import Resolution, Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery
from tests.engine.stage import DAY, Stage, report_of, sell_intent


def _alerts(stage: Stage) -> list[str]:
    return [str(n.numbers.get("alert")) for n in stage.all(Note) if n.kind == "ALERT"]


# -------------------------------------------------------------------------- rows that can't be read

OF_HPG = UnreadRow("ORD9", "HPG", "qtty: Field required", "{}")
OF_FPT = UnreadRow("ORD9", "FPT", "qtty: Field required", "{}")
NAMELESS = UnreadRow(None, None, "orderid: Field required", "{}")


def _unread_alerts(stage: Stage) -> list[str]:
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

    [told] = _unread_alerts(stage)
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
    assert "nothing is bought in HPG" in _unread_alerts(stage)[0]


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


def test_what_is_asked_about_anyway_is_asked_about_beside_a_row_that_cannot_be_read() -> None:
    stage = Stage()
    _lost(stage, Resolution.REACHED)
    equal = [report_of(stage.last(PlaceOrder).intent, name) for name in ("ORD6", "ORD7", "ORD8")]
    stage.after(1).book(*equal[:2])

    stage.after(1).book(*equal, set_aside=[OF_HPG])

    assert stage.entries_of_order("ORD8").note == "may be L-0001"
    assert _unread_alerts(stage)[-1].startswith(
        "BUY 100 HPG LIMIT 27,000 (L-0001), sent at 09:30:00, may be ORD6, ORD7, ORD8"
    )


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


def test_a_row_that_the_start_could_not_read_is_never_taken_for_a_sale_that_gets_lost() -> None:
    own = RecoveredStrategy({"HPG": (500, 10_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": own})
    stage = Stage(sellable=500, is_open=False, recovery=recovery)
    stage.book(set_aside=[OF_HPG])
    stage.open()
    stage.request(lambda s: s.sell(100, limit=27_000, why="out"))
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.after(1).answer(sale, Unknown("deadline"))
    stage.handle(NonceBurnt(stage.now, sale.intent_id, Resolution.REACHED, "used"))

    stage.after(1).book(report_of(sale, "ORD9"))

    assert stage.all(IntentMoved)[-1].to_state is SendState.REACHED
    assert stage.entries_of_order("ORD9").intent_id is None


# -------------------------------------------------------------------- the orders of an earlier day


def test_a_list_of_an_earlier_day_is_named_and_takes_no_order_for_somebody_elses() -> None:
    """A broker's list may show the day before until it is rolled, or all day."""
    stage = Stage()
    intent = stage.working()
    yesterdays = report_of(intent, executed=100)
    stage.book(yesterdays)
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    rows = len(stage.all(OrderUpdated))

    stage.book(yesterdays)
    stage.after(15).book(yesterdays)
    named = [each for each in stage.engine.status().alerts if "day order book" in each]
    stage.after(15).book()
    left = [each for each in stage.engine.status().alerts if "day order book" in each]

    assert len(stage.all(OrderUpdated)) == rows
    assert _alerts(stage) == ["BOOK_OF_BEFORE"]
    assert len(named) == 1
    assert named[0].startswith(f"the day order book shows orders of {DAY} and none of today")
    assert left == []


def _in_a_list_of_yesterday() -> tuple[Stage, OrderReport]:
    """The next morning, the account compared, and a list that is still the day before's."""
    stage = Stage()
    intent = stage.working()
    ended = {"status": "CANCELLED", "state": OrderState.CANCELLED}
    old = report_of(intent, cancelled=100, **ended)  # type: ignore[arg-type]
    stage.book(old)
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.account()
    stage.handle(Reconciled(stage.now))
    stage.phase(Phase.PROGRESS)
    stage.book(old)
    return stage, old


def _asked(stage: Stage) -> tuple[str, str]:
    stage.after(70).quote()
    stage.request(lambda s: s.buy(100, limit=26_900, why="more"))
    return stage.decided()


def test_a_list_of_an_earlier_day_holds_buys_and_lets_sales_out() -> None:
    stage, old = _in_a_list_of_yesterday()

    held = _asked(stage)

    assert held == (Verdict.BLOCKED, "SYMBOL_HALTED")
    words = f"the day order book shows orders of {DAY} and none of today"
    assert words in stage.last(Decision).checks[-1].text
    stage.book()
    intent = stage.buy(100, 26_900)
    stage.book(old)
    assert stage.engine.reason_not_to_send(intent) == words
    assert stage.engine.reason_not_to_send(sell_intent(intent)) is None


def test_when_the_list_is_todays_buys_go_out_again() -> None:
    stage, old = _in_a_list_of_yesterday()
    stage.book(old)

    stage.after(15).book()

    assert _asked(stage)[0] is Verdict.PASSED
    assert stage.engine.status().standing == ()


def test_a_person_may_let_buys_out_although_the_list_is_an_earlier_days() -> None:
    stage, old = _in_a_list_of_yesterday()

    stage.handle(OperatorActed(stage.now, Action.RESUME, "the broker says so", "me"))
    noted = [note.text for note in stage.new(Note) if note.kind == "RESUME"]
    stage.book(old)

    told = "buys go on although the day order book is an earlier day's, until today ends"
    assert told in noted
    assert _asked(stage)[0] is Verdict.PASSED
    assert [each.code for each in stage.engine.status().standing] == ["BOOK_OF_BEFORE"]


@pytest.mark.parametrize("is_accepted", [False, True])
def test_what_a_person_has_said_of_such_a_list_holds_over_a_restart(*, is_accepted: bool) -> None:
    first, _ = _in_a_list_of_yesterday()
    if is_accepted:
        first.handle(OperatorActed(first.now, Action.RESUME, "the broker says so", "me"))
    notes = [n.numbers for n in first.all(Note) if BOOK_ACCEPTED in n.numbers]
    assert notes == [{BOOK_ACCEPTED: (DAY + timedelta(days=1)).isoformat()}] * is_accepted

    stage = Stage(recovery=Recovery(DAY, book_accepted_on=DAY if is_accepted else date.min))
    old = report_of(Stage().buy(), remaining=0, trading_date=DAY - timedelta(days=1))
    stage.book(old)

    assert (_asked(stage)[0] is Verdict.PASSED) is is_accepted
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    assert stage.engine._state.old_books.accepted_on != stage.engine._state.trading_date


def test_a_list_of_an_earlier_day_shows_nothing_to_be_absent() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.FRESH, "unused"))
    old = replace(report_of(intent, "ORD5"), trading_date=DAY - timedelta(days=1))

    for _ in range(20):
        stage.after(15).book(old)
    state = stage.all(IntentMoved)[-1].to_state
    for _ in range(3):
        stage.after(15).book()

    assert state is SendState.FRESH
    assert stage.all(IntentMoved)[-1].to_state is SendState.NOT_PLACED


@pytest.mark.parametrize(
    ("order_id", "symbol"), [("ORD5", None), (None, "SSI"), (None, None), ("ORD5", "SSI")]
)
def test_a_row_that_stays_unreadable_is_told_of_once(
    order_id: str | None, symbol: str | None
) -> None:
    stage = Stage()
    row = UnreadRow(order_id, symbol, "no side", "{}")

    for _ in range(2):
        stage.after(1).book(set_aside=[row])
    stage.after(1).book(set_aside=[replace(row, order_id="ORD6")])

    assert _alerts(stage) == ["ROW_UNREADABLE"] * 2


def test_that_every_row_can_be_read_again_is_noted_and_that_buys_go_out_too() -> None:
    stage = Stage()
    stage.book(set_aside=[OF_HPG])

    stage.after(1).book()

    assert "every row of the day order book can be read again" in [n.text for n in stage.new(Note)]


def _next_morning(hour: int) -> tuple[Stage, OrderReport]:
    """A stage that has begun the next day at an hour, and a row of the day before."""
    stage = Stage()
    old = report_of(stage.working(), cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
    stage.book(old)
    stage.now += timedelta(hours=24 - 9 + hour, minutes=-30)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    return stage, old


OF_YESTERDAY: list[dict[str, object]] = [
    {"symbol": "FPT"},
    {"side": Side.BUY},
    {"quantity": 5_000, "executed": 5_000, "state": OrderState.FILLED, "status": "MATCHED_ALL"},
]


@pytest.mark.parametrize("changes", OF_YESTERDAY, ids=str)
@pytest.mark.parametrize("is_filled", [False, True])
def test_an_earlier_days_order_under_an_id_that_is_used_again_keeps_no_exit_away(
    changes: dict[str, object], *, is_filled: bool
) -> None:
    held = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
    stage = Stage(sellable=1_000, recovery=Recovery(DAY, strategies={"test": held}))
    stage.quote()
    stage.request(lambda s: s.sell(500, limit=27_000, why="half out"))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD1")
    filled = report_of(sale, executed=500, state=OrderState.FILLED, status="MATCHED_ALL")
    ended = report_of(sale, cancelled=500, state=OrderState.CANCELLED, status="CANCELLED")
    yesterdays = {"trading_date": DAY - timedelta(days=1), **changes}
    if is_filled:
        stage.after(2).row(filled)

    stage.after(15).book(report_of(sale, **yesterdays))  # type: ignore[arg-type]
    stage.after(1).row(report_of(sale, **yesterdays))  # type: ignore[arg-type]
    told = _alerts(stage)
    if not is_filled:
        stage.after(1).row(ended)
    stage.after(60).quote()
    stage.request(lambda s: s.sell(500, limit=26_900, why="the rest"))

    assert "ROW_CONTRADICTS" not in told
    assert ("ROW_AMBIGUOUS" in told) is not is_filled
    assert stage.engine.status().halted_symbols == {}
    assert stage.decided()[0] is Verdict.PASSED


def test_before_the_exchanges_open_a_list_of_the_day_before_is_as_it_should_be() -> None:
    stage, old = _next_morning(7)

    stage.book(old)

    assert stage.engine.status().standing == ()


def test_a_list_that_was_asked_for_the_day_before_says_nothing_about_todays() -> None:
    stage, old = _next_morning(10)

    stage.book(old, asked_at=stage.now - timedelta(hours=12))

    assert stage.engine.status().standing == ()
