"""Carries out order commands. The invariant of promise 1 lives here, in this order of steps:

    (1) sign the request   (2) commit intent, attempt and nonce   (3) send the very bytes, once
    (4) hand the outcome to the engine, whose records are committed with it

Nothing is sent before (2) has returned, and (3) happens at most once per intent, ever: an answer
that is lost, late or broken makes the outcome unknown, and an unknown order is looked for, never
resent. Cancels and amendments take the same steps, each attempt with its own nonce; while the
journal is out of reach, a cancel may go out with its attempt in the emergency journal only.

If nothing stands between a decision and its first byte, the live loop has the order signed at once
(`sign`) and commits both in one transaction (`committed`). If something does, such as a slot or a
stale day order book, `place` waits for it, signs then, and commits the attempt alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot.broker.writes import Objection, OrderWriter, SignedRequest
from bot.clock import Clock, boot_id, boottime_ns
from bot.domain.account import SubAccount
from bot.domain.entry import AttemptFinished, AttemptStarted, Entry, IntentMoved, Transition
from bot.domain.errors import require
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    CancelAnswered,
    CancelOrder,
    PlaceAnswered,
    SendStarted,
    TwoFactorMissing,
)
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.outcome import LACKS_2FA, Accepted, NotSent, Outcome, Refused, Unknown
from bot.engine.gate import ENGINE_FAULT
from bot.engine.index import KnownIds
from bot.engine.orders.sends import TOO_MANY_REQUESTS
from bot.journal.errors import LeaseLost, OutcomeUnknown, Unreachable
from bot.journal.writing.sends import Send
from bot.protocol.classify import classify_amend, classify_cancel, classify_place
from bot.protocol.envelope import Answer, NoAnswer
from bot.protocol.secret import redact
from bot.runtime.activity import Post, RightOfWay
from bot.runtime.commits import Commits, Committed
from bot.runtime.fence import Fence
from bot.runtime.reads import DayBookReader, Spawn
from bot.runtime.stored_ids import StoredIds

SIGNED_AGE_MAX_S: Final = 15.0
"""An older signature may arrive too late: the broker accepts it for 30 s, and a send takes up to 10
s.
"""
BOOK_AGE_MAX: Final = timedelta(seconds=5)
"""The ids known before a send come from a day order book no older than this (order-safety section
3).
"""

Classify = Callable[[str, Answer | NoAnswer], Outcome]
Gate = Callable[[Intent], str | None]
"""Returns why an approved order must not be sent after all, because of later decisions."""
AmendGate = Callable[[str], str | None]
"""The same for an amendment, by the intent of its order."""
_OUTCOME_WORDS: Final[Mapping[type, str]] = {
    Accepted: "ACCEPTED",
    Refused: "REFUSED",
    NotSent: "NOT_SENT",
    Unknown: "UNKNOWN",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """An intent's single POST, what is committed before, and the ids that its order can't have."""

    signed: SignedRequest
    started: AttemptStarted
    send: Send
    known: KnownIds


def order_words(intent: Intent) -> str:
    """Describe an order: `BUY 100 HPG (L-0001)`."""
    return f"{intent.side} {intent.quantity:,} {intent.symbol} ({intent.intent_id})"


class OrderManager:
    """Places, cancels and amends, for one sub-account.

    `market` is the engine's time. `fence` keeps what has no trusted answer yet. With `spawn`, a day
    order book too old for an order is read while its decision is being committed.
    """

    def __init__(
        self,
        *,
        writer: OrderWriter,
        commits: Commits,
        account: SubAccount,
        day_order_book: DayBookReader,
        market: Clock,
        fence: Fence,
        epoch: int,
        max_in_flight: int,
        gates: tuple[Gate, AmendGate, Callable[[Intent], bool]],
        post: Post,
        way: RightOfWay,
        spawn: Spawn | None = None,
    ) -> None:
        self._writer = writer
        self._commits = commits
        self._account = account
        self._day_order_book = day_order_book
        self._now = market.now
        self._fence = fence
        self._epoch = epoch
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._gate, self._amend_gate, self._passes_halt = gates
        self._post = post
        self.way = way
        self._spawn = spawn
        self._boot_id = boot_id()
        self._stored_ids = StoredIds()
        self._early: dict[str, tuple[Attempt, Committed | None]] = {}
        """By intent: what was signed with its decision, and the result of the commit."""
        self._placing: dict[str, Intent] = {}
        """By id: orders started that have no answer yet."""
        self._changing: dict[str, str] = {}
        """The same for cancels and amendments, in words, by nonce."""

    @property
    def under_way(self) -> tuple[str, ...]:
        """What may have left and has no answer yet, in words."""
        placing = [it for key, it in self._placing.items() if self._fence.holds(key)]
        return (*map(order_words, placing), *self._changing.values())

    @property
    def unsent(self) -> tuple[str, ...]:
        """Orders that were prepared but cannot have been sent: no attempt of theirs is stored."""
        placing = [it for key, it in self._placing.items() if not self._fence.holds(key)]
        return tuple(map(order_words, placing))

    # ------------------------------------------------------------------------------------ place

    def sign(self, intent: Intent, sends: list[Send]) -> None:
        """Sign an intent's one POST and add it to the `sends` of the transaction of its decision;
        `committed`, then `place` follow.

        If something stands between decision and first byte, `place` does all of it.
        """
        is_free = len(self._placing) < self._max_in_flight
        if is_free and not self._day_order_book.is_older(BOOK_AGE_MAX):
            if self._objection(intent) is None:
                attempt = self._attempt(intent)
                self._early[intent.intent_id] = attempt, None
                self._begin(intent)
                sends.append(attempt.send)
        elif self._spawn is not None:
            self._day_order_book.read_ahead(BOOK_AGE_MAX, self._spawn)

    def committed(self, send: Send, commit: Committed | None) -> None:
        """Receive the commit result of what `sign` added; None: `place` signs again."""
        started = send.entries[0]
        assert isinstance(started, AttemptStarted), "an attempt begins with its start"
        attempt, _ = self._early.pop(started.intent_id)
        if commit is not None:
            self._early[started.intent_id] = attempt, commit
            if commit.is_stored:
                self._stored_ids.add(attempt.known, started.at)
                self._fence.hold(started)

    def place(self, intent: Intent) -> Coroutine[object, object, None]:
        """Send the intent's single POST, or report that it was definitely not sent."""
        self._begin(intent)
        return self._place(intent)

    def _begin(self, intent: Intent) -> None:
        if intent.intent_id not in self._placing:
            self.way.begin()
        self._placing[intent.intent_id] = intent

    async def _place(self, intent: Intent) -> None:
        intent_id = intent.intent_id
        async with self._slots:
            attempt, commit = self._early.pop(intent_id, (None, None))
            if attempt is None or commit is None:
                too_old = await self._day_order_book.reason_of_age(BOOK_AGE_MAX)
                if (reason := too_old or self._objection(intent)) is not None:
                    self._answer_place(intent, NotSent(reason), None)
                    return
                attempt = self._attempt(intent)
                commit = await self._commit(attempt.send, attempt.known)
            if not commit.is_stored:
                self._answer_place(intent, NotSent(commit.reason), None)
                return
            started = attempt.started
            self._fence.hold(started)
            self._post(SendStarted(self._now(), intent_id))
            objection = partial(self._objection, intent, started)
            answer = await self._send_once(attempt.signed, commit, objection)
            today, known = intent.trading_date, attempt.known
            outcome = classify_place(
                intent, answer, today=today, known_ids=known, account=self._account
            )
            if isinstance(outcome, Accepted | Refused) and outcome.result is not None:
                self._day_order_book.note_answered(outcome.result.order_id)
            self._answer_place(intent, outcome, finished(started, outcome, answer, self._now()))

    def _attempt(self, intent: Intent) -> Attempt:
        signed = self._writer.prepare_place(self._account, intent)
        known = self._day_order_book.known()
        started = self._started(signed, intent.intent_id, None, known)
        at, intent_id = started.at, intent.intent_id
        entries: tuple[Entry, ...] = (
            started,
            IntentMoved(at, intent_id, SendState.READY, SendState.SENDING, "signed and sent"),
            Transition(
                at=at,
                intent_id=intent_id,
                order_id=None,
                from_state=OrderState.INITIALIZED,
                to_state=OrderState.SUBMITTED,
                broker_status=None,
                source="place",
            ),
        )
        send = Send(entries, self._epoch, intent.fingerprint, self._passes_halt(intent))
        return Attempt(signed, started, send, known)

    def settle(self, intent: Intent, done: asyncio.Task[None]) -> None:
        """Answer for a place that ended with a fault: unknown if it may have been sent."""
        if done.cancelled() or done.exception() is None:
            return
        is_stored = self._fence.holds(intent.intent_id)
        self._answer_place(intent, (Unknown if is_stored else NotSent)(ENGINE_FAULT), None)

    def _objection(self, intent: Intent, started: AttemptStarted | None = None) -> str | None:
        """Called again just before the first byte: the request quota may have delayed it, and an
        operator may have paused or halted the bot meanwhile.
        """
        now = self._now()
        if started is not None and (too_old := self._reason_of_age(started)) is not None:
            return too_old
        if now > intent.ttl_at:
            age_s = (now - intent.created_at).total_seconds()
            limit_s = (intent.ttl_at - intent.created_at).total_seconds()
            return f"the signal was {age_s:.1f} s old (limit {limit_s:g} s)"
        return self._gate(intent)

    def _aged_or(self, started: AttemptStarted, other: Objection) -> str | None:
        return self._reason_of_age(started) or other()

    def _reason_of_age(self, started: AttemptStarted) -> str | None:
        age_s = self._fence.age_s(started)
        words = f"it was signed {age_s:.1f} s ago (limit {SIGNED_AGE_MAX_S:g} s)"
        return words if age_s > SIGNED_AGE_MAX_S else None

    def _answer_place(
        self, intent: Intent, outcome: Outcome, finished: AttemptFinished | None
    ) -> None:
        if self._placing.pop(intent.intent_id, None) is not None:
            self.way.end()
        is_limit = isinstance(outcome, Refused) and outcome.http_status == TOO_MANY_REQUESTS
        if not (is_limit or isinstance(outcome, Unknown)):
            self._fence.release(intent.intent_id)
        self._post(PlaceAnswered(self._now(), intent.intent_id, outcome, finished))

    # ------------------------------------------------------------------------- cancel and amend

    async def cancel(self, command: CancelOrder) -> None:
        """Send a DELETE; the verdict comes from a row that is read afterwards."""
        signed = self._writer.prepare_cancel(self._account, command.order_id)
        started = self._started(signed, command.intent_id, command.order_id, None)
        committing = self._commits.protect(started)
        objection = partial(self._aged_or, started, self._commits.objection)
        change = self._change(signed, started, committing, classify_cancel, objection)
        self._post(CancelAnswered(self._now(), command.order_id, *await change))

    async def amend(self, command: AmendOrder) -> None:
        """Send a PUT of one field; the verdict comes from a row that is read afterwards.

        Like a place, and unlike a cancel, it is stopped by anything that closes the gate before its
        first byte: according to the engine, and to the journal in the transaction of its attempt.
        """
        price, quantity = command.limit_price, command.quantity
        signed = self._writer.prepare_amend(
            self._account, command.order_id, limit_price=price, quantity=quantity
        )
        known = self._day_order_book.known()
        started = self._started(signed, command.intent_id, command.order_id, known)
        committing = self._commit(Send((started,), self._epoch, fingerprint=""), known)
        objection = partial(self._aged_or, started, partial(self._amend_gate, started.intent_id))
        result = await self._change(signed, started, committing, classify_amend, objection)
        self._post(AmendAnswered(self._now(), command.order_id, *result, command.asked_at))

    async def _change(
        self,
        signed: SignedRequest,
        started: AttemptStarted,
        committing: Awaitable[Committed],
        classify: Classify,
        objection: Objection,
    ) -> tuple[Outcome, AttemptFinished | None]:
        assert started.order_id is not None, "a change names its order"
        named = f"{started.verb} of {started.order_id} ({started.intent_id})"
        self._changing[started.nonce] = named
        commit = await committing
        if not commit.is_stored:
            del self._changing[started.nonce]
            return NotSent(commit.reason), None
        answer = await self._send_once(signed, commit, objection)
        del self._changing[started.nonce]
        outcome = classify(started.order_id, answer)
        if started.verb == "PUT" and isinstance(outcome, Unknown):
            self._fence.hold(started)
        return outcome, finished(started, outcome, answer, self._now())

    async def _send_once(
        self, signed: SignedRequest, commit: Committed, objection: Objection
    ) -> Answer | NoAnswer:
        require(commit.is_stored, "I1", f"the {signed.method} of an attempt that is not stored")
        if commit.reason:
            return NoAnswer(commit.reason, is_sent=False, latency_ms=0)
        answer = await self._writer.send(signed, objection)
        is_kept_back = isinstance(answer, NoAnswer) and answer.reason.startswith(LACKS_2FA)
        if is_kept_back and (
            lack := self._writer.lack
        ):  # it may have ended without the engine noticing
            missing = TwoFactorMissing(self._now(), lack, "it ended before a write", is_needed=True)
            self._post(missing)
        return answer

    async def _commit(self, send: Send, known: KnownIds) -> Committed:
        """Store one attempt."""
        try:
            commit = (await self._commits.write([], [send])).sends[0]
        except OutcomeUnknown:
            raise
        except (LeaseLost, Unreachable) as refusal:
            return Committed(is_stored=False, reason=str(refusal))
        if commit.is_stored:
            self._stored_ids.add(known, send.attempt.at)
        return commit

    # ------------------------------------------------------------------------------- the records

    def _started(
        self, signed: SignedRequest, intent_id: str, order_id: str | None, known: KnownIds | None
    ) -> AttemptStarted:
        """A cancel creates no order, so it stores no `known` ids: a halt's stay small, whatever the
        day, also in the emergency journal.
        """
        at = self._now()
        return AttemptStarted(
            at=at,
            attempt_id=signed.nonce,
            intent_id=intent_id,
            verb=signed.method,
            target=redact(signed.target),
            order_id=order_id,
            nonce=signed.nonce,
            signed_ms=signed.timestamp_ms,
            boot_id=self._boot_id,
            boottime_ns=boottime_ns(),
            body_sha256=signed.body_sha256,
            body=redact(signed.body.decode()),
            known_ids=self._stored_ids.missing(known, at) if known is not None else (),
            epoch=self._epoch,
        )


def finished(
    started: AttemptStarted, outcome: Outcome, answer: Answer | NoAnswer, at: datetime
) -> AttemptFinished:
    """Return the record of an attempt's end."""
    if isinstance(outcome, Accepted):
        code, reason = outcome.result.code, outcome.result.reason or ""
    else:
        code = outcome.code if isinstance(outcome, Refused) else None
        reason = outcome.reason
    if isinstance(answer, Answer):
        http_status = answer.http_status
        raw = answer.body.decode("utf-8", errors="backslashreplace")
    else:
        http_status, raw = None, answer.reason
    return AttemptFinished(
        at=at,
        attempt_id=started.attempt_id,
        intent_id=started.intent_id,
        outcome=_OUTCOME_WORDS[type(outcome)],
        http_status=http_status,
        code=code,
        reason=reason,
        raw=redact(raw),
        latency_ms=round(answer.latency_ms),
    )
