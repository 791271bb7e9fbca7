"""What is due by the clock, looked at after every event: nothing has a timer of its own."""

from collections.abc import Iterator
from datetime import datetime

from bot.domain.message import ReadTodaysOrders
from bot.engine import cancels, operator, resume
from bot.engine.book import Book
from bot.engine.tracks import BackOff


def meet(book: Book) -> None:
    """Do everything whose time has come."""
    resume.expire_held(book)
    cancels.request_expired(book)
    cancels.advance(book)
    poll(book)
    operator.stop_if_settled(book)


def poll(book: Book) -> None:
    """Read the day book once for all orders and open questions that are due."""
    due = [(name, backoff) for name, backoff in _polls(book) if backoff.due <= book.now]
    for _, backoff in due:
        backoff.advance(book.now, book.settings.poll_backoff)
    if due and not _is_asked(book):
        book.book_asked_at = book.now
        book.command(ReadTodaysOrders(f"poll {', '.join(name for name, _ in due)}"))


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


def next_due(book: Book) -> datetime | None:
    """Return the earliest instant ahead at which something is due."""
    return min((at for at in _instants(book) if at > book.now), default=None)


def _instants(book: Book) -> Iterator[datetime]:
    yield from (backoff.due for _, backoff in _polls(book))
    yield from (o.expires_at for o in book.open_orders() if o.expires_at is not None)
    yield from (track.held_until for track in resume.held(book) if track.held_until is not None)
    if not book.gate.lacks_token:
        yield from (cancel.due for cancel in book.cancels.values())
    bar_end = book.bars.next_due()
    if bar_end is not None:
        yield bar_end
