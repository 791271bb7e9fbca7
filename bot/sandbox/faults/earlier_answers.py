"""What the sandbox answered a while ago, for faults that let it answer so again.

Kept is only what such a fault could need, and of that a bounded part: the newest answers of the
targets that were asked for last. It is gone after a restart: a stale answer is then the true one.
"""

from collections import OrderedDict, deque
from datetime import datetime, timedelta
from typing import Final

ANSWERS_MAX: Final = 256
"""Of one target."""
TARGETS_MAX: Final = 64


class EarlierAnswers:
    """Bodies by target and market time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, deque[tuple[datetime, bytes]]] = OrderedDict()

    def keep(self, target: str, at: datetime, body: bytes) -> None:
        """Remember an answer."""
        answers = self._kept.setdefault(target, deque(maxlen=ANSWERS_MAX))
        answers.append((at, body))
        self._kept.move_to_end(target)
        if len(self._kept) > TARGETS_MAX:
            self._kept.popitem(last=False)

    def find(self, target: str, age: timedelta, at: datetime) -> bytes | None:
        """Return the newest answer at least `age` old, else the oldest, None without any."""
        answers = self._kept.get(target)
        if not answers:
            return None
        old = [body for answered_at, body in answers if answered_at + age <= at]
        return old[-1] if old else answers[0][1]
