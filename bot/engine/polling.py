"""When the day book is read: once for all that is due, at growing steps."""

from collections.abc import Iterator
from datetime import datetime

from bot.domain.message import ReadTodaysOrders
from bot.engine.state import Book
from bot.engine.tracks import BackOff


def poll(book: Book) -> None:
    """Ask for the day book when anything is due and no answer is awaited."""
    due = [(name, backoff) for name, backoff in _polls(book) if backoff.due <= book.now]
    for _, backoff in due:
        backoff.advance(book.now, book.settings.poll_backoff)
    if due and not _is_asked(book):
        book.book_asked_at = book.now
        book.command(ReadTodaysOrders(f"poll {', '.join(name for name, _ in due)}"))


def satisfy(book: Book, requested_at: datetime) -> None:
    """A day book has come: what was due when it was asked for need not be asked for again."""
    book.book_asked_at = None
    for _, backoff in _polls(book):
        if backoff.due <= requested_at:
            backoff.advance(book.now, book.settings.poll_backoff)


def instants(book: Book) -> Iterator[datetime]:
    """When the day book is due, by order and by question."""
    return (backoff.due for _, backoff in _polls(book))


def _is_asked(book: Book) -> bool:
    """True while an answer is still awaited; a read that was lost is asked for again."""
    asked = book.book_asked_at
    return asked is not None and book.now - asked < book.settings.read_patience


def _polls(book: Book) -> Iterator[tuple[str, BackOff]]:
    for order in book.open_orders():
        if order.poll is not None:
            yield order.row.intent_id or order.row.order_id, order.poll
    for track in book.intents.values():
        if track.poll is not None and track.order_id is None:
            yield track.intent.intent_id, track.poll
