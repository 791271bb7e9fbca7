"""Places of unknown outcome: settled by the nonce and the day order book, or by a person, never by
sending again.

    UNKNOWN ─ nonce unused ─► FRESH ─ horizon over, absent in enough reads ─► NOT_PLACED
    UNKNOWN ─ nonce used, or no longer to be tried ─► REACHED ─ row found ─► MATCHED
    all of these ─ a row that proves nothing ─► AMBIGUOUS
    all of these ─ the day is over without its row (`earlier_places.py`) ─► EOD_ABSENT
    REACHED, AMBIGUOUS ─ a person has looked (`asks.py`) ─► NOT_PLACED or MATCHED
    FRESH ─ horizon over, no list can show its absence, a person has looked ─► as these

Rows are matched by what was ordered (order-safety section 6): a row seen before the bytes were sent
cannot be the order's own. A row's time is only evidence: if nothing else differs, a person is
asked. The same goes for a row that appears although the nonce was unused; then no nonce proves
anything any more. The request time of a read is not conclusive: one under way while the order was
sent may have been answered after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.domain.local_time import local_date
from bot.domain.message import BurnNonce, NonceBurnt, ReadTodaysOrders, TodaysOrdersRead
from bot.domain.order import OrderReport, OrderState, SendState
from bot.domain.outcome import Resolution
from bot.domain.recovery import MAY_BE
from bot.engine import gate
from bot.engine.control_state import Standing
from bot.engine.gate import guarded
from bot.engine.index import SeenIds
from bot.engine.orders import orders, unseen
from bot.engine.orders.matching import (
    candidates,
    is_alike,
    is_in_time,
    is_of_before,
    is_unseen,
    known_as_external,
    parts_of,
)
from bot.engine.orders.order_words import (
    intent_facts,
    intent_words,
    overdue_text,
    question_text,
    time_words,
)
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
_ASKED_ABOUT: Final = frozenset({_S.FRESH, _S.AMBIGUOUS})
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
        tracked.may_be_anothers = True
        state.halt_symbol(symbol, why)
    tracked.is_fenced = is_fresh
    if tracked.state is not _S.UNKNOWN:
        return
    if not is_fresh:
        move_intent(state, tracked, _S.REACHED, event.detail)
        _alert(state, tracked)
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
            if tracked.state in MAY_BE_FRESH:
                _alert(state, tracked)
        if is_overdue(state, tracked, OVERDUE_AFTER):
            _alert(state, tracked)


def alerts(state: State) -> Iterator[Standing]:
    """Yield what is unknown, and what a person can do, for as long as it is so."""
    for tracked in state.pending_intents():
        is_old = tracked.state in MAY_BE_FRESH and tracked.alert_due is None
        if is_old or tracked.state in {_S.REACHED, _S.AMBIGUOUS}:
            yield _standing(state, tracked)


def is_overdue(state: State, tracked: TrackedIntent, by: timedelta = timedelta(0)) -> bool:
    """Return whether a place that never arrived, by its nonce, is open although its horizon has
    been over for so long: no day order book can show its absence.
    """
    if tracked.state is not _S.FRESH or tracked.sent_at is None:
        return False
    return state.now - tracked.sent_at > state.settings.horizon + by


def is_for_a_person(state: State, tracked: TrackedIntent) -> bool:
    """Return whether the bot cannot find out what became of a place: a person may say it."""
    return tracked.state in {_S.REACHED, _S.AMBIGUOUS} or is_overdue(state, tracked)


def _standing(state: State, tracked: TrackedIntent) -> Standing:
    rows = candidates(state, tracked)
    facts = intent_facts(tracked, rows)
    if is_overdue(state, tracked, OVERDUE_AFTER):
        return Standing("ABSENCE_UNPROVED", overdue_text(tracked), facts)
    return Standing(_QUESTION_CODES[tracked.state], question_text(tracked, rows), facts)


def _alert(state: State, tracked: TrackedIntent) -> None:
    told, intent = _standing(state, tracked), tracked.intent
    about = f"{intent.intent_id} {told.facts['rows']}"
    state.alert(told.code, told.text, told.facts, about=about, symbol=intent.symbol)


# ----------------------------------------------------------------------------------- rows found


def match(state: State, event: TodaysOrdersRead, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Assign unowned rows to open questions; return those that are certainly external.

    A row that might belong to a place still in flight, or to one whose row could not be read, is
    left out: the next read shows it again. If a person would be asked about it anyway, as the place
    never arrived by its nonce or is AMBIGUOUS, they are asked now. Also left out is one that looks
    like an order whose answer came after this read was requested: only a later read shows its id.
    """
    _learn_earlier(state, event, rows)
    waiting = [t for t in state.pending_intents() if t.state is _S.SENDING]
    for tracked in state.intents.values() if rows else ():
        if is_unseen(state, tracked):
            accepted_at = state.orders[tracked.order_id or ""].row.at
            waiting += [tracked] if event.requested_at < accepted_at else []
    for group in groups_of(state):
        fitting = rows_of(state, group[0], rows)
        is_hidden = any(unseen.may_hide(state, event, tracked) for tracked in group)
        if is_hidden and not (fitting and any(t.state in _ASKED_ABOUT for t in group)):
            waiting += group
            continue
        taken = list[OrderReport]()
        where = f"the rows of {group[0].intent.intent_id}"
        guarded(state, where, assign, state, group, fitting, taken, "the day order book")
        rows = [row for row in rows if row not in taken]
    for tracked in state.pending_intents():
        is_asked = tracked.state in MAY_BE_FRESH and tracked.intent.account == event.account
        if not is_asked or unseen.may_hide(state, event, tracked):
            continue
        if tracked.sent_at is None or event.requested_at <= tracked.sent_at:
            continue
        if is_of_before(state, event):
            continue
        if local_date(event.requested_at) != tracked.intent.trading_date:
            continue  # after midnight the broker's list is another day's, and need not show it
        if any(is_alike(state, tracked, row) for row in rows):
            continue  # its row exists, and could not be processed
        tracked.absent_reads += 1
        waited, reads = event.requested_at - tracked.sent_at, tracked.absent_reads
        is_over = waited > state.settings.horizon and reads >= state.settings.absent_reads
        if tracked.state is _S.FRESH and is_over:
            seconds, where = round(waited.total_seconds()), tracked.intent.intent_id
            proof = f"{NONCE_UNUSED}, absent in {reads} complete reads over {seconds} s"
            guarded(state, f"the question of {where}", not_placed, state, tracked, proof)
    return [row for row in rows if not any(is_alike(state, t, row) for t in waiting)]


def _learn_earlier(state: State, event: TodaysOrdersRead, rows: Sequence[OrderReport]) -> None:
    """A read answered before an order's bytes left shows only what was there before, although the
    send was processed first.
    """
    for tracked in state.intents.values() if rows else ():
        if tracked.sent_at is not None and event.at < tracked.sent_at:
            ids = SeenIds(row.order_id for row in rows)
            tracked.known_ids = ids.until_now(also=tracked.known_ids)


def groups_of(state: State) -> list[list[TrackedIntent]]:
    """Return the open questions, in groups that the broker could not distinguish, each by ascending
    send time.
    """
    groups: dict[str, list[TrackedIntent]] = {}
    questions = [t for t in state.pending_intents() if t.state in OPEN_QUESTIONS]
    for tracked in sorted(questions, key=lambda t: (t.sent_at or state.now, t.intent.intent_id)):
        groups.setdefault(tracked.intent.fingerprint, []).append(tracked)
    return list(groups.values())


def rows_of(state: State, tracked: TrackedIntent, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Return the rows that look like an order, or else like the parts that it was split into."""
    fitting = [row for row in rows if is_alike(state, tracked, row)]
    if fitting:
        return fitting
    whole = tracked.intent.quantity
    like = [row for row in rows if is_alike(state, tracked, replace(row, quantity=whole))]
    return list(parts_of(whole, like))


def is_looked_for(state: State, row: OrderReport) -> bool:
    """Return whether a row shows an order that is in question, and no row was named for it yet."""
    return any(
        tracked.state in _NO_ROW_YET and is_alike(state, tracked, row)
        for tracked in state.pending_intents()
    )


def assign(
    state: State,
    group: list[TrackedIntent],
    rows: Sequence[OrderReport],
    taken: list[OrderReport],
    shown_in: str,
) -> None:
    """Give each question its row, or ask a person: if there are more equal rows than orders of
    ours, if one appears at another time or looked otherwise before, or if it should not exist at
    all. `taken` are the rows already processed; `shown_in` names the list.
    """
    if not rows:
        return
    rows = sorted(rows, key=lambda row: row.order_id)
    in_time = [row for row in rows if is_in_time(state, group[0], row)]
    fresh = [tracked for tracked in group if tracked.state is _S.FRESH]
    is_ambiguous = any(tracked.state is _S.AMBIGUOUS for tracked in group)
    changed = [row for row in rows if known_as_external(state, row) is not None]
    is_clear = not (fresh or is_ambiguous or changed)
    if in_time and is_clear and len(in_time) <= len(group):
        for tracked, row in zip(group, in_time, strict=False):
            taken.append(row)
            take_over(state, tracked, row, f"found in {shown_in} as {row.order_id}")
        return
    taken += rows
    why = _why_ambiguous(group[0], rows, in_time, is_fresh=bool(fresh), changed=changed)
    ours = ", ".join(tracked.intent.intent_id for tracked in group)
    for row in rows:
        orders.external_order(state, row, f"{MAY_BE}{ours}")
    for tracked in group:
        if tracked.state is not _S.AMBIGUOUS:
            move_intent(state, tracked, _S.AMBIGUOUS, why)
        tracked.doubt = why
        _alert(state, tracked)
    for tracked in fresh if in_time else ():
        distrust_nonces(state, tracked, f"{_ids(rows)} is in {shown_in}")


def _why_ambiguous(
    asked: TrackedIntent,
    rows: Sequence[OrderReport],
    in_time: Sequence[OrderReport],
    *,
    is_fresh: bool,
    changed: Sequence[OrderReport],
) -> str:
    ids, quantity = _ids(rows), asked.intent.quantity
    if is_fresh and in_time:
        return f"{ids} is there although the nonce was unused"
    if changed:
        return f"{_ids(changed)} showed another order before"
    if any(row.quantity != quantity for row in rows):
        return f"{ids} together are its {quantity:,} shares"
    if len(rows) > 1:
        return f"{len(rows)} equal rows"
    if in_time:
        return f"{ids} is there too"
    return f"{ids} is equal, but of another time ({time_words(rows[0].placed_at)})"


def _ids(rows: Sequence[OrderReport]) -> str:
    return ", ".join(row.order_id for row in rows)


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
    take_over(state, tracked, row, f"{row.order_id}, {said}")


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
