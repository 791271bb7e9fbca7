"""Journal and broker agree to the share and the VND, or a person accepts where they do not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

import pytest

from bot.domain.account import AccountSnapshot, Break, Holding, ShareholderRight, moved_in
from bot.domain.entry import Note, OrderUpdated, RunState, StateChanged, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import (
    AccountRead,
    CancelOrder,
    PlaceOrder,
    ReadAccount,
    ReadOrderToCancel,
    ReadTodaysOrders,
    Reconciled,
    Record,
    TradingDayStarted,
)
from bot.domain.operations import (
    Action,
    BreakAccepted,
    CancelAsked,
    OperatorActed,
    ReconcileAsked,
    TradingDayEnded,
)
from bot.domain.order import OrderReport, OrderState, SendState, Side
from bot.domain.outcome import Refused
from bot.domain.plan import AccountLimits, StrategyPlan
from bot.domain.recovery import UNCHECKED, RecoveredStrategy, Recovery, StoredIntent
from bot.engine.risk import breaks
from bot.engine.settings import EngineSettings
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    PLAN,
    RULEBOOK,
    START,
    Stage,
    limited,
    report_of,
    result_of,
)

NEXT_DAY = date(2026, 11, 20)
CLOSED = datetime.fromisoformat("2026-11-19T15:15+07:00")
CASH = 100_000_000
YESTERDAYS = AccountSnapshot(CLOSED - timedelta(days=1), ACCOUNT, CASH, CASH, {})


@dataclass
class Broker:
    """The broker's numbers, as a stage reads them."""

    stage: Stage
    cash: int = CASH
    shares: int = 0

    def read(self, *, times: int = 1, seconds: float = 60) -> "Broker":
        for _ in range(times):
            now = self.stage.after(seconds).now
            self.stage.book()
            held = {"HPG": Holding("HPG", self.shares, self.shares, 0, 27_000)}
            holdings = held if self.shares else {}
            snapshot = AccountSnapshot(now, ACCOUNT, self.cash, self.cash, holdings)
            self.stage.handle(AccountRead(now, snapshot))
        return self


def _breaks(stage: Stage) -> Mapping[str, str]:
    return {each.break_id: each.text for each in stage.engine.reconciliation().breaks}


def _next_morning(stage: Stage) -> None:
    stage.after(86_400).handle(TradingDayStarted(stage.now, NEXT_DAY))


def _state(stage: Stage) -> RunState:
    return stage.engine.status().state


def _accept(stage: Stage, name: str, reason: str = "a fee of the broker's") -> None:
    stage.handle(BreakAccepted(stage.now, name, reason, "me"))


# ------------------------------------------------------------------------------- what is certain


@pytest.mark.parametrize("off", [1, -1])
def test_one_vnd_is_a_break(off: int) -> None:
    stage = Stage()
    broker = Broker(stage)

    broker.cash += off
    broker.read(times=2)

    text = f"cash: expected {CASH:,}, found {CASH + off:,}: {off:+,} VND that no order explains"
    assert _breaks(stage) == {"B-0001": text}
    [kept] = [each for each in stage.all(StateChanged) if each.scope == "break:B-0001"]
    assert (kept.to_state, kept.reason) == (RunState.HALTED, text)
    [alert] = [n for n in stage.all(Note) if n.numbers.get("alert") == "BREAK"]
    assert (alert.numbers["ours"], alert.numbers["theirs"]) == (CASH, CASH + off)
    assert "bot reconcile --accept B-0001" in stage.engine.status().alerts[0]


def test_an_account_that_is_empty_once_is_not_flat() -> None:
    stage = Stage(sellable=1_000)
    broker = Broker(stage, cash=0, shares=0)

    broker.read()
    assert stage.engine._state.accounts[ACCOUNT].holdings["HPG"].total == 1_000
    broker.cash, broker.shares = CASH, 1_000
    broker.read(times=2)

    assert _breaks(stage) == {}
    assert stage.engine.status().halted_symbols == {}


def test_reads_that_differ_from_one_another_are_certain_of_nothing() -> None:
    stage = Stage()
    broker = Broker(stage)

    for off in (5, 7, 5, 7):
        broker.cash = CASH - off
        broker.read()

    assert _breaks(stage) == {}


def test_two_reads_within_five_seconds_may_be_the_same_old_answer() -> None:
    stage = Stage()
    broker = Broker(stage, cash=CASH - 5)

    broker.read(times=3, seconds=2)

    assert _breaks(stage) == {}


def test_a_difference_is_looked_at_again_without_waiting_for_the_next_round() -> None:
    stage = Stage()
    Broker(stage, cash=CASH - 5).read()

    asked = stage.pass_time(5)

    assert {type(one) for one in asked} >= {ReadTodaysOrders, ReadAccount}
    assert stage.due() <= stage.now + timedelta(seconds=15)


def test_without_a_newer_day_order_book_a_difference_is_not_certain() -> None:
    stage = Stage()
    stage.book()
    for _ in range(3):
        now = stage.after(60).now
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, CASH - 5, CASH, {})))

    assert _breaks(stage) == {}


# -------------------------------------------------------------------------------- what is explained


def test_an_order_made_elsewhere_explains_its_shares_and_its_money() -> None:
    stage = Stage()
    broker = Broker(stage)
    row = report_of(Stage().buy(200, 26_900), "APP1", executed=200, state=OrderState.FILLED)
    cost = 200 * 26_900
    broker.cash, broker.shares = CASH - cost - RULEBOOK.fee(cost), 200

    for _ in range(3):
        now = stage.after(6).now
        stage.book(row)
        held = {"HPG": Holding("HPG", 200, 0, 200, 26_900)}
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, broker.cash, 0, held)))

    assert _breaks(stage) == {}
    [elsewhere] = stage.engine.reconciliation().external
    assert (elsewhere.order_id, elsewhere.intent_id) == ("APP1", None)
    assert stage.engine.status().positions == ()


@pytest.mark.parametrize(("lag_s", "is_break"), [(50, False), (70, True)])
def test_a_day_order_book_may_lag_a_minute_behind_a_trade_by_hand(
    lag_s: int, is_break: bool
) -> None:
    stage = Stage()
    broker = Broker(stage).read()
    row = report_of(Stage().buy(200, 26_900), "APP1", executed=200, state=OrderState.FILLED)
    broker.cash, broker.shares, traded_at = CASH - _cost(200), 200, stage.now

    while (waited := stage.now - traded_at) < timedelta(seconds=120):
        now = stage.after(5).now
        stage.book(*[row] if waited > timedelta(seconds=lag_s) else [])
        held = {"HPG": Holding("HPG", 200, 0, 200, 26_900)}
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, broker.cash, 0, held)))

    assert bool(_breaks(stage)) is is_break


@pytest.mark.parametrize(("executed", "is_one"), [(200, True), (300, False)])
def test_an_order_whose_row_comes_after_the_break_that_it_made_is_counted_once(
    executed: int, *, is_one: bool
) -> None:
    stage = Stage()
    broker = Broker(stage).read()
    row = report_of(Stage().buy(300, 26_900), "APP1", executed=executed)
    broker.cash, broker.shares, traded_at = CASH - _cost(200), 200, stage.now

    while (waited := stage.now - traded_at) < timedelta(seconds=300):
        now = stage.after(5).now
        stage.book(*[row] if waited > timedelta(seconds=120) else [])
        held = {"HPG": Holding("HPG", 200, 0, 200, 26_900)}
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, broker.cash, 0, held)))

    found = [text for text in _breaks(stage).values() if text.startswith("HPG")]
    assert found[0] == "HPG in all: expected 0, found 200: +200 shares that no order explains"
    assert (len(found) == 1) is is_one
    once = "APP1 came later than B-0002, which is its +200 HPG: they count once"
    assert [note.text for note in stage.all(Note) if "count once" in note.text] == [once] * is_one

    broker.shares -= 200  # and what is missing later is missing
    broker.read(times=3)
    assert any("found 0: -200" in text for text in _breaks(stage).values())


def test_an_order_that_was_known_before_a_break_explains_nothing_of_what_comes_back() -> None:
    stage = Stage()
    broker = Broker(stage).read()
    row = report_of(Stage().buy(200, 26_900), "APP1", executed=200)
    stage.book(row)
    broker.cash, broker.shares = CASH - _cost(200), 200
    _read_with(broker, row)
    broker.shares = 400  # 200 that nobody ordered
    for _ in range(3):
        _read_with(broker, row)
    broker.shares = 200  # which go again
    for _ in range(3):
        _read_with(broker, row)

    texts = [text for text in _breaks(stage).values() if text.startswith("HPG")]
    assert texts == [
        "HPG in all: expected 200, found 400: +200 shares that no order explains",
        "HPG in all: expected 400, found 200: -200 shares that no order explains",
    ]


@pytest.mark.parametrize("is_known", [True, False])
def test_after_a_restart_an_order_made_elsewhere_counts_only_since_the_base(
    is_known: bool,
) -> None:
    """200 of 500 were in the numbers that agreed, 300 more came after them."""
    first = Stage()
    broker = Broker(first)
    row = report_of(Stage().buy(500, 26_900), "APP1", executed=200)
    first.book(row)
    broker.cash, broker.shares = CASH - _cost(200), 200
    _read_with(broker, row)
    [*_, kept] = [each for each in first.all(StateChanged) if each.scope == f"base:{ACCOUNT}"]
    base = first.engine._state.ledgers[ACCOUNT].base
    assert (base.at, moved_in(kept.reason)) == (kept.at, {"APP1": (200, 200 * 26_900)})
    whole = replace(row, executed_quantity=500, remaining_quantity=0, executed_amount=500 * 26_900)
    first.after(6).book(whole)
    [*_, newest] = [each for each in first.all(OrderUpdated) if each.order_id == "APP1"]

    in_bases = moved_in(kept.reason) if is_known else {}
    recovery = Recovery(DAY, bases=(base,), orders=(newest,), in_bases=in_bases)
    stage = Stage(recovery=recovery, is_open=False)
    stage.now = first.now
    broker.stage, broker.cash, broker.shares = stage, CASH - _cost(500), 500
    for _ in range(2):
        _read_with(broker, whole)

    assert (_breaks(stage) == {}) is is_known


def test_what_was_traded_elsewhere_is_in_the_figures_of_the_night_before_its_row_ends() -> None:
    """Such a row ends with the next day's beginning, later than these figures are of."""
    first = Stage(is_open=False)
    row = report_of(
        Stage().buy(500, 26_900), "APP1", executed=200, state=OrderState.PARTIALLY_FILLED
    )
    first.after(60).book(row)
    [partial] = first.all(OrderUpdated)
    held = {"HPG": Holding("HPG", 200, 0, 200, 26_900)}
    night = datetime.combine(NEXT_DAY, time(0, 15), EXCHANGE_TZ)
    base = AccountSnapshot(night, ACCOUNT, CASH - _cost(200), 0, held)
    ended = replace(partial, at=night + timedelta(hours=8), state=OrderState.EXPIRED)

    recovery = Recovery(NEXT_DAY, bases=(base,), traded_elsewhere=(ended,))
    stage = Stage(recovery=recovery, is_open=False)
    stage.now = night + timedelta(hours=9)
    for _ in range(3):
        stage.after(60)
        stage.book()
        stage.handle(AccountRead(stage.now, replace(base, at=stage.now)))

    assert _breaks(stage) == {}


@pytest.mark.parametrize("is_in_base", [True, False])
def test_a_sale_made_elsewhere_still_settles_after_a_restart_on_a_later_day(
    is_in_base: bool,
) -> None:
    """Not in the base, because an own order worked until the end of that day."""
    first = Stage(is_open=False)
    base = AccountSnapshot(first.now, ACCOUNT, CASH, CASH, {"SSI": Holding("SSI", 500, 500, 0, 0)})
    sold = replace(
        report_of(Stage().buy(500, 27_000), "APP1", executed=500, state=OrderState.FILLED),
        symbol="SSI",
        side=Side.SELL,
    )
    first.after(60).book(sold)
    [row] = first.all(OrderUpdated)
    in_bases = dict[str, tuple[int, int]]()
    if is_in_base:
        base = replace(base, at=first.after(60).now, holdings={})
        in_bases = {"APP1": (500, row.executed_amount)}

    recovery = Recovery(NEXT_DAY, bases=(base,), in_bases=in_bases, traded_elsewhere=(row,))
    stage = Stage(recovery=recovery, is_open=False)
    stage.now = first.now + timedelta(days=1)
    broker = Broker(stage).read(times=3)
    assert _breaks(stage) == {}
    settles = datetime.fromisoformat("2026-11-23T13:00+07:00")
    stage.now = settles - timedelta(hours=4)
    stage.handle(TradingDayStarted(stage.now, settles.date()))
    broker.read(times=2)
    stage.now = settles
    amount = row.executed_amount
    broker.cash += amount - RULEBOOK.fee(amount) - RULEBOOK.sale_tax(amount)
    broker.read(times=3)

    assert _breaks(stage) == {}


def _cost(shares: int) -> int:
    return shares * 26_900 + RULEBOOK.fee(shares * 26_900)


def _read_with(broker: Broker, row: OrderReport) -> None:
    """Have the stage read an account that bought elsewhere, and the row of that order."""
    stage = broker.stage
    now = stage.after(60).now
    stage.book(replace(row, requested_at=now))
    held = {"HPG": Holding("HPG", broker.shares, 0, broker.shares, 26_900)}
    stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, broker.cash, 0, held)))


def test_an_order_made_elsewhere_is_never_cancelled_not_even_by_a_halt() -> None:
    stage = Stage()
    stage.after(1).book(report_of(Stage().buy(), "APP1"))

    stage.handle(CancelAsked(stage.now, "APP1", "me", "by hand"))
    stage.handle(OperatorActed(stage.now, Action.HALT, "look", "me"))
    stage.pass_time(60)

    assert stage.all(CancelOrder) == []
    assert stage.all(ReadOrderToCancel) == []


@pytest.mark.parametrize(
    ("plan", "settings", "code"),
    [
        (limited(max_position=800), EngineSettings(), "MAX_POSITION"),
        (
            PLAN,
            EngineSettings(account_limits=AccountLimits(max_position_value=21_600_000)),
            "POSITION_VALUE",
        ),
    ],
)
def test_an_order_made_elsewhere_counts_in_what_a_strategy_may_still_buy(
    plan: StrategyPlan, settings: EngineSettings, code: str
) -> None:
    def decided(shares: int, account: str = ACCOUNT) -> tuple[str, str]:
        stage = Stage(plan, settings=settings)
        elsewhere = replace(Stage().buy(shares, 27_000), account=account)
        stage.after(1).book(report_of(elsewhere, "APP1"))
        stage.request(lambda it: it.buy(200, limit=27_000))
        return stage.decided()

    assert decided(600) == (Verdict.PASSED, "OK")
    assert decided(700) == (Verdict.BLOCKED, code)
    assert decided(700, "another account") == (Verdict.PASSED, "OK")


def test_shares_that_a_right_explains_are_no_break() -> None:
    stage = Stage(sellable=200)
    broker = Broker(stage, shares=200).read()
    right = ShareholderRight("000002", "HPG", "STOCK_DIVIDEND", "100:15", 200, 0, 30)
    stage.engine._state.rights[ACCOUNT] = (right,)

    broker.shares = 230
    broker.read(times=2)

    assert _breaks(stage) == {}


# ------------------------------------------------------------------------------ what a break holds


def test_a_break_holds_the_next_day_until_it_is_accepted_with_a_reason() -> None:
    stage = Stage()
    broker = Broker(stage, cash=CASH + 1).read(times=2)
    assert _state(stage) is RunState.RUNNING
    _next_morning(stage)
    broker.read()

    stage.handle(Reconciled(stage.now))
    assert _state(stage) is RunState.STARTING
    assert "B-0001" in stage.engine.status().reason
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go", "me"))
    stage.quote()
    stage.request(lambda s: s.buy(100, limit=27_000))
    assert stage.new(PlaceOrder) == []

    _accept(stage, "B-0001", " ")
    assert _state(stage) is RunState.STARTING
    _accept(stage, "B-0001")
    assert _state(stage) is RunState.RUNNING
    assert _breaks(stage) == {}
    stage.request(lambda s: s.buy(100, limit=27_000))
    assert len(stage.new(PlaceOrder)) == 1


def test_a_start_that_a_break_holds_takes_cancels() -> None:
    before = Stage()
    intent = before.working(500)
    held = Recovery(
        DAY,
        2,
        1,
        intents=(StoredIntent(intent, SendState.ACKED, "ORD1", None),),
        orders=(before.entries_of_order(),),
        breaks=(Break("B-0007", "cash: 1 VND"),),
        next_break_number=8,
    )
    stage = Stage(recovery=held)
    assert _state(stage) is RunState.STARTING

    stage.handle(CancelAsked(stage.now, "ORD1", "me", "by hand"))
    stage.row(report_of(intent))

    assert [one.order_id for one in stage.all(CancelOrder)] == ["ORD1"]


def test_a_start_waits_for_the_second_read_of_what_differs() -> None:
    stage = Stage(recovery=Recovery(DAY, bases=(YESTERDAYS,)), is_open=False)
    broker = Broker(stage, cash=CASH - 7).read()

    stage.handle(Reconciled(stage.now))
    assert _state(stage) is RunState.STARTING
    assert "read again" in stage.engine.status().reason
    broker.read()

    assert list(_breaks(stage)) == ["B-0001"]
    assert _state(stage) is RunState.STARTING


def test_a_start_that_is_halted_says_all_the_same_that_a_break_holds_it() -> None:
    kept = (Break("B-0003", "cash: expected 5, found 6"),)
    halted = Recovery(DAY, breaks=kept, run_state=RunState.HALTED, run_state_by="operator")
    stage = Stage(recovery=halted, is_open=False)

    stage.handle(Reconciled(stage.now))
    Broker(stage).read(times=2)

    told = [note.text for note in stage.all(Note) if note.text.startswith("the start is held")]
    assert _state(stage) is RunState.HALTED
    assert len(told) == 1
    assert "do not agree: B-0003. Compare them" in told[0]


def test_a_start_goes_on_when_the_second_read_shows_that_the_first_was_wrong() -> None:
    stage = Stage(recovery=Recovery(DAY, bases=(YESTERDAYS,)), is_open=False)
    broker = Broker(stage, cash=0).read()
    stage.handle(Reconciled(stage.now))

    broker.cash = CASH
    broker.read()

    assert (_state(stage), _breaks(stage)) == (RunState.RUNNING, {})


def test_what_the_journal_holds_and_the_broker_does_not_is_a_break_at_the_first_start() -> None:
    held = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    stage = Stage(recovery=Recovery(DAY, strategies={"test": held}), is_open=False)

    Broker(stage).read(times=2)
    stage.handle(Reconciled(stage.now))

    assert "expected 300, found 0" in _breaks(stage)["B-0001"]
    assert "HPG" in stage.engine.status().halted_symbols
    assert _state(stage) is RunState.STARTING


def test_a_damaged_journal_is_told_with_its_first_finding_and_what_to_do() -> None:
    stage = Stage()

    breaks.begin_damage(stage.engine._state, ("a page does not add up", "a row is gone", "another"))

    [standing] = stage.engine.status().alerts
    assert "a page does not add up; 2 findings more. Orders are read" in standing


def test_a_journal_that_was_not_checked_in_time_is_not_called_damaged() -> None:
    stage = Stage()

    breaks.begin_damage(stage.engine._state, (f"{UNCHECKED} within 230 s",))

    [standing] = stage.engine.status().alerts
    assert standing == (
        "JOURNAL the journal may be damaged, or an older copy of it: it could not be checked "
        "within 230 s. Orders are read and can be cancelled, none is sent. Let it be checked "
        "whole, as long as that takes: bot journal verify. If nothing is wrong: bot reconcile "
        '--accept JOURNAL --reason "…". Later make it smaller, so that a start can check it: '
        "bot journal prune"
    )


def test_a_break_that_is_not_there_is_not_accepted() -> None:
    stage = Stage()

    _accept(stage, "B-0009")

    assert "no break 'B-0009' (open: none)" in stage.last(Note).text


def test_asked_to_reconcile_the_bot_reads_orders_and_account() -> None:
    stage = Stage()

    asked = stage.handle(ReconcileAsked(stage.now, "me"))

    assert {type(one) for one in asked} == {ReadTodaysOrders, ReadAccount}


# ------------------------------------------------------------------------------------ the day's end


def _end_day(stage: Stage) -> None:
    stage.now = CLOSED
    stage.handle(TradingDayEnded(stage.now, DAY))


def _closing_words(stage: Stage) -> list[str]:
    kinds = {"DAY_UNSETTLED", "BREAK", "DAY_NOT_COMPARED"}
    return [
        str(note.numbers.get("alert") or note.kind)
        for note in stage.all(Note)
        if note.numbers.get("alert") in kinds or note.kind == "RECONCILE"
    ]


def test_a_day_that_agrees_ends_with_a_note() -> None:
    stage = Stage()

    _end_day(stage)
    assert {type(one) for one in stage.done} == {ReadTodaysOrders, ReadAccount}
    Broker(stage).read()

    compared, day = stage.all(Note)[-2:]
    assert compared.text.endswith("journal, day order book, shares and cash agree")
    assert day.text.endswith("nothing waits for you")


def test_the_days_end_finds_a_difference_though_an_order_is_still_shown_as_open() -> None:
    stage = Stage()
    intent = stage.working(500, 26_000)
    _end_day(stage)

    for _ in range(2):
        stage.after(6).book(report_of(intent))
        snapshot = AccountSnapshot(stage.now, ACCOUNT, CASH - 3, CASH, {})
        stage.handle(AccountRead(stage.now, snapshot))

    assert _closing_words(stage) == ["BREAK", "DAY_UNSETTLED"]
    unsettled, day = stage.all(Note)[-2:]
    assert "ORD1 is shown as SENT" in unsettled.text
    assert "ORD1 is shown as open (bot order ORD1)" in day.text


def test_a_break_of_cash_names_the_orders_that_filled_and_not_all_of_the_day() -> None:
    stage = Stage()
    rows = []
    for number in range(1, 9):
        stage.after(70).quote()
        intent = stage.working(order_id=f"ORD{number}")
        rows.append(report_of(intent, f"ORD{number}", executed=100 if number < 8 else 0))
        stage.after(1).book(*rows)

    breaks.begin(stage.engine._state, "cash: 9 VND", None, ours=9, theirs=0)

    [standing] = stage.engine.status().alerts
    named = "(orders ORD1, ORD2, ORD3, ORD4, ORD5 and 2 more)"
    assert standing.startswith(f"B-0001 cash: 9 VND {named}. The next day")


def test_the_days_end_names_an_open_unknown() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    _end_day(stage)
    Broker(stage).read()

    unsettled, day = stage.all(Note)[-2:]
    assert "L-0001 is SENDING" in unsettled.text
    assert "needs you: L-0001 is SENDING (bot order L-0001)" in day.text


def test_an_order_of_ours_that_the_days_book_does_not_show_is_a_break() -> None:
    stage = Stage()
    intent = stage.working(100)
    stage.after(1).book(report_of(intent, cancelled=100, remaining=0, state=OrderState.CANCELLED))

    _end_day(stage)
    Broker(stage).read(times=2)

    assert "ORD1 (BUY HPG) is in no row" in _breaks(stage)["B-0001"]


def test_a_refused_order_with_an_id_need_not_be_in_the_days_book() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    rejected = {"status": "REJECTED", "state": OrderState.REJECTED, "code": "-300025"}
    result = result_of(intent, **rejected)
    stage.after(1).answer(intent, Refused("-300025", "refused", 200, result))

    _end_day(stage)
    Broker(stage).read()

    assert (_breaks(stage), "DAY_UNSETTLED" in _closing_words(stage)) == ({}, False)


def test_a_day_that_no_good_read_ended_is_said_the_next_morning() -> None:
    stage = Stage()
    _end_day(stage)

    _next_morning(stage)

    assert _closing_words(stage) == ["DAY_NOT_COMPARED"]


def test_a_day_whose_last_reads_all_differed_names_what_did() -> None:
    stage = Stage()
    _end_day(stage)
    broker = Broker(stage)
    for off in range(5):
        broker.cash = CASH - 1_000_000 - off
        broker.read()

    _next_morning(stage)

    [told] = [n for n in stage.all(Note) if n.numbers.get("alert") == "DAY_NOT_COMPARED"]
    assert told.numbers["open"] == f"cash: {broker.cash:,} at the broker"
    assert told.text == (
        "2026-11-19 was not compared to the end with the broker after its close: each read showed "
        f"something else (cash: {broker.cash:,} at the broker). It is compared again now, before "
        "the new day begins. Look at: bot reconcile"
    )


def test_the_end_of_a_day_that_is_over_is_told_and_nothing_is_compared() -> None:
    stage = Stage()

    done = stage.handle(TradingDayEnded(stage.now, date(2026, 11, 18)))
    Broker(stage).read()

    assert [type(each) for each in done] == [Record]

    assert _closing_words(stage) == ["DAY_NOT_COMPARED"]
    assert stage.last(Note).numbers["day"] == "2026-11-18"


def test_a_day_without_trading_is_not_ended() -> None:
    stage = Stage()

    assert stage.handle(TradingDayEnded(stage.now, date(2026, 11, 22))) == []


def test_a_sale_comes_to_cash_when_it_settles_and_is_no_break() -> None:
    stage = Stage(
        sellable=200,
        recovery=Recovery(
            DAY, strategies={"test": RecoveredStrategy({"HPG": (200, 1)}, 0, 0, 0, "on")}
        ),
    )
    stage.request(lambda s: s.sell(200, limit=27_000))
    intent = stage.last(PlaceOrder).intent
    assert intent.side is Side.SELL
    stage.accept(intent)
    stage.after(1).book(report_of(intent, executed=200, state=OrderState.FILLED))
    broker = Broker(stage).read(times=2)
    amount = 200 * 27_000
    net = amount - RULEBOOK.fee(amount) - RULEBOOK.sale_tax(amount)

    stage.now = datetime.fromisoformat("2026-11-23T13:01+07:00")
    broker.cash = CASH + net
    broker.read(times=2)

    assert _breaks(stage) == {}


def test_numbers_of_an_earlier_run_that_agreed_count_from_there() -> None:
    first = Stage()
    broker = Broker(first).read()
    [kept, *_] = [each for each in first.all(StateChanged) if each.scope == f"base:{ACCOUNT}"]
    base = first.engine._state.ledgers[ACCOUNT].base
    assert kept.at <= base.at

    stage = Stage(recovery=Recovery(DAY, bases=(base,)), is_open=False)
    broker.stage, broker.shares = stage, 100
    stage.now = first.now
    broker.read(times=2)

    assert "expected 0, found 100" in _breaks(stage)["B-0001"]


# ---------------------------------------------------------------------------------- what is told


@pytest.mark.parametrize(
    ("damage", "more"),
    [(("no chain",), ""), (("no chain", "no row"), "; 1 findings more")],
)
def test_damage_is_told_by_its_first_finding_and_how_many_more(
    damage: tuple[str, ...], more: str
) -> None:
    stage = Stage(recovery=Recovery(DAY, damage=damage), is_open=False)

    text = f"the journal is damaged, or an older copy of it: no chain{more}"
    assert _breaks(stage) == {"JOURNAL": text}


@pytest.mark.parametrize(("count", "names"), [(5, "5"), (6, "5 and 1 more")])
def test_a_break_names_five_of_the_orders_that_it_rests_on(count: int, names: str) -> None:
    ids = tuple(f"ORD{each}" for each in range(1, count + 1))
    kept = Break("B-0001", "cash", None, None, 1, 2, ids)

    stage = Stage(recovery=Recovery(DAY, breaks=(kept,)), is_open=False)

    told = f"B-0001 cash (orders ORD1, ORD2, ORD3, ORD4, ORD{names})."
    assert stage.engine.status().alerts[0].startswith(told)


def test_a_sale_elsewhere_whose_row_comes_after_the_break_that_it_made_is_counted_once() -> None:
    stage = Stage(sellable=500)
    broker = Broker(stage, shares=500).read(times=2)
    sale = replace(report_of(Stage().buy(500, 26_900), "APP1", executed=500), side=Side.SELL)
    broker.shares = 0
    broker.read(times=3)
    stage.after(5).book(sale)

    for _ in range(3):
        now = stage.after(60).now
        stage.book(replace(sale, requested_at=now))
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, broker.cash, CASH, {})))

    found = [text for text in _breaks(stage).values() if text.startswith("HPG")]
    assert found == ["HPG in all: expected 500, found 0: -500 shares that no order explains"]
    assert "count once" in "".join(note.text for note in stage.all(Note))


@pytest.mark.parametrize(("ours", "theirs", "is_one"), [(0, 200, True), (None, None, False)])
def test_after_a_restart_a_late_row_and_the_break_that_it_made_count_once(
    ours: int | None, theirs: int | None, *, is_one: bool
) -> None:
    first = Stage()
    broker = Broker(first).read()
    broker.cash, broker.shares = CASH - _cost(200), 200
    broker.read(times=2)
    base = first.engine._state.ledgers[ACCOUNT].base
    [kept] = [each for each in first.engine.reconciliation().breaks if each.symbol == "HPG"]
    kept = replace(kept, ours=ours, theirs=theirs)
    recovery = Recovery(DAY, bases=(base,), breaks=(kept,), next_break_number=3)
    stage = broker.stage = Stage(recovery=recovery, is_open=False)
    stage.now = first.now
    row = report_of(Stage().buy(200, 26_900), "APP1", executed=200)

    for _ in range(3):
        _read_with(broker, row)

    met = [note.numbers["met"] for note in stage.all(Note) if "count once" in note.text]
    texts = [text for name, text in _breaks(stage).items() if name != kept.break_id]
    assert met == [kept.break_id] * is_one
    assert any(text.startswith("HPG") for text in texts) is not is_one


def test_a_break_of_an_unknown_time_explains_no_later_order() -> None:
    kept = Break("B-0001", "HPG", None, "HPG", 0, 200)
    stage = Stage(recovery=Recovery(DAY, breaks=(kept,), next_break_number=2))
    broker = Broker(stage).read(times=2)
    row = report_of(Stage().buy(200, 26_900), "APP1", executed=200)

    for _ in range(3):
        now = stage.after(60).now
        stage.book(replace(row, requested_at=now))
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, broker.cash, CASH, {})))

    texts = [each for name, each in _breaks(stage).items() if name != "B-0001"]
    assert "HPG in all: expected 200, found 0: -200 shares that no order explains" in texts


def test_an_order_made_elsewhere_that_fills_piece_by_piece_explains_each_piece() -> None:
    stage = Stage()
    broker = Broker(stage)
    whole = report_of(Stage().buy(500, 26_900), "APP1", executed=200)

    for executed in (200, 200, 500, 500):
        row = replace(whole, executed_quantity=executed, executed_amount=executed * 26_900)
        broker.cash, broker.shares = CASH - _cost(executed), executed
        _read_with(broker, replace(row, remaining_quantity=500 - executed))

    assert _breaks(stage) == {}


def test_between_sessions_two_reads_five_seconds_apart_are_enough() -> None:
    stage = Stage()
    stage.now = START.replace(hour=5, minute=15)  # 12:15 local
    broker = Broker(stage, cash=CASH - 5)

    broker.read(times=2, seconds=5)

    assert len(_breaks(stage)) == 1


def test_a_break_that_was_accepted_is_journalled_as_over() -> None:
    stage = Stage()
    Broker(stage, cash=CASH + 1).read(times=2)

    _accept(stage, "B-0001", "a fee")

    [over] = [each for each in stage.new(StateChanged) if each.scope == "break:B-0001"]
    assert (over.to_state, over.reason, over.by) == (RunState.RUNNING, "a fee", "me")
    [told] = [note for note in stage.new(Note) if note.kind == "RECONCILE"]
    assert told.text.startswith(f"B-0001 accepted: a fee (cash: expected {CASH:,}, found")
    assert told.numbers == {"break": "B-0001", "by": "me"}
