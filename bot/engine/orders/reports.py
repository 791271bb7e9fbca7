"""Rows of the broker's day order book: each goes to the order that it belongs to."""

from bot.domain.message import OrderRead, ReadTodaysOrders, TodaysOrdersRead
from bot.domain.order import OrderReport, OrderState
from bot.domain.order_status import shown_state
from bot.engine.gate import guarded
from bot.engine.orders import amends, cancels, doubts, listing, orders, set_aside, unknown
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder


def on_todays_orders(state: State, event: TodaysOrdersRead) -> None:
    """Merge the day order book. What is not in it, or cannot be read, says nothing about an order
    that is known.
    """
    set_aside.learn(state, event)
    reports = doubts.own_rows(state, event.reports)
    state.chains.learn(state.orders, reports, state.now)
    unowned = []
    for report in reports:
        state.seen_ids.add(report.order_id)
        order = state.orders.get(state.chains.first(report.order_id))
        if order is None or _is_reused(order, report):
            unowned.append(report)
        elif not state.chains.is_former(report.order_id):
            guarded(state, f"row {report.order_id}", _merge, state, order, report, "book")
            doubts.ask_again(state, order)
    for row in event.set_aside:
        if row.order_id:
            state.seen_ids.add(row.order_id)
    guarded(state, "what the day order book lists", listing.learn, state, event)
    state.satisfy_polls(event.requested_at)
    for report in unknown.match(state, event, unowned):
        guarded(state, f"row {report.order_id}", unknown.adopt, state, report)


def _merge(
    state: State, order: TrackedOrder, report: OrderReport | None, source: str
) -> OrderReport | None:
    """Merge what a row says of its whole order, and return that; None: nothing was taken. A former
    id of it whose last row is missing is asked for.
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


def _is_reused(order: TrackedOrder, report: OrderReport) -> bool:
    """The broker may give out an id of an earlier day again: that order has ended."""
    return not order.is_open and order.row.trading_date < report.trading_date


def on_order(state: State, event: OrderRead) -> None:
    """Merge one detail row; a cancel or an amendment that waited for it goes on.

    A cancel goes on without a row too, where there is none: waiting would not better it.
    """
    order, report = state.orders.get(event.order_id), event.report
    if report is not None and doubts.own_rows(state, [report]):
        state.chains.keep(report)
    whole = _merge(state, order, report, "detail") if order is not None else None
    is_gone = report is None and not event.is_unreadable
    if order is not None and is_gone:
        listing.on_absent(state, order)
    if order is not None and order.change is not None:
        has_ended = report is not None and shown_state(report) is OrderState.CANCELLED
        if is_gone or (has_ended and order.may_be_renamed(event.at)):
            state.command(ReadTodaysOrders(f"{event.order_id} is gone or cancelled: another id"))
    cancels.on_row(state, event)
    if report is not None and whole is not None:
        amends.on_row(state, event.order_id, whole)
