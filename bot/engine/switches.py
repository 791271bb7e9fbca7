"""Turns a strategy on, to paused or off."""

from typing import Final

from bot.domain.entry import StrategySwitched
from bot.domain.order import Side
from bot.engine.risk.checks import tighter
from bot.engine.risk.profit import day_result
from bot.engine.state import State
from bot.engine.tracked import StrategyState

ON: Final = "on"
PAUSED: Final = "paused"
DISABLED: Final = "disabled"
BY_LIMIT: Final = "limit"


def switch(state: State, strategy: StrategyState, to_state: str, reason: str, by: str) -> None:
    """Journal the switch when it is a change; the count of faults begins again."""
    if strategy.state == to_state:
        return
    strategy.state, strategy.state_reason, strategy.state_by = to_state, reason, by
    strategy.faults = 0
    state.record(StrategySwitched(state.now, strategy.plan.name, to_state, reason, by))


def objection(strategy: StrategyState, side: Side) -> str | None:
    """Return why no order of a strategy may leave; None: it may.

    A sale may also after the strategy's own limit has paused it: the limit lets exits through.
    """
    is_exit = side is Side.SELL
    if strategy.state == ON or (
        is_exit and (strategy.state, strategy.state_by) == (PAUSED, BY_LIMIT)
    ):
        return None
    reason = f": {strategy.state_reason}" if strategy.state_reason else ""
    return f"{strategy.plan.name} is {strategy.state}{reason}"


def pause_after_loss(state: State, strategy: StrategyState) -> None:
    """Pause a strategy whose loss of today has reached its limit."""
    limit = tighter(strategy.plan.limits, state.settings.limits).max_loss_per_day
    loss = -day_result(state, strategy)
    if limit is not None and loss >= limit and strategy.state == ON:
        switch(state, strategy, PAUSED, f"day loss {loss:,} of {limit:,}", BY_LIMIT)
