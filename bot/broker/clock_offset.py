"""Estimates how far the broker's clock is from ours, from the `Date` of its answers.

A `Date` D in an answer to a request that left at t0 and was answered at t1 (our clock) says that
the offset lies in [D - t1, D + 1 s - t0]: the second is truncated. The intervals of all answers are
intersected, so the estimate only gets better. An answer that contradicts them is set aside; only if
the next one agrees with it has a clock been set, and the estimate moves. So one wrong `Date`
changes nothing. While the clocks may agree, the estimate is zero.

A `Date` may also be wrong on every answer, as where a proxy writes it. So if the broker refuses a
signature, the next one has the other time: our own instead of the estimate, or the estimate again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

from bot.clock import Clock
from bot.domain.operations import WARN_OFFSET
from bot.protocol.envelope import is_from_cache

MAX_OFFSET: Final = timedelta(seconds=20)
"""The broker takes timestamps within 30 s of its clock (open API, signing); orders stop before."""
_BACK_BY: Final = timedelta(seconds=1)
"""How far below a limit an offset must fall to count as good again; one right at the limit would
otherwise be reported at every answer.
"""
OnSkew = Callable[[timedelta], None]
"""Called with the offset each time it becomes worth a warning, begins to block, or is
good again.
"""
_YEARS: Final = range(1970, 2100)
"""A Date outside these years is nonsense, and too near the end of the calendar to compute with."""
_SECOND: Final = timedelta(seconds=1)
_ZERO: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval: both ends belong to it."""

    low: timedelta
    high: timedelta

    @property
    def middle(self) -> timedelta:
        return (self.low + self.high) / 2

    def common(self, other: "Interval") -> "Interval | None":
        """Return the intersection, or None."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None


class ClockOffset:
    """Broker's time minus our wire time. It is itself a clock: `now` is the broker's time.

    `value` is the estimate: zero when the clocks may agree, positive when the broker is ahead.
    `applied` is what signatures go by: zero, too, while the broker refuses those by the estimate.
    `of_sends` is the last estimate by which orders could leave, so that of whatever was sent.
    """

    def __init__(
        self, wire: Clock, on_skew: OnSkew | None = None, *, max_offset: timedelta = MAX_OFFSET
    ) -> None:
        self.value = self.of_sends = _ZERO
        self._wire = wire
        self._on_skew = on_skew
        self._max_offset = max_offset
        self._passed = 0
        self._known = Interval(_ZERO, _ZERO)
        self._has_proof = False
        self._dissent: Interval | None = None
        self._is_refused = False

    @property
    def applied(self) -> timedelta:
        """What is added to our clock for the broker's time."""
        return _ZERO if self._is_refused else self.value

    @property
    def blocks_writes(self) -> bool:
        """True from `max_offset`."""
        return abs(self.value) >= self._max_offset

    @property
    def is_contradicted(self) -> bool:
        """True after an answer whose `Date` contradicts the estimate, until the next one."""
        return self._dissent is not None

    @property
    def seen(self) -> timedelta:
        """The estimate, or what the last `Date` says instead if it contradicts that."""
        return self.value if self._dissent is None else self._dissent.middle

    def now(self) -> datetime:
        """Return the broker's time, as well as we know it."""
        return self._wire.now() + self.applied

    def note_refused(self, signed_by: timedelta) -> None:
        """A signature was refused for which `signed_by` was applied: the next has the other time.
        Several that were under way together count once.
        """
        if self.value and abs(signed_by - self.applied) <= _SECOND:
            self._is_refused = not self._is_refused

    def observe(
        self, headers: Mapping[str, str], *, sent_at: datetime, answered_at: datetime
    ) -> None:
        """Learn from the `date` header (lower-case name) of an answer, if it has a readable one and
        does not come from a cache: its `age` would be our offset.
        """
        if is_from_cache(headers):
            return
        date = _parsed(headers.get("date", ""))
        if date is None:
            return
        seen = Interval(date - answered_at, date + _SECOND - sent_at)
        if (common := self._known.common(seen)) is not None:
            self._known = common if self._has_proof else seen
        elif self._dissent is not None and (agreed := self._dissent.common(seen)) is not None:
            self._known = agreed
        else:
            self._dissent = seen
            return
        self._has_proof, self._dissent = True, None
        low, high, before = self._known.low, self._known.high, self.value
        self.value = _ZERO if low <= _ZERO <= high else self._known.middle
        self._is_refused = self._is_refused and abs(self.value - before) <= _SECOND
        distance, most = abs(self.value), self._max_offset
        if distance < most:
            self.of_sends = self.value
        passed = (distance >= WARN_OFFSET) + (distance >= most)
        not_back = (distance > WARN_OFFSET - _BACK_BY) + (distance > most - _BACK_BY)
        now_passed = max(passed, min(self._passed, not_back))
        if now_passed != self._passed:
            self._passed = now_passed
            if self._on_skew is not None:
                self._on_skew(self.value)


@lru_cache(maxsize=8)
def _parsed(date: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return zoned if zoned.year in _YEARS else None
