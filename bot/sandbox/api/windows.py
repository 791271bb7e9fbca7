"""What a key has used lately, in wire time: requests of the last 60 seconds, nonces of 300.

Source: broker open API 0.2.0-preview.3, request quota by class, and signing: nonce TTL 300 s,
replay error AUTH_NONCE_REUSED. The quota's numbers are those of the public command-line client of
March 2026.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

NONCE_TTL: Final = timedelta(seconds=300)
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
        """Count a request at `at` and return True, or return False when the window is full."""
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
        return ceil_s((self._taken[0] if self._taken else at) + QUOTA_WINDOW)

    def _slide(self, at: datetime) -> None:
        while self._taken and self._taken[0] + QUOTA_WINDOW <= at:
            self._taken.popleft()


class NonceMemory:
    """The (key, nonce) pairs of the last 300 seconds."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._order: deque[tuple[datetime, tuple[str, str]]] = deque()

    def is_used(self, key: str, nonce: str, at: datetime) -> bool:
        """Tell whether `key` used `nonce` less than 300 seconds before `at`."""
        while self._order and self._order[0][0] + NONCE_TTL <= at:
            self._known.discard(self._order.popleft()[1])
        return (key, nonce) in self._known

    def use(self, key: str, nonce: str, at: datetime) -> None:
        self._known.add((key, nonce))
        self._order.append((at, (key, nonce)))


def ceil_s(instant: datetime) -> int:
    """Unix seconds of an instant, a started second counted whole."""
    return int(instant.timestamp()) + (instant.microsecond > 0)
