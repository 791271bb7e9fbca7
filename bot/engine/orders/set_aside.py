"""Rows of the day order book that could not be read: told once, while entries wait.

A row that cannot be read may be an order of anybody's. Until a later read is whole nothing is
bought in its symbol, nor in its whole account where it names none that is known; what it names
neither ends nor changes, and an order that was lost is not taken for absent. An own order in such a
row is asked for by its id.
"""

from bot.domain.message import ReadOrder, TodaysOrdersRead
from bot.domain.order import Side, UnreadRow
from bot.engine.state import Book
from bot.engine.tracks import IntentTrack, OrderTrack


def learn(book: Book, event: TodaysOrdersRead) -> None:
    """Keep what this read has set aside, unless a later one was heard before it."""
    before = book.set_aside.get(event.account)
    if before is not None and before.requested_at > event.requested_at:
        return
    book.set_aside[event.account] = event
    for row in event.set_aside:
        _tell_once(book, row)
        order = _order_of(book, row)
        if order is not None and order.is_open and order.row.intent_id is not None:
            book.command(ReadOrder(order.row.order_id, "the day order book's row can't be read"))
    if before is not None and before.set_aside and not event.set_aside:
        book.note("RESUME", "the day order book can be read whole again")


def _tell_once(book: Book, row: UnreadRow) -> None:
    symbol = _symbol_of(book, row)
    key = f"unread {row.order_id or symbol or ''}"
    if key not in book.alerted:
        book.alerted.add(key)
        book.note("ALERT", _told(book, row), {"row": row.raw}, symbol=symbol)


def told(book: Book) -> tuple[str, ...]:
    """Return what is set aside now and what waits for it, in words."""
    return tuple(_told(book, row) for read in book.set_aside.values() for row in read.set_aside)


def _told(book: Book, row: UnreadRow) -> str:
    held = _symbol_of(book, row) or "anything"
    return f"{_named(row)} ({row.reason}): nothing is bought in {held} until it can"


def _named(row: UnreadRow) -> str:
    return f"the day order book's row {row.order_id or 'without an id'} can't be read"


def hold(book: Book, account: str, symbol: str, side: Side) -> str | None:
    """Why nothing is bought in a symbol now, None where nothing is against it."""
    read = book.set_aside.get(account)
    if read is None or side is not Side.BUY:
        return None
    for row in read.set_aside:
        if _symbol_of(book, row) in {None, symbol}:
            return f"{_named(row)} ({row.reason})"
    return None


def may_hide(book: Book, event: TodaysOrdersRead, track: IntentTrack) -> bool:
    """Whether a row that was set aside may be the order of an intent that is looked for."""
    return any(
        row.order_id not in book.orders
        and row.order_id not in track.known_ids
        and row.symbol in {None, track.intent.symbol}
        for row in event.set_aside
        if event.account == track.intent.account
    )


def _symbol_of(book: Book, row: UnreadRow) -> str | None:
    order = _order_of(book, row)
    return row.symbol if order is None else order.row.symbol


def _order_of(book: Book, row: UnreadRow) -> OrderTrack | None:
    return book.orders.get(book.chains.first(row.order_id)) if row.order_id else None
