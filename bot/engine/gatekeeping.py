"""Opens and closes the gate, and journals each change of the one-word state."""

from dataclasses import replace
from typing import Final

from bot.domain.entry import AuthEvent, RunState, StateChanged
from bot.domain.message import BrokerHealthChanged, DropToken, TwoFactorMissing
from bot.engine.gate import BY_ENGINE, Cause
from bot.engine.state import Book

REFUSAL_CODES: Final = {
    RunState.STOPPING: "STOPPING",
    RunState.HALTED: "HALTED",
    RunState.STARTING: "STARTING",
    RunState.NEEDS_2FA: "TWO_FACTOR",
    RunState.DEGRADED: "DEGRADED",
    RunState.PAUSED: "PAUSED",
}
"""What a request is refused with while the gate is closed."""


def refusal(book: Book) -> tuple[str, str]:
    """Return code and reason of a closed gate."""
    state = book.gate.state
    return REFUSAL_CODES[state], book.gate.causes[state].reason


def close(book: Book, state: RunState, cause: Cause) -> None:
    """Add a cause that closes the gate, or renew it."""
    before = book.gate.causes.get(state)
    book.gate.causes[state] = replace(cause, since=before.since if before else book.now)
    announce(book, cause)


def take_over(book: Book, state: RunState, cause: Cause) -> None:
    """Close the gate; where the engine itself had closed it, journal that it is another's now."""
    before = book.gate.causes.get(state)
    close(book, state, cause)
    if before is not None and before.by == BY_ENGINE:
        book.record(StateChanged(book.now, state, state, cause.reason, cause.by))


def lift(book: Book, state: RunState, cause: Cause) -> None:
    """Take a cause away; the next strongest one, if any, now shows."""
    if book.gate.causes.pop(state, None) is not None:
        announce(book, cause)


def announce(book: Book, change: Cause) -> None:
    """Journal the state when it is another one than was journalled last."""
    gate = book.gate
    state = gate.state
    cause = gate.causes.get(state, change)
    gate.reason = cause.reason
    if state is not gate.recorded:
        book.record(StateChanged(book.now, gate.recorded, state, cause.reason, cause.by))
        gate.recorded, gate.since = state, book.now
    _keep(book, change)


def _keep(book: Book, change: Cause) -> None:
    """Journal what an operator wants when the state that is shown does not tell it."""
    gate = book.gate
    before, gate.kept = gate.kept, gate.lasting
    if gate.kept is not before and gate.kept is not gate.recorded:
        reason, by = change.reason, change.by
        book.record(StateChanged(book.now, before, gate.kept, reason, by, scope="operator"))


# ----------------------------------------------------------------------------------- second factor


def close_for_two_factor(book: Book, code: str, detail: str, intent_id: str | None) -> None:
    """The broker has refused the token: nothing is written with it again."""
    book.command(DropToken(code))
    _need_token(book, code, detail, intent_id)


def on_two_factor_missing(book: Book, event: TwoFactorMissing) -> None:
    """There is no token; nobody need ask the broker to know that it would refuse."""
    if not book.gate.lacks_token:
        _need_token(book, event.code, event.detail, None)


def _need_token(book: Book, code: str, detail: str, intent_id: str | None) -> None:
    gate = book.gate
    if not gate.lacks_token:
        gate.missed = 0
    gate.token_until, gate.is_unproven = None, False
    book.record(AuthEvent(book.now, "needed", code, detail, intent_id))
    close(book, RunState.NEEDS_2FA, Cause(f"needs 2FA ({code})", "2fa", code))


def prove(book: Book, order_id: str, intent_id: str | None) -> None:
    """A write was accepted: the token is good."""
    if book.gate.is_unproven:
        book.gate.is_unproven = False
        book.record(AuthEvent(book.now, "proved", "", f"proved by {order_id}", intent_id))


# ------------------------------------------------------------------------------------------ broker


def on_broker_health(book: Book, event: BrokerHealthChanged) -> None:
    """No new orders while reads fail: what they would meet is not known."""
    cause = Cause(event.detail, "broker")
    if event.is_healthy:
        lift(book, RunState.DEGRADED, cause)
    else:
        close(book, RunState.DEGRADED, cause)
