"""One exchange with everything each call needs: key breaker, budget, signature, clock offset, 429.

Reads are retried a few times, each attempt newly signed; a write is never repeated here.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Final, TypeGuard

from bot.broker.budget import RequestBudget, Waiter
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import BrokerError, KeyRefused, Malformed, RateLimited, Timeout, Unreachable
from bot.broker.link import (
    Bounds,
    HttpRequest,
    LateAnswer,
    Link,
    Objection,
    UnusableAnswer,
    nothing_against,
)
from bot.broker.signer import Signer
from bot.clock import Clock
from bot.domain.local_time import clock_of
from bot.protocol.endpoints.endpoint import Endpoint, Lane, Tier
from bot.protocol.envelope import SIZES, Answer, NoAnswer, rate_limit_reset, read_error_body
from bot.protocol.secret import redact
from bot.protocol.two_factor import ABOUT_CODES

TOO_MANY_REQUESTS: Final = 429
READ_TRIES_MAX: Final = 3
READ_WAIT_MAX: Final = timedelta(seconds=130)
"""Longer than the longest rate-limit wait that we accept, so that one wait fits in."""
RETRY_PAUSE: Final = timedelta(milliseconds=250)
REFUSALS_MAX: Final = 2
REFUSED_KEY_PAUSE: Final = timedelta(minutes=5)
TRY_MAX: Final = timedelta(seconds=15)
"""How long the other calls wait for the answer of the one that tries the key again."""
EXCUSED_MAX: Final = 3
"""So many refusals in a row may be blamed on the clock rather than the key."""
CLOCK_MOVED: Final = timedelta(seconds=1)
"""If the offset has moved by more than this since a refusal, it may have been the cause."""
_UNAUTHORISED: Final = 401
_SERVERS_OWN: Final = 500
_PASSING_STATUSES: Final = frozenset({500, 502, 503, 504})
_USED_NONCE: Final = b"AUTH_NONCE_REUSED"
_BEGINNING: Final = 100
"""So many bytes show whether a body begins as every one of the API does, with an object."""


@dataclass(frozen=True, slots=True)
class Barred(NoAnswer):
    """Nothing was sent: the broker has refused our key, and is not called again until `until`."""

    until: datetime = field(kw_only=True)


class Proof(Enum):
    """What a call proves of our key, a weaker kind first: a refusal of it bars the stronger ones
    too, and its acceptance clears the weaker ones.
    """

    KEY = auto()
    """An unsigned call names the key."""
    SIGNATURE = auto()
    """A signed read, or a call about one-time codes."""
    ORDERS = auto()
    """An order or a change of one: a key may be allowed to read and not to trade."""

    @classmethod
    def of(cls, endpoint: Endpoint) -> "Proof":
        if endpoint.tier is not Tier.TWO:
            return cls.KEY
        is_order = endpoint.is_write and endpoint.lane is Lane.PLACE
        return cls.ORDERS if is_order else cls.SIGNATURE

    @property
    def needs(self) -> tuple["Proof", ...]:
        """Return what must not be barred for such a call."""
        return tuple(each for each in Proof if each.value <= self.value)


class KeyBreaker:
    """Stops calls of a kind after the broker has refused our key or signature twice in a row.

    Asking again does not repair a wrong or revoked key, and a broker may lock out a client that
    keeps trying: after two 401s of signed reads nothing signed leaves for five minutes, then one
    call may try. Two 401s of unsigned calls mean that the key itself is bad, and stop reads and
    orders; two of orders stop orders alone. A cancel is never stopped, nor counted: the engine
    slows it down, and one that is taken proves the key (ruling 49).

    A used nonce does not count (it is replaced), nor does what is said of a one-time code (that
    comes after key and signature: ruling 17), and refusals caused by a wrong clock are forgotten
    once the offset is known better. That takes two answers that agree, so a 401 whose own `Date`
    contradicts our offset does not count either, nor one signed with an offset that has moved
    since. Only a few refusals are excused like this before a signature is accepted, as the clocks
    of several servers may differ for ever. Requests under way together, signed with one offset, are
    excused as one. Source: the project's fault table, A3; broker open API 0.2.0-preview.3,
    recovery.
    """

    def __init__(
        self,
        offset: ClockOffset,
        wire: Clock,
        on_bar: Callable[[], object] | None = None,
        on_free: Callable[[], object] | None = None,
    ) -> None:
        self._offset = offset
        self._wire = wire
        self._on_bar, self._on_free = on_bar, on_free
        self._told: set[Proof] = set()
        """What was barred and has not been accepted since."""
        self._refusals = dict.fromkeys(Proof, 0)
        self._until: dict[Proof, datetime] = {}
        self._offset_then = timedelta()
        self._excused = 0
        self._excused_offset: timedelta | None = None

    @property
    def has_refusal(self) -> bool:
        """Whether the last 401 of a kind counts against our key: nothing excuses it, and no such
        call was accepted since.
        """
        return any(self._refusals.values())

    def barred(self) -> tuple[Proof, datetime] | None:
        """Return the weakest kind that is barred now, and until when."""
        now = self._wire.now()
        ends = ((each, self._until.get(each, now)) for each in Proof)
        return next(((each, end) for each, end in ends if end > now), None)

    def bar(self, endpoint: Endpoint, *, is_leaving: bool = False) -> Barred | None:
        """Return why a call may not leave now, None if it may. The first one that does after a
        pause tries the key: the others wait for its answer, but not for long.
        """
        self._forgive_the_clock()
        if not self._until or endpoint.lane is Lane.CANCEL:
            return None
        now = self._wire.now()
        ends = {kind: self._until[kind] for kind in Proof.of(endpoint).needs if kind in self._until}
        if (until := max(ends.values(), default=now)) <= now:
            if is_leaving:
                self._until.update(dict.fromkeys(ends, now + TRY_MAX))
            return None
        reason = f"the broker refuses our key (401); nothing is sent before {clock_of(until)}"
        return Barred(reason, is_sent=False, latency_ms=0, until=until)

    def observe(self, answer: Answer, endpoint: Endpoint, *, signed_by: timedelta) -> None:
        """Learn from an answer; `signed_by` is the offset that was known when its request was
        signed.
        """
        kind, is_cancel = Proof.of(endpoint), endpoint.lane is Lane.CANCEL
        is_signed = kind is not Proof.KEY
        if answer.http_status == TOO_MANY_REQUESTS or answer.http_status >= _SERVERS_OWN:
            return  # as far as we know, the key was not checked
        if answer.http_status != _UNAUTHORISED or _is_about_codes(answer):
            if not answer.body[:_BEGINNING].lstrip().startswith(b"{"):
                return  # a page of a portal or a proxy: our key need not have come to the broker
            for each in kind.needs:  # an accepted signature proves the key too
                self._refusals[each] = 0
                self._until.pop(each, None)
            self._excused = 0 if is_signed else self._excused
            if self._told:
                self._told -= {*kind.needs}
                if not self._told and self._on_free is not None:
                    self._on_free()
        elif _USED_NONCE not in answer.body:
            if is_signed:
                self._offset.note_refused(signed_by)
            self._forgive_the_clock()
            if is_cancel or (is_signed and self._is_excused(signed_by)):
                return
            self._offset_then, self._excused_offset = self._offset.applied, None
            self._refusals[kind] += 1
            if self._refusals[kind] < REFUSALS_MAX:
                return
            now = self._wire.now()
            is_new = self._until.get(kind, now) <= now  # else it left with the others
            self._until[kind] = now + REFUSED_KEY_PAUSE
            self._told.add(kind)
            if is_new and self._on_bar is not None:
                self._on_bar()

    def _is_excused(self, signed_by: timedelta) -> bool:
        has_moved = abs(self._offset.applied - signed_by) > CLOCK_MOVED
        if has_moved and signed_by == self._excused_offset:
            return True
        if not (has_moved or self._offset.is_contradicted) or self._excused >= EXCUSED_MAX:
            return False
        self._excused, self._excused_offset = self._excused + 1, signed_by
        return True

    def _forgive_the_clock(self) -> None:
        if abs(self._offset.applied - self._offset_then) > CLOCK_MOVED:
            self._offset_then = self._offset.applied
            signed = (Proof.SIGNATURE, Proof.ORDERS)
            if any(self._refusals[each] for each in signed) and self._excused < EXCUSED_MAX:
                self._excused += 1
                for each in signed:
                    self._refusals[each] = 0
                    self._until.pop(each, None)


def _is_about_codes(answer: Answer) -> bool:
    error = read_error_body(answer.body)
    return error is not None and error.error_code.startswith(ABOUT_CODES)


class CallSender:
    """Sends the calls of one key, each over its lane's link.

    It learns clock offset and rate limits from the answers.
    """

    def __init__(
        self,
        links: Mapping[Lane, Link],
        *,
        signer: Signer,
        budget: RequestBudget,
        offset: ClockOffset,
        breaker: KeyBreaker,
        wire: Clock,
        waiter: Waiter,
        bounds: Bounds,
    ) -> None:
        self._links = links
        self._signer = signer
        self._budget = budget
        self._offset = offset
        self._breaker = breaker
        self._wire = wire
        self._waiter = waiter
        self._bounds = {
            name: replace(bounds, body_bytes_max=min(bounds.body_bytes_max, size.bytes_max))
            for name, size in SIZES.items()
        }

    async def send(
        self,
        endpoint: Endpoint,
        sign: Callable[[], HttpRequest],
        *,
        bounds: Bounds | None = None,
        wait_max: timedelta = READ_WAIT_MAX,
        objection: Objection = nothing_against,
    ) -> Answer | NoAnswer:
        """Wait for room in the budget, sign, and send once; by default within a read's bounds.

        Definitely not sent if the key breaker is open, checked before the wait and again just
        before the first byte, or if `objection`, called after the wait, returns one. Raises
        RateLimited if there is no room within `wait_max`.
        """
        if (barred := self._breaker.bar(endpoint)) is not None:
            return barred
        granted = await self._budget.take(endpoint.lane, endpoint.name, wait_max=wait_max)
        bounds = bounds or self._bounds[endpoint.name]
        answer = await self._exchange(endpoint, sign, bounds, objection)
        if isinstance(answer, NoAnswer) and not answer.is_sent:
            self._budget.give_back(granted)
        return answer

    async def _exchange(
        self,
        endpoint: Endpoint,
        sign: Callable[[], HttpRequest],
        bounds: Bounds,
        objection: Objection,
    ) -> Answer | NoAnswer:
        """Sign and send what the budget has granted, and learn from the answer."""
        if (reason := objection()) is not None:
            return NoAnswer(reason, is_sent=False)
        request = sign()
        if (barred := self._breaker.bar(endpoint, is_leaving=True)) is not None:
            return barred
        sent_at, signed_by = self._wire.now(), self._offset.applied
        answer = await self._links[endpoint.lane].exchange(request, bounds)
        if isinstance(answer, Answer):
            self._offset.observe(answer.headers, sent_at=sent_at, answered_at=self._wire.now())
            self._breaker.observe(answer, endpoint, signed_by=signed_by)
            if answer.http_status != TOO_MANY_REQUESTS:
                self._budget.note_served()
        return answer

    async def read(
        self, endpoint: Endpoint, target: str, *, wait_max: timedelta = READ_WAIT_MAX
    ) -> Answer:
        """Return a complete answer of any status but 429; each try waits for room up to `wait_max`.

        Raises RateLimited, KeyRefused, Timeout, Unreachable, or Malformed for an unusable answer. A
        429, a broken connection, a server error and a used nonce are retried, at most
        READ_TRIES_MAX tries in all, newly signed; a missed deadline and an answer that is too long
        or has two lengths are not.
        """
        sign, tries = partial(self._signer.sign_read, endpoint, target), 0
        while True:
            tries += 1
            answer = await self.send(endpoint, sign, wait_max=wait_max)
            if not isinstance(answer, Answer):
                if tries == READ_TRIES_MAX or isinstance(answer, _FINAL):
                    raise _error_of(endpoint, answer)
            elif answer.http_status == TOO_MANY_REQUESTS:
                until = self.note_limit(answer, endpoint.name, tries=tries)
                if tries == READ_TRIES_MAX:
                    reason = f"HTTP 429 at each of {READ_TRIES_MAX} tries"
                    raise RateLimited(endpoint.name, reason, until)
                continue  # the budget makes the next attempt wait
            else:
                is_used = answer.http_status == _UNAUTHORISED and _USED_NONCE in answer.body
                may_pass = is_used or answer.http_status in _PASSING_STATUSES
                if tries == READ_TRIES_MAX or not may_pass:
                    return answer
            await self._waiter.sleep_until(self._waiter.now() + RETRY_PAUSE)

    async def ask_once(self, endpoint: Endpoint, target: str, body: bytes) -> Answer:
        """Send a call that costs something (a one-time code) exactly once; 429 is returned too.

        Raises the same errors as `read`.
        """
        answer = await self.send(
            endpoint, partial(self._signer.sign_read, endpoint, target, body=body)
        )
        if not isinstance(answer, Answer):
            raise _error_of(endpoint, answer)
        return answer

    def note_limit(self, answer: Answer, call: str, *, tries: int) -> datetime:
        """Close the budget until the reset of a 429; return until when, on the budget's clock."""
        reset_at = rate_limit_reset(answer)
        ours = None if reset_at is None else reset_at - self._offset.applied
        return self._budget.note_limit(ours, call, tries=tries)

    async def close(self) -> None:
        """Wait for the requests under way and close the connections."""
        await asyncio.gather(*(link.close() for link in set(self._links.values())))


def is_limit(answer: Answer | NoAnswer) -> TypeGuard[Answer]:
    """Return whether the broker answered 429."""
    return isinstance(answer, Answer) and answer.http_status == TOO_MANY_REQUESTS


_FINAL: Final = (Barred, LateAnswer, UnusableAnswer)
"""Another attempt would do no better after these."""


def _error_of(endpoint: Endpoint, silence: NoAnswer) -> BrokerError:
    reason = redact(silence.reason)  # it may quote a broken answer
    match silence:
        case Barred():
            return KeyRefused(endpoint.name, reason, silence.until)
        case UnusableAnswer():
            return Malformed(endpoint.name, reason)
        case LateAnswer():
            return Timeout(endpoint.name, reason, is_sent=silence.is_sent)
        case _:
            return Unreachable(endpoint.name, reason, is_sent=silence.is_sent)
