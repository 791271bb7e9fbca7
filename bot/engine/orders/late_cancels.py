"""What is said of a cancel that is not through: which order, why, and what comes next.

Named are those that wait by rule, at once, and all others after 8 s: a cancel that meets no fault
is through long before that.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import Numbers
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import type_word
from bot.engine.cancelling import CancelStage, Hindrance, TrackedCancel
from bot.engine.orders import doubts
from bot.engine.state import State
from bot.engine.watched import Standing

LATE_AFTER: Final = timedelta(seconds=8)
"""When a cancel that is not through is named, on the screen and in the status."""
BY_RULE: Final = frozenset({Hindrance.TWO_FACTOR, Hindrance.PHASE})
"""What lets no DELETE go at all."""
IN_THE_APP: Final = "If it must end now, cancel it in the broker's own app"


def is_late(state: State, cancel: TrackedCancel) -> bool:
    """Whether it is not through in time, though no rule holds it back."""
    return cancel.hindrance not in BY_RULE and state.now >= cancel.since + LATE_AFTER


def alerts(state: State) -> Iterator[Standing]:
    """Yield each cancel that waits by rule, or is not through in time, and why."""
    for cancel in state.cancels.values():
        if cancel.hindrance in BY_RULE or is_late(state, cancel):
            yield Standing("CANCEL_OPEN", _sentence(state, cancel), facts_of(state, cancel))


def sentences(state: State) -> list[str]:
    """Name each order that is being cancelled and still open, and why it is."""
    return [_sentence(state, cancel) for cancel in state.cancels.values()]


def why(state: State, cancel: TrackedCancel) -> str:
    """Say why the order is still open, and when the next thing is done about it."""
    detail, next_at = cancel.detail, _clock(cancel.due)
    match cancel.hindrance:
        case Hindrance.TWO_FACTOR:
            return "there is no 2FA token; the cancel goes out when there is one: bot otp"
        case Hindrance.PHASE:
            if _lapses(state, cancel):
                return f"the exchange cancels nothing any more today ({detail}); it lapses then"
            return f"the exchange cancels nothing now ({detail}); the cancel goes out at {next_at}"
        case Hindrance.FORBIDDEN if state.orders[cancel.order_id].change is not None:
            said = f"the broker shows {detail}, and its change has no answer yet, which may tell of"
            said += " a new id"
        case Hindrance.FORBIDDEN:
            said = f"the broker's row says that it can't be cancelled now (status {detail})"
        case Hindrance.NOT_SENT:
            said = f"the cancel could not be sent: {detail}"
        case Hindrance.QUOTA:
            said = "the broker's request quota is used up (429)"
        case Hindrance.NO_ANSWER:
            said = f"the cancel had no answer that can be trusted: {detail or 'none came'}"
        case Hindrance.REFUSED:
            said = f"the broker refused the cancel: {detail}"
        case Hindrance.NOT_SHOWN:
            said = "the broker took the cancel, but no row shows the end of the order"
            said += f" (a later one was refused: {detail})" if detail else ""
        case _:
            said = "the cancel has no answer yet"
    return said if cancel.stage is CancelStage.SENT else f"{said}; next try at {next_at}"


def name_of(state: State, cancel: TrackedCancel) -> str:
    """Name the order: `ORD1 (L-0001, BUY 100 HPG at 27,000)`."""
    order = state.orders[cancel.order_id]
    row = order.row
    price = f"at {row.price:,}" if row.price is not None else type_word(row.order_type)
    words = f"{row.side} {order.open_quantity:,} {row.symbol} {price}"
    return f"{row.order_id} ({row.intent_id}, {words})"


def _sentence(state: State, cancel: TrackedCancel) -> str:
    tries = f" after {cancel.tries} cancels" if cancel.tries else ""
    now_is = f"{name_of(state, cancel)} is still open{tries} ({cancel.reason})"
    return f"{now_is}: {why(state, cancel)}"


def facts_of(state: State, cancel: TrackedCancel) -> Numbers:
    """Return the numbers and names of which a message about a cancel is made."""
    order = state.orders[cancel.order_id]
    is_over = cancel.hindrance is Hindrance.PHASE and _lapses(state, cancel)
    return {
        **doubts.facts_of(order.row),
        "quantity": order.open_quantity,
        "reason": cancel.reason,
        "tries": cancel.tries,
        "hindrance": "DAY_OVER" if is_over else cancel.hindrance,
        "detail": cancel.detail,
        "next": cancel.due.isoformat(),
    }


def tell(state: State, code: str, cancel: TrackedCancel, what_next: str, about: str = "") -> None:
    """Alert, once for an order and what it is `about`."""
    row, facts = state.orders[cancel.order_id].row, facts_of(state, cancel)
    text = f"{_sentence(state, cancel)}. {what_next}"
    state.alert(code, text, facts, about=f"{row.order_id} {about}", symbol=row.symbol)


def _lapses(state: State, cancel: TrackedCancel) -> bool:
    """Whether the exchange takes no cancel any more today."""
    return cancel.due.astimezone(EXCHANGE_TZ).date() > state.trading_date


def _clock(at: datetime) -> str:
    return f"{at.astimezone(EXCHANGE_TZ):%H:%M:%S}"
