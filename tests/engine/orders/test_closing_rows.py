"""At the day's end the figures of our rows are compared with the journal's, and no old row alone
holds a start.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest

from bot.domain.entry import DAY_NOTE, Note, RunState
from bot.domain.instrument import Phase
from bot.domain.message import ReadTodaysOrders, Reconciled, TradingDayStarted
from bot.domain.operations import AmendAsked, EarlierOrdersRead, TradingDayEnded
from bot.domain.order import Intent, OrderReport, OrderState, SendState, UnreadRow
from bot.domain.outcome import Accepted
from bot.domain.recovery import Recovery, StoredChanges, StoredIntent
from bot.engine.orders.revived import OLD_FOR
from bot.engine.settings import LAG_MAX, EngineSettings
from tests.engine.stage import DAY, RULEBOOK, Stage, report_of, result_of

NEXT_DAY = date(2026, 11, 20)
CLOSED = datetime.fromisoformat("2026-11-19T15:15+07:00")
CASH = 50_000_000
BOOK_S = 15
LOOKS = round(OLD_FOR.total_seconds()) // BOOK_S + 1
"""So many reads take longer than an old row is waited for."""


def _ended(intent: Intent, executed: int, **changes: object) -> OrderReport:
    """The row of an order of which the rest lapsed."""
    row = report_of(intent, executed=executed, remaining=0, cancelled=intent.quantity - executed)
    return replace(row, **changes)  # type: ignore[arg-type]


def _filled(executed: int = 500, *, quantity: int = 500) -> tuple[Stage, Intent]:
    """An order whose fills the journal has and the account, too."""
    stage = Stage(cash=CASH)
    intent = stage.working(quantity)
    stage.after(1).book(report_of(intent, executed=executed))
    return stage, intent


def _end_day(stage: Stage) -> Stage:
    stage.phase(Phase.CLOSED)
    stage.now = CLOSED
    stage.handle(TradingDayEnded(stage.now, DAY))
    return stage


def _read(stage: Stage, *rows: OrderReport, bought: int, times: int = 1, **more: object) -> None:
    """Read day order book and account; of the account everything is explained."""
    paid = bought * 27_000
    stage.cash = CASH - paid - RULEBOOK.fee(paid)
    for _ in range(times):
        stage.after(BOOK_S).book(*rows, **more)  # type: ignore[arg-type]
        stage.account(total=bought)


def _breaks(stage: Stage) -> list[str]:
    return [each.text for each in stage.engine._state.reconciling.breaks.values()]


def _said(stage: Stage) -> list[str]:
    """What was said of the day's end: breaks, open questions, agreement."""
    told = {"BREAK", "DAY_UNSETTLED"}
    return [
        str(note.numbers.get("alert") or "agree")
        for note in stage.all(Note)
        if note.numbers.get("alert") in told or note.text.endswith("shares and cash agree")
    ]


def _summary(stage: Stage) -> str:
    [day] = [note for note in stage.all(Note) if note.kind == DAY_NOTE]
    return str(day.text)


def _next_state(stage: Stage) -> RunState:
    """Begin the next day, whose account is the same."""
    stage.after(17 * 3600).handle(TradingDayStarted(stage.now, NEXT_DAY))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.book()
    stage.account(total=500)
    stage.handle(Reconciled(stage.now))
    return stage.engine.status().state


def test_fewer_shares_in_the_last_day_order_book_are_a_break_and_hold_the_next_day() -> None:
    stage, intent = _filled()
    _end_day(stage)

    _read(stage, _ended(intent, 200), bought=500, times=LOOKS)

    [text] = _breaks(stage)
    assert text == (
        "ORD1 (BUY HPG) has 500 executed for 13,500,000 VND in the journal and 200 for 5,400,000 "
        "VND in the day order book"
    )
    assert _said(stage) == ["BREAK", "DAY_UNSETTLED"]
    unsettled = [one.text for one in stage.all(Note) if "open questions" in one.text]
    assert "The bot trades again only when each break is accepted" in unsettled[-1]
    assert "needs you: B-0001 is not accepted (bot reconcile); HPG is halted" in _summary(stage)
    assert _next_state(stage) is RunState.STARTING


def test_until_a_later_read_has_shown_it_again_nothing_is_said_and_it_is_read_again() -> None:
    stage, intent = _filled()
    _end_day(stage)

    _read(stage, _ended(intent, 200), bought=500, times=int(LAG_MAX.total_seconds()) // BOOK_S)
    stage.pass_time(BOOK_S)
    stage.pass_time(BOOK_S)

    assert stage.new(ReadTodaysOrders)
    assert (_said(stage), _breaks(stage)) == ([], [])


@pytest.mark.parametrize("old", range(1, LOOKS))
def test_an_old_row_that_gives_way_to_the_new_one_is_no_break(old: int) -> None:
    stage, intent = _filled(200)
    stage.after(60).book(report_of(intent, executed=500))
    _end_day(stage)

    _read(stage, report_of(intent, executed=200), bought=500, times=old)
    _read(stage, report_of(intent, executed=500), bought=500)

    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_a_row_taken_before_is_a_break_only_once_no_read_has_shown_another() -> None:
    stage, intent = _filled(200)
    stage.after(60).book(report_of(intent, executed=500))
    _end_day(stage)

    _read(stage, report_of(intent, executed=200), bought=500, times=LOOKS - 1)
    before = _said(stage), _breaks(stage)
    _read(stage, report_of(intent, executed=200), bought=500)

    assert before == ([], [])
    assert _said(stage) == ["BREAK", "DAY_UNSETTLED"]
    [text] = _breaks(stage)
    assert "500 executed for 13,500,000 VND in the journal and 200 for 5,400,000 VND" in text
    assert stage.engine.status().halted_symbols == {}
    assert _next_state(stage) is RunState.STARTING


def test_what_the_day_has_corrected_already_is_a_break_at_its_end() -> None:
    stage, intent = _filled()
    stage.after(60).book(_ended(intent, 200))
    stage.after(60).book(_ended(intent, 200))
    assert "HPG" in stage.engine.status().halted_symbols
    _end_day(stage)

    _read(stage, _ended(intent, 200), bought=500, times=LOOKS)

    assert _said(stage) == ["BREAK", "DAY_UNSETTLED"]


def test_a_correction_that_a_later_row_has_taken_back_has_to_stay_at_the_days_end() -> None:
    stage, intent = _filled()
    for executed in (200, 200, 500):
        stage.after(60).book(_ended(intent, executed))
    _end_day(stage)

    _read(stage, _ended(intent, 200), bought=500, times=LOOKS - 1)
    assert (_said(stage), _breaks(stage)) == ([], [])

    _read(stage, _ended(intent, 500), bought=500)
    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_a_fill_that_its_detail_has_shown_since_the_list_was_asked_for_is_no_difference() -> None:
    stage, intent = _filled(200)
    _end_day(stage)
    paid = 500 * 27_000
    stage.cash = CASH - paid - RULEBOOK.fee(paid)

    stage.after(1).book(report_of(intent, executed=200))
    stage.after(1).row(report_of(intent, executed=500))
    stage.account(total=500)
    assert _said(stage) == []
    _read(stage, report_of(intent, executed=500), bought=500)

    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_another_amount_for_the_same_shares_is_a_break() -> None:
    stage, intent = _filled()
    dearer = report_of(intent, executed=500, average=27_010)
    _end_day(stage)

    _read(stage, dearer, bought=500, times=LOOKS)

    [text] = _breaks(stage)
    assert "13,500,000 VND in the journal and 500 for 13,505,000 VND" in text


def test_an_inexact_amount_in_a_places_answer_is_no_break_at_the_days_end() -> None:
    stage = Stage(cash=CASH)
    intent = stage.buy(500)
    stage.send(intent)
    traded: dict[str, object] = {"executed_quantity": 500, "executed_amount": 13_500_000}
    traded |= {"average_price": 27_000, "status": "MATCHED_ALL", "state": OrderState.FILLED}
    answer = replace(result_of(intent), **traded)  # type: ignore[arg-type]
    stage.answer(intent, Accepted(answer))
    row = replace(report_of(intent, executed=500), executed_amount=13_500_100)
    stage.after(1).book(row)
    _end_day(stage)

    stage.cash = CASH - 13_500_100 - RULEBOOK.fee(13_500_100)
    for _ in range(LOOKS):
        stage.after(BOOK_S).book(row)
        stage.account(total=500)

    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_what_is_shown_again_as_late_as_a_row_may_be_is_a_break() -> None:
    stage, intent = _filled()
    dearer, found = report_of(intent, executed=500, average=27_010), []
    _end_day(stage)

    for seconds in (0, LAG_MAX.total_seconds() - 1, 1):
        stage.after(seconds).book(dearer)
        stage.account(total=500)
        found.append(len(_breaks(stage)))

    assert found == [0, 0, 1]


def test_figures_that_change_from_read_to_read_are_a_break_if_none_are_the_journals() -> None:
    stage, intent = _filled()
    _end_day(stage)

    for average in range(27_001, 27_001 + LOOKS):
        assert _breaks(stage) == []
        _read(stage, report_of(intent, executed=500, average=average), bought=500)

    assert _said(stage) == ["BREAK", "DAY_UNSETTLED"]


@pytest.mark.parametrize(
    "changes",
    [
        {"quantity": 900},
        {"trading_date": DAY - timedelta(days=1)},
        {"executed_amount": 13_499_000},
    ],
)
def test_a_row_that_may_be_anothers_or_cannot_be_true_is_a_break_once_every_read_has_shown_it(
    changes: dict[str, object],
) -> None:
    stage, intent = _filled()
    _end_day(stage)
    strange = {"executed_amount": 13_505_000, "average_price": 27_010, **changes}
    row = replace(report_of(intent, executed=500), **strange)  # type: ignore[arg-type]

    _read(stage, row, bought=500, times=LOOKS - 1)
    before = _said(stage), _breaks(stage)
    _read(stage, row, bought=500)

    assert before == ([], [])
    assert _said(stage) == ["BREAK", "DAY_UNSETTLED"]
    assert _next_state(stage) is RunState.STARTING


def test_an_order_that_one_list_hides_and_the_next_one_shows_is_no_break() -> None:
    stage, intent = _filled()
    _end_day(stage)

    _read(stage, bought=500)
    before = _said(stage), _breaks(stage)
    _read(stage, report_of(intent, executed=500), bought=500)

    assert before == ([], [])
    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_an_order_that_no_list_shows_is_a_break_once_none_can_lag() -> None:
    stage, _ = _filled()
    found = []
    _end_day(stage)

    for seconds in (0, LAG_MAX.total_seconds() - 1, 1):
        stage.after(seconds).book()
        stage.account(total=500)
        found.append(len(_breaks(stage)))

    assert found == [0, 0, 1]
    assert _breaks(stage) == ["ORD1 (BUY HPG) is in no row of the day order book"]


def test_an_order_that_is_in_no_list_when_the_day_is_over_is_named_as_that() -> None:
    stage, _ = _filled()
    _end_day(stage)
    _read(stage, bought=500)

    stage.after(17 * 3600).handle(TradingDayStarted(stage.now, NEXT_DAY))

    assert "ORD1 is in no row of the day order book (bot order ORD1)" in _summary(stage)


def test_the_list_of_one_account_misses_no_order_of_another() -> None:
    ours, intent = _filled()
    elsewhere = "120C999999.1"
    row = replace(ours.entries_of_order(), account=elsewhere)
    placed = StoredIntent(replace(intent, account=elsewhere), SendState.ACKED, "ORD1", None)
    stage = Stage(cash=CASH, recovery=Recovery(DAY, orders=(row,), intents=(placed,)))
    _end_day(stage)

    _read(stage, bought=0, times=LOOKS)

    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_a_row_that_cannot_be_read_ends_no_day() -> None:
    stage, _ = _filled()
    unread = [UnreadRow("ORD1", "HPG", "execqtty: left out", "{}")]
    _end_day(stage)

    _read(stage, bought=500, times=2 * LOOKS, set_aside=unread)

    assert (_said(stage), _breaks(stage)) == ([], [])


def test_an_older_row_beside_the_new_one_in_one_list_is_no_difference() -> None:
    stage, intent = _filled(200)
    new = report_of(intent, executed=500)
    stage.after(60).book(new)
    _end_day(stage)

    _read(stage, new, report_of(intent, executed=200), bought=500)

    assert (_said(stage), _breaks(stage)) == (["agree"], [])


def test_a_place_of_unknown_outcome_is_no_break() -> None:
    stage, intent = _filled()
    stage.after(70).quote()
    lost = stage.buy(100)
    stage.send(lost)
    _end_day(stage)

    _read(stage, report_of(intent, executed=500), bought=500, times=LOOKS)

    assert (_said(stage), _breaks(stage)) == (["DAY_UNSETTLED"], [])
    assert stage.engine._state.intents[lost.intent_id].state is SendState.SENDING


# --------------------------------------------------------------------------------- amended orders

Second = Callable[[OrderReport, int], OrderReport]


def _carried(former: OrderReport, more: int) -> OrderReport:
    """The row of the second id, which goes on counting."""
    return _second(former, former.quantity, former.executed_quantity + more)


def _restarted(former: OrderReport, more: int) -> OrderReport:
    """The row of the second id, which begins at zero, with what was open."""
    return _second(former, former.quantity - former.executed_quantity, more)


BOTH_WAYS = pytest.mark.parametrize("second", [_carried, _restarted])


def _second(former: OrderReport, quantity: int, executed: int) -> OrderReport:
    return replace(
        former,
        order_id="ORD1-1",
        root_order_id="ORD1",
        quantity=quantity,
        price=26_900,
        executed_quantity=executed,
        executed_amount=executed * 27_000,
        average_price=27_000 if executed else 0,
        remaining_quantity=quantity - executed,
        cancelled_quantity=0,
        status="SENT",
        state=OrderState.ACCEPTED,
    )


def _amended(second: Second) -> tuple[Stage, OrderReport, OrderReport]:
    """An order of 500: 100 matched under its first id and 200 under its second; its rows."""
    stage = Stage(cash=CASH, settings=EngineSettings(amend_enabled=True))
    intent = stage.working(500)
    row = report_of(intent, executed=100)
    stage.after(1).book(row)
    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))
    stage.row(row)
    former = replace(row, remaining_quantity=0, cancelled_quantity=400, status="CANCELLED")
    former = replace(former, state=OrderState.CANCELLED)
    stage.after(1).book(former, second(former, 0))
    stage.after(1).book(former, second(former, 200))
    return stage, former, second(former, 200)


@BOTH_WAYS
def test_an_amended_order_agrees_by_either_way_of_counting(second: Second) -> None:
    stage, former, newest = _amended(second)
    assert stage.entries_of_order().executed_quantity == 300
    _end_day(stage)

    _read(stage, former, newest, bought=300)

    assert stage.engine._state.reconciling.rows == {}
    assert _breaks(stage) == []


@BOTH_WAYS
def test_fewer_shares_under_the_last_id_of_an_amended_order_are_a_break(second: Second) -> None:
    stage, former, _ = _amended(second)
    stage.after(1)
    _end_day(stage)
    less = replace(second(former, 150), status="EXPIRED", state=OrderState.EXPIRED)

    _read(stage, former, less, bought=300, times=LOOKS)

    [text] = _breaks(stage)
    assert text.startswith("ORD1 (BUY HPG) has 300 executed for 8,100,000 VND in the journal and ")
    assert "100 for 2,700,000 VND as ORD1 and " in text


def test_an_old_row_of_the_former_id_of_an_amended_order_has_to_stay() -> None:
    stage, former, newest = _amended(_restarted)
    older = replace(former, executed_quantity=50, executed_amount=50 * 27_000)
    _end_day(stage)

    _read(stage, older, newest, bought=300, times=LOOKS - 1)

    assert (_said(stage), _breaks(stage)) == ([], [])
    _read(stage, older, newest, bought=300)
    assert len(_breaks(stage)) == 1


@BOTH_WAYS
@pytest.mark.parametrize("is_former_listed", [True, False])
@pytest.mark.parametrize("matched", [(0, 0), (100, 2_700_000)])
def test_an_amended_order_of_an_earlier_run_is_no_break(
    second: Second, is_former_listed: bool, matched: tuple[int, int]
) -> None:
    before, former, newest = _amended(second)
    stored = StoredIntent(
        before.engine._state.intents["L-0001"].intent, SendState.ACKED, "ORD1", None
    )
    recovery = Recovery(
        DAY,
        2,
        1,
        intents=(stored,),
        orders=(before.entries_of_order(),),
        later_ids={"ORD1": ("ORD1-1",)},
        changes={"ORD1": StoredChanges((400,), matched=matched, prices=(26_900,))},
    )
    stage = Stage(recovery=recovery, cash=CASH, settings=EngineSettings(amend_enabled=True))
    _end_day(stage)
    rows = [former, newest] if is_former_listed else [newest]

    for _ in range(LOOKS):
        stage.after(BOOK_S).book(*rows)
        stage.row(None, "ORD1")
        stage.account()

    assert not [text for text in _breaks(stage) if text.startswith("ORD1")]
    is_known = is_former_listed or second is _carried or matched != (0, 0)
    assert (stage.engine._state.reconciling.rows == {}) is is_known
    is_named = "ORD1 is shown with other fills than here (bot order ORD1)" in _summary(stage)
    assert is_named is not is_known
    compared = stage.engine.reconciliation().rows
    assert compared == (() if is_known else ("ORD1 is shown with other fills than here",))
    [unsettled] = [one for one in stage.all(Note) if one.numbers.get("alert") == "DAY_UNSETTLED"]
    assert ("in the journal and" in unsettled.text) is not is_known


def test_a_difference_is_waited_for_no_longer_than_an_old_row() -> None:
    stage, intent = _filled(200)
    stage.after(60).book(report_of(intent, executed=500))
    _end_day(stage)

    _read(stage, report_of(intent, executed=200), bought=500, times=LOOKS)

    ended = [note.at for note in stage.all(Note) if note.numbers.get("alert") == "DAY_UNSETTLED"]
    assert ended == [CLOSED + timedelta(seconds=BOOK_S) + OLD_FOR]
