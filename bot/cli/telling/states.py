"""The lines of how the bot is: its state, the second factor, strategies, and notes."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from bot.cli.telling.memory import Lines, Memory, line, more
from bot.cli.telling.wording import LINE_MAX, by_words, clock_of, counted, order_words, span_of
from bot.domain.entry import (
    AuthEvent,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
    StrategySwitched,
)

NOTE_KINDS: Final = {"PHASE": "SESSION", "RESUME": "RESUMED", "SCHEDULE": "ALERT"}
"""Kinds of notes that have another word on the screen."""
LEAVE_HALT: Final = (
    'open orders are being cancelled, positions stay · to go on: bot resume --reason "…"'
)
QUOTE_EVERY_S: Final = 300
"""Market seconds between two quotes of a symbol on the screen."""
LIMIT_EVERY: Final = timedelta(minutes=5)
LIMIT_SHORT: Final = timedelta(seconds=1)
LIMIT_LONG: Final = timedelta(seconds=10)
"""A wait for the quota of this length is always told; a shorter one, not a trifle, now and then."""


def tell_auth(memory: Memory, entry: AuthEvent) -> Lines:
    if entry.kind == "needed":
        memory.needed = entry
        return []
    if entry.kind == "ready":
        memory.ready = entry
        return []
    return [line(entry.at, "2FA", f"{_AUTH_WORDS.get(entry.kind, '')}{entry.detail}")]


def tell_state(memory: Memory, entry: StateChanged) -> Lines:
    if entry.scope.startswith("symbol:"):
        return []  # its ALERT tells it
    if entry.scope != "all":
        kind = _STATE_KINDS.get(entry.to_state, "RESUMED")
        return [line(entry.at, kind, by_words(entry.by, entry.reason))]
    if entry.to_state is RunState.NEEDS_2FA:
        return _paused_for_token(memory, entry)
    if entry.to_state is RunState.RUNNING:
        return _running_again(memory, entry)
    if memory.paused_at is None and entry.to_state in _PAUSES:
        memory.paused_at = entry.at
    if entry.to_state is RunState.STOPPING and entry.by == "demo":
        return [line(entry.at, "DEMO", f"{entry.reason} · stopping cleanly")]
    lines = [
        *_token_taken(memory, entry),
        line(entry.at, _STATE_KINDS[entry.to_state], _why(entry)),
    ]
    return [*lines, more(LEAVE_HALT)] if entry.to_state is RunState.HALTED else lines


def _why(entry: StateChanged) -> str:
    if entry.to_state is RunState.DEGRADED:
        return f"the broker can't be read: {entry.reason}"
    if entry.by == "signal":
        return f"by {entry.reason}"
    return by_words(entry.by, entry.reason)


def _token_taken(memory: Memory, entry: StateChanged) -> Lines:
    """The token that came although something else still keeps the bot from trading."""
    ready, is_left = memory.ready, entry.from_state is RunState.NEEDS_2FA
    if ready is None or not is_left or ready.at != entry.at:
        return []
    return [line(entry.at, "2FA", f"ok {ready.detail}")]


def _paused_for_token(memory: Memory, entry: StateChanged) -> Lines:
    memory.paused_at = entry.at
    orders = memory.status_line.open_orders()
    listed = ", ".join(f"{each.order_id} {_short(each)}" for each in orders)
    cannot = f"{counted(len(orders), 'open order')} can't be cancelled meanwhile: {listed}"
    return [
        line(entry.at, "PAUSED", _why_paused(memory, entry)),
        more("Stopped: placing, changing, cancelling. On: quotes, positions, journal."),
        *([more(cannot)] if orders else []),
        more("Go on: bot otp, or at the question here"),
    ]


def _why_paused(memory: Memory, entry: StateChanged) -> str:
    needed = memory.needed
    intent = memory.intents.get(needed.intent_id or "") if needed else None
    if needed is None:
        return entry.reason
    if intent is None:
        return f"needs 2FA · {needed.code}: {needed.detail}"
    wish = order_words(side=intent.side, quantity=intent.quantity, symbol=intent.symbol, price=None)
    return f"needs 2FA · 403 {needed.code} on {intent.intent_id} ({wish}) · not sent again"


def _running_again(memory: Memory, entry: StateChanged) -> Lines:
    paused_at, memory.paused_at = memory.paused_at, None
    if entry.from_state is RunState.STARTING:
        return [line(entry.at, "RUNNING", entry.reason)]
    paused = f" · paused {span_of(entry.at - paused_at)}" if paused_at else ""
    proof = " · unproven until the first order"
    tail = proof if entry.from_state is RunState.NEEDS_2FA else ""
    return [line(entry.at, "RESUMED", f"{by_words(entry.by, entry.reason)}{paused}{tail}")]


def tell_switch(_memory: Memory, entry: StrategySwitched) -> Lines:
    kind = _SWITCH_KINDS.get(entry.state, "ALERT")
    text = by_words(entry.by, entry.reason) or entry.state
    shown = f"{entry.state}: {text}" if kind == "ALERT" and text != entry.state else text
    return [line(entry.at, kind, shown, entry.strategy)]


def tell_note(memory: Memory, entry: Note) -> Lines:
    is_due = _DUE.get(entry.kind)
    if is_due is not None and not is_due(memory, entry):
        return []
    kind = NOTE_KINDS.get(entry.kind, entry.kind)
    told = line(entry.at, kind, _note_text(entry))
    return _with_nearest(memory, told) if entry.kind == "PULSE" else [told]


def _is_limit_due(memory: Memory, entry: Note) -> bool:
    """A wait that a person would notice; a lesser one once in a while."""
    until, before = entry.numbers.get("until"), memory.limited_at
    waits = datetime.fromisoformat(until) - entry.at if isinstance(until, str) else LIMIT_LONG
    is_news = before is None or entry.at - before >= LIMIT_EVERY
    if waits < LIMIT_LONG and not (is_news and waits >= LIMIT_SHORT):
        return False
    memory.limited_at = entry.at
    return True


def _is_quote_due(memory: Memory, entry: Note) -> bool:
    symbol, last = entry.symbol or "", memory.quoted.get(entry.symbol or "")
    if last is not None and (entry.at - last).total_seconds() < QUOTE_EVERY_S:
        return False
    memory.quoted[symbol] = entry.at
    return True


def _short(entry: OrderUpdated) -> str:
    left = entry.quantity - entry.executed_quantity
    return order_words(side=entry.side, quantity=left, symbol=entry.symbol)


def _note_text(entry: Note) -> str:
    until = entry.numbers.get("until")
    if entry.kind != "LIMIT" or not isinstance(until, str):
        return entry.text
    waiting = entry.numbers.get("waiting")
    queued = f", {counted(waiting, 'call')} queued" if isinstance(waiting, int) and waiting else ""
    return f"{entry.text}, waiting until {clock_of(datetime.fromisoformat(until))}{queued}"


def _with_nearest(memory: Memory, pulse: str) -> Lines:
    """Who was nearest to a signal since the pulse before, by the gap of its two lines."""
    if not memory.gaps:
        return [pulse]
    (strategy, symbol), gap = min(memory.gaps.items(), key=lambda item: item[1])
    memory.gaps.clear()
    nearest = f"nearest {strategy} {symbol} gap {gap:.2f}%"
    whole = f"{pulse} · {nearest}"
    return [whole] if len(whole) <= LINE_MAX else [pulse, more(nearest)]


_DUE: Final[Mapping[str, Callable[[Memory, Note], bool]]] = {
    "QUOTE": _is_quote_due,
    "LIMIT": _is_limit_due,
}
"""Kinds of notes that are told now and then."""
_PAUSES: Final = frozenset({RunState.PAUSED, RunState.HALTED, RunState.DEGRADED})
_STATE_KINDS: Final[Mapping[RunState, str]] = {
    RunState.STARTING: "RUNNING",
    RunState.PAUSED: "PAUSED",
    RunState.DEGRADED: "PAUSED",
    RunState.HALTED: "HALTED",
    RunState.STOPPING: "STOP",
    RunState.STOPPED: "STOP",
}
_SWITCH_KINDS: Final = {"on": "RESUMED", "paused": "PAUSED", "warming": "SKIP"}
_AUTH_WORDS: Final = {
    "proved": "ok, ",
    "CODE_REQUESTED": "code ",
}
