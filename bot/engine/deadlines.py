"""What is due by the clock, looked at after every event: nothing has a timer of its own."""

from collections.abc import Iterator
from datetime import datetime

from bot.engine import operator, polling
from bot.engine.faults import guarded
from bot.engine.orders import amends, cancels, held
from bot.engine.state import State


def meet(state: State) -> None:
    """Do everything whose time has come."""
    guarded(state, "held orders", held.expire_held, state)
    guarded(state, "orders whose time is over", cancels.request_expired, state)
    guarded(state, "cancels", cancels.advance, state)
    guarded(state, "amendments", amends.advance, state)
    guarded(state, "polls", polling.poll, state)
    guarded(state, "the stop", operator.stop_if_settled, state)


def next_due(state: State) -> datetime | None:
    """Return the earliest instant ahead at which something is due."""
    return min((at for at in _instants(state) if at > state.now), default=None)


def _instants(state: State) -> Iterator[datetime]:
    yield from polling.instants(state)
    yield from (o.expires_at for o in state.open_orders() if o.expires_at is not None)
    yield from (
        tracked.held_until for tracked in held.held(state) if tracked.held_until is not None
    )
    if not state.gate.lacks_token:
        yield from (cancel.due for cancel in state.cancels.values())
    yield from amends.instants(state)
    bar_end = state.bars.next_due()
    if bar_end is not None:
        yield bar_end
