"""Which nonces a key has used: each is remembered for 300 seconds of wire time.

Source: broker open API 0.2.0-preview.3, signing: nonce TTL 300 s, replay error AUTH_NONCE_REUSED.
"""

from collections import deque
from datetime import datetime, timedelta
from typing import Final

NONCE_TTL: Final = timedelta(seconds=300)


class NonceMemory:
    """The (key, nonce) pairs of the last 300 seconds."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._order: deque[tuple[datetime, tuple[str, str]]] = deque()

    def is_used(self, key: str, nonce: str, at: datetime) -> bool:
        """Tell whether `key` used `nonce` less than 300 seconds before `at`."""
        self._forget(at)
        return (key, nonce) in self._known

    def use(self, key: str, nonce: str, at: datetime) -> None:
        """Remember that `key` has used `nonce`."""
        pair = (key, nonce)
        self._known.add(pair)
        self._order.append((at, pair))

    def _forget(self, at: datetime) -> None:
        while self._order and self._order[0][0] + NONCE_TTL <= at:
            self._known.discard(self._order.popleft()[1])
