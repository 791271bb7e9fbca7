"""The conditions under which an order may be sent, asserted inside the transaction that records it.

The engine has checked the same on its own state; here they hold for what is stored, whatever
another process or an earlier run has written (order safety, sections 3 and 10: I2, I10, I11, I14).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import AttemptStarted, Entry, RunState
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS
from bot.journal import tables
from bot.journal.errors import LeaseLost, SendForbidden
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


def require_may_send(connection: sa.Connection, entries: Sequence[Entry], fingerprint: str) -> None:
    """Raise SendForbidden unless the attempt among `entries` may begin.

    A DELETE always may; a PUT when nothing is halted; a POST when its intent was never sent and no
    other order of its fingerprint, which the broker could not tell apart, is unresolved or working.
    """
    started = [entry for entry in entries if isinstance(entry, AttemptStarted)]
    assert len(started) == 1, "a send has exactly one attempt"
    attempt = started[0]
    if attempt.verb == "DELETE":
        return
    intent = connection.execute(_OF_INTENT, {"intent": attempt.intent_id}).first()
    if intent is None:
        raise SendForbidden(f"intent {attempt.intent_id} is not in the journal")
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
            raise SendForbidden(f"halted ({scopes[0]}): {kept.reason}")
    if attempt.verb == "POST":
        if connection.execute(_POST, {"intent": attempt.intent_id}).first():
            text = f"intent {attempt.intent_id} was sent before; one POST per intent, ever"
            raise SendForbidden(text)
        order = {"intent": attempt.intent_id, "fingerprint": fingerprint}
        if found := connection.execute(_UNRESOLVED_TWIN, order).scalar():
            raise SendForbidden(f"the same order is unresolved: {found}")
        if found := connection.execute(_WORKING_TWIN, order).scalar():
            raise SendForbidden(f"the same order is working: {found}")
