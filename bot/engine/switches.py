"""Turns a strategy on, to paused or off."""

from typing import Final

from bot.domain.entry import StrategySwitched
from bot.domain.order import Side
from bot.engine.risk.checks import tighter
from bot.engine.risk.profit import day_result
from bot.engine.state import Book
from bot.engine.tracks import Runner

ON: Final = "on"
PAUSED: Final = "paused"
DISABLED: Final = "disabled"
BY_LIMIT: Final = "limit"


def switch(book: Book, runner: Runner, state: str, reason: str, by: str) -> None:
    """Journal the switch when it is a change; the count of faults begins again."""
    if runner.state == state:
        return
    runner.state, runner.state_reason, runner.state_by = state, reason, by
    runner.faults = 0
    book.record(StrategySwitched(book.now, runner.plan.name, state, reason, by))


def objection(runner: Runner, side: Side) -> str | None:
    """Return why no order of a strategy may leave; None: it may.

    A sale may also after the strategy's own limit has paused it: the limit lets exits through.
    """
    is_exit = side is Side.SELL
    if runner.state == ON or (is_exit and (runner.state, runner.state_by) == (PAUSED, BY_LIMIT)):
        return None
    reason = f": {runner.state_reason}" if runner.state_reason else ""
    return f"{runner.plan.name} is {runner.state}{reason}"


def pause_after_loss(book: Book, runner: Runner) -> None:
    """Pause a strategy whose loss of today has reached its limit."""
    limit = tighter(runner.plan.limits, book.settings.limits).max_loss_per_day
    loss = -day_result(book, runner)
    if limit is not None and loss >= limit and runner.state == ON:
        switch(book, runner, PAUSED, f"day loss {loss:,} of {limit:,}", BY_LIMIT)
