"""Rows of the day order book that may be lost places: each goes to its place, or a person is asked.

They are matched by what was ordered (order-safety section 6): a row seen before the bytes were sent
cannot be the order's own. A row's time is only evidence: if nothing else differs, a person is
asked. The same goes for a row that appears although the nonce was unused; then no nonce proves
anything any more. The request time of a read is not conclusive: one under way while the order was
sent may have been answered after it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bot.domain.local_time import local_date
from bot.domain.message import TodaysOrdersRead
from bot.domain.order import OrderReport, SendState
from bot.domain.recovery import MAY_BE
from bot.engine.gate import guarded
from bot.engine.index import SeenIds
from bot.engine.orders import orders, unseen
from bot.engine.orders.matching import (
    another_order,
    is_alike,
    is_in_time,
    is_of_before,
    is_unseen,
    known_as_external,
    listed_row,
    parts_of,
)
from bot.engine.orders.order_words import time_words
from bot.engine.orders.orders import move_intent
from bot.engine.orders.unknown import (
    NONCE_UNUSED,
    OPEN_QUESTIONS,
    distrust_nonces,
    not_placed,
    take_over,
    tell,
)
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

_S = SendState
_ASKED_ABOUT: Final = frozenset({_S.FRESH, _S.AMBIGUOUS})
_NO_ROW_YET: Final = OPEN_QUESTIONS - {_S.AMBIGUOUS}


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
    for group in _roots_first(state, rows):
        fitting = _without_successors(state, rows_of(state, group[0], rows))
        is_hidden = any(unseen.may_hide(state, event, tracked) for tracked in group)
        if is_hidden and not (fitting and any(t.state in _ASKED_ABOUT for t in group)):
            waiting += group
            continue
        taken = list[OrderReport]()
        where = f"the rows of {group[0].intent.intent_id}"
        guarded(state, where, assign, state, group, fitting, taken, "the day order book")
        rows = [row for row in rows if row not in taken]
    for tracked in state.pending_intents():
        is_asked = tracked.state in _NO_ROW_YET and tracked.intent.account == event.account
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


def _roots_first(state: State, rows: Sequence[OrderReport]) -> list[list[TrackedIntent]]:
    """Return the groups, last those with a row that another order was changed into: by then that
    one may be known as ours.
    """

    def has_successor(group: list[TrackedIntent]) -> bool:
        return any(row.is_successor for row in rows_of(state, group[0], rows))

    return sorted(groups_of(state), key=has_successor)


def _without_successors(state: State, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Return the rows without those into which one of them, or an order of ours, was changed: no
    place of their own.
    """
    listed, kept = {row.order_id for row in rows}, list[OrderReport]()
    for row in rows:
        root = state.orders.get(state.chains.first(row.root_order_id))
        is_of_ours = root is not None and root.is_own and another_order(root.row, row) is None
        if not row.is_successor or not (is_of_ours or row.root_order_id in listed):
            kept.append(row)
    return kept


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
    ours, if one appears at another time or looked otherwise before, if it says that another order
    was changed into it, or if it should not exist at all. `taken` are the rows already processed;
    `shown_in` names the list.
    """
    if not rows:
        return
    rows = sorted(rows, key=lambda row: row.order_id)
    in_time = [row for row in rows if is_in_time(state, group[0], row)]
    fresh = [tracked for tracked in group if tracked.state is _S.FRESH]
    is_ambiguous = any(tracked.state is _S.AMBIGUOUS for tracked in group)
    changed = [row for row in rows if known_as_external(state, row) is not None]
    is_successor = any(row.is_successor for row in rows)
    is_clear = not (fresh or is_ambiguous or changed or is_successor)
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
        tell(state, tracked)
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
    if successor := next((row for row in rows if row.is_successor), None):
        return f"{successor.order_id} is what {successor.root_order_id} was changed into"
    if any(row.quantity != quantity for row in rows):
        return f"{ids} together are its {quantity:,} shares"
    if len(rows) > 1:
        return f"{len(rows)} equal rows"
    if in_time:
        return f"{ids} is there too"
    return f"{ids} is equal, but of another time ({time_words(rows[0].placed_at)})"


def _ids(rows: Sequence[OrderReport]) -> str:
    return ", ".join(row.order_id for row in rows)


def whole_row(state: State, tracked: TrackedIntent, order_id: str | None) -> OrderReport | None:
    """Return what a person names by one of an order's ids: the whole order, under its first one;
    None if it isn't listed, or the row of an earlier id is missing.
    """
    listed = listed_row(state, tracked, order_id) if order_id is not None else None
    if listed is None:
        return None
    first = state.chains.first(listed.order_id)
    whole = state.chains.whole(first, listed, state.now)
    return None if whole is None else replace(whole, order_id=first)
