"""The loop of a backtest: an event goes into the engine, the broker answers its commands."""

from collections import deque
from datetime import datetime
from typing import Final

from bot.domain.message import Event, PlaceAnswered, PlaceOrder, Record, TimePassed
from bot.domain.outcome import NotSent
from bot.engine.engine import Engine
from bot.runtime.history.backtest.broker import BarBroker
from bot.runtime.history.backtest.collect import Collected

EVENTS_MAX: Final = 10_000
"""That one event may lead to; more is a loop."""
DEADLINES_MAX: Final = 100_000
"""Between two instants."""


class Loop:
    """Drives an engine. `now` is how far time has come."""

    def __init__(
        self, engine: Engine, broker: BarBroker, collected: Collected, *, now: datetime
    ) -> None:
        self.now = now
        self._engine = engine
        self._broker = broker
        self._collected = collected

    def pass_to(self, at: datetime) -> None:
        """Let the deadlines pass that lie before an instant, each at its own time."""
        for _ in range(DEADLINES_MAX):
            due = self._engine.next_due()
            if due is None or due >= at:
                self.now = at
                return
            self.handle(TimePassed(due))
        raise AssertionError(f"more than {DEADLINES_MAX} deadlines before {at}")

    def handle(self, event: Event) -> None:
        """Give the engine an event and carry out what it wants, until it wants nothing more."""
        engine, broker, keep = self._engine, self._broker, self._collected.keep
        waiting = deque([event])
        for _ in range(EVENTS_MAX):
            if not waiting:
                return
            now = waiting.popleft()
            for command in engine.handle(now):
                if isinstance(command, Record):
                    keep(command.entry)
                elif isinstance(command, PlaceOrder) and (
                    reason := engine.reason_not_to_send(command.intent)
                ):
                    intent_id = command.intent.intent_id
                    waiting.append(PlaceAnswered(now.at, intent_id, NotSent(reason), None))
                else:
                    waiting.extend(broker.answer(command, now.at))
        raise AssertionError(f"{type(event).__name__} leads to more than {EVENTS_MAX} events")
