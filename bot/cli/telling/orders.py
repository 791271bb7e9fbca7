"""The lines on the fate of an order: sent, refused, unknown, filled, cancelled."""

from datetime import datetime

from bot.cli.telling.memory import Lines, Memory, line, more
from bot.cli.telling.wording import order_in, rejection_words
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


def move_lines(memory: Memory, entry: IntentMoved) -> Lines:
    """The lines on the result of sending, if no row of the order has it."""
    at, who = entry.at, entry.intent_id
    match entry.to_state:
        case SendState.ACKED:
            memory.announced.add(who)
        case SendState.HELD:
            memory.held.add(who)
        case SendState.MATCHED:
            memory.announced.add(who)
            return [line(at, "SETTLED", entry.reason, who)]
        case SendState.UNKNOWN:
            follow = f"never sent again; the day order book will tell · bot order {who}"
            return [line(at, "UNKNOWN", f"no trusted answer: {entry.reason}", who), more(follow)]
        case SendState.NOT_PLACED:
            return [line(at, "SETTLED", f"never placed: {entry.proof or entry.reason}", who)]
        case SendState.NOT_SENT | SendState.EXPIRED_LOCAL:
            if entry.from_state is not SendState.HELD:
                return [line(at, "EXPIRED", f"not sent: {entry.reason}", who)]
    return []


def transition_lines(memory: Memory, entry: Transition) -> Lines:
    """The lines for a request that was refused outright; an order with a row is covered by that."""
    intent_id = entry.intent_id or ""
    is_refusal = entry.to_state is OrderState.REJECTED and entry.order_id is None
    if not is_refusal or intent_id in memory.held:
        return []
    code, _, reason = entry.note.partition(" ")
    return _refused(entry.at, "refused", code, reason, intent_id)


def order_lines(memory: Memory, entry: OrderUpdated) -> Lines:
    """The lines for a new or changed row of the day order book."""
    before = memory.status_line.orders.get(entry.order_id)
    who, order = entry.intent_id or entry.order_id, order_in(entry)
    left, kept = entry.quantity - entry.executed_quantity, entry.executed_quantity
    if entry.state is OrderState.REJECTED:
        return _refused(entry.at, "rejected", entry.code, entry.reason, who)
    if entry.intent_id in memory.announced:
        memory.announced.discard(entry.intent_id or "")
        answer = memory.answers.pop(who, None)
        latency = f" ({answer.latency_ms} ms)" if answer else ""
        text = f"{order} -> {entry.order_id} {entry.broker_status}{latency}"
        return [line(entry.at, "ORDER", text, who)]
    if before is None and entry.intent_id is None:
        is_doubted = entry.note.startswith(("may be ", "looks like "))
        owner = entry.note if is_doubted else "not ours"
        return [line(entry.at, "ORDER", f"{owner}: {order}", who)]
    if entry.state is OrderState.CANCELLED:
        ended = f"{kept:,} filled, {left:,} cancelled" if kept else f"{left:,} cancelled unfilled"
        return [line(entry.at, "CANCEL", entry.note or ended, who)]
    if entry.state is OrderState.EXPIRED:
        text = f"{left:,} of {entry.quantity:,} lapsed unfilled at the close"
        return [line(entry.at, "EXPIRED", text, who)]
    if before is None or (before.price, before.quantity) == (entry.price, entry.quantity):
        return []
    return [line(entry.at, "AMEND", f"{order_in(before)} -> {order}", who)]


def fill_lines(memory: Memory, entry: Fill) -> Lines:
    """The line of a fill; equal skips are shown again from here on."""
    memory.skips.pop((entry.strategy or "", entry.symbol), None)
    who = entry.intent_id or entry.order_id
    tax = f" tax {entry.tax:,}" if entry.tax else ""
    result = f" result {entry.realised:+,}" if entry.side is Side.SELL else ""
    tail = f"  fee {entry.fee:,}{tax}{result} position {entry.symbol} {entry.position:,}"
    if entry.order_executed < entry.order_quantity:
        so_far = f"{entry.order_executed:,} of {entry.order_quantity:,} @ {entry.price:,}"
        return [line(entry.at, "PARTIAL", so_far + tail, who)]
    return [line(entry.at, "FILL", f"{entry.quantity:,} @ {entry.price:,}{tail}", who)]


def _refused(at: datetime, did: str, code: str | None, reason: str | None, who: str) -> Lines:
    """What was wrong in our words, and below that the broker's own text."""
    quoted = f'"{reason}" · ' if reason else ""
    return [
        line(at, "REJECT", f"broker {did} it: {rejection_words(code, reason)}", who),
        more(f"{quoted}not sent again · bot order {who} --timeline"),
    ]
