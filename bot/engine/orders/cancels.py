"""Cancels: the row is read first, then one DELETE goes out, then a row says what became of it.

    WANTED ─► READING ─► SENT ─► CONFIRMING ─► (a row shows the end) done
       ▲          └─────────────┴──────┘ not ended: again, at growing distances, at most 5 times

An answer to a DELETE is never a verdict. In auctions and over lunch the exchange cancels nothing:
the cancel waits for the first second in which it may go. Without a 2FA token it waits for the
token.
"""

from typing import Final

from bot.domain.entry import Decision, Verdict
from bot.domain.message import CancelOrder, ReadOrder
from bot.domain.order import OrderState
from bot.engine.gate import guarded
from bot.engine.state import State
from bot.engine.tracked import CancelStage, TrackedCancel, TrackedOrder

_NOT_CANCELLABLE: Final = frozenset({OrderState.PENDING_CANCEL, OrderState.PENDING_REPLACE})


def request(state: State, order: TrackedOrder, reason: str) -> None:
    """Want an own order cancelled; asked for twice it is still one cancel."""
    row = order.row
    if not order.is_open or not order.is_own or row.order_id in state.cancels:
        return
    state.cancels[row.order_id] = TrackedCancel(row.order_id, reason, state.now)
    state.record(
        Decision(
            at=state.now,
            strategy=row.strategy or "",
            symbol=row.symbol,
            verdict=Verdict.PASSED,
            code="CANCEL",
            why=reason,
            numbers={"open": order.open_quantity, "executed": row.executed_quantity},
            request_id=row.intent_id,
            side=row.side,
            quantity=order.open_quantity,
            order_type=row.order_type,
            price=row.price,
        )
    )


def request_all(state: State, reason: str) -> None:
    """Want every own open order cancelled, those on their way too when they turn up."""
    state.gate.sweeps = reason
    for order in list(state.open_orders()):
        request(state, order, reason)


def sweep(state: State, order: TrackedOrder) -> None:
    """Cancel an order that has just turned up, when those before it were all cancelled."""
    strategy = state.strategies.get(order.row.strategy or "")
    reason = state.gate.sweeps or (strategy.sweeps if strategy else "")
    if reason:
        request(state, order, reason)


def request_expired(state: State) -> None:
    """Want the orders cancelled whose time to work is over."""
    for order in list(state.open_orders()):
        if order.expires_at is not None and order.expires_at <= state.now:
            seconds = _worked_s(state, order)
            order.expires_at = None
            request(state, order, f"expire {seconds}")


def _worked_s(state: State, order: TrackedOrder) -> str:
    tracked = state.intents.get(order.row.intent_id or "")
    after = tracked.intent.expire_after if tracked else None
    if after is None:
        return ""
    seconds = round(after.total_seconds())
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def advance(state: State) -> None:
    """Take every cancel that is due one step on."""
    if state.gate.lacks_token:
        return
    for cancel in list(state.cancels.values()):
        guarded(state, f"the cancel of {cancel.order_id}", _advance, state, cancel)


def _advance(state: State, cancel: TrackedCancel) -> None:
    order = state.orders[cancel.order_id]
    if not order.is_open:
        del state.cancels[cancel.order_id]
    elif cancel.due <= state.now:
        _begin(state, cancel, order)


def _begin(state: State, cancel: TrackedCancel, order: TrackedOrder) -> None:
    """Read the row, now if the exchange takes cancels, else when it does."""
    if cancel.tries - cancel.unsent >= state.settings.cancel_tries:
        _give_up(state, cancel, order)
        return
    exchange = order.row.exchange
    if exchange is not None and not state.rulebook.may_cancel(
        exchange, state.phase_of(exchange).phase
    ):
        _queue(state, cancel, order)
        return
    cancel.stage, cancel.queued_until = CancelStage.READING, None
    cancel.due = state.now + state.settings.read_patience
    state.command(ReadOrder(cancel.order_id, f"before cancel: {cancel.reason}"))


def _queue(state: State, cancel: TrackedCancel, order: TrackedOrder) -> None:
    assert order.row.exchange is not None, "the caller has looked"
    until = state.rulebook.next_phase_change(order.row.exchange, state.now).at
    cancel.stage, cancel.due = CancelStage.WANTED, until
    if cancel.queued_until is None:
        row = order.row
        text = f"{row.order_id} can't be cancelled in this phase; the cancel waits"
        state.note("CANCEL", text, {"until": until.isoformat()}, symbol=row.symbol)
    cancel.queued_until = until


def _give_up(state: State, cancel: TrackedCancel, order: TrackedOrder) -> None:
    del state.cancels[cancel.order_id]
    text = f"{cancel.order_id} is still open after {cancel.tries} cancels ({cancel.reason})"
    state.alert_once(f"cancel {cancel.order_id}", text, symbol=order.row.symbol)


def on_row(state: State, order_id: str) -> None:
    """The detail row has been merged: send the DELETE if one was being prepared and it may go."""
    cancel, order = state.cancels.get(order_id), state.orders.get(order_id)
    if cancel is None or order is None or cancel.stage is not CancelStage.READING:
        return
    if may_be_cancelled(order):
        cancel.stage = CancelStage.SENT
        cancel.due = state.now + 2 * state.settings.read_patience
        row = order.row
        assert row.intent_id is not None, "only own orders are cancelled"
        state.command(CancelOrder(order_id, row.intent_id, row.account, cancel.reason))
    else:
        wait(state, cancel)


def may_be_cancelled(order: TrackedOrder) -> bool:
    """The row's own flag outranks a guess from the state."""
    if order.may_cancel is not None:
        return order.may_cancel
    return order.is_open and order.row.state not in _NOT_CANCELLABLE


def wait(state: State, cancel: TrackedCancel) -> None:
    """Count a try and come back to the cancel later."""
    distances = state.settings.cancel_backoff
    cancel.stage = CancelStage.CONFIRMING
    cancel.due = state.now + distances[min(cancel.tries, len(distances) - 1)]
    cancel.tries += 1


def blocked(state: State) -> list[str]:
    """Return the ids of the orders whose cancel waits for a 2FA token."""
    return sorted(state.cancels) if state.gate.lacks_token else []
