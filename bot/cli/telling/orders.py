"""The lines of what became of an order: sent, refused, unknown, filled, cancelled."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bot.cli.telling.memory import Lines, Memory, line, more
from bot.cli.telling.wording import order_words, rejection_words
from bot.domain.entry import (
    AttemptFinished,
    Fill,
    IntentMoved,
    IntentRecorded,
    OrderUpdated,
    Transition,
)
from bot.domain.order import OrderState, SendState, Side


def keep_intent(memory: Memory, entry: IntentRecorded) -> Lines:
    memory.intents[entry.intent.intent_id] = entry.intent
    return []


def keep_answer(memory: Memory, entry: AttemptFinished) -> Lines:
    memory.answers[entry.intent_id] = entry
    return []


def tell_move(memory: Memory, entry: IntentMoved) -> Lines:
    told = _SEND_TELLERS.get(entry.to_state)
    return told(memory, entry) if told else []


def _send_accepted(memory: Memory, entry: IntentMoved) -> Lines:
    memory.announced.add(entry.intent_id)
    return []


def _send_held(memory: Memory, entry: IntentMoved) -> Lines:
    memory.held.add(entry.intent_id)
    return []


def _send_found(memory: Memory, entry: IntentMoved) -> Lines:
    memory.announced.add(entry.intent_id)
    return [line(entry.at, "SETTLED", entry.reason, entry.intent_id)]


def _send_unknown(_memory: Memory, entry: IntentMoved) -> Lines:
    text = f"no trusted answer: {entry.reason}"
    follow = f"never sent again; the day order book will tell · bot order {entry.intent_id}"
    return [line(entry.at, "UNKNOWN", text, entry.intent_id), more(follow)]


def _send_never_placed(_memory: Memory, entry: IntentMoved) -> Lines:
    text = f"never placed: {entry.proof or entry.reason}"
    return [line(entry.at, "SETTLED", text, entry.intent_id)]


def _send_not_sent(_memory: Memory, entry: IntentMoved) -> Lines:
    if entry.from_state is SendState.HELD:
        return []
    return [line(entry.at, "EXPIRED", f"not sent: {entry.reason}", entry.intent_id)]


def tell_transition(memory: Memory, entry: Transition) -> Lines:
    """Tell of a request that was refused outright; one with a row is told by its row."""
    intent_id = entry.intent_id or ""
    is_refusal = entry.to_state is OrderState.REJECTED and entry.order_id is None
    if not is_refusal or intent_id in memory.held:
        return []
    code, _, reason = entry.note.partition(" ")
    return _refused(entry.at, "refused", (code, reason), intent_id)


def tell_order(memory: Memory, entry: OrderUpdated) -> Lines:
    before = memory.status_line.orders.get(entry.order_id)
    who = entry.intent_id or entry.order_id
    if entry.state is OrderState.REJECTED:
        return _refused(entry.at, "rejected", (entry.code, entry.reason), who)
    if entry.intent_id in memory.announced:
        memory.announced.discard(entry.intent_id or "")
        return [_placed(memory, entry, who)]
    if before is None and entry.intent_id is None:
        is_doubted = entry.note.startswith(("may be ", "looks like "))
        whose = entry.note if is_doubted else "not ours"
        return [line(entry.at, "ORDER", f"{whose}: {_order_words(entry)}", who)]
    told = _ORDER_ENDS.get(entry.state)
    return [told(entry, who)] if told else _amended(entry, before, who)


def _placed(memory: Memory, entry: OrderUpdated, who: str) -> str:
    answer = memory.answers.pop(who, None)
    latency = f" ({answer.latency_ms} ms)" if answer else ""
    text = f"{_order_words(entry)} -> {entry.order_id} {entry.broker_status}{latency}"
    return line(entry.at, "ORDER", text, who)


def _amended(entry: OrderUpdated, before: OrderUpdated | None, who: str) -> Lines:
    if before is None or (before.price, before.quantity) == (entry.price, entry.quantity):
        return []
    text = f"{_order_words(before)} -> {_order_words(entry)}"
    return [line(entry.at, "AMEND", text, who)]


def tell_fill(memory: Memory, entry: Fill) -> Lines:
    memory.told_noes.pop((entry.strategy or "", entry.symbol), None)
    who = entry.intent_id or entry.order_id
    tax = f" tax {entry.tax:,}" if entry.tax else ""
    result = f" result {entry.realised:+,}" if entry.side is Side.SELL else ""
    tail = f"  fee {entry.fee:,}{tax}{result} position {entry.symbol} {entry.position:,}"
    if entry.order_executed < entry.order_quantity:
        so_far = f"{entry.order_executed:,} of {entry.order_quantity:,} @ {entry.price:,}"
        return [line(entry.at, "PARTIAL", so_far + tail, who)]
    return [line(entry.at, "FILL", f"{entry.quantity:,} @ {entry.price:,}{tail}", who)]


def _order_words(entry: OrderUpdated) -> str:
    return order_words(
        side=entry.side,
        quantity=entry.quantity,
        symbol=entry.symbol,
        order_type=entry.order_type,
        price=entry.price,
    )


def _refused(at: datetime, did: str, own: tuple[str | None, str | None], who: str) -> Lines:
    """What was wrong in our words, and below it the broker's own text."""
    code, reason = own
    quoted = f'"{reason}" · ' if reason else ""
    return [
        line(at, "REJECT", f"broker {did} it: {rejection_words(code, reason)}", who),
        more(f"{quoted}not sent again · bot order {who} --timeline"),
    ]


def _cancelled(entry: OrderUpdated, who: str) -> str:
    left, kept = entry.quantity - entry.executed_quantity, entry.executed_quantity
    ended = f"{kept:,} filled, {left:,} cancelled" if kept else f"{left:,} cancelled unfilled"
    return line(entry.at, "CANCEL", entry.note or ended, who)


def _lapsed(entry: OrderUpdated, who: str) -> str:
    left = entry.quantity - entry.executed_quantity
    text = f"{left:,} of {entry.quantity:,} lapsed unfilled at the close"
    return line(entry.at, "EXPIRED", text, who)


_ORDER_ENDS: Final[Mapping[OrderState, Callable[[OrderUpdated, str], str]]] = {
    OrderState.CANCELLED: _cancelled,
    OrderState.EXPIRED: _lapsed,
}
_SEND_TELLERS: Final[Mapping[SendState, Callable[[Memory, IntentMoved], Lines]]] = {
    SendState.ACKED: _send_accepted,
    SendState.HELD: _send_held,
    SendState.UNKNOWN: _send_unknown,
    SendState.MATCHED: _send_found,
    SendState.NOT_PLACED: _send_never_placed,
    SendState.NOT_SENT: _send_not_sent,
    SendState.EXPIRED_LOCAL: _send_not_sent,
}
