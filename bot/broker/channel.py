"""One exchange with everything around it that every call owes: budget, clock offset, 429.

Reads are tried again a few times, each attempt signed anew; nothing here ever repeats a write.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeGuard

from bot.broker.budget import RequestBudget
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import (
    BrokerError,
    KeyRefused,
    Malformed,
    RateLimited,
    Timeout,
    Unreachable,
)
from bot.broker.http import READ_BOUNDS, Bounds, HttpRequest, LateAnswer, Link, UnusableAnswer
from bot.broker.key_breaker import KeyBreaker
from bot.broker.signer import Signer
from bot.broker.waiter import Waiter
from bot.clock import Clock
from bot.protocol.answer import Answer, NoAnswer
from bot.protocol.endpoints.endpoint import Endpoint, Tier
from bot.protocol.envelope import rate_limit_reset
from bot.protocol.signing import HEADER_SIGNATURE
from bot.protocol.sizes import size_of

TOO_MANY_REQUESTS: Final = 429
READ_TRIES_MAX: Final = 3
READ_WAIT_MAX: Final = timedelta(seconds=130)
"""Longer than the longest rate-limit wait that is believed, so that one wait fits in."""
RETRY_PAUSE: Final = timedelta(milliseconds=250)
_PASSING_STATUSES: Final = frozenset({TOO_MANY_REQUESTS, 500, 502, 503, 504})
_USED_NONCE: Final = b"AUTH_NONCE_REUSED"


@dataclass(frozen=True, slots=True)
class Barred(NoAnswer):
    """Nothing was sent: the broker has refused our key, and is not asked again until `until`."""

    until: datetime = field(kw_only=True)


class Channel:
    """Sends requests over a link, learns the clock offset and rate limits from their answers."""

    def __init__(
        self,
        link: Link,
        *,
        budget: RequestBudget,
        offset: ClockOffset,
        breaker: KeyBreaker,
        wire: Clock,
    ) -> None:
        self._link = link
        self._budget = budget
        self._offset = offset
        self._breaker = breaker
        self._wire = wire

    def bar(self, *, is_signed: bool) -> Barred | None:
        """Return why such a call may not leave now, None when it may."""
        until = self._breaker.barred_until(is_signed=is_signed)
        if until is None:
            return None
        reason = f"the broker refuses our key (401); nothing is sent before {until:%H:%M:%S} UTC"
        return Barred(reason, is_sent=False, latency_ms=0, until=until)

    async def send(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Send once, unless the key is refused. The request has its place in the budget already."""
        is_signed = HEADER_SIGNATURE in request.headers
        if (barred := self.bar(is_signed=is_signed)) is not None:
            return barred
        sent_at = self._wire.now()
        answer = await self._link.exchange(request, bounds)
        if isinstance(answer, Answer):
            now = self._wire.now()
            self._offset.observe(answer.headers, sent_at=sent_at, answered_at=now)
            self._breaker.observe(answer, is_signed=is_signed)
            if not is_limit(answer):
                self._budget.note_served()
        return answer

    def note_limit(self, answer: Answer, call: str, *, tries: int) -> datetime:
        """Close the budget until the reset of a 429; return until when, on the budget's clock."""
        reset_at = rate_limit_reset(answer)
        ours = None if reset_at is None else reset_at - self._offset.value
        return self._budget.note_limit(ours, call, tries=tries)

    async def close(self) -> None:
        """Wait for what is under way and close the connections."""
        await self._link.close()


class Reader:
    """Reads with a few tries, never more than READ_TRIES_MAX for one call."""

    def __init__(
        self,
        channel: Channel,
        *,
        signer: Signer,
        budget: RequestBudget,
        waiter: Waiter,
        bounds: Bounds = READ_BOUNDS,
    ) -> None:
        self._channel = channel
        self._signer = signer
        self._budget = budget
        self._waiter = waiter
        self._bounds = bounds

    async def read(self, endpoint: Endpoint, target: str) -> Answer:
        """Return a whole answer of any status but 429.

        Raises RateLimited, KeyRefused, Timeout, Unreachable, or Malformed for an answer that
        cannot be used. A 429, a broken connection, a server error and a used nonce are tried again,
        signed anew; a deadline that passed and an answer too long or of two lengths are not.
        """
        answer = await self._attempt(endpoint, target)
        for tries in range(1, READ_TRIES_MAX):
            if not _may_pass(answer):
                break
            await self._before_another(endpoint, answer, tries)
            answer = await self._attempt(endpoint, target)
        return self._whole(endpoint, answer)

    async def ask_once(self, endpoint: Endpoint, target: str, body: bytes) -> Answer:
        """Send a call that costs something (a one-time code) exactly once; 429 is returned too.

        Raises RateLimited, KeyRefused, Timeout or Unreachable.
        """
        if (barred := self._channel.bar(is_signed=True)) is not None:
            raise _silence(endpoint, barred)
        await self._budget.take(endpoint.lane, endpoint.name, wait_max=READ_WAIT_MAX)
        request = self._signer.sign_read(endpoint, target, body=body)
        answer = await self._channel.send(request, self._bounds_of(endpoint))
        if isinstance(answer, Answer):
            return answer
        raise _silence(endpoint, answer)

    async def _attempt(self, endpoint: Endpoint, target: str) -> Answer | NoAnswer:
        if (barred := self._channel.bar(is_signed=endpoint.tier is Tier.TWO)) is not None:
            return barred
        await self._budget.take(endpoint.lane, endpoint.name, wait_max=READ_WAIT_MAX)
        request = self._signer.sign_read(endpoint, target)
        return await self._channel.send(request, self._bounds_of(endpoint))

    def _bounds_of(self, endpoint: Endpoint) -> Bounds:
        bytes_max = min(self._bounds.body_bytes_max, size_of(endpoint).bytes_max)
        return replace(self._bounds, body_bytes_max=bytes_max)

    async def _before_another(
        self, endpoint: Endpoint, answer: Answer | NoAnswer, tries: int
    ) -> None:
        """After a 429 the budget makes the next attempt wait; else a moment passes."""
        if is_limit(answer):
            self._channel.note_limit(answer, endpoint.name, tries=tries)
        else:
            await self._waiter.sleep_until(self._waiter.now() + RETRY_PAUSE)

    def _whole(self, endpoint: Endpoint, answer: Answer | NoAnswer) -> Answer:
        if isinstance(answer, NoAnswer):
            raise _silence(endpoint, answer)
        if is_limit(answer):
            until = self._channel.note_limit(answer, endpoint.name, tries=READ_TRIES_MAX)
            raise RateLimited(endpoint.name, f"HTTP 429 at each of {READ_TRIES_MAX} tries", until)
        return answer


def is_limit(answer: Answer | NoAnswer) -> TypeGuard[Answer]:
    """Tell whether the broker answered 429."""
    return isinstance(answer, Answer) and answer.http_status == TOO_MANY_REQUESTS


def _silence(endpoint: Endpoint, answer: NoAnswer) -> BrokerError:
    if isinstance(answer, Barred):
        return KeyRefused(endpoint.name, answer.reason, answer.until)
    if isinstance(answer, UnusableAnswer):
        return Malformed(endpoint.name, answer.reason)
    kind = Timeout if isinstance(answer, LateAnswer) else Unreachable
    return kind(endpoint.name, answer.reason)


def _may_pass(answer: Answer | NoAnswer) -> bool:
    """Whether another attempt may do better."""
    if isinstance(answer, NoAnswer):
        return not isinstance(answer, LateAnswer | UnusableAnswer | Barred)
    is_used_nonce = answer.http_status == 401 and _USED_NONCE in answer.body
    return answer.http_status in _PASSING_STATUSES or is_used_nonce
