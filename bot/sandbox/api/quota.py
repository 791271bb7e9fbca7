"""How many requests a key may make in 60 seconds of wire time: a window that slides.

Source: broker open API 0.2.0-preview.3, request quota by class; the numbers are those of the public
command-line client of March 2026.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

QUOTA_WINDOW: Final = timedelta(seconds=60)
QUOTA_CLASSES: Final[Mapping[str, int]] = {
    "FREE": 600,
    "BASIC": 1_200,
    "PRO": 3_000,
    "ENTERPRISE": 10_000,
}


class QuotaWindow:
    """The requests of one key in the last 60 seconds; a refused one does not count."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: deque[datetime] = deque()

    def take(self, at: datetime) -> bool:
        """Count a request at `at` and say True, or say False when the window is full."""
        self._slide(at)
        if len(self._taken) >= self._limit:
            return False
        self._taken.append(at)
        return True

    def count_refused(self, at: datetime) -> None:
        """Count a refused request too (a switch of the scenario): waiting too little never ends."""
        self._slide(at)
        self._taken.append(at)

    def reset_s(self, at: datetime) -> int:
        """Unix second in which the oldest counted request leaves the window, rounded up."""
        self._slide(at)
        leaves = (self._taken[0] if self._taken else at) + QUOTA_WINDOW
        return ceil_s(leaves)

    def _slide(self, at: datetime) -> None:
        while self._taken and self._taken[0] + QUOTA_WINDOW <= at:
            self._taken.popleft()


def ceil_s(instant: datetime) -> int:
    """Unix seconds of an instant, a started second counted whole."""
    seconds, microseconds = int(instant.timestamp()), instant.microsecond
    return seconds + (microseconds > 0)
