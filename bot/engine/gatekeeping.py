"""Opens and closes the gate, and journals each change of the one-word state."""

from dataclasses import replace
from typing import Final

from bot.domain.entry import AuthEvent, RunState, StateChanged
from bot.domain.message import BrokerHealthChanged, DropToken, TwoFactorMissing
from bot.engine.gate import BY_ENGINE, Cause
from bot.engine.state import State

REFUSAL_CODES: Final = {
    RunState.STOPPING: "STOPPING",
    RunState.HALTED: "HALTED",
    RunState.STARTING: "STARTING",
    RunState.NEEDS_2FA: "TWO_FACTOR",
    RunState.DEGRADED: "DEGRADED",
    RunState.PAUSED: "PAUSED",
}
"""What a request is refused with while the gate is closed."""


def refusal(state: State) -> tuple[str, str]:
    """Return code and reason of a closed gate."""
    run_state = state.gate.state
    return REFUSAL_CODES[run_state], state.gate.causes[run_state].reason


def close(state: State, run_state: RunState, cause: Cause) -> None:
    """Add a cause that closes the gate, or renew it."""
    before = state.gate.causes.get(run_state)
    state.gate.causes[run_state] = replace(cause, since=before.since if before else state.now)
    announce(state, cause)


def take_over(state: State, run_state: RunState, cause: Cause) -> None:
    """Close the gate; where the engine itself had closed it, journal that it is another's now."""
    before = state.gate.causes.get(run_state)
    close(state, run_state, cause)
    if before is not None and before.by == BY_ENGINE:
        state.record(StateChanged(state.now, run_state, run_state, cause.reason, cause.by))


def lift(state: State, run_state: RunState, cause: Cause) -> None:
    """Take a cause away; the next strongest one, if any, now shows."""
    if state.gate.causes.pop(run_state, None) is not None:
        announce(state, cause)


def announce(state: State, change: Cause) -> None:
    """Journal the state when it is another one than was journalled last."""
    gate = state.gate
    run_state = gate.state
    cause = gate.causes.get(run_state, change)
    gate.reason = cause.reason
    if run_state is not gate.recorded:
        state.record(StateChanged(state.now, gate.recorded, run_state, cause.reason, cause.by))
        gate.recorded, gate.since = run_state, state.now
    _keep(state, change)


def _keep(state: State, change: Cause) -> None:
    """Journal what an operator wants when the run_state that is shown does not tell it."""
    gate = state.gate
    before, gate.kept = gate.kept, gate.lasting
    if gate.kept is not before and gate.kept is not gate.recorded:
        reason, by = change.reason, change.by
        state.record(StateChanged(state.now, before, gate.kept, reason, by, scope="operator"))


# ----------------------------------------------------------------------------------- second factor


def close_for_two_factor(state: State, code: str, detail: str, intent_id: str | None) -> None:
    """The broker has refused the token: nothing is written with it again."""
    state.command(DropToken(code))
    _need_token(state, code, detail, intent_id)


def on_two_factor_missing(state: State, event: TwoFactorMissing) -> None:
    """There is no token; nobody need ask the broker to know that it would refuse."""
    if not state.gate.lacks_token:
        _need_token(state, event.code, event.detail, None)


def _need_token(state: State, code: str, detail: str, intent_id: str | None) -> None:
    gate = state.gate
    if not gate.lacks_token:
        gate.missed = 0
    gate.token_until, gate.is_unproven = None, False
    state.record(AuthEvent(state.now, "needed", code, detail, intent_id))
    close(state, RunState.NEEDS_2FA, Cause(f"needs 2FA ({code})", "2fa", code))


def prove(state: State, order_id: str, intent_id: str | None) -> None:
    """A write was accepted: the token is good."""
    if state.gate.is_unproven:
        state.gate.is_unproven = False
        state.record(AuthEvent(state.now, "proved", "", f"proved by {order_id}", intent_id))


# ------------------------------------------------------------------------------------------ broker


def on_broker_health(state: State, event: BrokerHealthChanged) -> None:
    """No new orders while reads fail: what they would meet is not known."""
    cause = Cause(event.detail, "broker")
    if event.is_healthy:
        lift(state, RunState.DEGRADED, cause)
    else:
        close(state, RunState.DEGRADED, cause)
