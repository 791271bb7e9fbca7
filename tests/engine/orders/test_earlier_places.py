"""Lost places whose day is over: what the order history settles, and what a later list shows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.account import AccountSnapshot
from bot.domain.entry import Fill, IntentMoved, Note, OrderResultSeen, OrderUpdated
from bot.domain.message import NonceBurnt, PlaceOrder, Reconciled, TradingDayStarted
from bot.domain.operations import Action, EarlierOrdersRead, OperatorActed
from bot.domain.order import Intent, OrderReport, OrderState, OrderType, SendState
from bot.domain.outcome import Resolution, Unknown
from bot.domain.recovery import LATE_ROWS, Recovery, StoredIntent
from tests.engine.stage import DAY, START, Stage, attempt_of, report_of

NEXT_DAY = DAY + timedelta(days=1)
S = SendState
Lost = Callable[[SendState], tuple[Stage, Intent]]


def _by_night(state: SendState) -> tuple[Stage, Intent]:
    """A bot that ran through the night with a place in this state."""
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("reset"))
    if state in {S.REACHED, S.FRESH}:
        to = Resolution.FRESH if state is S.FRESH else Resolution.REACHED
        stage.handle(NonceBurnt(stage.now, intent.intent_id, to, "tried"))
    if state is S.AMBIGUOUS:
        stage.after(1).book(report_of(intent, "ORD1"), report_of(intent, "ORD2"))
    assert _states(stage)[-1] is state
    stage.after(86_400).handle(TradingDayStarted(stage.now, NEXT_DAY))
    return stage, intent


def _by_a_start(state: SendState) -> tuple[Stage, Intent]:
    """The same place, and a bot that was started this morning."""
    before = Stage()
    intent = before.buy()
    if state is S.AMBIGUOUS:
        before, intent = _by_night(state)
    rows = {one.order_id: one for one in before.all(OrderUpdated)}
    stored = StoredIntent(intent, state, None, attempt_of(intent, START))
    recovery = Recovery(NEXT_DAY, 2, intents=(stored,), orders=tuple(rows.values()))
    stage = Stage(recovery=recovery, is_open=False)
    stage.after(86_400)
    return stage, intent


BOTH_WAYS = pytest.mark.parametrize("lost", [_by_night, _by_a_start])


def _states(stage: Stage) -> list[SendState]:
    return [move.to_state for move in stage.all(IntentMoved)]


def _told(stage: Stage) -> list[str]:
    return [str(n.numbers.get("alert")) for n in stage.all(Note) if n.kind == "ALERT"]


def _history(stage: Stage, *rows: OrderReport, is_unread: bool = False) -> None:
    stage.handle(EarlierOrdersRead(stage.now, rows, is_unread=is_unread))


def _past(intent: Intent, order_id: str, executed: int, **changes: object) -> OrderReport:
    row = report_of(intent, order_id, executed=executed, remaining=0)
    row = replace(row, cancelled_quantity=intent.quantity - executed, status="EXPIRED")
    ended = OrderState.FILLED if executed == intent.quantity else OrderState.EXPIRED
    row = replace(row, state=ended, requested_at=START + timedelta(days=1))
    return replace(row, **changes)  # type: ignore[arg-type]


def _halted(stage: Stage) -> dict[str, str]:
    return dict(stage.engine.status().halted_symbols)


@BOTH_WAYS
@pytest.mark.parametrize("state", [S.UNKNOWN, S.REACHED])
@pytest.mark.parametrize(("executed", "then"), [(100, "FILLED"), (40, "EXPIRED"), (0, "EXPIRED")])
def test_a_lost_place_that_the_history_shows_is_found_with_its_fills(lost, state, executed, then):
    stage, intent = lost(state)

    for _ in range(2):
        _history(stage, _past(intent, "ORD7", executed))
    stage.account(executed)
    stage.handle(Reconciled(stage.now))

    assert _states(stage)[-1] is S.MATCHED
    assert stage.last(IntentMoved).reason == "found in the order history as ORD7"
    assert stage.entries_of_order("ORD7").state == then
    assert [fill.quantity for fill in stage.all(Fill)] == ([executed] if executed else [])
    assert stage.engine._state.position_of("test", "HPG").shares == executed
    assert stage.engine.status().open_orders == ()
    assert "ORDER_ABSENT" not in _told(stage)
    assert _halted(stage) == {}


@pytest.mark.parametrize("shown", [("ORD7", "ORD8"), ("ORD7",), ("ORD8",)])
def test_each_of_two_lost_places_is_found_by_its_own_row(shown):
    first = Stage().buy()
    other = replace(first, intent_id="L-0002", limit_price=26_900)
    stored = [StoredIntent(one, S.REACHED, None, attempt_of(one, START)) for one in (first, other)]
    stage = Stage(recovery=Recovery(NEXT_DAY, 3, intents=tuple(stored)), is_open=False)
    rows = {"ORD7": _past(first, "ORD7", 100), "ORD8": _past(other, "ORD8", 100)}

    _history(stage.after(86_400), *(rows[each] for each in shown))

    moves = {move.intent_id: move.to_state for move in stage.all(IntentMoved)}
    ends = {True: S.MATCHED, False: S.EOD_ABSENT}
    assert moves == {"L-0001": ends["ORD7" in shown], "L-0002": ends["ORD8" in shown]}
    assert [fill.quantity for fill in stage.all(Fill)] == [100] * len(shown)


@BOTH_WAYS
def test_a_place_that_is_found_without_saying_what_was_executed_halts_its_symbol(lost):
    stage, intent = lost(S.REACHED)
    row = _past(intent, "ORD7", 0, state=OrderState.ACCEPTED)

    _history(stage, replace(row, remaining_quantity=100, cancelled_quantity=0))

    assert _states(stage)[-1] is S.MATCHED
    assert "ORD7 was open" in _halted(stage)["HPG"]
    assert stage.engine.status().open_orders == ()


@BOTH_WAYS
def test_of_two_equal_rows_in_the_history_none_is_taken(lost):
    stage, intent = lost(S.REACHED)

    _history(stage, _past(intent, "ORD7", 100), _past(intent, "ORD8", 0))

    assert _states(stage)[-2:] == [S.AMBIGUOUS, S.EOD_ABSENT]
    assert stage.all(Fill) == []
    assert _halted(stage)["HPG"] == "100 shares traded that may be L-0001's"


@BOTH_WAYS
def test_a_row_in_the_history_of_what_never_arrived_is_for_a_person(lost):
    stage, intent = lost(S.FRESH)

    _history(stage, _past(intent, "ORD7", 100))

    assert _states(stage)[-2:] == [S.AMBIGUOUS, S.EOD_ABSENT]
    assert "NONCE_BROKEN" in _told(stage)
    assert "HPG" in _halted(stage)


@BOTH_WAYS
@pytest.mark.parametrize("executed", [0, 100])
def test_a_row_that_may_be_the_order_has_traded_by_now(lost, executed):
    stage, intent = lost(S.AMBIGUOUS)

    _history(stage, _past(intent, "ORD1", executed), _past(intent, "ORD2", 0))

    assert _states(stage)[-1] is S.EOD_ABSENT
    assert ("HPG" in _halted(stage)) is bool(executed)


@BOTH_WAYS
@pytest.mark.parametrize(
    "changes",
    [{"quantity": 200}, {"price": 26_950}, {"symbol": "SSI"}, {"trading_date": NEXT_DAY}],
)
def test_another_row_of_the_history_is_not_the_place(lost, changes):
    stage, intent = lost(S.REACHED)

    _history(stage, _past(intent, "ORD7", 0, **changes))

    assert _states(stage)[-1] is S.EOD_ABSENT
    assert stage.all(OrderUpdated) == []
    assert _halted(stage) == {}


@BOTH_WAYS
@pytest.mark.parametrize("state", [S.UNKNOWN, S.REACHED, S.FRESH])
def test_a_place_whose_history_can_t_be_read_halts_its_symbol(lost, state):
    stage, _ = lost(state)

    _history(stage, is_unread=True)

    last = stage.last(IntentMoved)
    assert last.to_state is S.EOD_ABSENT
    assert "the order history could not be read" in last.proof
    assert "was never found" in _halted(stage)["HPG"]


# ------------------------------------------------------------------------------- what comes late


def _absent_by_night() -> tuple[Stage, Intent]:
    stage, intent = _by_night(S.REACHED)
    _history(stage)
    stage.open()
    return stage, intent


def _absent_by_a_start() -> tuple[Stage, Intent]:
    intent = Stage().buy()
    proof = "in no day order book until the day's end: no row showed it"
    stored = StoredIntent(intent, S.EOD_ABSENT, None, attempt_of(intent, START, "ORD1"), proof)
    stage = Stage(recovery=Recovery(NEXT_DAY, 2, intents=(stored,)), is_open=False)
    stage.after(86_400).handle(EarlierOrdersRead(stage.now, ()))
    stage.open()
    return stage, intent


@pytest.mark.parametrize("absent", [_absent_by_night, _absent_by_a_start])
@pytest.mark.parametrize("executed", [0, 100])
def test_a_late_row_of_a_place_whose_day_ended_without_one_halts_its_symbol(absent, executed):
    stage, intent = absent()
    before = len(_told(stage))
    row = _past(intent, "ORD9", executed)

    for _ in range(3):
        stage.after(10).book(row)

    told = [each for each in _told(stage)[before:] if each != "BOOK_OF_BEFORE"]
    assert told == ["GHOST_ORDER", "SYMBOL_HALTED"]
    assert _halted(stage) == {"HPG": "ORD9 looks like L-0001, which was EOD_ABSENT"}
    [seen] = [one for one in stage.all(OrderResultSeen) if one.order_id == "ORD9"]
    assert seen.intent_id == intent.intent_id
    assert stage.engine.status().open_orders == ()
    stage.handle(OperatorActed(stage.now, Action.RESUME, reason="seen", by="operator"))
    stage.handle(TradingDayStarted(stage.after(86_400).now, NEXT_DAY + timedelta(days=3)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.after(10).book(row)
    assert _halted(stage) == {}, "a person has looked at this row"


@pytest.mark.parametrize(
    "changes",
    [{"quantity": 200}, {"price": 26_950}, {"trading_date": DAY - timedelta(days=1)}],
)
def test_a_late_row_of_another_order_is_none_of_a_lost_place(changes):
    stage, intent = _absent_by_a_start()

    stage.after(10).book(_past(intent, "ORD9", 100, **changes))
    stage.after(10).book(_past(intent, "ORD1", 100))  # it was there before

    assert "GHOST_ORDER" not in _told(stage)
    assert _halted(stage) == {}


def test_a_late_row_that_a_person_knows_of_is_not_told_again():
    stage, intent = _by_night(S.AMBIGUOUS)
    _history(stage)
    again = _again(intent, "ORD1", "ORD2")
    again.handle(EarlierOrdersRead(again.now, ()))

    for each in (stage, again):
        each.after(86_400).book(_past(intent, "ORD1", 0), _past(intent, "ORD2", 0))

        assert "GHOST_ORDER" not in _told(each)


def _again(intent: Intent, *day_ids: str) -> Stage:
    """A bot that was started after the place's day had ended without a row of it."""
    attempt = attempt_of(intent, START)
    stored = StoredIntent(intent, S.EOD_ABSENT, None, attempt, day_ids=frozenset(day_ids))
    return Stage(recovery=Recovery(NEXT_DAY, 2, intents=(stored,)), is_open=False)


def test_of_two_equal_lost_places_the_one_that_was_sent_last_is_named_with_a_late_row():
    first = Stage().buy()
    last = replace(first, intent_id="L-0002")
    stored = tuple(
        StoredIntent(one, S.EOD_ABSENT, None, attempt_of(one, START + timedelta(minutes=after)))
        for one, after in ((first, 0), (last, 1))
    )
    stage = Stage(recovery=Recovery(NEXT_DAY, 3, intents=stored), is_open=False)
    stage.after(86_400).handle(EarlierOrdersRead(stage.now, ()))

    stage.after(10).book(_past(first, "ORD9", 100))

    assert _halted(stage) == {"HPG": "ORD9 looks like L-0002, which was EOD_ABSENT"}


def test_a_late_row_halts_its_symbol_once_over_a_restart_too():
    stage, intent = _absent_by_night()
    late = _past(intent, "ORD9", 100)
    stage.after(10).book(late)
    told = {one.order_id for one in stage.all(OrderResultSeen) if one.intent_id == "L-0001"}
    again = _again(intent, *told)
    again.after(86_400).handle(EarlierOrdersRead(again.now, ()))

    again.after(10).book(late)

    assert told == {"ORD9"}
    assert ("GHOST_ORDER" in _told(again), _halted(again)) == (False, {})
    again.after(10).book(late, _past(intent, "ORD10", 0))
    assert _halted(again) == {"HPG": "ORD10 looks like L-0001, which was EOD_ABSENT"}


def test_a_lost_place_of_long_ago_is_forgotten():
    stage, intent = _absent_by_night()
    later = NEXT_DAY + LATE_ROWS + timedelta(days=3)

    stage.after(86_400 * 10).handle(TradingDayStarted(stage.now, later))
    _history(stage)

    assert intent.intent_id not in stage.engine._state.intents


def test_what_a_lost_place_wanted_may_be_bought_again_the_next_day():
    stage, _ = _absent_by_night()

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert len(stage.new(PlaceOrder)) == 1


def _with_another(state: SendState) -> tuple[Recovery, OrderReport]:
    """A place at the market that was lost, and the row of an ended order of ours, ORD5 and then
    ORD6, which looks like what it could have become.
    """
    before = Stage()
    intent = before.buy()
    lost = replace(intent, intent_id="L-0002", signal_id="2", order_type=OrderType.MTL)
    lost = replace(lost, limit_price=None)
    others = frozenset({"ORD5", "ORD6"})
    stored = StoredIntent(lost, state, None, attempt_of(lost, START), day_ids=others)
    return Recovery(NEXT_DAY, 3, 2, intents=(stored,)), _past(intent, "ORD5", 100, order_type="LO")


@pytest.mark.parametrize("order_id", ["ORD5", "ORD6"])
def test_an_order_of_ours_that_looks_like_a_lost_place_is_not_taken_for_it(order_id):
    recovery, row = _with_another(S.REACHED)
    stage = Stage(recovery=recovery, is_open=False)

    stage.after(86_400).handle(EarlierOrdersRead(stage.now, (replace(row, order_id=order_id),)))

    assert (_states(stage)[-1], stage.all(Fill)) == (S.EOD_ABSENT, [])


@pytest.mark.parametrize("order_id", ["ORD5", "ORD6"])
def test_a_late_row_of_an_order_of_ours_is_none_of_a_lost_place(order_id):
    recovery, row = _with_another(S.EOD_ABSENT)
    stage = Stage(recovery=recovery, is_open=False)
    stage.after(86_400).handle(EarlierOrdersRead(stage.now, ()))

    stage.after(10).book(replace(row, order_id=order_id))

    assert "GHOST_ORDER" not in _told(stage)
    stage.after(10).book(replace(row, order_id="ORD8"))
    assert "GHOST_ORDER" in _told(stage), "so it does look like it"


# ------------------------------------------------------- ended orders that may be the lost place


def _with_a_candidate(executed: int, *todays: OrderUpdated) -> tuple[Stage, Intent]:
    """A bot that was started after two equal rows, which have ended since, were not told apart."""
    stage, intent = _by_night(S.AMBIGUOUS)
    rows = [one for one in stage.all(OrderUpdated) if one.order_id == "ORD1"]
    figures = {"executed_quantity": executed, "executed_amount": executed * 27_000}
    row = replace(rows[-1], state=OrderState.EXPIRED, cancelled_quantity=100 - executed, **figures)
    recovery = Recovery(
        NEXT_DAY,
        2,
        intents=(StoredIntent(intent, S.AMBIGUOUS, None, attempt_of(intent, START)),),
        orders=todays,
        traded_elsewhere=(row,) if executed else (),
        bases=(AccountSnapshot(START, intent.account, 10**8, 10**8, {}),),
    )
    again = Stage(recovery=recovery, is_open=False)
    again.after(86_400)
    return again, intent


@pytest.mark.parametrize(("executed", "by_now"), [(40, 40), (40, 100), (0, 40), (0, 0), (40, None)])
def test_an_ended_order_that_may_be_the_place_counts_once_and_halts_if_it_traded(executed, by_now):
    stage, intent = _with_a_candidate(executed)

    _history(stage, *([] if by_now is None else [_past(intent, "ORD1", by_now)]))

    traded = executed if by_now is None else by_now
    reason = f"{traded} shares traded that may be L-0001's"
    assert _halted(stage) == ({"HPG": reason} if traded else {})
    ledger = stage.engine._state.ledgers[intent.account]
    assert sum(flow.shares_in for flow in ledger.flows) == traded
    assert (_states(stage)[-1], stage.all(Fill)) == (S.EOD_ABSENT, [])


def test_an_order_of_today_is_known_by_its_id_before_one_of_an_earlier_day():
    before = Stage()
    before.accept(before.buy(200), "ORD1")
    todays = replace(before.entries_of_order("ORD1"), trading_date=NEXT_DAY)

    stage, _ = _with_a_candidate(100, todays)

    assert stage.engine._state.orders["ORD1"].row == todays
