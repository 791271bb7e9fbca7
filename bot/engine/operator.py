"""What an operator does to the bot: pause, resume, halt, stop; the whole bot or one strategy."""

from collections.abc import Callable, Mapping
from typing import Final

from bot.domain.asked import Action, OperatorActed
from bot.domain.entry import RunState, StateChanged
from bot.domain.message import StopRunning
from bot.domain.order import SendState
from bot.engine import belief, gate, halts, wake
from bot.engine.orders import cancels, doubts, sends
from bot.engine.risk.accounts import note_holdings
from bot.engine.state import BY_ENGINE, State

_SWITCHES: Final[Mapping[Action, str]] = {
    Action.PAUSE: gate.PAUSED,
    Action.RESUME: gate.ON,
    Action.HALT: gate.DISABLED,
}
_IN_FLIGHT: Final = frozenset({SendState.READY, SendState.SENDING, SendState.UNKNOWN})


def on_operator(state: State, event: OperatorActed) -> None:
    """Do what an operator asks for."""
    if event.symbol is not None:
        _resume_symbol(state, event, event.symbol)
        return
    if event.strategy is None:
        ACTIONS[event.action](state, event)
        return
    strategy = state.strategies.get(event.strategy)
    if strategy is None or event.action not in _SWITCHES:
        state.note("ALERT", f"{event.action} {event.strategy}: no such strategy or switch")
        return
    gate.switch(state, strategy, _SWITCHES[event.action], event.reason, event.by)
    strategy.sweeps = ""
    if event.action is Action.HALT:
        sends.expire_held(state, at_once="halted", code="HALTED", strategy=event.strategy)
    if event.action is Action.HALT or event.cancel_open:
        strategy.sweeps = event.reason or event.action
        for symbol in strategy.instances:
            for order in state.working_orders(strategy.plan.name, symbol):
                cancels.request(state, order, strategy.sweeps)


def _resume_symbol(state: State, event: OperatorActed, symbol: str) -> None:
    """Let one symbol trade again that was halted, or whose market data was not believed."""
    facts = {"action": event.action, "symbol": symbol}
    if event.action is not Action.RESUME or not event.reason.strip():
        text = f"{event.action} {symbol}: only a resume takes a symbol, with a reason; nothing done"
        state.alert("SYMBOL_RESUME", text, facts, symbol=symbol)
        return
    is_released = belief.resume(state, symbol, event.reason)
    is_halted = symbol in state.halted_symbols
    if is_halted:
        state.resume_symbols(event.reason, event.by, only=symbol)
    if not is_released and not is_halted:
        text = f"resume {symbol}: it is not halted and its data is believed; nothing was changed"
        state.alert("SYMBOL_RESUME", text, facts, symbol=symbol)


def _pause(state: State, event: OperatorActed) -> None:
    gate.close(state, RunState.PAUSED, event.reason, event.by)
    if event.cancel_open:
        cancels.request_all(state, event.reason or "pause")


def _resume(state: State, event: OperatorActed) -> None:
    """Leave PAUSED, and HALTED when a reason is given; halted symbols trade again with it."""
    is_halted = RunState.HALTED in state.gate.causes or bool(
        state.halted_symbols or state.halted_scopes
    )
    if is_halted and not event.reason.strip():
        state.note("ALERT", "resume after a halt needs a reason; nothing was changed")
        return
    gate.lift(state, RunState.PAUSED, event.reason, event.by)
    gate.lift(state, RunState.HALTED, event.reason, event.by)
    state.gate.sweeps = ""
    state.faults.clear()
    state.resume_symbols(event.reason, event.by)
    halts.resume(state, event.reason, event.by)
    if event.reason.strip():
        doubts.accept(state)


def _halt(state: State, event: OperatorActed) -> None:
    """Block first, then cancel every open order of ours; positions are kept."""
    before = state.gate.causes.get(RunState.HALTED)
    gate.close(state, RunState.HALTED, event.reason, event.by)
    if before is not None and before.by == BY_ENGINE:
        # The halt is the operator's now: a restart goes on cancelling what it left open.
        halted = RunState.HALTED
        state.record(StateChanged(state.now, halted, halted, event.reason, event.by))
    sends.expire_held(state, at_once="halted", code="HALTED")
    cancels.request_all(state, "halt")
    blocked = cancels.blocked(state)
    if blocked:
        text = f"can't be cancelled without a 2FA token: {', '.join(blocked)}"
        state.note("ALERT", text, {"orders": len(blocked)})


def _stop(state: State, event: OperatorActed) -> None:
    """Take no more signals; the shell may end once what is in flight has an outcome."""
    if RunState.STOPPING in state.gate.causes:
        return
    gate.close(state, RunState.STOPPING, event.reason, event.by)
    for strategy in state.strategies.values():
        for instance in strategy.instances.values():
            wake.wake(state, strategy, instance, "on_stop", None)
    sends.expire_held(state, at_once="stopped", code="STOPPING")
    note_holdings(state)
    if event.cancel_open:
        cancels.request_all(state, "stop")


ACTIONS: Final[Mapping[Action, Callable[[State, OperatorActed], None]]] = {
    Action.PAUSE: _pause,
    Action.RESUME: _resume,
    Action.HALT: _halt,
    Action.STOP: _stop,
}


def stop_if_settled(state: State) -> None:
    """Say once that the shell may end."""
    causes = state.gate.causes
    if RunState.STOPPING not in causes or state.gate.has_stopped or state.due_hooks:
        return
    is_in_flight = any(tracked.state in _IN_FLIGHT for tracked in state.pending_intents())
    now_cancelling = [one for one in state.cancels.values() if one.queued_until is None]
    is_cancelling = bool(now_cancelling) and not state.gate.lacks_token
    if not is_in_flight and not is_cancelling:
        state.gate.has_stopped = True
        if state.cancels:
            # What waits for a token or a phase goes on working without the bot.
            ids = ", ".join(sorted(state.cancels))
            text = f"stopped before these could be cancelled: {ids}"
            state.note("ALERT", text, {"orders": len(state.cancels)})
        state.command(StopRunning(causes[RunState.STOPPING].reason))
