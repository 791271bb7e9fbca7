"""Notices polls that starve: that still wait for their answer when they are due again, for long.

A feed that starves makes no noise of its own: quotes grow old and orders are refused for it. It is
told once on the screen, and in `bot status` for as long as it lasts.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import Note
from bot.domain.message import Noted
from bot.runtime.activity import Post
from bot.runtime.feeds import Poll, room_for_polls

LATE_FOR: Final = timedelta(minutes=2)
"""Market time that a poll may be late: a wait that the broker has asked for is shorter."""


class PollWatch:
    """Watches the polls of one run.

    `speed` is how many market seconds pass in a second of the clock by which requests are counted.
    """

    def __init__(self, *, quota: int, speed: float, post: Post) -> None:
        self._room = room_for_polls(quota)
        self._speed = speed
        self._post = post
        self._needed = 0.0
        self._late_since: dict[str, datetime] = {}
        self.starved = ""
        """What is wrong, with its numbers; empty while polls come in time."""

    def plan(self, polls: Sequence[Poll]) -> None:
        """Learn which polls there are."""
        self._needed = sum(poll.per_minute for poll in polls) * self._speed

    def due(self, poll: str, at: datetime, *, is_waiting: bool) -> None:
        """A poll is due; `is_waiting` when the one before it has no answer yet."""
        if is_waiting:
            self._late_since.setdefault(poll, at)
        else:
            self._late_since.pop(poll, None)
        is_starved = any(at - since >= LATE_FOR for since in self._late_since.values())
        if is_starved and not self.starved:
            self._tell(at, self._why())
        elif self.starved and not self._late_since:
            self._tell(at, "")

    def _why(self) -> str:
        if self._needed > self._room:
            needs = f"they need {self._needed:,.0f} requests a minute"
            return f"polls come late: {needs}, the quota leaves {self._room:,}"
        return "polls come late: the broker takes longer to answer than they are apart"

    def _tell(self, at: datetime, starved: str) -> None:
        self.starved = starved
        numbers = {"needed": round(self._needed, 1), "room": self._room}
        self._post(Noted(at, Note(at, "FEED", starved or "polls come in time again", numbers)))
