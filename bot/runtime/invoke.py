"""Calls a strategy's hook: timed, and with whatever it raises caught and named.

Strategies are trusted code in our process; a plug-in can do anything, and we say so in the docs.
What this guards against is a mistake: an exception or a slow callback stops its strategy, not the
others.
"""

from typing import Final

from bot.clock import performance_s
from bot.engine.settings import StrategyFault
from bot.strategy import Strategy

BUDGET_S: Final = 0.25
"""A hook that takes longer than this is reported as an overrun."""


def invoke(strategy: Strategy, hook: str, argument: object | None) -> StrategyFault | None:
    """Call `hook`; return what went wrong, None when all is well."""
    call = getattr(strategy, hook)
    started = performance_s()
    try:
        call() if argument is None else call(argument)
    except (Exception, SystemExit) as error:
        return StrategyFault(error=_where(error), is_overrun=False)
    took = performance_s() - started
    if took > BUDGET_S:
        return StrategyFault(error=f"took longer than {BUDGET_S:.2f} s", is_overrun=True)
    return None


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = (
        f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}"
        if trace
        else "?"
    )
    return f"{type(error).__name__}: {error} ({place})"
