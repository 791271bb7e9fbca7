"""What is due by the clock, looked at after every event: nothing has a timer of its own."""

from collections.abc import Iterator
from datetime import datetime

from bot.engine import operator, polling
from bot.engine.faults import guarded
from bot.engine.orders import amends, cancels, held
from bot.engine.state import Book


def meet(book: Book) -> None:
    """Do everything whose time has come."""
    guarded(book, "held orders", held.expire_held, book)
    guarded(book, "orders whose time is over", cancels.request_expired, book)
    guarded(book, "cancels", cancels.advance, book)
    guarded(book, "amendments", amends.advance, book)
    guarded(book, "polls", polling.poll, book)
    guarded(book, "the stop", operator.stop_if_settled, book)


def next_due(book: Book) -> datetime | None:
    """Return the earliest instant ahead at which something is due."""
    return min((at for at in _instants(book) if at > book.now), default=None)


def _instants(book: Book) -> Iterator[datetime]:
    yield from polling.instants(book)
    yield from (o.expires_at for o in book.open_orders() if o.expires_at is not None)
    yield from (track.held_until for track in held.held(book) if track.held_until is not None)
    if not book.gate.lacks_token:
        yield from (cancel.due for cancel in book.cancels.values())
    yield from amends.instants(book)
    bar_end = book.bars.next_due()
    if bar_end is not None:
        yield bar_end
