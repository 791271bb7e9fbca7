"""The lines on the bot's own state: running or paused, 2FA, strategies, notes."""

from datetime import datetime, timedelta
from typing import Final

from bot.cli.telling.languages import Say, phrases, told
from bot.cli.telling.memory import Lines, Memory, line, more
from bot.cli.telling.wording import (
    BY_OPERATOR,
    LINE_MAX,
    SIGNALLED,
    by_words,
    counted,
    order_words,
    span_of,
)
from bot.domain.entry import (
    AUTH_DROPPED,
    AUTH_TAKEN,
    AUTH_TYPED,
    CLOSE_NOTE,
    CODE_NOTE,
    LIMITS_NOTE,
    NOTICE_NOTE,
    REDUCED_SCOPE,
    AuthEvent,
    Note,
    RunState,
    StateChanged,
    StrategySwitched,
)
from bot.domain.local_time import clock_of

NOTE_KINDS: Final = {
    "PHASE": "SESSION",
    "RESUME": "RESUMED",
    "SCHEDULE": "ALERT",
    "MISSED": "ALERT",
}
"""Kinds of notes that have another name on the screen."""
LEAVE_HALT: Final = (
    'open orders are being cancelled, positions stay · continue: bot resume --reason "…"'
)
KEPT_OPEN: Final = 'open orders stay, or bot cancel --all · continue: bot resume --reason "…"'
"""Instead, where the bot has halted itself for a fault of its own."""
QUOTE_EVERY_S: Final = 300
"""Market seconds between two shown quotes of a symbol."""
LIMIT_EVERY: Final = timedelta(minutes=5)
LIMIT_SHORT: Final = timedelta(seconds=1)
LIMIT_LONG: Final = timedelta(seconds=10)
"""Longer waits for the quota are always shown; shorter ones only now and then."""
_BY_BROKER, _BY_JOURNAL, _BY_ENGINE = "broker", "database", "engine"
"""The engine's names for three causes: no read works, nothing can be written, its own fault."""
_PAUSES: Final = frozenset({RunState.PAUSED, RunState.HALTED, RunState.DEGRADED})
_STATE_KINDS: Final = {
    RunState.STARTING: "RUNNING",
    RunState.PAUSED: "PAUSED",
    RunState.REDUCING: "PAUSED",
    RunState.DEGRADED: "PAUSED",
    RunState.HALTED: "HALTED",
    RunState.STOPPING: "STOP",
    RunState.STOPPED: "STOP",
}


def auth_lines(memory: Memory, entry: AuthEvent) -> Lines:
    if entry.kind == "needed":
        memory.needed = entry
        return []
    if entry.kind == "ready":
        memory.ready = entry
        if memory.status_line.state is not RunState.HALTED:
            return []  # the change of state says it
        say = phrases(memory.language)
        text = say(f"ok {entry.detail}; the bot stays HALTED")
        return [line(entry.at, "2FA", text), more(say(_halt_words(memory)))]
    if entry.kind in {AUTH_TYPED, AUTH_TAKEN, AUTH_DROPPED}:
        return []
    word = {"proved": "ok, ", "CODE_REQUESTED": "code "}.get(entry.kind, "")
    return [line(entry.at, "2FA", f"{word}{entry.detail}")]


def _who(say: Say, by: str, reason: str) -> str:
    """Who did it and why: `by you: lunch`. What a person has typed stays as it is."""
    if by == SIGNALLED:
        return say("by {signal}", signal=reason)
    who, why = say(by_words(by, "")), reason if by == BY_OPERATOR else say(reason)
    return ": ".join(filter(None, (who, why)))


def state_lines(memory: Memory, entry: StateChanged) -> Lines:
    say = phrases(memory.language)
    at, to_state, by = entry.at, entry.to_state, _who(say, entry.by, entry.reason)
    if entry.scope == REDUCED_SCOPE:
        is_begun = to_state is RunState.HALTED
        now_is = say("REDUCING: no buys, sells continue" if is_begun else "buying again")
        return [line(at, "PAUSED" if is_begun else "RESUMED", f"{by} · {now_is}" if by else now_is)]
    if ":" in entry.scope:
        return []  # its ALERT says it
    if entry.scope != "all":
        return [line(at, _STATE_KINDS.get(to_state, "RESUMED"), by)]
    if to_state is RunState.NEEDS_2FA:
        return _paused_for_token(memory, entry)
    if to_state is RunState.RUNNING:
        paused_at, memory.paused_at = memory.paused_at, None
        if entry.from_state is RunState.STARTING:
            return [line(at, "RUNNING", say(entry.reason))]
        paused = ""
        # A lost journal says itself for how long it was lost; market time may have stood still.
        if paused_at is not None and entry.by != _BY_JOURNAL:
            paused = f" · {say('paused {span}', span=span_of(at - paused_at))}"
        is_new_token = entry.from_state is RunState.NEEDS_2FA
        proof = f" · {say('unproven until the first order')}" if is_new_token else ""
        return [line(at, "RESUMED", f"{by}{paused}{proof}")]
    if memory.paused_at is None and to_state in _PAUSES:
        memory.paused_at = at
    if to_state is RunState.STOPPING and entry.by == "demo":
        return [line(at, "DEMO", f"{say(entry.reason)} · {say('stopping cleanly')}")]
    lines = []
    ready = memory.ready
    if ready and ready.at == at and entry.from_state is RunState.NEEDS_2FA:
        lines.append(line(at, "2FA", f"ok {ready.detail}"))  # something else still stops trading
    if to_state is RunState.DEGRADED:
        why = (
            f"the broker can't be read: {entry.reason}" if entry.by == _BY_BROKER else entry.reason
        )
        by = say(why)
    lines.append(line(at, _STATE_KINDS[to_state], by))
    if to_state is RunState.HALTED:
        memory.halted_by = entry.by
        lines.append(more(say(_halt_words(memory))))
    return lines


def _halt_words(memory: Memory) -> str:
    return KEPT_OPEN if memory.halted_by == _BY_ENGINE else LEAVE_HALT


def _paused_for_token(memory: Memory, entry: StateChanged) -> Lines:
    memory.paused_at, say = entry.at, phrases(memory.language)
    needed = memory.needed
    intent = memory.intents.get(needed.intent_id or "") if needed else None
    if needed is None:
        why = entry.reason
    elif intent is None:
        why = f"needs 2FA · {needed.code}: {needed.detail}"
    else:
        order = order_words(side=intent.side, quantity=intent.quantity, symbol=intent.symbol)
        why = f"needs 2FA · 403 {needed.code} on {intent.intent_id} ({order}) · not sent again"
    lines = [
        line(entry.at, "PAUSED", say(why)),
        more(say("Stopped: new orders, changes, cancels. Still on: quotes, positions, journal.")),
    ]
    listed = []
    for row in memory.status_line.open_orders():
        left = row.quantity - row.executed_quantity
        order = order_words(side=row.side, quantity=left, symbol=row.symbol)
        listed.append(f"{row.order_id} {order}")
    if listed:
        orders = counted(len(listed), "open order")
        lines.append(more(say(f"{orders} can't be cancelled until then: {', '.join(listed)}")))
    return [*lines, more(say(f"To continue: {memory.otp}, or answer the question here"))]


def switch_lines(memory: Memory, entry: StrategySwitched) -> Lines:
    kinds = {"on": "RESUMED", "paused": "PAUSED", "warming": "SKIP"}
    text = _who(phrases(memory.language), entry.by, entry.reason) or entry.state
    if entry.state not in kinds and text != entry.state:
        text = f"{entry.state}: {text}"
    return [line(entry.at, kinds.get(entry.state, "ALERT"), text, entry.strategy)]


def _nearest(memory: Memory, pulse: Note) -> str:
    """The strategy nearest to a signal since the last pulse; if unknown and nothing was requested,
    the most frequent reason for that.
    """
    gaps, reasons = dict(memory.gaps), dict(memory.reasons)
    memory.gaps.clear()
    memory.reasons.clear()
    if gaps:
        (strategy, symbol), gap = min(gaps.items(), key=lambda item: item[1])
        return f"nearest {strategy} {symbol} gap {gap:.2f}%"
    if not reasons or pulse.numbers.get("signals"):
        return ""
    (strategy, _, _), (times, why) = max(reasons.items(), key=lambda item: item[1][0])
    return f"mostly {strategy} {why} ({times}x)"


def note_lines(memory: Memory, entry: Note) -> Lines:
    """The lines of a note; quotes and short waits get one only now and then."""
    kind, code = NOTE_KINDS.get(entry.kind, entry.kind), str(entry.numbers.get("alert") or "")
    if code == "TWO_FACTOR_NEEDED" and entry.at == memory.paused_at:
        left, a_day = entry.numbers.get("codes_left"), entry.numbers.get("codes_a_day")
        # The lines of the pause have just said everything else.
        text = phrases(memory.language)(f"{left} of the day's {a_day} codes left")
        return [more(text)] if a_day else []
    text = told(memory.language, entry.text, code, entry.numbers)
    is_usual = entry.kind == CODE_NOTE and not entry.numbers.get("changed")
    if entry.kind in {CLOSE_NOTE, LIMITS_NOTE, NOTICE_NOTE} or is_usual:  # for the next start
        return []
    if entry.kind == "QUOTE":
        symbol = entry.symbol or ""
        last = memory.quoted.get(symbol)
        if last is not None and (entry.at - last).total_seconds() < QUOTE_EVERY_S:
            return []
        memory.quoted[symbol] = entry.at
    elif entry.kind == "LIMIT":
        until, waiting = entry.numbers.get("until"), entry.numbers.get("waiting")
        before = memory.limited_at
        ends = datetime.fromisoformat(until) if isinstance(until, str) else None
        waits = ends - entry.at if ends else LIMIT_LONG
        is_due = before is None or entry.at - before >= LIMIT_EVERY
        if waits < LIMIT_LONG and not (is_due and waits >= LIMIT_SHORT):
            return []
        memory.limited_at = entry.at
        if ends:
            text += f", waiting until {clock_of(ends)}"
            if isinstance(waiting, int) and waiting:
                text += f", {counted(waiting, 'call')} queued"
    elif entry.kind == "PULSE" and (nearest := _nearest(memory, entry)):
        pulse = line(entry.at, kind, text)
        whole = f"{pulse} · {nearest}"
        return [whole] if len(whole) <= LINE_MAX else [pulse, more(nearest)]
    return [line(entry.at, kind, text)]
