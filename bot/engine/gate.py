"""Keeps orders back: the bot's gate, the switch of a strategy, the halt after a fault of ours.

Causes close the gate and go away one by one; the state that is shown is the strongest cause's, so
that a token cannot end a halt. Every change of the one-word state is journalled.

An exception inside the engine halts entries, and the bot goes on: it reads, cancels and listens.
Each step is tried on its own: the bars, an event's handler, each hook, each deadline, each row of a
day order book, each order taken over at a start. What raises ends its step; what the step had
recorded before is kept, and the steps behind it are made all the same. So a fault that stays costs
its step and no more, and none can end the process or its next start. Nothing is sent until an
operator resumes.

EngineError           what can go wrong in the engine: our own bugs only
└── IllegalMove       a state machine was asked for a move that its table does not have
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Final, ParamSpec

from bot.domain.entry import FAULT_NOTE, RunState, StateChanged, StrategySwitched
from bot.domain.errors import Fault
from bot.domain.machine import clock_words
from bot.domain.message import (
    BrokerHealthChanged,
    ClockOffsetChanged,
    FaultFound,
    JournalHealthChanged,
)
from bot.domain.order import Side
from bot.domain.outcome import LACKS_2FA
from bot.engine.state import (
    BY_BROKER,
    BY_CLOCK,
    BY_ENGINE,
    BY_JOURNAL,
    LASTING,
    PRIORITY,
    Cause,
    State,
)
from bot.engine.tracked import StrategyState, TrackedFault
from bot.engine.watched import Standing

REFUSAL_CODES: Final = {
    RunState.STOPPING: "STOPPING",
    RunState.HALTED: "HALTED",
    RunState.STARTING: "STARTING",
    RunState.NEEDS_2FA: LACKS_2FA,
    RunState.DEGRADED: "DEGRADED",
    RunState.PAUSED: "PAUSED",
}
"""What a request is refused with while the gate is closed."""

ON: Final = "on"
PAUSED: Final = "paused"
DISABLED: Final = "disabled"
BY_LIMIT: Final = "limit"
PAUSED_FOR_TODAY: Final = (PAUSED, BY_LIMIT)
"""State and author of a strategy that its own limit has paused: until the next day."""

WARN_OFFSET: Final = timedelta(seconds=5)
"""A clock that is further off than this is told of: so far are orders sent, but it gets worse."""
ENGINE_FAULT: Final = "engine fault"
DENIED_JOURNAL: Final = "DENIED_JOURNAL"
"""The code of a request that is refused because nothing can be written."""
JOURNAL_LOST_MAX: Final = 3
JOURNAL_LOST_SPAN: Final = timedelta(minutes=30)
"""A journal that is lost so often in so long halts entries."""


class EngineError(Exception):
    """Root of the engine's errors."""


class IllegalMove(EngineError):
    """A move that is absent from its table. `subject` is the intent or order."""

    def __init__(self, subject: str, from_state: str, to_state: str) -> None:
        super().__init__(f"{subject}: {from_state} to {to_state} is not a legal move")
        self.subject = subject


# ---------------------------------------------------------------------------------------- the gate


def refusal(state: State) -> tuple[str, str]:
    """Return code and reason of a closed gate."""
    run_state = state.gate.state
    cause = state.gate.causes[run_state]
    is_degraded = run_state is RunState.DEGRADED  # a halt or pause taken over has the same author
    is_unwritten = (is_degraded and cause.by == BY_JOURNAL) or cause.code == DENIED_JOURNAL
    return DENIED_JOURNAL if is_unwritten else REFUSAL_CODES[run_state], cause.reason


def close(state: State, run_state: RunState, reason: str, by: str, code: str = "") -> None:
    """Add a cause that closes the gate, or renew it."""
    before = state.gate.causes.get(run_state)
    since = before.since if before else state.now
    state.gate.causes[run_state] = Cause(reason, by, code, since)
    _announce(state, reason, by)


def lift(state: State, run_state: RunState, reason: str, by: str) -> None:
    """Take a cause away; the next strongest one, if any, now shows."""
    if state.gate.causes.pop(run_state, None) is not None:
        _announce(state, reason, by)


def _announce(state: State, reason: str, by: str) -> None:
    """Journal the state when it has changed, and a halt or pause of an operator's that it hides."""
    gate = state.gate
    before, kept_before = gate.state, gate.kept
    gate.state = next((each for each in PRIORITY if each in gate.causes), RunState.RUNNING)
    gate.kept = next((each for each in LASTING if each in gate.causes), RunState.RUNNING)
    shown = gate.causes.get(gate.state) or Cause(reason, by)
    gate.reason = shown.reason
    if gate.state is not before:
        state.record(StateChanged(state.now, before, gate.state, shown.reason, shown.by))
        gate.since = state.now
    if gate.kept is not kept_before and gate.kept is not gate.state:
        state.record(StateChanged(state.now, kept_before, gate.kept, reason, by, scope="operator"))


def on_broker_health(state: State, event: BrokerHealthChanged) -> None:
    """No new orders while reads fail: the market and account they would meet are not known."""
    degrade(state, BY_BROKER, event.detail, is_over=event.is_healthy)


def on_journal_health(state: State, event: JournalHealthChanged) -> None:
    """No new orders while nothing can be written: none leaves that is not in the journal. What
    fails again and again is left to a person.
    """
    lost = state.gate.journal_lost
    if not event.is_healthy and BY_JOURNAL not in state.gate.troubles:
        lost[:] = [at for at in lost if state.now - at < JOURNAL_LOST_SPAN] + [state.now]
    degrade(state, BY_JOURNAL, event.detail, is_over=event.is_healthy)
    if len(lost) >= JOURNAL_LOST_MAX and RunState.HALTED not in state.gate.causes:
        minutes = round(JOURNAL_LOST_SPAN.total_seconds() / 60)
        text = (
            f"the journal could not be written {len(lost)} times in {minutes} minutes, the last "
            f"time because {event.detail}. No new order is sent any more; open orders stay; "
            "cancels and halt work. Find out what is wrong with disk or database (bot db check), "
            "then: bot resume --reason …"
        )
        detail = event.detail
        state.alert(
            "JOURNAL_LOST", text, {"times": len(lost), "minutes": minutes, "detail": detail}
        )
        why = f"the journal could not be written {len(lost)} times"
        close(state, RunState.HALTED, why, BY_ENGINE, DENIED_JOURNAL)
        lost.clear()


def on_clock_offset(state: State, event: ClockOffsetChanged) -> None:
    """No new orders while our clock is so far off that a lost one could not be told by its time."""
    offset, most, before = event.offset, state.settings.clock_max_offset, state.gate.skew
    seconds = round(offset.total_seconds())
    state.gate.skew = offset if abs(offset) >= WARN_OFFSET else None
    if state.gate.skew is not None:
        told = _skew(offset, most)
        state.alert(told.code, told.text, told.facts)
    elif before is not None:
        state.note("RESUME", "our clock agrees with the broker's again", {"offset_s": seconds})
    degrade(state, BY_CLOCK, clock_words(offset), is_over=abs(offset) < most)


def alerts(state: State) -> Iterable[Standing]:
    """Return how wrong our clock is, where it is."""
    skew = state.gate.skew
    return () if skew is None else (_skew(skew, state.settings.clock_max_offset),)


def _skew(offset: timedelta, most: timedelta) -> Standing:
    seconds, most_s = round(offset.total_seconds()), round(most.total_seconds())
    is_over = abs(offset) >= most
    now_is = "no order is sent and cancels go on" if is_over else "orders still go on"
    text = (
        f"{clock_words(offset)}: {now_is} (from {most_s} s on none is sent). "
        "Set the clock of this machine, find out why it is not synchronised, and restart the bot"
    )
    facts = {
        "offset_s": seconds,
        "off_s": abs(seconds),
        "is_behind": seconds > 0,
        "limit_s": most_s,
        "are_orders_held": is_over,
    }
    return Standing("CLOCK_OFFSET", text, facts)


def degrade(state: State, by: str, detail: str, *, is_over: bool) -> None:
    """The end of one trouble is not the end of the other; the journal's is the one that shows."""
    troubles = state.gate.troubles
    if is_over and troubles.pop(by, None) is None:
        return
    if not is_over:
        troubles[by] = detail
    if troubles:
        shown = max(troubles, key=lambda name: name == BY_JOURNAL)
        close(state, RunState.DEGRADED, troubles[shown], shown)
    else:
        lift(state, RunState.DEGRADED, detail, by)


# ------------------------------------------------------------------------- the switch of a strategy


def switch(state: State, strategy: StrategyState, to_state: str, reason: str, by: str) -> None:
    """Journal the switch when it is a change; the count of faults begins again."""
    if strategy.state == to_state:
        return
    strategy.state, strategy.state_reason, strategy.state_by = to_state, reason, by
    strategy.faults = 0
    if to_state == ON:
        strategy.repeats.clear()
    state.record(StrategySwitched(state.now, strategy.plan.name, to_state, reason, by))


def objection(strategy: StrategyState, side: Side) -> str | None:
    """Return why no order of a strategy may leave; None: it may.

    After its own limit has paused a strategy its sales may still leave: the limit lets exits out.
    """
    is_exit = side is Side.SELL
    if strategy.state == ON or (
        is_exit and (strategy.state, strategy.state_by) == PAUSED_FOR_TODAY
    ):
        return None
    reason = f": {strategy.state_reason}" if strategy.state_reason else ""
    return f"{strategy.plan.name} is {strategy.state}{reason}"


# --------------------------------------------------------------------------------- our own faults


P = ParamSpec("P")


def guarded(
    state: State, where: str, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs
) -> bool:
    """Make a step; False when it has raised: entries are halted then."""
    fault = state.guard(partial(step, *args, **kwargs))
    if fault is not None:
        halt(state, where, fault)
    return fault is None


def on_fault_found(state: State, event: FaultFound) -> None:
    """A shell has caught it: while it carried a command out, or at work of its own."""
    halt(state, event.where, event.fault)


def halt(state: State, where: str, fault: Fault) -> None:
    """Halt entries and report the fault; a further one of the same kind is only counted."""
    known = state.faults.get(fault.kind)
    if known is not None and not known.is_of_before:
        known.count += 1
        return
    state.faults[fault.kind] = TrackedFault(state.now, where, fault)
    kept = f" Report: {fault.report}" if fault.report else ""
    text = (
        f"{fault.error} (in {where}). This is a bug of ours: no new order is sent until you resume"
        f" with a reason; open orders stay, and can be cancelled.{kept}"
    )
    if fault.invariant:
        text = _broken_words(fault, kept)
        facts = {"invariant": fault.invariant, "found": fault.error, "report": fault.report}
        state.alert("INVARIANT_BROKEN", text, facts)
    facts = {"where": where, "error": fault.error, "report": fault.report}
    facts |= {"kind": fault.kind, "trace": fault.trace, "invariant": fault.invariant}
    state.note(FAULT_NOTE, text, {"alert": "ENGINE_FAULT", **facts})
    if RunState.HALTED not in state.gate.causes:
        close(state, RunState.HALTED, ENGINE_FAULT, BY_ENGINE, fault.invariant)


def _broken_words(fault: Fault, kept: str) -> str:
    found = fault.error.partition(": ")[2] or fault.error
    return (
        f"invariant {found}. What the bot believes contradicts itself, by a bug of ours or because "
        "something else writes its data: no new order is sent; open orders stay, cancels go on. "
        "Compare the open orders with the broker's app (bot orders), cancel what you do not want, "
        f"keep the report, then: bot resume --reason …{kept}"
    )
