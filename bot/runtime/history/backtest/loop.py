"""The loop of a backtest: an event goes into the engine, the broker answers its commands.

It also finds the instants with more than bars: timers, phases, auctions, settlements.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final

from bot.domain.message import Event, PlaceAnswered, PlaceOrder, Record, TimePassed
from bot.domain.outcome import NotSent
from bot.engine.engine import Engine
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.broker import BarBroker
from bot.runtime.history.backtest.market import MarketDay
from bot.runtime.history.backtest.result import Collected

EVENTS_MAX: Final = 10_000
"""Events that one event may lead to; more means a loop."""
DEADLINES_MAX: Final = 100_000
"""Deadlines between two instants."""


class Loop:
    """Drives an engine. `now` is the time reached."""

    def __init__(
        self, engine: Engine, broker: BarBroker, collected: Collected, *, now: datetime
    ) -> None:
        self.now = now
        self._engine = engine
        self._broker = broker
        self._collected = collected

    def pass_to(self, at: datetime) -> None:
        """Process the deadlines before an instant, each at its own time."""
        for _ in range(DEADLINES_MAX):
            due = self._engine.next_due()
            if due is None or due >= at:
                self.now = at
                return
            self.handle(TimePassed(due))
        raise AssertionError(f"more than {DEADLINES_MAX} deadlines before {at}")

    def handle(self, event: Event) -> None:
        """Give the engine an event and carry out its commands, until there are none."""
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


@dataclass(frozen=True, slots=True)
class Timer:
    """A local time of day at which strategies are woken, with their symbols."""

    at: time
    strategy: str
    symbols: tuple[str, ...]


def timers_of(strategies: Iterable[LoadedStrategy]) -> list[Timer]:
    """Return the timers of all strategies, ordered by time of day."""
    timers = (
        Timer(at, each.plan.name, each.plan.symbols)
        for each in strategies
        for at in each.plan.wake.timers
    )
    return sorted(timers, key=lambda timer: timer.at)


def engines_own(day: MarketDay, deadlines: Iterable[time]) -> list[int]:
    """Return the instants that need the engine, by their indexes, and the day's end.

    At these a phase begins, an auction is matched, a bar of the previous day is shown, or a
    deadline is due.
    """
    seconds = {round(since_midnight(each).total_seconds()) for each in deadlines} | day.moves
    for rows in day.rows.values():
        seconds.update(rows.auctions)
        if rows.held is not None:
            seconds.add(rows.held[0])
    return sorted({bisect_left(day.seconds, each) for each in seconds} | {len(day.seconds)})


def since_midnight(local: time) -> timedelta:
    return timedelta(hours=local.hour, minutes=local.minute, seconds=local.second)
