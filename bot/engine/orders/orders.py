"""Orders that the broker has given an id: rows merged, moves and fills journalled and told."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from bot.domain.entry import Fill, OrderResultSeen, OrderUpdated, Transition
from bot.domain.message import ReadAccount
from bot.domain.order import ORDER_MOVES, TERMINAL_STATES, OrderReport, OrderState, Side
from bot.engine import switches, wake
from bot.engine.orders import cancels
from bot.engine.orders.merging import contradiction, merged, settled
from bot.engine.risk import positions
from bot.engine.risk.accounts import add_flow
from bot.engine.state import Book
from bot.engine.tracks import BackOff, IntentTrack, OrderTrack, Position, Runner, Seat
from bot.strategy import Rejection

_AT_WORK: Final = frozenset({OrderState.ACCEPTED, OrderState.PARTIALLY_FILLED})


def own_order(
    book: Book, track: IntentTrack, report: OrderReport, source: str, *, code: str | None = None
) -> OrderTrack:
    """Give an intent its order, by its first row; `code` is the broker's word for a refusal."""
    intent = track.intent
    row = OrderUpdated(
        at=book.now,
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
        state=track.order_state,
        broker_status="",
        executed_quantity=0,
        executed_amount=0,
        cancelled_quantity=0,
        fee=0,
        tax=0,
        code=code,
        reason=None,
    )
    expires = book.now + intent.expire_after if intent.expire_after is not None else None
    order = OrderTrack(row, expires_at=expires, poll=first_poll(book))
    book.orders[report.order_id] = order
    book.seen_ids.add(report.order_id)
    track.order_id = report.order_id
    apply(book, order, report, source)
    if order.row is row:
        _keep_what_cannot_be_true(book, order, report, source)
    cancels.sweep(book, order)
    return order


def _keep_what_cannot_be_true(
    book: Book, order: OrderTrack, report: OrderReport, source: str
) -> None:
    """The first row contradicts itself: its numbers are not taken, but the order is ours and
    open.
    """
    before = order.row
    order.row = replace(before, state=OrderState.ACCEPTED, broker_status=report.status or "?")
    _record_move(book, order, before.state, report.raw, source)


def first_poll(book: Book) -> BackOff:
    """Return the back-off of something that has just been sent."""
    return BackOff(book.now + book.settings.poll_backoff[0])


def external_order(book: Book, report: OrderReport, note: str) -> OrderTrack:
    """Count an order that is not ours in the exposure; it is never touched."""
    instrument = book.instruments.get(report.symbol)
    row = OrderUpdated(
        at=book.now,
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
    order = OrderTrack(row, report.requested_at, report.requested_at, may_cancel=report.may_cancel)
    book.orders[report.order_id] = order
    _record_move(book, order, None, report.raw, "book")
    return order


def _first_state(report: OrderReport) -> OrderState:
    return settled(
        report.state,
        quantity=report.quantity,
        executed=report.executed_quantity,
        remaining=report.remaining_quantity,
        cancelled=report.cancelled_quantity,
    )


def apply(book: Book, order: OrderTrack, report: OrderReport, source: str) -> None:
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
        book.halt_symbol(before.symbol, f"{before.order_id}: {wrong}")
        return
    is_newer = report.requested_at >= order.requested_at
    _look_for_a_return(book, order, report, is_newer=is_newer)
    after = merged(before, report, is_newer=is_newer)
    after = _with_fees(book, _with_legal_state(book, before, _while_changing(order, after)))
    _learn(book, order, report, grew=after.executed_quantity > before.executed_quantity)
    if after == before:
        return
    after = replace(after, at=book.now, note=_note(book, before, after))
    fill = _fill_of(book, before, after)
    order.row = after
    if order.poll is not None:
        order.poll.restart(book.now, book.settings.poll_backoff)
    _record_move(book, order, before.state, report.raw, source)
    _follow(book, order, before, fill)


def _while_changing(order: OrderTrack, after: OrderUpdated) -> OrderUpdated:
    """A row that shows the order at work does not end an amendment: its verdict does."""
    if order.change is None or after.state not in _AT_WORK:
        return after
    return replace(after, state=OrderState.PENDING_REPLACE)


def _look_for_a_return(
    book: Book, order: OrderTrack, report: OrderReport, *, is_newer: bool
) -> None:
    """An ended order that a newer row shows as working: it stays ended, and nothing new goes out
    in its symbol until a person has looked.
    """
    if order.is_open or not is_newer or _first_state(report) in TERMINAL_STATES:
        return
    if report.remaining_quantity > 0:
        was = f"{report.order_id} had ended as {order.row.state}"
        book.halt_symbol(report.symbol, f"{was} and is {report.status!r} again")


def _with_legal_state(book: Book, before: OrderUpdated, after: OrderUpdated) -> OrderUpdated:
    """Leave the state as it was when the table has no such move, and say so."""
    if after.state is before.state or after.state in ORDER_MOVES[before.state]:
        return after
    text = f"{before.order_id}: {before.state} to {after.state} ({after.broker_status}) is no move"
    book.alert_once(f"move {text}", text, symbol=before.symbol)
    return replace(after, state=before.state)


def _with_fees(book: Book, row: OrderUpdated) -> OrderUpdated:
    """Compute fee and tax on the whole amount so far, so that partial fills sum to it."""
    if row.intent_id is None:
        return row
    amount = row.executed_amount
    tax = book.rulebook.sale_tax(amount) if row.side is Side.SELL else 0
    return replace(row, fee=book.rulebook.fee(amount), tax=tax)


def _learn(book: Book, order: OrderTrack, report: OrderReport, *, grew: bool) -> None:
    if grew:
        order.executed_at = report.requested_at
    if report.requested_at >= order.requested_at:
        order.requested_at = report.requested_at
        order.may_cancel = report.may_cancel
    if report.state is None:
        text = f"{report.order_id}: status {report.status!r} is unknown; taken as live"
        book.alert_once(f"status {report.status}", text, symbol=report.symbol)


def _note(book: Book, before: OrderUpdated, after: OrderUpdated) -> str:
    """Say what a cancel of ours has ended in."""
    cancel = book.cancels.get(before.order_id)
    if cancel is None or after.state is not OrderState.CANCELLED:
        return after.note
    left, kept = after.quantity - after.executed_quantity, after.executed_quantity
    ended = f"{kept:,} filled, {left:,} cancelled" if kept else f"{left:,} cancelled unfilled"
    return f"{cancel.reason}: {ended}"


def _record_move(
    book: Book, order: OrderTrack, from_state: OrderState | None, raw: str, source: str
) -> None:
    row = order.row
    book.record(OrderResultSeen(book.now, source, row.order_id, row.intent_id, None, raw))
    if row.state is not from_state:
        book.record(
            Transition(
                at=book.now,
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
    book.record(row)


def _follow(book: Book, order: OrderTrack, before: OrderUpdated, fill: Fill | None) -> None:
    """Do what a changed row entails: fill, position, counters, the strategy's hooks."""
    row = order.row
    if not order.is_open:
        order.poll = None
        book.cancels.pop(row.order_id, None)
    if fill is not None:
        _take_fill(book, fill)
    if row.state in TERMINAL_STATES and row.state is not before.state:
        book.counts[row.state.lower()] += 1
        if row.state is OrderState.REJECTED:
            track = book.intents.get(row.intent_id or "")
            reject(book, track, row.code or row.broker_status, row.reason or "")


def _fill_of(book: Book, before: OrderUpdated, row: OrderUpdated) -> Fill | None:
    """Return what a row shows as traded since the one before; nothing is changed yet."""
    quantity = row.executed_quantity - before.executed_quantity
    if quantity <= 0 or row.intent_id is None:
        return None
    amount = row.executed_amount - before.executed_amount
    realised, position = 0, Position()
    found = seat_of(book, row.strategy, row.symbol)
    if found is not None:
        position = replace(found[0].position(row.symbol))
        realised = positions.take(position, row.side, quantity, amount)
    return Fill(
        at=book.now,
        fill_id=f"F-{book.next_fill_number:04d}",
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


def _take_fill(book: Book, fill: Fill) -> None:
    book.next_fill_number += 1
    book.counts["fills"] += 1
    book.record(fill)
    found = seat_of(book, fill.strategy, fill.symbol)
    if found is not None:
        positions.take(found[0].position(fill.symbol), fill.side, fill.quantity, fill.amount)
    add_flow(book, fill)
    book.command(ReadAccount(f"fill {fill.fill_id}"))
    if found is not None:
        _tell_fill(book, fill, *found)


def _tell_fill(book: Book, fill: Fill, runner: Runner, seat: Seat) -> None:
    runner.realised_today += fill.realised
    runner.fees_today += fill.fee + fill.tax
    switches.pause_after_loss(book, runner)
    wake.wake(book, runner, seat, "on_fill", fill)


def seat_of(book: Book, strategy: str | None, symbol: str) -> tuple[Runner, Seat] | None:
    """Return the runner and instance of an order; None when its strategy is not loaded any more."""
    runner = book.runners.get(strategy or "")
    seat = runner.seats.get(symbol) if runner else None
    return (runner, seat) if runner is not None and seat is not None else None


def reject(book: Book, track: IntentTrack | None, code: str, reason: str) -> None:
    """Tell a strategy that its order was refused, or never was."""
    if track is None:
        return
    intent = track.intent
    found = seat_of(book, intent.strategy, intent.symbol)
    if found is not None:
        rejection = Rejection(
            intent.intent_id, intent.side, intent.quantity, intent.limit_price, code, reason
        )
        wake.wake(book, *found, "on_reject", rejection)


def forget_status_before(order: OrderTrack, instant: datetime) -> None:
    """Rows asked for before our last accepted command say nothing about the status any more."""
    order.requested_at = max(order.requested_at, instant)
