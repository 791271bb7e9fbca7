"""Several lives in one market, merged in time: each acts, and says when it acts next.

They act at whole seconds of market time; within one, in the order in which they are given. So the
market is a function of what they are and what we did to it, in whatever slices it is advanced.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from heapq import heapify, heapreplace
from typing import Protocol


class Participant(Protocol):
    """Somebody in the market."""

    def move_to(self, at: datetime) -> None:
        """Let the next step happen at that instant."""

    def instants(self, at: datetime) -> Iterator[int]:
        """Yield the seconds since 1970 at which it acts, from `at` on, without end.

        What stands after a `yield` happens then. Seconds never go back.
        """


class Participants:
    """A source of a market: all of its lives."""

    def __init__(self, participants: Sequence[Participant], *, start: datetime) -> None:
        self._participants = tuple(participants)
        self._steps = [participant.instants(start) for participant in self._participants]
        self._due = [(next(steps), rank) for rank, steps in enumerate(self._steps)]
        heapify(self._due)

    def next_due(self) -> datetime:
        """When somebody acts next."""
        return datetime.fromtimestamp(self._due[0][0], UTC)

    def run_next(self) -> datetime:
        """Let all that happens in that second happen, and return when it was."""
        second = self._due[0][0]
        at = datetime.fromtimestamp(second, UTC)
        while self._due[0][0] <= second:
            rank = self._due[0][1]
            self._participants[rank].move_to(at)
            heapreplace(self._due, (next(self._steps[rank]), rank))
        return at
