"""Each shipped strategy over real bars: the same in both gears, or in the slow one, which is said.

VNBOT_MARKET_DATA may name a folder of recorded days; else it is the shipped simulated data set.
"""

import os
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import pytest

from bot.config.problems import OperatorMistake
from bot.config.strategies.plugins import find_strategy
from bot.domain.instrument import Exchange, Instrument
from bot.domain.plan import Limits, OrderPlan, StrategyMode, StrategyPlan, Wake, When
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.backtest.run import run_backtest
from bot.runtime.history.store.simulated import SAMPLE
from bot.runtime.history.store.store import open_bars
from tests.runtime.history.backtest.gears import SLOW, first_difference, played, spec_of

RECORDED: Final = os.environ.get("VNBOT_MARKET_DATA")
FIRST: Final = date(2025, 5, 6) if RECORDED else date(2026, 11, 3)
LAST: Final = date(2025, 5, 30) if RECORDED else date(2026, 11, 13)
SYMBOLS: Final = {"FPT": Exchange.HOSE, "HPG": Exchange.HOSE, "SHS": Exchange.HNX}
WAKES: Final = {
    "sma_cross": Wake(bar=timedelta(minutes=5)),
    "depth_imbalance": Wake(depth=timedelta(seconds=30)),
    "drill_trader": Wake(quote=timedelta(minutes=1)),
}


def _spec_of(name: str, first: date, last: date) -> BacktestSpec:
    """Let a shipped strategy trade three symbols."""
    plan = StrategyPlan(
        name="mine",
        use=name,
        symbols=tuple(SYMBOLS),
        account="",
        mode=StrategyMode.TRADE,
        parameters={},
        wake=WAKES[name],
        when=When(),
        order=OrderPlan(),
        limits=Limits(),
    )
    instruments = tuple(Instrument(*each) for each in SYMBOLS.items())
    return replace(
        spec_of(3),
        strategies=(LoadedStrategy(plan, find_strategy(name, Path("config")), instruments),),
        source=open_bars(Path(RECORDED or SAMPLE)),
        first=first,
        last=last,
        cash=1_000_000_000,
        holdings={},
    )


def test_each_shipped_strategy_is_played_here() -> None:
    assert {each.stem for each in Path("strategies").glob("*.py")} == set(WAKES)


@pytest.mark.timeout(300)
def test_sma_cross_is_the_same_in_both_gears() -> None:
    spec = _spec_of("sma_cross", FIRST, LAST)

    slow, fast = played(spec, SLOW), played(spec)

    assert first_difference(slow, fast) == ""
    assert run_backtest(spec).why_slow == ""
    assert {each.symbol for each in slow[0].fills} == set(SYMBOLS)


def test_drill_trader_needs_the_slow_gear_and_its_result_says_why() -> None:
    result = run_backtest(_spec_of("drill_trader", LAST, LAST))

    assert result.why_slow == "mine wakes by each quote (wake.quote), not by bars alone"
    assert result.fills


def test_depth_imbalance_needs_a_recording_and_is_told_so() -> None:
    with pytest.raises(OperatorMistake) as refused:
        run_backtest(_spec_of("depth_imbalance", LAST, LAST))

    [problem] = refused.value.problems
    assert problem.head.endswith(
        "E-BT-005 'wake.depth': bars hold no depth. Name a recorded day (--data STATE_DIR/recorded,"
        " of a run with record: on), or wake it by bar"
    )
