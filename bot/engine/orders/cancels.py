"""Cancels: the row is read first, then one DELETE goes out, then a row says what became of it.

    WANTED ─► READING ─► SENT ─► CONFIRMING ─► (a row shows the end) done
       ▲          └─────────────┴──────┘ not ended: again, at growing distances, at most 5 times

An answer to a DELETE is never a verdict. In auctions and over lunch the exchange cancels nothing:
the cancel waits for the first second in which it may go. Without a 2FA token it waits for the
token.
"""

from datetime import timedelta
from typing import Final

from bot.domain.entry import Decision, OrderResultSeen, Verdict
from bot.domain.message import CancelAnswered, CancelOrder, ReadOrder, ReadOrderToCancel
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted, NotSent, Refused
from bot.engine import gate
from bot.engine.gate import guarded
from bot.engine.state import State
from bot.engine.tracked import CancelStage, TrackedCancel, TrackedOrder

_NOT_CANCELLABLE: Final = frozenset({OrderState.PENDING_CANCEL, OrderState.PENDING_REPLACE})


# ------------------------------------------------------------------------------------------- wanted


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
    for order in state.open_orders():
        request(state, order, reason)


def sweep(state: State, order: TrackedOrder) -> None:
    """Cancel an order that has just turned up, when those before it were all cancelled."""
    strategy = state.strategies.get(order.row.strategy or "")
    reason = state.gate.sweeps or (strategy.sweeps if strategy else "")
    if reason:
        request(state, order, reason)


def request_expired(state: State) -> None:
    """Want the orders cancelled that have worked long enough."""
    for order in state.index.expiries.ripe(state.now):
        order.expires_at = None
        tracked = state.intents.get(order.row.intent_id or "")
        after = tracked.intent.expire_after if tracked else None
        seconds = round(after.total_seconds()) if after else 0
        length = f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
        request(state, order, f"expire {length if after else ''}")


# ------------------------------------------------------------------------------------ step by step


def advance(state: State) -> None:
    """Take every cancel that is due one step on."""
    if state.gate.lacks_token:
        return
    due = [cancel for cancel in state.cancels.values() if cancel.due <= state.now]
    for cancel in due:
        guarded(state, f"the cancel of {cancel.order_id}", _advance, state, cancel)


def _advance(state: State, cancel: TrackedCancel) -> None:
    """Read the row, now if the exchange takes cancels, else when it does."""
    row, order_id = state.orders[cancel.order_id].row, cancel.order_id
    if not state.orders[order_id].is_open:
        del state.cancels[order_id]
        return
    if cancel.tries - cancel.unsent >= state.settings.cancel_tries:
        del state.cancels[order_id]
        text = f"{order_id} is still open after {cancel.tries} cancels ({cancel.reason})"
        state.alert_once(f"cancel {order_id}", text, symbol=row.symbol)
        return
    phase = state.phase_of(row.exchange).phase if row.exchange is not None else None
    if row.exchange is None or phase is None or state.rulebook.may_cancel(row.exchange, phase):
        cancel.stage, cancel.queued_until = CancelStage.READING, None
        cancel.due = state.now + state.settings.read_patience
        state.command(ReadOrderToCancel(order_id, f"before cancel: {cancel.reason}"))
        return
    until = state.rulebook.next_phase_change(row.exchange, state.now).at
    cancel.stage, cancel.due = CancelStage.WANTED, until
    if cancel.queued_until is None:
        text = f"{row.order_id} can't be cancelled in this phase; the cancel waits"
        state.note("CANCEL", text, {"until": until.isoformat()}, symbol=row.symbol)
    cancel.queued_until = until


def on_row(state: State, order_id: str) -> None:
    """The detail row has been merged: send the DELETE if one was being prepared and it may go."""
    cancel, order = state.cancels.get(order_id), state.orders.get(order_id)
    if cancel is None or order is None or cancel.stage is not CancelStage.READING:
        return
    may_go = order.may_cancel  # the row's own flag outranks a guess from the state
    if may_go is None:
        may_go = order.is_open and order.row.state not in _NOT_CANCELLABLE
    if not may_go:
        _wait(state, cancel)
        return
    cancel.stage = CancelStage.SENT
    cancel.due = state.now + 2 * state.settings.read_patience
    row = order.row
    assert row.intent_id is not None, "only own orders are cancelled"
    state.command(CancelOrder(order_id, row.intent_id, row.account, cancel.reason))


def _wait(state: State, cancel: TrackedCancel) -> None:
    """Count a try and come back to the cancel later."""
    distances = state.settings.cancel_backoff
    cancel.stage = CancelStage.CONFIRMING
    cancel.due = state.now + distances[min(cancel.tries, len(distances) - 1)]
    cancel.tries += 1


def on_cancel_answered(state: State, event: CancelAnswered) -> None:
    """Look at the row: what it shows is the verdict."""
    if event.finished is not None:
        state.record(event.finished)
    cancel, outcome = state.cancels.get(event.order_id), event.outcome
    retry_after_s = outcome.retry_after_s if isinstance(outcome, Refused) else None
    if isinstance(outcome, Refused) and outcome.needs_two_factor:
        intent_id = event.finished.intent_id if event.finished else None
        gate.close_for_two_factor(state, outcome.code, outcome.reason, intent_id)
        if cancel is not None:
            cancel.stage, cancel.due = CancelStage.WANTED, state.now
        return
    if isinstance(outcome, Accepted):
        note_taken(state, event.order_id, outcome, "cancel")
    if cancel is not None:
        _wait(state, cancel)
        # Not sent at all, or refused by the quota: nothing that looks at the order has seen it.
        cancel.unsent += isinstance(outcome, NotSent) or retry_after_s is not None
        if retry_after_s is not None:
            cancel.due = max(cancel.due, state.now + timedelta(seconds=retry_after_s))
    state.command(ReadOrder(event.order_id, "after cancel"))


def note_taken(state: State, order_id: str, outcome: Accepted, source: str) -> None:
    """The broker took a command: rows asked for earlier say nothing about the status any more."""
    order = state.orders.get(order_id)
    intent_id, raw = order.row.intent_id if order else None, outcome.result.raw
    state.record(OrderResultSeen(state.now, source, order_id, intent_id, None, raw))
    gate.prove(state, order_id, intent_id)
    if order is not None:
        order.requested_at = max(order.requested_at, state.now)


def blocked(state: State) -> list[str]:
    """Return the ids of the orders whose cancel waits for a 2FA token."""
    return sorted(state.cancels) if state.gate.lacks_token else []
