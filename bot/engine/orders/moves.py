"""Moves of the two machines, by their tables, journalled; an illegal one changes nothing."""

from bot.domain.entry import IntentMoved, Transition
from bot.domain.order import ORDER_MOVES, SEND_MOVES, OrderState, SendState
from bot.engine.gate import IllegalMove
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent


def move_intent(
    state: State, tracked: TrackedIntent, to: SendState, reason: str, *, proof: str | None = None
) -> None:
    """Move an intent's send state. Raises IllegalMove; NOT_PLACED needs its proof."""
    if to not in SEND_MOVES[tracked.state]:
        raise IllegalMove(tracked.intent.intent_id, tracked.state, to)
    assert proof is not None or to is not SendState.NOT_PLACED, "a verdict carries its proof"
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
