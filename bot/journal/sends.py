"""The conditions under which an order may be sent, asserted inside the transaction that records it.

The engine has checked the same on its own state; here they hold for what is stored, whatever
another process or an earlier run has written (order safety, sections 3 and 10: I2, I10, I11, I14).
"""

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.entry import AttemptStarted, Entry, RunState
from bot.domain.invariants import require
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS
from bot.journal import tables
from bot.journal.batch import Batch
from bot.journal.connections import given
from bot.journal.errors import LeaseLost

WHOLE_BOT: Final = ("all", "operator")
"""Scopes that are about all of the bot: the state shown, and what an operator wants under it."""
LASTING: Final = (RunState.HALTED, RunState.PAUSED, RunState.RUNNING)
"""The states that decide whether the bot trades; the others pass."""
_ATTEMPTS, _HALTS = tables.attempts, tables.halts
_INTENTS, _ORDERS = tables.intents, tables.orders
SCOPES: Final = ("account", "symbol", "bare_symbol", "strategy")
"""What else of an order may be halted; the parameters of `_AGAINST` that name it."""
POSTED: Final = "POSTED"
UNRESOLVED: Final = "UNRESOLVED"
WORKING: Final = "WORKING"


@dataclass(frozen=True, slots=True)
class Send:
    """An attempt that is about to be sent, with what is recorded beside it.

    `epoch` is its sender's lease, `fingerprint` that of its order.
    """

    entries: tuple[Entry, ...]
    epoch: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ScopeState:
    """Whether a scope trades, why, and who said so."""

    state: RunState
    reason: str
    by: str


def lasting_state(connection: sa.Connection, *scopes: str) -> ScopeState | None:
    """The newest state of a scope that decides whether it trades; None before the first."""
    row = connection.execute(_newest(_HALTS.c.scope.in_(scopes))).first()
    return ScopeState(RunState(row.to_state), row.reason, row.by_whom) if row else None


def reason_against(batch: Batch, send: Send) -> str | None:
    """Say why a send may not begin, seen from what is stored before it; None: it may.

    A DELETE always may; a PUT when nothing is halted; a POST when its intent was never sent and no
    other order of its fingerprint, which the broker could not tell apart, is unresolved or working.
    """
    if batch.epoch != send.epoch:
        return str(LeaseLost(stored=batch.epoch, ours=send.epoch))
    started = [entry for entry in send.entries if isinstance(entry, AttemptStarted)]
    require(len(started) == 1, "I2", f"a send has {len(started)} attempts")
    attempt = started[0]
    if attempt.verb == "DELETE":
        return None
    intent = batch.find_intent(attempt.intent_id)
    if intent is None:
        return f"intent {attempt.intent_id} is not in the journal"
    scopes = {
        "account": f"account:{intent['account']}",
        "symbol": f"symbol:{intent['symbol']}",
        "bare_symbol": intent["symbol"],
        "strategy": f"strategy:{intent['strategy']}",
    }
    order = {"intent": attempt.intent_id, "fingerprint": send.fingerprint}
    for _, what, word, text in sorted(batch.connection.rows(_AGAINST, {**scopes, **order})):
        if word == RunState.HALTED:
            return f"halted ({scopes.get(str(what), what)}): {text}"
        if attempt.verb == "POST" and word == POSTED:
            return f"intent {attempt.intent_id} was sent before; one POST per intent, ever"
        if attempt.verb == "POST" and word in {UNRESOLVED, WORKING}:
            return f"the same order is {str(word).lower()}: {text}"
    return None


def _newest(in_scope: sa.ColumnElement[bool]) -> sa.Select[tuple[str, str, str]]:
    """The newest state in a scope that decides whether it trades."""
    return (
        sa.select(_HALTS.c.to_state, _HALTS.c.reason, _HALTS.c.by_whom)
        .where(in_scope, _HALTS.c.to_state.in_(LASTING))
        .order_by(_HALTS.c.seq.desc())
        .limit(1)
    )


def _all_against() -> sa.CompoundSelect[Any]:
    """All that can speak against a send, in one question: its rank, of what, a word and a text."""
    found: list[tuple[str, sa.Select[tuple[str, str]]]] = [
        (WHOLE_BOT[0], _newest(_HALTS.c.scope.in_(WHOLE_BOT)).with_only_columns(*_STATE))
    ]
    found += [
        (name, _newest(_HALTS.c.scope == given(name)).with_only_columns(*_STATE)) for name in SCOPES
    ]
    mine = _ATTEMPTS.c.intent_id == given("intent")
    twin = _INTENTS.c.fingerprint == given("fingerprint")
    twin &= _INTENTS.c.intent_id != given("intent")
    of_intent = _INTENTS.c.intent_id == _ORDERS.c.intent_id
    unresolved = _INTENTS.c.state.in_(UNRESOLVED_SENDS)
    working = _ORDERS.c.state.not_in(TERMINAL_STATES)
    for word, query in (
        (POSTED, sa.select(_ATTEMPTS.c.attempt_id).where(mine, _ATTEMPTS.c.verb == "POST")),
        (UNRESOLVED, sa.select(_INTENTS.c.intent_id).where(twin, unresolved)),
        (WORKING, sa.select(_ORDERS.c.order_id).join(_INTENTS, of_intent).where(twin, working)),
    ):
        [text] = query.selected_columns
        named = query.with_only_columns(sa.literal_column(f"'{word}'").label("word"), text)
        found.append(("", named.order_by(text).limit(1)))  # the same one on both databases
    return sa.union_all(
        *(
            sa.select(*map(sa.literal_column, (str(rank), f"'{what}'")), *query.subquery().columns)
            for rank, (what, query) in enumerate(found)
        )
    )


_STATE: Final = (_HALTS.c.to_state, _HALTS.c.reason)
_AGAINST: Final = _all_against()
