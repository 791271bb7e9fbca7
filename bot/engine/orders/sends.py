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
from bot.engine import gate
from bot.engine.gate import ENGINE_FAULT
from bot.engine.orders import cancels, orders, set_aside
from bot.engine.orders.merging import report_of
from bot.engine.orders.moves import move_intent, move_unplaced
from bot.engine.state import PRIORITY, State
from bot.engine.tracked import CancelStage, TrackedCancel, TrackedIntent

TOO_MANY_REQUESTS: Final = 429
"""The quota looks before the nonce does: a copy of a place that a proxy has made may be refused
by it while the first one went through. So the day order book is read at once, for a ghost."""


def reason_not_to_send(state: State, intent: Intent) -> str | None:
    """Return why an approved order must not leave after all; None: it may.

    A missing token is no reason: the broker refuses without it for certain, and what it refuses
    is held. The others are certain only as long as nothing is sent.
    """
    causes = state.gate.causes
    closed = (each for each in PRIORITY if each in causes and each is not RunState.NEEDS_2FA)
    closing = next(closed, None)
    if closing is not None:
        reason = causes[closing].reason
        return f"{gate.REFUSAL_CODES[closing]}{f': {reason}' if reason else ''}"
    if intent.symbol in state.halted_symbols:
        return f"{intent.symbol} is halted: {state.halted_symbols[intent.symbol]}"
    held = set_aside.hold(state, intent.account, intent.symbol, intent.side)
    if held is not None:
        return held
    strategy = state.strategies.get(intent.strategy)
    return gate.objection(strategy, intent.side) if strategy is not None else None


def on_send_started(state: State, event: SendStarted) -> None:
    """The bytes are leaving; the move to SENDING was committed with the attempt."""
    tracked = state.intents[event.intent_id]
    tracked.state, tracked.order_state = SendState.SENDING, OrderState.SUBMITTED
    tracked.sent_at = event.at
    tracked.known_ids = frozenset(state.seen_ids)


def on_place_answered(state: State, event: PlaceAnswered) -> None:
    """Settle the intent, or find out that only the day order book can."""
    if event.finished is not None:
        state.record(event.finished)
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state not in {SendState.READY, SendState.SENDING}:
        state.note("ALERT", f"an answer to {event.intent_id}, which was not waiting for one")
        return
    match event.outcome:
        case Accepted():
            _accepted(state, tracked, event.outcome)
        case Refused():
            _refused(state, tracked, event.outcome)
        case NotSent(reason):
            _not_sent(state, tracked, reason)
        case Unknown():
            _unknown(state, tracked, event.outcome)


def doubt(state: State, event: PlaceAnswered) -> None:
    """The answer could not be taken: what may have left is asked after, what has not is over."""
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state not in {SendState.READY, SendState.SENDING}:
        return
    if isinstance(event.outcome, NotSent):
        _not_sent(state, tracked, ENGINE_FAULT)
        return
    tracked.state, tracked.order_state = SendState.SENDING, OrderState.SUBMITTED
    tracked.sent_at = tracked.sent_at or tracked.intent.created_at
    _unknown(state, tracked, Unknown(ENGINE_FAULT))


def _accepted(state: State, tracked: TrackedIntent, outcome: Accepted) -> None:
    result = outcome.result
    report = report_of(result, tracked.sent_at or state.now)
    move_intent(state, tracked, SendState.ACKED, f"accepted as {result.order_id}")
    gate.prove(state, result.order_id, tracked.intent.intent_id)
    known = state.orders.get(result.order_id)
    if known is not None:
        _claim(state, known.row.order_id)
    orders.own_order(state, tracked, report, "place")


def _claim(state: State, order_id: str) -> None:
    """A book that was read while the answer was under way had shown the row as nobody's."""
    del state.orders[order_id]


def _refused(state: State, tracked: TrackedIntent, outcome: Refused) -> None:
    if outcome.needs_two_factor:
        _blocked_for_token(state, tracked, outcome)
        return
    tracked.refusal_code = outcome.code
    move_intent(state, tracked, SendState.REFUSED, f"{outcome.code} {outcome.reason}".strip())
    result = outcome.result
    if result is not None and result.order_id:
        report = report_of(result, tracked.sent_at or state.now)
        orders.own_order(state, tracked, report, "place", code=outcome.code)
        return
    _end_unplaced(state, tracked, OrderState.REJECTED, outcome.code, outcome.reason)
    if outcome.http_status == TOO_MANY_REQUESTS:
        state.command(ReadTodaysOrders(f"quota refused {tracked.intent.intent_id}"))


def _end_unplaced(
    state: State, tracked: TrackedIntent, to_state: OrderState, code: str, reason: str
) -> None:
    move_unplaced(state, tracked, to_state, source="place", note=f"{code} {reason}".strip())
    state.counts[to_state.lower()] += 1
    orders.reject(state, tracked, code, reason)


def _not_sent(state: State, tracked: TrackedIntent, reason: str) -> None:
    is_ready = tracked.state is SendState.READY
    move_intent(state, tracked, SendState.EXPIRED_LOCAL if is_ready else SendState.NOT_SENT, reason)
    _end_unplaced(state, tracked, OrderState.EXPIRED, "NOT_SENT", reason)


def _unknown(state: State, tracked: TrackedIntent, outcome: Unknown) -> None:
    """The POST may have arrived: fence its nonce, read the day order book; never send it again."""
    move_intent(state, tracked, SendState.UNKNOWN, outcome.reason)
    move_unplaced(state, tracked, OrderState.UNKNOWN, source="place", note=outcome.reason)
    state.counts["unknown"] += 1
    ask_after(state, tracked)


def ask_after(state: State, tracked: TrackedIntent) -> None:
    """Begin to find out what became of an unknown POST."""
    tracked.poll = orders.first_poll(state)
    state.command(BurnNonce(tracked.intent.intent_id))
    state.command(ReadTodaysOrders(f"unknown {tracked.intent.intent_id}"))


# ----------------------------------------------------------------------------------- second factor


def _blocked_for_token(state: State, tracked: TrackedIntent, outcome: Refused) -> None:
    """A 403 OTP code is a certain refusal: hold the order for a while, or drop it."""
    intent, code = tracked.intent, outcome.code
    gate.close_for_two_factor(state, code, outcome.reason, intent.intent_id)
    tracked.refusal_code = code
    hold = _hold_of(state, tracked)
    if hold is None:
        move_intent(
            state, tracked, SendState.REFUSED, f"{code}: dropped, as the strategy file says"
        )
        _end_unplaced(state, tracked, OrderState.REJECTED, code, outcome.reason)
        return
    move_intent(state, tracked, SendState.HELD, f"{code}: held")
    move_unplaced(state, tracked, OrderState.REJECTED, source="place", note=code)
    followed = state.intents.get(intent.follows or "")
    tracked.held_until = (followed.held_until if followed else None) or state.now + hold
    _note_held(state, tracked)


def _hold_of(state: State, tracked: TrackedIntent) -> timedelta | None:
    strategy = state.strategies.get(tracked.intent.strategy)
    return strategy.plan.hold_2fa if strategy else None


def _note_held(state: State, tracked: TrackedIntent) -> None:
    intent = tracked.intent
    state.counts["held"] += 1
    state.record(
        Decision(
            at=state.now,
            strategy=intent.strategy,
            symbol=intent.symbol,
            verdict=Verdict.HELD,
            code=tracked.refusal_code,
            why=intent.why,
            numbers={"until": tracked.held_until.isoformat() if tracked.held_until else None},
            request_id=intent.intent_id,
            side=intent.side,
            quantity=intent.quantity,
            order_type=intent.order_type,
            price=intent.limit_price,
        )
    )


# ----------------------------------------------------------------------------------------- cancel


def on_cancel_answered(state: State, event: CancelAnswered) -> None:
    """Look at the row: what it shows is the verdict."""
    if event.finished is not None:
        state.record(event.finished)
    cancel = state.cancels.get(event.order_id)
    outcome = event.outcome
    if isinstance(outcome, Refused) and outcome.needs_two_factor:
        _cancel_blocked(state, event, outcome, cancel)
        return
    if isinstance(outcome, Accepted):
        taken(state, event.order_id, outcome, "cancel")
    if cancel is not None:
        cancels.wait(state, cancel)
        cancel.unsent += _stayed_outside(event.outcome)
        _wait_for_quota(state, cancel, event)
    state.command(ReadOrder(event.order_id, "after cancel"))


def _cancel_blocked(
    state: State, event: CancelAnswered, outcome: Refused, cancel: TrackedCancel | None
) -> None:
    intent_id = event.finished.intent_id if event.finished else None
    gate.close_for_two_factor(state, outcome.code, outcome.reason, intent_id)
    if cancel is not None:
        cancel.stage, cancel.due = CancelStage.WANTED, state.now


def _stayed_outside(outcome: Outcome) -> bool:
    """Not sent at all, or refused by the quota: the order's own desk never saw it."""
    return isinstance(outcome, NotSent) or (
        isinstance(outcome, Refused) and outcome.retry_after_s is not None
    )


def _wait_for_quota(state: State, cancel: TrackedCancel, event: CancelAnswered) -> None:
    if isinstance(event.outcome, Refused) and event.outcome.retry_after_s is not None:
        cancel.due = max(cancel.due, state.now + timedelta(seconds=event.outcome.retry_after_s))


def taken(state: State, order_id: str, outcome: Accepted, source: str) -> None:
    """The broker took a command: rows asked for earlier say nothing about the status any more."""
    order = state.orders.get(order_id)
    intent_id = order.row.intent_id if order else None
    raw = outcome.result.raw
    state.record(OrderResultSeen(state.now, source, order_id, intent_id, None, raw))
    gate.prove(state, order_id, intent_id)
    if order is not None:
        orders.forget_status_before(order, state.now)
