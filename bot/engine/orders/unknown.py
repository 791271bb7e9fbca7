"""Places whose outcome nobody knows: settled by the nonce and the day order book, never by sending
again.

    UNKNOWN ─ nonce unused ─► FRESH ─ horizon over, absent in enough reads ─► NOT_PLACED
    UNKNOWN ─ nonce used ──► REACHED ─ row found ─► MATCHED; more rows than intents ─► AMBIGUOUS
                                     └ day over without a row ─► EOD_ABSENT

Rows are matched by what was asked for (order-safety section 6): a row that was seen before the
bytes left cannot be the order's own. When a read was asked for says nothing: one that was under way
while the order went out may have been answered after it.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from bot.domain.message import NonceBurnt, TodaysOrdersRead
from bot.domain.order import ORDER_TYPES, OrderReport, OrderState, OrderType, SendState
from bot.domain.outcome import Resolution
from bot.engine.gate import guarded
from bot.engine.orders import orders, set_aside
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.settings import UnknownPolicy
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

_S = SendState
_OPEN_QUESTIONS: Final = frozenset({_S.UNKNOWN, _S.FRESH, _S.REACHED, _S.AMBIGUOUS})
_MAY_BE_FRESH: Final = frozenset({_S.UNKNOWN, _S.FRESH})


def on_nonce_burnt(state: State, event: NonceBurnt) -> None:
    """The nonce has shown whether the POST had passed the broker's door."""
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state is not _S.UNKNOWN:
        return
    if event.resolution is not Resolution.FRESH:
        move_intent(state, tracked, _S.REACHED, event.detail)
        return
    move_intent(state, tracked, _S.FRESH, event.detail)
    if state.settings.unknown_policy is UnknownPolicy.FENCE:
        _not_placed(state, tracked, f"nonce unused: {event.detail}")


def match(state: State, event: TodaysOrdersRead, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Give rows that nobody owns to open questions; return those that are nobody's for certain.

    A row that might belong to a place still in flight, or to one whose row could not be read, is
    left out: the next read shows it again.
    """
    waiting = [t for t in state.pending_intents() if t.state is _S.SENDING]
    # Questions that the broker could not tell apart are one group, by ascending send time.
    groups: dict[str, list[TrackedIntent]] = {}
    questions = [t for t in state.pending_intents() if t.state in _OPEN_QUESTIONS]
    for tracked in sorted(questions, key=lambda t: (t.sent_at or state.now, t.intent.intent_id)):
        groups.setdefault(tracked.intent.fingerprint, []).append(tracked)
    for group in groups.values():
        if any(set_aside.may_hide(state, event, tracked) for tracked in group):
            waiting += group
            continue
        fitting = [row for row in rows if _is_candidate(state, group[0], row)]
        rows = [row for row in rows if row not in fitting]
        guarded(state, f"the rows of {group[0].intent.intent_id}", _assign, state, group, fitting)
    for tracked in state.pending_intents():
        is_asked = tracked.state in _MAY_BE_FRESH and tracked.intent.account == event.account
        if not is_asked or set_aside.may_hide(state, event, tracked):
            continue
        if tracked.sent_at is None or event.requested_at <= tracked.sent_at:
            continue
        tracked.absent_reads += 1
        waited, reads = event.requested_at - tracked.sent_at, tracked.absent_reads
        is_over = waited > state.settings.horizon and reads >= state.settings.absent_reads
        if tracked.state is _S.FRESH and is_over:
            seconds, where = round(waited.total_seconds()), tracked.intent.intent_id
            proof = f"nonce unused, absent in {reads} complete reads over {seconds} s"
            guarded(state, f"the question of {where}", _not_placed, state, tracked, proof)
    return [row for row in rows if not any(_is_candidate(state, t, row) for t in waiting)]


def _assign(state: State, group: list[TrackedIntent], rows: list[OrderReport]) -> None:
    """Give each question its row. More equal rows than orders of ours are for an operator to
    decide; until then all count in the exposure.
    """
    rows = sorted(rows, key=lambda row: row.order_id)
    is_ambiguous = any(tracked.state is _S.AMBIGUOUS for tracked in group)
    if not rows or not (is_ambiguous or len(rows) > len(group)):
        for tracked, row in zip(group, rows, strict=False):
            reason = f"found in the day order book as {row.order_id}"
            move_intent(state, tracked, _S.MATCHED, reason)
            tracked.poll = None
            orders.own_order(state, tracked, row, "book")
        return
    for tracked in group:
        if tracked.state in _MAY_BE_FRESH:
            move_intent(state, tracked, _S.REACHED, "equal rows are in the day order book")
        if tracked.state is _S.REACHED:
            move_intent(state, tracked, _S.AMBIGUOUS, f"{len(rows)} equal rows")
    ids = ", ".join(row.order_id for row in rows)
    ours = ", ".join(tracked.intent.intent_id for tracked in group)
    text = f"{ours} may be any of {ids}: none of them is touched"
    state.alert_once(f"ambiguous {ours}", text, symbol=rows[0].symbol)
    for row in rows:
        orders.external_order(state, row, f"may be {ours}")


def _not_placed(state: State, tracked: TrackedIntent, proof: str) -> None:
    move_intent(state, tracked, _S.NOT_PLACED, "never placed", proof=proof)
    tracked.poll = None
    move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note="never placed")
    orders.reject(state, tracked, "NOT_PLACED", proof)


def end_day(state: State, today: date) -> None:
    """The day order book of the days before `today` is closed: what it never showed was not placed,
    as far as can be known.
    """
    for tracked in state.pending_intents():
        intent, reads = tracked.intent, tracked.absent_reads
        if intent.trading_date >= today or tracked.state not in _MAY_BE_FRESH | {_S.REACHED}:
            continue
        if tracked.state is _S.FRESH and reads >= state.settings.absent_reads:
            _not_placed(state, tracked, "nonce unused, absent until the day's end")
            continue
        if tracked.state in _MAY_BE_FRESH:
            move_intent(state, tracked, _S.REACHED, "the day ended before it was known")
        move_intent(state, tracked, _S.EOD_ABSENT, "in no day order book until the day's end")
        tracked.poll = None
        move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note="absent at day end")
        text = f"{intent.intent_id} was never seen: compare the holding of {intent.symbol}"
        state.alert_once(f"absent {intent.intent_id}", text, symbol=intent.symbol)


# --------------------------------------------------------------------------------------- matching


def _is_candidate(state: State, tracked: TrackedIntent, row: OrderReport) -> bool:
    """True when the row may be this intent's order."""
    intent, sent_at, rulebook = tracked.intent, tracked.sent_at, state.rulebook
    if sent_at is None or row.order_id in tracked.known_ids:
        return False
    asked = (intent.account, intent.trading_date, intent.symbol, intent.side, intent.quantity)
    if asked != (row.account, row.trading_date, row.symbol, row.side, row.quantity):
        return False
    named = OrderType.__members__.get(row.order_type)
    kind = rulebook.canonical(intent.exchange, named) if named else None
    if ORDER_TYPES[intent.order_type].has_price:
        is_same_price = row.price == intent.limit_price and kind in {None, intent.order_type}
    else:
        wanted = rulebook.canonical(intent.exchange, intent.order_type)
        became_limit = ORDER_TYPES[wanted].rests_as_limit and kind is OrderType.LO
        is_same_price = kind is wanted or became_limit
    if row.placed_at is None or not is_same_price:
        return is_same_price
    # The row's own time, where it has one, lies around the send, in market time.
    earliest, latest = sent_at - state.settings.clock_max_offset, sent_at + state.settings.horizon
    return earliest <= row.placed_at <= latest


def ghost_of(state: State, row: OrderReport) -> TrackedIntent | None:
    """Return an intent that was certainly not placed, and yet this row looks like its order."""
    look = row.account, row.trading_date, row.symbol, row.side, row.quantity
    dead = state.index.not_placed.of(look)
    return next((tracked for tracked in dead if _is_candidate(state, tracked, row)), None)
