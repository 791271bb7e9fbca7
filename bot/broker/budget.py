"""The request budget of one key: which request may go now, and until when the others wait.

A sliding window counts every request that may have left; one that certainly has not gives its
place back, so that an outage uses nothing up. Each lane may fill the window up to its own share, so
a flood of quotes always leaves room for a cancel. A 429 closes the budget for all lanes until the
broker's reset; afterwards requests go at the quota's own pace, not in a burst, until a whole window
has passed. Waiters are woken one at a time, by lane and within a lane in the order of asking, so
the same calls give the same order on any clock.

The budget's clock is its waiter: the system's clock in live, the stepped one in the sandbox.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, Protocol

from bot.broker.errors import RateLimited
from bot.clock import Clock
from bot.domain.local_time import clock_of
from bot.protocol.endpoints.endpoint import Lane

WINDOW: Final = timedelta(seconds=60.5)
"""The broker's window is 60 s; half a second allows for requests under way."""
RESET_AFTER_MAX: Final = timedelta(seconds=120)
RESET_AFTER_UNKNOWN: Final = timedelta(seconds=60)
RESET_PAST_MAX: Final = timedelta(seconds=5)
"""A reset further in the past is wrong; a smaller lag is rounding of clocks."""
_RESET_FLOOR: Final = timedelta(seconds=1)
_DOUBLINGS_MAX: Final = 6
JITTER_MS: Final = (50, 500)
WAITS_MAX: Final = 1_000

LANE_SHARE_PERCENT: Final[Mapping[Lane, int]] = {
    Lane.CANCEL: 100,
    Lane.BOOK: 95,
    Lane.PLACE: 80,
    Lane.ORDER_POLL: 75,
    Lane.QUOTE: 65,
    Lane.OTHER: 60,
}
"""How much of the window a lane may fill; a fifth is reserved for cancels, the day order book and
fences.
"""
_LANE_STEP: Final = timedelta(milliseconds=1)
_TICKET_STEP: Final = timedelta(microseconds=1)
_STEPS_MAX: Final = 900
_RANK: Final = {lane: rank for rank, lane in enumerate(LANE_SHARE_PERCENT)}
_AHEAD: Final = {lane: tuple(_RANK)[:rank] for lane, rank in _RANK.items()}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

OnWait = Callable[[datetime, int, str], None]
"""Called once for each stretch of waiting: the instant waited for (a 429's reset and its jitter, on
the budget's clock), how many requests wait, and the call that began it."""


class Waiter(Protocol):
    """A clock that can be waited on: the system's, or the sandbox's stepped clock
    (`runtime/worlds/stepped.py`), on which time passes only while nothing is under way.
    """

    def now(self) -> datetime: ...
    async def sleep_until(self, instant: datetime) -> None: ...


class SystemWaiter:
    """Waits on the system's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    async def sleep_until(self, instant: datetime) -> None:
        """Sleep until then; setting the clock back meanwhile makes the sleep longer,
        never endless.
        """
        await asyncio.sleep(max(0.0, (instant - self._clock.now()).total_seconds()))


class RequestBudget:
    """Grants requests within `per_minute`, lane by lane.

    `is_degraded` is true after a request got a second 429 after its wait: a long-term limit.
    `closed_until` is when the last 429 ends. `on_over` is called with the first answer after a
    whole window without one.
    """

    def __init__(
        self,
        *,
        per_minute: int,
        waiter: Waiter,
        jitter: Random,
        on_wait: OnWait | None = None,
        on_over: Callable[[], object] | None = None,
    ) -> None:
        self.per_minute = per_minute
        self.is_degraded = False
        self._waiter = waiter
        self._jitter = jitter
        self._on_wait = on_wait
        self._on_over = on_over
        self._granted: deque[datetime] = deque()
        self._line: dict[Lane, list[object]] = {lane: [] for lane in Lane}
        self.closed_until = _NEVER
        self._paced_until = self._limited_since = _NEVER
        self._announced_until = _NEVER
        self._refusals = 0

    @property
    def waiting(self) -> int:
        """How many requests are waiting."""
        return sum(map(len, self._line.values()))

    @property
    def limited_since(self) -> datetime | None:
        """Since when the broker limits us; reset once a whole window has passed without a 429."""
        return self._limited_since if self._waiter.now() < self._paced_until else None

    @property
    def used(self) -> int:
        """Requests counted in the present window, out of `per_minute`."""
        self._forget(self._waiter.now())
        return len(self._granted)

    def opens_at(self, lane: Lane) -> datetime:
        """When a request of this lane could leave if it were made now."""
        return self._opens_at(lane, self._before(lane) + len(self._line[lane]), self._waiter.now())

    def _before(self, lane: Lane) -> int:
        """How many wait in lanes with a higher priority; their places must not be taken."""
        return sum(map(len, map(self._line.__getitem__, _AHEAD[lane])))

    async def take(self, lane: Lane, call: str, *, wait_max: timedelta) -> datetime:
        """Count a request as soon as it may leave, at once if there is room, and return the instant
        it is counted at.

        Raises RateLimited as soon as it is clear that the wait would exceed `wait_max`.
        """
        line, ticket, now = self._line[lane], object(), self._waiter.now()
        if not line and self._opens_at(lane, self._before(lane), now) <= now:
            self._granted.append(now)
            return now
        give_up_at = now + wait_max
        line.append(ticket)
        try:
            for _ in range(WAITS_MAX):
                ahead = self._before(lane) + line.index(ticket)
                opens_at = self._opens_at(lane, ahead, now)
                if opens_at <= now:
                    self._granted.append(now)
                    return now
                if opens_at > give_up_at:
                    raise _no_room(call, opens_at)
                if now > max(self._announced_until, self._paced_until):
                    self._announce(opens_at, self.waiting, call)
                # Waiters wake one at a time: by lane, then by the order in which they asked.
                stagger = _LANE_STEP * _RANK[lane] + _TICKET_STEP * min(ahead, _STEPS_MAX)
                await self._waiter.sleep_until(opens_at + stagger)
                now = self._waiter.now()
            raise _no_room(call, give_up_at)
        finally:
            line.remove(ticket)

    def give_back(self, granted: datetime) -> None:
        """Count a request no more of which not one byte has left; `granted` is what `take`
        returned.
        """
        if granted in self._granted:
            self._granted.remove(granted)

    def _opens_at(self, lane: Lane, ahead: int, now: datetime) -> datetime:
        """When this lane's share of the window has room after those ahead of it are served.

        After a 429 requests leave at an even pace.
        """
        self._forget(now)
        pace = WINDOW / self.per_minute
        opens_at = max(now, self.closed_until)
        excess = (
            len(self._granted) + ahead - max(1, self.per_minute * LANE_SHARE_PERCENT[lane] // 100)
        )
        if excess >= len(self._granted):
            opens_at = max(opens_at, now + pace)
        elif excess >= 0:
            opens_at = max(opens_at, self._granted[excess] + WINDOW)
        if self._granted and now < self._paced_until:
            opens_at = max(opens_at, self._granted[-1] + pace) + pace * ahead
        return opens_at

    def _forget(self, now: datetime) -> None:
        while self._granted and self._granted[0] <= now - WINDOW:
            self._granted.popleft()

    def note_limit(self, reset_at: datetime | None, call: str, *, tries: int) -> datetime:
        """Close every lane because a request got a 429; return until when.

        `reset_at` is the broker's X-RateLimit-Reset on this budget's clock, None if it sent none.
        `tries` counts how often this very request has been refused: from the second time on, the
        limit is a long-term one and the budget is degraded. One stretch of waiting may bring
        several 429s, to requests that were under way together; it is announced once.
        """
        now = self._waiter.now()
        is_news = now >= self.closed_until
        if now >= self._paced_until:
            self._limited_since = now
        # A request sent before the first 429 may be served after it, and another refused after
        # that.
        self._refusals = max(self._refusals + is_news, 1)
        jitter = timedelta(milliseconds=self._jitter.randint(*JITTER_MS))
        until = self._believable(reset_at, now) + jitter
        self.closed_until = max(until, self.closed_until)
        self._paced_until = self.closed_until + WINDOW
        is_news = is_news or (tries > 1 and not self.is_degraded)
        self.is_degraded = self.is_degraded or tries > 1
        if is_news:
            self._announce(until, self.waiting + 1, call)
        return self.closed_until

    def _believable(self, reset_at: datetime | None, now: datetime) -> datetime:
        """Replace a reset that is missing, past or far away by a plausible one.

        The minimum doubles from 1 s with every stretch, so that an endless limit is not hammered.
        """
        if reset_at is None or reset_at < now - RESET_PAST_MAX:
            return now + RESET_AFTER_UNKNOWN
        floor = _RESET_FLOOR * (1 << min(self._refusals - 1, _DOUBLINGS_MAX))
        return min(max(reset_at, now + floor), now + RESET_AFTER_MAX)

    def note_served(self) -> None:
        """A request was answered by something other than 429."""
        self._refusals = 0
        self.is_degraded = False
        if self._paced_until > _NEVER and self._waiter.now() >= self._paced_until:
            self._paced_until = _NEVER
            if self._on_over is not None:
                self._on_over()

    def _announce(self, until: datetime, waiting: int, call: str) -> None:
        self._announced_until = until
        if self._on_wait is not None:
            self._on_wait(until, waiting, call)


def _no_room(call: str, opens_at: datetime) -> RateLimited:
    return RateLimited(call, f"no request may leave before {clock_of(opens_at)}", opens_at)
