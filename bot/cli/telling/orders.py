"""The lines of a decision, and of what became of its order: sent, refused, unknown, filled,
cancelled.
"""

import re
from datetime import datetime
from typing import Final

from bot.cli.telling.memory import Lines, Memory, line, more
from bot.cli.telling.wording import order_in, order_words, rejection_words
from bot.domain.entry import (
    AttemptFinished,
    Decision,
    Fill,
    IntentMoved,
    IntentRecorded,
    Numbers,
    OrderUpdated,
    Transition,
    Verdict,
)
from bot.domain.local_time import minute_of
from bot.domain.order import OrderState, SendState, Side

CHECKS_SHOWN: Final = ("MAX_ORDER_VALUE", "MAX_ORDERS", "CASH", "SELLABLE")
"""The checks whose numbers are worth showing when all have passed."""
OWN_WORDS: Final = "SKIP"
"""The code of a skip in a strategy's own words, by which its reasons are distinguished."""
REASONS_MAX: Final = 1_000
"""How many different reasons are counted between two pulses."""
VERDICT: Final = "VERDICT_"
"""Prefix of the codes of a verdict's checks."""
_FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")


def decision_lines(memory: Memory, entry: Decision) -> Lines:
    order, who = order_in(entry), entry.request_id or entry.strategy
    at, place = entry.at, (entry.strategy, entry.symbol)
    match entry.verdict:
        case Verdict.PASSED:
            if entry.code == "CANCEL":
                return []
            memory.skips.pop(place, None)
            memory.gaps.pop(place, None)
            shown = [each.text for each in entry.checks if each.text and each.code in CHECKS_SHOWN]
            numbers, many = ", ".join(shown), len(entry.checks)
            request = f"{entry.side or '':<4} {entry.symbol:<4} {entry.why}"
            return [
                line(at, "DECIDE", request, entry.strategy),
                line(at, "CHECK", f"{many} of {many} ok ({numbers})", entry.strategy),
            ]
        case Verdict.SKIPPED:
            _count(memory, entry)
            if (gap := gap_percent(entry.numbers)) is not None:
                memory.gaps[place] = gap
            skip = line(at, "SKIP", f"{entry.symbol:<4} {entry.why}", entry.strategy)
            return [skip] if _is_news(memory, entry) else []
        case Verdict.BLOCKED:
            _count(memory, entry)
            if not _is_news(memory, entry):
                return []
            why = ", ".join(f"{name} {value}" for name, value in entry.numbers.items()) or entry.why
            if entry.checks:
                why = f"{entry.checks[-1].text} ({entry.code})"
            elif (reason := entry.numbers.get("reason")) is not None:
                why = str(reason)
            return [line(at, "BLOCK", _blocked(entry, why), entry.strategy)]
        case Verdict.WATCHED:
            return [line(at, "WATCH", f"{order} not sent · {entry.why}", entry.strategy)]
        case Verdict.HELD:
            until = entry.numbers.get("until")
            ends = datetime.fromisoformat(until) if isinstance(until, str) else None
            limit = f" until {minute_of(ends)}" if ends else ""
            return [line(at, "HELD", f"{order} waits for 2FA{limit}", who)]
        case Verdict.EXPIRED:
            reason = entry.numbers.get("reason") or entry.why
            return [line(at, "EXPIRED", f"{order} not sent: {reason}", who)]
        case Verdict.FAILED:
            text = f"{entry.symbol:<4} {entry.code}: {entry.why}"
            return [line(at, "ALERT", text, entry.strategy)]


def _blocked(entry: Decision, why: str) -> str:
    """Describe what was not done. A person's request is about an order that has been sent, or (a
    verdict) nothing to send at all.
    """
    if entry.code.startswith(VERDICT):
        return f"the verdict on {entry.request_id or 'an order'} was refused: {why}"
    if "by" in entry.numbers:
        what = "change" if "quantity" in entry.numbers else "cancel"
        return f"the {what} of {entry.request_id or 'an order'} was refused: {why}"
    request = order_words(side=entry.side, quantity=entry.quantity, symbol=entry.symbol)
    name = f" · {entry.request_id}" if entry.request_id else ""
    return f"{request} not sent: {why}{name}"


def gap_percent(numbers: Numbers) -> float | None:
    """The distance between two values of one indicator, such as `sma(5)` and
    `sma(20)`; else None.
    """
    figures = [each for each in numbers.values() if isinstance(each, int | float)]
    indicators = {name.partition("(")[0] for name in numbers}
    if len(figures) != 2 or len(numbers) != 2 or len(indicators) != 1 or not all(figures):
        return None
    return 100 * abs(figures[0] - figures[1]) / max(map(abs, figures))


def _count(memory: Memory, entry: Decision) -> None:
    """Count a decision without a request together with equal ones; the pulse shows the most
    frequent.
    """
    key = entry.strategy, entry.code, _FIGURE.sub("#", entry.why)
    times, _ = memory.reasons.get(key, (0, ""))
    if times or len(memory.reasons) < REASONS_MAX:
        memory.reasons[key] = times + 1, f"{entry.symbol} {entry.why}"


def _is_news(memory: Memory, entry: Decision) -> bool:
    """Return whether this skip has not been shown since something else happened there."""
    shown = memory.skips.setdefault((entry.strategy, entry.symbol), set())
    words = _FIGURE.sub("#", entry.why) if entry.code == OWN_WORDS else ""
    reason = f"{entry.verdict} {entry.code} {words}"
    is_news = reason not in shown
    shown.add(reason)
    return is_news


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
