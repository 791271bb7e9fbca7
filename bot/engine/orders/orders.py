"""Orders that the broker has given an id: rows merged, moves and fills journalled and told."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from bot.domain.entry import Fill, OrderResultSeen, OrderUpdated, Transition
from bot.domain.message import ReadAccount
from bot.domain.order import ORDER_MOVES, TERMINAL_STATES, OrderReport, OrderState, Side
from bot.engine import wake
from bot.engine.orders import cancels
from bot.engine.orders.merging import contradiction, merged, settled
from bot.engine.risk.accounts import add_flow, pause_after_loss
from bot.engine.state import State
from bot.engine.tracked import (
    BackOff,
    Instance,
    Position,
    StrategyState,
    TrackedIntent,
    TrackedOrder,
)
from bot.strategy import Rejection

_AT_WORK: Final = frozenset({OrderState.ACCEPTED, OrderState.PARTIALLY_FILLED})


def own_order(
    state: State,
    tracked: TrackedIntent,
    report: OrderReport,
    source: str,
    *,
    code: str | None = None,
) -> TrackedOrder:
    """Give an intent its order, by its first row; `code` is the broker's word for a refusal."""
    intent = tracked.intent
    row = OrderUpdated(
        at=state.now,
        order_id=report.order_id,
        account=intent.account,
        trading_date=intent.trading_date,
        intent_id=intent.intent_id,
        strategy=intent.strategy,
        symbol=intent.symbol,
        exchange=intent.exchange,
        side=intent.side,
        quantity=intent.quantity,
        order_type=intent.order_type,
        price=intent.limit_price,
        state=tracked.order_state,
        broker_status="",
        executed_quantity=0,
        executed_amount=0,
        cancelled_quantity=0,
        fee=0,
        tax=0,
        code=code,
        reason=None,
    )
    expires = state.now + intent.expire_after if intent.expire_after is not None else None
    order = TrackedOrder(row, expires_at=expires, poll=first_poll(state))
    state.orders[report.order_id] = order
    state.seen_ids.add(report.order_id)
    tracked.order_id = report.order_id
    apply(state, order, report, source)
    if order.row is row:
        _keep_what_cannot_be_true(state, order, report, source)
    cancels.sweep(state, order)
    return order


def _keep_what_cannot_be_true(
    state: State, order: TrackedOrder, report: OrderReport, source: str
) -> None:
    """The first row contradicts itself: its numbers are not taken, but the order is ours and
    open.
    """
    before = order.row
    order.row = replace(before, state=OrderState.ACCEPTED, broker_status=report.status or "?")
    _record_move(state, order, before.state, report.raw, source)


def first_poll(state: State) -> BackOff:
    """Return the back-off of something that has just been sent."""
    return BackOff(state.now + state.settings.poll_backoff[0])


def external_order(state: State, report: OrderReport, note: str) -> TrackedOrder:
    """Count an order that is not ours in the exposure; it is never touched."""
    instrument = state.instruments.get(report.symbol)
    row = OrderUpdated(
        at=state.now,
        order_id=report.order_id,
        account=report.account,
        trading_date=report.trading_date,
        intent_id=None,
        strategy=None,
        symbol=report.symbol,
        exchange=instrument.exchange if instrument else None,
        side=report.side,
        quantity=report.quantity,
        order_type=report.order_type,
        price=report.price,
        state=_first_state(report),
        broker_status=report.status,
        executed_quantity=max(0, report.executed_quantity),
        executed_amount=report.executed_amount,
        cancelled_quantity=report.cancelled_quantity,
        fee=0,
        tax=0,
        code=None,
        reason=report.message or None,
        note=note,
    )
    order = TrackedOrder(
        row, report.requested_at, report.requested_at, may_cancel=report.may_cancel
    )
    state.orders[report.order_id] = order
    _record_move(state, order, None, report.raw, "book")
    return order


def _first_state(report: OrderReport) -> OrderState:
    return settled(
        report.state,
        quantity=report.quantity,
        executed=report.executed_quantity,
        remaining=report.remaining_quantity,
        cancelled=report.cancelled_quantity,
    )


def apply(state: State, order: TrackedOrder, report: OrderReport, source: str) -> None:
    """Merge a row into an order; journal what changed, then tell its strategy.

    All that looks at the row's numbers comes before the first change: a row that raises changes
    nothing, and is merged whole when it is shown again.

    While an amendment may have given it a new id, a row that shows it cancelled may be the end of
    the old id only, and says nothing.
    """
    before = order.row
    if report.state is OrderState.CANCELLED and order.may_be_renamed(report.requested_at):
        return
    wrong = contradiction(before, report, order.executed_at)
    if wrong is not None:
        state.halt_symbol(before.symbol, f"{before.order_id}: {wrong}")
        return
    is_newer = report.requested_at >= order.requested_at
    _look_for_a_return(state, order, report, is_newer=is_newer)
    after = merged(before, report, is_newer=is_newer)
    after = _with_fees(state, _with_legal_state(state, before, _while_changing(order, after)))
    _learn(state, order, report, grew=after.executed_quantity > before.executed_quantity)
    if after == before:
        return
    after = replace(after, at=state.now, note=_note(state, before, after))
    fill = _fill_of(state, before, after)
    order.row = after
    if order.poll is not None:
        order.poll.restart(state.now, state.settings.poll_backoff)
    _record_move(state, order, before.state, report.raw, source)
    _follow(state, order, before, fill)


def _while_changing(order: TrackedOrder, after: OrderUpdated) -> OrderUpdated:
    """A row that shows the order at work does not end an amendment: its verdict does."""
    if order.change is None or after.state not in _AT_WORK:
        return after
    return replace(after, state=OrderState.PENDING_REPLACE)


def _look_for_a_return(
    state: State, order: TrackedOrder, report: OrderReport, *, is_newer: bool
) -> None:
    """An ended order that a newer row shows as working: it stays ended, and nothing new goes out
    in its symbol until a person has looked.
    """
    if order.is_open or not is_newer or _first_state(report) in TERMINAL_STATES:
        return
    if report.remaining_quantity > 0:
        was = f"{report.order_id} had ended as {order.row.state}"
        state.halt_symbol(report.symbol, f"{was} and is {report.status!r} again")


def _with_legal_state(state: State, before: OrderUpdated, after: OrderUpdated) -> OrderUpdated:
    """Leave the state as it was when the table has no such move, and say so."""
    if after.state is before.state or after.state in ORDER_MOVES[before.state]:
        return after
    text = f"{before.order_id}: {before.state} to {after.state} ({after.broker_status}) is no move"
    state.alert_once(f"move {text}", text, symbol=before.symbol)
    return replace(after, state=before.state)


def _with_fees(state: State, row: OrderUpdated) -> OrderUpdated:
    """Compute fee and tax on the whole amount so far, so that partial fills sum to it."""
    if row.intent_id is None:
        return row
    amount = row.executed_amount
    tax = state.rulebook.sale_tax(amount) if row.side is Side.SELL else 0
    return replace(row, fee=state.rulebook.fee(amount), tax=tax)


def _learn(state: State, order: TrackedOrder, report: OrderReport, *, grew: bool) -> None:
    if grew:
        order.executed_at = report.requested_at
    if report.requested_at >= order.requested_at:
        order.requested_at = report.requested_at
        order.may_cancel = report.may_cancel
    if report.state is None:
        text = f"{report.order_id}: status {report.status!r} is unknown; taken as live"
        state.alert_once(f"status {report.status}", text, symbol=report.symbol)


def _note(state: State, before: OrderUpdated, after: OrderUpdated) -> str:
    """Say what a cancel of ours has ended in."""
    cancel = state.cancels.get(before.order_id)
    if cancel is None or after.state is not OrderState.CANCELLED:
        return after.note
    left, kept = after.quantity - after.executed_quantity, after.executed_quantity
    ended = f"{kept:,} filled, {left:,} cancelled" if kept else f"{left:,} cancelled unfilled"
    return f"{cancel.reason}: {ended}"


def _record_move(
    state: State, order: TrackedOrder, from_state: OrderState | None, raw: str, source: str
) -> None:
    row = order.row
    state.record(OrderResultSeen(state.now, source, row.order_id, row.intent_id, None, raw))
    if row.state is not from_state:
        state.record(
            Transition(
                at=state.now,
                intent_id=row.intent_id,
                order_id=row.order_id,
                from_state=from_state,
                to_state=row.state,
                broker_status=row.broker_status,
                source=source,
                executed_quantity=row.executed_quantity,
                note=row.note,
            )
        )
    state.record(row)


def _follow(state: State, order: TrackedOrder, before: OrderUpdated, fill: Fill | None) -> None:
    """Do what a changed row entails: fill, position, counters, the strategy's hooks."""
    row = order.row
    if not order.is_open:
        order.poll = None
        state.cancels.pop(row.order_id, None)
    if fill is not None:
        _take_fill(state, fill)
    if row.state in TERMINAL_STATES and row.state is not before.state:
        state.counts[row.state.lower()] += 1
        if row.state is OrderState.REJECTED:
            tracked = state.intents.get(row.intent_id or "")
            reject(state, tracked, row.code or row.broker_status, row.reason or "")


def _fill_of(state: State, before: OrderUpdated, row: OrderUpdated) -> Fill | None:
    """Return what a row shows as traded since the one before; nothing is changed yet."""
    quantity = row.executed_quantity - before.executed_quantity
    if quantity <= 0 or row.intent_id is None:
        return None
    amount = row.executed_amount - before.executed_amount
    realised, position = 0, Position()
    found = instance_of(state, row.strategy, row.symbol)
    if found is not None:
        position = replace(found[0].position(row.symbol))
        realised = position.take(row.side, quantity, amount)
    return Fill(
        at=state.now,
        fill_id=f"F-{state.next_fill_number:04d}",
        order_id=row.order_id,
        intent_id=row.intent_id,
        strategy=row.strategy,
        account=row.account,
        symbol=row.symbol,
        side=row.side,
        quantity=quantity,
        price=amount // quantity,
        amount=amount,
        fee=row.fee - before.fee,
        tax=row.tax - before.tax,
        order_quantity=row.quantity,
        order_executed=row.executed_quantity,
        broker_status=row.broker_status,
        position=position.shares,
        realised=realised,
    )


def _take_fill(state: State, fill: Fill) -> None:
    state.next_fill_number += 1
    state.counts["fills"] += 1
    state.record(fill)
    found = instance_of(state, fill.strategy, fill.symbol)
    if found is not None:
        found[0].position(fill.symbol).take(fill.side, fill.quantity, fill.amount)
    add_flow(state, fill)
    state.command(ReadAccount(f"fill {fill.fill_id}"))
    if found is not None:
        _tell_fill(state, fill, *found)


def _tell_fill(state: State, fill: Fill, strategy: StrategyState, instance: Instance) -> None:
    strategy.realised_today += fill.realised
    strategy.fees_today += fill.fee + fill.tax
    pause_after_loss(state, strategy)
    wake.wake(state, strategy, instance, "on_fill", fill)


def instance_of(
    state: State, name: str | None, symbol: str
) -> tuple[StrategyState, Instance] | None:
    """Return the runner and instance of an order; None when its strategy is not loaded any more."""
    strategy = state.strategies.get(name or "")
    instance = strategy.instances.get(symbol) if strategy else None
    return (strategy, instance) if strategy is not None and instance is not None else None


def reject(state: State, tracked: TrackedIntent | None, code: str, reason: str) -> None:
    """Tell a strategy that its order was refused, or never was."""
    if tracked is None:
        return
    intent = tracked.intent
    found = instance_of(state, intent.strategy, intent.symbol)
    if found is not None:
        rejection = Rejection(
            intent.intent_id, intent.side, intent.quantity, intent.limit_price, code, reason
        )
        wake.wake(state, *found, "on_reject", rejection)


def forget_status_before(order: TrackedOrder, instant: datetime) -> None:
    """Rows asked for before our last accepted command say nothing about the status any more."""
    order.requested_at = max(order.requested_at, instant)
