"""Places of unknown outcome: settled by the nonce and the day order book, or by a person, never by
sending again.

    UNKNOWN ─ nonce unused ─► FRESH ─ horizon over, absent in enough reads ─► NOT_PLACED
    UNKNOWN ─ nonce used, or no longer to be tried ─► REACHED ─ row found ─► MATCHED
    all of these ─ a row that proves nothing ─► AMBIGUOUS
    all of these ─ the day is over without its row (`earlier_places.py`) ─► EOD_ABSENT
    REACHED, AMBIGUOUS ─ a person has looked (`asks.py`) ─► NOT_PLACED or MATCHED
    FRESH ─ horizon over, no list can show its absence, a person has looked ─► as these

Which row of the day order book is one: `lost_places.py`.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from bot.domain.entry import OrderResultSeen
from bot.domain.message import BurnNonce, NonceBurnt, ReadTodaysOrders
from bot.domain.order import OrderReport, OrderState, SendState
from bot.domain.outcome import Resolution
from bot.engine import gate
from bot.engine.control_state import Standing
from bot.engine.orders import cancel_requests, orders
from bot.engine.orders.matching import candidates
from bot.engine.orders.order_words import intent_facts, intent_words, overdue_text, question_text
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.settings import UnknownPolicy
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

NONCE_UNUSED: Final = "nonce unused"
"""Prefix of a proof by the nonce."""
ALERT_AFTER: Final = timedelta(seconds=9)
"""An order of unknown outcome is reported after this time: on the screen and in the status within
10 s of what it is about.
"""
OVERDUE_AFTER: Final = timedelta(minutes=1)
"""So long after the horizon a person is told that no list has settled an order that never arrived;
lists that come slowly may do so until then.
"""
_S = SendState
OPEN_QUESTIONS: Final = frozenset({_S.UNKNOWN, _S.FRESH, _S.REACHED, _S.AMBIGUOUS})
_ASK_THE_NONCE: Final = frozenset({_S.SENDING, _S.UNKNOWN, _S.AMBIGUOUS, _S.REFUSED})
MAY_BE_FRESH: Final = frozenset({_S.UNKNOWN, _S.FRESH})
_NO_ROW_YET: Final = OPEN_QUESTIONS - {_S.AMBIGUOUS}
_QUESTION_CODES: Final[Mapping[SendState, str]] = {
    _S.UNKNOWN: "UNKNOWN_OPEN",
    _S.FRESH: "NEVER_ARRIVED",
    _S.REACHED: "ORDER_REACHED",
    _S.AMBIGUOUS: "ORDER_AMBIGUOUS",
}


def on_nonce_burnt(state: State, event: NonceBurnt) -> None:
    """The nonce has shown whether the POST had reached the broker, or cannot be tried now."""
    tracked = state.intents.get(event.intent_id)
    if tracked is None:
        return
    is_fresh = event.resolution is Resolution.FRESH
    tracked.burn = event.detail
    if tracked.state is _S.REFUSED:
        if not is_fresh and event.is_proved:
            intent = tracked.intent
            text = (
                f"{intent_words(intent)} was refused by the quota, and yet its nonce is used up: a "
                "copy of it may have got through. The day order book is being read; what shows up "
                f"there halts {intent.symbol}. Look in the broker's app"
            )
            facts, about = intent_facts(tracked), intent.intent_id
            state.alert("REFUSED_AND_REACHED", text, facts, about=about, symbol=intent.symbol)
            state.command(ReadTodaysOrders(f"quota refused {about}"))
        return
    if is_fresh and tracked.state in {_S.MATCHED, _S.AMBIGUOUS}:
        row = f"its row is there ({tracked.order_id})" if tracked.order_id else "it has rows"
        distrust_nonces(state, tracked, row)
    if is_fresh and tracked.state is _S.MATCHED:
        name, symbol = intent_words(tracked.intent), tracked.intent.symbol
        why = (
            f"{tracked.order_id} was taken for {name}, whose nonce was unused, so ours never"
            f" arrived. If {tracked.order_id} is somebody else's, its fills are no strategy's."
            " Neither its time limit nor its strategy cancels it now; a halt, the day's loss limit"
            " or you do. Look in the broker's app"
        )
        cancel_requests.doubt_owner(state, tracked)
        if symbol in state.halted_symbols:
            state.tell_of_halt(symbol, why)
        state.halt_symbol(symbol, why)
    tracked.is_fenced = is_fresh
    if tracked.state is not _S.UNKNOWN:
        return
    if not is_fresh:
        move_intent(state, tracked, _S.REACHED, event.detail)
        if tracked.alert_due is None:  # told as unknown: by now more is known
            tell(state, tracked)
        return
    move_intent(state, tracked, _S.FRESH, event.detail)
    is_enough = state.settings.unknown_policy is UnknownPolicy.FENCE
    if is_enough and gate.NONCES not in state.halted_scopes:
        not_placed(state, tracked, f"{NONCE_UNUSED}: {event.detail}")


def is_asked_after(state: State, intent_id: str) -> bool:
    """Return whether the nonce result of a POST matters; for an unknown one it may. It also does
    for an order found by its looks: unused, it shows that the row may be somebody else's.
    """
    tracked = state.intents.get(intent_id)
    if tracked is None or tracked.state in _ASK_THE_NONCE:
        return True
    return tracked.state is _S.MATCHED and not tracked.burn


def distrust_nonces(state: State, tracked: TrackedIntent, row: str) -> None:
    """A row exists although its nonce was unused: from now on no nonce alone proves anything."""
    text = (
        f"nonces cannot be trusted: that of {intent_words(tracked.intent)} was unused, so it could "
        f"not have arrived, and {row}. Nobody knows why. Until you resume, no order counts as "
        'never placed by its nonce alone. Ask the broker, then: bot resume --reason "…"'
    )
    facts, intent = intent_facts(tracked), tracked.intent
    state.alert("NONCE_BROKEN", text, facts, about=intent.intent_id, symbol=intent.symbol)
    gate.halt_scope(state, gate.NONCES, f"the nonce of {intent.intent_id} was unused, and {row}")


def advance(state: State) -> None:
    """Report what has been unknown for too long. Its nonce is tried again: the task trying it may
    have died of a fault; one still running is not disturbed.
    """
    for tracked in state.pending_intents():
        if tracked.burn_due is not None and tracked.burn_due <= state.now:
            is_open = tracked.state is _S.UNKNOWN
            tracked.burn_due = state.now + state.settings.horizon if is_open else None
            if is_open:
                state.command(BurnNonce(tracked.intent.intent_id))
        if tracked.alert_due is not None and tracked.alert_due <= state.now:
            tracked.alert_due = None
            if tracked.state in _NO_ROW_YET:
                tell(state, tracked)
        if is_overdue(state, tracked, OVERDUE_AFTER):
            tell(state, tracked)


def alerts(state: State) -> Iterator[Standing]:
    """Yield what is unknown, and what a person can do, for as long as it is so."""
    for tracked in state.pending_intents():
        is_old = tracked.state in _NO_ROW_YET and tracked.alert_due is None
        if is_old or tracked.state is _S.AMBIGUOUS:
            yield _standing(state, tracked)


def is_overdue(state: State, tracked: TrackedIntent, by: timedelta = timedelta(0)) -> bool:
    """Return whether a place that never arrived, by its nonce, is open although its horizon has
    been over for so long: no day order book can show its absence.
    """
    if tracked.state is not _S.FRESH or tracked.sent_at is None:
        return False
    return state.now - tracked.sent_at > state.settings.horizon + by


def is_for_a_person(state: State, tracked: TrackedIntent) -> bool:
    """Return whether the bot cannot find out what became of a place: a person may say it. Of one
    that may be at the broker the day order book may still tell, until one lacks it or none could
    be read for the horizon.
    """
    if tracked.state is not _S.REACHED or tracked.absent_reads or tracked.sent_at is None:
        return tracked.state in {_S.REACHED, _S.AMBIGUOUS} or is_overdue(state, tracked)
    return state.now - tracked.sent_at > state.settings.horizon


def _standing(state: State, tracked: TrackedIntent) -> Standing:
    rows = candidates(state, tracked)
    facts = intent_facts(tracked, rows)
    if is_overdue(state, tracked, OVERDUE_AFTER):
        return Standing("ABSENCE_UNPROVED", overdue_text(tracked), facts)
    over = None
    if tracked.state is _S.REACHED and tracked.sent_at is not None:
        is_taken = is_for_a_person(state, tracked)
        over = None if is_taken else tracked.sent_at + state.settings.horizon
        until = None if over is None else over.isoformat()
        facts = {**facts, "is_taken": is_taken, "until": until}
    return Standing(_QUESTION_CODES[tracked.state], question_text(tracked, rows, over), facts)


def tell(state: State, tracked: TrackedIntent) -> None:
    """Raise the alert about a place of unknown outcome."""
    told, intent = _standing(state, tracked), tracked.intent
    about = f"{intent.intent_id} {told.facts['rows']}"
    state.alert(told.code, told.text, told.facts, about=about, symbol=intent.symbol)


# ------------------------------------------------------------------------------------ how it ends


def take_over(state: State, tracked: TrackedIntent, row: OrderReport, reason: str) -> None:
    """Give a question its order: it continues under its own id, with its fills."""
    move_intent(state, tracked, _S.MATCHED, reason)
    tracked.poll = None
    orders.own_order(state, tracked, row, "book")


def end_as_said(state: State, tracked: TrackedIntent, row: OrderReport | None, said: str) -> None:
    """End a question as a person says: this row is the order, or there is none. That its nonce was
    unused stays part of the proof: a row that shows up later tells, after a restart as well, that
    nonces cannot be trusted. One that is there already tells it now.
    """
    if row is None:
        not_placed(state, tracked, f"{NONCE_UNUSED}; {said}" if tracked.is_fenced else said)
        return
    if tracked.state is _S.FRESH:
        where = f"{row.order_id} is in the day order book"
        move_intent(state, tracked, _S.AMBIGUOUS, f"{where} although the nonce was unused")
        distrust_nonces(state, tracked, where)
    row = orders.claim(state, row)  # nobody owned it so far
    journal_later(state, row.order_id, tracked.name)
    take_over(state, tracked, row, f"{row.order_id}, {said}")


def journal_later(state: State, order_id: str, intent_id: str | None) -> None:
    """Journal the ids that follow one of an order's, oldest first. A row that shows nothing new is
    not journalled with its order, but a restart needs its id.
    """
    ids = state.chains.ids(state.chains.first(order_id))
    rows = state.chains.rows(ids[0], {})
    for each in ids[ids.index(order_id) + 1 :]:
        raw = rows[each].raw if each in rows else ""
        state.record(OrderResultSeen(state.now, "book", each, intent_id, None, raw))


def not_placed(state: State, tracked: TrackedIntent, proof: str) -> None:
    """End a question: this proves that its order was never placed."""
    release(state, tracked, _S.NOT_PLACED, "never placed", proof=proof)


def release(
    state: State, tracked: TrackedIntent, to: SendState, reason: str, *, proof: str
) -> None:
    """End a question without an order; its strategy is notified."""
    move_intent(state, tracked, to, reason, proof=proof)
    tracked.poll = None
    move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note=reason)
    orders.reject(state, tracked, to, proof)
