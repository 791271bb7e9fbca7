"""Holds orders back: the bot's gate, a strategy's switch, halted scopes, faults in the bot.

Causes close the gate and are removed one by one; the shown state is the strongest cause's, so a
token cannot end a halt. Every change of the one-word state is journalled.

An exception inside the engine halts entries, and the bot continues to read, cancel and take
commands. Each step is guarded separately: the bars, an event's handler, each hook, each deadline,
each row of a day order book, each order taken over at a start. An exception ends its step; what the
step had recorded before is kept, and later steps still run. So a lasting fault costs only its own
step, and none can end the process or prevent its next start. Nothing is sent until an operator
resumes.

Besides the whole bot and single symbols, three scopes can be halted: the orders of an account,
trust in nonces, and all entries. Each is journalled under its own name, so that it survives a
restart, and ends when a person resumes. Reads and cancels continue.

EngineError           errors of the engine: only our own bugs
└── IllegalMove       a move that is missing in its state machine's table
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, ParamSpec

from bot.domain.entry import (
    ACCOUNT_SCOPE,
    FAULT_NOTE,
    FENCE_SCOPE,
    ONLY_SELLS,
    REDUCED_SCOPE,
    RunState,
    StateChanged,
    StrategySwitched,
)
from bot.domain.errors import Fault
from bot.domain.message import (
    FaultFound,
)
from bot.domain.order import Side
from bot.domain.outcome import LACKS_2FA
from bot.domain.plan import StrategyMode
from bot.engine.control_state import (
    BY_ENGINE,
    BY_JOURNAL,
    LASTING,
    PRIORITY,
    Cause,
    Standing,
    TrackedFault,
)
from bot.engine.state import State, StrategyState

REFUSAL_CODES: Final = {
    RunState.STOPPING: "STOPPING",
    RunState.HALTED: "HALTED",
    RunState.STARTING: "STARTING",
    RunState.NEEDS_2FA: LACKS_2FA,
    RunState.DEGRADED: "DEGRADED",
    RunState.PAUSED: "PAUSED",
}
"""The codes of requests refused while the gate is closed."""

_WHO: Final = {"operator": "by you", "journal": "as before the restart"}
"""Who pauses or halts without having to say why."""
ON: Final = "on"
PAUSED: Final = "paused"
DISABLED: Final = "disabled"
BY_LIMIT: Final = "limit"
PAUSED_FOR_TODAY: Final = (PAUSED, BY_LIMIT)
"""State and author of a strategy paused by its own loss: it only sells until the next day."""
ENGINE_FAULT: Final = "engine fault"
DENIED_JOURNAL: Final = "DENIED_JOURNAL"
"""The code of a request refused because nothing can be written."""


class EngineError(Exception):
    """Root of the engine's errors."""


class IllegalMove(EngineError):
    """A move missing in its table. `subject` is the intent or order."""

    def __init__(self, subject: str, from_state: str, to_state: str) -> None:
        super().__init__(f"{subject}: {from_state} to {to_state} is not a legal move")
        self.subject = subject


# ---------------------------------------------------------------------------------------- the gate


def refusal(state: State) -> tuple[str, str]:
    """Return code and reason of the closed gate; what a person did is named as theirs."""
    run_state = state.gate.state
    cause = state.gate.causes[run_state]
    is_degraded = run_state is RunState.DEGRADED  # a halt or pause taken over has the same author
    is_unwritten = (is_degraded and cause.by == BY_JOURNAL) or cause.code == DENIED_JOURNAL
    code = DENIED_JOURNAL if is_unwritten else REFUSAL_CODES[run_state]
    who = _WHO.get(cause.by)
    if who is None or run_state not in LASTING:
        return code, cause.reason
    return code, f"{run_state.lower()} {who}{f': {cause.reason}' if cause.reason else ''}"


def close(state: State, run_state: RunState, reason: str, by: str, code: str = "") -> None:
    """Add a cause that closes the gate, or renew it."""
    before = state.gate.causes.get(run_state)
    since = before.since if before else state.now
    state.gate.causes[run_state] = Cause(reason, by, code, since)
    _announce(state, reason, by)


def lift(state: State, run_state: RunState, reason: str, by: str) -> None:
    """Remove a cause; the next strongest one, if any, now shows."""
    if state.gate.causes.pop(run_state, None) is not None:
        _announce(state, reason, by)


def _announce(state: State, reason: str, by: str) -> None:
    """Journal the state if it has changed, and an operator's halt or pause that it hides."""
    gate = state.gate
    before, kept_before = gate.state, gate.kept
    gate.state = next((each for each in PRIORITY if each in gate.causes), RunState.RUNNING)
    gate.kept = next((each for each in LASTING if each in gate.causes), RunState.RUNNING)
    shown = gate.causes.get(gate.state) or Cause(reason, by)
    gate.reason = shown.reason
    if gate.state is not before:
        state.record(StateChanged(state.now, before, gate.state, shown.reason, shown.by))
        gate.since = state.now
    if gate.kept is not kept_before and gate.kept is not gate.state:
        state.record(StateChanged(state.now, kept_before, gate.kept, reason, by, scope="operator"))


# ------------------------------------------------------------------------- the switch of a strategy


def switch(state: State, strategy: StrategyState, to_state: str, reason: str, by: str) -> None:
    """Journal the switch if it is a change, and reset the count of faults.

    A pause by anybody else is more than one by the strategy's own loss: it doesn't sell either. So
    is a person's halt of one that the bot has disabled: it cancels.
    """
    is_more = only_sells(strategy) and by != BY_LIMIT
    if strategy.state == DISABLED and by not in {BY_ENGINE, BY_LIMIT}:
        is_more |= not is_halted_by_person(strategy)
    if strategy.state == to_state and not is_more:
        return
    strategy.state, strategy.state_reason, strategy.state_by = to_state, reason, by
    strategy.faults = 0
    if to_state == ON:
        strategy.repeats.clear()
    state.record(StrategySwitched(state.now, strategy.plan.name, to_state, reason, by))


def let_only_sell(state: State, strategy: StrategyState, why: str) -> None:
    """Pause a strategy for today by its own loss, which does not block its exits."""
    switch(state, strategy, PAUSED, f"{ONLY_SELLS} ({why})", BY_LIMIT)


def only_sells(strategy: StrategyState) -> bool:
    """Return whether its own loss of today has paused a strategy, which does not block exits."""
    return (strategy.state, strategy.state_by) == PAUSED_FOR_TODAY


def hears_market(strategy: StrategyState) -> bool:
    """Return whether the market wakes a strategy; one that only sells has to ask for that."""
    return strategy.state == ON or only_sells(strategy)


def is_halted_by_person(strategy: StrategyState) -> bool:
    """Return whether a person has halted a strategy, which cancels its orders; whatever else
    disables it lets them stay.
    """
    return strategy.state == DISABLED and strategy.state_by not in {BY_ENGINE, BY_LIMIT}


def strategy_objection(strategy: StrategyState, side: Side) -> str | None:
    """Return why no order of a strategy may be sent; None if it may."""
    if strategy.state == ON or (side is Side.SELL and only_sells(strategy)):
        return None
    reason = f": {strategy.state_reason}" if strategy.state_reason else ""
    return f"{strategy.plan.name} is {strategy.state}{reason}"


# --------------------------------------------------------------------------------- our own faults


P = ParamSpec("P")


def guarded(
    state: State, where: str, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs
) -> bool:
    """Run a step; return False if it raised, which halts entries."""
    fault = state.guard(partial(step, *args, **kwargs))
    if fault is not None:
        halt_for_fault(state, where, fault)
    return fault is None


def on_fault_found(state: State, event: FaultFound) -> None:
    """A shell has caught a fault, in carrying out a command or in other work."""
    halt_for_fault(state, event.where, event.fault)


def halt_for_fault(state: State, where: str, fault: Fault) -> None:
    """Halt entries and report the fault; a repeated one of the same kind is only counted."""
    known = state.faults.get(fault.kind)
    if known is not None and not known.is_of_before:
        known.count += 1
        return
    state.faults[fault.kind] = TrackedFault(state.now, where, fault)
    kept = f" Report: {fault.report}" if fault.report else ""
    text = (
        f"{fault.error} (in {where}). This is a bug of ours: no new order is sent; open orders "
        f'stay, and can be cancelled. When you have looked at it: bot resume --reason "…".{kept}'
    )
    if fault.invariant:
        text = _broken_words(fault, kept)
        facts = {"invariant": fault.invariant, "found": fault.error, "report": fault.report}
        state.alert("INVARIANT_BROKEN", text, facts)
    facts = {"where": where, "error": fault.error, "report": fault.report}
    facts |= {"kind": fault.kind, "trace": fault.trace, "invariant": fault.invariant}
    state.note(FAULT_NOTE, text, {"alert": "ENGINE_FAULT", **facts})
    if RunState.HALTED not in state.gate.causes:
        close(state, RunState.HALTED, ENGINE_FAULT, BY_ENGINE, fault.invariant)


def _broken_words(fault: Fault, kept: str) -> str:
    found = fault.error.partition(": ")[2] or fault.error
    return (
        f"invariant {found}. What the bot believes contradicts itself, by a bug of ours or because "
        "something else writes its data: no new order is sent; open orders stay, cancels go on. "
        "Compare the open orders with the broker's app (bot orders), cancel what you do not want, "
        f"keep the report, then: bot resume --reason …{kept}"
    )


# ------------------------------------------------------------------------------------ halted scopes

NONCES: Final = f"{FENCE_SCOPE}nonces"
"""If halted, an unused nonce alone is no proof."""


def halt_scope(state: State, scope: str, reason: str, by: str = BY_ENGINE) -> None:
    """Halt a scope until a person resumes."""
    if scope not in state.halted_scopes:
        state.halted_scopes[scope] = reason
        running, halted = RunState.RUNNING, RunState.HALTED
        state.record(StateChanged(state.now, running, halted, reason, by, scope=scope))


def reducing(state: State) -> tuple[str, str] | None:
    """Return why nothing is bought although sales are sent, and who decided that; None if buys are
    allowed.
    """
    if (reason := state.halted_scopes.get(REDUCED_SCOPE)) is not None:
        return reason, "operator"
    reasons = [usage.reduced_by for _, usage in state.usage.all() if usage.reduced_by]
    return (reasons[0], BY_LIMIT) if reasons else None


def resume_scopes(state: State, reason: str, by: str) -> None:
    """Resume every halted scope."""
    for scope in sorted(state.halted_scopes):
        running, halted = RunState.RUNNING, RunState.HALTED
        state.record(StateChanged(state.now, halted, running, reason, by, scope=scope))
    state.halted_scopes.clear()
    state.refusals.clear()


def scope_objection(state: State, account: str, side: Side) -> tuple[str, str] | None:
    """Return code and reason why no order of an account, or no buy, may be sent; None if it may."""
    if not state.halted_scopes:
        return None
    if (halted := state.halted_scopes.get(f"{ACCOUNT_SCOPE}{account}")) is not None:
        return "HALTED", halted
    reduced = state.halted_scopes.get(REDUCED_SCOPE)
    if reduced is None or side is Side.SELL:
        return None
    return "REDUCING", f"no entries until bot resume{f': {reduced}' if reduced else ''}"


def until_resume(state: State) -> Iterator[str]:
    """Yield what holds orders back until a person resumes, also beneath a stronger state."""
    for lasting in LASTING:
        if (cause := state.gate.causes.get(lasting)) is not None:
            why = f", {cause.reason}" if cause.reason else ""
            then = ": nothing is bought or sold" if lasting is RunState.PAUSED else ""
            yield f"{lasting}{why}{then}"
    for scope, reason in state.halted_scopes.items():
        yield _scope_words(scope, reason)


def blocked_by(state: State) -> list[str]:
    """Return why none of the strategies that trade can send an order, whatever the gate says; empty
    if one can. Only a person ends it.
    """
    found = list[str]()
    for strategy in state.strategies.values():
        if strategy.plan.mode is StrategyMode.TRADE:
            why = _block_of(state, strategy)
            if why is None:
                return []
            found += [why] if why not in found else []
    return found


def _block_of(state: State, strategy: StrategyState) -> str | None:
    scope, symbols = f"{ACCOUNT_SCOPE}{strategy.plan.account}", strategy.plan.symbols
    if (halted := state.halted_scopes.get(scope)) is not None:
        return _scope_words(scope, halted)
    if state.halted_symbols.keys() >= set(symbols):
        return f"all that {strategy.plan.name} trades is halted: {', '.join(symbols)}"
    return strategy_objection(strategy, Side.SELL)


def _scope_words(scope: str, reason: str) -> str:
    """Return what is not done while a scope is halted, and why."""
    if scope == REDUCED_SCOPE:
        return f"REDUCING by you ({reason or 'no reason given'}): nothing is bought"
    return f"{'nonces are not trusted' if scope == NONCES else 'no order is sent'}: {reason}"


def scope_alerts(state: State) -> Iterator[Standing]:
    """Yield what is halted, what continues, and how to end it."""
    end = 'When it is mended: bot resume --reason "…"'
    for scope, reason in state.halted_scopes.items():
        words = _scope_words(scope, reason)
        if scope == REDUCED_SCOPE:
            text = f"{words}; sales and cancels go on. To buy again: bot resume"
            yield Standing("ENTRIES_PAUSED", text, {"why": reason or "no reason given"})
        elif scope == NONCES:
            text = f"{words}. Orders are looked for longer. {end}"
            yield Standing("NONCES_NOT_TRUSTED", text, {"why": reason})
        else:
            text = f"{words}. Reads and cancels go on. {end}"
            yield Standing("ORDERS_HALTED", text, {"why": reason})
