"""What came of a send: the machine of an intent's one POST."""

from typing import Final

from bot.domain.entry import Decision, RunState, Verdict
from bot.domain.message import BurnNonce, PlaceAnswered, ReadTodaysOrders, SendStarted
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.outcome import Accepted, NotSent, Refused, Unknown
from bot.engine import gate
from bot.engine.gate import ENGINE_FAULT
from bot.engine.orders import orders, set_aside
from bot.engine.orders.merging import report_of
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.state import PRIORITY, State
from bot.engine.tracked import TrackedIntent

TOO_MANY_REQUESTS: Final = 429
"""The quota looks before the nonce does: a copy of a place that a proxy has made may be refused
by it while the first one went through. So the day order book is read at once, for a ghost."""
_UNANSWERED: Final = frozenset({SendState.READY, SendState.SENDING})


def reason_not_to_send(state: State, intent: Intent) -> str | None:
    """Return why an approved order must not leave after all; None: it may.

    A missing token is no reason: the broker refuses without it for certain, and what it refuses
    is held. The others are certain only as long as nothing is sent.
    """
    causes, symbol = state.gate.causes, intent.symbol
    closed = (each for each in PRIORITY if each in causes and each is not RunState.NEEDS_2FA)
    closing = next(closed, None)
    if closing is not None:
        reason = causes[closing].reason
        return f"{gate.REFUSAL_CODES[closing]}{f': {reason}' if reason else ''}"
    if symbol in state.halted_symbols:
        return f"{symbol} is halted: {state.halted_symbols[symbol]}"
    held = set_aside.hold(state, intent.account, symbol, intent.side)
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
    if tracked is None or tracked.state not in _UNANSWERED:
        state.note("ALERT", f"an answer to {event.intent_id}, which was not waiting for one")
        return
    match event.outcome:
        case Accepted(result):
            report = report_of(result, tracked.sent_at or state.now)
            move_intent(state, tracked, SendState.ACKED, f"accepted as {result.order_id}")
            gate.prove(state, result.order_id, event.intent_id)
            # A book that was read while the answer was under way had shown the row as nobody's.
            state.orders.pop(result.order_id, None)
            orders.own_order(state, tracked, report, "place")
        case Refused() if event.outcome.needs_two_factor:
            _hold(state, tracked, event.outcome)
        case Refused():
            _refused(state, tracked, event.outcome)
        case NotSent(reason):
            _not_sent(state, tracked, reason)
        case Unknown(reason):
            _unknown(state, tracked, reason)


def doubt(state: State, event: PlaceAnswered) -> None:
    """The answer could not be taken: what may have left is asked after, what has not is over."""
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state not in _UNANSWERED:
        return
    if isinstance(event.outcome, NotSent):
        _not_sent(state, tracked, ENGINE_FAULT)
        return
    tracked.state, tracked.order_state = SendState.SENDING, OrderState.SUBMITTED
    tracked.sent_at = tracked.sent_at or tracked.intent.created_at
    _unknown(state, tracked, ENGINE_FAULT)


def _refused(state: State, tracked: TrackedIntent, outcome: Refused) -> None:
    code, reason, result = outcome.code, outcome.reason, outcome.result
    tracked.refusal_code = code
    move_intent(state, tracked, SendState.REFUSED, f"{code} {reason}".strip())
    if result is not None and result.order_id:
        report = report_of(result, tracked.sent_at or state.now)
        orders.own_order(state, tracked, report, "place", code)
        return
    _end_unplaced(state, tracked, OrderState.REJECTED, code, reason)
    if outcome.http_status == TOO_MANY_REQUESTS:
        state.command(ReadTodaysOrders(f"quota refused {tracked.intent.intent_id}"))


def _not_sent(state: State, tracked: TrackedIntent, reason: str) -> None:
    is_ready = tracked.state is SendState.READY
    move_intent(state, tracked, SendState.EXPIRED_LOCAL if is_ready else SendState.NOT_SENT, reason)
    _end_unplaced(state, tracked, OrderState.EXPIRED, "NOT_SENT", reason)


def _end_unplaced(
    state: State, tracked: TrackedIntent, to: OrderState, code: str, reason: str
) -> None:
    move_unplaced(state, tracked, to, source="place", note=f"{code} {reason}".strip())
    state.counts[to.lower()] += 1
    orders.reject(state, tracked, code, reason)


def _unknown(state: State, tracked: TrackedIntent, reason: str) -> None:
    """The POST may have arrived: fence its nonce, read the day order book; never send it again."""
    move_intent(state, tracked, SendState.UNKNOWN, reason)
    move_unplaced(state, tracked, OrderState.UNKNOWN, source="place", note=reason)
    state.counts["unknown"] += 1
    ask_after(state, tracked)


def ask_after(state: State, tracked: TrackedIntent) -> None:
    """Begin to find out what became of an unknown POST."""
    tracked.poll = orders.first_poll(state)
    state.command(BurnNonce(tracked.intent.intent_id))
    state.command(ReadTodaysOrders(f"unknown {tracked.intent.intent_id}"))


def _hold(state: State, tracked: TrackedIntent, outcome: Refused) -> None:
    """A 403 OTP code is a certain refusal: hold the order for a while, or drop it."""
    intent, code = tracked.intent, outcome.code
    gate.close_for_two_factor(state, code, outcome.reason, intent.intent_id)
    tracked.refusal_code = code
    strategy = state.strategies.get(intent.strategy)
    hold = strategy.plan.hold_2fa if strategy else None
    if hold is None:
        reason = f"{code}: dropped, as the strategy file says"
        move_intent(state, tracked, SendState.REFUSED, reason)
        _end_unplaced(state, tracked, OrderState.REJECTED, code, outcome.reason)
        return
    move_intent(state, tracked, SendState.HELD, f"{code}: held")
    move_unplaced(state, tracked, OrderState.REJECTED, source="place", note=code)
    followed = state.intents.get(intent.follows or "")
    held_until = (followed.held_until if followed else None) or state.now + hold
    tracked.held_until = held_until
    state.counts["held"] += 1
    state.record(
        Decision(
            at=state.now,
            strategy=intent.strategy,
            symbol=intent.symbol,
            verdict=Verdict.HELD,
            code=code,
            why=intent.why,
            numbers={"until": held_until.isoformat()},
            request_id=intent.intent_id,
            side=intent.side,
            quantity=intent.quantity,
            order_type=intent.order_type,
            price=intent.limit_price,
        )
    )
