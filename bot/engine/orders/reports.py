"""Rows of the broker's day order book: each goes to its order, or is an external order.

Absence from a list says nothing about an order's state: it may be hidden for a while. One that no
complete list has shown for long raises an alert, is read by its id, and counts as open in full
until a row says otherwise. An id that the broker does not know yet is read again soon, a few times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot.domain.entry import OrderResultSeen, OrderUpdated
from bot.domain.local_time import local_date
from bot.domain.message import (
    OrderRead,
    ReadOrder,
    ReadTodaysOrders,
    TodaysOrdersRead,
)
from bot.domain.order import TERMINAL_STATES, OrderReport, OrderState, SendState
from bot.domain.order_status import shown_state
from bot.engine.control_state import Standing
from bot.engine.gate import guarded
from bot.engine.orders import (
    amends,
    asks,
    cancels,
    doubts,
    earlier_places,
    lost_places,
    matching,
    orders,
    revived,
    unknown,
    unseen,
)
from bot.engine.orders.matching import is_alike, is_in_time
from bot.engine.orders.order_words import intent_facts, intent_words, row_facts, row_words
from bot.engine.state import State
from bot.engine.tracked import BackOff, TrackedIntent, TrackedOrder


def on_todays_orders(state: State, event: TodaysOrdersRead) -> None:
    """Merge the day order book. Anything missing or unreadable says nothing about a known order. A
    row of an earlier day that is no longer known is not an order of today; it may be one that was
    lost.
    """
    unseen.keep(state, event)
    unseen.tell(state, event.account)
    reports = doubts.own_rows(state, event.reports)
    _learn_ids(state, reports)
    guarded(state, "ids that a change may give", unseen.note_kept_ids, state, event)
    unowned: dict[str, OrderReport] = {}
    for report in reports:
        if report.trading_date >= state.trading_date:  # else a new order may get its id
            state.seen_ids.add(report.order_id)
        order = state.orders.get(state.chains.first(report.order_id))
        # The broker may reuse an id of an earlier day, whose order has ended.
        is_old = order and not order.is_open and order.row.trading_date < report.trading_date
        if order is None or is_old:
            # A list assembled from pages may show a row twice, one of them older.
            twin = unowned.setdefault(report.order_id, report)
            if report.remaining_quantity < twin.remaining_quantity:
                unowned[report.order_id] = report
        elif not state.chains.is_former(report.order_id):
            if not order.is_own:
                order = _looked_at_anew(state, order, report, unowned)
            guarded(state, f"row {report.order_id}", _merge, state, order, report, "book")
            doubts.ask_again(state, order)
    for row in event.set_aside:
        if row.order_id:
            state.seen_ids.add(row.order_id)
    guarded(state, "what the day order book lists", _learn_listed, state, event)
    state.satisfy_polls(event.requested_at)
    strange = lost_places.match(state, event, [*unowned.values()])
    _learn_ids(state, reports)  # of an order that was found only now
    for report in strange:
        if report.order_id != state.chains.first(report.order_id):
            continue  # merged with the next list
        is_late = report.trading_date < state.trading_date
        take = earlier_places.tell_of_late if is_late else _adopt
        guarded(state, f"row {report.order_id}", take, state, report)


def _learn_ids(state: State, reports: Sequence[OrderReport]) -> None:
    """Learn under which new ids orders go on; what counted as somebody else's is ours then. Each is
    journalled, as a restart needs them oldest first: of those in between it sees the rows again.
    """
    found = state.chains.learn(state.orders, reports, state.now)
    learnt = {new.order_id for new in found}
    for new in found:
        renamed = state.orders[state.chains.first(new.order_id)]
        ids = state.chains.ids(renamed.row.order_id)
        if new.order_id in state.orders:
            asks.claim_as(state, renamed, new)
        elif renamed.is_own and learnt.issuperset(ids[ids.index(new.order_id) :]):
            intent_id = renamed.row.intent_id
            seen = OrderResultSeen(state.now, "book", new.order_id, intent_id, None, new.raw)
            state.record(seen)
        if not renamed.is_open and new.remaining_quantity > 0:
            revived.tell_of_another_id(state, renamed, new)


def _looked_at_anew(
    state: State, order: TrackedOrder, report: OrderReport, unowned: dict[str, OrderReport]
) -> TrackedOrder:
    """Add an external order's row to `unowned` if whose it is has to be asked anew, and return the
    order as it counts now.
    """
    if _is_asked_anew(state, order.row, report):
        unowned[report.order_id] = report
    if _is_another_for_sure(state, order, report):
        where = f"row {report.order_id}"
        guarded(state, where, orders.external_order, state, report, order.row.note)
    return state.orders[order.row.order_id]


def _is_another_for_sure(state: State, order: TrackedOrder, report: OrderReport) -> bool:
    """Return whether two rows in turn show that an external order is about another symbol or side,
    or on our account after all (none moves one off it): then the row that counted it had lied.
    """
    is_same = (report.symbol, report.side) == (order.row.symbol, order.row.side)
    is_same &= not (report.account in state.accounts and order.row.account not in state.accounts)
    wrong = "" if is_same else matching.another_order(order.row, report) or ""
    is_second = bool(wrong) and order.shown.another == wrong
    order.shown.another = wrong
    return is_second


def _is_asked_anew(state: State, row: OrderUpdated, report: OrderReport) -> bool:
    """Return whether whose an external order is, is asked anew: its row shows another order than it
    did before (it lied then, it lies now, or somebody has changed that order), or it shows one of
    ours, and could not be asked about when it came to do so: that one was still being sent, another
    row was unreadable, or its detail said so first.
    """
    if report.order_id != row.order_id:
        return False  # its owner has changed it: so says the row
    quantity = max(report.quantity, row.executed_quantity)
    shown = report.account, report.symbol, report.side, quantity
    is_same = shown == (row.account, row.symbol, row.side, row.quantity)
    is_same = is_same and report.order_type in {"", row.order_type}
    if not is_same or report.price not in {None, row.price}:
        return True
    return row.note == matching.NOT_OURS and (
        lost_places.is_looked_for(state, report) or bool(_dead_like(state, report))
    )


def _merge(
    state: State, order: TrackedOrder, report: OrderReport | None, source: str
) -> OrderReport | None:
    """Merge what a row says about its whole order, and return that; None if nothing was taken. A
    former id of it whose last row is missing is read.
    """
    order_id, chains = order.row.order_id, state.chains
    also_open = chains.also_open(order_id)
    if also_open != order.also_open:
        order.also_open = also_open
    for former in chains.unread(order_id, state.now):
        state.read_former(former)
    whole = chains.whole(order_id, report, state.now)
    is_taken = whole is not None and orders.apply(state, order, whole, source)
    return whole if is_taken else None


def on_order(state: State, event: OrderRead) -> None:
    """Merge one detail row; a cancel or an amendment that waited for it continues.

    A cancel also continues if there is no row: waiting would not help.
    """
    order, report = state.orders.get(event.order_id), event.report
    if order is None and report is not None and report.is_successor:  # as the change's answer says
        _learn_ids(state, doubts.own_rows(state, [report]))
        event = replace(event, order_id=state.chains.first(report.order_id))
        order = state.orders.get(event.order_id)
    if report is not None and doubts.own_rows(state, [report]):
        state.chains.keep(report)
    whole = _merge(state, order, report, "detail") if order is not None else None
    is_gone = report is None and not event.is_unreadable
    if order is not None and is_gone and order.is_own and order.is_open:
        # Not known there (yet): read again soon, a few times. A cancel has its own tries.
        tries = order.shown.absent_looks
        if event.order_id not in state.cancels and tries < len(ABSENT_LOOKS):
            order.shown.absent_looks = tries + 1
            order.look = BackOff(state.now + ABSENT_LOOKS[tries], step=len(ABSENT_LOOKS))
    if order is not None and order.change is not None:
        has_ended = report is not None and shown_state(report) is OrderState.CANCELLED
        if is_gone or (has_ended and order.may_be_renamed):
            state.command(ReadTodaysOrders(f"{event.order_id} is gone or cancelled: another id"))
    cancels.on_row(state, event)
    if report is not None and whole is not None:
        amends.on_row(state, event.order_id, whole)


# ----------------------------------------------------------------------- orders that are not listed

NOT_LISTED_AFTER: Final = timedelta(seconds=45)
"""Long enough for most hidden rows; the next list, at most 15 s later, reports the order."""
ASKED_AFTER: Final = timedelta(seconds=5)
"""From then on, each list without the order has it read by its id."""
ABSENT_LOOKS: Final = tuple(timedelta(seconds=each) for each in (0.2, 0.5, 1, 2, 5))
"""How soon an id is read again that the broker did not know."""


def _learn_listed(state: State, event: TodaysOrdersRead) -> None:
    """Record which of the open orders this list shows, and for how long it has not shown the
    others. Of one that is not ours nothing is told, and it is not asked for.
    """
    for order, is_listed in _looked_for(state, event):
        row, shown = order.row, order.shown
        if is_listed:
            shown.listed_at = max(event.requested_at, shown.listed_at or event.requested_at)
            was_missing, shown.is_missing = shown.is_missing, False
            if was_missing and order.is_own:
                text = f"{row_words(row)}: the day order book lists it again"
                state.note("RESUME", text, symbol=row.symbol)
            continue
        shown.listed_at = shown.listed_at or event.requested_at
        missed = event.requested_at - shown.listed_at
        shown.is_missing = shown.is_missing or missed >= NOT_LISTED_AFTER
        if not order.is_own:
            continue
        if missed >= ASKED_AFTER:
            state.command(ReadOrder(row.order_id, "the day order book does not list it"))
        if missed >= NOT_LISTED_AFTER:
            facts = {**row_facts(row), "seconds": round(missed.total_seconds())}
            about, symbol = row.order_id, row.symbol
            state.alert(
                "ACCEPTED_NOT_LISTED", _not_listed_text(order), facts, about=about, symbol=symbol
            )


def _looked_for(state: State, event: TodaysOrdersRead) -> Iterator[tuple[TrackedOrder, bool]]:
    """Yield the open orders that belong into this list, and whether it shows them; without those
    that may be in a row that names no order. After midnight the broker's list is another day's.
    """
    if local_date(event.requested_at) != state.trading_date:
        return
    named = [report.order_id for report in event.reports]
    named += [row.order_id for row in event.set_aside if row.order_id]
    listed = {state.chains.first(each) for each in named if not state.chains.is_former(each)}
    nameless = [row.symbol for row in event.set_aside if not row.order_id]
    for order in state.open_orders():
        row = order.row
        if row.account != event.account or row.trading_date != state.trading_date:
            continue
        if row.order_id in listed:
            yield order, True
        elif not any(symbol in {None, row.symbol} for symbol in nameless):
            yield order, False


def not_listed(state: State) -> Iterator[TrackedOrder]:
    """Yield the open orders, ours and others', that no complete list has shown for long: where the
    first list of a run is all there is, since the journal last heard of them.
    """
    for order in state.open_orders():
        if order.shown.is_missing:
            yield order
    for read in () if state.is_reconciled else state.set_aside.values():
        for order, is_listed in _looked_for(state, read):
            is_old = read.requested_at - order.row.at >= NOT_LISTED_AFTER
            if not is_listed and is_old and not order.shown.is_missing:
                yield order


def alerts(state: State) -> Iterator[Standing]:
    """Yield the accepted orders that are not listed."""
    for order in state.open_orders():
        if order.shown.is_missing and order.is_own:
            listed_at = order.shown.listed_at or state.now
            facts = {
                **row_facts(order.row),
                "seconds": round((state.now - listed_at).total_seconds()),
            }
            yield Standing("ACCEPTED_NOT_LISTED", _not_listed_text(order), facts)


def _not_listed_text(order: TrackedOrder) -> str:
    return (
        f"{row_words(order.row)}: the broker accepted it, and no complete day order book lists it."
        " It counts as open in full and is asked for by its id. Look in the broker's app whether it"
        " is there; if it never shows, compare the holding when the day is over."
    )


# -------------------------------------------------------------------------- orders of somebody else


def _adopt(state: State, row: OrderReport) -> None:
    """Count an external order. One that looks like an order of ours that was known to be dead halts
    its symbol, whatever that order died of, if its bytes may have been sent; so does one that looks
    like an order found by its looks, or whose id no row has shown. One that shows what a pending
    amendment asked for may be ours.
    """
    ghost = _ghost_in(state, row)
    known = matching.known_as_external(state, row)
    ours = matching.predecessor_of(state, row) if ghost is None else None
    if ghost is None and known is not None and (ours is None or not _is_newer(known, ours)):
        return
    if ghost is None:
        note = matching.note_for(ours) if ours else matching.NOT_OURS
        orders.external_order(state, row, note)
        if ours is not None and state.orders[row.order_id].is_open:
            matching.tell_of_successor(state, ours, state.orders[row.order_id].row)
        return
    intent, looks = ghost.intent, f"looks like {ghost.intent.intent_id}"
    orders.external_order(state, row, looks)
    code = "GHOST_ORDER"
    was, it = f"was {ghost.state}", ". It"
    do = "Look whose it is and cancel it in the broker's app if need be"
    if ghost.state is SendState.MATCHED:
        code = "TWIN_ORDER"
        was = f"was found as {ghost.order_id}, without an answer"
        it = f": one of the two was placed elsewhere, and nothing shows which. {row.order_id}"
        do = "Look at both and cancel in the broker's app what nobody wants"
    elif ghost.state is SendState.ACKED:
        code = "OTHER_ID"
        was = f"was accepted as {ghost.order_id}, an id that no row has shown"
        it = f": it may be that order under another id. {row.order_id}"
        do = (
            "Look in the broker's app. If it is ours, say so: bot order "
            f'{intent.intent_id} --is {row.order_id} --reason "…"; if not, cancel there what '
            "nobody wants"
        )
    text = (
        f"{row.order_id} is at the broker and looks like {intent_words(intent)}, which {was}{it} "
        "counts as an order of somebody else and is not touched, and nothing new is sent in "
        f'{row.symbol}. {do}, then: bot resume --reason "…"'
    )
    facts = {**intent_facts(ghost, [row.order_id]), "found_as": ghost.order_id}
    state.alert(code, text, facts, about=row.order_id, symbol=row.symbol)
    state.halt_symbol(row.symbol, f"{row.order_id} {looks}, which {was}")
    if ghost.state is SendState.NOT_PLACED and ghost.is_fenced and is_in_time(state, ghost, row):
        unknown.distrust_nonces(state, ghost, f"{row.order_id} is in the day order book")


def _is_newer(known: TrackedOrder, ours: TrackedOrder) -> bool:
    """Return whether an external order that looks like none of ours came after the amendment of an
    order of ours was asked for: an earlier one can't be that order under a new id.
    """
    change = ours.change
    is_strange = known.row.note == matching.NOT_OURS
    return is_strange and change is not None and known.number > change.number


def _ghost_in(state: State, row: OrderReport) -> TrackedIntent | None:
    """Return which order of ours a row may be that nobody owns: a dead one, or else the twin of a
    living one, which is also likelier than one of which no byte has left, or one of another time.
    """
    dead = max(_dead_like(state, row), key=partial(_likeness, state, row), default=None)
    if dead is None or dead.state is SendState.NOT_SENT or not is_in_time(state, dead, row):
        return _twin_of(state, row) or dead
    return dead


def _dead_like(state: State, row: OrderReport) -> list[TrackedIntent]:
    """Return our orders known to be dead that a row looks like. One that was refused with a row of
    its own has been seen: a row of another time, or one that ended without a fill, is no copy.
    """
    look = row.account, row.trading_date, row.symbol, row.side, row.quantity
    found = [each for each in state.index.not_placed.of(look) if is_alike(state, each, row)]
    is_over = shown_state(row) in TERMINAL_STATES and not row.executed_quantity
    return [
        each
        for each in found
        if each.order_id is None or not (is_over or not is_in_time(state, each, row))
    ]


def _likeness(
    state: State, row: OrderReport, tracked: TrackedIntent
) -> tuple[bool, bool, datetime]:
    """Rank the dead orders that a row looks like: one whose bytes may have left before one of which
    none did, one of its time before one of another, the latest before earlier ones.
    """
    may_have_left = tracked.state is not SendState.NOT_SENT
    return may_have_left, is_in_time(state, tracked, row), tracked.sent_at or state.now


def _twin_of(state: State, row: OrderReport) -> TrackedIntent | None:
    """Return the order that this row could be as well: one found by its looks, or one accepted
    under an id that neither the day order book nor its detail has shown so far.
    """
    for tracked in state.intents.values():
        is_doubtful = tracked.state is SendState.MATCHED or matching.is_unseen(state, tracked)
        is_other = is_doubtful and tracked.order_id != row.order_id
        if is_other and is_alike(state, tracked, row) and is_in_time(state, tracked, row):
            return tracked
    return None
