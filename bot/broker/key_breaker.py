"""Stops signed calls after the broker has refused our key or signature twice in a row.

A wrong or revoked key is not put right by asking again, and a broker may lock out who hammers it:
after two 401s nothing that is signed leaves for five minutes, then one call may try. Two 401s of
unsigned calls mean the key itself, and stop everything. A used nonce does not count (it is
replaced), and what a wrong clock has caused is forgotten as soon as the clock's offset is known
better. Source: the project's fault table, A3; broker open API 0.2.0-preview.3, recovery.
"""

from datetime import datetime, timedelta
from typing import Final

from bot.broker.clock_offset import ClockOffset
from bot.clock import Clock
from bot.protocol.answer import Answer

REFUSALS_MAX: Final = 2
PAUSE: Final = timedelta(minutes=5)
CLOCK_MOVED: Final = timedelta(seconds=1)
"""An offset that has moved by more than this since a refusal may have been its cause."""
_UNAUTHORISED: Final = 401
_USED_NONCE: Final = b"AUTH_NONCE_REUSED"


class KeyBreaker:
    """Counts refusals of one API key, of signed and of unsigned calls."""

    def __init__(self, offset: ClockOffset, wire: Clock) -> None:
        self._offset = offset
        self._wire = wire
        self._refusals = {True: 0, False: 0}
        self._until: dict[bool, datetime] = {}
        self._offset_then = timedelta()

    def barred_until(self, *, is_signed: bool) -> datetime | None:
        """Return until when no such call may leave, None when it may. Wire time."""
        self._forgive_the_clock()
        now = self._wire.now()
        ends = [self._until.get(kind) for kind in {is_signed, False}]
        return max((end for end in ends if end is not None and end > now), default=None)

    def observe(self, answer: Answer, *, is_signed: bool) -> None:
        """Learn from an answer; `is_signed` says whether its request carried a signature."""
        if answer.http_status != _UNAUTHORISED:
            self._clear(is_signed=is_signed)
        elif _USED_NONCE not in answer.body:
            self._count(is_signed=is_signed)

    def _count(self, *, is_signed: bool) -> None:
        self._forgive_the_clock()
        self._offset_then = self._offset.value
        self._refusals[is_signed] += 1
        if self._refusals[is_signed] >= REFUSALS_MAX:
            self._until[is_signed] = self._wire.now() + PAUSE

    def _clear(self, *, is_signed: bool) -> None:
        """A signature that is taken proves the key too."""
        for kind in {is_signed, False}:
            self._refusals[kind] = 0
            self._until.pop(kind, None)

    def _forgive_the_clock(self) -> None:
        if abs(self._offset.value - self._offset_then) > CLOCK_MOVED:
            self._refusals[True] = 0
            self._until.pop(True, None)
            self._offset_then = self._offset.value
