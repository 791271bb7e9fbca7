"""Places whose outcome nobody knows: settled by the nonce and the day order book, never by sending
again.

    UNKNOWN ─ nonce unused ─► FRESH ─ horizon over, absent in enough reads ─► NOT_PLACED
    UNKNOWN ─ nonce used ──► REACHED ─ row found ─► MATCHED; more rows than intents ─► AMBIGUOUS
                                     └ day over without a row ─► EOD_ABSENT

Rows are matched by what was asked for (order-safety section 6): a row that was seen before the
bytes left cannot be the order's own. When a read was asked for says nothing: one that was under way
while the order went out may have been answered after it.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

from bot.domain.message import NonceBurnt, TodaysOrdersRead
from bot.domain.order import ORDER_TYPES, OrderReport, OrderState, OrderType, SendState
from bot.domain.outcome import Resolution
from bot.engine.gate import guarded
from bot.engine.orders import orders, set_aside
from bot.engine.orders.moves import move_intent, move_unplaced
from bot.engine.settings import UnknownPolicy
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

_OPEN_QUESTIONS: Final = frozenset(
    {SendState.UNKNOWN, SendState.FRESH, SendState.REACHED, SendState.AMBIGUOUS}
)
_MAY_BE_FRESH: Final = frozenset({SendState.UNKNOWN, SendState.FRESH})


def on_nonce_burnt(state: State, event: NonceBurnt) -> None:
    """The nonce has said whether the POST had passed the broker's door."""
    tracked = state.intents.get(event.intent_id)
    if tracked is None or tracked.state is not SendState.UNKNOWN:
        return
    if event.resolution is Resolution.FRESH:
        move_intent(state, tracked, SendState.FRESH, event.detail)
        if state.settings.unknown_policy is UnknownPolicy.FENCE:
            _not_placed(state, tracked, f"nonce unused: {event.detail}")
    else:
        move_intent(state, tracked, SendState.REACHED, event.detail)


def match(state: State, event: TodaysOrdersRead, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Give rows that nobody owns to open questions; return those that are nobody's for certain.

    A row that might belong to a place still in flight, or to one whose row could not be read, is
    left out: the next read shows it again.
    """
    waiting = [t for t in state.intents.values() if t.state is SendState.SENDING]
    for group in _groups(state):
        if any(set_aside.may_hide(state, event, tracked) for tracked in group):
            waiting += group
            continue
        fitting = [row for row in rows if is_candidate(state, group[0], row)]
        rows = [row for row in rows if row not in fitting]
        guarded(state, f"the rows of {group[0].intent.intent_id}", _assign, state, group, fitting)
    _count_absences(state, event)
    return [row for row in rows if not any(is_candidate(state, t, row) for t in waiting)]


def _groups(state: State) -> list[list[TrackedIntent]]:
    """Open questions that the broker could not tell apart, each group by ascending send time."""
    groups: dict[str, list[TrackedIntent]] = {}
    questions = [t for t in state.intents.values() if t.state in _OPEN_QUESTIONS]
    for tracked in sorted(questions, key=lambda t: (t.sent_at or state.now, t.intent.intent_id)):
        groups.setdefault(tracked.intent.fingerprint, []).append(tracked)
    return list(groups.values())


def _assign(state: State, group: list[TrackedIntent], rows: list[OrderReport]) -> None:
    rows = sorted(rows, key=lambda row: row.order_id)
    is_for_a_person = any(tracked.state is SendState.AMBIGUOUS for tracked in group)
    if rows and (is_for_a_person or len(rows) > len(group)):
        _ambiguous(state, group, rows)
        return
    for tracked, row in zip(group, rows, strict=False):
        move_intent(
            state, tracked, SendState.MATCHED, f"found in the day order book as {row.order_id}"
        )
        tracked.poll = None
        orders.own_order(state, tracked, row, "book")


def _ambiguous(state: State, group: list[TrackedIntent], rows: list[OrderReport]) -> None:
    """More equal rows than orders of ours: all count in the exposure, a person must decide."""
    for tracked in group:
        if tracked.state in _MAY_BE_FRESH:
            move_intent(state, tracked, SendState.REACHED, "equal rows are in the day order book")
        if tracked.state is SendState.REACHED:
            move_intent(state, tracked, SendState.AMBIGUOUS, f"{len(rows)} equal rows")
    ids = ", ".join(row.order_id for row in rows)
    ours = ", ".join(tracked.intent.intent_id for tracked in group)
    text = f"{ours} may be any of {ids}: none of them is touched"
    state.alert_once(f"ambiguous {ours}", text, symbol=rows[0].symbol)
    for row in rows:
        orders.external_order(state, row, f"may be {ours}")


def _count_absences(state: State, event: TodaysOrdersRead) -> None:
    for tracked in state.intents.values():
        is_asked = tracked.state in _MAY_BE_FRESH and tracked.intent.account == event.account
        if (
            is_asked
            and not set_aside.may_hide(state, event, tracked)
            and tracked.sent_at is not None
            and event.requested_at > tracked.sent_at
        ):
            tracked.absent_reads += 1
            where = f"the question of {tracked.intent.intent_id}"
            guarded(state, where, _release_if_proven, state, tracked, event)


def _release_if_proven(state: State, tracked: TrackedIntent, event: TodaysOrdersRead) -> None:
    assert tracked.sent_at is not None, "the caller has looked"
    waited = event.requested_at - tracked.sent_at
    is_over = waited > state.settings.horizon and _is_absent_often(state, tracked)
    if tracked.state is SendState.FRESH and is_over:
        seconds = round(waited.total_seconds())
        _not_placed(
            state,
            tracked,
            f"nonce unused, absent in {tracked.absent_reads} whole reads over {seconds} s",
        )


def _is_absent_often(state: State, tracked: TrackedIntent) -> bool:
    return tracked.absent_reads >= state.settings.absent_reads


def _not_placed(state: State, tracked: TrackedIntent, proof: str) -> None:
    move_intent(state, tracked, SendState.NOT_PLACED, "never placed", proof=proof)
    tracked.poll = None
    move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note="never placed")
    orders.reject(state, tracked, "NOT_PLACED", proof)


def end_day(state: State, today: date) -> None:
    """The day order book of the days before `today` is closed: what it never showed was not placed,
    as far as can be known.
    """
    for tracked in list(state.intents.values()):
        if tracked.intent.trading_date >= today:
            continue
        if tracked.state is SendState.FRESH and _is_absent_often(state, tracked):
            _not_placed(state, tracked, "nonce unused, absent until the day's end")
        elif tracked.state in {SendState.UNKNOWN, SendState.FRESH, SendState.REACHED}:
            _absent(state, tracked)


def _absent(state: State, tracked: TrackedIntent) -> None:
    if tracked.state in _MAY_BE_FRESH:
        move_intent(state, tracked, SendState.REACHED, "the day ended before it was known")
    move_intent(state, tracked, SendState.EOD_ABSENT, "in no day order book until the day's end")
    tracked.poll = None
    move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note="absent at day end")
    intent = tracked.intent
    text = f"{intent.intent_id} was never seen: compare the holding of {intent.symbol}"
    state.alert_once(f"absent {intent.intent_id}", text, symbol=intent.symbol)


# --------------------------------------------------------------------------------------- matching


def is_candidate(state: State, tracked: TrackedIntent, row: OrderReport) -> bool:
    """True when the row may be this intent's order."""
    intent = tracked.intent
    if tracked.sent_at is None or row.order_id in tracked.known_ids:
        return False
    is_same = (row.account, row.trading_date, row.symbol, row.side, row.quantity) == (
        intent.account,
        intent.trading_date,
        intent.symbol,
        intent.side,
        intent.quantity,
    )
    return is_same and _is_same_price(state, tracked, row) and _is_in_time(state, tracked, row)


def _is_same_price(state: State, tracked: TrackedIntent, row: OrderReport) -> bool:
    intent = tracked.intent
    kind = _canonical(state, tracked, row.order_type)
    if ORDER_TYPES[intent.order_type].has_price:
        return row.price == intent.limit_price and kind in {None, OrderType.LO}
    wanted = state.rulebook.canonical(intent.exchange, intent.order_type)
    became_limit = ORDER_TYPES[wanted].rests_as_limit and kind is OrderType.LO
    return kind is wanted or became_limit


def _canonical(state: State, tracked: TrackedIntent, text: str) -> OrderType | None:
    known = OrderType.__members__.get(text)
    return state.rulebook.canonical(tracked.intent.exchange, known) if known else None


def _is_in_time(state: State, tracked: TrackedIntent, row: OrderReport) -> bool:
    """The row's own time, when it has one, lies around the send, in market time."""
    if row.placed_at is None or tracked.sent_at is None:
        return True
    settings = state.settings
    earliest = tracked.sent_at - settings.clock_skew
    return earliest <= row.placed_at <= tracked.sent_at + settings.horizon


def ghost_of(state: State, row: OrderReport) -> TrackedIntent | None:
    """Return an intent that was certainly not placed, and yet this row looks like its order."""
    ended: Iterable[TrackedIntent] = (
        tracked
        for tracked in state.intents.values()
        if tracked.state in {SendState.REFUSED, SendState.NOT_PLACED, SendState.NOT_SENT}
    )
    return next(
        (
            tracked
            for tracked in ended
            if not tracked.order_id and is_candidate(state, tracked, row)
        ),
        None,
    )
