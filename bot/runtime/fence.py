"""Fences lost places: their nonces are used up by harmless reads, so that they can never arrive.

    read accepted ─► FRESH: the POST had not passed the door, and never can
    nonce used ─► REACHED: the POST has passed it, or an earlier try of ours has fenced it
    270 s over ─► REACHED, without proof

The tries are spread over the time in which they prove something, as whatever swallowed the answer
of a place may swallow those of the next seconds too. Only a conclusive answer ends them: neither a
closed quota nor a lost read counts as a try. The time is counted from the signature, on a clock
that is never stepped and survives a restart; after a reboot by the wall clock plus its worst error.

The broker remembers a nonce with its key: what another key has signed is not tried, as its nonce is
unused with any other.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.broker.budget import Waiter
from bot.broker.writes import OrderWriter
from bot.clock import Clock, boot_id, boottime_ns
from bot.domain.entry import AttemptStarted, Numbers
from bot.domain.message import NonceBurnt
from bot.domain.order import SendState
from bot.domain.outcome import Resolution
from bot.domain.recovery import Recovery
from bot.protocol.classify import classify_burn
from bot.protocol.secret import Secret
from bot.runtime.activity import Post
from bot.runtime.reads import Spawn

BURN_WINDOW_S: Final = 270.0
"""A nonce is remembered 300 s; a burn that answers later proves nothing (order-safety section 5).
"""
OTHER_BOOT_S: Final = 30.0
"""Added to an age by the wall clock alone: after a reboot it may be off by a
signature's lifetime.
"""
TRIES_S: Final = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0, 90.0, 120.0, 150.0, 180.0, 210.0, 240.0)
"""When a nonce is tried, counted from the first try, if the window still allows it."""
_KEY: Final = "key"
_OF_OTHERS: Final = "signed_by_others"


@dataclass(frozen=True, slots=True)
class KeyOfRun:
    """What a start notes of its key, and the attempts of before that another key has signed."""

    mark: str = ""
    of_others: frozenset[str] = frozenset()

    @property
    def facts(self) -> Numbers:
        """For the note of the start, which the next one reads."""
        return {_KEY: self.mark, _OF_OTHERS: " ".join(sorted(self.of_others))}


def key_of_run(
    key: Secret, last_start: Numbers, lost: Iterable[AttemptStarted], at: datetime
) -> KeyOfRun:
    """Return whether a run signs with the key of the last one. A start that has noted none, of an
    earlier version, had the same.
    """
    names = {each.attempt_id for each in lost}
    before, others = str(last_start.get(_KEY) or ""), str(last_start.get(_OF_OTHERS) or "")
    is_same = not before or _mark_of(key, before.partition(" ")[0]) == before
    of_others = names.intersection(others.split()) if is_same else names
    return KeyOfRun(_mark_of(key, at.isoformat()), frozenset(of_others))


def _mark_of(key: Secret, salt: str) -> str:
    return f"{salt} {key.mark(salt)}"


def name_of(attempt: AttemptStarted) -> str:
    """Return the name under which an attempt is settled: a place by its intent, which has only one
    POST.
    """
    return attempt.intent_id if attempt.verb == "POST" else attempt.attempt_id


def lost_places(recovery: Recovery) -> list[AttemptStarted]:
    """Return the POSTs whose nonces still tell something, and the PUTs without a trusted answer."""
    asked = {SendState.SENDING, SendState.UNKNOWN, SendState.MATCHED, SendState.AMBIGUOUS}
    posts = [one.attempt for one in recovery.intents if one.attempt and one.state in asked]
    puts = [one.attempt for one in recovery.amends if one.outcome in {None, "UNKNOWN"}]
    return [*posts, *puts]


class Fence:
    """The places and amendments without a trusted answer, of this run and of an earlier one: a
    place by its intent, an amendment by its attempt.

    `wire` is our best estimate of the broker's time. `is_asked` returns whether the result for a
    nonce still matters.
    """

    def __init__(
        self,
        writer: OrderWriter,
        *,
        market: Clock,
        wire: Clock,
        waiter: Waiter,
        post: Post,
        key: KeyOfRun | None = None,
    ) -> None:
        self.key = key or KeyOfRun()
        self._writer = writer
        self._now = market.now
        self._wire = wire
        self._waiter = waiter
        self._post = post
        self._boot_id = boot_id()
        self._open: dict[str, AttemptStarted] = {}
        self._under_way: set[str] = set()
        self._known: dict[str, NonceBurnt] = {}
        """What was found out before the engine asked."""
        self._wanted: set[str] = set()
        self._asleep: set[asyncio.Task[object]] = set()
        self.is_asked: Callable[[str], bool] = lambda _: True

    def hold(self, attempt: AttemptStarted) -> None:
        """Keep a place about to be sent, or an amendment without a trusted answer."""
        self._open[name_of(attempt)] = attempt

    def hold_all(self, attempts: Iterable[AttemptStarted]) -> None:
        """Keep what the journal has of the market's day. In simulated time `begin` may not have
        had all of it, as that day is known only once the broker answers.
        """
        for attempt in attempts:
            self.hold(attempt)

    def release(self, intent_id: str) -> None:
        """Forget a place that has its answer."""
        self._open.pop(intent_id, None)

    def holds(self, intent_id: str) -> bool:
        """Return whether a place was stored and has no trusted answer yet: it may
        have been sent.
        """
        return intent_id in self._open

    async def begin(self, attempts: Iterable[AttemptStarted], spawn: Spawn) -> None:
        """Take over what an earlier run left unanswered: the first requests of a start.

        Each is tried once before this returns; further tries run alongside the start.
        """
        for attempt in attempts:
            self.hold(attempt)
            verdict, name = await self._try(attempt), name_of(attempt)
            if verdict is not None:
                self._known[name] = verdict
            else:
                self._under_way.add(name)
                spawn(self._go_on(name), f"burn {name}")

    async def burn(self, intent_id: str) -> None:
        """Find out whether the nonce of a lost place was ever used, and post the result."""
        self._wanted.add(intent_id)
        known = self._known.pop(intent_id, None)
        if known is not None:
            self._post(known)
        elif intent_id not in self._under_way:
            await self._go_on(intent_id)

    async def _go_on(self, intent_id: str) -> None:
        self._under_way.add(intent_id)
        try:
            found = await self._find_out(intent_id)
        finally:
            self._under_way.discard(intent_id)
        if intent_id in self._wanted:
            self._post(found)
        else:
            self._known[intent_id] = found

    async def _find_out(self, intent_id: str) -> NonceBurnt:
        """Try the nonce until an answer is conclusive, its time is over, or the result no longer
        matters.
        """
        attempt = self._open.get(intent_id)
        if attempt is None:
            return self._given_up(intent_id, "no nonce to try")
        began = self._waiter.now()
        for after_s in (*TRIES_S, BURN_WINDOW_S):
            left = timedelta(seconds=max(BURN_WINDOW_S - self.age_s(attempt), 0.0))
            await self._sleep(min(began + timedelta(seconds=after_s), self._waiter.now() + left))
            if not self.is_asked(intent_id):
                return self._given_up(intent_id, "its nonce need not be tried any more")
            verdict = await self._try(attempt)
            if verdict is not None:
                return verdict
        return self._too_old(intent_id)

    async def _sleep(self, until: datetime) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._asleep.add(task)
        try:
            await self._waiter.sleep_until(until)
        finally:
            self._asleep.discard(task)

    def stop(self) -> None:
        """End the waits between tries: the next start continues them."""
        for task in tuple(self._asleep):
            task.cancel()

    async def _try(self, attempt: AttemptStarted) -> NonceBurnt | None:
        """Try a nonce once; None: inconclusive."""
        intent_id = name_of(attempt)
        if attempt.attempt_id in self.key.of_others:
            return self._given_up(intent_id, "it was signed with another key")
        if self.age_s(attempt) >= BURN_WINDOW_S:
            return self._too_old(intent_id)
        verdict = classify_burn(await self._writer.burn(attempt.nonce))
        if not verdict.is_conclusive:
            return None
        if self.age_s(attempt) >= BURN_WINDOW_S:
            return self._too_old(intent_id)
        return NonceBurnt(self._now(), intent_id, verdict.resolution, verdict.detail)

    def _too_old(self, intent_id: str) -> NonceBurnt:
        return self._given_up(intent_id, f"the nonce is older than {BURN_WINDOW_S:.0f} s")

    def _given_up(self, intent_id: str, detail: str) -> NonceBurnt:
        return NonceBurnt(self._now(), intent_id, Resolution.REACHED, detail, is_proved=False)

    def age_s(self, attempt: AttemptStarted) -> float:
        """Seconds since signing: the larger of boot time and the broker's time, so that neither can
        understate it.
        """
        wire = self._wire.now().timestamp() - attempt.signed_ms / 1000
        if attempt.boot_id != self._boot_id:
            return wire + OTHER_BOOT_S
        return max(wire, (boottime_ns() - attempt.boottime_ns) / 1e9)
