"""Marks what the scenario of an embedded sandbox forced, before it is journalled and shown."""

from bot.domain.entry import (
    AttemptFinished,
    AuthEvent,
    Entry,
    IntentMoved,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
    Transition,
)
from bot.domain.order import OrderState
from bot.domain.scripted import with_mark
from bot.sandbox.house.forced import Forced

_ACCEPTED = "ACCEPTED"


class ScenarioMarks:
    """Says of an entry that the scenario forced it; called with each of them, in their order."""

    def __init__(self, forced: Forced) -> None:
        self._forced = forced
        self._intents: set[str] = set()
        """Whose request a fault kept from being accepted."""

    def __call__(self, entry: Entry) -> Entry:
        """Return the entry, with a mark where it has one."""
        return with_mark(entry, self._forced.scenario) if self._is_forced(entry) else entry

    def _is_forced(self, entry: Entry) -> bool:
        match entry:
            case AttemptFinished():
                return self._is_attempt_forced(entry)
            case IntentMoved():
                return entry.intent_id in self._intents
            case Transition() | OrderUpdated():
                return self._is_order_forced(entry)
            case AuthEvent(kind="needed") | StateChanged(to_state=RunState.NEEDS_2FA):
                return self._forced.took_the_token
            case Note(kind="LIMIT"):
                return self._forced.limits(entry.at)
            case _:
                return False

    def _is_attempt_forced(self, entry: AttemptFinished) -> bool:
        if not self._forced.struck(entry.attempt_id):
            return False
        if entry.outcome != _ACCEPTED:
            self._intents.add(entry.intent_id)
        return True

    def _is_order_forced(self, entry: Transition | OrderUpdated) -> bool:
        """A refusal, or a fill of only a part: who is told of it would look for its reason."""
        is_shaped = entry.order_id is not None and self._forced.shaped(entry.order_id)
        if isinstance(entry, Transition) and entry.to_state is OrderState.PARTIALLY_FILLED:
            return is_shaped
        state = entry.to_state if isinstance(entry, Transition) else entry.state
        return state is OrderState.REJECTED and (is_shaped or entry.intent_id in self._intents)
