"""What came of a send. The machine of an intent's one POST, and the answers to DELETE."""

from datetime import timedelta
from typing import Final

from bot.domain.entry import Decision, OrderResultSeen, RunState, Verdict
from bot.domain.message import (
    BurnNonce,
    CancelAnswered,
    PlaceAnswered,
    ReadOrder,
    ReadTodaysOrders,
    SendStarted,
)
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Unknown
from bot.engine import gatekeeping, switches
from bot.engine.faults import ENGINE_FAULT
from bot.engine.gate import PRIORITY
from bot.engine.orders import cancels, orders, set_aside
from bot.engine.orders.merging import report_of
from bot.engine.orders.moves import move_intent, move_unplaced
from bot.engine.state import Book
from bot.engine.tracks import CancelStage, CancelTrack, IntentTrack

TOO_MANY_REQUESTS: Final = 429
"""The quota looks before the nonce does: a copy of a place that a proxy has made may be refused
by it while the first one went through. So the day book is read at once, for a ghost."""


def reason_not_to_send(book: Book, intent: Intent) -> str | None:
    """Return why an approved order must not leave after all; None: it may.

    A missing token is no reason: the broker refuses without it for certain, and what it refuses
    is held. The others are certain only as long as nothing is sent.
    """
    causes = book.gate.causes
    closed = (each for each in PRIORITY if each in causes and each is not RunState.NEEDS_2FA)
    state = next(closed, None)
    if state is not None:
        reason = causes[state].reason
        return f"{gatekeeping.REFUSAL_CODES[state]}{f': {reason}' if reason else ''}"
    if intent.symbol in book.halted_symbols:
        return f"{intent.symbol} is halted: {book.halted_symbols[intent.symbol]}"
    held = set_aside.hold(book, intent.account, intent.symbol, intent.side)
    if held is not None:
        return held
    runner = book.runners.get(intent.strategy)
    return switches.objection(runner, intent.side) if runner is not None else None


def on_send_started(book: Book, event: SendStarted) -> None:
    """The bytes are leaving; the move to SENDING was committed with the attempt."""
    track = book.intents[event.intent_id]
    track.state, track.order_state = SendState.SENDING, OrderState.SUBMITTED
    track.sent_at = event.at
    track.known_ids = frozenset(book.seen_ids)


def on_place_answered(book: Book, event: PlaceAnswered) -> None:
    """Settle the intent, or find out that only the day book can."""
    if event.finished is not None:
        book.record(event.finished)
    track = book.intents.get(event.intent_id)
    if track is None or track.state not in {SendState.READY, SendState.SENDING}:
        book.note("ALERT", f"an answer to {event.intent_id}, which was not waiting for one")
        return
    match event.outcome:
        case Accepted():
            _accepted(book, track, event.outcome)
        case Refused():
            _refused(book, track, event.outcome)
        case NotSent(reason):
            _not_sent(book, track, reason)
        case Unknown():
            _unknown(book, track, event.outcome)


def doubt(book: Book, event: PlaceAnswered) -> None:
    """The answer could not be taken: what may have left is asked after, what has not is over."""
    track = book.intents.get(event.intent_id)
    if track is None or track.state not in {SendState.READY, SendState.SENDING}:
        return
    if isinstance(event.outcome, NotSent):
        _not_sent(book, track, ENGINE_FAULT)
        return
    track.state, track.order_state = SendState.SENDING, OrderState.SUBMITTED
    track.sent_at = track.sent_at or track.intent.created_at
    _unknown(book, track, Unknown(ENGINE_FAULT))


def _accepted(book: Book, track: IntentTrack, outcome: Accepted) -> None:
    result = outcome.result
    report = report_of(result, track.sent_at or book.now)
    move_intent(book, track, SendState.ACKED, f"accepted as {result.order_id}")
    gatekeeping.prove(book, result.order_id, track.intent.intent_id)
    known = book.orders.get(result.order_id)
    if known is not None:
        _claim(book, known.row.order_id)
    orders.own_order(book, track, report, "place")


def _claim(book: Book, order_id: str) -> None:
    """A book that was read while the answer was under way had shown the row as nobody's."""
    del book.orders[order_id]


def _refused(book: Book, track: IntentTrack, outcome: Refused) -> None:
    if outcome.needs_two_factor:
        _blocked_for_token(book, track, outcome)
        return
    track.refusal_code = outcome.code
    move_intent(book, track, SendState.REFUSED, f"{outcome.code} {outcome.reason}".strip())
    result = outcome.result
    if result is not None and result.order_id:
        report = report_of(result, track.sent_at or book.now)
        orders.own_order(book, track, report, "place", code=outcome.code)
        return
    _end_unplaced(book, track, OrderState.REJECTED, outcome.code, outcome.reason)
    if outcome.http_status == TOO_MANY_REQUESTS:
        book.command(ReadTodaysOrders(f"quota refused {track.intent.intent_id}"))


def _end_unplaced(
    book: Book, track: IntentTrack, state: OrderState, code: str, reason: str
) -> None:
    move_unplaced(book, track, state, source="place", note=f"{code} {reason}".strip())
    book.counts[state.lower()] += 1
    orders.reject(book, track, code, reason)


def _not_sent(book: Book, track: IntentTrack, reason: str) -> None:
    is_ready = track.state is SendState.READY
    move_intent(book, track, SendState.EXPIRED_LOCAL if is_ready else SendState.NOT_SENT, reason)
    _end_unplaced(book, track, OrderState.EXPIRED, "NOT_SENT", reason)


def _unknown(book: Book, track: IntentTrack, outcome: Unknown) -> None:
    """The POST may have arrived. Fence its nonce and read the day book; never send it again."""
    move_intent(book, track, SendState.UNKNOWN, outcome.reason)
    move_unplaced(book, track, OrderState.UNKNOWN, source="place", note=outcome.reason)
    book.counts["unknown"] += 1
    ask_after(book, track)


def ask_after(book: Book, track: IntentTrack) -> None:
    """Begin to find out what became of an unknown POST."""
    track.poll = orders.first_poll(book)
    book.command(BurnNonce(track.intent.intent_id))
    book.command(ReadTodaysOrders(f"unknown {track.intent.intent_id}"))


# ----------------------------------------------------------------------------------- second factor


def _blocked_for_token(book: Book, track: IntentTrack, outcome: Refused) -> None:
    """A 403 OTP code is a certain refusal: hold the order for a while, or drop it."""
    intent, code = track.intent, outcome.code
    gatekeeping.close_for_two_factor(book, code, outcome.reason, intent.intent_id)
    track.refusal_code = code
    hold = _hold_of(book, track)
    if hold is None:
        move_intent(book, track, SendState.REFUSED, f"{code}: dropped, as the strategy file says")
        _end_unplaced(book, track, OrderState.REJECTED, code, outcome.reason)
        return
    move_intent(book, track, SendState.HELD, f"{code}: held")
    move_unplaced(book, track, OrderState.REJECTED, source="place", note=code)
    followed = book.intents.get(intent.follows or "")
    track.held_until = (followed.held_until if followed else None) or book.now + hold
    _note_held(book, track)


def _hold_of(book: Book, track: IntentTrack) -> timedelta | None:
    runner = book.runners.get(track.intent.strategy)
    return runner.plan.hold_2fa if runner else None


def _note_held(book: Book, track: IntentTrack) -> None:
    intent = track.intent
    book.counts["held"] += 1
    book.record(
        Decision(
            at=book.now,
            strategy=intent.strategy,
            symbol=intent.symbol,
            verdict=Verdict.HELD,
            code=track.refusal_code,
            why=intent.why,
            numbers={"until": track.held_until.isoformat() if track.held_until else None},
            request_id=intent.intent_id,
            side=intent.side,
            quantity=intent.quantity,
            order_type=intent.order_type,
            price=intent.limit_price,
        )
    )


# ----------------------------------------------------------------------------------------- cancel


def on_cancel_answered(book: Book, event: CancelAnswered) -> None:
    """Look at the row: what it shows is the verdict."""
    if event.finished is not None:
        book.record(event.finished)
    cancel = book.cancels.get(event.order_id)
    outcome = event.outcome
    if isinstance(outcome, Refused) and outcome.needs_two_factor:
        _cancel_blocked(book, event, outcome, cancel)
        return
    if isinstance(outcome, Accepted):
        taken(book, event.order_id, outcome, "cancel")
    if cancel is not None:
        cancels.wait(book, cancel)
        cancel.unsent += _stayed_outside(event.outcome)
        _wait_for_quota(book, cancel, event)
    book.command(ReadOrder(event.order_id, "after cancel"))


def _cancel_blocked(
    book: Book, event: CancelAnswered, outcome: Refused, cancel: CancelTrack | None
) -> None:
    intent_id = event.finished.intent_id if event.finished else None
    gatekeeping.close_for_two_factor(book, outcome.code, outcome.reason, intent_id)
    if cancel is not None:
        cancel.stage, cancel.due = CancelStage.WANTED, book.now


def _stayed_outside(outcome: Outcome) -> bool:
    """Not sent at all, or refused by the quota: the order's own desk never saw it."""
    return isinstance(outcome, NotSent) or (
        isinstance(outcome, Refused) and outcome.retry_after_s is not None
    )


def _wait_for_quota(book: Book, cancel: CancelTrack, event: CancelAnswered) -> None:
    if isinstance(event.outcome, Refused) and event.outcome.retry_after_s is not None:
        cancel.due = max(cancel.due, book.now + timedelta(seconds=event.outcome.retry_after_s))


def taken(book: Book, order_id: str, outcome: Accepted, source: str) -> None:
    """The broker took a command: rows asked for earlier say nothing about the status any more."""
    order = book.orders.get(order_id)
    intent_id = order.row.intent_id if order else None
    raw = outcome.result.raw
    book.record(OrderResultSeen(book.now, source, order_id, intent_id, None, raw))
    gatekeeping.prove(book, order_id, intent_id)
    if order is not None:
        orders.forget_status_before(order, book.now)
