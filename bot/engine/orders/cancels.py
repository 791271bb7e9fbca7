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
from bot.engine.faults import guarded
from bot.engine.state import Book
from bot.engine.tracks import CancelStage, CancelTrack, OrderTrack

_NOT_CANCELLABLE: Final = frozenset({OrderState.PENDING_CANCEL, OrderState.PENDING_REPLACE})


def request(book: Book, order: OrderTrack, reason: str) -> None:
    """Want an own order cancelled; asked for twice it is still one cancel."""
    row = order.row
    if not order.is_open or not order.is_own or row.order_id in book.cancels:
        return
    book.cancels[row.order_id] = CancelTrack(row.order_id, reason, book.now)
    book.record(
        Decision(
            at=book.now,
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


def request_all(book: Book, reason: str) -> None:
    """Want every own open order cancelled, those on their way too when they turn up."""
    book.gate.sweeps = reason
    for order in list(book.open_orders()):
        request(book, order, reason)


def sweep(book: Book, order: OrderTrack) -> None:
    """Cancel an order that has just turned up, when those before it were all cancelled."""
    runner = book.runners.get(order.row.strategy or "")
    reason = book.gate.sweeps or (runner.sweeps if runner else "")
    if reason:
        request(book, order, reason)


def request_expired(book: Book) -> None:
    """Want the orders cancelled whose time to work is over."""
    for order in list(book.open_orders()):
        if order.expires_at is not None and order.expires_at <= book.now:
            seconds = _worked_s(book, order)
            order.expires_at = None
            request(book, order, f"expire {seconds}")


def _worked_s(book: Book, order: OrderTrack) -> str:
    track = book.intents.get(order.row.intent_id or "")
    after = track.intent.expire_after if track else None
    if after is None:
        return ""
    seconds = round(after.total_seconds())
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def advance(book: Book) -> None:
    """Take every cancel that is due one step on."""
    if book.gate.lacks_token:
        return
    for cancel in list(book.cancels.values()):
        guarded(book, f"the cancel of {cancel.order_id}", _advance, book, cancel)


def _advance(book: Book, cancel: CancelTrack) -> None:
    order = book.orders[cancel.order_id]
    if not order.is_open:
        del book.cancels[cancel.order_id]
    elif cancel.due <= book.now:
        _begin(book, cancel, order)


def _begin(book: Book, cancel: CancelTrack, order: OrderTrack) -> None:
    """Read the row, now if the exchange takes cancels, else when it does."""
    if cancel.tries - cancel.unsent >= book.settings.cancel_tries:
        _give_up(book, cancel, order)
        return
    exchange = order.row.exchange
    if exchange is not None and not book.rulebook.may_cancel(
        exchange, book.phase_of(exchange).phase
    ):
        _queue(book, cancel, order)
        return
    cancel.stage, cancel.queued_until = CancelStage.READING, None
    cancel.due = book.now + book.settings.read_patience
    book.command(ReadOrder(cancel.order_id, f"before cancel: {cancel.reason}"))


def _queue(book: Book, cancel: CancelTrack, order: OrderTrack) -> None:
    assert order.row.exchange is not None, "the caller has looked"
    until = book.rulebook.next_phase_change(order.row.exchange, book.now).at
    cancel.stage, cancel.due = CancelStage.WANTED, until
    if cancel.queued_until is None:
        row = order.row
        text = f"{row.order_id} can't be cancelled in this phase; the cancel waits"
        book.note("CANCEL", text, {"until": until.isoformat()}, symbol=row.symbol)
    cancel.queued_until = until


def _give_up(book: Book, cancel: CancelTrack, order: OrderTrack) -> None:
    del book.cancels[cancel.order_id]
    text = f"{cancel.order_id} is still open after {cancel.tries} cancels ({cancel.reason})"
    book.alert_once(f"cancel {cancel.order_id}", text, symbol=order.row.symbol)


def on_row(book: Book, order_id: str) -> None:
    """The detail row has been merged: send the DELETE if one was being prepared and it may go."""
    cancel, order = book.cancels.get(order_id), book.orders.get(order_id)
    if cancel is None or order is None or cancel.stage is not CancelStage.READING:
        return
    if may_be_cancelled(order):
        cancel.stage = CancelStage.SENT
        cancel.due = book.now + 2 * book.settings.read_patience
        row = order.row
        assert row.intent_id is not None, "only own orders are cancelled"
        book.command(CancelOrder(order_id, row.intent_id, row.account, cancel.reason))
    else:
        wait(book, cancel)


def may_be_cancelled(order: OrderTrack) -> bool:
    """The row's own flag outranks a guess from the state."""
    if order.may_cancel is not None:
        return order.may_cancel
    return order.is_open and order.row.state not in _NOT_CANCELLABLE


def wait(book: Book, cancel: CancelTrack) -> None:
    """Count a try and come back to the cancel later."""
    distances = book.settings.cancel_backoff
    cancel.stage = CancelStage.CONFIRMING
    cancel.due = book.now + distances[min(cancel.tries, len(distances) - 1)]
    cancel.tries += 1


def blocked(book: Book) -> list[str]:
    """Return the ids of the orders whose cancel waits for a 2FA token."""
    return sorted(book.cancels) if book.gate.lacks_token else []
