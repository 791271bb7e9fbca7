"""Wakes strategies and takes their requests. A broken strategy stops itself, not the others.

Whatever an event changes first settles; a handler only says which hooks are due (`wake`), and
`call_hooks` calls them afterwards, one by one, each with what is true at its turn. So no request of
a strategy can change what a handler is in the middle of.

Every call of a market hook ends in at least one decision: the requests, or a skip that names what
was looked at. A call that read an indicator without enough history is a skip `warming`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.domain.entry import Decision, Numbers, Verdict
from bot.engine import requests, warming
from bot.engine.bars import bars_of
from bot.engine.gate import DISABLED, ON, guarded, switch
from bot.engine.risk.accounts import Means, means_of
from bot.engine.settings import StrategyFault
from bot.engine.state import State
from bot.engine.tracked import HookCall, Instance, StrategyState
from bot.strategy import AccountView, PositionView, Reads, RequestKind, Strategy

MARKET_HOOKS: Final = frozenset({"on_bar", "on_quote", "on_depth", "on_timer"})
ORDER_NEWS: Final = frozenset({"on_fill", "on_reject"})
NEWS_HOOKS: Final = ORDER_NEWS | {"on_stop"}
HOOK_ROUNDS_MAX: Final = 20
"""How often hooks of one event may lead to hooks again."""
REQUESTS_MAX: Final = 100
"""How many requests of one call are taken; a plug-in with more is in a loop."""

MustYield = Callable[[], bool]
"""Says whether somebody else should have a turn before the next hook."""


def is_time(state: State, instance: Instance, hook: str, interval: timedelta | None) -> bool:
    """True once per `interval`; a quarter of it is forgiven, as polls come a little early."""
    last = instance.woken_at.get(hook)
    if interval is None or (last is not None and (state.now - last) * 4 < interval * 3):
        return False
    instance.woken_at[hook] = state.now
    return True


def wake(
    state: State,
    strategy: StrategyState,
    instance: Instance,
    hook: str,
    argument: object | None,
) -> None:
    """Have a hook called once the event's state has settled, if the plug-in has one.

    News of orders waits until the day is reconciled: before that the plug-in has not started.
    """
    if getattr(type(instance.strategy), hook) is not getattr(Strategy, hook):
        call = HookCall(strategy, instance, hook, argument, state.hook_round + 1)
        is_early = hook in ORDER_NEWS and not state.is_reconciled
        (state.early_news if is_early else state.due_hooks).append(call)


def never() -> bool:
    """Let every hook have its turn at once: nobody else waits for one."""
    return False


def call_hooks(state: State, must_yield: MustYield = never) -> None:
    """Call the hooks that are due, in the order in which they became so, then those that came of
    them. A strategy whose hooks go on leading to one another is disabled.

    The market wakes a strategy only while it and the bot are on; news of its own orders reaches it
    while it is paused, too. After a hook, `must_yield` may keep the others due for a later turn.
    """
    while state.due_hooks:
        each = state.due_hooks.popleft()
        if each.round > HOOK_ROUNDS_MAX:
            why = f"its hooks led to one another {HOOK_ROUNDS_MAX} times, the last was {each.hook}"
            switch(state, each.strategy, DISABLED, why, "engine")
            continue
        now_is = each.strategy.state
        is_heard = now_is == ON and not state.gate.is_asleep
        if each.hook in NEWS_HOOKS:
            is_heard = now_is != DISABLED
        if is_heard:
            state.hook_round = each.round
            guarded(state, f"{each.hook} of {each.strategy.plan.name}", _call, state, each)
            state.hook_round = 0
            if must_yield():
                return


def _call(state: State, due: HookCall) -> None:
    """Call a hook and judge what came of it.

    A strategy that a halt or a pause has kept from starting starts when it is first woken. The
    first request is judged by the means that the hook has seen; each further one by what those
    before it have left.
    """
    strategy, instance, hook = due.strategy, due.instance, due.hook
    if not instance.has_started:
        has_start = type(instance.strategy).on_start is not Strategy.on_start
        if hook == "on_stop" and has_start:
            return  # what never started has nothing to end
        instance.has_started = True
        if hook != "on_start" and has_start:
            _call(state, replace(due, hook="on_start", argument=None))
    context, symbol = instance.context, instance.symbol
    means = means_of(state, strategy, symbol)
    show(state, strategy, instance, means)
    fault = state.invoke(instance.strategy, hook, due.argument)
    wanted, reads = context.requests, dict(context.reads)
    context.requests = []
    context.reads.clear()
    cold = [name for name, value in reads.items() if math.isnan(value)]
    if hook in MARKET_HOOKS and reads:
        instance.bars_needed = max(map(bars_of, cold), default=0)
    if fault is not None and fault.is_stuck:
        _disable_stuck(state, strategy, symbol, hook, fault)
    elif cold and not (fault and fault.is_overrun):
        why = f"not enough bars yet for {', '.join(map(_named, cold))}"
        warming.note_wait(state, strategy, instance, why)
    elif fault is not None:
        _count_fault(state, strategy, symbol, hook, fault)
    elif len(wanted) > REQUESTS_MAX:
        error = f"{len(wanted):,} requests in one call, at most {REQUESTS_MAX} are taken: none was"
        fault = StrategyFault(error, is_overrun=False)
        _count_fault(state, strategy, symbol, hook, fault)
    elif not wanted and hook in MARKET_HOOKS:
        requests.note_skip(state, strategy, symbol, "NO_SIGNAL", reason_of(reads, hook), reads)
    else:
        for number, request in enumerate(wanted):
            why = request.why or reason_of(reads, hook)
            if request.kind is RequestKind.SKIP and reads:
                requests.note_skip(state, strategy, symbol, "SKIP", why, reads)
                continue
            means = means_of(state, strategy, symbol) if number else means
            requests.consider(state, strategy, symbol, request, means, why=why)


def show(state: State, strategy: StrategyState, instance: Instance, means: Means) -> None:
    """Put before the instance what it may look at."""
    context, symbol = instance.context, instance.symbol
    quote, depth = state.quotes.get(symbol), state.depths.get(symbol)
    instrument, snapshot = state.instruments.get(symbol), state.accounts.get(strategy.plan.account)
    position = strategy.position(symbol)
    context.now = state.now
    context.quote = quote.quote if quote else None
    context.depth = depth.depth if depth else None
    context.phase = state.phase_of(instrument.exchange).phase if instrument else None
    context.position = PositionView(position.shares, means.sellable, position.cost)
    context.account = AccountView(means.cash or 0, snapshot.holdings if snapshot else {})
    context.requests = []


def reason_of(reads: Reads, hook: str) -> str:
    """Return the default reason: the values that were looked at in this call.

    `SMA5 131,720 below SMA20 131,735`, `bids 33,200, asks 41,400`.
    """
    values = [
        f"{_named(name)} {value:,.0f}" if abs(value) >= 1_000 else f"{_named(name)} {value:,.2f}"
        for name, value in reads.items()
    ]
    if len(values) == 2 and len({name.partition("(")[0] for name in reads}) == 1:
        one, other = reads.values()
        return f" {'above' if one > other else 'below'} ".join(values)
    return ", ".join(values) or f"no reason given in {hook}"


def _named(read: str) -> str:
    """`sma(5)` as `SMA5`; the volumes of the depth by their side."""
    name, _, period = read.removesuffix(")").partition("(")
    sides = {"bid_volume": "bids", "ask_volume": "asks"}
    return sides.get(name) or f"{name.upper()}{period}"


def _count_fault(
    state: State, strategy: StrategyState, symbol: str, hook: str, fault: StrategyFault
) -> None:
    """Journal a fault; the third one disables the strategy until an operator resumes it."""
    strategy.faults += 1
    state.counts["faults"] += 1
    code = "OVERRUN" if fault.is_overrun else "EXCEPTION"
    why, name = f"{hook}: {fault.error}", strategy.plan.name
    numbers = {"faults": strategy.faults, "faults_max": state.settings.faults_until_disabled}
    state.record(Decision(state.now, name, symbol, Verdict.FAILED, code, why, numbers))
    if strategy.faults >= state.settings.faults_until_disabled:
        switch(state, strategy, DISABLED, f"{strategy.faults} faults, the last in {why}", "engine")


def _disable_stuck(
    state: State, strategy: StrategyState, symbol: str, hook: str, fault: StrategyFault
) -> None:
    """Journal a hook that had to be interrupted. Once is enough: meanwhile nobody else had a turn,
    and what the strategy was in the middle of is half done.
    """
    why, name = f"{hook}: {fault.error}", strategy.plan.name
    state.counts["faults"] += 1
    state.record(Decision(state.now, name, symbol, Verdict.FAILED, "STUCK", why, {}))
    text = (
        f"{name} is disabled: its {hook} of {symbol} {fault.error}. Nothing that it asked for there"
        " was sent; its open orders stay, other strategies go on. Mend its file and start the bot"
        f" again; or, if it was the machine: bot resume --strategy {name}"
    )
    facts: Numbers = {"strategy": name, "hook": hook, "symbol": symbol, "error": fault.error}
    state.alert("STRATEGY_STUCK", text, facts, symbol=symbol)
    switch(state, strategy, DISABLED, why, "engine")
