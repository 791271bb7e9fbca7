"""Rows that name no root and may yet be an order of ours under a new id.

An amendment may give its order another id, and a broker need not say whose it was before. A row
that nobody owns, and that shows what an amendment under way asked for, is nobody's for certain: it
counts in full beside our own order and is not touched, and a person is told, until the amendment's
verdict comes under an id that is known, or the row has ended. What it may be is kept in its note,
so that a restart knows it too.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bot.domain.entry import Numbers, OrderUpdated
from bot.domain.order import OrderReport
from bot.engine.orders import doubts
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder
from bot.engine.watched import Standing

_MAY_BE: Final = "may be amended "
IN_THE_APP: Final = (
    "Look in the broker's app whether it is; if so, cancel it there as soon as it is not wanted"
)


def predecessor_of(state: State, row: OrderReport) -> TrackedOrder | None:
    """Return the order of ours that a row may be under a new id, by all that the row shows."""
    orders = (state.orders.get(amend.name) for amend in state.index.amending.of(True))
    return next((order for order in orders if order is not None and _fits(order, row)), None)


def _fits(order: TrackedOrder, report: OrderReport) -> bool:
    """Whether a row shows what is asked for. Its quantity is the new total where the count goes on;
    where it begins at zero, what was open of it by then.
    """
    row, change = order.row, order.change
    if change is None or not order.may_be_renamed(report.requested_at):
        return False
    shown = report.account, report.trading_date, report.symbol, report.side
    if shown != (row.account, row.trading_date, row.symbol, row.side):
        return False
    price, total = (change.new, row.quantity) if change.is_of_price else (row.price, change.new)
    before = row.quantity if change.is_of_price else change.old
    is_total = report.quantity == total
    is_rest = total - before <= report.quantity <= total - row.executed_quantity
    return report.price == price and report.quantity > 0 and (is_total or is_rest)


def note_for(order: TrackedOrder) -> str:
    """Return what the row is noted with that may be this order."""
    return f"{_MAY_BE}{order.row.order_id}"


def tell(state: State, order: TrackedOrder, row: OrderUpdated) -> None:
    """Tell of a row that may be an order of ours."""
    text = _text(state, order.row.order_id, row)
    state.alert("AMEND_AMBIGUOUS", text, _facts(row), about=row.order_id, symbol=row.symbol)


def tell_left(state: State, reason: str, order_id: str | None = None) -> None:
    """A cancel does not reach what may be the same order: of one of our orders, or of all."""
    for first, row in _open(state):
        if order_id in {None, first}:
            text = (
                f"{reason}: {doubts.words_of(row)} may be {_name(state, first)} under a new id, and"
                f" nothing proves it: it is not cancelled. {IN_THE_APP}"
            )
            facts = {**_facts(row), "reason": reason}
            state.alert("CANCEL_LEAVES", text, facts, about=row.order_id, symbol=row.symbol)


def settle(state: State, order: TrackedOrder) -> None:
    """The amendment has its verdict under an id that is ours: what fitted it is somebody else's."""
    for first, row in _open(state):
        if first == order.row.order_id:
            state.orders[row.order_id].row = replace(row, at=state.now, note="not placed here")
            state.record(state.orders[row.order_id].row)
            text = f"{doubts.words_of(row)} is not {order.name}: that works under its own id"
            state.note("AMEND", text, _facts(row), symbol=row.symbol)


def alerts(state: State) -> Iterator[Standing]:
    """Yield what may be an order of ours, as long as it is open."""
    for first, row in _open(state):
        yield Standing("AMEND_AMBIGUOUS", _text(state, first, row), _facts(row))


def _open(state: State) -> Iterator[tuple[str, OrderUpdated]]:
    for order in state.open_orders():
        if not order.is_own and order.row.note.startswith(_MAY_BE):
            yield order.row.note.removeprefix(_MAY_BE), order.row


def _name(state: State, first: str) -> str:
    order = state.orders.get(first)
    return f"{order.name} ({first})" if order is not None else first


def _text(state: State, first: str, row: OrderUpdated) -> str:
    return (
        f"{doubts.words_of(row)} names no earlier id and shows what an amendment of"
        f" {_name(state, first)} asked for: it may be that order under a new id. Both count, and"
        f" the bot does not touch this one, in a halt either. {IN_THE_APP}"
    )


def _facts(row: OrderUpdated) -> Numbers:
    return {**doubts.facts_of(row), "may_be": row.note.removeprefix(_MAY_BE)}
