"""A person's verdict on an order that nobody knows about: which row it is, or that it is none.

It ends a question that the bot cannot settle (REACHED, AMBIGUOUS) and is journalled with all that
was known when it was given. What the bot still finds out by itself is not a person's to say.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from bot.domain.entry import CheckResult
from bot.domain.operations import VerdictAsked
from bot.domain.order import OrderReport, SendState
from bot.engine.orders import asks, orders, unknown
from bot.engine.orders.question_words import facts_of, order_words
from bot.engine.risk.codes import judged
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

_ANSWERABLE: Final = frozenset({SendState.REACHED, SendState.AMBIGUOUS})
_STILL_TRIED: Final = (
    "and still being found out: its nonce is tried for at most 270 s, and the day order book read"
)

_NOW: Final[Mapping[SendState, str]] = {
    SendState.READY: "not sent yet",
    SendState.HELD: "waiting for a 2FA token, and not sent",
    SendState.SENDING: "being sent",
    SendState.ACKED: "accepted by the broker: its rows say what becomes of it",
    SendState.MATCHED: "found in the day order book: its rows say what becomes of it",
    SendState.REFUSED: "refused by the broker, so there is none",
    SendState.DENIED: "refused by a check of the bot, so there is none",
    SendState.NOT_SENT: "not sent, so there is none",
    SendState.EXPIRED_LOCAL: "not sent in time, so there is none",
    SendState.NOT_PLACED: "settled as never placed",
    SendState.EOD_ABSENT: "settled: its day ended without a row of it",
    SendState.UNKNOWN: f"of unknown outcome {_STILL_TRIED}",
    SendState.FRESH: f"of unknown outcome {_STILL_TRIED}",
    SendState.REACHED: "possibly at the broker",
    SendState.AMBIGUOUS: "one of several rows, or of none",
}
"""What an order is whose verdict is refused."""


def on_verdict_asked(state: State, event: VerdictAsked) -> None:
    """End the question as the person says, or change nothing and say why not."""
    refused, tracked = objection(state, event), state.intents.get(event.intent_id)
    if refused is not None or tracked is None:
        assert refused is not None, "what is not known is refused"
        asks.refuse(state, event, refused, tracked.intent if tracked is not None else None)
        return
    rows = unknown.candidates(state, tracked)
    told = event.order_id or "never placed"
    facts = {**facts_of(tracked, rows), "verdict": told, "reason": event.reason, "by": event.by}
    seen = [state.orders[row_id].row for row_id in rows]
    facts |= {f"row {row.order_id}": f"{row.state} {row.executed_quantity:,}" for row in seen}
    text = f"{order_words(tracked.intent)}: {told}, says {event.by}: {event.reason}"
    state.note("VERDICT", text, facts, symbol=tracked.intent.symbol)
    said = f"{event.by} says: {event.reason}"
    row = _row(state, tracked, event.order_id) if event.order_id is not None else None
    if row is None:
        unknown.release(state, tracked, SendState.NOT_PLACED, "never placed", proof=said)
    else:
        row = orders.claim(state, row)  # it was nobody's so far
        unknown.take_over(state, tracked, row, f"{row.order_id}, {said}")


def objection(state: State, ask: VerdictAsked) -> CheckResult | None:
    """Return why a verdict would be refused now, None when it would be taken; nothing changes."""
    return next((found for found in _checks(state, ask) if not found.passed), None)


def _checks(state: State, ask: VerdictAsked) -> Iterator[CheckResult]:
    yield judged("VERDICT_REASON", bool(ask.reason.strip()), intent_id=ask.intent_id)
    tracked = state.intents.get(ask.intent_id)
    now_is = "no order of today" if tracked is None else _NOW[tracked.state]
    is_open = tracked is not None and tracked.state in _ANSWERABLE
    yield judged("VERDICT_OPEN", is_open, intent_id=ask.intent_id, state=now_is)
    if tracked is None or ask.order_id is None:
        return
    row, order_id = _row(state, tracked, ask.order_id), ask.order_id
    yield judged("VERDICT_ROW", row is not None, order_id=order_id, why="not in today's order book")
    order = state.orders.get(order_id)
    is_free = order is None or not order.is_own
    yield judged("VERDICT_ROW", is_free, order_id=order_id, why="another order of this bot")
    is_later = order_id not in tracked.known_ids
    why = f"older than {ask.intent_id}: it was there before that was sent"
    yield judged("VERDICT_ROW", is_later, order_id=order_id, why=why)
    intent = tracked.intent
    asked = intent.side, intent.quantity, intent.symbol, intent.account, intent.trading_date
    shown = row and (row.side, row.quantity, row.symbol, row.account, row.trading_date)
    why = f"{row.side} {row.quantity:,} {row.symbol}, not {order_words(intent)}" if row else ""
    yield judged("VERDICT_ROW", shown == asked, order_id=order_id, why=why)


def _row(state: State, tracked: TrackedIntent, order_id: str) -> OrderReport | None:
    """Return the newest row of an id in the day order book of the intent's account."""
    read = state.set_aside.get(tracked.intent.account)
    rows = read.reports if read is not None else ()
    return next((row for row in rows if row.order_id == order_id), None)
