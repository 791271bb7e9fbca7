"""The conditions under which an order may be sent, asserted inside the transaction that records it.

The engine has checked the same on its own state; here they hold for what is stored, whatever
another process or an earlier run has written (order safety, sections 3 and 10: I2, I10, I11, I14).
"""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import AttemptStarted, Entry, RunState
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS
from bot.journal import tables
from bot.journal.errors import LeaseLost
from bot.journal.lease import NAME

WHOLE_BOT: Final = ("all", "operator")
"""Scopes that are about all of the bot: the state shown, and what an operator wants under it."""
LASTING: Final = (RunState.HALTED, RunState.PAUSED, RunState.RUNNING)
"""The states that decide whether the bot trades; the others pass."""
_ATTEMPTS, _HALTS = tables.attempts, tables.halts
_INTENTS, _ORDERS = tables.intents, tables.orders
_EPOCH: Final = (
    sa.select(tables.lease.c.epoch).where(tables.lease.c.name == NAME).with_for_update(read=True)
)
_LASTING: Final = (
    sa.select(_HALTS.c.to_state, _HALTS.c.reason, _HALTS.c.by_whom)
    .where(_HALTS.c.scope.in_(sa.bindparam("scopes", expanding=True)))
    .where(_HALTS.c.to_state.in_(LASTING))
    .order_by(_HALTS.c.seq.desc())
    .limit(1)
)
_OF_INTENT: Final = sa.select(_INTENTS.c.account, _INTENTS.c.symbol, _INTENTS.c.strategy).where(
    _INTENTS.c.intent_id == sa.bindparam("intent")
)
_POST: Final = sa.select(_ATTEMPTS.c.attempt_id).where(
    _ATTEMPTS.c.intent_id == sa.bindparam("intent"), _ATTEMPTS.c.verb == "POST"
)
_TWIN: Final = (_INTENTS.c.fingerprint == sa.bindparam("fingerprint")) & (
    _INTENTS.c.intent_id != sa.bindparam("intent")
)
_UNRESOLVED_TWIN: Final = sa.select(_INTENTS.c.intent_id).where(
    _TWIN, _INTENTS.c.state.in_(UNRESOLVED_SENDS)
)
_WORKING_TWIN: Final = (
    sa.select(_ORDERS.c.order_id)
    .join(_INTENTS, _INTENTS.c.intent_id == _ORDERS.c.intent_id)
    .where(_TWIN, _ORDERS.c.state.not_in(TERMINAL_STATES))
)


@dataclass(frozen=True, slots=True)
class Send:
    """An attempt that is about to be sent, with what is recorded beside it.

    `epoch` is its sender's lease, `fingerprint` that of its order.
    """

    entries: tuple[Entry, ...]
    epoch: int
    fingerprint: str


def require_epoch(connection: sa.Connection, epoch: int) -> None:
    """Raise LeaseLost unless the lease is still this holder's."""
    stored = connection.execute(_EPOCH).scalar_one()
    if stored != epoch:
        raise LeaseLost(stored=stored, ours=epoch)


@dataclass(frozen=True, slots=True)
class ScopeState:
    """Whether a scope trades, why, and who said so."""

    state: RunState
    reason: str
    by: str


def lasting_state(connection: sa.Connection, *scopes: str) -> ScopeState | None:
    """The newest state of a scope that decides whether it trades; None before the first."""
    row = connection.execute(_LASTING, {"scopes": scopes}).first()
    return ScopeState(RunState(row.to_state), row.reason, row.by_whom) if row else None


def reason_against(connection: sa.Connection, send: Send) -> str | None:
    """Say why a send may not begin, seen from what is stored before it; None: it may.

    A DELETE always may; a PUT when nothing is halted; a POST when its intent was never sent and no
    other order of its fingerprint, which the broker could not tell apart, is unresolved or working.
    """
    stored = connection.execute(_EPOCH).scalar_one()
    if stored != send.epoch:
        return str(LeaseLost(stored=stored, ours=send.epoch))
    started = [entry for entry in send.entries if isinstance(entry, AttemptStarted)]
    assert len(started) == 1, "a send has exactly one attempt"
    attempt = started[0]
    if attempt.verb == "DELETE":
        return None
    intent = connection.execute(_OF_INTENT, {"intent": attempt.intent_id}).first()
    if intent is None:
        return f"intent {attempt.intent_id} is not in the journal"
    account, symbol, strategy = intent
    for scopes in (
        WHOLE_BOT,
        (f"account:{account}",),
        (f"symbol:{symbol}",),
        (symbol,),
        (f"strategy:{strategy}",),
    ):
        kept = lasting_state(connection, *scopes)
        if kept is not None and kept.state is RunState.HALTED:
            return f"halted ({scopes[0]}): {kept.reason}"
    if attempt.verb == "POST":
        if connection.execute(_POST, {"intent": attempt.intent_id}).first():
            return f"intent {attempt.intent_id} was sent before; one POST per intent, ever"
        order = {"intent": attempt.intent_id, "fingerprint": send.fingerprint}
        if found := connection.execute(_UNRESOLVED_TWIN, order).scalar():
            return f"the same order is unresolved: {found}"
        if found := connection.execute(_WORKING_TWIN, order).scalar():
            return f"the same order is working: {found}"
    return None
