from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.account import AccountSnapshot, Break, Holding
from bot.domain.entry import (
    ACCOUNT_SCOPE,
    IN_DOUBT,
    LIMITS_NOTE,
    OFF_NOTE,
    ONLY_SELLS,
    REDUCED_SCOPE,
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
    ReadAccount,
    ReadOrderToCancel,
    ReadTodaysOrders,
    Reconciled,
    TradingDayStarted,
    TwoFactorMissing,
)
from bot.domain.operations import Action, CancelAsked, EarlierOrdersRead, OperatorActed
from bot.domain.order import REOPENED_NOTE, OrderState, OrderType, SendState, Side
from bot.domain.outcome import Resolution, Unknown
from bot.domain.plan import AccountLimits, Limits, OrderPlan, StrategyMode
from bot.domain.recovery import MAY_BE, RecoveredStrategy, Recovery, StoredIntent
from bot.engine.control_state import BY_ENGINE
from bot.engine.gate import BY_LIMIT, NONCES, PAUSED
from bot.engine.invariants import WHOLE_EVERY
from bot.engine.orders.unknown import NONCE_UNUSED
from bot.engine.risk.breaks import DAMAGE
from bot.engine.settings import EngineSettings
from bot.engine.state import Position
from tests.engine.plain_scan import require_equal
from tests.engine.stage import ACCOUNT, DAY, PLAN, START, Stage, attempt_of, report_of, sell_intent
from tests.engine.test_invariants import caught

SENT_AT = START - timedelta(seconds=20)


def _intent(**changes):
    return replace(Stage().buy(), **changes)


def _stored(state, *, order_id=None):
    intent = _intent(created_at=SENT_AT)
    attempt = attempt_of(intent, SENT_AT, "ORD0")
    return StoredIntent(intent, state, order_id, attempt)


def _recovered(*states, **recovery):
    intents = tuple(_stored(state) for state in states)
    return Stage(
        recovery=Recovery(
            DAY, next_intent_number=8, next_fill_number=5, intents=intents, **recovery
        ),
        is_open=False,
    )


def _open_row():
    first = Stage()
    first.working()
    return first.entries_of_order()


UNDONE = [
    (SendState.READY, SendState.EXPIRED_LOCAL),
    (SendState.HELD, SendState.EXPIRED_LOCAL),
    (SendState.SENDING, SendState.UNKNOWN),
]


@pytest.mark.parametrize(("before", "after"), UNDONE)
def test_what_an_earlier_run_left_undone_is_settled_and_never_sent(before, after):
    stage = _recovered(before)

    assert [move.to_state for move in stage.all(IntentMoved)] == [after]
    stage.open()
    stage.pass_time(60)
    assert stage.all(PlaceOrder) == []


@pytest.mark.parametrize(
    ("before", "code", "reason"),
    [
        (SendState.HELD, "TWO_FACTOR", "no 2FA before the restart"),
        (SendState.READY, "NOT_SENT", "not sent before the restart"),
    ],
)
def test_an_order_that_had_not_left_is_said_to_have_expired_with_the_restart(before, code, reason):
    stage = _recovered(before)

    [decision] = stage.all(Decision)
    assert (decision.verdict, decision.code) == (Verdict.EXPIRED, code)
    assert (decision.request_id, decision.symbol) == ("L-0001", "HPG")
    assert decision.numbers == {"reason": reason}


@pytest.mark.parametrize("state", [SendState.SENDING, SendState.UNKNOWN])
def test_a_lost_answer_is_fenced_before_anything_else(state):
    stage = _recovered(state)

    commands = [one for one in stage.done if not hasattr(one, "entry")]
    assert commands[0] == BurnNonce("L-0001")
    assert {type(one) for one in commands} == {BurnNonce, ReadTodaysOrders, ReadAccount}


@pytest.mark.parametrize("state", [SendState.MATCHED, SendState.AMBIGUOUS])
def test_the_nonce_of_an_order_that_only_its_looks_tell_is_tried_on_after_a_restart(state):
    intent = _intent(created_at=SENT_AT)
    found = "ORD1" if state is SendState.MATCHED else None
    stored = StoredIntent(intent, state, found, attempt_of(intent, SENT_AT))

    stage = Stage(recovery=Recovery(DAY, 2, 1, intents=(stored,)))

    assert stage.all(BurnNonce) == [BurnNonce("L-0001")]
    assert stage.engine.is_asked_after("L-0001")


def test_a_lost_order_is_found_in_the_day_book():
    stage = _recovered(SendState.SENDING)
    intent = _intent()

    stage.book(report_of(intent, "ORD0"), report_of(intent, "ORD7"))

    assert stage.last(IntentMoved).to_state is SendState.MATCHED
    assert stage.entries_of_order("ORD7").intent_id == "L-0001"
    assert stage.entries_of_order("ORD0").intent_id is None


def test_a_fresh_intent_of_an_earlier_run_is_released_by_the_horizon():
    stage = _recovered(SendState.FRESH)

    for _ in range(3):
        stage.after(50).book()

    assert stage.last(IntentMoved).to_state is SendState.NOT_PLACED


def test_numbers_go_on_where_they_ended():
    stage = _recovered()
    stage.open()

    assert stage.buy().intent_id == "L-0008"


def test_an_open_order_is_followed_and_expires_by_its_own_time():
    first = Stage()
    intent = first.working(500)
    row = first.entries_of_order()
    stored = StoredIntent(
        replace(intent, expire_after=timedelta(minutes=3)), SendState.ACKED, "ORD1", None
    )

    stage = Stage(recovery=Recovery(DAY, 2, 1, intents=(stored,), orders=(row,)))
    stage.after(1).book(report_of(intent, executed=200))

    assert stage.entries_of_order().executed_quantity == 200
    assert stage.engine.status().positions[0].shares == 200
    due = []
    while (at := stage.engine.next_due()) and at <= START + timedelta(minutes=3):
        due.append(at)
        stage.pass_time((at - stage.now).total_seconds())
    assert due[-1] == START + timedelta(minutes=3)


def test_a_strategys_own_position_and_counters_are_kept():
    book = RecoveredStrategy(
        {"HPG": (300, 7_500_000)},
        4,
        -20_000,
        30_000,
        "paused",
        refused=(SENT_AT, START),
        refused_in_a_row=3,
    )

    stage = Stage(recovery=Recovery(DAY, strategies={"test": book, "gone": book}))
    kept = stage.engine._state.strategies["test"]
    assert (kept.refusals, kept.refused_of_late.count(START)) == (2, 2)

    strategy = stage.engine.status().strategies[0]
    assert (strategy.state, strategy.orders_today, strategy.realised_today) == (
        "paused",
        4,
        -20_000,
    )
    position = stage.engine.status().positions[0]
    assert (position.shares, position.cost, position.unrealised) == (300, 7_500_000, 600_000)


@pytest.mark.parametrize(
    ("kept", "state"),
    [
        (RunState.HALTED, RunState.HALTED),
        (RunState.PAUSED, RunState.PAUSED),
        (RunState.DEGRADED, RunState.RUNNING),
        (RunState.NEEDS_2FA, RunState.RUNNING),
        (RunState.STOPPED, RunState.RUNNING),
    ],
)
def test_a_restart_ends_no_halt_and_no_pause(kept, state):
    stage = Stage(recovery=Recovery(DAY, run_state=kept, run_state_reason="look first"))

    assert stage.engine.status().state is state


def test_a_pause_of_before_the_restart_is_not_told_as_a_journal_that_cannot_be_written():
    stage = Stage(recovery=Recovery(DAY, run_state=RunState.PAUSED, run_state_reason="look first"))

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == ("BLOCKED", "PAUSED")


def test_a_burn_of_an_earlier_run_still_counts():
    stage = _recovered(SendState.SENDING)

    stage.handle(NonceBurnt(stage.now, "L-0001", Resolution.REACHED, "reused"))

    assert stage.last(IntentMoved).to_state is SendState.REACHED
    assert stage.all(Transition)[-1].to_state is OrderState.UNKNOWN


# ------------------------------------------- orders of today that the journal has never seen


def _begun(*reports, plan=PLAN, known=()):
    """A start whose first day order book shows these rows, of which the journal has some."""
    stage = Stage(plan, is_open=False, recovery=Recovery(DAY, orders=known))
    stage.book(*reports)
    stage.open()
    return stage


def _unseen(stage):
    found = [n for n in stage.all(Note) if n.numbers.get("alert") == "ORDERS_UNKNOWN_HERE"]
    return [each.numbers["orders"] for each in found]


def test_orders_that_the_journal_has_never_seen_are_told_once_with_what_they_are():
    buy, sale = report_of(_intent()), report_of(_intent(side=Side.SELL), "ORD2", executed=100)
    stage = _begun(buy, sale)

    stage.after(60).book(buy, sale, report_of(_intent(), "ORD3"))
    stage.handle(Reconciled(stage.now))

    assert _unseen(stage) == ["ORD1 BUY 100 HPG, ORD2 SELL 100 HPG"]
    assert stage.engine.status().state is RunState.RUNNING


def test_of_many_unseen_orders_three_are_named():
    stage = _begun(*(report_of(_intent(), f"ORD{n}") for n in range(1, 8)))

    [told] = _unseen(stage)
    assert told.endswith("ORD3 BUY 100 HPG, …")


def test_of_orders_that_do_not_matter_to_what_this_run_sends_nothing_is_told():
    external = Stage(is_open=False)
    external.book(report_of(_intent()))
    known = (external.entries_of_order(),)
    of_another = _intent(symbol="FPT")
    gone = OrderState.CANCELLED
    ended = report_of(_intent(), state=gone, status="CANCELLED", cancelled=100)

    assert _unseen(_begun(report_of(_intent()), known=known)) == [], "the journal has it"
    assert _unseen(_begun(report_of(_intent(), executed=50), known=known)) == []
    assert _unseen(_begun(report_of(of_another))) == []
    assert _unseen(_begun(ended)) == []
    assert _unseen(_begun(report_of(_intent()), plan=replace(PLAN, mode=StrategyMode.WATCH))) == []


def test_an_order_that_may_be_one_of_ours_is_told_as_that():
    intent = _intent(created_at=SENT_AT)
    stored = StoredIntent(intent, SendState.NOT_PLACED, None, attempt_of(intent, SENT_AT))
    stage = Stage(is_open=False, recovery=Recovery(DAY, 2, 1, intents=(stored,)))
    stage.book(report_of(intent, placed_at=SENT_AT))
    stage.open()

    assert _unseen(stage) == []
    assert "GHOST_ORDER" in [n.numbers.get("alert") for n in stage.all(Note)]


# ----------------------------------------------------------------- a strategy that does not run


def _gone(*, row=None, state=SendState.ACKED, day=DAY):
    intent = _intent(created_at=SENT_AT, strategy="gone")
    stored = StoredIntent(intent, state, row.order_id if row else None, attempt_of(intent, SENT_AT))
    rows = (replace(row, strategy="gone"),) if row else ()
    own = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(day, 2, 1, intents=(stored,), orders=rows, strategies={"gone": own})
    return Stage(recovery=recovery)


def _left(stage):
    return [each.text for each in stage.engine.status().standing if each.code == "STRATEGY_GONE"]


def test_an_open_order_of_a_strategy_that_does_not_run_is_told_until_it_ends():
    stage = _gone(row=_open_row())
    [told] = [each for each in stage.all(Note) if each.numbers.get("alert") == "STRATEGY_GONE"]

    assert told.text == (
        "gone does not run, and it has open orders: L-0001. The bot follows them to their end, but "
        "no strategy looks after them or sells what they fill (its shares now: 300 HPG). "
        "If gone was renamed, give it its name back and start again; if nobody wants an order: bot "
        "cancel ID"
    )
    assert _left(stage) == [told.text]
    assert told.numbers["held"] == "300 HPG"
    stage.after(1).book(
        report_of(Stage().buy(), state=OrderState.CANCELLED, status="CANCELLED", cancelled=100)
    )
    assert _left(stage) == []


def test_an_order_without_an_answer_of_a_strategy_that_does_not_run_is_told():
    assert "open orders: L-0001" in _left(_gone(state=SendState.REACHED))[0]


def _changed(state=SendState.ACKED, **changes):
    """A stage after a run whose files were others; its order is open, or has no answer."""
    intent = _intent(created_at=SENT_AT, **changes)
    rows = (replace(_open_row(), **changes),) if state is SendState.ACKED else ()
    stored = StoredIntent(intent, state, "ORD1" if rows else None, attempt_of(intent, SENT_AT))
    own = RecoveredStrategy({intent.symbol: (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, 2, 1, intents=(stored,), orders=rows, strategies={"test": own})
    return Stage(recovery=recovery)


@pytest.mark.parametrize("state", [SendState.ACKED, SendState.REACHED])
def test_an_open_order_in_a_symbol_that_its_strategy_trades_no_more_is_told_until_it_ends(state):
    stage = _changed(state, symbol="FPT")

    [told] = [each for each in stage.engine.status().standing if each.code == "SYMBOL_GONE"]
    assert told.text.startswith(
        "test does not trade FPT any more, and it has open orders in it: L-"
    )
    assert "(its shares now: 300)" in told.text
    assert told.text in [note.text for note in stage.all(Note)]
    row = report_of(_intent(symbol="FPT", created_at=SENT_AT), cancelled=100)
    stage.after(60).book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))
    assert "SYMBOL_GONE" not in [each.code for each in stage.engine.status().standing]


@pytest.mark.parametrize("state", [SendState.ACKED, SendState.REACHED])
@pytest.mark.parametrize("strategy", ["test", "gone"])
def test_an_open_order_on_an_account_that_this_run_does_not_read_is_told(strategy, state):
    stage = _changed(state, account="120C900001.6", strategy=strategy)

    codes = [each.code for each in stage.engine.status().standing]
    assert "OTHER_ACCOUNT" in codes
    assert "STRATEGY_GONE" not in codes, "the bot does not follow it to its end"
    [told] = [n for n in stage.all(Note) if n.numbers.get("alert") == "OTHER_ACCOUNT"]
    where = "this run trades on the account …001.1, and these orders are open on …001.6: "
    assert told.text.startswith(where)
    assert told.numbers["account"] == "001.6"


def test_what_a_strategy_that_does_not_run_holds_is_told_without_the_shares_of_another():
    none = RecoveredStrategy({"HPG": (0, 0)}, 0, 0, 0, "on")
    others = RecoveredStrategy({"SSI": (200, 4_000_000)}, 0, 0, 0, "on")
    row = replace(_open_row(), strategy="gone")
    recovery = Recovery(DAY, 2, 1, orders=(row,), strategies={"gone": none, "other": others})

    told, others_left = [one for one in Stage(recovery=recovery).all(Note) if one.kind == "ALERT"]

    assert "(its shares now: none)" in told.text
    assert told.numbers["held"] == 0
    assert others_left.numbers == {"alert": "SHARES_LEFT", "strategy": "other", "held": "200 SSI"}


def _shares_left(*, of_it=300, of_test=0, **known):
    """What a start tells of shares: `gone` holds some HPG and nothing of it is open."""
    strategies = {
        name: RecoveredStrategy({"HPG": (shares, 27_000 * shares), "FPT": (0, 0)}, 0, 0, 0, "on")
        for name, shares in (("gone", of_it), ("test", of_test))
    }
    stage = Stage(recovery=Recovery(DAY, strategies=strategies, **known), sellable=300)
    codes = {"SHARES_LEFT", "SYMBOL_LEFT"}
    return [one.text for one in stage.all(Note) if one.numbers.get("alert") in codes]


def test_shares_of_a_strategy_that_does_not_run_are_told_by_each_start():
    [told] = _shares_left()

    assert told == (
        "gone does not run, and it holds 300 HPG: no strategy looks after its shares or sells "
        "them, not even a flatten. If gone was renamed, give it its name back and start again; if "
        "nobody wants them, sell them in the broker's own app"
    )
    assert _shares_left(of_it=0) == []
    assert _shares_left(broken=frozenset({"gone"})) == [], "its broken file is told, with them"


@pytest.mark.parametrize(("base", "of_test", "told"), [(300, 0, 300), (250, 100, 150), (0, 0, 0)])
def test_of_these_only_those_are_told_that_the_account_has_beside_those_of_the_others(
    base, of_test, told
):
    """After SHARES_GONE a strategy is to get another name: the shares are in no account then."""
    held = Holding("HPG", base, base, 0, 27_000)
    agreed = AccountSnapshot(SENT_AT, ACCOUNT, 10**8, 10**8, {"HPG": held})

    texts = _shares_left(of_test=of_test, bases=(agreed,))

    assert [text.split(":")[0] for text in texts] == (
        [f"gone does not run, and it holds {told} HPG"] if told else []
    )


@pytest.mark.parametrize(("shares", "is_told"), [(300, True), (0, False)])
def test_shares_of_a_symbol_that_its_strategy_trades_no_more_are_told_and_stay_in_the_status(
    shares, is_told
):
    own = RecoveredStrategy({"HPG": (shares, 27_000 * shares)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": own})
    stage = Stage(replace(PLAN, symbols=("FPT",)), recovery=recovery, sellable=300)

    told = [each.text for each in stage.engine.status().standing if each.code == "SYMBOL_LEFT"]

    assert told == [one.text for one in stage.all(Note) if one.kind == "ALERT"]
    assert [text.split(":")[0] for text in told] == (
        ["test does not trade HPG any more, and it holds 300 of it"] if is_told else []
    )


def test_shares_that_an_order_is_open_beside_are_told_with_it_alone():
    codes = [
        [one.numbers["alert"] for one in stage.all(Note) if one.kind == "ALERT"]
        for stage in (_gone(row=_open_row()), _changed(symbol="FPT"))
    ]

    assert codes == [["STRATEGY_GONE"], ["SYMBOL_GONE"]]


def test_an_order_of_an_earlier_day_hides_no_shares():
    stage = _gone(row=_open_row(), day=DAY + timedelta(days=1))

    assert "SHARES_LEFT" in [one.numbers.get("alert") for one in stage.all(Note)]


def test_an_order_of_an_earlier_day_needs_no_strategy():
    stage = _gone(row=_open_row(), day=DAY + timedelta(days=1))

    assert _left(stage) == []
    assert not [each for each in stage.all(Note) if each.numbers.get("alert") == "STRATEGY_GONE"]


# -------------------------------------------------------------------- down over the day's end

NEXT_DAY = DAY + timedelta(days=1)


def _restarted_next_day(state=SendState.ACKED, *, row=None, order_id=None, earlier=(), **changes):
    intent = _intent(created_at=SENT_AT, **changes)
    attempt = attempt_of(intent, SENT_AT)
    stored = StoredIntent(intent, state, order_id, attempt)
    rows = (row,) if row else ()
    recovery = Recovery(NEXT_DAY, 2, 1, intents=(stored,), orders=rows)
    stage = Stage(recovery=recovery, is_open=False)
    stage.after(86_400).handle(EarlierOrdersRead(stage.now, earlier))
    stage.open()
    return stage, intent


@pytest.mark.parametrize(
    ("executed", "state"), [(500, OrderState.FILLED), (200, OrderState.CANCELLED)]
)
def test_what_traded_while_no_bot_ran_is_a_fill_like_any(executed, state):
    first = Stage()
    placed = first.working(500)
    row = first.entries_of_order()
    left = 500 - executed
    ended = report_of(placed, executed=executed, remaining=0, cancelled=left)

    stage, _ = _restarted_next_day(row=row, order_id="ORD1", earlier=(ended,))

    assert stage.entries_of_order().state is state
    assert stage.engine.status().positions[0].shares == executed
    assert "was open" not in str(stage.engine.status().halted_symbols)
    assert [fill.quantity for fill in stage.all(Fill)] == [executed]


@pytest.mark.parametrize(
    "changes", [{"quantity": 900}, {"side": Side.SELL}, {"symbol": "SSI"}, {"executed": 900}]
)
def test_a_row_of_the_history_about_another_order_is_no_fill(changes):
    first = Stage()
    placed = first.working(500)
    ended = report_of(placed, **{"executed": 500, "remaining": 0, **changes})

    row = first.entries_of_order()
    stage, _ = _restarted_next_day(row=row, order_id="ORD1", earlier=(ended,))

    assert stage.all(Fill) == []
    assert "HPG" in stage.engine.status().halted_symbols


def test_an_order_open_at_an_earlier_close_has_lapsed_and_its_symbol_waits_for_a_person():
    first = Stage()
    first.working(500)

    stage, _ = _restarted_next_day(row=first.entries_of_order(), order_id="ORD1")

    assert stage.entries_of_order().state is OrderState.EXPIRED
    assert stage.engine.status().open_orders == ()
    assert "ORD1 was open" in stage.engine.status().halted_symbols["HPG"]


def test_nothing_is_written_to_an_id_of_an_earlier_day():
    first = Stage()
    first.working(500)

    stage, intent = _restarted_next_day(row=first.entries_of_order(), order_id="ORD1")
    stage.handle(OperatorActed(stage.now, Action.HALT, "look", "operator"))
    stage.row(report_of(intent))

    assert stage.all(CancelOrder) == []


@pytest.mark.parametrize("state", [SendState.SENDING, SendState.UNKNOWN, SendState.REACHED])
def test_a_question_of_an_earlier_day_ends_at_the_start(state):
    stage, _ = _restarted_next_day(state)

    assert stage.all(IntentMoved)[-1].to_state is SendState.EOD_ABSENT
    assert stage.engine.status().unknown == ()


@pytest.mark.parametrize("state", [SendState.ACKED, SendState.SENDING, SendState.REACHED])
@pytest.mark.parametrize("price", [27_000, None])
def test_what_an_earlier_day_left_on_another_account_stays_open_in_the_journal(state, price):
    there = {"account": "120C900001.6"}
    row = replace(_open_row(), price=price, **there) if state is SendState.ACKED else None
    there |= {"limit_price": price, "order_type": OrderType.LO if price else OrderType.MTL}
    stage, intent = _restarted_next_day(state, row=row, order_id="ORD1", **there)

    ended = (OrderState.EXPIRED, SendState.EOD_ABSENT)
    assert [one for one in stage.all(OrderUpdated) if one.state in ended] == []
    assert [one for one in stage.all(IntentMoved) if one.to_state in ended] == []
    status = stage.engine.status()
    assert (status.open_orders, status.unknown, status.halted_symbols) == ((), (), {})
    [told] = [n for n in stage.all(Note) if n.numbers.get("alert") == "OTHER_ACCOUNT"]
    assert f"are open on …001.6: {intent.intent_id} of {DAY}. " in told.text
    assert [each.text for each in status.standing if each.code == "OTHER_ACCOUNT"] == [told.text]
    require_equal(stage.engine._state)


def test_what_may_be_a_lost_place_of_another_account_does_not_lapse():
    there = "120C900001.6"
    intent = _intent(created_at=SENT_AT, account=there)
    stored = StoredIntent(intent, SendState.AMBIGUOUS, None, attempt_of(intent, SENT_AT))
    of_nobody = {"intent_id": None, "strategy": None, "order_id": "ORD9"}
    row = replace(_open_row(), account=there, note=f"{MAY_BE}L-0001", **of_nobody)
    recovery = Recovery(NEXT_DAY, 2, 1, intents=(stored,), orders=(row,))

    stage = Stage(recovery=recovery, is_open=False)
    stage.after(86_400).handle(EarlierOrdersRead(stage.now, ()))
    stage.open()

    assert stage.all(OrderUpdated) == []
    assert stage.engine.status().open_orders == ()


@pytest.mark.parametrize("state", [SendState.ACKED, SendState.REACHED])
def test_what_is_open_on_another_account_stays_open_over_a_night(state):
    stage = _changed(state, account="120C900001.6")

    stage.after(86_400).handle(TradingDayStarted(stage.now, NEXT_DAY))
    stage.open()

    assert stage.all(OrderUpdated) == []
    assert [one for one in stage.all(IntentMoved) if one.to_state is SendState.EOD_ABSENT] == []
    status = stage.engine.status()
    assert (status.open_orders, status.unknown, status.halted_symbols) == ((), (), {})
    [told] = [each.text for each in status.standing if each.code == "OTHER_ACCOUNT"]
    assert f"L-0001 of {DAY}. " in told


def test_an_equal_order_of_today_is_not_one_of_an_earlier_day():
    stage, intent = _restarted_next_day(SendState.REACHED)

    stage.book(report_of(intent, "ORD7", trading_date=NEXT_DAY))

    assert stage.entries_of_order("ORD7").intent_id is None


def test_a_halted_symbol_stays_halted_over_a_restart():
    stage = Stage(recovery=Recovery(DAY, halted_symbols={"HPG": "executed fell"}))

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.all(PlaceOrder) == []
    assert stage.engine.status().halted_symbols == {"HPG": "executed fell"}


def test_a_halt_that_had_no_time_to_cancel_cancels_at_the_next_start():
    first = Stage()
    intent = first.working(500)
    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    row = first.entries_of_order()

    stage = Stage(
        recovery=Recovery(DAY, 2, 1, RunState.HALTED, "look", intents=(stored,), orders=(row,))
    )
    stage.row(report_of(intent))

    assert [one.order_id for one in stage.all(CancelOrder)] == ["ORD1"]


def _halted_before_its_first_read(
    by=BY_LIMIT, trading_date=DAY, *, cancels=None, unknown=None
) -> Stage:
    """A start in which neither the day order book nor the account can be read."""
    first = Stage()
    stored = StoredIntent(first.working(500), SendState.ACKED, "ORD1", None)
    row = replace(first.entries_of_order(), trading_date=trading_date)
    halted = {"run_state": RunState.HALTED, "run_state_reason": "look", "run_state_by": by}
    intents = (stored, *([unknown] if unknown is not None else []))
    recovery = Recovery(DAY, 2, 1, intents=intents, orders=(row,), cancels=cancels or {}, **halted)
    stage = Stage(is_open=False, recovery=recovery)
    stage.row(report_of(stored.intent))
    return stage


@pytest.mark.parametrize(
    ("by", "trading_date", "ids"),
    [
        ("operator", DAY, ["ORD1"]),
        (BY_LIMIT, DAY, ["ORD1"]),
        (BY_ENGINE, DAY, []),
        ("operator", DAY - timedelta(days=1), []),
    ],
)
def test_a_halt_cancels_todays_orders_before_anything_can_be_read(by, trading_date, ids):
    stage = _halted_before_its_first_read(by, trading_date)

    assert [one.order_id for one in stage.all(CancelOrder)] == ids
    assert [one.code for one in stage.all(Decision)] == ["CANCEL"] * len(ids)


def test_a_halt_asks_for_no_cancel_again_that_an_earlier_run_has_begun():
    stage = _halted_before_its_first_read(cancels={"L-0001": "halt: look"})

    assert stage.all(Decision) == []
    assert [one.reason for one in stage.engine.status().cancels] == ["halt: look"]


def test_a_halt_cancels_an_order_of_unknown_outcome_as_soon_as_it_turns_up():
    lost = _stored(SendState.UNKNOWN)
    lost = replace(lost, intent=replace(lost.intent, intent_id="L-0002", limit_price=26_500))

    stage = _halted_before_its_first_read(unknown=lost)
    stage.handle(NonceBurnt(stage.now, "L-0002", Resolution.REACHED, "reused"))
    stage.book(report_of(lost.intent, "ORD2"))

    assert {one.order_id for one in stage.engine.status().cancels} == {"ORD1", "ORD2"}


def test_a_late_ghost_of_an_earlier_run_still_halts_its_symbol():
    stage = _recovered(SendState.NOT_PLACED)
    stage.open()

    stage.book(report_of(_intent(), "ORD7"))

    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]


@pytest.mark.parametrize("state", [SendState.FRESH, SendState.NOT_PLACED])
def test_a_row_that_an_unused_nonce_of_an_earlier_run_rules_out_makes_nonces_distrusted(state):
    stored = replace(_stored(state), proof=NONCE_UNUSED if state is SendState.NOT_PLACED else "")
    stage = Stage(recovery=Recovery(DAY, next_intent_number=8, intents=(stored,)))
    for _ in range(3):
        stage.after(50).book()
    assert stage.engine._state.intents["L-0001"].state is SendState.NOT_PLACED

    stage.book(replace(report_of(stored.intent, "ORD7"), placed_at=SENT_AT))

    assert "NONCE_BROKEN" in {note.numbers.get("alert") for note in stage.all(Note)}


# ------------------------------------------------------------- guards of a start, on both sides


def _working_before(**changes):
    """A stage that starts with a working order of an earlier run, and that order's intent."""
    first = Stage()
    intent = first.working()
    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    row = replace(first.entries_of_order(), **changes)
    return Stage(recovery=Recovery(DAY, 2, 1, intents=(stored,), orders=(row,))), intent


def test_a_restart_with_a_working_order_of_today_halts_nothing_and_buys_again_when_it_has_ended():
    stage, intent = _working_before()

    assert stage.engine.status().halted_symbols == {}
    assert [one.order_id for one in stage.engine.status().open_orders] == ["ORD1"]
    stage.after(1).book(report_of(intent, executed=100))

    assert stage.buy(200).intent_id == "L-0002"


def test_a_working_order_of_somebody_else_of_an_earlier_day_halts_nothing():
    stage, _ = _working_before(intent_id=None, strategy=None, trading_date=DAY - timedelta(days=1))

    assert stage.engine.status().halted_symbols == {}
    assert stage.entries_of_order().state is OrderState.EXPIRED


@pytest.mark.parametrize(
    ("changes", "is_polled"),
    [
        ({}, True),
        ({"intent_id": None, "strategy": None}, False),
        ({"state": OrderState.CANCELLED}, False),
    ],
    ids=["own and open", "somebody else's", "ended"],
)
def test_only_an_own_open_order_is_polled_from_the_start_on(changes, is_polled):
    stage, _ = _working_before(**changes)
    stage.book()

    stage.pass_time(60)

    polls = [one.why for one in stage.new(ReadTodaysOrders)]
    assert polls == (["poll L-0001"] if is_polled else [])


@pytest.mark.parametrize("state", [SendState.FRESH, SendState.REACHED])
def test_a_question_that_an_earlier_run_had_begun_is_asked_on(state):
    stage = _recovered(state)
    stage.open()
    stage.book()

    stage.pass_time(60)

    assert [one.why for one in stage.new(ReadTodaysOrders)] == ["poll L-0001"]


@pytest.mark.parametrize(
    ("state", "code"), [(SendState.FRESH, "NEVER_ARRIVED"), (SendState.REACHED, "ORDER_REACHED")]
)
def test_what_an_earlier_run_had_no_time_to_tell_is_told_ten_seconds_after_the_start(state, code):
    stage = _recovered(state)
    stage.open()
    stage.book()

    stage.pass_time(8)
    assert code not in {note.numbers.get("alert") for note in stage.all(Note)}
    stage.pass_time(3)

    assert code in {note.numbers.get("alert") for note in stage.all(Note)}


# ------------------------------------------------------------------------------ cancels under way


def _open_order(state=OrderState.ACCEPTED, **changes):
    earlier = Stage()
    intent = earlier.working()
    row = replace(earlier.entries_of_order(), state=state, **changes)
    return row, StoredIntent(intent, SendState.ACKED, "ORD1", None)


def test_a_cancel_that_was_asked_for_before_a_restart_goes_on_at_once():
    row, stored = _open_order()

    stage = Stage(
        recovery=Recovery(DAY, intents=(stored,), orders=(row,), cancels={"L-0001": "by hand"}),
        is_open=False,
    )

    assert stage.new(ReadOrderToCancel) == [ReadOrderToCancel("ORD1", "before cancel: by hand")]
    stage.row(None)
    assert [one.reason for one in stage.new(CancelOrder)] == ["by hand"]
    assert stage.all(Decision) == []
    text = "ORD1 was to be cancelled before the restart, and still is: by hand"
    assert [note.text for note in stage.all(Note)] == [text]


@pytest.mark.parametrize(
    "changes", [{"state": OrderState.FILLED}, {"trading_date": DAY - timedelta(days=1)}]
)
def test_what_has_ended_meanwhile_is_not_cancelled_after_a_restart(changes):
    row, stored = _open_order(**changes)

    stage = Stage(
        recovery=Recovery(DAY, intents=(stored,), orders=(row,), cancels={"L-0001": "by hand"})
    )
    stage.pass_time(60)

    assert stage.all(ReadOrderToCancel) == stage.all(CancelOrder) == []
    assert [one for one in stage.all(Note) if "was to be cancelled" in one.text] == []


def test_nothing_is_written_to_an_order_of_an_earlier_day_that_is_not_settled_yet():
    row, stored = _open_order(trading_date=DAY - timedelta(days=1))
    stage = Stage(recovery=Recovery(DAY, intents=(stored,), orders=(row,)), is_open=False)
    assert [one.order_id for one in stage.engine.status().open_orders] == ["ORD1"]

    stage.handle(OperatorActed(stage.now, Action.HALT, "why", "me"))
    stage.pass_time(60)

    assert stage.all(ReadOrderToCancel) == stage.all(CancelOrder) == []


def test_a_lost_order_that_was_to_be_cancelled_is_when_it_turns_up_after_a_restart():
    stored = _stored(SendState.REACHED)
    stage = Stage(recovery=Recovery(DAY, intents=(stored,), cancels={"L-0001": "pause"}))

    stage.after(1).book(report_of(stored.intent, "ORD7"))
    stage.row(report_of(stored.intent, "ORD7"), "ORD7")

    assert [(one.order_id, one.reason) for one in stage.all(CancelOrder)] == [("ORD7", "pause")]


def test_an_order_that_was_to_be_cancelled_before_it_left_does_not_leave_after_a_kill():
    stored = _stored(SendState.READY)
    stage = Stage(recovery=Recovery(DAY, intents=(stored,), cancels={"L-0001": "too dear"}))

    stage.after(1).book()

    assert stage.last(IntentMoved).to_state is SendState.EXPIRED_LOCAL
    assert stage.all(PlaceOrder) == stage.all(CancelOrder) == []
    assert not stage.engine._state.pending_intents()


def test_what_fills_for_a_strategy_that_is_not_loaded_counts_on_what_it_holds():
    other = {"strategy": "other", "limit_price": 27_500, "intent_id": "L-0001"}
    intent = replace(sell_intent(_intent(**other)), quantity=200)
    row = replace(_open_row(), side=Side.SELL, strategy="other", quantity=200)
    before = RecoveredStrategy({"HPG": (300, 3 * 2_600_001)}, 0, 0, 0, "on")
    intents = (StoredIntent(intent, SendState.ACKED, "ORD1", None),)
    held = {"other": before}
    stage = Stage(recovery=Recovery(DAY, 2, 5, intents=intents, orders=(row,), strategies=held))

    for executed in (100, 200):
        stage.after(1).book(report_of(intent, executed=executed))

    first, second = stage.all(Fill)
    assert (first.position, first.realised) == (200, first.amount - 2_600_001)
    assert (second.position, second.realised) == (100, second.amount - 2_600_001)


def test_what_fills_in_a_symbol_that_a_strategy_trades_no_more_counts_too():
    intent = _intent(symbol="FPT", intent_id="L-0001")
    row = replace(_open_row(), symbol="FPT")
    intents = (StoredIntent(intent, SendState.ACKED, "ORD1", None),)
    stage = Stage(recovery=Recovery(DAY, 2, 5, intents=intents, orders=(row,)))

    stage.after(1).book(report_of(intent, executed=100))

    assert (stage.last(Fill).position, stage.last(Fill).realised) == (100, 0)
    strategy = stage.engine._state.strategies["test"]
    assert strategy.positions["FPT"] == Position(100, stage.last(Fill).amount)
    assert strategy.fees_today == stage.last(Fill).fee > 0


# ----------------------------------------------------------------------------------- changed limits

_SHARED = AccountLimits(
    max_order_value=20_000_000, last_entry=timedelta(seconds=60), symbols=frozenset({"HPG", "FPT"})
)
_OF_EARLIER_PROGRAMS = {
    "account.max_order_value": 20_000_000,
    "account.last_entry": 60,
    "account.symbols": "FPT HPG",
    "test.capital": 50_000_000,
}
_OF_SETTINGS = {
    "clock.max_offset_s": 20,
    "risk.duplicate_window_s": 60,
    "risk.exit_on_held_data": False,
    "risk.max_quote_age_s": 10,
    "risk.max_source_age_s.depth": 60,
    "risk.max_source_age_s.quote": 900,
    "risk.max_unknown": 1,
    "risk.signal_ttl_s": 5,
}
_OF_A_RUN = {**_OF_EARLIER_PROGRAMS, **_OF_SETTINGS}


def _started(by="an", before=None, shared=_SHARED, capital=50_000_000, **settings):
    return Stage(
        replace(PLAN, limits=Limits(capital=capital)),
        settings=EngineSettings(account_limits=shared, **settings),
        recovery=Recovery(DAY, limits=before or {}, started_by=by),
        is_open=False,
    )


def told(stage):
    return [one.text for one in stage.all(Note) if one.kind == "ALERT"]


def _kept_limits(stage):
    return [one.numbers for one in stage.all(Note) if one.kind == LIMITS_NOTE]


def test_the_first_run_keeps_its_limits_and_tells_nothing():
    stage = _started()

    assert (_kept_limits(stage), told(stage)) == ([_OF_A_RUN], [])


def test_a_run_with_the_same_limits_writes_nothing():
    stage = _started(before=_OF_A_RUN)

    assert (_kept_limits(stage), told(stage)) == ([], [])


def test_a_changed_limit_is_told_with_both_values_and_by_whom():
    shared = replace(_SHARED, max_order_value=50_000_000, last_entry=None, max_orders_per_day=60)

    stage = _started(before=_OF_A_RUN, shared=shared, capital=20_000_000)

    [text] = told(stage)
    assert text.startswith(
        "limits have changed since the last run: account.last_entry 60 -> none, "
        "account.max_order_value 20,000,000 -> 50,000,000, account.max_orders_per_day none -> 60, "
        "test.capital 50,000,000 -> 20,000,000. They hold from now on; an started this run."
    )
    assert _kept_limits(stage)[0]["account.max_order_value"] == 50_000_000


def test_a_setting_that_decides_how_much_is_sent_is_told_by_its_key():
    before = {**_OF_A_RUN, "risk.pause_on_cash_difference_vnd": 100_000}

    stage = _started(before=before, max_quote_age=timedelta(seconds=3_600), exit_on_held_data=True)

    [text] = told(stage)
    assert text.startswith(
        "limits have changed since the last run: risk.exit_on_held_data false -> true, "
        "risk.max_quote_age_s 10 -> 3,600, risk.pause_on_cash_difference_vnd 100,000 -> none. They"
    )


def test_settings_that_an_earlier_program_did_not_keep_have_not_changed():
    stage = _started(before=_OF_EARLIER_PROGRAMS)

    assert (_kept_limits(stage), told(stage)) == ([_OF_A_RUN], [])


def test_a_strategy_that_does_not_run_keeps_the_limits_of_its_last_run():
    before = {**_OF_A_RUN, "other.capital": 10_000_000, "account.min_cash": 1}

    stage = _started(before=before)

    [kept] = _kept_limits(stage)
    assert kept == {**_OF_A_RUN, "other.capital": 10_000_000}
    [text] = told(stage)
    assert "last run: account.min_cash 1 -> none. They" in text


def test_who_only_looks_writes_nothing():
    assert _kept_limits(_started(by="")) == []


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, " and 1 more")])
def test_eight_changed_limits_are_told_in_full(count, more):
    before = dict.fromkeys((f"test.old_{each}" for each in range(count)), 1)

    stage = _started(before={**_OF_A_RUN, **before})

    [text] = told(stage)
    assert text.split(": ")[1].count("->") == min(count, 8)
    assert f"-> none{more}. They hold from now on" in text


# ------------------------------------------------------------------------------- what a start knows


def test_a_start_reads_the_day_order_book_and_the_account():
    stage = Stage(is_open=False)

    assert {ReadTodaysOrders("start"), ReadAccount("start")} <= set(stage.done)


def test_what_was_not_sent_before_the_restart_has_ended():
    stage = _recovered(SendState.READY)

    move = stage.last(Transition)
    assert (move.to_state, move.note) == (OrderState.EXPIRED, "restart")


def test_orders_of_before_the_restart_are_known_before_the_next_one_is_sent():
    stage, _ = _working_before(state=OrderState.CANCELLED)
    later = stage.buy(200)

    stage.send(later)

    assert "ORD1" in stage.engine._state.intents[later.intent_id].known_ids


def test_a_refusal_of_the_very_instant_of_the_last_switch_is_not_counted_again():
    book = RecoveredStrategy(
        {}, 0, 0, 0, "on", state_since=SENT_AT, refused=(SENT_AT, START), refused_in_a_row=3
    )

    stage = Stage(recovery=Recovery(DAY, strategies={"test": book}))

    kept = stage.engine._state.strategies["test"]
    assert (kept.refusals, kept.refused_of_late.count(START)) == (1, 1)


def test_what_was_bought_and_sold_today_leaves_a_day_that_began_with_nothing():
    first = Stage(sellable=200)
    bought = first.working(100)
    first.after(1).book(report_of(bought, executed=100))
    [fill] = first.all(Fill)
    sold = replace(fill, fill_id="F-0002", side=Side.SELL)

    stage = Stage(recovery=Recovery(DAY, recent_fills=((DAY, fill), (DAY, sold))))

    assert stage.engine._state.strategies["test"].days["HPG"].begun == 0


def test_an_order_that_had_ended_before_the_restart_is_not_one_that_works_on_under_a_new_id():
    stage, intent = _working_before(state=OrderState.CANCELLED, cancelled_quantity=100)

    stage.after(1).book(report_of(intent))

    assert [n.numbers["alert"] for n in stage.all(Note) if n.kind == "ALERT"] == ["STALE_ROW"]


@pytest.mark.parametrize("state", ["disabled", "on"])
def test_a_start_names_a_strategy_that_an_earlier_run_has_left_off(state):
    off = RecoveredStrategy({}, 0, 0, 0, state, "3 faults", "engine", START)
    stage = Stage(recovery=Recovery(DAY, strategies={"test": off}))

    told = (
        "test is disabled since 2026-11-19 09:30:00: 3 faults. "
        "To let it trade: bot strategy enable test"
    )
    notes = [each.text for each in stage.all(Note) if each.kind == OFF_NOTE]
    assert notes == ([told] if state == "disabled" else [])


def test_a_start_asks_nobody_to_lift_the_loss_limit_of_a_strategy():
    why = f"{ONLY_SELLS} (day loss 1,000,000 VND of 1,000,000)"
    off = RecoveredStrategy({}, 0, 0, 0, PAUSED, why, BY_LIMIT, START)
    stage = Stage(recovery=Recovery(DAY, strategies={"test": off}))

    [told] = [each.text for each in stage.all(Note) if each.kind == OFF_NOTE]

    assert told.startswith(f"test is paused since 2026-11-19 09:30:00: {why}")
    assert told.endswith("). It trades again with the next day")


def _found_though_its_nonce_was_unused(stage, intent):
    stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.FRESH, "unused"))


def _shown_as_another_order(stage, intent):
    stage.after(1).book(report_of(intent, "O1", side=Side.SELL))


def _found_before(stage, intent):
    """What a start finds of a run that had found its lost place by its looks."""
    return Recovery(
        DAY,
        next_intent_number=2,
        intents=(StoredIntent(intent, SendState.MATCHED, "O1", attempt_of(intent, START)),),
        orders=(stage.entries_of_order("O1"),),
        halted_symbols=dict(stage.engine._state.halted_symbols),
    )


@pytest.mark.parametrize(
    "doubt", [_found_though_its_nonce_was_unused, _shown_as_another_order], ids=["nonce", "row"]
)
def test_what_may_be_somebody_elses_stays_so_after_a_restart_whatever_had_halted_its_symbol(doubt):
    first = Stage()
    intent = first.buy()
    first.send(intent)
    first.after(1).answer(intent, Unknown("deadline"))
    first.engine._state.halt_symbol("HPG", "O9 looks like L-0000, which was REFUSED")
    first.after(1).book(report_of(intent, "O1"))
    doubt(first, intent)
    told = [note.text for note in first.all(Note) if note.kind == "ALERT"]
    first.after(1).book(report_of(intent, "O1"))

    stage = Stage(recovery=_found_before(first, intent))
    stage.after(1).book(report_of(intent, "O1"))
    stage.request(lambda s: s.cancel(why="changed my mind"))

    assert any("either its time limit nor its strategy cancels it now" in text for text in told)
    assert stage.decided() == ("SKIPPED", "IN_DOUBT")
    assert first.entries_of_order("O1").note == "may be somebody else's"


def _wished(*, knowing, again=False):
    """An order found by its looks whose cancel waits for a token. Its nonce shows before that, or
    meanwhile, that it may be somebody else's.
    """
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    stage.after(1).book(report_of(intent, "O1"))
    stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_EXPIRED", "ended", True))
    if knowing:
        _found_though_its_nonce_was_unused(stage, intent)
    stage.after(1).handle(CancelAsked(stage.now, "O1", "operator", "by hand"))
    if not knowing:
        _found_though_its_nonce_was_unused(stage, intent)
    if again:
        stage.after(1).handle(CancelAsked(stage.now, "O1", "operator", "all the same"))
    return stage, intent


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("knowing", "again", "is_halted", "is_sent"),
    [
        (False, False, False, False),
        (True, False, False, True),
        (False, True, False, True),
        (False, False, True, True),
    ],
    ids=["before", "knowing", "again", "halt"],
)
def test_a_wish_of_before_a_doubt_cancels_nothing_that_may_be_somebody_elses_after_a_restart(
    knowing, again, is_halted, is_sent, is_restarted
):
    stage, intent = _wished(knowing=knowing, again=again)
    if is_halted:
        stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "me"))
    wishes = [one for one in stage.all(Decision) if one.code == "CANCEL"]
    before, now = stage, stage.now
    if is_restarted:
        knew = any(one.numbers.get(IN_DOUBT) for one in wishes)
        recovery = Recovery(
            DAY,
            next_intent_number=2,
            intents=(StoredIntent(intent, SendState.MATCHED, "O1", attempt_of(intent, START)),),
            orders=(before.entries_of_order("O1"),),
            halted_symbols=dict(before.engine._state.halted_symbols),
            run_state=RunState.HALTED if is_halted else RunState.RUNNING,
            cancels={"L-0001": "by hand"},
            knowing_cancels=frozenset({"L-0001"} if knew else ()),
        )
        stage = Stage(recovery=recovery)
    stage.now = now
    stage.after(1).book(report_of(intent, "O1"))
    stage.token()
    stage.pass_time(5)

    assert [one.order_id for one in stage.all(CancelOrder)] == ["O1"] * is_sent
    if not is_sent:
        assert stage.decided() == ("SKIPPED", "IN_DOUBT")
        assert not [note for note in stage.all(Note) if "still is" in note.text]


@pytest.mark.parametrize("knowing", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_one_that_works_again_and_may_be_somebody_elses_is_cancelled_if_that_was_known_before(
    is_restarted, knowing
):
    stage, intent = _wished(knowing=knowing)
    row = report_of(intent, "O1", cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
    stage.after(1).book(row)
    if is_restarted:
        stored = StoredIntent(intent, SendState.MATCHED, "O1", attempt_of(intent, START))
        recovery = Recovery(
            DAY,
            next_intent_number=2,
            intents=(stored,),
            orders=(stage.entries_of_order("O1"),),
            halted_symbols=dict(stage.engine._state.halted_symbols),
            cancels={"L-0001": "by hand"},
            knowing_cancels=frozenset({"L-0001"} if knowing else ()),
        )
        before, stage = stage, Stage(recovery=recovery)
        stage.now = before.now

    stage.after(1).book(report_of(intent, "O1", executed=50))
    if not is_restarted:
        stage.token()
    stage.pass_time(5)

    assert [one.order_id for one in stage.all(CancelOrder)] == ["O1"] * knowing


HELD = RecoveredStrategy({"HPG": (500, 13_500_000)}, 0, 0, 0, "on")
EXPIRING = replace(PLAN, order=OrderPlan(expire_after=timedelta(minutes=1)))


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize(
    ("wrong", "is_sent"),
    [
        ({"executed": 50, "executed_amount": 1}, True),
        ({"symbol": "SSI"}, False),
        ({"side": Side.SELL}, False),
        ({"account": "120C999999.1"}, False),
    ],
    ids=["amount", "symbol", "side", "account"],
)
def test_only_a_row_of_another_order_lets_its_time_not_cancel_what_was_found_by_its_looks(
    wrong, is_sent, has_ended, is_restarted
):
    stage = Stage(EXPIRING)
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    stage.after(1).book(report_of(intent, "O1"))
    stage.after(1).book(report_of(intent, "O1", **wrong))
    if has_ended:
        row = report_of(intent, "O1", cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
        stage.after(1).book(row)
    assert stage.engine.status().halted_symbols["HPG"].startswith("O1: ")
    if is_restarted:
        before, stage = stage, Stage(EXPIRING, recovery=_found_before(stage, intent))
        stage.now = before.now

    stage.after(1).book(report_of(intent, "O1", executed=50))
    stage.pass_time(60)

    asked = [one.order_id for one in stage.all(ReadOrderToCancel)]
    assert asked[:1] == ["O1"] * is_sent


@pytest.mark.parametrize(
    "doubt", [_found_though_its_nonce_was_unused, _shown_as_another_order], ids=["nonce", "row"]
)
@pytest.mark.parametrize("is_doubted_before", [False, True])
def test_one_that_works_again_may_still_be_somebody_elses_after_a_restart(is_doubted_before, doubt):
    stage = Stage(sellable=500, recovery=Recovery(DAY, strategies={"test": HELD}), guard=caught)
    stage.quote()
    intent = stage.buy(100, 27_000)
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))
    stage.after(1).book(report_of(intent, "O1"))
    row = report_of(intent, "O1", cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
    stage.after(1).book(row)
    stage.quote(26_950)
    stage.request(lambda s: s.sell(500, limit=26_950, why="stop loss"))
    stage.accept(stage.last(PlaceOrder).intent, order_id="O2")
    stage.engine._state.halt_symbol("HPG", "O9 looks like L-0000, which was REFUSED")
    if is_doubted_before:
        doubt(stage, intent)
    stage.after(1).book(report_of(intent, "O1", executed=50))
    if not is_doubted_before:
        doubt(stage, intent)
    again = Stage(
        recovery=Recovery(
            DAY,
            next_intent_number=3,
            intents=(StoredIntent(intent, SendState.MATCHED, "O1", attempt_of(intent, START)),),
            orders=(stage.entries_of_order("O1"), stage.entries_of_order("O2")),
            halted_symbols=dict(stage.engine._state.halted_symbols),
        ),
        guard=caught,
    )
    again.now = stage.now

    for each in (stage, again):
        for _ in range(2 * WHOLE_EVERY.seconds):
            each.pass_time(1)
        each.request(lambda s: s.cancel(why="changed my mind"))
        assert not each.engine._state.gate.causes
        assert ("IN_DOUBT", "O1") in [(one.code, one.why[:2]) for one in each.all(Decision)]
    stage.handle(OperatorActed(stage.now, Action.RESUME, "it is ours", "me", symbol="HPG"))

    assert stage.entries_of_order("O1").note == REOPENED_NOTE


@pytest.mark.parametrize(
    ("kept", "code"),
    [
        ({"halted_scopes": {f"{ACCOUNT_SCOPE}{ACCOUNT}": "API changed?"}}, "ORDERS_HALTED"),
        ({"halted_scopes": {NONCES: "as found yesterday"}}, "NONCES_NOT_TRUSTED"),
        ({"halted_scopes": {REDUCED_SCOPE: "earnings"}}, "ENTRIES_PAUSED"),
    ],
)
def test_what_a_person_has_yet_to_end_is_told_again_at_each_start(kept, code):
    stage = _recovered(**kept)

    [told] = [each for each in stage.all(Note) if each.kind == "ALERT"]
    [standing] = stage.engine.status().standing
    assert told.numbers["alert"] == standing.code == code
    assert told.text == standing.text


def test_a_symbol_that_a_person_has_yet_to_resume_is_told_again_at_each_start():
    stage = _recovered(halted_symbols={"HPG": "executed more than ordered"})

    [told] = [each for each in stage.all(Note) if each.kind == "ALERT"]
    assert (told.numbers["alert"], told.symbol) == ("SYMBOL_HALTED", "HPG")
    assert told.text.startswith("HPG halted: executed more than ordered. No new order goes out")
    assert [each for each in stage.all(StateChanged) if each.scope == "symbol:HPG"] == []


@pytest.mark.parametrize(
    ("kept", "damage", "told"),
    [
        (("B-0003",), (), ["START_HELD"]),
        ((DAMAGE,), (), ["START_HELD"]),
        ((DAMAGE,), ("a row was changed",), ["JOURNAL_DAMAGED"]),
        ((DAMAGE, "B-0003"), ("a row was changed",), ["JOURNAL_DAMAGED", "START_HELD"]),
        ((), (), []),
    ],
)
def test_a_break_that_holds_a_start_is_told_again(kept, damage, told):
    """Not by the alert of a break, from which the journal learns what it has corrected."""
    found = tuple(Break(name, "cash: expected 5, found 6") for name in kept)

    stage = _recovered(breaks=found, damage=damage)

    assert [n.numbers["alert"] for n in stage.all(Note) if n.kind == "ALERT"] == told


def test_of_several_breaks_that_hold_a_start_the_first_is_named_with_their_number():
    found = tuple(Break(f"B-000{n}", "cash: expected 5, found 6") for n in (3, 4))

    stage = _recovered(breaks=found)

    [told] = [each.text for each in stage.all(Note) if each.kind == "ALERT"]
    assert told.startswith("nobody has accepted B-0003 cash: expected 5, found 6 and 1 more yet,")
    assert told.endswith('bot reconcile --accept B-0003 --reason "…"')


@pytest.mark.parametrize("run_state", [RunState.HALTED, RunState.PAUSED])
def test_a_start_that_goes_on_halted_or_paused_says_so(run_state):
    kept = Recovery(DAY, run_state=run_state, run_state_reason="lunch", run_state_by="operator")

    stage = Stage(recovery=kept)

    [told] = [each for each in stage.all(StateChanged) if each.scope == "all"]
    assert (told.from_state, told.to_state) == (RunState.STARTING, run_state)
    assert told.reason == "lunch"
