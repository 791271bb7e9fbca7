import copy
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import time, timedelta
from functools import partial
from typing import Any

import pytest

from bot.domain.account import Holding
from bot.domain.entry import (
    Decision,
    Fill,
    IntentMoved,
    Note,
    RunState,
    StrategySwitched,
    Verdict,
)
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import (
    BarClosed,
    NonceBurnt,
    Noted,
    PhaseChanged,
    PlaceOrder,
    Reconciled,
    Record,
    Recovered,
    StopRunning,
    TimerFired,
)
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import OrderReport, OrderType, SendState
from bot.domain.outcome import Resolution, Unknown
from bot.domain.plan import Wake
from bot.domain.quote import Bar, Depth, DepthLevel
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine import gate, hook_faults, wake
from bot.engine.engine import Engine
from bot.engine.settings import (
    EngineSettings,
    Invoke,
    LoadedStrategy,
    StrategyFault,
    invoke_plainly,
)
from bot.engine.state import Instance, State, StrategyState
from bot.strategy import FROM_FILE, DepthView, Request, RequestKind, Strategy
from tests.engine.stage import ACCOUNT, DAY, HPG, PLAN, RULEBOOK, START, Stage, report_of

FAULT = StrategyFault("ZeroDivisionError: division by zero (mine.py:7)", is_overrun=False)
STUCK = StrategyFault(
    "did not return for 5 s and was interrupted (my.py:7)", is_overrun=False, is_stuck=True
)
SLOW = StrategyFault("took longer than 0.25 s", is_overrun=True)


@pytest.mark.parametrize(("fault", "code"), [(FAULT, "EXCEPTION"), (SLOW, "OVERRUN")])
def test_the_third_fault_disables_the_strategy(fault, code):
    stage = Stage()
    stage.fault = fault

    for _ in range(3):
        stage.request(lambda s: s.buy(100, limit=27_000))
        assert stage.decided() == (Verdict.FAILED, code)

    assert [one.state for one in stage.all(StrategySwitched)] == ["disabled"]
    assert stage.all(PlaceOrder) == []
    assert stage.request(lambda s: s.buy(100, limit=27_000)) == []


def test_a_disabled_strategy_is_an_alert_and_in_the_status_until_it_is_enabled():
    stage = Stage()
    intent = stage.working(500)
    stage.book(report_of(intent, executed=300))
    stage.fault = FAULT

    for _ in range(4):
        stage.request()

    [alert] = [one for one in stage.all(Note) if one.kind == "ALERT"]
    [standing] = stage.engine.status().standing
    assert (alert.numbers["alert"], standing.code) == ("STRATEGY_DISABLED", "STRATEGY_DISABLED")
    assert alert.text == standing.text
    assert alert.text.startswith(
        "test is disabled: 3 faults, the last in on_timer: ZeroDivisionError: division by zero "
        "(mine.py:7). It decides nothing: its shares (300 HPG) stay, and no strategy sells them; "
        f"its open orders ({intent.intent_id}) stay too"
    )
    assert alert.text.endswith("bot strategy enable test")
    stage.handle(OperatorActed(stage.now, Action.RESUME, "repaired", "me", strategy="test"))
    assert stage.engine.status().standing == ()


@pytest.mark.parametrize(("fault", "is_told"), [(FAULT, True), (SLOW, False)])
def test_a_strategy_that_goes_on_after_a_failed_start_is_named_in_the_status(fault, is_told):
    stage = Stage(is_open=False, hooks={"on_start": lambda _: None})
    stage.fault = fault

    stage.open()
    stage.fault = None
    stage.request(lambda s: s.buy(100, limit=27_000))

    standing = [each for each in stage.engine.status().standing if "STRATEGY" in each.code]
    start = "test goes on although its on_start of HPG failed: ZeroDivisionError: division by zero "
    assert [each.code for each in standing] == ["STRATEGY_HALF_STARTED"] * is_told
    assert all(each.text.startswith(start) for each in standing)
    assert stage.new(PlaceOrder) != []
    stage.handle(OperatorActed(stage.now, Action.HALT, "it is broken", "me", strategy="test"))
    assert [each for each in stage.engine.status().standing if "STRATEGY" in each.code] == []


def test_a_strategy_whose_start_was_stuck_is_named_once_a_person_resumes_it():
    stage = Stage(is_open=False, hooks={"on_start": lambda _: None})
    stage.fault = STUCK
    stage.open()
    stage.fault = None

    stage.handle(OperatorActed(stage.now, Action.RESUME, "the machine", "me", strategy="test"))

    assert "STRATEGY_HALF_STARTED" in {each.code for each in stage.engine.status().standing}


def test_a_strategy_that_a_person_disabled_is_not_told_to_that_person():
    stage = Stage()

    stage.handle(OperatorActed(stage.now, Action.HALT, "not today", "me", strategy="test"))

    assert stage.engine.status().standing == ()


def test_a_hook_that_was_stuck_disables_its_strategy_at_once_and_nothing_it_asked_for_leaves():
    stage = Stage()
    stage.fault = STUCK

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == (Verdict.FAILED, "STUCK")
    assert [one.state for one in stage.all(StrategySwitched)] == ["disabled"]
    assert stage.all(PlaceOrder) == []
    [alert] = [one for one in stage.all(Note) if one.numbers.get("alert") == "STRATEGY_STUCK"]
    assert alert.text.startswith(
        "test is disabled: its on_timer of HPG did not return for 5 s and was interrupted (my.py:7)"
    )


def test_a_hook_that_requests_without_end_disables_its_strategy_and_nothing_is_taken():
    stage = Stage()

    def request(count: int) -> None:
        stage.request(*[lambda s: s.skip("and on")] * count)

    request(hook_faults.REQUESTS_MAX)
    assert len(stage.new(Decision)) == hook_faults.REQUESTS_MAX
    request(hook_faults.REQUESTS_MAX + 1)

    [decision] = stage.new(Decision)
    assert (decision.verdict, decision.code) == (Verdict.FAILED, "RUNAWAY")
    assert decision.why == "on_timer: 101 requests within a second"
    assert [one.state for one in stage.new(StrategySwitched)] == ["disabled"]
    assert [one.numbers["alert"] for one in stage.new(Note)] == ["STRATEGY_RUNAWAY"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: setattr(s.context, "requests", None),
        lambda s: delattr(s.context, "requests"),
        lambda s: delattr(s.context, "reads"),
        lambda s: s.context.requests.append(42),
        lambda s: setattr(s.context, "reads", None),
        lambda s: s.context.reads.update(x=object()),
        lambda s: s.context.reads.update(spread=math.nan),
        lambda s: s.context.reads.update({"sma(fast)": math.nan}),
        lambda s: s.context.reads.update(ratio=10**400),
        lambda s: s.context.reads.update({5: 1.5}),
    ],
)
def test_a_strategy_that_spoils_its_context_is_at_fault_and_no_other(spoil):
    stage = Stage()

    stage.request(lambda s: s.buy(100, limit=27_000), spoil)

    assert stage.decided() == (Verdict.FAILED, "EXCEPTION")
    assert stage.all(PlaceOrder) == []
    assert stage.engine.status().faults == ()
    stage.after(5).quote()
    assert stage.buy().quantity == 100


@pytest.mark.parametrize(
    "change",
    [
        lambda holdings: holdings.pop("HPG"),
        lambda holdings: holdings.clear(),
        lambda holdings: holdings.update(HPG=Holding("HPG", 9_000, 9_000, 0, 0)),
        lambda holdings: holdings.__setitem__("HPG", Holding("HPG", 9_000, 9_000, 0, 0)),
        lambda holdings: holdings.__ior__({"HPG": Holding("HPG", 9_000, 9_000, 0, 0)}),
        lambda holdings: setattr(holdings["HPG"], "sellable", 9_000),
    ],
)
def test_a_strategy_changes_nothing_of_the_account_that_it_is_shown(change):
    stage = Stage(sellable=1_000)
    before = copy.deepcopy(stage.engine._state.accounts[ACCOUNT])

    def spoil(strategy):
        with suppress(AttributeError, TypeError):
            change(strategy.account.holdings)

    stage.request(spoil)

    assert stage.engine._state.accounts[ACCOUNT] == before


@pytest.mark.parametrize(
    ("made", "flaw"),
    [
        ({"quantity": 10**30}, "quantity must be at most 1,000,000,000,000"),
        ({"quantity": -(10**30)}, "quantity must be at most 1,000,000,000,000"),
        ({"quantity": 100.0}, "quantity must be a whole number, not float"),
        ({"quantity": math.nan}, "quantity must be a whole number, not float"),
        ({"quantity": math.inf}, "quantity must be a whole number, not float"),
        ({"quantity": True}, "quantity must be a whole number, not bool"),
        ({"quantity": "100"}, "quantity must be a whole number, not str"),
        ({"limit": math.nan}, "limit must be a whole number, not float"),
        ({"limit": 27_000.0}, "limit must be a whole number, not float"),
        ({"limit": 10**30}, "limit must be at most 1,000,000,000,000"),
        ({"limit": FROM_FILE, "market": "MTL"}, "market must be a market type, not str"),
        ({"market": OrderType.MTL}, "it has both limit and market"),
        ({"why": 5}, "why must be a text, not int"),
        ({"why": "x" * 3_000_000}, "why must have at most 1,000 characters"),
        ({"kind": "short"}, "kind must be a RequestKind, not str"),
        ({"kind": "close"}, "kind must be a RequestKind, not str"),
        ({"kind": None}, "kind must be a RequestKind, not NoneType"),
        ({"kind": ["buy"]}, "kind must be a RequestKind, not list"),
        ({"kind": RequestKind.SKIP, "why": "x" * 3_000_000}, "why must have at most 1,000"),
    ],
)
def test_a_hand_made_request_is_held_to_what_the_methods_let_through(made, flaw):
    request = Request(**{"kind": RequestKind.BUY, "quantity": 100, "limit": 27_000, **made})
    stage = Stage()

    stage.request(lambda s: s.buy(100, limit=27_000), lambda s: s.context.requests.append(request))

    assert stage.decided() == (Verdict.FAILED, "EXCEPTION")
    assert flaw in stage.last(Decision).why
    assert stage.all(PlaceOrder) == []
    assert stage.engine.status().state is RunState.RUNNING
    stage.after(5).quote()
    assert stage.buy().quantity == 100


def test_a_hand_made_request_of_less_than_nothing_is_refused_once():
    stage = Stage()

    stage.request(lambda s: s.context.requests.append(Request(RequestKind.BUY, -100, 27_000)))

    assert stage.decided() == (Verdict.BLOCKED, "SIZE")
    assert stage.all(PlaceOrder) == []


def test_an_operator_turns_a_disabled_strategy_on_again():
    stage = Stage()
    stage.fault = FAULT
    for _ in range(3):
        stage.request()
    stage.fault = None

    stage.handle(OperatorActed(stage.now, Action.RESUME, "repaired", "me", strategy="test"))

    assert stage.buy().intent_id == "L-0001"


def test_others_are_not_affected_by_a_broken_one():
    class Broken(Strategy):
        def on_quote(self, _quote):
            raise AssertionError

    class Sound(Strategy):
        def on_quote(self, _quote):
            self.skip("sound")

    def invoke(strategy, hook, argument):
        return FAULT if type(strategy) is Broken else invoke_plainly(strategy, hook, argument)

    wake = Wake(quote=timedelta(seconds=1))
    stage = Stage(is_open=False)
    stage.engine = Engine(
        rulebook=RULEBOOK,
        strategies=[
            LoadedStrategy(replace(PLAN, name=name, wake=wake), factory, (HPG,))
            for name, factory in [("broken", Broken), ("sound", Sound)]
        ],
        settings=EngineSettings(),
        invoke=invoke,
    )
    stage.open()

    for _ in range(4):
        stage.after(1).quote()

    verdicts = [(one.strategy, one.verdict) for one in stage.all(Decision)]
    assert verdicts.count(("broken", Verdict.FAILED)) == 3
    assert verdicts.count(("sound", Verdict.SKIPPED)) == 5


def test_a_skip_and_a_silent_call_are_both_journalled():
    stage = Stage()

    stage.request(lambda s: s.skip("too quiet"))
    assert (stage.decided(), stage.last(Decision).why) == (("SKIPPED", "SKIP"), "too quiet")
    stage.request()

    assert stage.decided() == (Verdict.SKIPPED, "NO_SIGNAL")


@pytest.mark.parametrize(("seconds", "calls"), [(1, 2), (4, 6), (5, 9), (6, 9)])
def test_a_strategy_wakes_at_its_own_interval(seconds, calls):
    seen = []
    plan = replace(PLAN, wake=Wake(quote=timedelta(seconds=5)))
    stage = Stage(plan, hooks={"on_quote": lambda _, quote: seen.append(quote)})

    for _ in range(8):
        stage.after(seconds).quote()

    assert len(seen) == calls


def test_what_wakes_a_little_early_wakes_no_more_often():
    seen = []
    plan = replace(PLAN, wake=Wake(depth=timedelta(minutes=1)))
    stage = Stage(plan, hooks={"on_depth": lambda self, _: seen.append((self.now - START).seconds)})

    for _ in range(30):  # read for the prices of orders, every 10 s
        stage.after(10).depth()

    assert seen == [10, 60, 120, 180, 240, 300]


def test_a_new_phase_is_noted_once_and_wakes_who_asked():
    seen = []
    plan = replace(PLAN, wake=Wake(on_phase=True))
    stage = Stage(plan, hooks={"on_session": lambda _, phase: seen.append(phase)})

    for _ in range(2):
        stage.phase(Phase.BREAK)
        stage.handle(PhaseChanged(stage.now, Exchange.HNX, Phase.BREAK))

    assert seen == [Phase.BREAK]
    phases = [note.text for note in stage.all(Note) if note.kind == "PHASE"]
    assert phases[-2:] == ["HOSE lunch break", "HNX lunch break"]


def test_a_new_phase_in_which_a_strategy_requests_nothing_is_a_decision_too():
    plan = replace(PLAN, wake=Wake(on_phase=True))
    stage = Stage(plan, hooks={"on_session": lambda _, _phase: None})

    stage.phase(Phase.BREAK)

    assert stage.decided() == (Verdict.SKIPPED, "NO_SIGNAL")
    assert stage.new(Decision)[-1].why == "no reason given in on_session"


def test_a_strategy_sees_its_position_account_and_market():
    stage = Stage(sellable=300)
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    stage.depth(26_950, 27_000)
    seen: list[Any] = []

    stage.request(lambda s: seen.append((s.position, s.account, s.quote, s.depth, s.phase, s.now)))

    position, account, quote, depth, phase, now = seen[0]
    assert (position.qty, position.sellable, position.average_price) == (200, 200, 27_000)
    assert bool(position)
    assert account.holdings["HPG"].total == 300
    assert account.cash == 100_000_000 - 5_400_000 - RULEBOOK.fee(5_400_000)
    assert (quote.last, depth.ask, phase, now) == (27_000, 27_000, Phase.PROGRESS, stage.now)


def test_what_a_shell_notes_is_journalled():
    stage = Stage()
    note = Note(stage.now, "LIMIT", "broker 429, waiting")

    stage.handle(Noted(stage.now, note))

    assert stage.new(Note) == [note]


# ------------------------------------------------------------------- hooks of a settled event


def test_a_strategy_that_orders_again_in_on_reject_of_a_lost_place_stops_nothing():
    stage = Stage(hooks={"on_reject": lambda s, _: s.buy(200, limit=26_900, why="again")})
    intent = stage.buy()
    stage.send(intent)
    stage.answer(intent, Unknown("lost"))
    stage.handle(NonceBurnt(stage.now, intent.intent_id, Resolution.FRESH, "unused"))

    for _ in range(4):
        stage.after(60).quote()
        stage.book()

    moves = [(one.intent_id, one.to_state) for one in stage.all(IntentMoved)]
    assert moves[-1] == ("L-0001", SendState.NOT_PLACED)
    assert [one.intent.intent_id for one in stage.all(PlaceOrder)] == ["L-0001", "L-0002"]


def _selling(count: int, hook: Callable[..., None]) -> tuple[Stage, list[OrderReport]]:
    """A stage with some sales at work, and the rows that show each of them filled."""
    held = RecoveredStrategy({"HPG": (500, 13_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    stage = Stage(recovery=recovery, sellable=500, hooks={"on_fill": hook})
    prices = [27_000 + 50 * number for number in range(count)]
    stage.request(*(partial(Strategy.sell, quantity=100, limit=price) for price in prices))
    intents = [one.intent for one in stage.new(PlaceOrder)]
    for intent in intents:
        stage.accept(intent, f"ORD{intent.intent_id}")
    stage.after(1)
    return stage, [report_of(one, f"ORD{one.intent_id}", executed=100) for one in intents]


def test_on_fill_of_the_first_of_two_fills_sees_both():
    seen = []
    stage, rows = _selling(2, lambda s, fill: seen.append((fill.quantity, s.position.qty)))

    stage.book(*rows)

    assert seen == [(100, 300), (100, 300)]


def test_what_a_hook_requests_comes_after_all_that_the_event_records():
    stage, rows = _selling(2, lambda s, _: s.skip("seen"))

    stage.book(*rows)

    assert [type(one) for one in stage.news() if isinstance(one, Fill | Decision)] == [
        Fill,
        Fill,
        Decision,
        Decision,
    ]


def _with_bars(read: Callable[[Strategy, Any], None]) -> Stage:
    plan = replace(PLAN, wake=Wake(bar=timedelta(minutes=1)))
    return Stage(plan, hooks={"on_bar": read})


def test_each_of_two_bars_of_one_event_is_seen_with_its_own_indicators():
    seen = []
    stage = _with_bars(lambda _, bar: seen.append((bar.close, float(bar.sma(2)))))
    stage.after(60).quote(27_000)
    stage.after(60).quote(28_000)

    whole = Bar("HPG", START + timedelta(minutes=3), 60, 26_000, 26_000, 26_000, 26_000, 100)
    stage.after(120).handle(BarClosed(stage.now, whole))

    assert seen[-2:] == [(28_000, 27_500.0), (26_000, 27_000.0)]


def test_a_strategy_that_has_been_disabled_hears_the_rest_of_the_event_no_more():
    seen = []
    stage, rows = _selling(5, lambda _, fill: seen.append(fill))
    stage.fault = FAULT

    stage.book(*rows)

    assert len(seen) == 3
    assert len(stage.new(Fill)) == 5
    assert stage.last(StrategySwitched).state == "disabled"


def _state(hooks: dict[str, object], invoke: Invoke) -> tuple[State, StrategyState, Instance]:
    book = State(
        rulebook=RULEBOOK,
        strategies=[LoadedStrategy(PLAN, type("Ours", (Strategy,), hooks), (HPG,))],
        settings=EngineSettings(),
        invoke=invoke,
    )
    gate.lift(book, RunState.STARTING, "", "")
    return book, *book.instances["HPG"][0]


def test_a_strategy_whose_hooks_lead_to_one_another_without_end_is_disabled():
    book, strategy, instance = _state(
        {"on_stop": print}, lambda *_: wake.wake(book, strategy, instance, "on_stop", None)
    )
    wake.wake(book, strategy, instance, "on_stop", None)

    wake.call_hooks(book)

    assert (strategy.state, list(book.due_hooks)) == ("disabled", [])
    assert strategy.state_reason == "its hooks led to one another 20 times, the last was on_stop"
    assert [each.code for each in hook_faults.alerts(book)] == ["STRATEGY_DISABLED"]
    entries = [each.entry for each in book._records if isinstance(each, Record)]
    notes = [each for each in entries if isinstance(each, Note)]
    assert [one.numbers["alert"] for one in notes] == ["STRATEGY_DISABLED"]


def test_hooks_that_yield_stay_due_in_their_order_and_an_operator_comes_before_them():
    seen: list[str] = []
    hooks: dict[str, object] = {"on_timer": lambda self, _: seen.append(self.symbol)}
    symbols = ("HPG", "SSI", "VCB")
    listed = tuple(replace(HPG, symbol=each) for each in symbols)
    slow = LoadedStrategy(replace(PLAN, symbols=symbols), type("Slow", (Strategy,), hooks), listed)
    engine = Engine(
        rulebook=RULEBOOK,
        strategies=[slow],
        settings=EngineSettings(),
        invoke=invoke_plainly,
        must_yield=lambda: True,
    )
    engine.handle(Recovered(START, Recovery(START.date())))
    engine.handle(Reconciled(START))

    engine.handle(TimerFired(START, PLAN.name, time(9, 30)))
    assert (seen, engine.is_behind) == (["HPG"], True)
    engine.go_on()
    assert seen == ["HPG", "SSI"]
    commands = engine.handle(OperatorActed(START, Action.HALT, "stop it", "operator"))

    assert (seen, engine.is_behind) == (["HPG", "SSI"], False)
    assert engine.status().state == "HALTED"
    assert commands


def test_a_stop_waits_for_the_hooks_that_are_due():
    symbols = ("HPG", "SSI", "VCB")
    listed = tuple(replace(HPG, symbol=each) for each in symbols)
    said: list[str] = []
    hooks: dict[str, object] = {"on_stop": lambda self: said.append(self.symbol)}
    engine = Engine(
        rulebook=RULEBOOK,
        strategies=[
            LoadedStrategy(replace(PLAN, symbols=symbols), type("Slow", (Strategy,), hooks), listed)
        ],
        settings=EngineSettings(),
        invoke=invoke_plainly,
        must_yield=lambda: True,
    )
    engine.handle(Recovered(START, Recovery(START.date())))
    engine.handle(Reconciled(START))

    commands = engine.handle(OperatorActed(START, Action.STOP, "enough", "operator"))
    assert not any(isinstance(each, StopRunning) for each in commands)
    engine.go_on()
    commands = engine.go_on()

    assert said == list(symbols)
    assert any(isinstance(each, StopRunning) for each in commands)


def test_a_view_of_the_depth_notes_what_is_read_from_it_whichever_hook_came_before():
    hooks: dict[str, object] = {
        "on_stop": lambda _: None,
        "on_depth": lambda _, depth: depth.bid_volume(1) and None,
    }
    book, strategy, instance = _state(hooks, invoke_plainly)
    depth = Depth("HPG", (DepthLevel(26_950, 5_000),), (), START)
    wake.wake(book, strategy, instance, "on_stop", None)
    wake.wake(book, strategy, instance, "on_depth", DepthView(depth, instance.context.reads))

    wake.call_hooks(book)

    recorded = [one.entry for one in book.drain() if isinstance(one, Record)]
    assert [one.why for one in recorded if isinstance(one, Decision)] == ["bids 5,000"]


@pytest.mark.parametrize("strategy", [None, "test"])
def test_a_strategy_that_a_halt_kept_from_starting_starts_before_it_is_first_woken(strategy):
    seen = []
    hooks: dict[str, object] = {
        "on_start": lambda _: seen.append("start"),
        "on_timer": lambda _, __: seen.append("timer"),
    }
    book = RecoveredStrategy({}, 0, 0, 0, "disabled" if strategy else "on")
    run_state = RunState.RUNNING if strategy else RunState.HALTED
    recovery = Recovery(DAY, run_state=run_state, strategies={"test": book})
    stage = Stage(recovery=recovery, hooks=hooks)
    stage.request()
    assert seen == []

    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked", "me", strategy=strategy))
    stage.request()
    stage.request()

    assert seen == ["start", "timer", "timer"]


def test_a_strategy_that_hangs_in_a_start_that_was_put_off_hears_nothing_more():
    class Hangs(Stage):
        def _invoke(self, strategy, hook, argument):
            called.append(hook)
            return STUCK if hook == "on_start" else super()._invoke(strategy, hook, argument)

    called = list[str]()
    hooks: dict[str, object] = {"on_start": lambda _: None}
    known = {"test": RecoveredStrategy({}, 0, 0, 0, "on")}
    recovery = Recovery(DAY, run_state=RunState.HALTED, strategies=known)
    stage = Hangs(recovery=recovery, hooks=hooks)
    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked", "me", strategy=None))

    stage.request(lambda s: s.buy(100, why="y"))

    assert called == ["on_start"]


@pytest.mark.parametrize(("late_s", "is_missed"), [(30, False), (31, True)])
def test_a_timer_that_had_to_wait_here_for_long_is_told_and_wakes_nobody(late_s, is_missed):
    stage, due = Stage(), START + timedelta(minutes=5)
    stage.now = due
    stage.pass_time(late_s)  # as while the journal was out of reach: only the market waits for it
    stage.quote()
    stage._requesters.append(lambda s: s.buy(100, limit=27_000, why="at its time"))

    stage.handle(TimerFired(due, "test", time(9, 25)))

    assert bool(stage.new(PlaceOrder)) is not is_missed
    told = [note for note in stage.new(Note) if note.kind == "MISSED"]
    assert [note.numbers["job"] for note in told] == ["timer test 09:25:00"] * is_missed
    assert all(note.text.startswith("timer test 09:25:00, due ") for note in told)
