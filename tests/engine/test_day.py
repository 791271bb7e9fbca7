"""A day begins alike after a start and after a night: history, book, account, strategies."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timedelta

import pytest

from bot.domain.entry import (
    ACCOUNT_SCOPE,
    DAY_NOTE,
    REDUCED_SCOPE,
    Fill,
    IntentMoved,
    Note,
    RunState,
)
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import (
    ClockOffsetChanged,
    PlaceOrder,
    Reconciled,
    TimerFired,
    TradingDayStarted,
)
from bot.domain.operations import (
    Action,
    CancelAsked,
    DiskSeen,
    EarlierOrdersRead,
    OperatorActed,
    TradingDayEnded,
)
from bot.domain.order import OrderReport, OrderState, SendState, Side
from bot.domain.outcome import Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine import gate
from bot.engine.health import RESERVE_BYTES
from bot.strategy import Strategy
from tests.engine.stage import ACCOUNT, DAY, HPG, RULEBOOK, Stage, report_of, sell_intent

NEXT_DAY = date(2026, 11, 20)
Begin = Callable[[dict[str, object]], Stage]


def _over_the_night(hooks: dict[str, object]) -> Stage:
    """A bot that ran through the night with an order of yesterday, cut off before the close."""
    stage = Stage(hooks=hooks)
    stage.working(500)
    stage.after(86_400).handle(TradingDayStarted(stage.now, NEXT_DAY))
    return stage


def _restarted(hooks: dict[str, object]) -> Stage:
    """The same order, and a bot that was started this morning."""
    before = Stage()
    stored = StoredIntent(before.working(500), SendState.ACKED, "ORD1", None)
    row = before.entries_of_order()
    recovery = Recovery(NEXT_DAY, 2, 1, intents=(stored,), orders=(row,))
    return Stage(recovery=recovery, is_open=False, hooks=hooks)


BOTH_WAYS = pytest.mark.parametrize("begin", [_over_the_night, _restarted])


@pytest.mark.parametrize("is_halted", [False, True])
@BOTH_WAYS
def test_a_timer_while_the_day_waits_for_its_start_is_told_and_wakes_nobody(
    begin: Begin, is_halted: bool
) -> None:
    """While a person halts the bot no timer runs, which is no news."""
    stage = begin({})
    stage.handle(EarlierOrdersRead(stage.now, (_ended(0),)))
    if is_halted:
        stage.handle(OperatorActed(stage.now, Action.HALT, "look", "me", strategy=None))
    asked = list[str]()
    stage._requesters.append(lambda _: asked.append("on_timer"))

    stage.handle(TimerFired(stage.now, "test", time(9, 25)))
    stage.open()

    held = "not run: the start of the day was still held (bot status). "
    told = [note for note in stage.all(Note) if note.numbers.get("alert") == "TIMER_MISSED"]
    assert [held in note.text for note in told] == [True] * (not is_halted)
    assert asked == []
    stage.handle(TimerFired(stage.now, "test", time(9, 25)))
    assert asked == ["on_timer"] * (not is_halted)


def test_a_timer_of_a_strategy_that_is_switched_off_is_none_that_was_missed() -> None:
    stage = Stage(is_open=False)
    stage.handle(OperatorActed(stage.now, Action.HALT, "not today", "me", strategy="test"))

    stage.handle(TimerFired(stage.now, "test", time(9, 25)))

    assert [note for note in stage.all(Note) if note.numbers.get("alert") == "TIMER_MISSED"] == []


def _ended(executed: int) -> OrderReport:
    row = report_of(Stage().working(500), executed=executed, remaining=0)
    return replace(row, cancelled_quantity=500 - executed, status="EXPIRED")


@BOTH_WAYS
@pytest.mark.parametrize(
    ("executed", "state"),
    [(500, OrderState.FILLED), (200, OrderState.CANCELLED), (0, OrderState.CANCELLED)],
)
def test_what_traded_before_the_close_and_nobody_saw_is_a_fill(
    begin: Begin, executed: int, state: OrderState
) -> None:
    stage = begin({})

    stage.handle(EarlierOrdersRead(stage.now, (_ended(executed),)))
    if executed:
        stage.cash -= executed * 27_000 + RULEBOOK.fee(executed * 27_000)
    stage.account(executed)
    stage.handle(Reconciled(stage.now))

    assert stage.entries_of_order().state is state
    assert sum(fill.quantity for fill in stage.all(Fill)) == executed
    assert stage.engine.status().halted_symbols == {}
    assert stage.engine.status().state is RunState.RUNNING


@BOTH_WAYS
def test_what_traded_then_settles_by_its_own_day(begin: Begin) -> None:
    stage = begin({})

    stage.handle(EarlierOrdersRead(stage.now, (_ended(100),)))

    state = stage.engine._state
    ledger = state.ledgers.get(ACCOUNT)
    flows = list(ledger.flows) if ledger is not None else state.early_flows
    assert [each.settles_at for each in flows] == [RULEBOOK.settles_at(HPG, DAY)]


@BOTH_WAYS
def test_an_order_whose_end_the_history_does_not_tell_halts_its_symbol(begin: Begin) -> None:
    stage = begin({})

    stage.handle(EarlierOrdersRead(stage.now, ()))

    assert stage.entries_of_order().state is OrderState.EXPIRED
    assert "compare the holding" in stage.engine.status().halted_symbols["HPG"]


@pytest.mark.parametrize("halted", [{}, {"HPG": "B-0001: 5 shares more"}])
def test_each_order_whose_end_is_not_known_is_named_once_whatever_halts_its_symbol(
    halted: dict[str, str],
) -> None:
    before = Stage()
    before.working(500)
    row = before.entries_of_order()
    rows = tuple(replace(row, order_id=each, intent_id=each) for each in ("ORD1", "ORD2"))
    recovery = Recovery(NEXT_DAY, 3, 1, orders=rows, halted_symbols=halted)
    stage = Stage(recovery=recovery, is_open=False)

    for _ in range(2):
        stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.open()

    halts = [each for each in stage.all(Note) if each.numbers.get("alert") == "SYMBOL_HALTED"]
    named = [str(each.numbers["why"]).partition(" was open")[0] for each in halts]
    assert named == [*halted.values(), "ORD1", "ORD2"], "what was halted before is told again"


@BOTH_WAYS
def test_nothing_of_an_earlier_day_outlives_the_reconciliation(begin: Begin) -> None:
    stage = begin({})

    stage.open()

    assert stage.engine.status().open_orders == ()
    assert "HPG" in stage.engine.status().halted_symbols


def test_a_cancel_of_yesterday_and_what_was_counted_then_are_over() -> None:
    stage = Stage()
    stage.working(500)
    stage.handle(CancelAsked(stage.now, "ORD1", "operator", "by hand"))
    assert [each.order_id for each in stage.engine.status().cancels] == ["ORD1"]
    assert stage.engine.status().counts["orders"] == 1

    stage.after(86_400).handle(TradingDayStarted(stage.now, NEXT_DAY))
    assert "orders" not in stage.engine.status().counts
    stage.open()

    assert stage.engine.status().cancels == ()


def test_what_is_alerted_once_is_alerted_once_a_day() -> None:
    stage, told = Stage(), []
    for today in (DAY, NEXT_DAY):
        stage.after(86_400 * (today - DAY).days).handle(TradingDayStarted(stage.now, today))
        stage.open()
        row = replace(report_of(Stage().working(500), "THEIRS"), trading_date=today)
        for _ in range(3):
            stage.after(1).book(replace(row, status="PONDERING", state=None))
        alerts = [note.numbers.get("alert") for note in stage.all(Note)]
        told.append(alerts.count("STATUS_UNKNOWN"))

    assert told == [1, 2]


@BOTH_WAYS
def test_nothing_is_sent_before_the_day_is_reconciled(begin: Begin) -> None:
    stage = begin({})

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.engine.status().state is RunState.STARTING
    assert stage.new(PlaceOrder) == []
    stage.handle(EarlierOrdersRead(stage.now, (_ended(0),)))
    stage.open()
    stage.request(lambda s: s.buy(100, limit=27_000))
    assert len(stage.new(PlaceOrder)) == 1


@BOTH_WAYS
def test_an_account_that_agrees_begins_no_day_before_all_has_been_read(begin: Begin) -> None:
    stage = begin({})
    stage.handle(EarlierOrdersRead(stage.now, (_ended(0),)))
    stage.phase(Phase.PROGRESS)

    for _ in range(3):
        stage.after(30).account()

    assert stage.engine.status().state is RunState.STARTING
    stage.handle(Reconciled(stage.now))
    assert stage.engine.status().state is RunState.RUNNING


def test_a_strategy_starts_before_it_hears_of_what_was_filled_meanwhile() -> None:
    heard: list[str] = []
    hooks: dict[str, object] = {
        "on_start": lambda _: heard.append("on_start"),
        "on_fill": lambda _, __: heard.append("on_fill"),
    }
    stage = _restarted(hooks)

    stage.handle(EarlierOrdersRead(stage.now, (_ended(500),)))
    assert heard == []
    stage.open()

    assert heard == ["on_start", "on_fill"]
    stage.after(86_400).handle(TradingDayStarted(stage.now, NEXT_DAY + timedelta(days=3)))
    stage.handle(Reconciled(stage.now))
    assert heard == ["on_start", "on_fill"], "what was told is not told again"


def test_a_halted_bot_starts_a_strategy_before_it_tells_it_of_a_fill() -> None:
    heard: list[str] = []
    hooks: dict[str, object] = {
        "on_start": lambda _: heard.append("on_start"),
        "on_fill": lambda _, __: heard.append("on_fill"),
    }
    before = Stage()
    intent = before.working(500)
    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    halted = Recovery(
        DAY, 2, 1, RunState.HALTED, "look", intents=(stored,), orders=(before.entries_of_order(),)
    )
    stage = Stage(recovery=halted, hooks=hooks)

    stage.after(1).book(report_of(intent, executed=500))

    assert heard == ["on_start", "on_fill"]


def test_a_strategy_starts_once_however_many_days_it_runs() -> None:
    heard: list[str] = []

    def on_start(strategy: Strategy) -> None:
        heard.append(strategy.symbol)

    stage = Stage(hooks={"on_start": on_start})

    for day in (1, 2):
        stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=day)))
        stage.handle(Reconciled(stage.now))

    assert heard == ["HPG"]


def test_what_never_started_is_not_told_to_stop() -> None:
    heard: list[str] = []
    hooks: dict[str, object] = {
        "on_start": lambda _: heard.append("on_start"),
        "on_stop": lambda _: heard.append("on_stop"),
    }
    stage = Stage(is_open=False, hooks=hooks)

    stage.handle(OperatorActed(stage.now, Action.STOP, "enough", "operator"))

    assert heard == []


# -------------------------------------------------------------------------------------- its summary

END = datetime.combine(DAY, time(15, 15), EXCHANGE_TZ)


def _end_day(stage: Stage) -> None:
    """The market has closed, and the day's end is due."""
    stage.phase(Phase.CLOSED)
    stage.now = END.astimezone(stage.now.tzinfo)
    stage.handle(TradingDayEnded(stage.now, DAY))


def _summaries(stage: Stage) -> list[Note]:
    return [each for each in stage.entries if isinstance(each, Note) and each.kind == DAY_NOTE]


def test_a_day_with_a_fill_is_summed_up_to_the_vnd_with_what_is_open() -> None:
    stage = Stage(cash=50_000_000)
    filled = report_of(stage.working(100, 27_000, "ORD1"), "ORD1", executed=100)
    stage.after(1).book(filled)
    stage.after(1).quote(27_100)

    _end_day(stage)
    stage.after(1).book(filled)
    stage.cash = 50_000_000 - 2_704_050
    stage.sellable = 0
    stage.account(total=100)

    (note,) = _summaries(stage)
    assert note.text == (
        "1 order: 1 filled · realised -4,050 VND after fees and tax 4,050 · still open HPG 100, "
        "unrealised +10,000 · cash 47,295,950 · nothing waits for you"
    )
    assert note.numbers == {
        "day": "2026-11-19",
        "orders filled": 1,
        "realised": 0,
        "fees_and_tax": 4_050,
        "net": -4_050,
        "unrealised": 10_000,
        "open_positions": 1,
        "open_value": 2_710_000,
        "cash": 47_295_950,
        "due": 0,
        "needs": "",
        "last HPG": 27_100,
    }


def _acted(action: Action, why: str, *, entries_only: bool = False) -> Callable[[Stage], object]:
    def act(stage: Stage) -> None:
        stage.handle(OperatorActed(stage.now, action, why, "operator", entries_only=entries_only))

    return act


@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (
            _acted(Action.PAUSE, "lunch"),
            "PAUSED, lunch: nothing is bought or sold (bot resume --reason …)",
        ),
        (
            _acted(Action.PAUSE, ""),
            "PAUSED: nothing is bought or sold (bot resume --reason …)",
        ),
        (
            _acted(Action.PAUSE, "earnings", entries_only=True),
            "REDUCING by you (earnings): nothing is bought (bot resume --reason …)",
        ),
        (_acted(Action.HALT, "look"), "HALTED, look (bot resume --reason …)"),
        (
            lambda stage: stage.handle(ClockOffsetChanged(stage.now, timedelta(seconds=25))),
            "no order leaves, as our clock is 25 s behind the broker's (bot status)",
        ),
        (
            lambda stage: stage.handle(DiskSeen(stage.now, RESERVE_BYTES - 1)),
            "no order leaves, as the journal's disk has 63 MB left (bot status)",
        ),
    ],
)
def test_what_holds_orders_back_until_a_person_ends_it_is_in_the_summary(
    act: Callable[[Stage], object], wanted: str
) -> None:
    stage = Stage()
    act(stage)

    _end_day(stage)
    stage.after(1).book()
    stage.account()

    (note,) = _summaries(stage)
    assert note.text.endswith(f" · needs you: {wanted}")
    assert note.numbers["needs"] == wanted


def test_a_pause_beneath_a_halt_is_in_the_summary_too() -> None:
    stage = Stage()
    _acted(Action.PAUSE, "lunch")(stage)
    _acted(Action.HALT, "look")(stage)

    _end_day(stage)
    stage.after(1).book()
    stage.account()

    (note,) = _summaries(stage)
    assert note.numbers["needs"] == (
        "HALTED, look (bot resume --reason …); "
        "PAUSED, lunch: nothing is bought or sold (bot resume --reason …)"
    )


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (f"{ACCOUNT_SCOPE}{ACCOUNT}", "no order is sent: as found (bot resume --reason …)"),
        (gate.NONCES, "nonces are not trusted: as found (bot resume --reason …)"),
        (REDUCED_SCOPE, "REDUCING by you (as found): nothing is bought (bot resume --reason …)"),
    ],
)
def test_each_halted_scope_is_in_the_summary_of_each_evening(scope: str, wanted: str) -> None:
    stage = Stage(recovery=Recovery(DAY, halted_scopes={scope: "as found"}))

    _end_day(stage)
    stage.after(1).book()
    stage.account()

    (note,) = _summaries(stage)
    assert note.numbers["needs"] == wanted


def test_what_a_strategy_that_does_not_run_has_realised_is_in_the_summary() -> None:
    before = Stage(cash=50_000_000)
    intent = before.working(200)
    before.after(1).book(report_of(intent, executed=100))
    sale = replace(sell_intent(intent), strategy="gone")
    row = replace(before.entries_of_order(), side=Side.SELL, strategy="gone")
    sold = replace(before.all(Fill)[0], side=Side.SELL, strategy="gone", realised=-50_000)
    stored = StoredIntent(sale, SendState.ACKED, "ORD1", None)
    gone = RecoveredStrategy({"HPG": (100, 2_710_000)}, 1, -50_000, sold.fee + sold.tax, "on")
    recovery = Recovery(
        DAY,
        2,
        2,
        intents=(stored,),
        orders=(row,),
        strategies={"gone": gone},
        recent_fills=((DAY, sold),),
    )

    stage = Stage(recovery=recovery)
    filled = report_of(sale, executed=200, state=OrderState.FILLED, status="MATCHED")
    stage.after(1).book(filled)
    later = stage.last(Fill)
    _end_day(stage)
    stage.after(1).book(filled)
    stage.account()

    (note,) = _summaries(stage)
    fees = sold.fee + sold.tax + later.fee + later.tax
    assert later.realised == -10_000
    assert (note.numbers["realised"], note.numbers["fees_and_tax"]) == (-60_000, fees)
    stage.handle(TradingDayStarted(stage.now, NEXT_DAY))
    assert stage.engine._state.exposure.realised_today() == (0, 0)


def test_an_order_that_is_still_on_its_way_counts_as_open() -> None:
    stage = Stage(cash=50_000_000)
    intent = stage.buy(100, 27_000)
    stage.send(intent)

    _end_day(stage)
    stage.after(1).book()
    stage.account()

    (note,) = _summaries(stage)
    assert note.numbers["orders open"] == 1


def test_a_day_that_nobody_compared_is_summed_up_before_the_next_begins() -> None:
    stage = Stage(cash=50_000_000)

    _end_day(stage)
    assert _summaries(stage) == []
    stage.now += timedelta(hours=17)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    (note,) = _summaries(stage)
    assert note.numbers["day"] == "2026-11-19"


# ------------------------------------------------------------------------- ids that are used again


def _after_theirs() -> Stage:
    """Somebody else's order, partly filled yesterday and open when it was last looked at."""
    before = Stage()
    theirs = report_of(before.working(500, order_id="ORD2"), executed=300)
    before.after(1).book(replace(theirs, quantity=900, remaining_quantity=600))
    recovery = Recovery(NEXT_DAY, 2, 1, orders=(before.entries_of_order(),))
    stage = Stage(recovery=recovery, is_open=False)
    stage.after(86_400).handle(EarlierOrdersRead(stage.now, ()))
    stage.open()
    return stage


def _begun(begin: Begin) -> Stage:
    stage = begin({})
    stage.after(86_400 * (begin is _restarted))
    stage.handle(EarlierOrdersRead(stage.now, (_ended(0),)))
    stage.open()
    return stage


def test_an_order_under_an_id_of_yesterday_takes_over_nothing_of_that_one() -> None:
    stage = _after_theirs()

    intent = stage.buy(500)
    stage.accept(intent)

    row = stage.entries_of_order()
    assert (row.intent_id, row.executed_quantity) == (intent.intent_id, 0)
    assert stage.all(Fill) == []
    assert stage.engine.status().halted_symbols == {}


@BOTH_WAYS
def test_a_lost_order_is_found_under_an_id_of_yesterday(begin: Begin) -> None:
    stage = _begun(begin)
    intent = stage.buy(200)
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("deadline"))

    stage.after(1).book(report_of(intent, trading_date=NEXT_DAY))

    assert stage.last(IntentMoved).to_state is SendState.MATCHED
    assert stage.entries_of_order().intent_id == intent.intent_id


def test_a_lost_sale_is_found_under_an_id_that_a_list_of_yesterday_showed_last() -> None:
    own = RecoveredStrategy({"HPG": (500, 10_000_000)}, 0, 0, 0, "on")
    stage = Stage(sellable=500, recovery=Recovery(DAY, strategies={"test": own}))
    yesterday = replace(report_of(stage.buy()), trading_date=DAY - timedelta(days=1))
    stage.book(yesterday)
    stage.request(lambda s: s.sell(100, limit=27_050))
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.after(1).answer(sale, Unknown("deadline"))

    stage.after(1).book(report_of(sale))

    assert stage.last(IntentMoved).to_state is SendState.MATCHED
