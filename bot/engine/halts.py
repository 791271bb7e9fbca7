"""What is halted beside the whole bot and single symbols: an account's orders, trust in nonces, and
all entries.

Each is journalled under a scope of its own, so that a restart keeps it, and ends when a person
resumes with a reason. Reads and cancels go on.
"""

from collections.abc import Iterator
from typing import Final

from bot.domain.entry import (
    ACCOUNT_SCOPE,
    FENCE_SCOPE,
    REDUCED_SCOPE,
    RunState,
    StateChanged,
)
from bot.domain.order import Side
from bot.engine.gate import BY_LIMIT
from bot.engine.state import BY_ENGINE, State
from bot.engine.watched import Standing

NONCES: Final = f"{FENCE_SCOPE}nonces"
"""Halted: an unused nonce is no proof by itself."""


def account_scope(account: str) -> str:
    """Return the scope of an account's orders."""
    return f"{ACCOUNT_SCOPE}{account}"


def halt(state: State, scope: str, reason: str, by: str = BY_ENGINE) -> None:
    """Halt a scope until a person resumes."""
    if scope not in state.halted_scopes:
        state.halted_scopes[scope] = reason
        _record(state, scope, RunState.RUNNING, RunState.HALTED, reason, by)


def needs_reason(state: State) -> bool:
    """Whether something is halted that only a reason ends; what a person has reduced is not."""
    return any(scope != REDUCED_SCOPE for scope in state.halted_scopes)


def entries_objection(state: State, side: Side) -> str | None:
    """Return why nothing is bought; None: it may be. A sale goes out."""
    reason = state.halted_scopes.get(REDUCED_SCOPE) if state.halted_scopes else None
    if reason is None or side is Side.SELL:
        return None
    return f"no entries until bot resume{f': {reason}' if reason else ''}"


def reducing(state: State) -> tuple[str, str] | None:
    """Return why nothing is bought, though sales go out, and who has said so; None where it is."""
    if (reason := state.halted_scopes.get(REDUCED_SCOPE)) is not None:
        return reason, "operator"
    reasons = [usage.reduced_by for _, usage in state.usage.all() if usage.reduced_by]
    return (reasons[0], BY_LIMIT) if reasons else None


def resume(state: State, reason: str, by: str) -> None:
    """Let every halted scope go on."""
    for scope in sorted(state.halted_scopes):
        _record(state, scope, RunState.HALTED, RunState.RUNNING, reason, by)
    state.halted_scopes.clear()
    state.refusals.clear()


def objection(state: State, account: str) -> str | None:
    """Return why no order of an account may leave; None: it may."""
    return state.halted_scopes.get(account_scope(account)) if state.halted_scopes else None


def alerts(state: State) -> Iterator[Standing]:
    """Yield what is halted, what goes on, and how it ends."""
    end = 'When it is mended: bot resume --reason "…"'
    for scope, reason in state.halted_scopes.items():
        if scope == REDUCED_SCOPE:
            why = reason or "no reason given"
            text = f"REDUCING by you ({why}): nothing is bought; sales and cancels go on"
            yield Standing("ENTRIES_PAUSED", f"{text}. To buy again: bot resume", {"why": why})
        elif scope == NONCES:
            text = f"nonces are not trusted: {reason}. Orders are looked for longer. {end}"
            yield Standing("NONCES_NOT_TRUSTED", text, {"why": reason})
        else:
            text = f"no order is sent: {reason}. Reads and cancels go on. {end}"
            yield Standing("ORDERS_HALTED", text, {"why": reason})


def _record(state: State, scope: str, before: RunState, to: RunState, reason: str, by: str) -> None:
    state.record(StateChanged(state.now, before, to, reason, by, scope=scope))
