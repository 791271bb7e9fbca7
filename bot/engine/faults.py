"""An exception inside the engine halts entries. The bot goes on: it reads, cancels and listens.

Each step is tried on its own: the bars, an event's handler, each hook, each deadline, each row of a
day order book, each order taken over at a start. What raises ends its step; what the step had
recorded before is kept, and the steps behind it are made all the same. So a fault that stays costs
its step and no more, and none can end the process or its next start. Nothing is sent until a person
resumes.
"""

from collections.abc import Callable
from typing import Final, ParamSpec

from bot.domain.entry import RunState
from bot.domain.fault import Fault, FaultFound
from bot.engine import gatekeeping
from bot.engine.gate import BY_ENGINE, Cause
from bot.engine.state import State
from bot.engine.tracked import TrackedFault

ENGINE_FAULT: Final = "engine fault"

P = ParamSpec("P")


def guarded(
    state: State, where: str, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs
) -> bool:
    """Make a step; False when it has raised: entries are halted then."""
    fault = state.guard(lambda: step(*args, **kwargs))
    if fault is not None:
        halt(state, where, fault)
    return fault is None


def on_fault_found(state: State, event: FaultFound) -> None:
    """A shell has caught it: while it carried a command out, or at work of its own."""
    halt(state, event.where, event.fault)


def halt(state: State, where: str, fault: Fault) -> None:
    """Halt entries and tell of the fault; one of a kind that is known is only counted."""
    known = state.faults.get(fault.kind)
    if known is not None:
        known.count += 1
        return
    state.faults[fault.kind] = TrackedFault(state.now, where, fault)
    kept = f" Report: {fault.report}" if fault.report else ""
    text = (
        f"{fault.error} (in {where}). This is a bug of ours: no new order is sent until you resume"
        f" with a reason; open orders stay, and can be cancelled.{kept}"
    )
    state.note("FAULT", text, {"where": where, "kind": fault.kind, "trace": fault.trace})
    if RunState.HALTED not in state.gate.causes:
        gatekeeping.close(state, RunState.HALTED, Cause(ENGINE_FAULT, BY_ENGINE))
