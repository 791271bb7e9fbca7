from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.domain.entry import Decision, Note, StrategySwitched, Verdict
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import (
    Action,
    Noted,
    OperatorActed,
    PhaseChanged,
    PlaceOrder,
    StrategyFailed,
)
from bot.domain.plan import Wake
from bot.engine.engine import Engine, EngineSettings, LoadedStrategy, StrategyFault, invoke_plainly
from bot.strategy import Strategy
from tests.engine.stage import HPG, PLAN, RULEBOOK, Stage, report_of

FAULT = StrategyFault("ZeroDivisionError: division by zero (mine.py:7)", is_overrun=False)
SLOW = StrategyFault("took longer than 0.25 s", is_overrun=True)


@pytest.mark.parametrize(("fault", "code"), [(FAULT, "EXCEPTION"), (SLOW, "OVERRUN")])
def test_the_third_fault_disables_the_strategy(fault, code):
    stage = Stage()
    stage.fault = fault

    for _ in range(3):
        stage.wish(lambda s: s.buy(100, limit=27_000))
        assert stage.decided() == (Verdict.FAILED, code)

    assert [one.state for one in stage.all(StrategySwitched)] == ["disabled"]
    assert stage.all(PlaceOrder) == []
    assert stage.wish(lambda s: s.buy(100, limit=27_000)) == []


def test_a_fault_told_later_counts_like_any_other():
    stage = Stage()

    for _ in range(3):
        stage.handle(StrategyFailed(stage.now, "test", "HPG", "on_bar", "late", is_overrun=True))

    assert stage.last(StrategySwitched).state == "disabled"


def test_an_operator_turns_a_disabled_strategy_on_again():
    stage = Stage()
    stage.fault = FAULT
    for _ in range(3):
        stage.wish()
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

    stage.wish(lambda s: s.skip("too quiet"))
    assert (stage.decided(), stage.last(Decision).why) == (("SKIPPED", "SKIP"), "too quiet")
    stage.wish()

    assert stage.decided() == (Verdict.SKIPPED, "NO_SIGNAL")


@pytest.mark.parametrize(("seconds", "calls"), [(1, 3), (4, 9), (5, 9), (6, 9)])
def test_a_strategy_wakes_at_its_own_interval(seconds, calls):
    seen = []
    plan = replace(PLAN, wake=Wake(quote=timedelta(seconds=5)))
    stage = Stage(plan, hooks={"on_quote": lambda _, quote: seen.append(quote)})

    for _ in range(8):
        stage.after(seconds).quote()

    assert len(seen) == calls


def test_a_new_phase_is_noted_once_and_wakes_who_asked():
    seen = []
    plan = replace(PLAN, wake=Wake(on_phase=True))
    stage = Stage(plan, hooks={"on_session": lambda _, phase: seen.append(phase)})

    for _ in range(2):
        stage.phase(Phase.BREAK)
        stage.handle(PhaseChanged(stage.now, Exchange.HNX, Phase.BREAK))

    assert seen == [Phase.BREAK]
    assert stage.all(Note)[-2].text == "HOSE lunch break"


def test_a_strategy_sees_its_position_account_and_market():
    stage = Stage(sellable=300)
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    stage.depth(26_950, 27_000)
    seen: list[Any] = []

    stage.wish(lambda s: seen.append((s.position, s.account, s.quote, s.depth, s.phase, s.now)))

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
