"""P8: whatever raises in a handler, entries halt and the bot goes on: it cancels and it polls."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from bot.domain.entry import Note, RunState
from bot.domain.message import CancelOrder, Event, ReadTodaysOrders
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import Intent
from bot.engine.engine import HANDLERS
from tests.engine.stage import Stage, report_of
from tests.engine.test_faults import caught
from tests.faults.strikes import STRIKES
from tests.rows import every_row

RAISING_MIN = 20
"""At least this many handlers look at more than the time, and raise; the others only record."""


class Raises:
    """A value that none of our code has foreseen: whatever looks at it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("planted")

    def __bool__(self) -> bool:
        raise RuntimeError("planted")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("planted")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("planted")

    def __hash__(self) -> int:
        raise RuntimeError("planted")


def _planted(kind: type[Event], stage: Stage) -> Event:
    """An event of a kind whose fields raise, except its time and the operator's target."""
    event: Event = object.__new__(kind)
    known = {"at": stage.now, "symbol": None, "strategy": None}
    for field in fields(kind):
        is_known = field.name == "at" or (kind is OperatorActed and field.name in known)
        object.__setattr__(event, field.name, known[field.name] if is_known else Raises())
    return event


def _struck(kind: type[Event]) -> tuple[Stage, Intent, list[Note]]:
    """A bot with an order at the broker that has met such an event three times."""
    stage = Stage(guard=caught)
    intent = stage.working()
    for _ in range(3):
        stage.after(1).handle(_planted(kind, stage))
    return stage, intent, [note for note in stage.all(Note) if note.kind == "FAULT"]


@every_row("kind", [*HANDLERS])
def test_a_handler_that_raises_keeps_no_poll_and_no_cancel_of_a_halt_back(
    kind: type[Event],
) -> None:
    stage, intent, told = _struck(kind)

    stage.pass_time(30)
    polled = stage.new(ReadTodaysOrders)
    stage.token()
    stage.handle(OperatorActed(stage.now, Action.HALT, "by hand", "operator"))
    stage.row(report_of(intent))
    stage.pass_time(3)

    assert polled
    assert [each.order_id for each in stage.all(CancelOrder)] == ["ORD1"]
    assert len({note.text for note in told}) == len(told), "each fault is told once"


def test_a_handler_that_raises_halts_entries(
    record_property: Callable[[str, object], None],
) -> None:
    struck = {kind: _struck(kind) for kind in HANDLERS}

    raised = {kind: stage for kind, (stage, _, told) in struck.items() if told}
    assert len(raised) >= RAISING_MIN
    assert {stage.engine.status().state for stage in raised.values()} == {RunState.HALTED}
    record_property(STRIKES, sum(len(told) for _, _, told in struck.values()))
