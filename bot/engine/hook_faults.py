"""What disables a strategy: hooks that fail thrice, one that hangs, one that requests without end.

A fault disables its strategy and no other. Nothing that was asked for in the faulty call is taken.
Nobody sells what a disabled strategy holds, so a person is told at once, and as long as it lasts.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from bot.domain.entry import Decision, Numbers, Verdict
from bot.engine.control_state import BY_ENGINE, Standing
from bot.engine.gate import BY_LIMIT, DISABLED, switch
from bot.engine.settings import StrategyFault
from bot.engine.state import Instance, State, StrategyState
from bot.strategy import Request, RequestKind

REQUESTS_MAX: Final = 100
"""How many requests of one call are accepted; a plug-in with more is in a loop."""
REQUESTS_PER_SECOND_MAX: Final = 500
REQUESTS_OF_SYMBOL_MAX: Final = 10
"""How many requests a strategy may make within a second: so many, or so many for each of its
symbols where that is more. Quotes come once a second: whoever has more to say runs away.
"""
_SECOND: Final = timedelta(seconds=1)


def count_fault(
    state: State, strategy: StrategyState, symbol: str, hook: str, fault: StrategyFault
) -> None:
    """Journal a fault; the third one disables the strategy until an operator resumes it."""
    strategy.faults += 1
    state.counts["faults"] += 1
    code = "OVERRUN" if fault.is_overrun else "EXCEPTION"
    why, name = f"{hook}: {fault.error}", strategy.plan.name
    if hook == "on_start" and not fault.is_overrun:
        strategy.instances[symbol].start_error = fault.error
    numbers = {"faults": strategy.faults, "faults_max": state.settings.faults_until_disabled}
    state.record(Decision(state.now, name, symbol, Verdict.FAILED, code, why, numbers))
    if strategy.faults >= state.settings.faults_until_disabled:
        disable(state, strategy, f"{strategy.faults} faults, the last in {why}")


def disable(state: State, strategy: StrategyState, why: str) -> None:
    """Disable a strategy until an operator resumes it, and tell a person."""
    if strategy.state == DISABLED:
        return
    switch(state, strategy, DISABLED, why, BY_ENGINE)
    told = _standing(state, strategy)
    state.alert(told.code, told.text, told.facts)


def alerts(state: State) -> Iterator[Standing]:
    """Yield which strategies are disabled, by whatever but a person, and which go on although
    their `on_start` failed.
    """
    for strategy in state.strategies.values():
        if strategy.state != DISABLED:
            failed = [each for each in strategy.instances.values() if each.start_error]
            yield from map(partial(_half_started, strategy), failed)
        elif strategy.state_by in (BY_ENGINE, BY_LIMIT):
            yield _standing(state, strategy)


def _half_started(strategy: StrategyState, instance: Instance) -> Standing:
    name, symbol, error = strategy.plan.name, instance.symbol, instance.start_error
    text = (
        f"{name} goes on although its on_start of {symbol} failed: {error}. What that prepares may "
        "be missing, so it may decide wrongly; its limits hold. Mend its file and start the bot "
        f"again; to keep it still until then: bot strategy disable {name}"
    )
    facts: Numbers = {"strategy": name, "symbol": symbol, "error": error}
    return Standing("STRATEGY_HALF_STARTED", text, facts)


def _standing(state: State, strategy: StrategyState) -> Standing:
    name, why = strategy.plan.name, strategy.state_reason
    shares = sorted((symbol, each.shares) for symbol, each in strategy.positions.items())
    held = ", ".join(f"{count:,} {symbol}" for symbol, count in shares if count)
    names = [each.name for each in state.open_orders() if each.row.strategy == name]
    intents = (each.intent for each in state.pending_intents())
    names += [each.intent_id for each in intents if each.strategy == name]
    orders = ", ".join(names)
    text = (
        f"{name} is disabled: {why}. It decides nothing: its shares ({held or 'none'}) stay, and "
        f"no strategy sells them; its open orders ({orders or 'none'}) stay too; other strategies "
        "go on. Look at bot orders and at its file, which is read again when the bot starts; then: "
        f"bot strategy enable {name}"
    )
    facts: Numbers = {"strategy": name, "why": why, "held": held or 0, "orders": orders or 0}
    return Standing("STRATEGY_DISABLED", text, facts)


def disable_stuck(
    state: State, strategy: StrategyState, symbol: str, hook: str, fault: StrategyFault
) -> None:
    """Journal a hook that had to be interrupted. Once is enough: nobody else had a turn meanwhile,
    and the strategy's work is half done.
    """
    why, name = f"{hook}: {fault.error}", strategy.plan.name
    if hook == "on_start":
        strategy.instances[symbol].start_error = fault.error
    _fail(state, strategy, symbol, "STUCK", why)
    text = (
        f"{name} is disabled: its {hook} of {symbol} {fault.error}. Nothing that it asked for there"
        " was sent; its open orders stay, other strategies go on. Mend its file and start the bot"
        f" again, unless it was the machine; then: bot resume --strategy {name}"
    )
    facts: Numbers = {"strategy": name, "hook": hook, "symbol": symbol, "error": fault.error}
    state.alert("STRATEGY_STUCK", text, facts, symbol=symbol)
    switch(state, strategy, DISABLED, why, "engine")


def runs_away(state: State, strategy: StrategyState, wanted: Sequence[Request]) -> bool:
    """Count what a call requests; return whether it is too much for one call or one second."""
    if strategy.asked_since is None or state.now - strategy.asked_since >= _SECOND:
        strategy.asked_since, strategy.asked_of_late = state.now, 0
    strategy.asked_of_late += sum(each.kind is not RequestKind.SKIP for each in wanted)
    most = max(REQUESTS_PER_SECOND_MAX, REQUESTS_OF_SYMBOL_MAX * len(strategy.instances))
    return len(wanted) > REQUESTS_MAX or strategy.asked_of_late > most


def disable_runaway(
    state: State, strategy: StrategyState, symbol: str, hook: str, count: int
) -> None:
    """Journal that a hook makes endless requests; one row is enough: limits hold the orders back,
    but each request costs the others time, and three seconds of them are thousands.
    """
    name, asked = strategy.plan.name, max(count, strategy.asked_of_late)
    _fail(state, strategy, symbol, "RUNAWAY", why := f"{hook}: {asked:,} requests within a second")
    text = (
        f"{name} is disabled: it made {asked:,} requests within a second, the last in {hook} of "
        f"{symbol}. Nothing that it asked for there was sent; its open orders stay, other "
        "strategies go on. Look at bot orders, mend its file and start the bot again; then: bot "
        f"strategy enable {name}"
    )
    facts: Numbers = {"strategy": name, "hook": hook, "symbol": symbol, "count": asked}
    state.alert("STRATEGY_RUNAWAY", text, facts, symbol=symbol)
    switch(state, strategy, DISABLED, why, "engine")


def _fail(state: State, strategy: StrategyState, symbol: str, code: str, why: str) -> None:
    state.counts["faults"] += 1
    verdict, name = Verdict.FAILED, strategy.plan.name
    state.record(Decision(state.now, name, symbol, verdict, code, why, {}))
