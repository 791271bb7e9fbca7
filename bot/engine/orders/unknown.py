"""Places whose outcome nobody knows: settled by the nonce and the day order book, or by a person,
never by sending again.

    UNKNOWN ─ nonce unused ─► FRESH ─ horizon over, absent in enough reads ─► NOT_PLACED
    UNKNOWN ─ nonce used, or no longer to be tried ─► REACHED ─ row found ─► MATCHED
    all of these ─ a row that proves nothing ─► AMBIGUOUS
    all of these ─ the day is over without its row ─► EOD_ABSENT
    REACHED, AMBIGUOUS ─ a person has looked (`verdicts.py`) ─► NOT_PLACED or MATCHED

Rows are matched by what was asked for (order-safety section 6): a row that was seen before the
bytes left cannot be the order's own. A row's time is evidence only: one that differs in nothing
else is asked about. So is a row that shows up although the nonce was unused; then no nonce proves
anything any more. When a read was asked for says nothing: one that was under way while the order
went out may have been answered after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from bot.domain.entry import OrderUpdated
from bot.domain.message import BurnNonce, NonceBurnt, ReadTodaysOrders, TodaysOrdersRead
from bot.domain.order import ORDER_TYPES, OrderReport, OrderState, OrderType, SendState
from bot.domain.outcome import Resolution
from bot.engine import gate
from bot.engine.gate import guarded
from bot.engine.orders import orders, set_aside, successors
from bot.engine.orders.merging import parts_of
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.orders.question_words import facts_of, order_words, question_text, time_words
from bot.engine.settings import UnknownPolicy
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent
from bot.engine.watched import Standing

NONCE_UNUSED: Final = "nonce unused"
"""How a proof by the nonce begins."""
ALERT_AFTER: Final = timedelta(seconds=10)
"""An order that nobody knows about for longer is told of."""
_S = SendState
OPEN_QUESTIONS: Final = frozenset({_S.UNKNOWN, _S.FRESH, _S.REACHED, _S.AMBIGUOUS})
_ASK_THE_NONCE: Final = frozenset({_S.SENDING, _S.UNKNOWN, _S.AMBIGUOUS, _S.REFUSED})
_MAY_BE_FRESH: Final = frozenset({_S.UNKNOWN, _S.FRESH})
_QUESTION_CODES: Final[Mapping[SendState, str]] = {
    _S.UNKNOWN: "UNKNOWN_OPEN",
    _S.FRESH: "NEVER_ARRIVED",
    _S.REACHED: "ORDER_REACHED",
    _S.AMBIGUOUS: "ORDER_AMBIGUOUS",
}


def on_nonce_burnt(state: State, event: NonceBurnt) -> None:
    """The nonce has shown whether the POST had passed the broker's door, or can't be tried now."""
    tracked = state.intents.get(event.intent_id)
    if tracked is None:
        return
    is_fresh = event.resolution is Resolution.FRESH
    tracked.burn = event.detail
    if tracked.state is _S.REFUSED:
        if not is_fresh and event.is_proved:
            _refused_and_reached(state, tracked)
        return
    if is_fresh and tracked.state in {_S.MATCHED, _S.AMBIGUOUS}:
        row = f"its row is there ({tracked.order_id})" if tracked.order_id else "it has rows"
        _distrust_nonces(state, tracked, row)
    tracked.is_fenced = is_fresh
    if tracked.state is not _S.UNKNOWN:
        return
    if not is_fresh:
        move_intent(state, tracked, _S.REACHED, event.detail)
        _alert(state, tracked, "ORDER_REACHED")
        return
    move_intent(state, tracked, _S.FRESH, event.detail)
    is_enough = state.settings.unknown_policy is UnknownPolicy.FENCE
    if is_enough and gate.NONCES not in state.halted_scopes:
        _not_placed(state, tracked, f"{NONCE_UNUSED}: {event.detail}")


def is_asked_after(state: State, intent_id: str) -> bool:
    """Whether it matters what the nonce of a POST shows; of one that is not known yet it may."""
    tracked = state.intents.get(intent_id)
    return tracked is None or tracked.state in _ASK_THE_NONCE


def _refused_and_reached(state: State, tracked: TrackedIntent) -> None:
    text = (
        f"{order_words(tracked.intent)} was refused by the quota, and yet its nonce is used up: a "
        "copy of it may have got through. The day order book is being read; what shows up there "
        f"halts {tracked.intent.symbol}. Look in the broker's app"
    )
    where = tracked.intent.intent_id, tracked.intent.symbol
    state.alert("REFUSED_AND_REACHED", text, facts_of(tracked), about=where[0], symbol=where[1])
    state.command(ReadTodaysOrders(f"quota refused {where[0]}"))


def _distrust_nonces(state: State, tracked: TrackedIntent, row: str) -> None:
    text = (
        f"nonces cannot be trusted: that of {order_words(tracked.intent)} was unused, so it could "
        f"not have arrived, and {row}. Nobody knows why. No order counts as never placed by its "
        'nonce alone until you say: bot resume --reason "…". Ask the broker'
    )
    facts, intent = facts_of(tracked), tracked.intent
    state.alert("NONCE_BROKEN", text, facts, about=intent.intent_id, symbol=intent.symbol)
    gate.halt_scope(state, gate.NONCES, f"the nonce of {intent.intent_id} was unused, and {row}")


def advance(state: State) -> None:
    """Tell of what nobody knows about for too long. Its nonce is asked after again: who tried it
    may have died of it, and one who still does is not disturbed.
    """
    for tracked in state.pending_intents():
        if tracked.burn_due is not None and tracked.burn_due <= state.now:
            is_open = tracked.state is _S.UNKNOWN
            tracked.burn_due = state.now + state.settings.horizon if is_open else None
            if is_open:
                state.command(BurnNonce(tracked.intent.intent_id))
        if tracked.alert_due is not None and tracked.alert_due <= state.now:
            tracked.alert_due = None
            if tracked.state in _MAY_BE_FRESH:
                _alert(state, tracked, _QUESTION_CODES[tracked.state])


def alerts(state: State) -> Iterator[Standing]:
    """Yield what nobody knows about, and what a person can do, as long as it is so."""
    for tracked in state.pending_intents():
        is_old = tracked.state in _MAY_BE_FRESH and tracked.alert_due is None
        if is_old or tracked.state in {_S.REACHED, _S.AMBIGUOUS}:
            rows = candidates(state, tracked)
            text, facts = question_text(tracked, rows), facts_of(tracked, rows)
            yield Standing(_QUESTION_CODES[tracked.state], text, facts)


def _alert(state: State, tracked: TrackedIntent, code: str) -> None:
    rows = candidates(state, tracked)
    about, facts = " ".join([tracked.intent.intent_id, *rows]), facts_of(tracked, rows)
    text = question_text(tracked, rows)
    state.alert(code, text, facts, about=about, symbol=tracked.intent.symbol)


# ----------------------------------------------------------------------------------- rows found


def match(state: State, event: TodaysOrdersRead, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Give rows that nobody owns to open questions; return those that are nobody's for certain.

    A row that might belong to a place still in flight, or to one whose row could not be read, is
    left out: the next read shows it again.
    """
    waiting = [t for t in state.pending_intents() if t.state is _S.SENDING]
    # Questions that the broker could not tell apart are one group, by ascending send time.
    groups: dict[str, list[TrackedIntent]] = {}
    questions = [t for t in state.pending_intents() if t.state in OPEN_QUESTIONS]
    for tracked in sorted(questions, key=lambda t: (t.sent_at or state.now, t.intent.intent_id)):
        groups.setdefault(tracked.intent.fingerprint, []).append(tracked)
    for group in groups.values():
        if any(set_aside.may_hide(state, event, tracked) for tracked in group):
            waiting += group
            continue
        fitting = [row for row in rows if is_alike(state, group[0], row)]
        if not fitting:
            whole = group[0].intent.quantity
            like = [r for r in rows if is_alike(state, group[0], replace(r, quantity=whole))]
            fitting = list(parts_of(whole, like))
        taken = list[OrderReport]()
        where = f"the rows of {group[0].intent.intent_id}"
        guarded(state, where, _assign, state, group, fitting, taken)
        rows = [row for row in rows if row not in taken]
    for tracked in state.pending_intents():
        is_asked = tracked.state in _MAY_BE_FRESH and tracked.intent.account == event.account
        if not is_asked or set_aside.may_hide(state, event, tracked):
            continue
        if tracked.sent_at is None or event.requested_at <= tracked.sent_at:
            continue
        if any(is_alike(state, tracked, row) for row in rows):
            continue  # its row is there, and could not be dealt with
        tracked.absent_reads += 1
        waited, reads = event.requested_at - tracked.sent_at, tracked.absent_reads
        is_over = waited > state.settings.horizon and reads >= state.settings.absent_reads
        if tracked.state is _S.FRESH and is_over:
            seconds, where = round(waited.total_seconds()), tracked.intent.intent_id
            proof = f"{NONCE_UNUSED}, absent in {reads} complete reads over {seconds} s"
            guarded(state, f"the question of {where}", _not_placed, state, tracked, proof)
    return [row for row in rows if not any(is_alike(state, t, row) for t in waiting)]


def _assign(
    state: State,
    group: list[TrackedIntent],
    rows: Sequence[OrderReport],
    taken: list[OrderReport],
) -> None:
    """Give each question its row, or ask a person: when there are more equal rows than orders of
    ours, when one shows up at another time, and when it should not be there at all. `taken` are the
    rows that have been dealt with.
    """
    if not rows:
        return
    rows = sorted(rows, key=lambda row: row.order_id)
    in_time = [row for row in rows if _is_in_time(state, group[0], row)]
    fresh = [tracked for tracked in group if tracked.state is _S.FRESH]
    is_ambiguous = any(tracked.state is _S.AMBIGUOUS for tracked in group)
    if in_time and not fresh and not is_ambiguous and len(in_time) <= len(group):
        for tracked, row in zip(group, in_time, strict=False):
            taken.append(row)
            take_over(state, tracked, row, f"found in the day order book as {row.order_id}")
        return
    taken += rows
    ids = ", ".join(row.order_id for row in rows)
    ours = ", ".join(tracked.intent.intent_id for tracked in group)
    if fresh and in_time:
        why = f"{ids} is there although the nonce was unused"
    elif any(row.quantity != group[0].intent.quantity for row in rows):
        why = f"{ids} together are its {group[0].intent.quantity:,} shares"
    elif len(rows) > 1:
        why = f"{len(rows)} equal rows"
    elif in_time:
        why = f"{ids} is there too"
    else:
        why = f"{ids} is equal, but of another time ({time_words(rows[0].placed_at)})"
    for row in rows:
        orders.external_order(state, row, f"may be {ours}")
    for tracked in group:
        if tracked.state is not _S.AMBIGUOUS:
            move_intent(state, tracked, _S.AMBIGUOUS, why)
        tracked.doubt = why
        _alert(state, tracked, "ORDER_AMBIGUOUS")
    for tracked in fresh if in_time else ():
        _distrust_nonces(state, tracked, f"{ids} is in the day order book")


def take_over(state: State, tracked: TrackedIntent, row: OrderReport, reason: str) -> None:
    """Give a question its order: it goes on under its own id, fills and all."""
    move_intent(state, tracked, _S.MATCHED, reason)
    tracked.poll = None
    orders.own_order(state, tracked, row, "book")


def _not_placed(state: State, tracked: TrackedIntent, proof: str) -> None:
    release(state, tracked, _S.NOT_PLACED, "never placed", proof=proof)


def release(
    state: State, tracked: TrackedIntent, to: SendState, reason: str, *, proof: str
) -> None:
    """End a question without an order; its strategy hears of it."""
    move_intent(state, tracked, to, reason, proof=proof)
    tracked.poll = None
    move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note=reason)
    orders.reject(state, tracked, to, proof)


def end_day(state: State, today: date) -> None:
    """The day order book of the days before `today` is closed: what it never showed was not placed,
    as far as can be known. What may have traded halts its symbol.
    """
    for tracked in state.pending_intents():
        intent, reads = tracked.intent, tracked.absent_reads
        if intent.trading_date >= today or tracked.state not in OPEN_QUESTIONS:
            continue
        if tracked.state is _S.FRESH and reads >= state.settings.absent_reads:
            _not_placed(state, tracked, f"{NONCE_UNUSED}, absent until the day's end")
            continue
        rows, symbol = candidates(state, tracked), intent.symbol
        if tracked.state in _MAY_BE_FRESH:
            move_intent(state, tracked, _S.REACHED, "the day ended before it was known")
        shown = f"none of {', '.join(rows)} is proved to be it" if rows else "no row showed it"
        proof = f"in no day order book until the day's end: {shown}"
        traded = sum(state.orders[order_id].row.executed_quantity for order_id in rows)
        release(state, tracked, _S.EOD_ABSENT, "the day is over", proof=proof)
        text = (
            f"{order_words(intent)} of {intent.trading_date} is given up, as its day is over: "
            f"{shown}. Compare the holding of {symbol} with the broker's statement"
        )
        facts = {**facts_of(tracked, rows), "traded": traded}
        state.alert("ORDER_ABSENT", text, facts, about=intent.intent_id, symbol=symbol)
        if traded:
            state.halt_symbol(symbol, f"{traded:,} shares traded that may be {intent.intent_id}'s")


# --------------------------------------------------------------------------------------- matching


def is_alike(state: State, tracked: TrackedIntent, row: OrderReport | OrderUpdated) -> bool:
    """True when the row shows what was asked for, and was not there before the bytes left."""
    intent, rulebook = tracked.intent, state.rulebook
    if tracked.sent_at is None or row.order_id in tracked.known_ids:
        return False
    asked = (intent.account, intent.trading_date, intent.symbol, intent.side, intent.quantity)
    if asked != (row.account, row.trading_date, row.symbol, row.side, row.quantity):
        return False
    named = OrderType.__members__.get(row.order_type)
    kind = rulebook.canonical(intent.exchange, named) if named else None
    if ORDER_TYPES[intent.order_type].has_price:
        return row.price == intent.limit_price and kind in {None, intent.order_type}
    wanted = rulebook.canonical(intent.exchange, intent.order_type)
    became_limit = ORDER_TYPES[wanted].rests_as_limit and kind is OrderType.LO
    return kind is wanted or became_limit


def _is_in_time(state: State, tracked: TrackedIntent, row: OrderReport) -> bool:
    """The row's own time, where it has one, lies around the send, in market time."""
    sent_at, settings = tracked.sent_at, state.settings
    if sent_at is None or row.placed_at is None:
        return True
    return sent_at - settings.clock_max_offset <= row.placed_at <= sent_at + settings.horizon


def candidates(state: State, tracked: TrackedIntent) -> list[str]:
    """Return the ids of the orders of nobody that may be this one."""
    if tracked.state is not _S.AMBIGUOUS:
        return []
    return [
        order.row.order_id
        for order in state.orders.values()
        if not order.is_own and is_alike(state, tracked, order.row)
    ]


def adopt(state: State, row: OrderReport) -> None:
    """Count an order of somebody else. One that looks like an order of ours that is dead by all
    that was known halts its symbol, whatever that order died of once its bytes may have left; so
    does one that looks like an order that was found by its looks, or whose id no row has shown. One
    that shows what an amendment under way asked for may be ours.
    """
    look = row.account, row.trading_date, row.symbol, row.side, row.quantity
    dead = state.index.not_placed.of(look)
    ghost = next((tracked for tracked in dead if is_alike(state, tracked, row)), None)
    ghost = ghost or _twin_of(state, row)
    if ghost is None:
        ours = successors.predecessor_of(state, row)
        note = successors.note_for(ours) if ours else "not placed here"
        orders.external_order(state, row, note)
        if ours is not None and state.orders[row.order_id].is_open:
            successors.tell(state, ours, state.orders[row.order_id].row)
        return
    intent, looks = ghost.intent, f"looks like {ghost.intent.intent_id}"
    orders.external_order(state, row, looks)
    code = "GHOST_ORDER"
    was, it = f"was {ghost.state}", ". It"
    do = "Look whose it is and cancel it in the broker's app if need be"
    if ghost.state is _S.MATCHED:
        code = "TWIN_ORDER"
        was = f"was found as {ghost.order_id}, without an answer"
        it = f": one of the two was placed elsewhere, and nothing shows which. {row.order_id}"
        do = "Look at both and cancel in the broker's app what nobody wants"
    elif ghost.state is _S.ACKED:
        code = "OTHER_ID"
        was = f"was accepted as {ghost.order_id}, an id that no row has shown"
        it = f": it may be that order under another id. {row.order_id}"
        do = "Look at both and cancel in the broker's app what nobody wants"
    text = (
        f"{row.order_id} is at the broker and looks like {order_words(intent)}, which {was}{it} "
        "counts as an order of somebody else and is not touched, and nothing new is sent in "
        f'{row.symbol}. {do}, then: bot resume --reason "…"'
    )
    facts = {**facts_of(ghost, [row.order_id]), "found_as": ghost.order_id}
    state.alert(code, text, facts, about=row.order_id, symbol=row.symbol)
    state.halt_symbol(row.symbol, f"{row.order_id} {looks}, which {was}")
    if ghost.state is _S.NOT_PLACED and ghost.is_fenced and _is_in_time(state, ghost, row):
        _distrust_nonces(state, ghost, f"{row.order_id} is in the day order book")


def _twin_of(state: State, row: OrderReport) -> TrackedIntent | None:
    """Return the order that this row could be as well: one that was found by its looks, or one that
    was accepted under an id that neither the day order book nor its detail has shown so far.
    """
    for tracked in state.intents.values():
        own = state.orders.get(tracked.order_id or "")
        is_unseen = tracked.state is _S.ACKED and own is not None and not own.shown.rows
        is_doubtful = tracked.order_id != row.order_id and (
            is_unseen or tracked.state is _S.MATCHED
        )
        if is_doubtful and is_alike(state, tracked, row) and _is_in_time(state, tracked, row):
            return tracked
    return None
