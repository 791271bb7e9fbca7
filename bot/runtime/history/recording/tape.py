"""The engine's side of a recording: every call that changes the engine, with its anomalies.

The inputs that determine decisions are the events, how many hooks a turn of the loop had time for,
and what was raised in a hook or a step of the engine. Looks at the engine between events change
nothing unless they raise, which makes a row of its own. Here a call is only put in a bounded queue,
which costs an order a microsecond.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.domain.errors import Fault
from bot.domain.message import Command, Event
from bot.domain.order import Intent
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, Guard, Invoke, LoadedStrategy, StrategyFault
from bot.engine.wake import MustYield
from bot.runtime.history.recording.recordings import DUE, GO_ON, LAST_LOOK, LOOK
from bot.strategy import Strategy

QUEUE_MAX: Final = 20_000
"""Calls waiting to be written: minutes of a busy market."""


@dataclass(slots=True)
class Call:
    """One call of the engine waiting to be written; `lost` calls were dropped before it."""

    at: datetime
    kind: str
    event: Event | None
    odd: list[tuple[object, ...]]
    commands: list[Command]
    lost: int = 0


class Tape:
    """Sits between an engine and its inputs, and notes the anomalies of each call."""

    def __init__(
        self, invoke: Invoke, guard: Guard, must_yield: MustYield, room: int = QUEUE_MAX
    ) -> None:
        self._room, self.full = room, room // 2
        """When it is half full, a clock that waits for us waits; a real one does not."""
        self._invoke, self._guard, self._must_yield = invoke, guard, must_yield
        self.calls: deque[Call] = deque()
        self.lost = 0
        self.is_open = True
        self.on_full: Callable[[], None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._odd: list[tuple[object, ...]] = []
        self._hooks = self._steps = self._asked = 0

    def invoke(
        self, strategy: Strategy, hook: str, argument: object | None
    ) -> StrategyFault | None:
        fault = self._invoke(strategy, hook, argument)
        if fault is not None:
            stuck = (True,) if fault.is_stuck else ()
            self._odd.append(("hook", self._hooks, fault.error, fault.is_overrun, *stuck))
        self._hooks += 1
        return fault

    def guard(self, step: Callable[[], object]) -> Fault | None:
        """Make a step of the engine."""
        number, self._steps = self._steps, self._steps + 1
        fault = self._guard(step)
        if fault is not None:
            kept = (fault.kind, fault.error, fault.trace, fault.report, fault.invariant)
            self._odd.append(("step", number, *kept))
        return fault

    def must_yield(self) -> bool:
        """Return whether something else should get a turn before the next hook."""
        is_over = self._must_yield()
        if is_over:
            self._odd.append(("yield", self._asked))
        self._asked += 1
        return is_over

    def take(self, at: datetime, kind: str, event: Event | None, commands: list[Command]) -> None:
        """Queue a call and its result; if the queue is full, drop and count it."""
        odd = self._odd
        self._begin()
        if not self.is_open:
            return
        if len(self.calls) >= self._room:
            self.lost += 1
            return
        self.calls.append(Call(at, kind, event, odd, commands, self.lost))
        self.lost = 0
        if len(self.calls) == self.full and self.on_full is not None:
            self.on_full()

    def looked(self, at: datetime, what: str) -> None:
        """Somebody has looked at the engine; record it only if that raised."""
        if self._odd:
            self._odd.append((what, 0))
            self.take(at, LOOK, None, [])
        else:
            self._begin()


class RecordedEngine(Engine):
    """An engine whose every call goes to a tape."""

    def __init__(
        self,
        *,
        rulebook: Rulebook,
        strategies: Sequence[LoadedStrategy],
        settings: EngineSettings,
        tape: Tape,
    ) -> None:
        super().__init__(
            rulebook=rulebook,
            strategies=strategies,
            settings=settings,
            invoke=tape.invoke,
            guard=tape.guard,
            must_yield=tape.must_yield,
        )
        self.tape, self.rulebook = tape, rulebook
        self.strategies, self.settings = strategies, settings
        self._event: Event | None = None

    def handle(self, event: Event) -> list[Command]:
        """Like the engine's; `go_on`, which ends it, records both."""
        self._event = event
        return super().handle(event)

    def go_on(self) -> list[Command]:
        """Like the engine's."""
        commands, event = super().go_on(), self._event
        self._event = None
        kind = GO_ON if event is None else type(event).__name__
        self.tape.take(self._state.now, kind, event, commands)
        return commands

    def next_due(self) -> datetime | None:
        """Like the engine's."""
        due = super().next_due()
        self.tape.looked(self._state.now, DUE)
        return due

    def reason_not_to_send(self, intent: Intent) -> str | None:
        """Like the engine's."""
        reason = super().reason_not_to_send(intent)
        self.tape.looked(self._state.now, LAST_LOOK)
        return reason

    def reason_not_to_amend(self, intent_id: str) -> str | None:
        """Like the engine's."""
        reason = super().reason_not_to_amend(intent_id)
        self.tape.looked(self._state.now, LAST_LOOK)
        return reason
