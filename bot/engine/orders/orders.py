"""Orders with a broker id: merges rows, journals moves and fills, and notifies the order's
strategy. The moves of both state machines are made here, by their tables.
"""

from dataclasses import replace
from typing import Final

from bot.domain.entry import Fill, IntentMoved, OrderResultSeen, OrderUpdated, Transition
from bot.domain.errors import require
from bot.domain.message import ReadAccount
from bot.domain.order import (
    ORDER_MOVES,
    SEND_MOVES,
    TERMINAL_STATES,
    OrderReport,
    OrderState,
    OrderType,
    SendState,
    Side,
)
from bot.domain.order_status import shown_state
from bot.engine import wake
from bot.engine.gate import IllegalMove
from bot.engine.orders import cancel_requests, doubts
from bot.engine.orders.doubts import Trust
from bot.engine.orders.matching import known_as_external, merged
from bot.engine.orders.order_words import row_facts, row_words
from bot.engine.risk import ended_sales, losses
from bot.engine.risk.accounts import (
    add_external,
    add_flow,
    pause_after_loss,
    take_back_external,
)
from bot.engine.state import Instance, State, StrategyState
from bot.engine.tracked import TrackedIntent, TrackedOrder
from bot.strategy import Rejection

BY_BROKER: Final = frozenset({"INTERNAL_CANCELLED", "CANCEL_BY_STOCK_EVENT"})
"""Statuses of orders that no person has cancelled."""
_AT_WORK: Final = frozenset({OrderState.ACCEPTED, OrderState.PARTIALLY_FILLED})


# -------------------------------------------------------------------------------- the two machines


def move_intent(
    state: State, tracked: TrackedIntent, to: SendState, reason: str, *, proof: str | None = None
) -> None:
    """Move an intent's send state. Raises IllegalMove; NOT_PLACED needs its proof."""
    if to not in SEND_MOVES[tracked.state]:
        raise IllegalMove(tracked.intent.intent_id, tracked.state, to)
    is_proved = proof is not None or to is not SendState.NOT_PLACED
    require(is_proved, "I5", f"{tracked.name} is to be NOT_PLACED without one")
    state.record(IntentMoved(state.now, tracked.intent.intent_id, tracked.state, to, reason, proof))
    tracked.state = to


def move_unplaced(
    state: State, tracked: TrackedIntent, to: OrderState, *, source: str, note: str = ""
) -> None:
    """Move the order state of an intent that has no order id. Raises IllegalMove."""
    if to not in ORDER_MOVES[tracked.order_state]:
        raise IllegalMove(tracked.intent.intent_id, tracked.order_state, to)
    state.record(
        Transition(
            at=state.now,
            intent_id=tracked.intent.intent_id,
            order_id=tracked.order_id,
            from_state=tracked.order_state,
            to_state=to,
            broker_status=None,
            source=source,
            note=note,
        )
    )
    tracked.order_state = to


def end_unplaced(
    state: State, tracked: TrackedIntent, to: OrderState, code: str, reason: str
) -> None:
    """End an intent that became no order; its strategy is notified."""
    move_unplaced(state, tracked, to, source="place", note=f"{code} {reason}".strip())
    state.counts[to.lower()] += 1
    reject(state, tracked, code, reason)


def _record(
    state: State,
    row: OrderUpdated,
    from_state: OrderState | None,
    report: OrderReport,
    source: str,
) -> None:
    """Journal what the broker showed (for an own order under its id there), the move if any, and
    the order's present state.
    """
    shown_id = report.order_id if row.intent_id else row.order_id
    state.record(OrderResultSeen(state.now, source, shown_id, row.intent_id, None, report.raw))
    record_row(state, row, from_state, source)


def record_row(state: State, row: OrderUpdated, from_state: OrderState | None, source: str) -> None:
    """Journal an order's present state, and its move if any."""
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


# --------------------------------------------------------------------------------------- new orders


def own_order(
    state: State, tracked: TrackedIntent, report: OrderReport, source: str, code: str | None = None
) -> None:
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
        code=code,
    )
    expires_at = state.now + intent.expire_after if intent.expire_after is not None else None
    asked = (intent.limit_price,) if intent.limit_price is not None else ()
    order = TrackedOrder(row, expires_at=expires_at, poll=state.first_poll(), asked=asked)
    state.index.track_order(order)
    state.seen_ids.add(report.order_id)
    tracked.order_id = report.order_id
    apply(state, order, report, source)
    if order.row is row:
        # The row contradicts itself: its numbers are not taken, but the order is ours and open.
        status = report.status or "?"
        order.row = replace(row, state=OrderState.ACCEPTED, broker_status=status)
        _record(state, order.row, row.state, report, source)
    cancel_requests.sweep(state, order)


def claim(state: State, report: OrderReport) -> OrderReport:
    """An order regarded as external is ours: forget it as external, with its movements. Return its
    row with everything known to be executed, which an earlier row may not show.
    """
    order = state.orders.get(report.order_id)
    if order is None:
        return report
    known = order.row
    take_back_external(state, known)
    state.index.forget_order(report.order_id)
    more = known.executed_quantity - report.executed_quantity
    if more <= 0 or order.is_own or not known.executed_quantity:
        return report
    executed, amount = known.executed_quantity, known.executed_amount
    return replace(
        report,
        executed_quantity=executed,
        executed_amount=amount,
        average_price=amount // executed,
        remaining_quantity=max(0, report.remaining_quantity - more),
    )


def external_order(state: State, report: OrderReport, note: str) -> None:
    """Count an external order towards the exposure; it is never touched. One that is known already
    is counted anew, as its row shows it now; its state stays what its rows have made of it.
    """
    known, before = known_as_external(state, report), None
    if known is not None:
        before, report = known.row.state, claim(state, report)
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
        quantity=max(report.quantity, report.executed_quantity),
        order_type=report.order_type,
        price=report.price,
        state=before or shown_state(report),
        broker_status=report.status,
        executed_quantity=max(0, report.executed_quantity),
        executed_amount=report.executed_amount,
        cancelled_quantity=report.cancelled_quantity,
        reason=report.message or None,
        note=note,
    )
    order = TrackedOrder(row, report.requested_at, report.may_cancel)
    if known is not None:  # what its rows have shown is old when it comes again
        order.shown, order.requested_at = known.shown, max(known.requested_at, order.requested_at)
    add_external(state, None, row)
    state.index.track_order(order)
    _record(state, row, before, report, "book")


# --------------------------------------------------------------------------------------------- rows


def apply(state: State, order: TrackedOrder, report: OrderReport, source: str) -> bool:
    """Merge a row into an order; journal what changed, then notify its strategy. Return False if
    nothing of the row was taken.

    Everything that looks at the row's numbers comes before the first change: a row that raises
    changes nothing, and is merged completely when it is shown again.
    """
    has_ended = order.may_be_renamed and shown_state(report) is OrderState.CANCELLED
    if has_ended:
        # An amendment may have given it a new id: only the old one has ended, with its fills.
        report = replace(
            report,
            state=OrderState.PENDING_REPLACE,
            cancelled_quantity=0,
            remaining_quantity=report.quantity - report.executed_quantity,
        )
    trust = doubts.judge(state, order, report, source)
    if trust is Trust.NOTHING:
        return False
    before = order.row
    is_newest = report.requested_at >= order.requested_at
    is_whole = trust is Trust.WHOLE
    after = _row_after(state, order, merged(before, report, is_newer=is_whole))
    if is_newest:
        order.requested_at, order.may_cancel = report.requested_at, report.may_cancel
        order.shown.has_ended = has_ended
    if report.state is None:
        text = (
            f"{row_words(before)}: status {report.status!r} is unknown; it counts as open,"
            " never as ended. Look at the order in the broker's app if it stays so."
        )
        facts = {**row_facts(before), "status": report.status}
        about, symbol = report.status or "none", report.symbol
        state.alert("STATUS_UNKNOWN", text, facts, about=about, symbol=symbol)
    if after is before or after == before:
        return True
    is_end = after.state is OrderState.CANCELLED and after.state is not before.state
    note = _end_words(state, after) if is_end and order.is_own else after.note
    if (after.at, after.note) != (state.now, note):
        after = replace(after, at=state.now, note=note)
    fill = _fill_of(state, before, after)
    order.row = after
    if order.poll is not None:
        order.poll = state.first_poll()
    _record(state, after, before.state, report, source)
    if after.price != before.price:
        doubts.note_price(state, order, before.price)
    _follow(state, order, before, fill)
    return True


def _end_words(state: State, after: OrderUpdated) -> str:
    """Return why an order of ours was cancelled, and how much of it. An order without a price may
    be cancelled by the exchange, as its type says.
    """
    left, kept = after.quantity - after.executed_quantity, after.executed_quantity
    ended = f"{kept:,} filled, {left:,} cancelled" if kept else f"{left:,} cancelled unfilled"
    if (cancel := state.cancels.get(after.order_id)) is not None:
        return f"{cancel.reason}: {ended}"
    if after.broker_status in BY_BROKER:
        return f"cancelled by the broker: {ended}"
    if after.order_type == OrderType.LO:
        return f"not cancelled by this bot: {ended}"
    return ended


def _row_after(state: State, order: TrackedOrder, after: OrderUpdated) -> OrderUpdated:
    """Return a merged row with a permitted state, and with our fee and tax."""
    before = order.row
    if order.change is not None and after.state in _AT_WORK:
        # A row that shows the order working does not end an amendment: its verdict does.
        after = replace(after, state=OrderState.PENDING_REPLACE)
    if after.state is not before.state and after.state not in ORDER_MOVES[before.state]:
        move = f"{before.state} to {after.state} ({after.broker_status})"
        text = (
            f"{row_words(before)}: the broker's row went from {move}, which is no move. It"
            f" stays {before.state} here. Look at it in the broker's app."
        )
        facts = {**row_facts(before), "from": before.state, "to": after.state}
        about = f"{before.order_id} {move}"
        state.alert("MOVE_IMPOSSIBLE", text, facts, about=about, symbol=before.symbol)
        after = replace(after, state=before.state)
    if after.intent_id is None:
        return after
    # Computed on the whole amount so far, so that partial fills add up to it.
    amount = after.executed_amount
    tax = state.rulebook.sale_tax(amount) if after.side is Side.SELL else 0
    fee = state.rulebook.fee(amount)
    return after if (fee, tax) == (after.fee, after.tax) else replace(after, fee=fee, tax=tax)


def _fill_of(state: State, before: OrderUpdated, row: OrderUpdated) -> Fill | None:
    """Return what a row shows as traded since the previous one; nothing is changed yet."""
    quantity = row.executed_quantity - before.executed_quantity
    if quantity <= 0 or row.intent_id is None:
        return None
    amount = row.executed_amount - before.executed_amount
    position = replace(state.position_of(row.strategy or "", row.symbol))
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


def _follow(state: State, order: TrackedOrder, before: OrderUpdated, fill: Fill | None) -> None:
    """Carry out what a changed row entails: fill, position, counters, the strategy's hooks."""
    row, tracked = order.row, state.intents.get(order.row.intent_id or "")
    add_external(state, before, row)
    if not order.is_open:
        order.poll = None
        was_asked = cancel_requests.end(state, row)
        is_taken_back = row.state is OrderState.CANCELLED and row.broker_status not in BY_BROKER
        flattening = state.gate.flattening
        if flattening is not None and is_taken_back and not was_asked and tracked is not None:
            flattening.taken_back.add(tracked.intent.intent_id)
    if fill is not None:
        state.next_fill_number += 1
        state.counts["fills"] += 1
        state.record(fill)
        position = state.position_of(fill.strategy or "", fill.symbol)
        position.take(fill.side, fill.quantity, fill.amount)
        state.usage.of(fill.account).fill(fill.symbol, fill.side)
        owner = state.strategies.get(fill.strategy or "")
        losses.count_trade(state, fill, owner, row.trading_date)
        found = _instance_of(state, fill.strategy, fill.symbol)
        add_flow(state, fill, row.trading_date)
        state.command(ReadAccount(f"fill {fill.fill_id}"))
        if found is not None:
            strategy, instance = found
            pause_after_loss(state, strategy)
            losses.count_fill(state, strategy, fill, tracked.intent if tracked else None)
            wake.wake(state, strategy, instance, "on_fill", fill)
        cancel_requests.stop_after_loss(state, fill.account)
    if row.state in TERMINAL_STATES and row.state is not before.state:
        ended_sales.note(state, order)
        state.counts[row.state.lower()] += 1
        if row.state is OrderState.REJECTED and tracked is not None:
            reject(state, tracked, row.code or row.broker_status, row.reason or "")


def reject(state: State, tracked: TrackedIntent, code: str, reason: str) -> None:
    """Notify a strategy that its order was refused, or was never placed."""
    intent = tracked.intent
    found = _instance_of(state, intent.strategy, intent.symbol)
    if found is not None:
        rejection = Rejection(
            intent.intent_id, intent.side, intent.quantity, intent.limit_price, code, reason
        )
        wake.wake(state, *found, "on_reject", rejection)


def _instance_of(
    state: State, name: str | None, symbol: str
) -> tuple[StrategyState, Instance] | None:
    """Return the instance that an order belongs to; None if its strategy is no longer loaded."""
    strategy = state.strategies.get(name or "")
    instance = strategy.instances.get(symbol) if strategy else None
    return (strategy, instance) if strategy is not None and instance is not None else None
