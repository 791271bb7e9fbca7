"""When the day order book is read: once for all that is due, at growing steps."""

from collections.abc import Iterator
from datetime import datetime

from bot.domain.message import ReadTodaysOrders
from bot.engine.state import State
from bot.engine.tracked import BackOff


def poll(state: State) -> None:
    """Ask for the day order book when anything is due and no answer is awaited."""
    due = [(name, backoff) for name, backoff in _polls(state) if backoff.due <= state.now]
    for _, backoff in due:
        backoff.advance(state.now, state.settings.poll_backoff)
    if due and not _is_asked(state):
        state.day_order_book_asked_at = state.now
        state.command(ReadTodaysOrders(f"poll {', '.join(name for name, _ in due)}"))


def satisfy(state: State, requested_at: datetime) -> None:
    """A day order book has come: what was due when it was asked for need not be asked for again."""
    state.day_order_book_asked_at = None
    for _, backoff in _polls(state):
        if backoff.due <= requested_at:
            backoff.advance(state.now, state.settings.poll_backoff)


def instants(state: State) -> Iterator[datetime]:
    """When the day order book is due, by order and by question."""
    return (backoff.due for _, backoff in _polls(state))


def _is_asked(state: State) -> bool:
    """True while an answer is still awaited; a read that was lost is asked for again."""
    asked = state.day_order_book_asked_at
    return asked is not None and state.now - asked < state.settings.read_patience


def _polls(state: State) -> Iterator[tuple[str, BackOff]]:
    for order in state.open_orders():
        if order.poll is not None:
            yield order.row.intent_id or order.row.order_id, order.poll
    for tracked in state.intents.values():
        if tracked.poll is not None and tracked.order_id is None:
            yield tracked.intent.intent_id, tracked.poll
