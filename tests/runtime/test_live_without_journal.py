"""The live loop while its journal is out of reach: what goes ahead, and what waits."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from pathlib import Path

import pytest

from bot.domain.entry import Note, RunState, StateChanged
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    BurnNonce,
    CancelOrder,
    Command,
    Event,
    JournalHealthChanged,
    ReadAccount,
    Record,
    TimerFired,
    TodaysOrdersRead,
)
from bot.domain.operations import Action, OperatorActed
from bot.domain.outcome import NotSent
from bot.journal.writing.emergency import EmergencyJournal
from bot.runtime import live
from tests.runtime.test_live import NOW, Room, _room

HALT = OperatorActed(NOW, Action.HALT, "wrong prices", "operator")
BOOK = TodaysOrdersRead(NOW, "a", (), NOW)
MARKET = TimerFired(NOW, "test", time(9, 30))
CANCEL = CancelOrder("ORD1", "L-0001", "a", "halt")
AMEND = AmendOrder("ORD1", "L-0001", "a", 26_000, None, "by hand")
HALTED = StateChanged(NOW, RunState.RUNNING, RunState.HALTED, "wrong prices", "operator")


def note(text: str) -> Record:
    return Record(Note(NOW, "PULSE", text))


@dataclass
class Scripted:
    """An engine that has one answer for each kind of event."""

    answers: Mapping[type[Event], list[Command]]
    seen: list[Event] = field(default_factory=list)
    is_behind: bool = False

    def handle(self, event: Event) -> list[Command]:
        self.seen.append(event)
        return self.answers.get(type(event), [])

    def next_due(self) -> datetime | None:
        return None


@pytest.fixture
async def room(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Room]:
    made = await _room(tmp_path, sqlite_url)
    yield made
    await made.stage.strike()


async def _cut(room: Room, engine: Scripted, first: Event) -> asyncio.Task[None]:
    """Have the loop hang at the commit of what the first event gives."""
    room.loop._engine = engine  # type: ignore[assignment]
    room.journal.gate.clear()
    room.inbox.post(first)
    hanging = asyncio.create_task(room.loop.step())
    await room.journal.written.wait()
    room.loop._commits.lose("it hangs")
    await _turns()
    return hanging


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def _answers_again(room: Room, hanging: asyncio.Task[None]) -> None:
    room.journal.gate.set()
    await hanging
    while room.loop._commits.is_cut or room.inbox.has_more:
        await room.loop.step()
    await room.loop.finish()


def _shown(room: Room) -> list[str]:
    return [entry.text for entry, _ in room.shown if isinstance(entry, Note)]


async def test_reads_and_cancels_go_ahead_and_all_else_waits_for_the_journal(room: Room) -> None:
    decided: list[Command] = [note("1"), AMEND, BurnNonce("L-0001"), ReadAccount("poll"), CANCEL]
    hanging = await _cut(room, Scripted({OperatorActed: decided}), HALT)

    begun, shown = list(room.begun), list(room.shown)
    await _answers_again(room, hanging)

    assert (begun, shown) == ([ReadAccount("poll"), CANCEL], [])
    assert room.begun[2:] == [BurnNonce("L-0001")]


async def test_an_amendment_that_waited_is_answered_and_never_sent(room: Room) -> None:
    engine = Scripted({OperatorActed: [note("1"), AMEND]})

    await _answers_again(room, await _cut(room, engine, HALT))

    [answered] = [event for event in engine.seen if isinstance(event, AmendAnswered)]
    assert isinstance(answered.outcome, NotSent)
    assert room.begun == []


async def test_only_the_market_waits_and_all_is_shown_in_its_order(room: Room) -> None:
    engine = Scripted(
        {OperatorActed: [note("1")], TodaysOrdersRead: [note("2")], TimerFired: [note("3")]}
    )
    hanging = await _cut(room, engine, HALT)
    for event in (MARKET, BOOK, replace(BOOK, account="b")):
        room.inbox.post(event)
    await _turns()

    seen = [type(event) for event in engine.seen]
    kept = [entry.text for entry in room.loop.unwritten if isinstance(entry, Note)]
    await _answers_again(room, hanging)

    assert seen == [OperatorActed, JournalHealthChanged, TodaysOrdersRead, TodaysOrdersRead]
    assert kept == ["1", "2", "2"]
    assert _shown(room) == ["1", "2", "2", "3"]
    assert type(engine.seen[-1]) is TimerFired


async def test_the_file_stays_until_the_last_of_what_it_holds_is_stored(room: Room) -> None:
    engine = Scripted({OperatorActed: [note("1")], TodaysOrdersRead: [Record(HALTED)]})
    hanging = await _cut(room, engine, HALT)
    room.inbox.post(BOOK)
    await _turns()
    room.journal.gate.set()

    await hanging
    was_cut = room.loop._commits.is_cut
    await room.loop.step()

    assert (was_cut, room.loop._commits.is_cut) == (True, False)
    assert [type(entry) for entry, _ in room.shown] == [Note, StateChanged]


async def test_with_too_much_held_back_reads_wait_and_operators_do_not(room: Room) -> None:
    engine = Scripted({OperatorActed: [note("1")], TodaysOrdersRead: [note("2")] * live.HELD_MAX})
    hanging = await _cut(room, engine, HALT)
    for event in (BOOK, replace(BOOK, account="b")):
        room.inbox.post(event)
        await _turns()
    room.inbox.post(HALT)
    await _turns()

    assert [type(event) for event in engine.seen[2:]] == [TodaysOrdersRead, OperatorActed]
    hanging.cancel()


async def test_a_halt_is_on_a_disk_while_the_journal_hangs(room: Room, tmp_path: Path) -> None:
    hanging = await _cut(room, Scripted({OperatorActed: [Record(HALTED)]}), HALT)
    await room.loop._commits._keep([])
    assert EmergencyJournal(tmp_path).read().entries == (HALTED,)
    await _answers_again(room, hanging)
    await room.loop._commits._forget()
    assert EmergencyJournal(tmp_path).read().entries == ()
    assert await room.stage.journal.take_over([HALTED]) == 0


async def test_a_failure_keeps_once_what_was_kept_as_the_journal_was_lost(
    room: Room, tmp_path: Path
) -> None:
    """Of two halts, one was decided before the journal was lost, and one is not looked at yet."""
    hanging = await _cut(room, Scripted({OperatorActed: [Record(HALTED)]}), HALT)
    later = replace(HALTED, reason="decided since")
    last = replace(HALTED, at=NOW + timedelta(seconds=1), reason="and again")
    room.loop._decided += [(NOW, Record(later)), (last.at, Record(last))]

    await room.loop.keep_rest()

    # one line for each event: one that the journal refuses costs no other
    assert EmergencyJournal(tmp_path).read().lines == ((HALTED,), (later,), (last,))
    hanging.cancel()
