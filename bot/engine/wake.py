"""Wakes strategies and takes what they wish for. A broken strategy stops itself, not the others.

Whatever an event changes first settles; a handler only says which hooks are due (`wake`), and
`call_hooks` calls them afterwards, one by one, each with what is true at its turn. So nothing that
a strategy wishes for can change what a handler is in the middle of.

Every call of a market hook ends in at least one decision: the wishes, or a skip that says what was
looked at. A call that read an indicator without enough history is a skip `warming`.
"""

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from bot.domain.entry import Decision, Verdict
from bot.engine import requests
from bot.engine.gate import DISABLED, ON, guarded, switch
from bot.engine.risk.accounts import cash_free, sellable_of
from bot.engine.settings import StrategyFault
from bot.engine.state import State
from bot.engine.tracked import HookCall, Instance, StrategyState
from bot.strategy import AccountView, PositionView, Reads, RequestKind, Strategy

_SIDES: Final = {"bid_volume": "bids", "ask_volume": "asks"}
MARKET_HOOKS: Final = frozenset({"on_bar", "on_quote", "on_depth", "on_timer"})
NEWS_HOOKS: Final = frozenset({"on_fill", "on_reject", "on_stop"})
HOOK_ROUNDS_MAX: Final = 20
"""How often hooks of one event may lead to hooks again."""
REQUESTS_MAX: Final = 100
"""How many wishes of one call are heard; a plug-in with more is in a loop."""


def seats_of(state: State, symbol: str) -> Iterable[tuple[StrategyState, Instance]]:
    """Every instance at a symbol, in the order of the strategies."""
    for strategy in state.strategies.values():
        instance = strategy.instances.get(symbol)
        if instance is not None:
            yield strategy, instance


def is_time(state: State, instance: Instance, hook: str, interval: timedelta) -> bool:
    """True once per `interval`; a quarter of it is forgiven, as polls come a little early."""
    last = instance.woken_at.get(hook)
    if last is not None and (state.now - last) * 4 < interval * 3:
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
    """Have a hook called once the event's state has settled, if the plug-in has one."""
    if is_overridden(instance.strategy, hook):
        state.due_hooks.append(HookCall(strategy, instance, hook, argument))


def call_hooks(state: State) -> None:
    """Call the hooks that are due, in the order in which they became so, then those that came of
    them. A strategy whose hooks go on leading to one another is disabled.
    """
    for _ in range(HOOK_ROUNDS_MAX):
        due, state.due_hooks = state.due_hooks, []
        for each in due:
            if _is_heard(state, each):
                where = f"{each.hook} of {each.strategy.plan.name}"
                guarded(state, where, _call_due, state, each)
    for each in state.due_hooks:
        why = f"its hooks led to one another {HOOK_ROUNDS_MAX} times, the last was {each.hook}"
        switch(state, each.strategy, DISABLED, why, "engine")
    state.due_hooks = []


def _call_due(state: State, due: HookCall) -> None:
    """A strategy that a halt or a pause has kept from starting starts when it is first woken."""
    instance = due.instance
    if due.hook not in NEWS_HOOKS and not instance.has_started:
        instance.has_started = True
        if due.hook != "on_start" and is_overridden(instance.strategy, "on_start"):
            call(state, due.strategy, instance, "on_start", None)
    call(state, due.strategy, instance, due.hook, due.argument)


def _is_heard(state: State, due: HookCall) -> bool:
    """The market wakes a strategy only while it and the bot are on; of its own orders it is told
    also while it is paused.
    """
    if due.hook in NEWS_HOOKS:
        return due.strategy.state != DISABLED
    return due.strategy.state == ON and not state.gate.is_asleep


def is_overridden(strategy: Strategy, hook: str) -> bool:
    """True when the plug-in has a hook of its own."""
    return getattr(type(strategy), hook) is not getattr(Strategy, hook)


def call(
    state: State,
    strategy: StrategyState,
    instance: Instance,
    hook: str,
    argument: object | None,
) -> None:
    """Call a hook and judge what came of it."""
    context = instance.context
    _prepare(state, strategy, instance)
    fault = state.invoke(instance.strategy, hook, argument)
    wanted, reads = context.requests, dict(context.reads)
    context.requests = []
    context.reads.clear()
    bars_needed = max((_bars_of(name) for name in reads if math.isnan(reads[name])), default=0)
    instance.bars_needed = bars_needed if hook in MARKET_HOOKS and reads else instance.bars_needed
    if bars_needed and not (fault and fault.is_overrun):
        _skip(state, strategy, instance, "WARMING", _cold_text(reads))
    elif fault is not None:
        failed(state, strategy, instance.symbol, hook, fault)
    elif len(wanted) > REQUESTS_MAX:
        error = f"{len(wanted):,} requests in one call, at most {REQUESTS_MAX} are taken: none was"
        failed(state, strategy, instance.symbol, hook, StrategyFault(error, is_overrun=False))
    elif wanted:
        for request in wanted:
            why = request.why or reason_of(reads, hook)
            if request.kind is RequestKind.SKIP and reads:
                _skip(state, strategy, instance, "SKIP", why, reads)
            else:
                requests.consider(state, strategy, instance, request, why=why)
    elif hook in MARKET_HOOKS:
        _skip(state, strategy, instance, "NO_SIGNAL", reason_of(reads, hook), reads)


def _prepare(state: State, strategy: StrategyState, instance: Instance) -> None:
    context, symbol, account = instance.context, instance.symbol, strategy.plan.account
    quote, depth, position = (
        state.quotes.get(symbol),
        state.depths.get(symbol),
        strategy.position(symbol),
    )
    instrument, snapshot = state.instruments.get(symbol), state.accounts.get(account)
    context.now = state.now
    context.quote = quote.quote if quote else None
    context.depth = depth.depth if depth else None
    context.phase = state.phase_of(instrument.exchange).phase if instrument else None
    context.position = PositionView(
        position.shares, sellable_of(state, strategy.plan.name, symbol), position.cost
    )
    holdings = snapshot.holdings if snapshot else {}
    context.account = AccountView(cash_free(state, account) or 0, holdings)
    context.requests = []


def reason_of(reads: Reads, hook: str) -> str:
    """Return the default reason: the values that were looked at in this call.

    `SMA5 131,720 below SMA20 131,735`, `bids 33,200, asks 41,400`.
    """
    values = [f"{_named(name)} {_shown(value)}" for name, value in reads.items()]
    if len(values) == 2 and len({name.partition("(")[0] for name in reads}) == 1:
        one, other = reads.values()
        return f" {'above' if one > other else 'below'} ".join(values)
    return ", ".join(values) or f"no reason given in {hook}"


def _named(read: str) -> str:
    """`sma(5)` as `SMA5`; the volumes of the depth by their side."""
    name, _, period = read.removesuffix(")").partition("(")
    return _SIDES.get(name) or f"{name.upper()}{period}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:,.2f}"


def _bars_of(read: str) -> int:
    """How many bars an indicator needs: RSI one more than its length, for its first change."""
    name, _, period = read.removesuffix(")").partition("(")
    return int(period) + (name == "rsi")


def _cold_text(reads: Reads) -> str:
    cold = [_named(name) for name, value in reads.items() if math.isnan(value)]
    return f"not enough bars yet for {', '.join(cold)}"


def _skip(
    state: State,
    strategy: StrategyState,
    instance: Instance,
    code: str,
    why: str,
    reads: Reads | None = None,
) -> None:
    state.counts["skips"] += 1
    numbers = {name: round(value, 4) for name, value in (reads or {}).items()}
    state.record(
        Decision(
            state.now, strategy.plan.name, instance.symbol, Verdict.SKIPPED, code, why, numbers
        )
    )


def skip_until_warm(state: State, strategy: StrategyState, instance: Instance, bars: int) -> bool:
    """Record a skip and return True while fewer bars were seen than the strategy declares."""
    needed = type(instance.strategy).warm_up
    instance.bars_needed = needed if bars < needed else 0
    if instance.bars_needed and strategy.state == ON and not state.gate.is_asleep:
        _skip(state, strategy, instance, "WARMING", f"{bars} of {needed} bars seen")
    return instance.bars_needed > 0


# ----------------------------------------------------------------------------- faults and switches


def failed(
    state: State, strategy: StrategyState, symbol: str, hook: str, fault: StrategyFault
) -> None:
    """Journal a fault; the third one disables the strategy until an operator resumes it."""
    strategy.faults += 1
    state.counts["faults"] += 1
    code = "OVERRUN" if fault.is_overrun else "EXCEPTION"
    why = f"{hook}: {fault.error}"
    numbers = {"faults": strategy.faults, "faults_max": state.settings.faults_until_disabled}
    state.record(
        Decision(state.now, strategy.plan.name, symbol, Verdict.FAILED, code, why, numbers)
    )
    if strategy.faults >= state.settings.faults_until_disabled:
        switch(state, strategy, DISABLED, f"{strategy.faults} faults, the last in {why}", "engine")
