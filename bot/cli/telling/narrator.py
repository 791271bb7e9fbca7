"""Puts the journal's entries into the lines of a run: `HH:MM:SS KIND    who        text`.

Pure: the same entries give the same lines, and texts from outside are made visible. Times are
market time, local to the exchange; the only figures of the wall clock are latencies, always as `(N
ms)`. A skip is shown once: the same strategy's next one for the same reason gets no line until
something else has happened there. The journal has every skip.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bot.cli.telling.languages import ENGLISH
from bot.cli.telling.memory import INDENT, Lines, Memory, StatusLine, more
from bot.cli.telling.orders import (
    decision_lines,
    fill_lines,
    keep_answer,
    keep_intent,
    move_lines,
    order_lines,
    transition_lines,
)
from bot.cli.telling.states import auth_lines, note_lines, state_lines, switch_lines
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

_LINES: Final[Mapping[type, Callable[..., Lines]]] = {
    Decision: decision_lines,
    IntentRecorded: keep_intent,
    AttemptFinished: keep_answer,
    IntentMoved: move_lines,
    Transition: transition_lines,
    OrderUpdated: order_lines,
    Fill: fill_lines,
    AuthEvent: auth_lines,
    StateChanged: state_lines,
    StrategySwitched: switch_lines,
    Note: note_lines,
}
"""Entries of other kinds are only journalled."""


class Narrator:
    """Remembers just enough of earlier entries to word the next one."""

    def __init__(self, language: str = ENGLISH) -> None:
        self._memory = Memory(language)

    def ask_by(self, otp: str) -> None:
        """A code is given by this command: `bot otp`, which may have to name its bot."""
        self._memory.otp = otp

    @property
    def status_line(self) -> StatusLine:
        return self._memory.status_line

    def recall(self, recovery: Recovery) -> None:
        """Continue from what an earlier run of the day has shown."""
        for stored in recovery.intents:
            self._memory.intents[stored.intent.intent_id] = stored.intent
        self._memory.status_line.recall(recovery)

    def lines_of(self, entry: Entry, limit: int = LINE_MAX) -> Lines:
        """Return the lines for an entry, `limit` columns each; often none."""
        make = _LINES.get(type(entry))
        bare, mark = apart(entry)
        lines = make(self._memory, bare) if make else []
        if isinstance(entry, Transition) and entry.order_id is not None:
            self._memory.scripted[entry.order_id] = mark
        if isinstance(entry, Fill):
            mark = self._memory.scripted.pop(entry.order_id, "")
        self._memory.status_line.see(entry)
        if mark and lines:  # the mark of a scenario is on the line itself if it fits
            whole = f"{lines[0]} {mark}"
            first = [whole] if len(whole) <= LINE_MAX else [lines[0], more(mark)]
            lines = [*first, *lines[1:]]
        shown: Lines = []
        for line in lines:
            shown += folded(line, indent=INDENT, limit=limit)
        return shown
