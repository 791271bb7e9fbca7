"""The conditions under which an order may be sent, asserted inside the transaction that records it.

The engine has checked the same on its own book; here they are true of what is stored, whatever
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
"""The states that decide whether the bot trades; the others are passing."""
_ATTEMPTS, _HALTS, _INTENTS, _ORDERS = (
    tables.attempts,
    tables.halts,
    tables.intents,
    tables.orders,
)
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


def require_may_send(connection: sa.Connection, entries: Sequence[Entry], fingerprint: str) -> None:
    """Raise SendForbidden unless the attempt among `entries` may begin.

    A DELETE may always; a PUT when nothing is halted; a POST when its intent was never sent and no
    other order of its fingerprint is unresolved or working.
    """
    started = [entry for entry in entries if isinstance(entry, AttemptStarted)]
    assert len(started) == 1, "a send has exactly one attempt"
    attempt = started[0]
    if attempt.verb == "DELETE":
        return
    _require_not_halted(connection, attempt.intent_id)
    if attempt.verb == "POST":
        _require_first_post(connection, attempt.intent_id)
        _require_free(connection, attempt.intent_id, fingerprint)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a scope trades, why, and by whose word."""

    state: RunState
    reason: str
    by: str


def lasting_state(connection: sa.Connection, *scopes: str) -> Standing | None:
    """The newest state of a scope that decides whether it trades; None: nothing was ever said."""
    row = connection.execute(_LASTING, {"scopes": scopes}).first()
    return Standing(RunState(row.to_state), row.reason, row.by_whom) if row else None


def _require_not_halted(connection: sa.Connection, intent_id: str) -> None:
    intent = connection.execute(_OF_INTENT, {"intent": intent_id}).first()
    if intent is None:
        raise SendForbidden(f"intent {intent_id} is not in the journal")
    scopes = (f"account:{intent.account}", f"symbol:{intent.symbol}", intent.symbol)
    for scope in (WHOLE_BOT, *((each,) for each in (*scopes, f"strategy:{intent.strategy}"))):
        standing = lasting_state(connection, *scope)
        if standing is not None and standing.state is RunState.HALTED:
            raise SendForbidden(f"halted ({scope[0]}): {standing.reason}")


def _require_first_post(connection: sa.Connection, intent_id: str) -> None:
    if connection.execute(_POST, {"intent": intent_id}).first():
        raise SendForbidden(f"intent {intent_id} was sent before; one POST per intent, ever")


def _require_free(connection: sa.Connection, intent_id: str, fingerprint: str) -> None:
    """No order that the broker could not tell apart may be unresolved or working."""
    order = {"intent": intent_id, "fingerprint": fingerprint}
    if found := connection.execute(_UNRESOLVED_TWIN, order).scalar():
        raise SendForbidden(f"the same order is unresolved: {found}")
    if found := connection.execute(_WORKING_TWIN, order).scalar():
        raise SendForbidden(f"the same order is working: {found}")
