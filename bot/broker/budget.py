"""One request budget for one key: who may go now, and who waits until when.

A sliding window counts every request that has left. Each lane may fill the window up to its own
share, so a flood of quotes always leaves room for a cancel. A 429 closes the budget for all lanes
until the broker's reset; afterwards requests go at the quota's own pace, not in a burst, until a
whole window has passed. Waiters are woken one after another, the first lanes first and within a
lane in the order in which they asked, so the same calls give the same order on any clock.

The budget's clock is its waiter: the system's clock in live, the stepped one in the sandbox.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from bot.broker.errors import RateLimited
from bot.broker.waiter import Waiter
from bot.protocol.endpoints.endpoint import Lane

WINDOW: Final = timedelta(seconds=60.5)
"""The broker's window is 60 s; half a second is for requests that are on their way."""
RESET_AFTER_MAX: Final = timedelta(seconds=120)
RESET_AFTER_UNKNOWN: Final = timedelta(seconds=60)
RESET_PAST_MAX: Final = timedelta(seconds=5)
"""A reset further in the past is a wrong one; a lesser one is the rounding of clocks."""
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
"""How much of the window a lane may fill; a fifth is for cancels, the day order book and fences
alone.
"""
_LANE_STEP: Final = timedelta(milliseconds=1)
_TICKET_STEP: Final = timedelta(microseconds=1)
_STEPS_MAX: Final = 900
_RANK: Final = {lane: rank for rank, lane in enumerate(LANE_SHARE_PERCENT)}


_NEVER: Final = datetime.min.replace(tzinfo=UTC)

OnWait = Callable[[datetime, int, str], None]
"""Called once for each stretch of waiting: the instant waited for (a 429's reset and its jitter, on
the budget's clock), how many requests wait, and the call that began it."""


@dataclass(eq=False, slots=True)
class _Ticket:
    """A place in the line of a lane."""

    lane: Lane


class RequestBudget:
    """Grants requests within `per_minute`, lane by lane."""

    def __init__(
        self,
        *,
        per_minute: int,
        waiter: Waiter,
        jitter: Random,
        on_wait: OnWait | None = None,
    ) -> None:
        self._per_minute = per_minute
        self._waiter = waiter
        self._jitter = jitter
        self._on_wait = on_wait
        self._granted: deque[datetime] = deque()
        self._line: dict[Lane, list[_Ticket]] = {lane: [] for lane in Lane}
        self._closed_until: datetime | None = None
        self._paced_until: datetime | None = None
        self._announced_until: datetime | None = None
        self._is_degraded = False
        self._refusals = 0

    @property
    def is_degraded(self) -> bool:
        """True after a request was refused with 429 once more after its wait: a long-term limit."""
        return self._is_degraded

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(len(line) for line in self._line.values())

    @property
    def used(self) -> int:
        """Requests counted in the present window, of `per_minute`."""
        self._forget()
        return len(self._granted)

    @property
    def per_minute(self) -> int:
        """The size of the window."""
        return self._per_minute

    def opens_at(self, lane: Lane) -> datetime:
        """When a request of this lane could leave if it were made now."""
        return self._opens_at(lane, ahead=len(self._line[lane]))

    async def take(self, lane: Lane, call: str, *, wait_max: timedelta) -> None:
        """Return when a request may leave, and count it; at once when there is room.

        Raises RateLimited as soon as it is clear that the wait would be longer than `wait_max`.
        """
        ticket = _Ticket(lane)
        self._line[lane].append(ticket)
        try:
            await self._wait(ticket, call, self._waiter.now() + wait_max)
            self._granted.append(self._waiter.now())
        finally:
            self._line[lane].remove(ticket)

    async def _wait(self, ticket: _Ticket, call: str, give_up_at: datetime) -> None:
        for _ in range(WAITS_MAX):
            ahead = self._line[ticket.lane].index(ticket)
            opens_at = self._opens_at(ticket.lane, ahead=ahead)
            if opens_at <= self._waiter.now():
                return
            if opens_at > give_up_at:
                raise _no_room(call, opens_at)
            self._announce_full_window(opens_at, call)
            await self._waiter.sleep_until(opens_at + _stagger(ticket.lane, ahead))
        raise _no_room(call, give_up_at)

    def note_limit(self, reset_at: datetime | None, call: str, *, tries: int) -> datetime:
        """Close every lane because a request was answered 429; return until when.

        `reset_at` is the broker's X-RateLimit-Reset on this budget's clock, None when it sent none.
        `tries` counts how often this very request has been refused: from the second time on the
        limit is a long-term one and the budget is degraded. One stretch of waiting may bring
        several 429s, to requests that were under way together: it is announced once.
        """
        is_news = self._closed_until is None or self._waiter.now() >= self._closed_until
        self._refusals += is_news
        reset_at = self._believable(reset_at)
        jitter_ms = self._jitter.randint(*JITTER_MS)
        until = reset_at + timedelta(milliseconds=jitter_ms)
        self._closed_until = max(until, self._closed_until or until)
        self._paced_until = self._closed_until + WINDOW
        is_news = is_news or (tries > 1 and not self._is_degraded)
        self._is_degraded = self._is_degraded or tries > 1
        if is_news:
            self._announce(until, self.waiting + 1, call)
        return self._closed_until

    def _believable(self, reset_at: datetime | None) -> datetime:
        """A reset that is missing, past or far away is replaced by one that we can live with.

        The floor doubles from 1 s with every stretch: a limit without an end is not hammered.
        """
        now = self._waiter.now()
        if reset_at is None or reset_at < now - RESET_PAST_MAX:
            return now + RESET_AFTER_UNKNOWN
        floor = _RESET_FLOOR * (1 << min(self._refusals - 1, _DOUBLINGS_MAX))
        return min(max(reset_at, now + floor), now + RESET_AFTER_MAX)

    def note_served(self) -> None:
        """A request was answered by something else than 429."""
        self._refusals = 0
        self._is_degraded = False

    def _opens_at(self, lane: Lane, *, ahead: int) -> datetime:
        self._forget()
        now = self._waiter.now()
        return max(now, self._closed_until or now, self._room_at(lane, ahead), self._pace_at(ahead))

    def _room_at(self, lane: Lane, ahead: int) -> datetime:
        """When the window has room for this lane's share, those ahead in the lane served first."""
        allowance = max(1, self._per_minute * LANE_SHARE_PERCENT[lane] // 100)
        excess = len(self._granted) + ahead - allowance
        if excess < 0:
            return self._waiter.now()
        if excess < len(self._granted):
            return self._granted[excess] + WINDOW
        return self._waiter.now() + WINDOW / self._per_minute

    def _pace_at(self, ahead: int) -> datetime:
        """After a 429, when the next one may leave at an even pace."""
        now = self._waiter.now()
        if not self._granted or self._paced_until is None or now >= self._paced_until:
            return now
        return self._granted[-1] + WINDOW / self._per_minute * (1 + ahead)

    def _forget(self) -> None:
        before = self._waiter.now() - WINDOW
        while self._granted and self._granted[0] <= before:
            self._granted.popleft()

    def _announce_full_window(self, until: datetime, call: str) -> None:
        """Say so once for each stretch of waiting, not for every request in it."""
        told = [end for end in (self._announced_until, self._paced_until) if end is not None]
        if self._waiter.now() > max(told, default=_NEVER):
            self._announce(until, self.waiting, call)

    def _announce(self, until: datetime, waiting: int, call: str) -> None:
        self._announced_until = until
        if self._on_wait is not None:
            self._on_wait(until, waiting, call)


def _no_room(call: str, opens_at: datetime) -> RateLimited:
    return RateLimited(call, f"no request may leave before {opens_at:%H:%M:%S} UTC", opens_at)


def _stagger(lane: Lane, ahead: int) -> timedelta:
    return _LANE_STEP * _RANK[lane] + _TICKET_STEP * min(ahead, _STEPS_MAX)
