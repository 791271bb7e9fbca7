"""Tells the journal's entries in the lines of a run: `HH:MM:SS KIND    who        text`.

Pure: the same entries give the same lines, and what a text from outside holds is visible in them.
Times are market time, local to the exchange; the only figure of the wall clock is a latency, always
as `(N ms)`. A strategy that says no again for the
same reason is not told again until something else has happened to it: the journal has every no.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bot.cli.telling.decisions import tell_decision
from bot.cli.telling.memory import INDENT, Lines, Memory, more
from bot.cli.telling.orders import (
    keep_answer,
    keep_intent,
    tell_fill,
    tell_move,
    tell_order,
    tell_transition,
)
from bot.cli.telling.states import tell_auth, tell_note, tell_state, tell_switch
from bot.cli.telling.status_line import StatusLine
from bot.cli.telling.wording import LINE_MAX, folded
from bot.domain.entry import (
    AttemptFinished,
    AuthEvent,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    OrderUpdated,
    StateChanged,
    StrategySwitched,
    Transition,
)
from bot.domain.recovery import Recovery
from bot.domain.scripted import apart

_TELLERS: Final[Mapping[type, Callable[..., Lines]]] = {
    Decision: tell_decision,
    IntentRecorded: keep_intent,
    AttemptFinished: keep_answer,
    IntentMoved: tell_move,
    Transition: tell_transition,
    OrderUpdated: tell_order,
    Fill: tell_fill,
    AuthEvent: tell_auth,
    StateChanged: tell_state,
    StrategySwitched: tell_switch,
    Note: tell_note,
}
"""Entries of other kinds are for the journal alone."""


class Narrator:
    """Remembers just enough of what was told to tell the next entry in a line."""

    def __init__(self) -> None:
        self._memory = Memory()

    @property
    def status_line(self) -> StatusLine:
        """What the status line shows."""
        return self._memory.status_line

    def recall(self, recovery: Recovery) -> None:
        """Go on from what an earlier run of the day has told."""
        for stored in recovery.intents:
            self._memory.intents[stored.intent.intent_id] = stored.intent
        self._memory.status_line.recall(recovery)

    def tell(self, entry: Entry, limit: int = LINE_MAX) -> Lines:
        """Return the lines that an entry is worth, `limit` columns each; often none."""
        teller = _TELLERS.get(type(entry))
        bare, mark = apart(entry)
        lines = teller(self._memory, bare) if teller else []
        if isinstance(entry, Transition) and entry.order_id is not None:
            self._memory.scripted[entry.order_id] = mark
        if isinstance(entry, Fill):
            mark = self._memory.scripted.pop(entry.order_id, "")
        self._memory.status_line.see(entry)
        marked = _marked(lines, mark)
        return [part for line in marked for part in folded(line, indent=INDENT, limit=limit)]


def _marked(lines: Lines, mark: str) -> Lines:
    """Say on the line itself what the scenario of a sandbox forced, below it where it is full."""
    if not mark or not lines:
        return lines
    first, *others = lines
    whole = f"{first} {mark}"
    return [whole, *others] if len(whole) <= LINE_MAX else [first, more(mark), *others]
