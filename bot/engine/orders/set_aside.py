"""Rows of the day order book that could not be read: named once, while entries wait.

A row that cannot be read may be an order of anybody's. Until a later read is whole nothing is
bought in its symbol, nor in its whole account where it names none that is known; what it names
neither ends nor changes, and an order that was lost is not taken for absent. An own order in such a
row is asked for by its id.
"""

from collections.abc import Iterator

from bot.domain.message import ReadOrder, TodaysOrdersRead
from bot.domain.order import Side, UnreadRow
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent, TrackedOrder
from bot.engine.watched import Standing


def learn(state: State, event: TodaysOrdersRead) -> None:
    """Keep what this read has set aside, unless a later one was heard before it."""
    before = state.set_aside.get(event.account)
    if before is not None and before.requested_at > event.requested_at:
        return
    state.set_aside[event.account] = event
    for row in event.set_aside:
        order, symbol = _order_of(state, row), _symbol_of(state, row)
        told, about = _standing(state, row), row.order_id or symbol or "a row without an id"
        facts = {**told.facts, "row": row.raw}
        state.alert(told.code, told.text, facts, about=about, symbol=symbol)
        if order is not None and order.is_open and order.row.intent_id is not None:
            state.command(ReadOrder(order.row.order_id, "the day order book's row can't be read"))
    if before is not None and before.set_aside and not event.set_aside:
        state.note("RESUME", "every row of the day order book can be read again")


def alerts(state: State) -> Iterator[Standing]:
    """Yield what is set aside now and what waits for it."""
    for read in state.set_aside.values():
        for row in read.set_aside:
            yield _standing(state, row)


def hold(state: State, account: str, symbol: str, side: Side) -> str | None:
    """Why nothing is bought in a symbol now, None where nothing is against it."""
    if side is not Side.BUY:
        return None
    for order in state.index.open_in.of(symbol):
        if order.shown.doubt:
            return f"the row of {order.row.order_id} may be another order's: {order.shown.doubt}"
    read = state.set_aside.get(account)
    for row in read.set_aside if read is not None else ():
        if _symbol_of(state, row) in {None, symbol}:
            return _unread(row)
    return None


def may_hide(state: State, event: TodaysOrdersRead, tracked: TrackedIntent) -> bool:
    """Whether a row that was set aside may be the order of an intent that is looked for."""
    return any(
        row.order_id not in state.orders
        and row.order_id not in tracked.known_ids
        and row.symbol in {None, tracked.intent.symbol}
        for row in event.set_aside
        if event.account == tracked.intent.account
    )


def _standing(state: State, row: UnreadRow) -> Standing:
    symbol = _symbol_of(state, row)
    text = (
        f"{_unread(row)}: nothing is bought in {symbol or 'anything'} until it can. If it stays so,"
        " look in the broker's app what order that is"
    )
    facts = {"order_id": row.order_id, "symbol": symbol, "why": row.reason}
    return Standing("ROW_UNREADABLE", text, facts)


def _unread(row: UnreadRow) -> str:
    name = f"the day order book's row {row.order_id or 'without an id'}"
    return f"{name} can't be read ({row.reason})"


def _symbol_of(state: State, row: UnreadRow) -> str | None:
    order = _order_of(state, row)
    return row.symbol if order is None else order.row.symbol


def _order_of(state: State, row: UnreadRow) -> TrackedOrder | None:
    return state.orders.get(state.chains.first(row.order_id)) if row.order_id else None
