"""The result of a send: the state machine of an intent's single POST.

    READY ─► SENDING ─► ACKED | REFUSED | NOT_SENT | UNKNOWN, which `unknown.py` settles
                 └ no token ─► HELD ─ token in time ─► REFUSED, and requested again
                                └ time over, or too much has changed ─► EXPIRED_LOCAL

What is sent after the token has come is another intent that `follows` the first. It is checked in
full on a fresh quote, exits first, within the time that its strategy allows (`held.py`).
"""

from dataclasses import replace
from typing import Final

from bot.domain.entry import RunState
from bot.domain.instrument import BOARD_LOT, PHASE_WORDS
from bot.domain.message import (
    BurnNonce,
    PlaceAnswered,
    ReadOrder,
    ReadTodaysOrders,
    SendStarted,
)
from bot.domain.order import Intent, OrderReport, OrderState, SendState, Side, type_word
from bot.domain.outcome import LACKS_2FA, Accepted, NotSent, Refused, Unknown
from bot.domain.rulebook import PPM
from bot.engine import belief, gate, invariants, two_factor
from bot.engine.control_state import PRIORITY
from bot.engine.findings import AUCTIONS
from bot.engine.gate import ENGINE_FAULT
from bot.engine.orders import answers, doubts, held, orders
from bot.engine.orders.matching import report_of
from bot.engine.orders.orders import end_unplaced, move_intent, move_unplaced
from bot.engine.orders.unknown import ALERT_AFTER
from bot.engine.risk import losses
from bot.engine.risk.sizing import shown_to
from bot.engine.state import State
from bot.engine.tracked import BackOff, TrackedIntent

TOO_MANY_REQUESTS: Final = 429
"""The broker checks the quota before the nonce: a proxy's copy of a place may be refused by it
although the first one went through. So the day order book is read at once, in case of a ghost
order, and the nonce is tried when the quota allows it.
"""
_UNANSWERED: Final = frozenset({SendState.READY, SendState.SENDING})


def reason_not_to_send(state: State, intent: Intent) -> str | None:
    """Return why an approved order must not be sent after all; None if it may.

    An order that only lacks a token is held, like one that the broker has refused for lack of one.
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
    if (why := doubts.reason_not_to_buy(state, intent.account, symbol, intent.side)) is not None:
        return why
    if (doubt := belief.objection(state, symbol, intent.side)) is not None:
        return f"{symbol}: {doubt[0]}"
    strategy = state.strategies.get(intent.strategy)
    if strategy is None or is_spared:
        return None
    return gate.strategy_objection(strategy, intent.side)


def reason_not_to_place(state: State, intent: Intent) -> str | None:
    """The same for its one POST, which is also stopped by a cancel requested while it waited, and
    by a phase that has begun meanwhile.
    """
    if (reason := reason_not_to_send(state, intent)) is not None:
        return reason
    wanted = state.gate.cancel_when_seen.get(intent.intent_id)
    if wanted is not None:
        return f"cancelled before it left: {wanted}"
    return _phase_objection(state, intent)


def _phase_objection(state: State, intent: Intent) -> str | None:
    """Return why an order may not go into the present phase: where it would wait at the broker, or
    take part in an auction, no cancel could take it back.
    """
    exchange, rulebook = intent.exchange, state.rulebook
    seen = state.phase_of(exchange)
    phase, lot = seen.phase, rulebook.venues[exchange].lots.lot_of(intent.quantity)
    assert lot is not None, "LOT was checked"
    kind = rulebook.canonical(exchange, intent.order_type)
    if kind not in seen.taken(rulebook, exchange, lot):
        return f"{exchange} takes no {type_word(kind)} now: {PHASE_WORDS[phase]}"
    strategy = state.strategies.get(intent.strategy)
    wanted = strategy.plan.when.phases if strategy is not None else None
    if wanted and phase not in wanted and intent.side is Side.BUY:
        return f"{PHASE_WORDS[phase]}: {intent.strategy} does not buy then (when.sessions)"
    share = state.settings.account_limits.max_auction_share_ppm
    is_late = phase in AUCTIONS and intent.created_at < seen.since
    is_least_sale = intent.side is Side.SELL and intent.quantity <= BOARD_LOT
    if share is not None and is_late and not is_least_sale:
        levels = shown_to(state, intent.symbol, intent.side)
        shown = sum([level.volume for level in levels])
        if intent.quantity * PPM > shown * share:
            much = f"{intent.quantity:,} of {shown:,} shown is too much"
            return f"{PHASE_WORDS[phase]}: {much} (risk.account.max_auction_share)"
    return None


def no_change_now(state: State, intent: Intent) -> str | None:
    """Return why a change of an order may not go into the present phase: it would be refused."""
    exchange = intent.exchange
    phase = state.phase_of(exchange).phase
    if state.rulebook.may_amend(exchange, phase):
        return None
    return f"{exchange} changes no order now: {PHASE_WORDS[phase]}"


def on_send_started(state: State, event: SendStarted) -> None:
    """The bytes are being sent; the move to SENDING was committed with the attempt."""
    tracked = state.intents[event.intent_id]
    tracked.state, tracked.order_state = SendState.SENDING, OrderState.SUBMITTED
    tracked.sent_at = event.at
    tracked.known_ids = state.seen_ids.until_now()


def on_place_answered(state: State, event: PlaceAnswered) -> None:
    """Settle the intent, or conclude that only the day order book can."""
    if event.finished is not None:
        state.record(event.finished)
    invariants.of_answer(state, event)
    answers.note_redirect(state, event.finished)
    answers.note_answer(state, event.outcome, event.finished)
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state not in _UNANSWERED:
        text = (
            f"{event.intent_id}: an answer came that it was not waiting for. It changes"
            f" nothing. Look at the order: bot order {event.intent_id}"
        )
        state.alert("ANSWER_NOT_AWAITED", text, {"intent_id": event.intent_id})
        return
    match event.outcome:
        case Accepted(result):
            answered = report_of(result, tracked.sent_at or state.now)
            move_intent(state, tracked, SendState.ACKED, f"accepted as {result.order_id}")
            two_factor.prove(state, result.order_id, event.intent_id)
            answers.note_accepted(state, tracked)
            _take(state, tracked, answered)
        case Refused(code, reason) if event.outcome.needs_two_factor:
            two_factor.close_for_two_factor(state, event.outcome, event.at, event.intent_id)
            held.hold(state, tracked, code, reason)
        case Refused(code, reason, http_status, result):
            tracked.refusal_code = code
            move_intent(state, tracked, SendState.REFUSED, f"{code} {reason}".strip())
            answers.note_refused(state, tracked, event.outcome)
            if result is not None and result.order_id:
                answered = report_of(result, tracked.sent_at or state.now)
                _take(state, tracked, answered, code)
                return
            end_unplaced(state, tracked, OrderState.REJECTED, code, reason)
            if http_status == TOO_MANY_REQUESTS:
                state.command(ReadTodaysOrders(f"quota refused {event.intent_id}"))
                state.command(BurnNonce(event.intent_id))
        case NotSent(reason) if reason.startswith(LACKS_2FA):
            # The gate has closed for lack of a token while the order waited for its turn.
            if held.hold_span(state, tracked.intent) is None:
                _not_sent(state, tracked, reason)
            else:
                closed = state.gate.causes.get(RunState.NEEDS_2FA)
                held.hold(state, tracked, closed.code if closed else LACKS_2FA, reason)
        case NotSent(reason):
            _not_sent(state, tracked, reason)
        case Unknown(reason):
            _unknown(state, tracked, reason)


def _take(
    state: State, tracked: TrackedIntent, answered: OrderReport, code: str | None = None
) -> None:
    """Give an intent the order of its answer, without the fills: an answer's amount is a product of
    a whole average price, and only a row has the exact one. Until then what has traded is open, and
    the order is read by its id, as the day order book may be away.
    """
    report, has_traded = answered, answered.executed_quantity != 0
    if has_traded:
        report = replace(
            answered,
            executed_quantity=0,
            executed_amount=0,
            remaining_quantity=answered.quantity,
            state=OrderState.ACCEPTED,
        )
    # A day order book read while the answer was under way showed the row as external.
    orders.own_order(state, tracked, orders.claim(state, report), "place", code)
    if has_traded:
        order = state.orders[answered.order_id]
        doubts.is_foreign(state, order, answered)
        order.shown.awaited = answered.executed_quantity
        order.look = BackOff(state.now + doubts.SECOND_LOOK)
        state.command(ReadOrder(answered.order_id, "what its answer shows as traded"))


def doubt(state: State, event: PlaceAnswered) -> None:
    """The answer could not be processed: an order that may have been sent is looked for, one that
    was not is over.
    """
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state not in _UNANSWERED:
        return
    if isinstance(event.outcome, NotSent):
        _not_sent(state, tracked, ENGINE_FAULT)
        return
    tracked.state, tracked.order_state = SendState.SENDING, OrderState.SUBMITTED
    tracked.sent_at = tracked.sent_at or tracked.intent.created_at
    _unknown(state, tracked, ENGINE_FAULT)


def end_held_back(state: State) -> None:
    """End the orders that an invariant has kept from being sent: no answer to them will come."""
    names, state.checked.held_back = state.checked.held_back, []
    for tracked in map(state.intents.__getitem__, names):
        if tracked.state is SendState.READY:
            _not_sent(state, tracked, ENGINE_FAULT)


def _not_sent(state: State, tracked: TrackedIntent, reason: str) -> None:
    is_ready = tracked.state is SendState.READY
    move_intent(state, tracked, SendState.EXPIRED_LOCAL if is_ready else SendState.NOT_SENT, reason)
    held.expire(state, tracked.intent, "NOT_SENT", {"reason": reason})
    end_unplaced(state, tracked, OrderState.EXPIRED, "NOT_SENT", reason)


def _unknown(state: State, tracked: TrackedIntent, reason: str) -> None:
    """The POST may have arrived: fence its nonce, read the day order book; never send it again."""
    move_intent(state, tracked, SendState.UNKNOWN, reason)
    move_unplaced(state, tracked, OrderState.UNKNOWN, source="place", note=reason)
    state.counts["unknown"] += 1
    ask_after(state, tracked, reason)


def ask_after(state: State, tracked: TrackedIntent, doubt: str) -> None:
    """Start finding out what became of an unknown POST."""
    tracked.poll = state.first_poll()
    tracked.doubt, tracked.alert_due = doubt, state.now + ALERT_AFTER
    tracked.burn_due = state.now + state.settings.horizon
    state.command(BurnNonce(tracked.intent.intent_id))
    state.command(ReadTodaysOrders(f"unknown {tracked.intent.intent_id}"))
