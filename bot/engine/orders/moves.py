"""Moves of the two machines, by their tables, journalled; an illegal one changes nothing."""

from bot.domain.entry import IntentMoved, Transition
from bot.domain.order import ORDER_MOVES, SEND_MOVES, OrderState, SendState
from bot.engine.errors import IllegalMove
from bot.engine.state import Book
from bot.engine.tracks import IntentTrack


def move_intent(
    book: Book, track: IntentTrack, to: SendState, reason: str, *, proof: str | None = None
) -> None:
    """Move an intent's send state. Raises IllegalMove; NOT_PLACED needs its proof."""
    if to not in SEND_MOVES[track.state]:
        raise IllegalMove(track.intent.intent_id, track.state, to)
    assert proof is not None or to is not SendState.NOT_PLACED, "a verdict carries its proof"
    book.record(IntentMoved(book.now, track.intent.intent_id, track.state, to, reason, proof))
    track.state = to


def move_unplaced(
    book: Book, track: IntentTrack, to: OrderState, *, source: str, note: str = ""
) -> None:
    """Move the order state of an intent that has no order id. Raises IllegalMove."""
    if to not in ORDER_MOVES[track.order_state]:
        raise IllegalMove(track.intent.intent_id, track.order_state, to)
    book.record(
        Transition(
            at=book.now,
            intent_id=track.intent.intent_id,
            order_id=track.order_id,
            from_state=track.order_state,
            to_state=to,
            broker_status=None,
            source=source,
            note=note,
        )
    )
    track.order_state = to
