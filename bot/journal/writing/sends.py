"""The conditions under which an order may be sent, asserted inside the transaction that records it.

The engine has checked the same on its own state; here they are checked on what is stored, including
what another process or an earlier run has written (order safety, sections 3 and 10: I2, I10, I11,
I14).

The objections to sends are read once and then kept up to date with each row written. A transaction
begins by asserting, under a lock, that the journal still ends with the entry that we wrote last, so
nobody has stored a halt, or anything else, that is unknown here. If that fails, or the transaction
does, all of it is discarded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import AttemptStarted, Entry, RunState
from bot.domain.errors import require
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS, OrderState
from bot.journal.database import tables
from bot.journal.database.encoding import Plain
from bot.journal.database.statements import Statement, Values, given

WHOLE_BOT: Final = ("all", "operator")
"""Scopes of the whole bot: the shown state, and what an operator wants beneath it."""
STOPPING: Final = (RunState.HALTED, RunState.PAUSED, "paused", "disabled")
"""The lasting states, of the bot or of a strategy, in which a scope does not trade."""
_WHOLE_STOPS: Final = (RunState.HALTED, "disabled")
"""Those of them that nothing exceeds."""
LASTING: Final = (RunState.HALTED, RunState.PAUSED, RunState.RUNNING)
"""The states that decide whether the bot trades; the others are transient."""
UNRESOLVED: Final = "unresolved"
WORKING: Final = "working"
POSTS_MAX: Final = 1_024
"""For this many of the newest intents it is cached whether they were sent; for older ones the
database is asked.
"""
_ATTEMPTS, _HALTS = tables.attempts, tables.halts
_INTENTS, _ORDERS = tables.intents, tables.orders
_NEWEST: Final = (
    sa.select(sa.func.max(_HALTS.c.seq))
    .where(_HALTS.c.to_state.in_(LASTING))
    .group_by(_HALTS.c.scope)
)
_STATES: Final = (
    sa.select(_HALTS.c.scope, _HALTS.c.to_state, _HALTS.c.reason)
    .where(_HALTS.c.seq.in_(_NEWEST))
    .order_by(_HALTS.c.seq)
)
_OPEN_INTENTS: Final = sa.select(_INTENTS.c.intent_id, _INTENTS.c.fingerprint, _INTENTS.c.state)
_UNRESOLVED: Final = _OPEN_INTENTS.where(_INTENTS.c.state.in_(UNRESOLVED_SENDS))
_OF_ORDER: Final = ("account", "trading_date", "order_id", "state")
_WORKING: Final = (
    sa.select(_INTENTS.c.intent_id, _INTENTS.c.fingerprint, *(_ORDERS.c[n] for n in _OF_ORDER))
    .join(_INTENTS, _INTENTS.c.intent_id == _ORDERS.c.intent_id)
    .where(_ORDERS.c.state.in_([each for each in OrderState if each not in TERMINAL_STATES]))
)
_POST: Final = sa.select(_ATTEMPTS.c.attempt_id).where(
    _ATTEMPTS.c.intent_id == given("intent"), _ATTEMPTS.c.verb == "POST"
)


Ask = Callable[[Statement, Mapping[str, Plain]], Sequence[Values]]
"""Queries the database, in the open transaction."""


@dataclass(frozen=True, slots=True)
class Send:
    """An attempt that is about to be sent, with what is recorded beside it.

    That it has one attempt is required when it is made, under the guard of its maker: inside a
    transaction that would end the run. `epoch` is its sender's lease, `fingerprint` that of its
    order. `passes_halt`: it is a sale that a person has requested with the halt of the whole bot
    itself.
    """

    entries: tuple[Entry, ...]
    epoch: int
    fingerprint: str
    passes_halt: bool = False

    def __post_init__(self) -> None:
        """Require its one attempt."""
        require(len(self._started) == 1, "I2", f"a send has {len(self._started)} attempts")

    @property
    def attempt(self) -> AttemptStarted:
        """The attempt among its entries."""
        return self._started[0]

    @property
    def _started(self) -> list[AttemptStarted]:
        return [entry for entry in self.entries if isinstance(entry, AttemptStarted)]


@dataclass(frozen=True, slots=True)
class ScopeState:
    """Whether a scope trades, why, and who said so."""

    state: RunState
    reason: str
    by: str


def lasting_state(connection: sa.Connection, *scopes: str) -> ScopeState | None:
    """The newest state of a scope that decides whether it trades; None before the first."""
    newest = (
        sa.select(_HALTS.c.to_state, _HALTS.c.reason, _HALTS.c.by_whom)
        .where(_HALTS.c.scope.in_(scopes), _HALTS.c.to_state.in_(LASTING))
        .order_by(_HALTS.c.seq.desc())
        .limit(1)
    )
    row = connection.execute(newest).first()
    return ScopeState(RunState(row.to_state), row.reason, row.by_whom) if row else None


_LATER: Final = (
    sa.select(_HALTS.c.to_state)
    .where(_HALTS.c.scope.in_((given("one_scope"), given("other_scope"))))
    .where(_HALTS.c.to_state.in_((*STOPPING, RunState.RUNNING, "on")))
    .where(_HALTS.c.at > given("at"))
    .order_by(_HALTS.c.at.desc(), _HALTS.c.seq.desc())
    .limit(1)
)


def begins_again(ask: Ask, changed: Mapping[str, Plain]) -> bool:
    """Return whether a change of state would let its scope trade, which was stopped later, or would
    take the place of that stop by a pause.
    """
    if changed["its_state"] in _WHOLE_STOPS:
        return False
    scope = changed["its_scope"]
    one, other = WHOLE_BOT if scope in WHOLE_BOT else (scope, scope)
    later = ask(_LATER, {"at": changed["at"], "one_scope": one, "other_scope": other})
    return bool(later) and later[0][0] in STOPPING


class Against:
    """Everything stored that speaks against a send. It outlives the connection it was read from."""

    def __init__(self, ask: Ask) -> None:
        self._states: dict[Plain, tuple[Plain, Plain]] = {}
        """For each scope its newest lasting state, and why; the whole bot's under its
        first scope.
        """
        self._twins: dict[Plain, set[tuple[str, str, Plain]]] = {}
        """By fingerprint, what is not over: in which way, its id, and its intent's."""
        self._working: dict[tuple[Plain, ...], tuple[Plain, tuple[str, str, Plain]]] = {}
        """For each working order, by its key, its place in `_twins`."""
        self._was_sent: dict[Plain, bool] = {}
        for scope, state, reason in ask(_STATES, {}):
            self._see_state({"scope": scope, "to_state": state, "reason": reason})
        for row in ask(_UNRESOLVED, {}):
            self.see_intent(dict(zip(_UNRESOLVED.selected_columns.keys(), row, strict=True)))
        for row in ask(_WORKING, {}):
            found = dict(zip(_WORKING.selected_columns.keys(), row, strict=True))
            self.see_order(found, found)

    # ---------------------------------------------------------------------- what has been written

    def see_new(self, table: sa.Table, row: Mapping[str, Plain]) -> None:
        """A row has been added to a chain."""
        if table is _INTENTS:
            self._note_sent(row["intent_id"], is_sent=False)
            self.see_intent(row)
        elif table is _ATTEMPTS and row["verb"] == "POST":
            self._note_sent(row["intent_id"], is_sent=True)
        elif table is _HALTS and row["to_state"] in LASTING:
            self._see_state(row)

    def see_intent(self, row: Mapping[str, Plain]) -> None:
        """An intent is now as in the row."""
        mine = (UNRESOLVED, str(row["intent_id"]), row["intent_id"])
        self._mark(row["fingerprint"], mine, is_open=row["state"] in UNRESOLVED_SENDS)

    def see_order(self, row: Mapping[str, Plain], intent: Mapping[str, Plain] | None) -> None:
        """An order, of our intents or not, is now as in the row."""
        key = tuple(row[name] for name in _OF_ORDER[:3])
        if (before := self._working.pop(key, None)) is not None:
            self._mark(*before, is_open=False)
        if intent is not None and row["state"] not in TERMINAL_STATES:
            mine = (WORKING, str(row["order_id"]), intent["intent_id"])
            self._working[key] = intent["fingerprint"], mine
            self._mark(intent["fingerprint"], mine, is_open=True)

    def _see_state(self, row: Mapping[str, Plain]) -> None:
        scope = WHOLE_BOT[0] if row["scope"] in WHOLE_BOT else row["scope"]
        self._states[scope] = row["to_state"], row["reason"]

    def _mark(self, fingerprint: Plain, mine: tuple[str, str, Plain], *, is_open: bool) -> None:
        twins = self._twins.setdefault(fingerprint, set())
        (twins.add if is_open else twins.discard)(mine)
        if not twins:
            del self._twins[fingerprint]

    def _note_sent(self, intent_id: Plain, *, is_sent: bool) -> None:
        self._was_sent[intent_id] = is_sent
        if len(self._was_sent) > POSTS_MAX:
            del self._was_sent[next(iter(self._was_sent))]

    # -------------------------------------------------------------------------- what is to be sent

    def reason_against(self, send: Send, intent: Mapping[str, Plain], ask: Ask) -> str | None:
        """Return why a send of an intent may not begin; a DELETE always may.

        A PUT may if nothing is halted; a POST also needs an intent that was never sent, and no
        unresolved or working order with the same fingerprint, which the broker could not tell
        apart.
        """
        account, symbol = f"account:{intent['account']}", f"symbol:{intent['symbol']}"
        strategy = f"strategy:{intent['strategy']}"
        for scope in (WHOLE_BOT[0], account, symbol, intent["symbol"], strategy):
            state, reason = self._states.get(scope, (None, None))
            if state == RunState.HALTED and not (send.passes_halt and scope == WHOLE_BOT[0]):
                return f"halted ({scope}): {reason}"
        if send.attempt.verb != "POST":
            return None
        intent_id = intent["intent_id"]
        was_sent = self._was_sent.get(intent_id)
        if was_sent or (was_sent is None and ask(_POST, {"intent": intent_id})):
            return f"intent {intent_id} was sent before; one POST per intent, ever"
        for word, name, its_intent in sorted(self._twins.get(send.fingerprint, ())):
            if its_intent != intent_id:
                return f"the same order is {word}: {name}"
        return None
