"""Operator commands: pause, resume, halt, stop; for the whole bot or one strategy."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bot.domain.entry import REDUCED_SCOPE, WORKS_ON_NOTE, Numbers, RunState, StateChanged
from bot.domain.message import StopRunning
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import SendState
from bot.engine import belief, ex_dates, flatten, gate, wake
from bot.engine.control_state import BY_ENGINE
from bot.engine.orders import cancel_requests, cancels, doubts, held
from bot.engine.orders.order_words import intent_words, row_words
from bot.engine.risk.accounts import note_holdings
from bot.engine.state import State
from bot.engine.tracked import CancelStage

_SWITCHES: Final[Mapping[Action, str]] = {
    Action.PAUSE: gate.PAUSED,
    Action.RESUME: gate.ON,
    Action.HALT: gate.DISABLED,
}
LISTED_MAX: Final = 10
"""How many orders a stop names."""
_IN_FLIGHT: Final = frozenset({SendState.READY, SendState.SENDING, SendState.UNKNOWN})


def on_operator(state: State, event: OperatorActed) -> None:
    """Carry out an operator's command."""
    if event.symbol is not None:
        _resume_symbol(state, event, event.symbol)
        return
    if event.strategy is None:
        ACTIONS[event.action](state, event)
        return
    strategy = state.strategies.get(event.strategy)
    if strategy is None or event.action not in _SWITCHES:
        named = f"{event.action} {event.strategy}"
        text = f"nothing was changed by {named}: there is no such strategy. See: bot status"
        facts: Numbers = {"action": event.action, "strategy": event.strategy}
        state.alert("NO_SUCH_STRATEGY", text, facts)
        return
    gate.switch(state, strategy, _SWITCHES[event.action], event.reason, event.by)
    if event.action is Action.HALT:
        held.expire_held(state, at_once="halted", code="HALTED", strategy=event.strategy)
    if event.action is Action.HALT or event.cancel_open:
        cancel_requests.request_all(state, event.reason or event.action, strategy.plan.name)


def _resume_symbol(state: State, event: OperatorActed, symbol: str) -> None:
    """Resume one symbol that was halted, whose market data was not trusted, or in which an order
    has another quantity than the bot asked for.
    """
    facts = {"action": event.action, "symbol": symbol}
    if event.action is not Action.RESUME or not event.reason.strip():
        why = "only a resume takes a symbol, with a reason"
        end = f'Type: bot resume {symbol} --reason "…"'
        text = f"nothing was changed by {event.action} {symbol}: {why}. {end}"
        state.alert("SYMBOL_RESUME", text, {**facts, "why": why}, symbol=symbol)
        return
    is_released = belief.resume(state, symbol, event.reason)
    is_accepted = doubts.accept_in(state, symbol)
    is_halted = symbol in state.halted_symbols
    if is_halted:
        cancel_requests.accept_owner(state, only=symbol)
        state.resume_symbols(event.reason, event.by, only=symbol)
    if not (is_released or is_halted or is_accepted):
        why = "it is not halted, its data is believed and no order of it is in question"
        text = f"nothing was changed by resume {symbol}: {why}. See: bot status"
        state.alert("SYMBOL_RESUME", text, {**facts, "why": why}, symbol=symbol)


def objection_to_resume(state: State, symbol: str) -> str:
    """Return why there is nothing to resume in a symbol, empty if there is."""
    is_doubted = belief.is_held(state, symbol) or ex_dates.is_doubted(state, symbol)
    is_doubted = is_doubted or doubts.is_in_question(state, symbol)
    if symbol in state.halted_symbols or is_doubted:
        return ""
    if symbol not in state.instruments:
        known = ", ".join(sorted(state.instruments))
        return f"no strategy trades '{symbol}' (they trade {known})"
    return f"{symbol} is not halted, its market data is believed, no order of it is in question"


def halted_words(state: State) -> str:
    """Return what is halted and ends only with a reason; empty if nothing is. A person's reduction
    does not need one.
    """
    if RunState.HALTED in state.gate.causes:
        return "the bot is HALTED"
    scopes = {scope: why for scope, why in state.halted_scopes.items() if scope != REDUCED_SCOPE}
    found = [f"{symbol}: {why}" for symbol, why in sorted(state.halted_symbols.items())]
    found += [why for _, why in sorted(scopes.items())]
    return f"halted: {'; '.join(found)}" if found else ""


def _pause(state: State, event: OperatorActed) -> None:
    if event.entries_only:
        gate.halt_scope(state, REDUCED_SCOPE, event.reason, event.by)
    else:
        gate.close(state, RunState.PAUSED, event.reason, event.by)
        flatten.end(state, f"a pause by {event.by}")
    if event.cancel_open:
        cancel_requests.request_all(state, event.reason or "pause")


def _resume(state: State, event: OperatorActed) -> None:
    """Leave PAUSED, and with a reason also HALTED; halted symbols resume with it."""
    if halted_words(state) and not event.reason.strip():
        text = "nothing was changed: leaving a halt needs a reason: bot resume --reason TEXT"
        state.alert("RESUME_NEEDS_REASON", text, {})
        return
    flatten.end(state, f"a resume by {event.by}")
    gate.lift(state, RunState.PAUSED, event.reason, event.by)
    gate.lift(state, RunState.HALTED, event.reason, event.by)
    state.faults.clear()
    cancel_requests.accept_owner(state)
    state.resume_symbols(event.reason, event.by)
    gate.resume_scopes(state, event.reason, event.by)
    if event.reason.strip():
        doubts.accept(state)


def _halt(state: State, event: OperatorActed) -> None:
    """Block first, then cancel every open order of ours; positions are kept."""
    before = state.gate.causes.get(RunState.HALTED)
    gate.close(state, RunState.HALTED, event.reason, event.by)
    if before is not None and before.by == BY_ENGINE:
        # The halt is the operator's now: a restart continues to cancel what it left open.
        halted = RunState.HALTED
        state.record(StateChanged(state.now, halted, halted, event.reason, event.by))
    held.expire_held(state, at_once="halted", code="HALTED")
    why = f"halt: {event.reason}" if event.reason else "halt"
    cancel_requests.request_all(state, why)
    if event.flatten:
        # An earlier pause would hold the sales back, and only a resume, which would end both, ends
        # it.
        gate.lift(state, RunState.PAUSED, event.reason, event.by)
        flatten.begin(state, event.reason, event.by)
    else:
        flatten.end(state, f"a halt by {event.by}")


def _stop(state: State, event: OperatorActed) -> None:
    """Accept no more signals; the shell may end once everything in flight has an outcome. While it
    has not, a second stop may still have the open orders cancelled.
    """
    if RunState.STOPPING in state.gate.causes:
        if event.cancel_open and not state.gate.has_stopped:
            cancel_requests.request_all(state, "stop")
        return
    gate.close(state, RunState.STOPPING, event.reason, event.by)
    for strategy in state.strategies.values():
        for instance in strategy.instances.values():
            wake.wake(state, strategy, instance, "on_stop", None)
    held.expire_held(state, at_once="stopped", code="STOPPING")
    note_holdings(state)
    _note_what_works_on(state, is_cancelled=event.cancel_open)
    if event.cancel_open:
        cancel_requests.request_all(state, "stop")


def _note_what_works_on(state: State, *, is_cancelled: bool) -> None:
    """Name the own orders that the broker goes on with while nobody here watches them."""
    rows = [each.row for each in state.open_orders() if each.is_own and not is_cancelled]
    waits_for = {SendState.READY, SendState.SENDING} if is_cancelled else set[SendState]()
    lost = [each.intent for each in state.pending_intents() if each.state not in waits_for]
    named = [*map(row_words, rows), *(f"{intent_words(it)}, outcome not known" for it in lost)]
    if not named:
        return
    listed = " · ".join(named[:LISTED_MAX])
    more = f" · and {len(named) - LISTED_MAX} more: bot orders --open" * (len(named) > LISTED_MAX)
    text = (
        f"still working at the broker: {listed}{more}. While the bot is down nothing expires or "
        "cancels them (bot stop --cancel-open cancels them first)"
    )
    state.note(WORKS_ON_NOTE, text, {"orders": len(named)})


ACTIONS: Final[Mapping[Action, Callable[[State, OperatorActed], None]]] = {
    Action.PAUSE: _pause,
    Action.RESUME: _resume,
    Action.HALT: _halt,
    Action.STOP: _stop,
}


def stop_if_settled(state: State) -> None:
    """Report once that the shell may end."""
    if RunState.STOPPING not in state.gate.causes or state.gate.has_stopped or state.due_hooks:
        return
    is_in_flight = any(tracked.state in _IN_FLIGHT for tracked in state.pending_intents())
    if not is_in_flight and not _is_cancelling(state):
        state.gate.has_stopped = True
        state.command(StopRunning(state.gate.causes[RunState.STOPPING].reason))
        if state.cancels:
            names = "; ".join(cancels.sentences(state))
            text = (
                f"stopped before these were cancelled: {names}. They"
                " go on working at the broker without the bot; its next start today goes on"
                f" cancelling them. {cancels.IN_THE_APP}"
            )
            facts: Numbers = {"orders": len(state.cancels), "ids": " ".join(sorted(state.cancels))}
            state.alert("STOP_LEAVES_OPEN", text, facts)


def _is_cancelling(state: State) -> bool:
    """Return whether a cancel is under way that is worth waiting for: not for ever, and not one
    that waits for a token or a phase. The answer to a DELETE that has been sent is always awaited.
    """
    over_at = stop_deadline(state)
    is_over = over_at is not None and over_at <= state.now
    return any(
        cancel.stage is CancelStage.SENT
        or not (is_over or state.gate.lacks_token or cancel.queued_until is not None)
        for cancel in state.cancels.values()
    )


def stop_deadline(state: State) -> datetime | None:
    """Return when a stop no longer waits for the rows of its cancels, of which some may have been
    requested after it.
    """
    stopping = state.gate.causes.get(RunState.STOPPING)
    since = stopping.since if stopping is not None else None
    if since is None:
        return None
    return max([since, *(each.since for each in state.cancels.values())]) + cancels.LATE_AFTER
