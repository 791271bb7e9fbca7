"""What an operator does to the bot: pause, resume, halt, stop; all of it or one strategy."""

from collections.abc import Callable, Mapping
from typing import Final

from bot.domain.entry import RunState
from bot.domain.message import Action, OperatorActed, StopRunning
from bot.domain.order import SendState
from bot.engine import gatekeeping, switches, wake
from bot.engine.gate import Cause
from bot.engine.orders import cancels, held
from bot.engine.risk.profit import note_holdings
from bot.engine.state import Book
from bot.engine.tracks import Runner

_SWITCHES: Final[Mapping[Action, str]] = {
    Action.PAUSE: switches.PAUSED,
    Action.RESUME: switches.ON,
    Action.HALT: switches.DISABLED,
}
_IN_FLIGHT: Final = frozenset({SendState.READY, SendState.SENDING, SendState.UNKNOWN})


def on_operator(book: Book, event: OperatorActed) -> None:
    """Do what an operator asks for."""
    if event.strategy is None:
        ACTIONS[event.action](book, event)
        return
    runner = book.runners.get(event.strategy)
    if runner is None or event.action not in _SWITCHES:
        book.note("ALERT", f"{event.action} {event.strategy}: there is no such strategy or switch")
        return
    switches.switch(book, runner, _SWITCHES[event.action], event.reason, event.by)
    runner.sweeps = ""
    if event.action is Action.HALT:
        held.expire_held(book, at_once="halted", code="HALTED", strategy=event.strategy)
    if event.action is Action.HALT or event.cancel_open:
        _cancel_of(book, runner, event.reason or event.action)


def _cancel_of(book: Book, runner: Runner, reason: str) -> None:
    runner.sweeps = reason
    for symbol in runner.seats:
        for order in book.working_orders(runner.plan.name, symbol):
            cancels.request(book, order, reason)


def _pause(book: Book, event: OperatorActed) -> None:
    gatekeeping.close(book, RunState.PAUSED, Cause(event.reason, event.by))
    if event.cancel_open:
        cancels.request_all(book, event.reason or "pause")


def _resume(book: Book, event: OperatorActed) -> None:
    """Leave PAUSED, and HALTED when a reason is given; halted symbols trade again with it."""
    cause = Cause(event.reason, event.by)
    is_halted = RunState.HALTED in book.gate.causes or bool(book.halted_symbols)
    if is_halted and not event.reason.strip():
        book.note("ALERT", "resume after a halt needs a reason; nothing was changed")
        return
    gatekeeping.lift(book, RunState.PAUSED, cause)
    gatekeeping.lift(book, RunState.HALTED, cause)
    book.gate.sweeps = ""
    book.faults.clear()
    book.resume_symbols(event.reason, event.by)


def _halt(book: Book, event: OperatorActed) -> None:
    """Block first, then cancel every open order of ours; positions are kept."""
    gatekeeping.take_over(book, RunState.HALTED, Cause(event.reason, event.by))
    held.expire_held(book, at_once="halted", code="HALTED")
    cancels.request_all(book, "halt")
    blocked = cancels.blocked(book)
    if blocked:
        text = f"can't be cancelled without a 2FA token: {', '.join(blocked)}"
        book.note("ALERT", text, {"orders": len(blocked)})


def _stop(book: Book, event: OperatorActed) -> None:
    """Take no more signals; the shell may end once what is in flight has an outcome."""
    if RunState.STOPPING in book.gate.causes:
        return
    gatekeeping.close(book, RunState.STOPPING, Cause(event.reason, event.by))
    for runner in book.runners.values():
        for seat in runner.seats.values():
            wake.wake(book, runner, seat, "on_stop", None)
    held.expire_held(book, at_once="stopped", code="STOPPING")
    note_holdings(book)
    if event.cancel_open:
        cancels.request_all(book, "stop")


ACTIONS: Final[Mapping[Action, Callable[[Book, OperatorActed], None]]] = {
    Action.PAUSE: _pause,
    Action.RESUME: _resume,
    Action.HALT: _halt,
    Action.STOP: _stop,
}


def stop_if_settled(book: Book) -> None:
    """Say once that the shell may end."""
    gate = book.gate
    if RunState.STOPPING not in gate.causes or gate.has_stopped:
        return
    is_in_flight = any(track.state in _IN_FLIGHT for track in book.intents.values())
    now_cancelling = [one for one in book.cancels.values() if one.queued_until is None]
    is_cancelling = bool(now_cancelling) and not gate.lacks_token
    if not is_in_flight and not is_cancelling:
        gate.has_stopped = True
        _name_what_is_left(book)
        book.command(StopRunning(gate.causes[RunState.STOPPING].reason))


def _name_what_is_left(book: Book) -> None:
    """Orders whose cancel has to wait for a token or a phase go on working without the bot."""
    if book.cancels:
        ids = ", ".join(sorted(book.cancels))
        text = f"stopped before these could be cancelled: {ids}"
        book.note("ALERT", text, {"orders": len(book.cancels)})
