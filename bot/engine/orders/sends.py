"""What came of a send: the machine of an intent's one POST, ever.

    READY ─► SENDING ─► ACKED | REFUSED | NOT_SENT | UNKNOWN, which `unknown.py` settles
                 └ no token ─► HELD ─ token in time ─► REFUSED, and requested again
                                └ time over, or too much has changed ─► EXPIRED_LOCAL

What goes out after the token has come is another intent that `follows` the first. It is checked in
full on a fresh quote, exits first, within the time that its strategy allows (`rechecks.py`).
"""

from datetime import timedelta
from typing import Final

from bot.domain.entry import AuthEvent, RunState, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import (
    BurnNonce,
    PlaceAnswered,
    ReadTodaysOrders,
    SendStarted,
    TwoFactorReady,
)
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.outcome import LACKS_2FA, Accepted, NotSent, Refused, Unknown
from bot.engine import belief, gate, invariants, requests, two_factor
from bot.engine.control_state import PRIORITY
from bot.engine.gate import ENGINE_FAULT
from bot.engine.orders import cancels, doubts, orders, refusals
from bot.engine.orders.matching import report_of
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.orders.rechecks import (
    HELD_TOO_LONG,
    Change,
    basis_of,
    change_since,
    decide,
    give_up,
)
from bot.engine.orders.unknown import ALERT_AFTER
from bot.engine.risk import losses
from bot.engine.risk.accounts import means_of
from bot.engine.risk.sizing import OrderRequest
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent
from bot.engine.two_factor import is_exit

TOO_MANY_REQUESTS: Final = 429
"""The quota looks before the nonce does: a copy of a place that a proxy has made may be refused
by it while the first one went through. So the day order book is read at once, for a ghost, and the
nonce is tried when the quota lets it."""
_UNANSWERED: Final = frozenset({SendState.READY, SendState.SENDING})


def reason_not_to_send(state: State, intent: Intent) -> str | None:
    """Return why an approved order must not leave after all; None: it may.

    What only lacks a token is held, as what the broker has refused for want of one is.
    """
    causes, symbol = state.gate.causes, intent.symbol
    is_spared = state.passes_halt(intent.intent_id)
    for closing in PRIORITY:
        if closing in causes and not (is_spared and closing is RunState.HALTED):
            reason = causes[closing].reason
            return f"{gate.REFUSAL_CODES[closing]}{f': {reason}' if reason else ''}"
    if (halted := gate.scope_objection(state, intent.account, intent.side)) is not None:
        return halted[1]
    if (lost := losses.objection(state, intent.account, intent.side)) is not None:
        return lost
    if symbol in state.halted_symbols:
        return f"{symbol} is halted: {state.halted_symbols[symbol]}"
    held = doubts.reason_not_to_buy(state, intent.account, symbol, intent.side)
    if held is not None:
        return held
    if (doubt := belief.objection(state, symbol, intent.side)) is not None:
        return f"{symbol}: {doubt[0]}"
    strategy = state.strategies.get(intent.strategy)
    if strategy is None or is_spared:
        return None
    return gate.strategy_objection(strategy, intent.side)


def on_send_started(state: State, event: SendStarted) -> None:
    """The bytes are leaving; the move to SENDING was committed with the attempt."""
    tracked = state.intents[event.intent_id]
    tracked.state, tracked.order_state = SendState.SENDING, OrderState.SUBMITTED
    tracked.sent_at = event.at
    tracked.known_ids = state.seen_ids.until_now()


def on_place_answered(state: State, event: PlaceAnswered) -> None:
    """Settle the intent, or find out that only the day order book can."""
    if event.finished is not None:
        state.record(event.finished)
    invariants.of_answer(state, event)
    refusals.note_redirect(state, event.finished)
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state not in _UNANSWERED:
        text = (
            f"{event.intent_id}: an answer came, and it was not waiting for one. It changes"
            f" nothing. Look at the order: bot order {event.intent_id}"
        )
        state.alert("ANSWER_NOT_AWAITED", text, {"intent_id": event.intent_id})
        return
    match event.outcome:
        case Accepted(result):
            report = report_of(result, tracked.sent_at or state.now)
            move_intent(state, tracked, SendState.ACKED, f"accepted as {result.order_id}")
            two_factor.prove(state, result.order_id, event.intent_id)
            refusals.note_accepted(state, tracked)
            # A day order book read while the answer was under way showed the row as nobody's.
            orders.own_order(state, tracked, orders.claim(state, report), "place")
        case Refused(code, reason) if event.outcome.needs_two_factor:
            two_factor.close_for_two_factor(state, event.outcome, event.intent_id)
            _hold(state, tracked, code, reason)
            _go_on_with_token(state, tracked)
        case Refused(code, reason, http_status, result):
            tracked.refusal_code = code
            move_intent(state, tracked, SendState.REFUSED, f"{code} {reason}".strip())
            refusals.note_refused(state, tracked, event.outcome)
            if result is not None and result.order_id:
                report = report_of(result, tracked.sent_at or state.now)
                orders.own_order(state, tracked, orders.claim(state, report), "place", code)
                return
            _end_unplaced(state, tracked, OrderState.REJECTED, code, reason)
            if http_status == TOO_MANY_REQUESTS:
                state.command(ReadTodaysOrders(f"quota refused {event.intent_id}"))
                state.command(BurnNonce(event.intent_id))
        case NotSent(reason) if reason.startswith(LACKS_2FA):
            _hold_unsent(state, tracked, reason)
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
    ask_after(state, tracked, reason)


def ask_after(state: State, tracked: TrackedIntent, doubt: str) -> None:
    """Begin to find out what became of an unknown POST."""
    tracked.poll = state.first_poll()
    tracked.doubt, tracked.alert_due = doubt, state.now + ALERT_AFTER
    tracked.burn_due = state.now + state.settings.horizon
    state.command(BurnNonce(tracked.intent.intent_id))
    state.command(ReadTodaysOrders(f"unknown {tracked.intent.intent_id}"))


# --------------------------------------------------------------------------------------- no token


def _hold_unsent(state: State, tracked: TrackedIntent, reason: str) -> None:
    """The gate has closed for want of a token while the order waited for its turn."""
    if _hold_of(state, tracked.intent) is None:
        _not_sent(state, tracked, reason)
        return
    closed = state.gate.causes.get(RunState.NEEDS_2FA)
    _hold(state, tracked, closed.code if closed is not None else LACKS_2FA, reason)
    _go_on_with_token(state, tracked)


def _go_on_with_token(state: State, tracked: TrackedIntent) -> None:
    """Request an order again that is held for a token which has come meanwhile."""
    if tracked.state is SendState.HELD and not state.gate.lacks_token:
        tracked.is_waiting_to_resume = True
        _resume(state, tracked)


def _hold(state: State, tracked: TrackedIntent, code: str, why: str) -> None:
    """A 403 OTP code is a certain refusal: hold the order for a while, or drop it."""
    intent = tracked.intent
    tracked.refusal_code = code
    hold = _hold_of(state, intent)
    if hold is None:
        is_sold = state.passes_halt(intent.intent_id)
        by = "a flatten sells again by itself" if is_sold else "as the strategy file says"
        reason = f"{code}: dropped, {by}"
        move_intent(state, tracked, SendState.REFUSED, reason)
        _end_unplaced(state, tracked, OrderState.REJECTED, code, why)
        return
    move_intent(state, tracked, SendState.HELD, f"{code}: held")
    move_unplaced(state, tracked, OrderState.REJECTED, source="place", note=code)
    followed = state.intents.get(intent.follows or "")
    held_until = (followed.held_until if followed else None) or state.now + hold
    tracked.held_until = held_until
    tracked.basis = (followed.basis if followed else None) or basis_of(state, intent)
    state.counts["held"] += 1
    decide(state, intent, Verdict.HELD, code, {"until": held_until.isoformat()})


def _hold_of(state: State, intent: Intent) -> timedelta | None:
    """Return how long an order waits for a token; None: not at all. A sale of a flatten does not:
    nothing held is resumed after a halt, and it would keep the next sale back.
    """
    strategy = state.strategies.get(intent.strategy)
    if strategy is None or state.passes_halt(intent.intent_id):
        return None
    return strategy.plan.hold_2fa


def on_two_factor_ready(state: State, event: TwoFactorReady) -> None:
    """Open the gate: cancels first, then exits, then the rest of what was held."""
    for tracked in held(state):
        if is_fresh(state, tracked) and (change := change_since(state, tracked)) is not None:
            give_up(state, tracked, change)
    until = f"{event.until.astimezone(EXCHANGE_TZ):%H:%M}"
    count = state.gate.missed
    missed = f", {count} signal{'s' * (count != 1)} missed" if count else ""
    text = f"until {until}{missed}"
    state.record(AuthEvent(state.now, "ready", "", text))
    state.gate.token_until, state.gate.is_unproven = event.until, True
    state.gate.missed, state.gate.question = 0, None
    two_factor.expect_end(state, event.ends_at)
    gate.lift(state, RunState.NEEDS_2FA, f"2FA ok {text}", event.by)
    cancels.advance(state)
    for tracked in held(state):
        tracked.is_waiting_to_resume = True
        _resume(state, tracked)


def held(state: State) -> list[TrackedIntent]:
    """Return the held intents, exits first."""
    held = state.index.held.of(True)
    return sorted(held, key=lambda t: (not is_exit(t.intent), t.intent.intent_id))


def on_fresh_quote(state: State, symbol: str) -> None:
    """A quote has come that a held order of the symbol was waiting for."""
    for tracked in held(state):
        if tracked.is_waiting_to_resume and tracked.intent.symbol == symbol:
            _resume(state, tracked)


def is_fresh(state: State, tracked: TrackedIntent) -> bool:
    """Whether the symbol's last quote is young enough to judge by."""
    quote = state.quotes.get(tracked.intent.symbol)
    return quote is not None and state.now - quote.at <= state.settings.max_quote_age


def _resume(state: State, tracked: TrackedIntent) -> None:
    """Request the order again, unless its time is over or something is still against it. What buys
    leaves after the cancels that are due.
    """
    first = tracked.intent
    strategy = state.strategies.get(first.strategy)
    if not is_fresh(state, tracked):
        return
    if strategy is None or gate.strategy_objection(strategy, first.side) is not None:
        return
    if state.gate.causes or _is_over(state, tracked):
        return
    if (change := change_since(state, tracked)) is not None:
        give_up(state, tracked, change)
        return
    if not is_exit(first) and cancels.are_leaving(state):
        return
    text = f"{tracked.refusal_code}: requested again as {requests.next_id(state)}"
    move_intent(state, tracked, SendState.REFUSED, text)
    request = OrderRequest(
        strategy=first.strategy,
        account=first.account,
        symbol=first.symbol,
        side=first.side,
        quantity=first.quantity,
        order_type=first.order_type,
        limit_price=first.limit_price,
        why=first.why,
        closes_position=first.closes_position,
        expire_after=first.expire_after,
        follows=first.intent_id,
    )
    requests.submit(state, strategy, request, means_of(state, strategy, first.symbol))


def _is_over(state: State, tracked: TrackedIntent) -> bool:
    return tracked.held_until is not None and tracked.held_until <= state.now


def advance(state: State) -> None:
    """See to what waits for a token: the question to a person, the held orders' time, and those
    that the cancels went before.
    """
    two_factor.advance(state)
    expire_held(state)
    for tracked in held(state):
        if tracked.taken_back and (change := change_since(state, tracked)) is not None:
            give_up(state, tracked, change)
        elif tracked.is_waiting_to_resume:
            _resume(state, tracked)


def expire_held(
    state: State,
    *,
    at_once: str | None = None,
    code: str = HELD_TOO_LONG,
    strategy: str | None = None,
) -> None:
    """Give up the held orders whose time is over, or all (of a strategy) for a reason `at_once`;
    the decision has the `code` of what ended the wait.
    """
    for tracked in held(state):
        intent = tracked.intent
        is_due = at_once is not None or _is_over(state, tracked)
        if strategy not in {None, intent.strategy} or not is_due:
            continue
        owner = state.strategies.get(intent.strategy)
        hold = owner.plan.hold_2fa if owner else None
        seconds = round(hold.total_seconds()) if hold else 0
        length = f"{seconds // 60} min" if seconds and seconds % 60 == 0 else f"{seconds} s"
        give_up(state, tracked, Change(code, at_once or f"no 2FA within {length}", {}))
